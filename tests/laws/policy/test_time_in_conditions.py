"""For as long as a condition about the time is said to stand still, its answer is the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import Instant
from maia.events.zones import local_time, zone_names
from maia.policy.facts import _zones, clock_facts, date_uid, minute_uid, steady_clock, weekday_uid
from maia.predicates.meaning import verdict
from maia.predicates.syntax import AllOf, AnyOf, Comparison, Membership, Not, Operator

ZONES = sorted(_zones().values())
YEARS = st.integers(0, 67 * 366 * 24 * 3600).map(lambda second: Instant(second * 1_000_000))


@st.composite
def conditions(draw):
    zone = draw(st.sampled_from(ZONES))
    minutes = st.integers(-10, 1500)
    atoms = st.one_of(
        st.builds(Comparison, st.just(minute_uid(zone)), st.sampled_from(list(Operator)), minutes),
        st.builds(Membership, st.just(minute_uid(zone)), st.frozensets(minutes, min_size=1, max_size=3)),
        st.builds(Comparison, st.just(weekday_uid(zone)), st.sampled_from(list(Operator)), st.integers(0, 8)),
        st.builds(
            Comparison, st.just(date_uid(zone)), st.sampled_from(list(Operator)), st.just("2026-03-29")
        ),
    )
    several = st.lists(atoms, min_size=1, max_size=3).map(tuple)
    return draw(st.one_of(atoms, atoms.map(Not), several.map(AllOf), several.map(AnyOf)))


MARCH = Instant.parse("2026-03-29T00:30:00Z")  # London puts its clocks forward at one
OCTOBER = Instant.parse("2026-10-25T00:30:00Z")  # and back at one
AFTER_TWO = Comparison(minute_uid("Europe/London"), Operator.GE, 120)


@pytest.mark.laws
@example(AFTER_TWO, MARCH, 0.9)
@example(AFTER_TWO, OCTOBER, 0.9)
@given(conditions(), YEARS, st.floats(0, 1))
def test_the_answer_is_the_same_at_every_moment_of_the_period(condition, now, share):
    steady = steady_clock(condition, now)
    assert steady.contains(now)
    begins, ends = steady.not_before, steady.not_after
    for moment in (begins, ends, Instant(begins + int((ends - begins) * share))):
        assert verdict(condition, clock_facts(condition, moment)) == verdict(
            condition, clock_facts(condition, now)
        )


@pytest.mark.laws
@given(st.sampled_from(sorted(zone_names())), YEARS)
def test_a_wall_clock_is_what_the_standard_library_says(zone, now):
    from zoneinfo import ZoneInfo

    shown, said = local_time(now, zone), now.to_datetime().astimezone(ZoneInfo(zone))
    assert (shown.minute, shown.weekday) == (said.hour * 60 + said.minute, said.isoweekday())
    assert shown.date == said.date().isoformat()
