"""What does a router say of its own clients: of many filters, fewer?

This is the one place where filters of clients become filters of an aggregate.
Filters that another one covers have left before (`RoutingTable.wanted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maia.predicates import Predicate
from maia.routing.table.hops import TypeId

__all__ = ["Want", "aggregate"]


@dataclass(frozen=True, slots=True)
class Want:
    """One filter of a type, and what proves it, which is not looked into here."""

    type_id: TypeId
    predicate: Predicate
    proofs: tuple[object, ...] = field(default=(), repr=False, compare=False)
    """Those of all filters that it takes the place of: other routers admit what one of them entitles to."""


def aggregate(wants: Sequence[Want]) -> list[Want]:
    """Return filters that admit at least what these admit, each with the proofs of those that it replaces."""
    return list(wants)
