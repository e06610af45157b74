"""Which certificates speak for somebody, and what is a right that rests on them made of?

The edge looks for chains once and decides many requests from what it found:
those of one client differ in little more than their filters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from maia.broker.access.rates import RATE_FACTS
from maia.broker.sessions.links import NOTHING_KNOWN, Grounds, Known, Right
from maia.credentials import Action, Principal, ResourceName, SignedCertificate, Validity
from maia.credentials.validity.one_time_answers import NO_ANSWERS, VouchedFor
from maia.credentials.validity.validity_state import Once
from maia.events import AttributeUid, Instant
from maia.policy import Evidence, Permit, PolicyRefusal, Request, View

__all__ = ["Asked", "FoundChains", "FoundBefore", "evidence_of", "memory_of", "used_in"]

Asked = tuple[Principal, Action, ResourceName, int, frozenset[Once]]
"""What the search for chains looks at: the pool by its identity, and who has vouched for this request."""

_MEMORY_OF_A_BYTE: Final = 8
"""A certificate that was read takes up to so many times the memory of its bytes."""


@dataclass(slots=True)
class FoundChains:
    """Evidence, the pool that it was found in, and the period in which no certificate begins or ends.

    Rights that were decided from it differ in little more than their filters.
    A client may have thousands of them, so they share what is the same.
    """

    pool: tuple[SignedCertificate, ...]
    evidence: Evidence
    steady: Validity
    used: tuple[SignedCertificate, ...]
    watched: frozenset[bytes]
    """The certificates that it changes with: those that were used, and those that do not count now."""
    asks: frozenset[AttributeUid]
    """The facts that conditions of the certificates ask for."""
    met_at: Instant
    is_doubted: bool
    """Whether there are certificates in the pool that do not count now."""
    once: frozenset[Once]
    """Who would have to vouch, for one request, for certificates that do not count now."""
    view: View | None = None
    grounds: Grounds | None = None
    refusal: PolicyRefusal | None = None
    """Why everything is refused, if there is no chain."""

    def rests_on(self, vouched: VouchedFor) -> bool:
        """Say whether one of the chains counts by a one-time answer."""
        answered = {certificate for certificate, _ in vouched.once}
        return any(signed.id in answered for signed in self.used)

    def right(
        self,
        request: Request,
        decision: Permit,
        epoch: int,
        known: Known = NOTHING_KNOWN,
        vouched: VouchedFor | None = None,
    ) -> Right:
        """Return what was decided as a right, made of parts of the ones before."""
        view = self.view = _sharing(decision.view, self.view)
        grounds = self.grounds
        if grounds is None or not (
            grounds.asked_type is request.event_type
            and grounds.stable == decision.stable
            and (grounds.epoch, grounds.known) == (epoch, known)
            and grounds.vouched is vouched
            and grounds.limit == decision.limit
        ):
            grounds = self.grounds = self._grounds(request, decision, epoch, known, vouched)
        return Right(grounds, request.filter, view)

    def _grounds(
        self, request: Request, decision: Permit, epoch: int, known: Known, vouched: VouchedFor | None
    ) -> Grounds:
        return Grounds(
            request.principal,
            request.action,
            request.resource,
            request.event_type,
            self.pool,
            self.used,
            decision.stable,
            epoch,
            self.watched,
            known,
            not RATE_FACTS.isdisjoint(self.asks),
            vouched,
            decision.limit,
        )


def memory_of(pool: tuple[SignedCertificate, ...]) -> int:
    """Return about how many bytes of memory a pool takes."""
    return _MEMORY_OF_A_BYTE * sum(len(signed.body) for signed in pool)


class FoundBefore:
    """What was found lately, within a number of entries and of bytes: the pools are most of what it takes.

    Entries that were found in one pool share it, and it is counted once.
    """

    __slots__ = ("_bytes_max", "_entries", "_entries_max", "_sharing", "bytes")

    def __init__(self, *, entries_max: int, bytes_max: int) -> None:
        """Begin with nothing; of too much, what was asked for least lately goes first."""
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._entries: OrderedDict[Asked, FoundChains] = OrderedDict()
        self._sharing: dict[int, int] = {}
        """How many entries were found in a pool, which lives while one of them does."""
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, asked: Asked) -> FoundChains | None:
        """Return what was found, if it is remembered."""
        return self._entries.get(asked)

    def use(self, asked: Asked) -> None:
        """Take note that an entry was of use."""
        self._entries.move_to_end(asked)

    def add(self, asked: Asked, found: FoundChains) -> None:
        """Remember what was found, in place of what was found before."""
        self.drop(asked)
        self._entries[asked] = found
        sharing = self._sharing[id(found.pool)] = self._sharing.get(id(found.pool), 0) + 1
        self.bytes += memory_of(found.pool) if sharing == 1 else 0
        while len(self._entries) > self._entries_max or self.bytes > self._bytes_max:
            self.drop(next(iter(self._entries)))

    def drop(self, asked: Asked) -> None:
        """Forget an entry, if it is there."""
        found = self._entries.pop(asked, None)
        if found is None:
            return
        left = self._sharing.pop(id(found.pool)) - 1
        if left:
            self._sharing[id(found.pool)] = left
        else:
            self.bytes -= memory_of(found.pool)

    def forget(self, certificates: Collection[bytes]) -> None:
        """Forget what was found with one of these certificates, or without it."""
        touched = [asked for asked, one in self._entries.items() if not one.watched.isdisjoint(certificates)]
        for asked in touched:
            self.drop(asked)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._sharing.clear()
        self.bytes = 0


def used_in(evidence: Evidence) -> tuple[SignedCertificate, ...]:
    used = {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
    return tuple(used.values())


def _sharing(view: View, other: View | None) -> View:
    """Return the same View, made of parts of another one where they are the same."""
    if other is None or view.forced or other.forced or len(view.windows) != len(other.windows):
        return view
    pairs = zip(view.windows, other.windows, strict=True)
    if not all(one == two for one, two in pairs):
        return view
    return View(
        other.windows, view.interest, other.forced, other.until if other.until == view.until else view.until
    )


def evidence_of(right: Right) -> tuple[tuple[SignedCertificate, ...], frozenset[Once]]:
    """Return what a right is asked about again from: one that was vouched for, from what it rests on."""
    return (right.pool, NO_ANSWERS) if right.vouched is None else (right.used, right.vouched.once)
