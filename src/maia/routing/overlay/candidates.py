"""Which brokers do we know from others only, and which of them do we try next?

A broker may name brokers that do not exist, or point a thousand names at one
victim's address. So hearsay stays here until a handshake has confirmed it, and
everything about it is bounded: how many names one teller has waiting, how many
there are in all, how many connections are tried at once, and how often an
address that failed is tried again. Tellers whose names turned out false come
last, so the names that honest brokers gave are tried before theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from maia.events import SECOND
from maia.routing.dials import Dials
from maia.routing.overlay.table import NodeId, closeness, node_id_of_key

_CONTACTS_REMEMBERED: Final = 1 << 12
"""Brokers name the same few others to each other at every refresh."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A broker by its key, and where it is said to listen."""

    key: bytes
    address: str
    node: NodeId

    @staticmethod
    @lru_cache(maxsize=_CONTACTS_REMEMBERED)
    def of(key: bytes, address: str) -> Contact:
        """Return the contact; its place on the ring follows from the key."""
        return Contact(key, address, node_id_of_key(key))


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """How much hearsay is kept, and how eagerly it is tried."""

    waiting_max: int = 1024
    waiting_per_teller: int = 128
    dials_at_once: int = 8
    dial_timeout_s: int = 15
    retry_s: int = 1
    retry_max_s: int = 16
    """A link that was cut is back this long after the cut ends, at the latest."""
    tries_max: int = 400
    """How often a broker that we knew ourselves is tried again: for about an hour and a half."""
    failures_remembered: int = 1024


class Candidates:
    """Brokers known by hearsay, and those that were lost and may come back."""

    def __init__(self, own: NodeId, limits: CandidateLimits) -> None:
        self._own = own
        self._limits = limits
        self.dials = Dials(
            first_s=limits.retry_s,
            most_s=limits.retry_max_s,
            timeout_s=limits.dial_timeout_s,
            remembered=limits.failures_remembered,
        )
        self._waiting: dict[NodeId, tuple[Contact, NodeId]] = {}
        """Each with the broker that named it."""
        self._false_names: Counter[NodeId] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def any_waits(self, useful: Callable[[NodeId], bool]) -> bool:
        """Return whether a useful node waits to be tried."""
        return any(map(useful, self._waiting))

    def add(self, contact: Contact, *, teller: NodeId) -> None:
        """Let a name wait for its turn, if there is room for it."""
        if contact.node == self._own or contact.node in self._waiting:
            return
        share = sum(named_by == teller for _, named_by in self._waiting.values())
        if len(self._waiting) < self._limits.waiting_max and share < self._limits.waiting_per_teller:
            self._waiting[contact.node] = contact, teller

    def next_dials(self, now: int, *, useful: Callable[[NodeId], bool]) -> list[str]:
        """Return the addresses to try now; names that are no longer useful are dropped."""
        if not self._waiting:
            return []
        for node, (_, teller) in tuple(self._waiting.items()):
            if teller != self._own and not useful(node):
                del self._waiting[node]
        free = self._limits.dials_at_once - len(self.dials.under_way)
        if free <= 0:
            return []
        ready = [
            contact.address
            for contact, _ in sorted(self._waiting.values(), key=self._turn)
            if self.dials.may_begin(contact.address, now) and useful(contact.node)
        ]
        chosen = list(dict.fromkeys(ready))[:free]
        for address in chosen:
            self.dials.begin(address, now)
        return chosen

    def confirmed(self, contact: Contact, *, dialled: str | None) -> None:
        """A handshake proved who listens where: no other name belongs to the address that we dialled."""
        self._waiting.pop(contact.node, None)
        if dialled is not None:
            self.dials.succeeded(dialled)
            self._discredit(dialled, keep_own=False)

    def failed(self, address: str, now: int) -> None:
        """No broker with a right answered there: reports about it are dropped, and it rests a while."""
        self._discredit(address, keep_own=self.dials.failed(address, now) < self._limits.tries_max)

    def broke(self, address: str, now: int, *, since: int) -> None:
        """A link with the broker that listens there has ended: of short ones in a row, it rests."""
        self.dials.broke(address, now, stood_s=(now - since) / SECOND)

    def next_moment(self, now: int, *, also: Iterable[str] = ()) -> int | None:
        """Return when a dial becomes overdue, or when the rest of a waiting or other address ends."""
        waiting = [contact.address for contact, _ in self._waiting.values()]
        return self.dials.next_moment(now, {*also, *waiting})

    def forget_teller(self, teller: NodeId) -> None:
        """Drop the candidates of a broker, and what we noted about its honesty: it is gone."""
        for node, (_, named_by) in tuple(self._waiting.items()):
            if named_by == teller:
                del self._waiting[node]
        self._false_names.pop(teller, None)

    def _turn(self, candidate: tuple[Contact, NodeId]) -> tuple[int, tuple[int, NodeId]]:
        contact, teller = candidate
        return self._false_names[teller], closeness(contact.node, self._own)

    def _discredit(self, address: str, *, keep_own: bool) -> None:
        for node, (contact, teller) in tuple(self._waiting.items()):
            if contact.address != address or (keep_own and teller == self._own):
                continue
            if teller != self._own:
                self._false_names[teller] += 1
            del self._waiting[node]
