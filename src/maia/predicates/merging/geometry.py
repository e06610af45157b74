"""Where do filters lie in the space of all events, as numbers?

Merging asks, first to choose groups and then to bound their spill. Every
attribute is a dimension. On a *length* a filter takes an interval between 0
and 1. On a *listing* it takes a set of bits: one for each value that matters
and one for all the rest. A `Place` holds all that its filter admits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from maia.events import AttributeUid, Kind, PresentValue, Value, kind_of
from maia.predicates.covering.order_codes import code_of
from maia.predicates.covering.sides import Asked, Side, holds_for
from maia.predicates.merging.measure import Choices, Domain, Domains, Span, share_of

__all__ = ["Geometry", "Interval", "Length", "Listing", "Place"]

Interval: TypeAlias = tuple[float, float]
_NOWHERE: Final[Interval] = (1.0, 0.0)
_EVERYWHERE: Final[Interval] = (0.0, 1.0)

_Filter: TypeAlias = Mapping[AttributeUid, Asked]


@dataclass(frozen=True, slots=True)
class Length:
    """A dimension that is measured by length."""

    uid: AttributeUid
    span: Span

    def interval(self, side: Side | None) -> Interval:
        """Return an interval that holds a side; a neutral one if the side admits nothing."""
        if side is None:
            return _NOWHERE
        if side.kind is not self.span.kind:
            return _EVERYWHERE
        span = self.span
        low, high = (min(max(code, span.first), span.last) for code in (side.low, side.high))
        width = 0.0 if span.kind is Kind.FLOAT or side.high < span.first or side.low > span.last else 1.0
        return span.position(low) / span.size, (span.position(high) + width) / span.size

    def is_filled_by(self, side: Side | None) -> bool:
        """Say whether a side admits everything in its interval."""
        return side is not None and (side.kind is None or (side.kind is self.span.kind and side.is_range))


@dataclass(frozen=True, slots=True)
class Listing:
    """A dimension of single values, each with the same weight, and one bit for all that are not listed."""

    uid: AttributeUid
    values: tuple[Value, ...]
    bit_of: dict[tuple[Kind, PresentValue], int]
    weight: float
    rest: float

    def bits(self, asked: Asked | None) -> int:
        """Return bits that hold all values that meet the constraints; None asks for nothing."""
        if asked is None:
            return (2 << len(self.values)) - 1
        if asked.side is None:
            return 0
        if asked.side.members is not None:
            places = (self.bit_of.get((kind_of(value), value)) for value in asked.side.members)
            return sum(1 << place for place in places if place is not None)
        met = sum(
            1 << place
            for place, value in enumerate(self.values)
            if value is not None and holds_for(asked.constraints, value)
        )
        return met | (1 << len(self.values))

    def share(self, bits: int) -> float:
        """Return the share of a set of bits."""
        listed = bits & ((1 << len(self.values)) - 1)
        return listed.bit_count() * self.weight + (self.rest if bits >> len(self.values) else 0.0)


@dataclass(frozen=True, slots=True)
class Place:
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

    def place(self, asked: _Filter) -> Place:
        """Return where a filter lies."""
        measured = [one for one in self.lengths if one.uid in asked]
        return Place(
            intervals=tuple(
                one.interval(asked[one.uid].side) if one.uid in asked else _EVERYWHERE for one in self.lengths
            ),
            bits=tuple(one.bits(asked.get(one.uid)) for one in self.listings),
            share=share_of(asked, self.domains),
            # Lists of originals are exact, so only lengths can leave a place unfilled.
            is_full=all(one.is_filled_by(asked[one.uid].side) for one in measured),
        )

    def shared(self, one: Place, other: Place) -> float:
        """Return an upper bound of the share of events that lie in both places."""
        lengths = prod(
            max(0.0, min(high, other_high) - max(low, other_low))
            for (low, high), (other_low, other_high) in zip(one.intervals, other.intervals, strict=True)
        )
        pairs = zip(self.listings, one.bits, other.bits, strict=True)
        return lengths * prod(listing.share(bits & other_bits) for listing, bits, other_bits in pairs)


def _dimension(uid: AttributeUid, domain: Domain, asked: Sequence[Asked]) -> Length | Listing:
    if isinstance(domain, Choices):
        return _listing(uid, domain.values, weight=1 / len(domain.values), rest=0.0)
    sides = [some.side for some in asked if some.side is not None]
    if any(side.members is None for side in sides):
        return Length(uid, domain)
    # Where every filter lists its values, a merged list lets nothing more through and a range would.
    values = _inside(domain, (value for side in sides for value in side.members or ()))
    weight = domain.length(domain.first, domain.first) / domain.size
    return _listing(uid, values, weight=weight, rest=1 - weight * len(values))


def _inside(span: Span, values: Iterable[PresentValue]) -> tuple[PresentValue, ...]:
    same_kind = {value for value in values if kind_of(value) is span.kind}
    found = {value for value in same_kind if span.first <= code_of(value) <= span.last}
    return tuple(sorted(found, key=code_of))


def _listing(uid: AttributeUid, values: Sequence[Value], *, weight: float, rest: float) -> Listing:
    bit_of = {(kind_of(value), value): place for place, value in enumerate(values) if value is not None}
    return Listing(uid, tuple(values), bit_of, weight, rest)
