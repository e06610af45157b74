"""How large a share of all events does a filter admit?

Merging asks, to say how much more a merged filter lets through. A share needs
a measure, and ours is stated: every attribute takes a value of its domain,
each value equally likely, and independently of the others. Under that measure
the share of a collection of constraints is exact (up to the rounding of
floats), because it is the product of the shares on its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid, Kind, PresentValue, Value, kind_of
from maia.predicates.constraints import Constraint, Constraints, unnegated
from maia.predicates.order_codes import code_of, code_range, value_of
from maia.predicates.sides import Side, holds_for, side_of
from maia.predicates.syntax import Comparison, Membership, TextMatch

__all__ = ["BadDomain", "Choices", "Domain", "Domains", "Span", "derived_domains", "share_of", "share_on"]

CHOICES_MAX: Final = 100_000
_NUMBERS: Final = (Kind.INT, Kind.TIMESTAMP, Kind.FLOAT)


class BadDomain(BadInput):
    """A domain has no values, or a kind that cannot be spanned."""

    code = "INPUT-DOMAIN"


@dataclass(frozen=True, slots=True)
class Span:
    """All numbers or instants from `low` to `high`: ints and instants counted, floats by length."""

    low: PresentValue
    high: PresentValue

    def __post_init__(self) -> None:
        """Refuse two ends of different kinds, in the wrong order, or without a length."""
        if kind_of(self.low) is not kind_of(self.high) or self.kind not in _NUMBERS:
            raise BadDomain("a span runs between two ints, two floats or two timestamps")
        if not self.size > 0:
            raise BadDomain("a span needs its low end first, and some length")

    @property
    def kind(self) -> Kind:
        """Return the kind of all values of the span."""
        return kind_of(self.low)

    @property
    def size(self) -> float:
        """Return the number of values, or the length for floats."""
        return self.length(code_of(self.low), code_of(self.high))

    def length(self, low: int, high: int) -> float:
        """Return how much of the span lies between two codes of its kind, both included."""
        low, high = max(low, code_of(self.low)), min(high, code_of(self.high))
        if low > high:
            return 0.0
        start, end = self.position(low), self.position(high)
        return end - start if self.kind is Kind.FLOAT else end - start + 1.0

    def position(self, code: int) -> float:
        """Return where a code lies, in the unit in which the span is measured, from its low end."""
        if self.kind is Kind.FLOAT:
            return float(value_of(code, Kind.FLOAT)) - float(self.low)
        return float(code - code_of(self.low))


@dataclass(frozen=True, slots=True)
class Choices:
    """Some values, all of them listed; null stands for an event without the attribute."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        """Refuse an empty list, one beyond the limit, and one that repeats itself."""
        if not 0 < len(self.values) <= CHOICES_MAX:
            raise BadDomain(f"a list of choices has 1 to {CHOICES_MAX} values")
        if len({(type(value), value) for value in self.values}) < len(self.values):
            raise BadDomain("a list of choices names every value once")


Domain: TypeAlias = Span | Choices
Domains: TypeAlias = Mapping[AttributeUid, Domain]


def share_of(constraints: Constraints, domains: Domains) -> float:
    """Return the share of events that meet all constraints; every attribute has a domain."""
    share = 1.0
    for uid, asked in constraints.items():
        share *= share_on(asked, domains[uid])
    return share


def share_on(asked: tuple[Constraint, ...], domain: Domain) -> float:
    """Return the share of the values of one domain that meet all constraints on it."""
    if isinstance(domain, Choices):
        met = sum(value is not None and holds_for(asked, value) for value in domain.values)
        return met / len(domain.values)
    side = side_of(asked)
    return 0.0 if side is None else _spanned(side, asked, domain) / domain.size


def _spanned(side: Side, asked: tuple[Constraint, ...], span: Span) -> float:
    if side.kind is None:
        return span.size
    if side.kind is not span.kind:
        return 0.0
    if side.members is not None:
        codes = {code_of(value) for value in side.members}
        return sum(span.length(code, code) for code in codes)
    holes = {code for code in _literal_codes(asked) if side.low <= code <= side.high}
    left_out = {code for code in holes if not holds_for(asked, _restored(code, asked))}
    return span.length(side.low, side.high) - sum(span.length(code, code) for code in left_out)


def _restored(code: int, asked: tuple[Constraint, ...]) -> PresentValue:
    return next(value for value in _literals(asked) if code_of(value) == code)


def _literal_codes(asked: tuple[Constraint, ...]) -> set[int]:
    return {code_of(value) for value in _literals(asked)}


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


def derived_domains(filters: Sequence[Constraints], given: Domains) -> dict[AttributeUid, Domain]:
    """Return a domain for every attribute that some filter speaks of, those given first.

    Numbers are taken to lie between the lowest and the highest literal that
    any filter mentions. Everything else is one of the mentioned literals, or
    one further value that stands for the rest.
    """
    asked: dict[AttributeUid, list[tuple[Constraint, ...]]] = {}
    for constraints in filters:
        for uid, some in constraints.items():
            asked.setdefault(uid, []).append(some)
    return {uid: given.get(uid) or _derived(some) for uid, some in asked.items()}


def _derived(asked: list[tuple[Constraint, ...]]) -> Domain:
    literals = [value for some in asked for value in _literals(some)]
    kinds = {kind_of(value) for value in literals}
    if len(kinds) == 1 and (kind := kinds.pop()) in _NUMBERS and not _all_listed(asked):
        low, high = min(literals, key=code_of), max(literals, key=code_of)
        return Span(low, high) if code_of(low) < code_of(high) else _whole(kind)
    unique = {(kind_of(value), value): value for value in literals}
    return Choices((*list(unique.values())[: CHOICES_MAX - 1], _other_than(literals)))


def _all_listed(asked: list[tuple[Constraint, ...]]) -> bool:
    sides = [side_of(some) for some in asked]
    return all(side is None or side.members is not None for side in sides)


def _whole(kind: Kind) -> Span:
    low, high = code_range(kind)
    return Span(value_of(low, kind), value_of(high, kind))


def _other_than(literals: Sequence[PresentValue]) -> str:
    return next(text for number in count() if (text := f"other {number}") not in literals)
