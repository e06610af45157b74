"""Which keys of the past has this member been handed, for a reader that was away?

A recording broker asks while a durable subscription catches up with what was
sealed in epochs that are over. Keys are held until no subscriber is behind any more,
and then destroyed again. That a manager has no key of an epoch for this member
is remembered as well, so that it is asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal, SignedCertificate, certificate_from_bytes, certificate_to_bytes
from maia.errors import ProtocolViolation
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, AttributeUid, Instant
from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.keys.delivery import EncryptionKey
from maia.sealing.keys.history import PastAnswer, PastEpoch
from maia.sealing.keys.secrets import Secret
from maia.types import VerifiedType, definition_to_bytes
from maia.wire.messages import HistoryKeys, HistoryKeysReply, KeyTermsRecord, Writer

_EPOCHS_MAX: Final = 4096
"""Epochs, of all types, that are held at once; the oldest answers go first."""
_ASKED_MAX: Final = 1024


def history_question(
    number: int,
    versions: Sequence[VerifiedType],
    credentials: Sequence[SignedCertificate],
    shown: EncryptionKey,
    *,
    since: Instant,
    until: Instant,
    after: int,
) -> HistoryKeys:
    """Return the question for keys of epochs behind number `after`, between two moments."""
    return HistoryKeys(
        number,
        [definition_to_bytes(version.signed) for version in versions],
        [certificate_to_bytes(signed) for signed in credentials],
        shown.key,
        shown.signature,
        int(since),
        int(until),
        after,
    )


class PastOpening:
    """The keys of one epoch that is over, and what they may have sealed."""

    __slots__ = ("_epoch", "_terms", "keys")

    def __init__(self, type_id: bytes, epoch: PastEpoch, terms: KeyTermsRecord) -> None:
        """Hold what a manager handed out."""
        self._epoch, self._terms = epoch, terms

        def lookup(uid: AttributeUid | None) -> Secret | None:
            return epoch.keys.get(uid)

        self.keys = EpochKeys(type_id, epoch.span.number, lookup)

    def is_of_its_time(self, *, published_at: int, recorded_at: int) -> bool:
        """Say whether something may have been sealed in this epoch: an old key seals nothing new (A50)."""
        span, slack = self._epoch.span, self._terms.back_dating_s * SECOND
        in_time = span.since - slack <= published_at <= span.ends + slack
        return in_time and recorded_at <= span.ends + max(slack, self._terms.drift_s * SECOND)

    def wipe(self) -> None:
        """Destroy the keys."""
        self.keys.forget()
        for key in self._epoch.keys.values():
            key.wipe()


class MemberPast:
    """What one member was handed of the past, and what it waits for."""

    __slots__ = ("_asked", "_found")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._asked: BoundedMap[int, tuple[bytes, int]] = BoundedMap(_ASKED_MAX)
        self._found: BoundedMap[tuple[bytes, int], PastOpening | None] = BoundedMap(
            _EPOCHS_MAX, evicted=_wipe
        )

    def is_answered(self, type_id: bytes, epoch: int) -> bool:
        """Say whether it is known what there is of an epoch."""
        return (type_id, epoch) in self._found

    def opening(self, type_id: bytes, epoch: int) -> PastOpening | None:
        """Return what opens an epoch, if it was handed out."""
        return self._found.get((type_id, epoch))

    def is_asking(self, type_id: bytes) -> bool:
        """Say whether an answer about a type is awaited."""
        return any(one == type_id for one, _ in self._asked.values())

    def ask(
        self,
        number: int,
        epoch: int,
        versions: Sequence[VerifiedType],
        credentials: Sequence[SignedCertificate],
        shown: EncryptionKey,
    ) -> HistoryKeys:
        """Return the question for an epoch and those after it, as many as one answer holds."""
        self._asked.put(number, (versions[-1].type_id, epoch))
        return history_question(
            number,
            versions,
            credentials,
            shown,
            since=Instant(INSTANT_MIN),
            until=Instant(INSTANT_MAX),
            after=max(0, epoch - 1),
        )

    def asked_under(self, number: int) -> bytes | None:
        """Return the type that a question is about."""
        found = self._asked.get(number)
        return None if found is None else found[0]

    def receive(self, message: HistoryKeysReply, answer: PastAnswer) -> None:
        """Hold what a manager has answered."""
        type_id, epoch = self._asked.pop(message.id) or (b"", 0)
        if type_id != message.type_id:
            raise ProtocolViolation("the manager answers a question for old keys that was not asked")
        self._put(type_id, epoch, None)
        for one in answer.epochs:
            self._put(type_id, one.span.number, PastOpening(type_id, one, message.terms))

    def refused(self, number: int) -> bool:
        """Take note that a question was answered with no; say whether it was one of these."""
        found = self._asked.pop(number)
        if found is not None:
            self._put(*found, None)
        return found is not None

    def _put(self, type_id: bytes, epoch: int, opening: PastOpening | None) -> None:
        self._drop((type_id, epoch))
        self._found.put((type_id, epoch), opening)

    def forget(self, type_id: bytes) -> None:
        """Destroy what is held of a type: every subscriber has caught up."""
        for key in [key for key in self._found if key[0] == type_id]:
            self._drop(key)

    def link_lost(self) -> None:
        """Take note that no answer will come any more; a manager that said no is asked again."""
        self._asked.clear()
        for key in [key for key, opening in self._found.items() if opening is None]:
            self._found.pop(key)

    def wipe(self) -> None:
        """Destroy everything."""
        for key in list(self._found):
            self._drop(key)
        self._asked.clear()

    def _drop(self, key: tuple[bytes, int]) -> None:
        _wipe(key, self._found.pop(key))


def _wipe(_: tuple[bytes, int], opening: PastOpening | None) -> None:
    if opening is not None:
        opening.wipe()


# With which certificates does a principal publish, as the type's manager answers?


class MemberWriters:
    """The publishers that this member has answers about, and those that it has asked about."""

    __slots__ = ("_answers", "_asked")

    def __init__(self, remembered_max: int) -> None:
        """Remember so many publishers at most."""
        self._answers: BoundedMap[tuple[bytes, Principal], tuple[SignedCertificate, ...]] = BoundedMap(
            remembered_max
        )
        self._asked: BoundedMap[tuple[bytes, Principal], None] = BoundedMap(_ASKED_MAX)

    def get(self, type_id: bytes, principal: Principal) -> tuple[SignedCertificate, ...] | None:
        """Return a publisher's certificates; None if they have not arrived yet."""
        return self._answers.get((type_id, principal))

    def is_asking(self, type_id: bytes, principal: Principal) -> bool:
        """Say whether an answer about a publisher is awaited."""
        return (type_id, principal) in self._asked

    def ask(self, type_id: bytes, principal: Principal) -> None:
        """Take note that the manager is being asked."""
        self._asked.put((type_id, principal), None)

    def tell(self, message: Writer) -> bool:
        """Remember an answer; say whether it was asked for."""
        about = message.type_id, Principal(message.principal)
        if about not in self._asked:
            return False
        self._asked.pop(about)
        self._answers.put(about, tuple(certificate_from_bytes(one) for one in message.credentials))
        return True

    def link_lost(self) -> None:
        """Take note that no answer will come any more."""
        self._asked.clear()
