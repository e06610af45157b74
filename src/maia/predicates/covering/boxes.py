"""Between which bounds does a whole filter lie, attribute by attribute?

The cover table asks, to rule out nearly all of a hundred thousand filters
before it proves anything. A `Box` brackets a filter of any shape. Its outer
edges hold everything that the filter admits; its inner edges are touched by
something that the filter admits. If one filter covers another, then the outer
edges of the first hold the inner edges of the second. The reverse is proof
only for boxes that are `exact`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Final

from maia.bounded_map import BoundedMap
from maia.events import AttributeUid, Kind, PresentValue
from maia.predicates.constraints import Constraint, Constraints, direct_constraint, unnegated
from maia.predicates.covering.covers import covers, provably_empty
from maia.predicates.covering.sides import CODE_MAX, CODE_MIN, Side, code_of, side_of, side_within
from maia.predicates.syntax import AllOf, AnyOf, Exists, Not, Predicate, checked_size

BRANCHES_MAX: Final = 64
"""A filter with more alternatives than this is bracketed by nothing, and always has to be proved."""

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
    is proved to admit nothing. `sides` is there if the filter is a collection
    of constraints.
    """

    filter: Predicate
    is_empty: bool
    edges: Mapping[AttributeUid, Edge] | None
    exact: bool
    constraints: Constraints | None
    sides: Mapping[AttributeUid, Side] | None


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


_Branch = tuple[Constraint, ...]


def box_of(predicate: Predicate) -> Box:
    """Bracket a filter of any shape, within the size that the language allows."""
    branches = branches_of(checked_size(predicate), negated=False)
    if branches is None:
        return Box(predicate, False, None, False, None, None)
    plain = [_by_attribute(branch) for branch in branches]
    split = [(branch, sides) for branch in plain if (sides := _sides(branch)) is not None]
    if not split:
        return Box(predicate, True, {}, False, None, None)
    edges = _joined([{uid: _edge(side) for uid, side in sides.items()} for _, sides in split])
    if len(split) > 1 or _asks_for_absence(split[0][0]):
        return Box(predicate, False, edges, False, None, None)
    constraints, sides = split[0]
    return Box(predicate, False, edges, all(side.is_range for side in sides.values()), constraints, sides)


def proved_to_cover(*, wide: Box, narrow: Box) -> bool:
    """Say whether `wide` admits all that `narrow` admits, proved attribute by attribute where possible."""
    if narrow.is_empty or wide.is_empty:
        return narrow.is_empty
    if wide.sides is None or narrow.sides is None or wide.constraints is None or narrow.constraints is None:
        return covers(wide=wide.filter, narrow=narrow.filter)
    for uid, outer in wide.sides.items():
        inner = narrow.sides.get(uid)
        if inner is None:
            return False
        asked = wide.constraints[uid]
        within = side_within(wide=outer, narrow=inner, wide_constraints=asked)
        if within is None:
            within = covers(wide=AllOf(asked), narrow=AllOf(narrow.constraints[uid]))
        if not within:
            return False
    return True


def bounds_rule_out(*, wide: Box, narrow: Box) -> bool:
    """Say whether the bounds alone show that `wide` does not admit all that `narrow` admits.

    It is proof if `narrow` admits anything. Filters with several alternatives
    are left undecided: one of them may admit nothing without our knowing, and
    then its inner edges are touched by nothing.
    """
    if wide.edges is None or narrow.edges is None or narrow.constraints is None:
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


def branches_of(node: Predicate, *, negated: bool = False) -> list[_Branch] | None:
    """Return the alternatives of a filter, each a conjunction; None if there are too many.

    Recursive, behind the depth limit that `checked_size` keeps.
    """
    match node:
        case Not(inner):
            return branches_of(inner, negated=not negated)
        case AllOf(parts) | AnyOf(parts):
            split = [branches_of(part, negated=negated) for part in parts]
            known = [branches for branches in split if branches is not None]
            if len(known) < len(split):
                return None
            return _all_together(known) if isinstance(node, AllOf) is not negated else _one_of(known)
        case atom:
            return [(direct_constraint(atom, negated=negated),)]


def _all_together(parts: Sequence[list[_Branch]]) -> list[_Branch] | None:
    count = 1
    for part in parts:
        count *= len(part)
        if count > BRANCHES_MAX:
            return None
    return [tuple(one for branch in chosen for one in branch) for chosen in product(*parts)]


def _one_of(parts: Sequence[list[_Branch]]) -> list[_Branch] | None:
    branches = [branch for part in parts for branch in part]
    return branches if len(branches) <= BRANCHES_MAX else None


def _by_attribute(branch: _Branch) -> dict[AttributeUid, _Branch]:
    by_uid: dict[AttributeUid, list[Constraint]] = {}
    for one in branch:
        by_uid.setdefault(unnegated(one).uid, []).append(one)
    return {uid: tuple(asked) for uid, asked in by_uid.items()}


def _is_absence(constraint: Constraint) -> bool:
    return isinstance(constraint, Not) and isinstance(constraint.inner, Exists)


def _asks_for_absence(constraints: Constraints) -> bool:
    return any(_is_absence(one) for asked in constraints.values() for one in asked)


def _sides(constraints: Constraints) -> dict[AttributeUid, Side] | None:
    """Return the side of every attribute that a branch asks to be present; None if it admits nothing."""
    sides: dict[AttributeUid, Side] = {}
    for uid, asked in constraints.items():
        if all(_is_absence(one) for one in asked):
            continue
        side = side_of(asked)
        if side is None or (_is_doubtful(side) and provably_empty(AllOf(asked))):
            return None
        sides[uid] = side
    return sides


def _is_doubtful(side: Side) -> bool:
    return side.kind is not None and not side.samples


def _edge(side: Side) -> Edge:
    if side.kind is None:
        return _OPEN_EDGE
    only = next(iter(side.members)) if side.members is not None and len(side.members) == 1 else None
    # Without a known value inside, the inner edges are crossed so that no outer edge can miss them.
    codes = [code_of(value) for value in side.samples] or [CODE_MAX, CODE_MIN]
    return Edge(
        kind=_KIND_CODES[side.kind],
        low=side.low,
        high=side.high,
        only=0 if only is None else _fingerprint(only),
        inner_low=codes[0],
        inner_high=codes[-1],
        inner=_fingerprint(side.samples[0]) if side.samples else 0,
        is_range=int(side.is_range),
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
