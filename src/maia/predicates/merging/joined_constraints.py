"""What is the tightest collection of constraints that covers all of these?

Merging asks for every group. The answer covers each filter of the group,
attribute by attribute: a range over ranges, a list over lists, the same text
constraint where all agree, and `exists` or nothing where no better is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from maia.events import AttributeUid, Kind
from maia.predicates.constraints import Constraint
from maia.predicates.covering.sides import Asked, Side, code_range, is_faithful, value_of
from maia.predicates.syntax import Comparison, Exists, Membership, Operator

__all__ = ["LISTED_MAX", "joined"]

LISTED_MAX: Final = 64
"""A merged list with more literals than this becomes a range, or `exists`."""

_Constraints = tuple[Constraint, ...]


def joined(filters: Sequence[Mapping[AttributeUid, Asked]]) -> dict[AttributeUid, _Constraints]:
    """Return constraints that cover every filter; at least one is given."""
    # A filter that visibly admits nothing is covered by anything, so it need not widen the others.
    some = [one for one in filters if all(asked.side is not None for asked in one.values())] or filters[:1]
    shared = [uid for uid in some[0] if all(uid in one for one in some)]
    return {uid: _joined_on(uid, [one[uid] for one in some]) for uid in shared}


def _joined_on(uid: AttributeUid, asked: Sequence[Asked]) -> _Constraints:
    first = set(asked[0].constraints)
    if all(set(one.constraints) == first for one in asked):
        return asked[0].constraints
    sides = [one.side for one in asked if one.side is not None]
    kind = sides[0].kind
    if kind is None or any(side.kind is not kind for side in sides):
        return (Exists(uid),)
    return _listed(uid, sides) or _ranged(uid, kind, sides) or (Exists(uid),)


def _listed(uid: AttributeUid, sides: Sequence[Side]) -> _Constraints | None:
    members = frozenset(value for side in sides for value in side.members or ())
    if any(side.members is None for side in sides) or len(members) > LISTED_MAX:
        return None
    if len(members) > 1:
        return (Membership(uid, members),)
    return (Comparison(uid, Operator.EQ, next(iter(members))),)


def _ranged(uid: AttributeUid, kind: Kind, sides: Sequence[Side]) -> _Constraints | None:
    if not is_faithful(kind) or not kind.is_ordered:
        return None
    low, high = min(side.low for side in sides), max(side.high for side in sides)
    lowest, highest = code_range(kind)
    ends: list[Constraint] = []
    if low > lowest:
        ends.append(Comparison(uid, Operator.GE, value_of(low, kind)))
    if high < highest or not ends:
        # A range over the whole kind still says which kind it is, which `exists` would not.
        ends.append(Comparison(uid, Operator.LE, value_of(high, kind)))
    return tuple(ends)
