"""Which keys of the past has this member been handed, for a reader that was away?

A recording broker asks for an epoch while a durable subscription catches up with
what was sealed in epochs that are over. Keys are held until no subscriber is behind
any more, and then destroyed again. That a manager has no key of an epoch for this
member is remembered as well, so that it is asked once. A reader of a log asks for
all that there is, page by page, and takes it from its `PastReading`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal, SignedCertificate
from maia.errors import MaiaError
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, AttributeUid, Instant
from maia.policy.answers import Said
from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.keys.key_ring import DEFAULT_TERMS, KeyTerms
from maia.sealing.keys.parcels import PastAnswer, PastEpoch
from maia.wire.messages import HistoryKeysReply

_EPOCHS_MAX: Final = 4096
"""Epochs, of all types, that are held at once; the oldest answers go first."""
PAGES_MAX: Final = 4096
"""Answers that are taken from one manager."""


@dataclass(slots=True)
class PastReading:
    """A question for keys of one type between two moments, page by page, and what was answered so far."""

    type_id: bytes
    since: Instant = field(default_factory=lambda: Instant(INSTANT_MIN))
    until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    epoch: int | None = None
    """The one epoch that is needed: what one answer holds from there on is enough."""
    number: int = 0
    """Under which the manager was asked for the present page."""
    pages: int = 0
    after: int | None = 0
    """The page begins behind this epoch; None when there are no more."""
    epochs: list[PastEpoch] = field(default_factory=list, repr=False)
    writers: dict[Principal, tuple[SignedCertificate, ...]] = field(default_factory=dict, repr=False)
    """Who has published what the keys open, and what spoke for it, as far as the manager knows."""
    answers: dict[AttributeUid, Said] = field(default_factory=dict, repr=False)
    """What the answers are about of which there are keys."""
    terms: KeyTerms = DEFAULT_TERMS
    problem: MaiaError | None = None

    @property
    def is_done(self) -> bool:
        """Return whether there is nothing to wait for any more."""
        return self.problem is not None or self.after is None

    def receive(self, message: HistoryKeysReply, answer: PastAnswer) -> None:
        """Take on one page of the answer."""
        self.epochs += answer.epochs
        self.writers |= answer.writers
        self.answers |= answer.answers
        self.terms = KeyTerms.from_record(message.terms)
        self.pages += 1
        self.after = message.after if self.epoch is None and self.pages < PAGES_MAX else None


class PastOpening:
    """The keys of one epoch that is over, and what they may have sealed."""

    __slots__ = ("_epoch", "_terms", "keys")

    def __init__(self, type_id: bytes, epoch: PastEpoch, terms: KeyTerms) -> None:
        """Hold what a manager handed out."""
        self._epoch, self._terms = epoch, terms
        self.keys = EpochKeys(type_id, epoch.number, epoch.keys.get)

    def is_of_its_time(self, *, published_at: int, recorded_at: int) -> bool:
        """Return whether something may have been sealed in this epoch: an old key seals nothing new (A50)."""
        epoch, slack = self._epoch, self._terms.back_dating_s * SECOND
        in_time = epoch.since - slack <= published_at <= epoch.ends + slack
        return in_time and recorded_at <= epoch.ends + max(slack, self._terms.drift_s * SECOND)

    def wipe(self) -> None:
        """Destroy the keys."""
        self.keys.forget()
        for key in self._epoch.keys.values():
            key.wipe()


class MemberPast:
    """What one member was handed of the past, by type and epoch; None where there is nothing for it."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._found: BoundedMap[tuple[bytes, int], PastOpening | None] = BoundedMap(
            _EPOCHS_MAX, evicted=_wipe
        )

    def is_answered(self, type_id: bytes, epoch: int) -> bool:
        """Return whether it is known what there is of an epoch."""
        return (type_id, epoch) in self._found

    def opening(self, type_id: bytes, epoch: int) -> PastOpening | None:
        """Return what opens an epoch, if it was handed out."""
        return self._found.get((type_id, epoch))

    def learn(self, reading: PastReading) -> None:
        """Hold what a manager has answered, or that it has said no."""
        if reading.epoch is None:
            return  # a reader of its own takes what it asked for from its reading
        self._put(reading.type_id, reading.epoch, None)
        for one in reading.epochs:
            self._put(reading.type_id, one.number, PastOpening(reading.type_id, one, reading.terms))

    def _put(self, type_id: bytes, epoch: int, opening: PastOpening | None) -> None:
        self._drop((type_id, epoch))
        self._found.put((type_id, epoch), opening)

    def forget(self, type_id: bytes | None = None) -> None:
        """Destroy what is held of a type, as when every subscriber has caught up; or of all types."""
        for key in [key for key in self._found if type_id is None or key[0] == type_id]:
            self._drop(key)

    def link_lost(self) -> None:
        """Ask a manager that said no again."""
        for key in [key for key, opening in self._found.items() if opening is None]:
            self._found.pop(key)

    def _drop(self, key: tuple[bytes, int]) -> None:
        _wipe(key, self._found.pop(key))


def _wipe(_: tuple[bytes, int], opening: PastOpening | None) -> None:
    if opening is not None:
        opening.wipe()
