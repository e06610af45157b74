"""Which value of an attribute does an application mean by what Python people write?

A `datetime` with a time zone and ISO text are moments, an int is a float where
one is expected, if it is one exactly. What would lose something is refused with
the reason: a `Decimal`, a float for an int, a moment without a time zone.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Final

from maia.events import Attribute, Instant, Kind, NotAnInstant
from maia.types import ValueMismatch

_EXACT_MAX: Final = 1 << 53
"""Ints up to here are floats exactly."""


def meant_value(attribute: Attribute, given: object) -> object:
    """Return the value that is meant, where that is certain; everything else as it was given."""
    match given:
        case Decimal():
            raise _misfit(
                attribute,
                "a Decimal is refused, because a float would round it: write int(…), float(…) or str(…)",
            )
        case datetime() if attribute.kind is Kind.TIMESTAMP:
            if given.tzinfo is None:
                raise _misfit(
                    attribute,
                    "a moment without a time zone is refused: write datetime.now(UTC), or give it a tzinfo",
                )
            return Instant.from_datetime(given)
        case date() if attribute.kind is Kind.TIMESTAMP:
            raise _misfit(attribute, "a date is no moment: write a datetime with a time zone")
        case str() if attribute.kind is Kind.TIMESTAMP:
            return _moment(attribute, given)
        case bool():
            return given
        case int() if attribute.kind is Kind.FLOAT and not isinstance(given, Instant):
            if abs(given) > _EXACT_MAX:
                raise _misfit(attribute, "this int is no float exactly: write float(…) if that is meant")
            return float(given)
        case _:
            return given


def _moment(attribute: Attribute, text: str) -> Instant:
    try:
        return Instant.parse(text)
    except NotAnInstant as problem:
        raise _misfit(attribute, problem.message) from problem


def _misfit(attribute: Attribute, problem: str) -> ValueMismatch:
    return ValueMismatch(f"attribute `{attribute.name}`: {problem}")
