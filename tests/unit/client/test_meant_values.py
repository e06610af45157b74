"""What Python people write for a value, and what is refused because something would be lost."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from maia.client.meant_values import meant_value
from maia.events import Attribute, Instant, Kind
from maia.types import ValueMismatch

NOON = Instant.parse("2026-11-15T12:00:00Z")
TAKEN = Attribute("taken", "1", Kind.TIMESTAMP)
DOSE = Attribute("dose", "2", Kind.FLOAT)
COUNT = Attribute("count", "3", Kind.INT)


@pytest.mark.parametrize(
    ("attribute", "given", "meant"),
    [
        (TAKEN, datetime(2026, 11, 15, 12, tzinfo=UTC), NOON),
        (TAKEN, datetime(2026, 11, 15, 13, tzinfo=timezone(timedelta(hours=1))), NOON),
        (TAKEN, "2026-11-15T13:00:00+01:00", NOON),
        (TAKEN, NOON, NOON),
        (DOSE, 3, 3.0),
        (DOSE, 1 << 53, float(1 << 53)),
        (DOSE, 2.5, 2.5),
        (COUNT, 3, 3),
        (COUNT, None, None),
    ],
)
def test_what_is_certain_is_taken(attribute: Attribute, given: object, meant: object) -> None:
    found = meant_value(attribute, given)
    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("attribute", "given", "reason"),
    [
        (TAKEN, datetime(2026, 11, 15, 12), "without a time zone"),  # noqa: DTZ001 - that is the point
        (TAKEN, date(2026, 11, 15), "a date is no moment"),
        (TAKEN, "tomorrow", "is not a moment such as"),
        (TAKEN, "2026-11-15T12:00:00", "no time zone"),
        (DOSE, Decimal("0.1"), "a float would round it"),
        (COUNT, Decimal(3), "a Decimal is refused"),
        (DOSE, (1 << 53) + 1, "no float exactly"),
    ],
)
def test_what_would_lose_something_is_refused_with_the_reason(
    attribute: Attribute, given: object, reason: str
) -> None:
    with pytest.raises(ValueMismatch, match=f"attribute `{attribute.name}`: .*{reason}"):
        meant_value(attribute, given)


@pytest.mark.parametrize(("attribute", "given"), [(COUNT, True), (COUNT, 3.0), (DOSE, True), (DOSE, "3.0")])
def test_what_is_of_another_kind_is_left_for_the_type_to_refuse(attribute: Attribute, given: object) -> None:
    assert meant_value(attribute, given) is given
