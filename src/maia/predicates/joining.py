"""What is the tightest collection of constraints that covers all of these?

Merging asks for every group. The answer covers each filter of the group,
attribute by attribute: a range over ranges, a list over lists, the same text
constraint where all agree, and `exists` or nothing where no better is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.events import AttributeUid, Kind
from maia.predicates.constraints import Constraint, Constraints
from maia.predicates.order_codes import code_range, is_faithful, value_of
from maia.predicates.sides import Side, side_of
from maia.predicates.syntax import Comparison, Exists, Membership, Operator

__all__ = ["LISTED_MAX", "joined"]

LISTED_MAX: Final = 64
"""A merged list with more literals than this becomes a range, or `exists`."""

_Asked = tuple[Constraint, ...]


def joined(filters: Sequence[Constraints]) -> dict[AttributeUid, _Asked]:
    """Return constraints that cover every filter; at least one is given."""
    # A filter that visibly admits nothing is covered by anything, so it need not widen the others.
    split = [(one, sides) for one in filters if (sides := _sides_of(one)) is not None]
    if not split:
        return dict(filters[0])
    shared = [uid for uid in split[0][0] if all(uid in one for one, _ in split)]
    return {
        uid: _joined_on(uid, [one[uid] for one, _ in split], [sides[uid] for _, sides in split])
        for uid in shared
    }


def _sides_of(constraints: Constraints) -> dict[AttributeUid, Side] | None:
    sides = {uid: side_of(asked) for uid, asked in constraints.items()}
    known = {uid: side for uid, side in sides.items() if side is not None}
    return known if len(known) == len(sides) else None


def _joined_on(uid: AttributeUid, asked: Sequence[_Asked], sides: Sequence[Side]) -> _Asked:
    if all(set(some) == set(asked[0]) for some in asked):
        return asked[0]
    kind = sides[0].kind
    if kind is None or any(side.kind is not kind for side in sides):
        return (Exists(uid),)
    return _listed(uid, sides) or _ranged(uid, kind, sides) or (Exists(uid),)


def _listed(uid: AttributeUid, sides: Sequence[Side]) -> _Asked | None:
    members = frozenset(value for side in sides for value in side.members or ())
    if any(side.members is None for side in sides) or len(members) > LISTED_MAX:
        return None
    if len(members) > 1:
        return (Membership(uid, members),)
    return (Comparison(uid, Operator.EQ, next(iter(members))),)


def _ranged(uid: AttributeUid, kind: Kind, sides: Sequence[Side]) -> _Asked | None:
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
