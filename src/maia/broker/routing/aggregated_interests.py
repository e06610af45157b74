"""Which parts does this router's aggregate have, and what may be believed of another's?

A part is an interest with the proofs of the clients that it is for. Another
router reads it as one entry for each proof, narrowed to what that proof
entitles to: a part that asks for more than its proofs give asks for less (A67).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from maia.broker.refusals import PlainOfSealed
from maia.broker.routing.aggregation import note_published
from maia.broker.routing.outbox import Proof, new_proof, proof_of, sealed_wanted_of
from maia.broker.routing.proofs import is_to_be_verified, proved_filter
from maia.broker.sealed.entries import LocalInterest, ReceivedInterest, wanted_from_wire
from maia.broker.sealed.interests import understood
from maia.broker.state import BrokerState
from maia.credentials import Budget
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.mesh.aggregates import digest_of_part
from maia.routing.table.hops import (
    LOCAL,
    RouteEntry,
    TypeId,
    book_key_of_sealed,
    is_of_sealed,
    type_of_book_key,
)
from maia.wire.effects import Count, Effect, LinkId
from maia.wire.mesh_messages import (
    ConnectPart,
    InterestPart,
    PartProof,
    SealedInterestPart,
    part_from_bytes,
    part_to_bytes,
)
from maia.wire.names import filter_from_bytes, filter_to_bytes

MESH_ACCOUNT: Final = LinkId(-3)
"""In place of a link: what routers of the mesh proved, however far away they are."""
CONNECT_HEAD: Final = part_to_bytes(ConnectPart([]))[:2]
"""How the part begins by which a router shows that it may connect."""
_CREDENTIALS_MAX: Final = 256


class OwnParts:
    """What the clients of this broker want, as it travels."""

    __slots__ = ("_published", "_sealed", "_state")

    def __init__(self, state: BrokerState) -> None:
        """Begin without parts."""
        self._state = state
        self._published: dict[bytes, bytes] = {}
        self._sealed: dict[tuple[TypeId, bytes], tuple[object, bytes]] = {}

    def build(self) -> dict[bytes, bytes]:
        """Return the right to connect and what is wanted, each with its proofs, by digest."""
        state, book = self._state, self._state.routes.book
        interests: dict[bytes, bytes] = {}
        """Parts of plain interests, each with its type. Filters were merged before (`aggregation.py`)."""
        sealed: dict[tuple[TypeId, bytes], tuple[object, bytes]] = {}
        for key in book.types():
            for entry in book.wanted(LOCAL, key):
                if is_of_sealed(key):
                    sealed[key, entry.id] = self._sealed_part(key, entry)
                else:
                    interests[part_to_bytes(_interest_part(key, entry, proof_of(state, entry.baggage)))] = key
        self._sealed = sealed
        parts = [part_to_bytes(ConnectPart(state.own_credentials[:_CREDENTIALS_MAX]))]
        parts += [*interests, *(part for _, part in sealed.values())]
        note_published(state, {part: key for part, key in interests.items() if part not in self._published})
        self._published = interests
        return {digest_of_part(part): part for part in parts}

    def _sealed_part(self, key: TypeId, entry: RouteEntry) -> tuple[object, bytes]:
        """Seal an interest once for as long as it has the same proof: each sealing is another."""
        baggage = entry.baggage
        proof = proof_of(self._state, baggage.view_class if isinstance(baggage, LocalInterest) else None)
        same = (entry, proof.request, proof.credentials)
        known = self._sealed.get((key, entry.id))
        if known is not None and known[0] == same:
            return known
        part = SealedInterestPart(type_of_book_key(key), sealed_wanted_of(self._state, key, entry))
        return same, part_to_bytes(part)


def _interest_part(type_id: TypeId, entry: RouteEntry, proof: Proof) -> InterestPart:
    shown = PartProof(proof.request, list(proof.credentials[:_CREDENTIALS_MAX]))
    return InterestPart(type_id, filter_to_bytes(entry.predicate), [shown])


def entries_of_part(
    state: BrokerState, name: bytes, data: bytes, now: Instant, budget: Budget
) -> tuple[list[tuple[TypeId, RouteEntry]], list[Effect]]:
    """Return the entries that a part is, as far as they are proved; raise what is wrong if none is."""
    match part_from_bytes(data):
        case InterestPart() as part:
            return _proved(state, name, part, now, budget)
        case SealedInterestPart(type_id, wanted):
            entry = understood(state, name[:16], wanted_from_wire(type_id, wanted), now, budget)
            assert isinstance(entry.baggage, ReceivedInterest)  # noqa: S101 - made by `understood`
            state.statements.dependencies.note(MESH_ACCOUNT, entry.baggage.watched)
            return [(book_key_of_sealed(type_id), entry)], []
        case ConnectPart():
            return [], []


def _proved(
    state: BrokerState, name: bytes, part: InterestPart, now: Instant, budget: Budget
) -> tuple[list[tuple[TypeId, RouteEntry]], list[Effect]]:
    wanted = filter_from_bytes(part.filter)
    if state.types.sealing(part.type_id) is not None:
        raise PlainOfSealed("the owner of this type wants it sealed")
    found: list[tuple[TypeId, RouteEntry]] = []
    problems: list[MaiaError] = []
    effects: list[Effect] = []
    for number, shown in enumerate(part.proofs):
        proof = new_proof(shown.request, shown.credentials)
        entry_id = sha256(name + number.to_bytes(2, "big")).digest()[:16]
        if not is_to_be_verified(state):
            found.append((part.type_id, RouteEntry(entry_id, wanted, proof, size=proof.size)))
            continue
        try:
            proved = proved_filter(state, part.type_id, proof, wanted, now, budget)
        except MaiaError as problem:
            problems.append(problem)
            continue
        state.statements.dependencies.note(MESH_ACCOUNT, proved.watched)
        resting = Proof(proof.frame, proof.own, proof.credentials, proved.watched)
        found.append((part.type_id, RouteEntry(entry_id, proved.filter, resting, size=proof.size)))
        if proved.filter is not wanted:
            effects.append(Count("maia_interests_narrowed_total"))
    if problems and not found:
        raise problems[0]
    return found, effects
