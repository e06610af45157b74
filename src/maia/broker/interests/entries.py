"""What are interests and offers of other brokers, in memory and on the wire, in the open and sealed?

An interest or offer carries the request that caused it and the certificates
behind it, so that any broker on the way can verify it (C9). Of a sealed type
filter and proof are sealed, and are passed on as they came. What is read from
the wire here is well formed and nothing more: who made it, whether it opens, and
what it proves is for `received.py` to find out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias

from maia.broker.audiences.local_subscribers import SubscriberGroup
from maia.credentials.identity import IDENTITY_HEAD
from maia.errors import ProtocolViolation
from maia.events import AttributeUid, Instant
from maia.policy.view import keeps
from maia.policy.view_bytes import EVERYTHING, class_of, view_from_bytes
from maia.predicates import ALWAYS, AllOf, Predicate, attributes_of
from maia.predicates.syntax import conjuncts
from maia.routing.table.hops import RouteEntry, SealedEntry, TypeId, book_key_of_sealed, type_of_book_key
from maia.sealing.filters.proofs import SealedOffer, SealedProof, SealedThing
from maia.sealing.filters.sealed_filters import SealedFilter, SealedPart
from maia.wire import messages as wire
from maia.wire.names import filter_from_bytes
from maia.wire.requests import RequestFrame, framed_request, signed_at

_CHAINS_SHARED: Final = 4096
_VIEWS_SHARED: Final = 1024
_CHAIN_BYTES_MAX: Final = 8192
"""A longer one is kept as often as it comes: what all have in common stays below 32 megabytes."""
_DEFINITION_HEAD: Final = b"(6:signed(10:event-type"
_ENTRY_BYTES: Final = 512
"""What it takes to keep an interest or offer, beside its bytes."""
_FILTER_BYTE: Final = 8
"""A filter that was read takes up to so many times the memory of its bytes."""
_PART_BYTES: Final = 256
_UID_BYTES: Final = 128
_OPENING_BYTES: Final = 256
"""To open a sealed interest costs about as much as to read so many bytes; its content is paid for when it
is read."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The signed request behind an interest or an offer, and the certificates behind the request."""

    frame: RequestFrame | None = field(repr=False)
    """What the request shares with others, and beside it what it has of its own; None without a request."""
    own: bytes = field(repr=False)
    credentials: tuple[bytes, ...] = field(default=(), repr=False)
    """Certificates; in an offer of a super-type, definitions of the publisher's sub-type come first.

    Of a right that asks about its holder, the holder's identity statement comes last.
    """
    watched: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The certificates that it was found to depend on here, if it was verified here."""
    view: bytes = field(default=EVERYTHING, repr=False)
    """What a subscriber sees of an event, before it selects (`maia.policy.view_bytes`)."""
    until: Instant | None = field(default=None, compare=False)
    """Up to when it was proved at a border, if it was: what it proves may ask for the hour."""

    @property
    def request(self) -> bytes | None:
        """Return the signed request, if there is one."""
        return None if self.frame is None else self.frame.whole(self.own)

    @property
    def definitions(self) -> tuple[bytes, ...]:
        """Return the versions of a sub-type that an offer of a super-type depends on, oldest first."""
        return tuple(takewhile(lambda data: data.startswith(_DEFINITION_HEAD), self.credentials))

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """Return the certificates behind the request."""
        shown = self.credentials[len(self.definitions) :]
        return shown if self.identity is None else shown[:-1]

    @property
    def identity(self) -> bytes | None:
        """Return the identity statement of the subscriber, if one came along."""
        last = self.credentials[-1] if self.credentials else b""
        return last if last.startswith(IDENTITY_HEAD) else None

    @property
    def signed_at(self) -> Instant | None:
        """Return when the request says that it was signed; None without a request."""
        return None if self.frame is None else signed_at(self.own, self.frame)

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep, as if nothing of it were shared."""
        return _ENTRY_BYTES + len(self.request or b"") + sum(map(len, self.credentials))

    @property
    def name(self) -> Hashable:
        """Return what tells an offer from another one: with another proof it is passed on again."""
        return self.request, self.credentials

    @property
    def basis(self) -> Hashable:
        """Return what others have to know again if it changes: another client's request, or a newer one."""
        return self.own, self.credentials


@dataclass(frozen=True, slots=True)
class SealedClaim:
    """A sealed interest or offer as it came, to be passed on as it is."""

    sealed: SealedFilter | SealedOffer
    proof: SealedProof
    watched: frozenset[bytes] = field(default=frozenset(), repr=False, compare=False)
    """The certificates that it was found to depend on here, if its proof was opened and verified here."""
    signed_at: Instant | None = field(default=None, compare=False)
    """When the request in its proof was signed, if that was opened here."""

    @property
    def parts(self) -> tuple[SealedPart, ...]:
        """Return the parts of the filter; none of an offer."""
        return self.sealed.parts if isinstance(self.sealed, SealedFilter) else ()

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        parts = sum(_PART_BYTES + len(part.box) + _UID_BYTES * len(part.uids) for part in self.parts)
        return parts + size_of_proof(self.proof)

    @property
    def name(self) -> Hashable:
        """Return what tells an offer from another one."""
        return self.sealed.id

    @property
    def basis(self) -> Hashable:
        """Return what others have to know again if it changes: a proof that was sealed anew may be newer."""
        return self.proof, self.watched


Received: TypeAlias = Proof | SealedClaim
"""What travels with an interest or offer of another broker."""


@dataclass(frozen=True, slots=True)
class LocalInterest:
    """What travels with a sealed class of this broker's subscribers; the proof is sealed when it is sent."""

    filter: SealedFilter
    view_class: SubscriberGroup = field(repr=False)


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


def size_of_proof(proof: SealedProof | wire.SealedProof) -> int:
    """Return about how many bytes something takes to keep that has a sealed proof."""
    return _ENTRY_BYTES + len(proof.box) + _UID_BYTES * len(proof.uids)


# ------------------------------------------------------------ the wire


def entry_of(key: TypeId, wanted: wire.Wanted) -> RouteEntry:
    """Return what a peer wants as an entry of the table, before any key was tried and anything verified.

    What is sealed asks for everything of its type. Its mark is its own: one that was made up must not cover
    others (A67).
    """
    received = received_of(key, wanted.proof, wanted.credentials, wanted.filter)
    if isinstance(received, SealedClaim):
        digest = received.sealed.digest
        return SealedEntry(wanted.id, ALWAYS, received, frozenset({digest}), digest, size=received.size)
    assert isinstance(wanted.filter, bytes)  # noqa: S101 - `received_of` has looked
    size = _FILTER_BYTE * (len(wanted.filter) + len(wanted.view)) + received.size
    proof = replace(received, view=_view_kept_once(wanted.view)) if wanted.view else received
    filter_, view = filter_from_bytes(wanted.filter), class_of(wanted.view)
    behind = selected_behind(filter_, wanted.view)
    return RouteEntry(wanted.id, filter_, proof, size=size, view=view, behind=behind)


def selected_behind(filter_: Predicate, view: bytes) -> Predicate | None:
    """Return what is left of a filter over published events for those that a View has been applied to.

    It is asked of attributes that the View shows as they were published; None if that is all of it.
    """
    if view == EVERYTHING:
        return None
    windows = view_from_bytes(view).windows
    parts = tuple(conjuncts(filter_))
    left = tuple(
        part for part in parts if all(keeps(window, uid) for window in windows for uid in attributes_of(part))
    )
    return None if left == parts else left[0] if len(left) == 1 else AllOf(left) if left else ALWAYS


@lru_cache(maxsize=_VIEWS_SHARED)
def _view_kept_once(view: bytes) -> bytes:
    return view


def received_of(
    key: TypeId,
    proof: bytes | wire.SealedProof | None,
    credentials: list[bytes],
    said: bytes | list[wire.SealedPart] | None = None,
) -> Received:
    """Return what comes with an interest in `said`, or an offer; refuse what is not of its table."""
    type_id = type_of_book_key(key)
    if isinstance(proof, wire.SealedProof):
        if key != book_key_of_sealed(type_id) or isinstance(said, bytes) or credentials:
            raise ProtocolViolation("PROTOCOL-SEALED-FILTER", "an interest or offer is sealed in part")
        if said is None:
            return SealedClaim(SealedOffer(type_id, proof.epoch, proof.seal), proof_from_wire(proof))
        parts = tuple(SealedPart(_uids(part.uids), part.mark, part.box) for part in said)
        return SealedClaim(SealedFilter(type_id, proof.epoch, proof.seal, parts), proof_from_wire(proof))
    if key != type_id or isinstance(said, list):
        raise ProtocolViolation(
            "PROTOCOL-SEALED-FILTER", "an interest or offer of sealed publications is not sealed"
        )
    return new_proof(proof, credentials)


def size_of_wanted(wanted: wire.Wanted) -> int:
    """Return how many bytes of an interest travel, about."""
    if isinstance(wanted.proof, wire.SealedProof):
        parts = [len(part.box) for part in wanted.filter if isinstance(part, wire.SealedPart)]
        return len(wanted.proof.box) + sum(parts)
    own = len(wanted.filter) + len(wanted.view) + len(wanted.proof or b"")
    return own + sum(map(len, wanted.credentials))


def price_of_wanted(wanted: wire.Wanted) -> int:
    """Return as how many bytes it counts to read an interest."""
    return _OPENING_BYTES if isinstance(wanted.proof, wire.SealedProof) else size_of_wanted(wanted)


def parts_to_wire(claim: SealedClaim) -> list[wire.SealedPart]:
    """Return the parts of a sealed filter as they travel."""
    return [wire.SealedPart(list(part.uids), part.mark, part.box) for part in claim.parts]


def proof_to_wire(sealed: SealedThing, proof: SealedProof) -> wire.SealedProof:
    """Return a sealed proof of something as it travels."""
    return wire.SealedProof(sealed.epoch, sealed.id, list(proof.uids), proof.box, proof.tag)


def proof_from_wire(proof: wire.SealedProof) -> SealedProof:
    """Return a sealed proof; refuse what no sealer writes."""
    return SealedProof(_uids(proof.uids), proof.box, proof.tag)


def _uids(texts: list[str]) -> tuple[AttributeUid, ...]:
    # Not yet checked: the sealed part or proof that is made of them checks every one.
    return tuple(AttributeUid(text) for text in texts)
