"""What is known of interests and offers, type by type, and who wants this event?

Publications, replicas, status pages and tests ask. Nothing here changes what
is known: that is the routing book's own work (`table/routing_table.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from maia.events import AttributeUid, Event, Frame
from maia.routing.table.hops import Hop, RouteEntry, TypeId
from maia.routing.table.type_routes import Targets, TypeRoutes


class ReadableBook:
    """The part of a routing book that answers questions."""

    def __init__(self) -> None:
        """Begin empty."""
        self._types: dict[TypeId, TypeRoutes] = {}
        self._targets: dict[TypeId, Targets] = {}

    # ------------------------------------------------------------ publications

    def targets(self, type_id: TypeId, from_hop: Hop, event: Event) -> set[Hop]:
        """Return the hops that want an event, and never the neighbour from which it came."""
        targets = self._targets.get(type_id)
        return set() if targets is None else targets.of_event(event, from_hop=from_hop)

    def targets_of_frame(
        self, type_id: TypeId, from_hop: Hop, frame: Frame, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, list[int]]:
        """Return the rows of a frame that each hop wants, in order; hops that want none are left out.

        `missing` are attributes of a sealed frame that this broker cannot open.
        """
        targets = self._targets.get(type_id)
        return {} if targets is None else targets.of_frame(frame, from_hop=from_hop, missing=missing)

    def is_wanted(self, type_id: TypeId) -> bool:
        """Say whether a hop wants anything of a type."""
        targets = self._targets.get(type_id)
        return targets is not None and targets.is_any

    def knows(self, type_id: TypeId) -> bool:
        """Return whether an interest or an offer of a type is registered, from any hop."""
        return type_id in self._types

    def may_come_from(self, hop: Hop, type_id: TypeId) -> bool:
        """Say whether publications of a type are expected from a hop: it leads to the rendezvous, or offers.

        Interests are sent to no other. An offer without an advertisement came from a replica alone.
        """
        book = self._types.get(type_id)
        return book is not None and (book.parent == hop or book.offer_from(hop) is not None)

    def asked_about(self, type_id: TypeId) -> frozenset[AttributeUid]:
        """Return the attributes of a sealed type about which a neighbour's filter asks."""
        targets = self._targets.get(type_id)
        return frozenset() if targets is None else targets.asked_about()

    def asks_for_less(self, type_id: TypeId) -> bool:
        """Say whether a neighbour asks for less than all of a sealed type."""
        targets = self._targets.get(type_id)
        return targets is not None and targets.asks_for_less()

    # ------------------------------------------------------------ for replicas, status pages and tests

    def types(self) -> tuple[TypeId, ...]:
        """Return the types of which anything is wanted or offered."""
        return tuple(self._types)

    def parent(self, type_id: TypeId) -> Hop | None:
        """Return the next hop towards a type's rendezvous; None at the rendezvous, or for an unknown type."""
        return self._types[type_id].parent if type_id in self._types else None

    def hops(self, type_id: TypeId) -> tuple[Hop, ...]:
        """Return the hops that want or offer something of a type, in an order that every process repeats."""
        return self._types[type_id].hops() if type_id in self._types else ()

    def entry(self, hop: Hop, type_id: TypeId, entry_id: bytes) -> RouteEntry | None:
        """Return one entry as a hop sent it, if it is there."""
        return self._types[type_id].entry_from(hop, entry_id) if type_id in self._types else None

    def source_of(self, type_id: TypeId, told_as: bytes) -> tuple[Hop, RouteEntry] | None:
        """Return the entry that is forwarded under an id, as its hop sent it, and that hop."""
        return self._types[type_id].source_of(told_as) if type_id in self._types else None

    def entries(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return all that a hop wants of a type."""
        return self._types[type_id].entries_from(hop) if type_id in self._types else ()

    def wanted(self, hop: Hop, type_id: TypeId) -> tuple[RouteEntry, ...]:
        """Return what a hop wants of a type, without what another filter of the same hop covers."""
        return self._types[type_id].shown_from(hop) if type_id in self._types else ()

    def offers(self, hop: Hop, type_id: TypeId) -> bool:
        """Say whether a hop offers a type."""
        return type_id in self._types and self._types[type_id].offers_from(hop)

    def offer(self, hop: Hop, type_id: TypeId) -> object:
        """Return what travels with the offer of a hop; None if it offers nothing of a type."""
        return self._types[type_id].offer_from(hop) if type_id in self._types else None

    def version(self, hop: Hop, type_id: TypeId) -> int:
        """Return a number that changes whenever a hop may want or offer something else of a type."""
        return self._types[type_id].version_of(hop) if type_id in self._types else 0

    def told(self, hop: Hop, type_id: TypeId) -> tuple[tuple[RouteEntry, ...], bool]:
        """Return what a neighbour was sent of a type: the entries, and whether an offer is among it."""
        return self._types[type_id].told_to(hop) if type_id in self._types else ((), False)
