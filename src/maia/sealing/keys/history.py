"""Which keys of the past may this reader have?

A pipeline that reads a log asks the type's key manager, if the owner wants
old keys to be kept. The right is that of the time of publication: the key of
an epoch is for principals that could have been in its group at every moment of the
epoch, and the kernel says so from the certificates shown now. What an epoch's
secret would open later is not given away: a reader gets the content key of
each epoch by itself. The present epoch is no history; its keys are for
members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.credentials import (
    Principal,
    SignedCertificate,
    certificate_from_bytes,
    certificate_to_bytes,
    principal_from_bytes,
)
from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.policy.answers import Answers
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.membership import Claim, Grounds, MembershipState, standing
from maia.sealing.groups.welcome import AnswersWritten, read_answers, write_answers
from maia.sealing.keys.key_ring import content_key
from maia.sealing.keys.secrets import Secret

# With which certificates did members of a type publish, since its past is kept?


WRITERS_MAX: Final = 4096
CERTIFICATES_MAX: Final = 64
"""Certificates that are remembered of one member; those that ended first go first."""


class PastWriters:
    """The publishers of what may still be read, and their certificates."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin empty."""
        self._known: dict[Principal, dict[bytes, SignedCertificate]] = {}

    def note(self, principal: Principal, shown: Iterable[SignedCertificate]) -> bool:
        """Remember what a member publishes with; say whether any of it is new."""
        known = self._known.get(principal, {})
        found = known | {signed.id: signed for signed in shown}
        if found.keys() == known.keys() or (not known and len(self._known) >= WRITERS_MAX):
            return False
        kept = sorted(found.values(), key=_ends)[-CERTIFICATES_MAX:]
        self._known[principal] = {signed.id: signed for signed in kept}
        return self._known[principal].keys() != known.keys()

    def of(self, principal: Principal) -> tuple[SignedCertificate, ...]:
        """Return what is remembered of a member."""
        return tuple(self._known.get(principal, {}).values())

    def believed(
        self, *, evicted: Collection[Principal], revoked: Collection[bytes]
    ) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return all publishers, without evicted principals and revoked certificates."""
        left = {
            principal: tuple(signed for key, signed in known.items() if key not in revoked)
            for principal, known in self._known.items()
            if principal not in evicted
        }
        return {principal: shown for principal, shown in left.items() if shown}


def _ends(signed: SignedCertificate) -> int:
    ends = signed.certificate.validity.not_after
    return INSTANT_MAX if ends is None else int(ends)


PAGE_EPOCHS: Final = 256
"""Epochs in one answer; the rest is asked for again."""
STANDINGS_MAX: Final = 1024
"""Periods of a reader's rights that are checked for one answer."""
_KEYS_MAX: Final = 1025
WRITERS_BYTES_MAX: Final = 8 << 20
"""Certificates that fit into one answer; a type with more writers tells the first of them."""

SecretOf: TypeAlias = Callable[[GroupId, int], Secret | None]


class BadPast(ProtocolViolation):
    """What a manager sealed to a reader of the past cannot be read."""

    code = "PROTOCOL-PAST-KEYS"


class HistoryNotKept(Refusal):
    """The keys of this type are destroyed when their time is over."""

    code = "REFUSED-NO-HISTORY"


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """An epoch that is over: from `since` up to, and without, `ends`."""

    number: int
    since: Instant
    ends: Instant


@dataclass(frozen=True, slots=True)
class PastEpoch:
    """The content keys of an epoch that is over, by attribute; None means the type's own group."""

    span: EpochSpan
    keys: Mapping[AttributeUid | None, Secret] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """What a manager tells a reader of the past: keys, and the certificates of those who published."""

    epochs: tuple[PastEpoch, ...]
    writers: Mapping[Principal, tuple[SignedCertificate, ...]] = field(default_factory=dict, repr=False)
    answers: Answers = field(default_factory=dict, repr=False)
    """What the answers are about of which there are keys."""


# ------------------------------------------------------------ what may be handed out


def past_keys(
    spans: Iterable[EpochSpan],
    claim: Claim,
    grounds: Grounds,
    secret_of: SecretOf,
    *,
    trusted_since: Instant | None,
) -> Iterator[PastEpoch]:
    """Yield, for each epoch, the keys of the groups that were open to a claim throughout.

    `trusted_since` is when an evicted principal was admitted again;
    nothing from before is for it.
    """
    rights = _Rights(claim, grounds)
    for span in spans:
        if trusted_since is not None and span.since < trusted_since:
            continue
        keys: dict[AttributeUid | None, Secret] = {}
        for group in sorted(open_epochs(span, rights.at), key=lambda one: one.order):
            secret = secret_of(group, span.number)
            if secret is not None:
                keys[group.uid] = content_key(secret, group, span.number)
        if keys:
            yield PastEpoch(span, keys)


def open_epochs(span: EpochSpan, at: Callable[[Instant], MembershipState | None]) -> frozenset[GroupId]:
    """Return the groups that were open at every moment of an epoch."""
    moment, last = span.since, span.ends - 1
    found: frozenset[GroupId] | None = None
    while moment <= last:
        one = at(moment)
        if one is None:
            return frozenset()
        found = one.groups if found is None else found & one.groups
        if not found or one.until >= INSTANT_MAX:
            break
        moment = Instant(one.until + 1)
    return found or frozenset()


class _Rights:
    """What a claim opens at any moment; each steady period is decided once."""

    __slots__ = ("_claim", "_found", "_grounds", "_starts")

    def __init__(self, claim: Claim, grounds: Grounds) -> None:
        self._claim, self._grounds = claim, grounds
        self._starts: list[int] = []
        self._found: list[MembershipState] = []

    def at(self, moment: Instant) -> MembershipState | None:
        """Return the standing at a moment; None once too many periods were checked."""
        place = bisect_right(self._starts, moment)
        if place and self._found[place - 1].until >= moment:
            return self._found[place - 1]
        if len(self._found) >= STANDINGS_MAX:
            return None
        made = standing(self._claim, self._grounds, moment)
        self._starts.insert(place, made.since)
        self._found.insert(place, made)
        return made


# ------------------------------------------------------------ from the manager to the reader


class _Key(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    uid: Annotated[str, Meta(max_length=64)] | None
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]


class _Epoch(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    since: Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
    ends: Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
    keys: Annotated[list[_Key], Meta(max_length=_KEYS_MAX)]


class _Writer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    shown: Annotated[list[bytes], Meta(max_length=CERTIFICATES_MAX)]


class _Answer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    epochs: Annotated[list[_Epoch], Meta(max_length=PAGE_EPOCHS)]
    writers: Annotated[list[_Writer], Meta(max_length=WRITERS_MAX)]
    answers: AnswersWritten = {}


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Answer)


def past_info(type_id: bytes, *, manager: Principal, reader: Principal) -> bytes:
    """Return what a parcel of past keys is bound to: it cannot be passed off for another type or reader."""
    return b"maia/1/past-keys\x00" + type_id + manager.key + reader.key


def pack_past(answer: PastAnswer) -> bytes:
    """Write an answer, keys and all. The caller seals it."""
    epochs = [
        _Epoch(
            one.span.number,
            int(one.span.since),
            int(one.span.ends),
            [_Key(uid, key.reveal()) for uid, key in one.keys.items()],
        )
        for one in answer.epochs
    ]
    return _ENCODER.encode(_Answer(epochs, list(_writers(answer)), write_answers(answer.answers)))


def _writers(answer: PastAnswer) -> Iterator[_Writer]:
    """Yield who published, as long as there is room in an answer."""
    room = WRITERS_BYTES_MAX
    for principal, shown in sorted(answer.writers.items(), key=lambda one: one[0].key):
        one = _Writer(principal.key, [certificate_to_bytes(signed) for signed in shown])
        room -= sum(map(len, one.shown))
        if room < 0:
            return
        yield one


def unpack_past(data: bytes) -> PastAnswer:
    """Read an answer."""
    try:
        found = _DECODER.decode(data)
        epochs = tuple(
            PastEpoch(
                EpochSpan(one.number, Instant(one.since), Instant(one.ends)),
                {_uid(each.uid): Secret.from_bytes(each.key) for each in one.keys},
            )
            for one in found.epochs
        )
        writers = {
            principal_from_bytes(one.key): tuple(certificate_from_bytes(each) for each in one.shown)
            for one in found.writers
        }
        answers = read_answers(found.answers)
    except (msgspec.MsgspecError, UnicodeDecodeError, MaiaError):
        # What was wrong is not said: the sentence would be about secrets.
        raise BadPast("what the manager sealed to a reader of the past cannot be read") from None
    return PastAnswer(epochs, writers, answers)


def _uid(uid: str | None) -> AttributeUid | None:
    return None if uid is None else AttributeUid(uid)
