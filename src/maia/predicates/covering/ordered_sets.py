"""How do we hold a set of values of one ordered kind, exactly?

As the sorted values at which membership changes: a value is inside if an odd
number of edges is at or below it. `5 <= x < 8 or x == 9` on ints has the edges
(5, 8, 9, 10). Every kind has a smallest value and an exact successor, so
`x > 5`, `x >= 6` and `x != …` need no open and closed ends, and union,
intersection and complement are exact. Strings are ordered by code point; the
successor of a string is itself followed by the smallest character.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, INT_MIN, Instant, Kind, PresentValue

# Any: the values of one tuple are of one kind and so comparable, which the type checker cannot see.
Edges: TypeAlias = tuple[Any, ...]

NONE: Final[Edges] = ()

FULL: Final[Mapping[Kind, Edges]] = MappingProxyType(
    {
        Kind.STRING: ("",),
        Kind.INT: (INT_MIN,),
        Kind.FLOAT: (-sys.float_info.max,),
        Kind.BOOL: (False,),
        Kind.TIMESTAMP: (Instant(INSTANT_MIN),),
        Kind.BYTES: (b"",),
    }
)
"""The edges of all values of a kind: its smallest value."""

_LAST_CHARACTER: Final = chr(sys.maxunicode)
_FIRST_CHARACTER: Final = "\x01"  # strings of Maia never contain U+0000


def successor(value: PresentValue) -> PresentValue | None:
    """Return the next value of the same kind, or None after the last one."""
    match value:
        case bool():
            return None if value else True
        case Instant():
            return Instant(value + 1) if value < INSTANT_MAX else None
        case int():
            return value + 1 if value < INT_MAX else None
        case float():
            following = math.nextafter(value, math.inf) + 0.0  # the successor of -5e-324 is 0.0, not -0.0
            return following if math.isfinite(following) else None
        case str():
            return value + _FIRST_CHARACTER
        case bytes():
            return value + b"\x00"
        case _:
            assert_never(value)


def edges_between(kind: Kind, first: Any, after: Any) -> Edges:
    """Return the edges of `first <= x < after`; None leaves a side open."""
    # Any: both are of that kind, see `Edges`.
    low = FULL[kind][0] if first is None else first
    if after is None:
        return (low,)
    return (low, after) if low < after else NONE


def edges_of(values: Iterable[PresentValue]) -> Edges:
    """Return the edges of a finite set of values, all of one kind."""
    edges: list[Any] = []  # Any: see `Edges`
    for value in sorted(values):
        if edges and edges[-1] == value:
            edges.pop()
        else:
            edges.append(value)
        if (following := successor(value)) is not None:
            edges.append(following)
    return tuple(edges)


def edges_with_prefix(prefix: str) -> Edges:
    """Return the edges of the strings that start with `prefix`, which are neighbours in the order."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return (prefix,)
    return (prefix, kept[:-1] + _next_character(kept[-1]))


def _next_character(character: str) -> str:
    following = ord(character) + 1
    return chr(0xE000 if following == 0xD800 else following)  # step over the surrogates


def is_inside(value: PresentValue, edges: Edges) -> bool:
    """Return whether a value of the kind of `edges` is in the set."""
    return bisect_right(edges, value) % 2 == 1


def intervals(edges: Edges) -> Iterator[tuple[PresentValue, PresentValue | None]]:
    """Yield the intervals `first <= x < after_last` from low to high."""
    for index in range(0, len(edges), 2):
        yield edges[index], edges[index + 1] if index + 1 < len(edges) else None


def single_values(edges: Edges, at_most: int) -> list[PresentValue] | None:
    """Return the members if they are few and each is alone; None for a set with longer intervals."""
    if len(edges) > 2 * at_most:
        return None
    found = list(intervals(edges))
    if any(after_last != successor(first) for first, after_last in found):
        return None
    return [first for first, _ in found]


def late_value(edges: Edges) -> PresentValue:
    """Return a member of a set of strings or bytes that is as high as is easily said."""
    first: Any = edges[-1] if len(edges) % 2 else edges[-2]  # Any: see `Edges`
    top: Any = _LAST_CHARACTER * 2 if isinstance(first, str) else b"\xff" * 8
    ends = () if len(edges) % 2 or successor(edges[-1][:-1]) != edges[-1] else (edges[-1][:-1],)
    found: PresentValue = max(one for one in (first, first + top, top, *ends) if is_inside(one, edges))
    return found


def is_subset(*, narrow: Edges, wide: Edges) -> bool:
    """Return whether every member of `narrow` is in `wide`."""
    return all(_holds_interval(wide, first, after_last) for first, after_last in intervals(narrow))


def _holds_interval(edges: Edges, first: PresentValue, after_last: PresentValue | None) -> bool:
    index = bisect_right(edges, first)
    if index % 2 == 0:
        return False
    return index == len(edges) or (after_last is not None and bool(after_last <= edges[index]))


def united(one: Edges, other: Edges) -> Edges:
    """Return the edges of the union."""
    return _swept(one, other, lambda in_one, in_other: in_one or in_other)


def intersected(one: Edges, other: Edges) -> Edges:
    """Return the edges of the intersection."""
    if len(one) == 1 and len(other) == 1:
        return max(one, other)
    return _swept(one, other, lambda in_one, in_other: in_one and in_other)


def minus(one: Edges, other: Edges) -> Edges:
    """Return the edges of the members of `one` that are not in `other`."""
    return _swept(one, other, lambda in_one, in_other: in_one and not in_other)


def _swept(one: Edges, other: Edges, wanted: Callable[[bool, bool], bool]) -> Edges:
    edges: list[Any] = []  # Any: see `Edges`
    inside, i, j = False, 0, 0
    while i < len(one) or j < len(other):
        edge = one[i] if j == len(other) or (i < len(one) and one[i] <= other[j]) else other[j]
        i += i < len(one) and one[i] == edge
        j += j < len(other) and other[j] == edge
        now_inside = wanted(i % 2 == 1, j % 2 == 1)
        if now_inside is not inside:
            edges.append(edge)
            inside = now_inside
    return tuple(edges)
