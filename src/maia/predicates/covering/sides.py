"""What does a filter ask of one attribute, in a form that can be compared in bulk?

The cover table and merging ask. A `Side` brackets the values that some
constraints admit: from outside by a range that holds all of them, from inside
by values known to be admitted. Both brackets are always true. Where they meet,
the side says so (`is_range`, `members`), and no proof is needed any more.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

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
from maia.predicates.constraints import Constraint, Constraints, unnegated
from maia.predicates.meaning import atom_holds_for
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import Comparison, Exists, Membership, Not, Operator, TextMatch, TextTest

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
