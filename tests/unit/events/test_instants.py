"""Claims about moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest

from maia.events import INSTANT_MAX, INSTANT_MIN, Instant, Kind, NotAnInstant, kind_of


def test_a_moment_is_read_with_its_zone_and_written_in_utc():
    assert str(Instant.parse("2026-11-15T09:30:00+01:00")) == "2026-11-15T08:30:00Z"


def test_the_epoch_is_zero():
    assert Instant.parse("1970-01-01T00:00:00Z") == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-15",
        "2026-11-15T08:30:00",
        "2026-13-01T00:00:00Z",
        "2026-11-15T08:30:61Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-11-15T08:30:00.1234567Z",
        "\x00",
        "2026-11-15T08:30:00Z\n",
        "٢٠٢٦-11-15T08:30:00Z",
    ],
)
def test_a_text_that_names_no_moment_is_refused(text):
    with pytest.raises(NotAnInstant):
        Instant.parse(text)


def test_a_refused_text_cannot_write_control_characters_into_the_message():
    with pytest.raises(NotAnInstant) as refused:
        Instant.parse("\x1b[31m" + "x" * 1000)
    assert "\x1b" not in refused.value.message
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("microseconds", [INSTANT_MIN - 1, INSTANT_MAX + 1, 2**63, -(2**63)])
def test_a_moment_outside_the_years_1_to_9999_is_refused(microseconds):
    with pytest.raises(NotAnInstant):
        Instant(microseconds)


@pytest.mark.parametrize("edge", [INSTANT_MIN, INSTANT_MAX])
def test_the_first_and_the_last_moment_read_back(edge):
    assert Instant.parse(str(Instant(edge))) == edge


@pytest.mark.parametrize("given", [0.5, True, float("nan"), "1", None])
def test_only_an_int_counts_microseconds(given):
    with pytest.raises(NotAnInstant):
        Instant(given)


def test_a_naive_datetime_is_refused():
    with pytest.raises(NotAnInstant):
        Instant.from_datetime(datetime(2026, 11, 15))  # noqa: DTZ001 - the claim is about naive ones


def test_a_zone_without_an_offset_is_as_good_as_none():
    class Nowhere(tzinfo):
        def utcoffset(self, _moment):
            return None

    with pytest.raises(NotAnInstant):
        Instant.from_datetime(datetime(2026, 11, 15, tzinfo=Nowhere()))


def test_one_moment_in_two_zones_is_one_instant():
    here = datetime(2026, 11, 15, 12, tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert Instant.from_datetime(here) == Instant.from_datetime(there)


def test_a_moment_is_never_an_int():
    assert kind_of(Instant(5)) is Kind.TIMESTAMP
    assert kind_of(5) is Kind.INT
