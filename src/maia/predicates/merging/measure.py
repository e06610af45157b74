"""How large a share of all events does a filter admit?

Merging asks, to say how much more a merged filter lets through. A share needs
a measure, and ours is stated: every attribute takes a value of its domain,
each value equally likely, and independently of the others. Under that measure
the share of a collection of constraints is exact (up to the rounding of
floats), because it is the product of the shares on its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid, Kind, PresentValue, Value, kind_of
from maia.predicates.covering.ordered_sets import intervals
from maia.predicates.covering.sides import bracket, code_of, code_range, is_faithful, value_of
from maia.predicates.covering.value_sets import PRESENT, ValueSet
from maia.predicates.syntax import (
    Comparison,
    Constraint,
    Constraints,
    Membership,
    Not,
    Operator,
    TextMatch,
    unnegated,
)

CHOICES_MAX: Final = 100_000
_NUMBERS: Final = (Kind.INT, Kind.TIMESTAMP, Kind.FLOAT)


@dataclass(frozen=True, slots=True)
class Span:
    """All numbers or instants from `low` to `high`: ints and instants counted, floats by length."""

    low: PresentValue
    high: PresentValue
    kind: Kind = field(init=False, repr=False)
    first: int = field(init=False, repr=False)
    last: int = field(init=False, repr=False)
    """The codes of both ends."""
    size: float = field(init=False, repr=False)
    """The number of values, or the length for floats."""

    def __post_init__(self) -> None:
        """Refuse two ends of different kinds, in the wrong order, or without a length."""
        if kind_of(self.low) is not kind_of(self.high) or kind_of(self.low) not in _NUMBERS:
            raise BadInput("INPUT-DOMAIN", "a span runs between two ints, two floats or two timestamps")
        object.__setattr__(self, "kind", kind_of(self.low))
        object.__setattr__(self, "first", code_of(self.low))
        object.__setattr__(self, "last", code_of(self.high))
        object.__setattr__(self, "size", self.length(self.first, self.last))
        if not self.size > 0:
            raise BadInput("INPUT-DOMAIN", "a span needs its low end first, and some length")

    def length(self, low: int, high: int) -> float:
        """Return how much of the span lies between two codes of its kind, both included."""
        low, high = max(low, self.first), min(high, self.last)
        if low > high:
            return 0.0
        start, end = self.position(low), self.position(high)
        return end - start if self.kind is Kind.FLOAT else end - start + 1.0

    def position(self, code: int) -> float:
        """Return where a code lies, in the unit in which the span is measured, from its low end."""
        if self.kind is Kind.FLOAT:
            return float(value_of(code, Kind.FLOAT)) - float(self.low)
        return float(code - self.first)


@dataclass(frozen=True, slots=True)
class Choices:
    """Some values, all of them listed; null means an event without the attribute."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        """Refuse an empty list, one beyond the limit, and one that repeats itself."""
        if not 0 < len(self.values) <= CHOICES_MAX:
            raise BadInput("INPUT-DOMAIN", f"a list of choices has 1 to {CHOICES_MAX} values")
        if len({(type(value), value) for value in self.values}) < len(self.values):
            raise BadInput("INPUT-DOMAIN", "a list of choices names every value once")


@dataclass(frozen=True, slots=True)
class AskedValues:
    """Some constraints on one attribute, and the values that meet them."""

    constraints: tuple[Constraint, ...]
    values: ValueSet
    members: frozenset[PresentValue] | None
    """Exactly the values, where a constraint lists them."""

    @property
    def is_void(self) -> bool:
        """Return whether there are visibly no such values."""
        return not self.values.edges

    @property
    def kind(self) -> Kind | None:
        """Return the kind of every value; None if any present value is admitted."""
        return next(iter(self.values.edges)) if len(self.values.edges) == 1 else None

    @property
    def bounds(self) -> tuple[int, int]:
        """Return a range of codes that holds all values, of the one kind that they have."""
        ((kind, edges),) = self.values.edges.items()
        return bracket(kind, edges)

    @property
    def is_range(self) -> bool:
        """Return whether every value between the bounds is admitted."""
        return self.kind is None or (is_faithful(self.kind) and len(self.values.edges[self.kind]) <= 2)


def asked_of(constraints: Constraints) -> dict[AttributeUid, AskedValues]:
    """Bracket what a filter asks of each of its attributes."""
    return {uid: _asked(asked) for uid, asked in constraints.items()}


def _asked(constraints: tuple[Constraint, ...]) -> AskedValues:
    values = PRESENT
    for one in constraints:
        values = values.intersection(ValueSet.from_atom(unnegated(one), negated=isinstance(one, Not)))
    lists = [one.literals for one in constraints if isinstance(one, Membership)]
    lists += [
        frozenset((one.literal,))
        for one in constraints
        if isinstance(one, Comparison) and one.operator is Operator.EQ
    ]
    shortest = min(lists, key=len, default=None)
    members = None if shortest is None else frozenset(value for value in shortest if value in values)
    return AskedValues(constraints, values, members)


Domain: TypeAlias = Span | Choices
Domains: TypeAlias = Mapping[AttributeUid, Domain]


def share_of(asked: Mapping[AttributeUid, AskedValues], domains: Domains) -> float:
    """Return the share of events that meet all that is asked; every attribute has a domain."""
    return prod(_share_on(one, domains[uid]) for uid, one in asked.items())


def _share_on(asked: AskedValues, domain: Domain) -> float:
    if isinstance(domain, Choices):
        return sum(value in asked.values for value in domain.values) / len(domain.values)
    if asked.kind is None:
        return 0.0 if asked.is_void else 1.0
    if asked.kind is not domain.kind:
        return 0.0
    edges = asked.values.edges[domain.kind]
    last = code_range(domain.kind)[1]
    spans = ((code_of(low), last if after is None else code_of(after) - 1) for low, after in intervals(edges))
    return sum(domain.length(*span) for span in spans) / domain.size


def _literals(asked: Iterable[Constraint]) -> list[PresentValue]:
    found: list[PresentValue] = []
    for one in asked:
        match unnegated(one):
            case Comparison(_, _, literal):
                found.append(literal)
            case Membership(_, literals):
                found.extend(literals)
            case TextMatch(_, _, text):
                found.append(text)
            case _:
                pass
    return found


def derived_domains(
    filters: Sequence[Mapping[AttributeUid, AskedValues]], given: Domains
) -> dict[AttributeUid, Domain]:
    """Return a domain for every attribute in some filter, those given first.

    Numbers are taken to lie between the lowest and the highest literal that
    any filter mentions. Everything else is one of the mentioned literals, or
    one further value for the rest.
    """
    asked: dict[AttributeUid, list[AskedValues]] = {}
    for one in filters:
        for uid, some in one.items():
            asked.setdefault(uid, []).append(some)
    return {uid: given.get(uid) or _derived(some) for uid, some in asked.items()}


def _derived(asked: list[AskedValues]) -> Domain:
    literals = [value for some in asked for value in _literals(some.constraints)]
    kinds = {kind_of(value) for value in literals}
    if len(kinds) == 1 and (kind := kinds.pop()) in _NUMBERS and not _all_listed(asked):
        low, high = min(literals, key=code_of), max(literals, key=code_of)
        return Span(low, high) if code_of(low) < code_of(high) else _whole(kind)
    unique = {(kind_of(value), value): value for value in literals}
    return Choices((*list(unique.values())[: CHOICES_MAX - 1], _other_than(literals)))


def _all_listed(asked: Sequence[AskedValues]) -> bool:
    return all(some.is_void or some.members is not None for some in asked)


def _whole(kind: Kind) -> Span:
    low, high = code_range(kind)
    return Span(value_of(low, kind), value_of(high, kind))


def _other_than(literals: Sequence[PresentValue]) -> str:
    return next(text for number in count() if (text := f"other {number}") not in literals)


# The place of a filter in the space of all events, as numbers.


Interval: TypeAlias = tuple[float, float]
_NOWHERE: Final[Interval] = (1.0, 0.0)
_EVERYWHERE: Final[Interval] = (0.0, 1.0)

_Filter: TypeAlias = Mapping[AttributeUid, AskedValues]


@dataclass(frozen=True, slots=True)
class Length:
    """A dimension that is measured by length."""

    uid: AttributeUid
    span: Span

    def interval(self, asked: AskedValues) -> Interval:
        """Return an interval that holds the values; a neutral one if there are none."""
        if asked.is_void:
            return _NOWHERE
        if asked.kind is not self.span.kind:
            return _EVERYWHERE
        span, (first, last) = self.span, asked.bounds
        low, high = (min(max(code, span.first), span.last) for code in (first, last))
        width = 0.0 if span.kind is Kind.FLOAT or last < span.first or first > span.last else 1.0
        return span.position(low) / span.size, (span.position(high) + width) / span.size

    def is_filled_by(self, asked: AskedValues) -> bool:
        """Return whether everything in the interval is admitted."""
        return not asked.is_void and asked.kind in (None, self.span.kind) and asked.is_range


@dataclass(frozen=True, slots=True)
class Listing:
    """A dimension of single values, each with the same weight, and one bit for all that are not listed."""

    uid: AttributeUid
    values: tuple[Value, ...]
    bit_of: dict[tuple[Kind, PresentValue], int]
    weight: float
    rest: float

    def bits(self, asked: AskedValues | None) -> int:
        """Return bits that hold all values that meet the constraints; None asks for nothing."""
        if asked is None:
            return (2 << len(self.values)) - 1
        if asked.is_void:
            return 0
        if asked.members is not None:
            places = (self.bit_of.get((kind_of(value), value)) for value in asked.members)
            return sum(1 << place for place in places if place is not None)
        met = sum(1 << place for place, value in enumerate(self.values) if value in asked.values)
        return met | (1 << len(self.values))

    def share(self, bits: int) -> float:
        """Return the share of a set of bits."""
        listed = bits & ((1 << len(self.values)) - 1)
        return listed.bit_count() * self.weight + (self.rest if bits >> len(self.values) else 0.0)


@dataclass(frozen=True, slots=True)
class FilterPlace:
    """Where one filter lies, and the share of all events that it admits."""

    intervals: tuple[Interval, ...]
    bits: tuple[int, ...]
    share: float
    is_full: bool
    """The filter admits every event that lies in its place."""


class Geometry:
    """The dimensions of some filters, and where each of the filters lies."""

    def __init__(self, originals: Sequence[_Filter], domains: Domains) -> None:
        self.originals = tuple(originals)
        self.domains = domains
        dimensions = [
            _dimension(uid, domain, [one[uid] for one in originals if uid in one])
            for uid, domain in domains.items()
        ]
        self.lengths = tuple(one for one in dimensions if isinstance(one, Length))
        self.listings = tuple(one for one in dimensions if isinstance(one, Listing))
        self.places = tuple(self.place(one) for one in originals)

    def place(self, asked: _Filter) -> FilterPlace:
        """Return where a filter lies."""
        measured = [one for one in self.lengths if one.uid in asked]
        return FilterPlace(
            intervals=tuple(
                one.interval(asked[one.uid]) if one.uid in asked else _EVERYWHERE for one in self.lengths
            ),
            bits=tuple(one.bits(asked.get(one.uid)) for one in self.listings),
            share=share_of(asked, self.domains),
            # Lists of originals are exact, so only lengths can leave a place unfilled.
            is_full=all(one.is_filled_by(asked[one.uid]) for one in measured),
        )

    def shared(self, one: FilterPlace, other: FilterPlace) -> float:
        """Return an upper bound of the share of events that lie in both places."""
        lengths = prod(
            max(0.0, min(high, other_high) - max(low, other_low))
            for (low, high), (other_low, other_high) in zip(one.intervals, other.intervals, strict=True)
        )
        pairs = zip(self.listings, one.bits, other.bits, strict=True)
        return lengths * prod(listing.share(bits & other_bits) for listing, bits, other_bits in pairs)


def _dimension(uid: AttributeUid, domain: Domain, asked: Sequence[AskedValues]) -> Length | Listing:
    if isinstance(domain, Choices):
        return _listing(uid, domain.values, weight=1 / len(domain.values), rest=0.0)
    if not _all_listed(asked):
        return Length(uid, domain)
    # Where every filter lists its values, a merged list lets nothing more through and a range would.
    values = _inside(domain, (value for some in asked for value in some.members or ()))
    weight = domain.length(domain.first, domain.first) / domain.size
    return _listing(uid, values, weight=weight, rest=1 - weight * len(values))


def _inside(span: Span, values: Iterable[PresentValue]) -> tuple[PresentValue, ...]:
    same_kind = {value for value in values if kind_of(value) is span.kind}
    found = {value for value in same_kind if span.first <= code_of(value) <= span.last}
    return tuple(sorted(found, key=code_of))


def _listing(uid: AttributeUid, values: Sequence[Value], *, weight: float, rest: float) -> Listing:
    bit_of = {(kind_of(value), value): place for place, value in enumerate(values) if value is not None}
    return Listing(uid, tuple(values), bit_of, weight, rest)
