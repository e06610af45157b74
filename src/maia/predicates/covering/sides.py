"""What does a filter ask of one attribute, in a form that can be compared in bulk?

The cover table and merging ask. A `Side` brackets the values that some
constraints admit: from outside by a range that holds all of them, from inside
by values known to be admitted. Both brackets are always true. Where they meet,
the side says so (`is_range`, `members`), and no proof is needed any more.

Between which bounds does a whole filter lie, attribute by attribute?

The cover table asks, to rule out nearly all of a hundred thousand filters
before it proves anything. A `Box` brackets a filter of any shape. Its outer
edges hold everything that the filter admits; its inner edges are touched by
something that the filter admits. If one filter covers another, then the outer
edges of the first hold the inner edges of the second. The reverse is proof
only for boxes that are `exact`.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Final

from maia.bounded_map import BoundedMap
from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    AttributeUid,
    Instant,
    Kind,
    PresentValue,
    kind_of,
)
from maia.predicates.covering.covers import covers, provably_empty
from maia.predicates.meaning import atom_holds_for
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Constraint,
    Constraints,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    checked_size,
    direct_constraint,
    unnegated,
)

# How are values of every ordered kind compared by the thousand, as 64-bit integers?


CODE_MIN: Final = -(2**63)
CODE_MAX: Final = 2**63 - 1


def is_faithful(kind: Kind) -> bool:
    """Say whether different values of `kind` have different codes."""
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
    return int.from_bytes(data[:8].ljust(8, b"\0"), "big") + CODE_MIN


_LAST_CHARACTER: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one attribute that one filter admits, from outside and from inside."""

    kind: Kind | None
    """The kind of every admitted value; None if any present value is admitted."""
    low: int
    high: int
    """Every admitted value has a code from `low` to `high`."""
    is_range: bool
    """Every value of the kind with such a code is admitted (codes of this kind are faithful)."""
    members: frozenset[PresentValue] | None
    """Exactly the admitted values, where a filter lists them."""
    samples: tuple[PresentValue, ...]
    """Some admitted values, in order; the lowest and highest where they are known. May be empty."""


ANYTHING: Final = Side(kind=None, low=CODE_MIN, high=CODE_MAX, is_range=True, members=None, samples=())


@dataclass(frozen=True, slots=True)
class Asked:
    """Some constraints on one attribute, and the values that meet them; None if there are none."""

    constraints: tuple[Constraint, ...]
    side: Side | None


def asked_of(constraints: Constraints) -> dict[AttributeUid, Asked]:
    """Bracket what a filter asks of each of its attributes."""
    return {uid: Asked(asked, side_of(asked)) for uid, asked in constraints.items()}


def side_of(constraints: tuple[Constraint, ...]) -> Side | None:
    """Bracket the values that meet all of some constraints on one attribute; None if there are none.

    A side that is returned may still admit nothing, if that takes more
    thought than comparing literals.
    """
    asked: list[Constraint] = [one for one in constraints if not isinstance(one, Exists)]
    if any(isinstance(one, Not) and isinstance(one.inner, Exists) for one in asked):
        return None
    kinds = {_kind_asked(one) for one in asked}
    if len(kinds) > 1:
        return None
    if not kinds:
        return ANYTHING
    kind = kinds.pop()
    listed = _listed(asked)
    if listed is not None:
        return _finite(kind, asked, listed)
    return _faithful(kind, asked) if is_faithful(kind) else _textual(kind, asked)


def side_within(*, wide: Side, narrow: Side, wide_constraints: tuple[Constraint, ...]) -> bool | None:
    """Say whether `wide` admits all that `narrow` admits; None if the brackets do not tell.

    Both sides admit something. `wide_constraints` are those that `wide` was made of.
    """
    if wide.kind is None:
        return True
    if narrow.kind is not wide.kind or not all(
        holds_for(wide_constraints, value) for value in narrow.samples
    ):
        return False
    if narrow.members is not None:
        return all(holds_for(wide_constraints, value) for value in narrow.members)
    if wide.is_range and narrow.is_range:
        return wide.low <= narrow.low and narrow.high <= wide.high
    return None


def holds_for(constraints: Iterable[Constraint], value: PresentValue) -> bool:
    """Say whether a value meets all of some constraints on its attribute."""
    for one in constraints:
        holds = atom_holds_for(unnegated(one), value)
        if holds is None or holds is isinstance(one, Not):
            return False
    return True


def _kind_asked(constraint: Constraint) -> Kind:
    atom = unnegated(constraint)
    return atom.kind if isinstance(atom, Comparison | Membership) else Kind.STRING


def _listed(asked: list[Constraint]) -> frozenset[PresentValue] | None:
    """Return a list of literals that holds every admitted value, the shortest there is."""
    lists = [one.literals for one in asked if isinstance(one, Membership)]
    equal = [one.literal for one in asked if isinstance(one, Comparison) and one.operator is Operator.EQ]
    if equal:
        return frozenset(equal[:1])
    return min(lists, key=len) if lists else None


def _finite(kind: Kind, asked: list[Constraint], listed: frozenset[PresentValue]) -> Side | None:
    members = frozenset(value for value in listed if holds_for(asked, value))
    if not members:
        return None
    codes = {code_of(value) for value in members}
    low, high = min(codes), max(codes)
    return Side(
        kind=kind,
        low=low,
        high=high,
        is_range=is_faithful(kind) and high - low + 1 == len(codes),
        members=members,
        samples=_ends(members),
    )


def _faithful(kind: Kind, asked: list[Constraint]) -> Side | None:
    low, high = code_range(kind)
    holes: set[int] = set()
    for one in asked:
        low, high = _narrowed(one, low, high)
        holes |= _holes(one)
    while low <= high and low in holes:
        low += 1
    while low <= high and high in holes:
        high -= 1
    if low > high:
        return None
    ends = frozenset({value_of(low, kind), value_of(high, kind)})
    no_holes = not any(low < hole < high for hole in holes)
    return Side(kind=kind, low=low, high=high, is_range=no_holes, members=None, samples=_ends(ends))


def _narrowed(constraint: Constraint, low: int, high: int) -> tuple[int, int]:
    if not isinstance(constraint, Comparison):
        return low, high
    code = code_of(constraint.literal)
    match constraint.operator:
        case Operator.LT:
            return low, min(high, code - 1)
        case Operator.LE:
            return low, min(high, code)
        case Operator.GT:
            return max(low, code + 1), high
        case Operator.GE:
            return max(low, code), high
        case _:
            return low, high


def _holes(constraint: Constraint) -> set[int]:
    match constraint:
        case Comparison(_, Operator.NE, literal):
            return {code_of(literal)}
        case Not(Membership(_, literals)):
            return {code_of(literal) for literal in literals}
        case _:
            return set()


def _textual(kind: Kind, asked: list[Constraint]) -> Side | None:
    low, high = CODE_MIN, CODE_MAX
    for one in asked:
        lowest, highest = _bracket(one)
        low, high = max(low, lowest), min(high, highest)
    if low > high:
        return None
    found = frozenset(
        value for value in _guesses(asked) if kind_of(value) is kind and holds_for(asked, value)
    )
    return Side(kind=kind, low=low, high=high, is_range=False, members=None, samples=_ends(found))


def _bracket(constraint: Constraint) -> tuple[int, int]:
    """Return a range of codes that holds all that one constraint on text admits."""
    match constraint:
        case Comparison(_, Operator.LT | Operator.LE, literal):
            return CODE_MIN, code_of(literal)
        case Comparison(_, Operator.GT | Operator.GE, literal):
            return code_of(literal), CODE_MAX
        case TextMatch(_, TextTest.PREFIX | TextTest.LEVELS as test, text):
            begins = text if test is TextTest.PREFIX else parse_path_pattern(text).literal
            return code_of(begins), code_of(begins.encode()[:8].ljust(8, b"\xff"))
        case _:
            return CODE_MIN, CODE_MAX


def _guesses(asked: list[Constraint]) -> Iterator[PresentValue]:
    """Yield values that are likely to meet constraints on text; the caller checks each."""
    joined = "".join(one.text for one in asked if isinstance(one, TextMatch))
    yield joined
    yield b""
    for one in asked:
        match one:
            case TextMatch(_, TextTest.LEVELS, text):
                path = text.removesuffix("/#").replace("+", "a")
                yield from (path, f"{path}/a")
            case Comparison(_, _, str() as text) | TextMatch(_, _, text):
                yield from (text, text + "\x01", text + _LAST_CHARACTER * 2)
            case Comparison(_, _, bytes() as data):
                yield from (data, data + b"\0", data + b"\xff" * 8)
            case _:
                pass
    yield from (_LAST_CHARACTER * 2, b"\xff" * 8)


def _ends(values: frozenset[PresentValue]) -> tuple[PresentValue, ...]:
    # All are of one kind, and the code of text orders only its beginning: that is enough for a bracket.
    ordered = sorted(values, key=lambda value: (code_of(value), repr(value)))
    return tuple(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else ()


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
