"""How does what the routing book wants told become a message, and the other way round?

The book speaks of hops and entries; brokers send interests, offers, renewals
and requests for more. An interest carries the request that caused it and the
certificates behind it, so that any broker on the way can verify it (C9). The
proof of a local interest is looked up when it is sent: whoever still stands
for it, with the latest request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Final, assert_never

from maia.routing.table.hops import RouteEntry, Tell, TellInterest, TellOffer, TellRenew, TellResync
from maia.wire.filters import filter_from_bytes, filter_to_bytes
from maia.wire.kept_requests import RequestFrame, framed_request
from maia.wire.messages import Interest, Message, Offer, Renew, Resync, Wanted

__all__ = [
    "NO_PROOF",
    "Proof",
    "ProofOf",
    "entry_of",
    "messages_of",
    "new_proof",
    "size_of_wanted",
    "wanted_of",
]

_CREDENTIALS_MAX: Final = 256
_CHAINS_SHARED: Final = 4096
_CHAIN_BYTES_MAX: Final = 8192
"""A longer one is kept as often as it comes: what all have in common stays below 32 megabytes."""
_DEFINITION_HEAD: Final = b"(6:signed(10:event-type"
_ENTRY_BYTES: Final = 512
"""What it takes to keep an interest or offer, beside its bytes."""
_FILTER_BYTE: Final = 8
"""A filter that was read takes up to so many times the memory of its bytes."""
_INTEREST_BYTES: Final = 1 << 17
"""From this size on, an interest is told in several messages; each stays far below the work that a peer does
for one message (`work_per_message`)."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The signed request behind an interest or an offer, and the certificates behind the request."""

    frame: RequestFrame | None = field(repr=False)
    """What the request shares with others, and beside it what it has of its own; None without a request."""
    own: bytes = field(repr=False)
    credentials: tuple[bytes, ...] = field(default=(), repr=False)
    """Certificates; in an offer of a super-type, definitions of the publisher's sub-type come first."""
    watched: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The certificates that it was found to rest on here, if it was verified here."""

    @property
    def request(self) -> bytes | None:
        """Return the signed request, if there is one."""
        return None if self.frame is None else self.frame.whole(self.own)

    @property
    def definitions(self) -> tuple[bytes, ...]:
        """Return the versions of a sub-type behind an offer of a super-type, oldest first."""
        return tuple(takewhile(lambda data: data.startswith(_DEFINITION_HEAD), self.credentials))

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """Return the certificates behind the request."""
        return self.credentials[len(self.definitions) :]

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep, as if nothing of it were shared."""
        return _ENTRY_BYTES + len(self.request or b"") + sum(map(len, self.credentials))


def new_proof(request: bytes | None, credentials: Iterable[bytes] = ()) -> Proof:
    """Return a proof that was not verified here; what many have in common is kept once."""
    frame, own = (None, b"") if request is None else framed_request(request)
    shown = tuple(credentials)
    # Whoever shows it may have made it up, and what is kept once outlasts its refusal.
    is_short = sum(map(len, shown)) <= _CHAIN_BYTES_MAX
    return Proof(frame, own, _kept_once(shown) if is_short else shown)


@lru_cache(maxsize=_CHAINS_SHARED)
def _kept_once(credentials: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the same object for equal chains: a client wants many things by the same certificates."""
    return credentials


NO_PROOF: Final = new_proof(None)

ProofOf = Callable[[object], Proof]
"""Finds the proof that belongs to the baggage of an entry."""


def messages_of(tell: Tell, proof_of: ProofOf) -> Iterator[Message]:
    """Yield the messages that say what the book wants said, in the order in which it counts."""
    match tell:
        case TellInterest(_, type_id, add, remove):
            yield from _interests(type_id, [wanted_of(entry, proof_of) for entry in add], list(remove))
        case TellOffer(_, type_id, stands, baggage):
            proof = proof_of(baggage) if stands else NO_PROOF
            yield Offer(type_id, stands, proof.request, list(proof.credentials[:_CREDENTIALS_MAX]))
        case TellRenew(_, entries, digest):
            yield Renew(entries, digest)
        case TellResync():
            yield Resync()
        case _:
            assert_never(tell)


def wanted_of(entry: RouteEntry, proof_of: ProofOf) -> Wanted:
    """Return an entry of the book as it travels."""
    proof = proof_of(entry.baggage)
    credentials = list(proof.credentials[:_CREDENTIALS_MAX])
    return Wanted(entry.id, filter_to_bytes(entry.predicate), proof.request, credentials)


def entry_of(wanted: Wanted) -> RouteEntry:
    """Return what a peer wants as an entry of the book; the proof is its baggage, verified or not."""
    proof = new_proof(wanted.proof, wanted.credentials)
    size = _FILTER_BYTE * len(wanted.filter) + proof.size
    return RouteEntry(wanted.id, filter_from_bytes(wanted.filter), proof, size=size)


def size_of_wanted(wanted: Wanted) -> int:
    """Return how many bytes there are to be read in what somebody wants."""
    return len(wanted.filter) + len(wanted.proof or b"") + sum(map(len, wanted.credentials))


def _interests(type_id: bytes, add: list[Wanted], remove: list[bytes]) -> Iterator[Interest]:
    # What is added goes first: between two messages the peer wants too much, and never too little.
    some: list[Wanted] = []
    size = 0
    for wanted in add:
        more = size_of_wanted(wanted)
        if some and size + more > _INTEREST_BYTES:
            yield Interest(type_id, some, [])
            some, size = [], 0
        some.append(wanted)
        size += more
    yield Interest(type_id, some, remove)
