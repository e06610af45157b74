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
from maia.predicates.constraints import Constraint, unnegated
from maia.predicates.covering.order_codes import code_of, code_range, value_of
from maia.predicates.covering.sides import Asked, Side, holds_for
from maia.predicates.syntax import Comparison, Membership, TextMatch

__all__ = ["BadDomain", "Choices", "Domain", "Domains", "Span", "derived_domains", "share_of"]

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
    kind: Kind = field(init=False, repr=False)
    first: int = field(init=False, repr=False)
    last: int = field(init=False, repr=False)
    """The codes of both ends."""
    size: float = field(init=False, repr=False)
    """The number of values, or the length for floats."""

    def __post_init__(self) -> None:
        """Refuse two ends of different kinds, in the wrong order, or without a length."""
        if kind_of(self.low) is not kind_of(self.high) or kind_of(self.low) not in _NUMBERS:
            raise BadDomain("a span runs between two ints, two floats or two timestamps")
        object.__setattr__(self, "kind", kind_of(self.low))
        object.__setattr__(self, "first", code_of(self.low))
        object.__setattr__(self, "last", code_of(self.high))
        object.__setattr__(self, "size", self.length(self.first, self.last))
        if not self.size > 0:
            raise BadDomain("a span needs its low end first, and some length")

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
            raise BadDomain(f"a list of choices has 1 to {CHOICES_MAX} values")
        if len({(type(value), value) for value in self.values}) < len(self.values):
            raise BadDomain("a list of choices names every value once")


Domain: TypeAlias = Span | Choices
Domains: TypeAlias = Mapping[AttributeUid, Domain]


def share_of(asked: Mapping[AttributeUid, Asked], domains: Domains) -> float:
    """Return the share of events that meet all that is asked; every attribute has a domain."""
    return prod(_share_on(one, domains[uid]) for uid, one in asked.items())


def _share_on(asked: Asked, domain: Domain) -> float:
    if isinstance(domain, Choices):
        met = sum(value is not None and holds_for(asked.constraints, value) for value in domain.values)
        return met / len(domain.values)
    return 0.0 if asked.side is None else _spanned(asked.side, asked.constraints, domain) / domain.size


def _spanned(side: Side, asked: tuple[Constraint, ...], span: Span) -> float:
    if side.kind is None:
        return span.size
    if side.kind is not span.kind:
        return 0.0
    if side.members is not None:
        codes = {code_of(value) for value in side.members}
        return sum(span.length(code, code) for code in codes)
    whole = span.length(side.low, side.high)
    if side.is_range:
        return whole
    holes = {code_of(value) for value in _literals(asked) if not holds_for(asked, value)}
    return whole - sum(span.length(code, code) for code in holes if side.low <= code <= side.high)


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
    filters: Sequence[Mapping[AttributeUid, Asked]], given: Domains
) -> dict[AttributeUid, Domain]:
    """Return a domain for every attribute in some filter, those given first.

    Numbers are taken to lie between the lowest and the highest literal that
    any filter mentions. Everything else is one of the mentioned literals, or
    one further value for the rest.
    """
    asked: dict[AttributeUid, list[Asked]] = {}
    for one in filters:
        for uid, some in one.items():
            asked.setdefault(uid, []).append(some)
    return {uid: given.get(uid) or _derived(some) for uid, some in asked.items()}


def _derived(asked: list[Asked]) -> Domain:
    literals = [value for some in asked for value in _literals(some.constraints)]
    kinds = {kind_of(value) for value in literals}
    if len(kinds) == 1 and (kind := kinds.pop()) in _NUMBERS and not _all_listed(asked):
        low, high = min(literals, key=code_of), max(literals, key=code_of)
        return Span(low, high) if code_of(low) < code_of(high) else _whole(kind)
    unique = {(kind_of(value), value): value for value in literals}
    return Choices((*list(unique.values())[: CHOICES_MAX - 1], _other_than(literals)))


def _all_listed(asked: list[Asked]) -> bool:
    return all(some.side is None or some.side.members is not None for some in asked)


def _whole(kind: Kind) -> Span:
    low, high = code_range(kind)
    return Span(value_of(low, kind), value_of(high, kind))


def _other_than(literals: Sequence[PresentValue]) -> str:
    return next(text for number in count() if (text := f"other {number}") not in literals)
