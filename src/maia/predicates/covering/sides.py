"""Between which bounds does a filter lie, attribute by attribute, as numbers that are compared in bulk?

The cover table asks, to rule out nearly all of a hundred thousand filters
before it proves anything. A `Box` brackets a filter of any shape. Its outer
edges hold everything that the filter admits; its inner edges are touched by
something that the filter admits. If one filter covers another, then the outer
edges of the first hold the inner edges of the second. The reverse is proof
only for boxes that are `exact`. The bounds follow from the sets of values of
`normal_form.py`, written as codes: 64-bit integers in the order of the values.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from maia.bounded_map import BoundedMap
from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, INT_MIN, AttributeUid, Instant, Kind, PresentValue
from maia.predicates.covering.covers import covers
from maia.predicates.covering.normal_form import Clause, alternatives_of
from maia.predicates.covering.ordered_sets import Edges, late_value, single_values
from maia.predicates.covering.value_sets import ANYTHING, PRESENT, ValueSet
from maia.predicates.syntax import OutOfSteps, Predicate, Steps

CODE_MIN: Final = -(2**63)
CODE_MAX: Final = 2**63 - 1
_CODE_BYTES: Final = 8


def is_faithful(kind: Kind) -> bool:
    """Return whether different values of `kind` have different codes."""
    return kind not in (Kind.STRING, Kind.BYTES)


def code_range(kind: Kind) -> tuple[int, int]:
    """Return the lowest and the highest code of a value of `kind`."""
    match kind:
        case Kind.INT:
            return INT_MIN, INT_MAX
        case Kind.TIMESTAMP:
            return INSTANT_MIN, INSTANT_MAX
        case Kind.FLOAT:
            return _float_code(-sys.float_info.max), _float_code(sys.float_info.max)
        case Kind.BOOL:
            return 0, 1
        case Kind.STRING | Kind.BYTES:
            return CODE_MIN, CODE_MAX


def code_of(value: PresentValue) -> int:
    """Return the code of a value; values of different kinds are never compared by code."""
    match value:
        case str():
            return _bytes_code(value.encode())
        case bytes():
            return _bytes_code(value)
        case float():
            return _float_code(value)
        case _:
            return int(value)


def value_of(code: int, kind: Kind) -> PresentValue:
    """Return the value of a faithful kind that has this code."""
    match kind:
        case Kind.INT:
            return code
        case Kind.TIMESTAMP:
            return Instant(code)
        case Kind.BOOL:
            return bool(code)
        case Kind.FLOAT:
            bits = code if code >= 0 else CODE_MIN - code
            return float(struct.unpack(">d", struct.pack(">q", bits))[0])
        case Kind.STRING | Kind.BYTES:
            raise AssertionError(f"the code of a {kind.value} does not name one value")


def _float_code(value: float) -> int:
    # IEEE 754 doubles are ordered like sign and magnitude integers, and minus zero never gets here.
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else CODE_MIN - bits


def _bytes_code(data: bytes) -> int:
    # UTF-8 keeps the order of code points. Padding with zeros keeps a prefix no later than its extensions.
    return int.from_bytes(data[:_CODE_BYTES].ljust(_CODE_BYTES, b"\0"), "big") + CODE_MIN


def bracket(kind: Kind, edges: Edges) -> tuple[int, int]:
    """Return a range of codes that holds all values inside some edges; of a faithful kind, the tightest."""
    if len(edges) % 2:
        return code_of(edges[0]), code_range(kind)[1]
    after = edges[-1]
    if not is_faithful(kind):
        # The code of a text orders its first eight bytes, padded with zeros: values below may share it.
        data = after.encode() if isinstance(after, str) else after
        if len(data) > _CODE_BYTES or data.endswith(b"\0"):
            return code_of(edges[0]), code_of(after)
    return code_of(edges[0]), code_of(after) - 1


RECENT_MAX: Final = 128

ANY_KIND: Final = 0
_KIND_CODES: Final = {kind: number for number, kind in enumerate(Kind, start=ANY_KIND + 1)}


@dataclass(frozen=True, slots=True)
class Edge:
    """The bounds of a filter on one attribute, as numbers for bulk comparison."""

    kind: int
    low: int
    high: int
    only: int
    """The fingerprint of the only admitted value, or 0."""
    inner_low: int
    inner_high: int
    inner: int
    """The fingerprint of an admitted value, or 0 where none is known."""
    is_range: int = 0
    """1 if exactly the values between the bounds are admitted, so that comparing bounds is proof."""

    FIELDS: ClassVar = ("kind", "low", "high", "only", "inner_low", "inner_high", "inner", "is_range")

    def numbers(self) -> tuple[int, ...]:
        """Return the bounds in the order of `FIELDS`."""
        outer = (self.kind, self.low, self.high, self.only)
        return (*outer, self.inner_low, self.inner_high, self.inner, self.is_range)


_OPEN_EDGE: Final = Edge(ANY_KIND, CODE_MIN, CODE_MAX, 0, CODE_MIN, CODE_MAX, 0)


@dataclass(frozen=True, slots=True)
class Box:
    """A filter and its bounds.

    `edges` has one entry for every attribute that the filter surely asks to be
    present. It is None if nothing is known. `is_empty` means that the filter
    is proved to admit nothing. `clause` is there if the filter says of each attribute which values
    it may have, and nothing else.
    """

    filter: Predicate
    is_empty: bool
    edges: Mapping[AttributeUid, Edge] | None
    exact: bool
    clause: Clause | None
    inside: Mapping[AttributeUid, Sequence[PresentValue]]
    """Some values that the clause admits, of attributes for which they are known."""


class RecentBoxes:
    """Works out bounds, and remembers the last few.

    A box is five times as large as its filter and is rarely asked for twice,
    so tables of many filters keep the filters alone.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin without boxes."""
        self._known: BoundedMap[int, Box] = BoundedMap(RECENT_MAX)

    def of(self, filter_: Predicate) -> Box:
        """Return a filter with its bounds."""
        # A box holds its filter, so the identity is not given to another one while it is known here.
        found = self._known.get(id(filter_))
        if found is None:
            found = box_of(filter_)
            self._known.put(id(filter_), found)
        return found


def box_of(predicate: Predicate) -> Box:
    """Bracket a filter of any shape, within the size that the language allows."""
    every = alternatives_of(predicate)
    if not all(one.is_exact for one in every):
        return Box(predicate, False, None, False, None, {})
    clauses = [(one.values, {uid: _inside(values) for uid, values in one.values.items()}) for one in every]
    clauses = [(clause, inside) for clause, inside in clauses if not _is_empty(clause, inside)]
    if not clauses:
        return Box(predicate, True, {}, False, None, {})
    edges = _joined(
        [
            {uid: _edge(values, inside[uid]) for uid, values in clause.items() if not values.absent}
            for clause, inside in clauses
        ]
    )
    if len(clauses) > 1:
        return Box(predicate, False, edges, False, None, {})
    ((clause, inside),) = clauses
    exact = all(values == PRESENT or (uid in edges and edges[uid].is_range) for uid, values in clause.items())
    return Box(predicate, False, edges, exact, clause, inside)


def proved_to_cover(*, wide: Box, narrow: Box) -> bool:
    """Return whether `wide` admits all that `narrow` admits, proved attribute by attribute where possible."""
    if narrow.is_empty or wide.is_empty:
        return narrow.is_empty
    if wide.clause is not None and narrow.clause is not None:
        inner, inside, steps = narrow.clause, narrow.inside, Steps()
        if any(one not in values for uid, values in wide.clause.items() for one in inside.get(uid, ())):
            return False  # nearly all answers, and they need no automaton
        try:
            return all(
                values.proved_contains(inner.get(uid, ANYTHING), steps) for uid, values in wide.clause.items()
            )
        except OutOfSteps:
            pass
    return covers(wide=wide.filter, narrow=narrow.filter)


def bounds_rule_out(*, wide: Box, narrow: Box) -> bool:
    """Return whether the bounds alone show that `wide` does not admit all that `narrow` admits.

    It is proof if `narrow` admits anything. Filters with several alternatives
    are left undecided: one of them may admit nothing without our knowing, and
    then its inner edges are touched by nothing.
    """
    if wide.edges is None or narrow.edges is None or narrow.clause is None:
        return False
    return any(
        (inner := narrow.edges.get(uid)) is None or not _may_hold(outer, inner)
        for uid, outer in wide.edges.items()
    )


def _may_hold(outer: Edge, inner: Edge) -> bool:
    """Say what a comparison of columns in `box_index.py` says: whether outer edges hold inner ones."""
    if outer.low > inner.inner_low or outer.high < inner.inner_high:
        return False
    if outer.kind not in (ANY_KIND, inner.kind):
        return False
    return 0 in (outer.only, inner.inner) or outer.only == inner.inner


def _is_empty(clause: Clause, inside: Mapping[AttributeUid, Sequence[PresentValue]]) -> bool:
    return any(not inside[uid] and values.is_empty() for uid, values in clause.items())


def _inside(values: ValueSet) -> Sequence[PresentValue]:
    """Return a value of a set that has one kind, and one that is as high as is known, if they are found."""
    if values.absent or len(values.edges) != 1:
        return ()
    if values.claims:
        # All that is wanted of a string, in a row, is often an answer that needs no search.
        guess = "".join(sorted(one.text for one in values.claims if one.holds))
        if guess in values:
            return (guess,)
        return [value for value in values.samples() if value is not None]
    ((kind, edges),) = values.edges.items()
    return edges[0], value_of(bracket(kind, edges)[1], kind) if is_faithful(kind) else late_value(edges)


def _edge(values: ValueSet, inside: Sequence[PresentValue]) -> Edge:
    if len(values.edges) != 1:
        return _OPEN_EDGE
    ((kind, edges),) = values.edges.items()
    low, high = bracket(kind, edges)
    only = None if values.claims else single_values(edges, 1)
    # Without a known value inside, the inner edges are crossed so that no outer edge can miss them.
    codes = [code_of(value) for value in inside] or [CODE_MAX, CODE_MIN]
    return Edge(
        kind=_KIND_CODES[kind],
        low=low,
        high=high,
        only=_fingerprint(only[0]) if only else 0,
        inner_low=codes[0],
        inner_high=codes[-1],
        inner=_fingerprint(inside[0]) if inside else 0,
        is_range=int(is_faithful(kind) and len(edges) <= 2),
    )


def _joined(branches: Sequence[Mapping[AttributeUid, Edge]]) -> dict[AttributeUid, Edge]:
    """Return the bounds of alternatives taken together: those on attributes that all of them ask for."""
    if len(branches) == 1:
        return dict(branches[0])
    shared = [uid for uid in branches[0] if all(uid in branch for branch in branches)]
    return {uid: _joined_edge([branch[uid] for branch in branches]) for uid in shared}


def _joined_edge(edges: Sequence[Edge]) -> Edge:
    if len(edges) == 1:
        return edges[0]
    if len({edge.kind for edge in edges}) > 1:
        return _OPEN_EDGE
    return Edge(
        kind=edges[0].kind,
        low=min(edge.low for edge in edges),
        high=max(edge.high for edge in edges),
        only=edges[0].only if len({edge.only for edge in edges}) == 1 else 0,
        inner_low=min(edge.inner_low for edge in edges),
        inner_high=max(edge.inner_high for edge in edges),
        inner=next((edge.inner for edge in edges if edge.inner), 0),
    )


def _fingerprint(value: PresentValue) -> int:
    """Return a number that equal values of one kind share. Never 0, and never used as proof."""
    data = value if isinstance(value, bytes) else str(value).encode()
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1
