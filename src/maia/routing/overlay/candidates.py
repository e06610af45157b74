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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from maia.back_off import doubled
from maia.bounded_map import BoundedMap
from maia.events import SECOND
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
    retry_max_s: int = 64
    tries_max: int = 100
    """How often a broker that we knew ourselves is tried again: for about an hour and a half."""
    failures_remembered: int = 1024


@dataclass(frozen=True, slots=True)
class _Candidate:
    contact: Contact
    teller: NodeId


class Candidates:
    """Brokers known by hearsay, and those that were lost and may come back."""

    __slots__ = ("_dialling", "_failures", "_false_names", "_limits", "_own", "_shares", "_waiting")

    def __init__(self, own: NodeId, limits: CandidateLimits) -> None:
        self._own = own
        self._limits = limits
        self._waiting: dict[NodeId, _Candidate] = {}
        self._shares: Counter[NodeId] = Counter()
        self._false_names: Counter[NodeId] = Counter()
        self._dialling: dict[str, int] = {}
        # Failures in a row and the moment of the next try, by address, least recently failed first.
        self._failures: BoundedMap[str, tuple[int, int]] = BoundedMap(limits.failures_remembered)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._waiting

    def dials_under_way(self, *, besides: Iterable[str] = ()) -> int:
        """Return how many connections are being tried, not counting those to some addresses."""
        return len(self._dialling.keys() - set(besides))

    def waiting(self) -> Iterator[NodeId]:
        """Return the nodes that wait to be tried."""
        return iter(tuple(self._waiting))

    def add(self, contact: Contact, *, teller: NodeId) -> bool:
        """Let a name wait for its turn; False if it is not taken in."""
        if contact.node == self._own or contact.node in self._waiting:
            return False
        full = len(self._waiting) >= self._limits.waiting_max
        if full or self._shares[teller] >= self._limits.waiting_per_teller:
            return False
        self._waiting[contact.node] = _Candidate(contact, teller)
        self._shares[teller] += 1
        return True

    def next_dials(self, now: int, *, useful: Callable[[NodeId], bool]) -> list[str]:
        """Return the addresses to try now; names that are no longer useful are dropped."""
        for node, candidate in tuple(self._waiting.items()):
            if candidate.teller != self._own and not useful(node):
                self._discard(node)
        free = self._limits.dials_at_once - len(self._dialling)
        if free <= 0 or not self._waiting:
            return []
        ready = {
            candidate.contact.address: None
            for candidate in sorted(self._waiting.values(), key=self._turn)
            if self.may_dial(candidate.contact.address, now) and useful(candidate.contact.node)
        }
        chosen = list(ready)[:free]
        for address in chosen:
            self.dial(address, now)
        return chosen

    def may_dial(self, address: str, now: int) -> bool:
        """Say whether this address is neither being tried nor resting after a failure."""
        return address not in self._dialling and (self._failures.get(address) or (0, now))[1] <= now

    def dial(self, address: str, now: int) -> None:
        """Note that a connection to this address is being tried."""
        self._dialling[address] = now + self._limits.dial_timeout_s * SECOND

    def confirmed(self, contact: Contact, *, dialled: str | None) -> None:
        """A handshake proved who listens where: no other name belongs to the address that we dialled."""
        self._discard(contact.node)
        if dialled is not None:
            self._dialling.pop(dialled, None)
            self._failures.pop(dialled)
            self._discredit(dialled, keep_own=False)

    def failed(self, address: str, now: int) -> None:
        """No broker with a right answered there: reports about it are dropped, and it rests a while."""
        self._dialling.pop(address, None)
        tries = (self._failures.get(address) or (0, 0))[0] + 1
        rest_s = doubled(self._limits.retry_s, tries, most=self._limits.retry_max_s)
        self._failures.put(address, (tries, now + rest_s * SECOND))
        self._discredit(address, keep_own=tries < self._limits.tries_max)

    def overdue(self, now: int) -> list[str]:
        """Return the addresses whose connection has been tried for too long."""
        return [address for address, until in self._dialling.items() if until <= now]

    def next_moment(self, now: int, *, also: Iterable[str] = ()) -> int | None:
        """Return when a dial becomes overdue, or when the rest of a waiting or other address ends."""
        if not self._dialling and not self._failures:
            return None
        addresses = {*also, *(candidate.contact.address for candidate in self._waiting.values())}
        rests = [found[1] for address in addresses if (found := self._failures.get(address)) is not None]
        # A rest that is over has had its turn: it must not wake anybody again and again.
        return min([*self._dialling.values(), *(end for end in rests if end > now)], default=None)

    def forget_teller(self, teller: NodeId) -> None:
        """Drop the candidates of a broker, and what we noted about its honesty: it is gone."""
        for node, candidate in tuple(self._waiting.items()):
            if candidate.teller == teller:
                self._discard(node)
        self._false_names.pop(teller, None)

    def _turn(self, candidate: _Candidate) -> tuple[int, tuple[int, NodeId]]:
        return self._false_names[candidate.teller], closeness(candidate.contact.node, self._own)

    def _discredit(self, address: str, *, keep_own: bool) -> None:
        for node, candidate in tuple(self._waiting.items()):
            if candidate.contact.address != address:
                continue
            if candidate.teller != self._own:
                self._false_names[candidate.teller] += 1
            elif keep_own:
                continue
            self._discard(node)

    def _discard(self, node: NodeId) -> None:
        candidate = self._waiting.pop(node, None)
        if candidate is not None:
            self._shares[candidate.teller] -= 1
            if not self._shares[candidate.teller]:
                del self._shares[candidate.teller]
