"""Into which parts is a filter split, so that each can be opened by the readers of its attributes?

The sealing broker asks. A filter is a conjunction of parts, one for each
set of attributes that is spoken of together (dissertation 7.3). All of them
hold of an event exactly if the filter does. Equal parts have equal bytes,
whatever filter they come from and in whatever order they were written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.errors import BadInput
from maia.events import AttributeUid
from maia.predicates import (
    DEPTH_MAX,
    AllOf,
    Predicate,
    attributes_of,
    checked_size,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.predicates.covering.independent_groups import conjuncts
from maia.predicates.covering.normal_form import is_true_formula

__all__ = ["PART_BYTES_MAX", "UIDS_PER_PART_MAX", "FilterPart", "joined", "part_from_bytes", "parts_of"]

PART_BYTES_MAX: Final = 1 << 15
UIDS_PER_PART_MAX: Final = 64

# A literal is a list inside its test.
_LIMITS: Final = Limits(size_max=PART_BYTES_MAX, depth_max=DEPTH_MAX + 3, atom_max=PART_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class FilterPart:
    """What a filter says about some attributes together; `data` is its one form in bytes."""

    uids: tuple[AttributeUid, ...]
    data: bytes


def parts_of(predicate: Predicate, *, is_split: bool = True) -> tuple[FilterPart, ...]:
    """Return the parts of a filter, by their attributes; none for the empty filter.

    With `is_split` false the filter stays whole, whatever its attributes. A part
    that is too large to travel is left out: others are then asked for more
    than is wanted, and never for less.
    """
    formula = is_true_formula(checked_size(predicate))
    together: dict[tuple[AttributeUid, ...], set[bytes]] = {}
    for part in conjuncts(formula):
        uids = tuple(sorted(attributes_of(part))) if is_split else ()
        together.setdefault(uids, set()).add(write_canonical(predicate_to_expression(part)))
    parts = [FilterPart(uids, _written(said)) for uids, said in sorted(together.items())]
    return tuple(part for part in parts if _travels(part))


def part_from_bytes(data: bytes) -> Predicate:
    """Read a part; whatever is not the one form of a predicate is refused as bad input."""
    return predicate_from_expression(read_canonical(data, _LIMITS))


def joined(parts: Iterable[Predicate]) -> Predicate:
    """Return the filter that holds where all parts hold."""
    flat = tuple(dict.fromkeys(one for part in parts for one in conjuncts(part)))
    return flat[0] if len(flat) == 1 else AllOf(flat)


def _written(said: set[bytes]) -> bytes:
    (first, *others) = sorted(said)
    return b"(3:and%b)" % b"".join((first, *others)) if others else first


def _travels(part: FilterPart) -> bool:
    if len(part.data) > PART_BYTES_MAX or len(part.uids) > UIDS_PER_PART_MAX:
        return False
    try:
        part_from_bytes(part.data)
    except BadInput:
        return False  # joined, it is deeper or has more parts than a predicate may
    return True
