"""The words of a grant: what is read from them is shown as it was written."""

from __future__ import annotations

import pytest

from maia.config.grant_terms import condition_of, hours_in


@pytest.mark.parametrize(
    "written",
    [
        "between 09:00 and 17:00 on monday, friday in Europe/London",
        "between 22:00 and 06:00 in Europe/Paris",
        "between 22:00 and 06:00 on sunday in UTC",
        "between 00:00 and 24:00 on saturday, sunday in UTC",
    ],
)
def test_hours_are_shown_as_they_are_written(written: str) -> None:
    assert hours_in(condition_of(None, written)) == written


def test_what_says_more_than_hours_is_no_time() -> None:
    assert hours_in(condition_of("on-duty = true", None)) is None
    assert hours_in(condition_of("on-duty = true", "on monday in UTC")) is None
    assert hours_in(condition_of("time-minute-utc >= 5", None)) is None
