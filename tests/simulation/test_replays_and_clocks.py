"""A65, A78: what was said counts once, after a crash too, and clocks may differ by so much and no more."""

from __future__ import annotations

import pytest

from support.city import City, Parrot
from support.seeds import with_seeds

SKEW_S = 30
EFFECTS = 32

REFUSED = {"REQUEST-REPLAYED", "REQUEST-TOO-LATE", "REQUEST-STALE"}


@with_seeds(2)
@pytest.mark.parametrize("pause_s", [0, SKEW_S // 2, 2 * SKEW_S])
def test_a_request_is_accepted_once_whether_or_not_the_broker_crashed_in_between(seed, pause_s):
    """A65: inside the window the memory refuses it, outside the clock does."""
    city = City(seed, brokers=3, skew_s=SKEW_S)
    city.office("office", via=[0])
    parrot = Parrot(city, "office")
    city.settle()
    assert parrot.heard_requests
    city.network.crash("office")
    city.network.run_for(pause_s)
    answers = parrot.repeat_everything(broker=0)
    assert answers
    assert answers <= REFUSED
    city.network.crash(city.brokers[0], dark=bool(seed % 2))
    city.network.restart(city.brokers[0])
    answers = parrot.repeat_everything(broker=0)
    assert answers
    assert answers <= REFUSED


@with_seeds(2)
def test_a_request_that_was_accepted_just_before_a_crash_is_refused_after_it(seed):
    """A65: whatever was answered was on disk before; the crash falls between any two effects."""
    was_accepted = []
    for effects in range(EFFECTS):
        city = City(seed, brokers=1, skew_s=SKEW_S)
        city.office("office", via=[0])
        parrot = Parrot(city, "office")
        city.network.crash_within(city.brokers[0], effects=effects)
        city.network.run_for(5)
        was_accepted.append(parrot.was_accepted)
        city.network.crash("office")
        city.network.crash(city.brokers[0])
        city.network.restart(city.brokers[0])
        answers = parrot.repeat_everything(broker=0)
        if parrot.was_accepted:
            assert answers
            assert answers <= REFUSED
    # The crashes came before the answer, right after it, and later.
    assert was_accepted == sorted(was_accepted)
    assert 0 < was_accepted.count(True) < EFFECTS


@with_seeds(1)
@pytest.mark.parametrize("ahead_s", [-SKEW_S + 2, SKEW_S - 2])
def test_a_clock_just_inside_the_window_is_good_enough(seed, ahead_s):
    """A78: an office whose clock is almost too far off receives everything."""
    city = City(seed, brokers=3, skew_s=SKEW_S)
    city.camera("camera", "Soho", via=[0])
    office = city.office("office", via=[1], skew_s=ahead_s)
    city.settle()
    city.probe()
    assert office.seen


@with_seeds(1)
@pytest.mark.parametrize(
    ("ahead_s", "code"), [(-SKEW_S - 2, "REQUEST-TOO-LATE"), (SKEW_S + 2, "REQUEST-TOO-EARLY")]
)
def test_a_clock_just_outside_the_window_is_refused_with_its_own_code(seed, ahead_s, code):
    """A78: and nothing is delivered."""
    city = City(seed, brokers=3, skew_s=SKEW_S)
    camera = city.camera("camera", "Soho", via=[0])
    office = city.office("office", via=[1], skew_s=ahead_s)
    city.network.run_for(30)
    city.sees(camera, 5)
    city.network.run_for(10)
    assert office.gone == [code]
    assert office.seen == []


@with_seeds(1)
def test_a_brokers_clock_that_steps_back_forgets_no_request_and_ends_no_subscription(seed):
    """A78: the clock of one broker goes back by less than the window, twice."""
    city = City(seed, brokers=3, skew_s=SKEW_S)
    city.populate()
    city.settle()
    for back_s in (-10, -20):
        city.network.set_clock(city.brokers[0], skew_s=back_s)
        city.network.run_for(60)
        city.settle()
        city.probe()


@with_seeds(1)
def test_brokers_whose_clocks_disagree_serve_each_other(seed):
    """A78: two brokers are apart by more than either is from true time."""
    city = City(seed, brokers=3, skew_s=SKEW_S, verify_in_transit=1.0)
    city.network.set_clock(city.brokers[0], skew_s=SKEW_S / 2 - 1)
    city.network.set_clock(city.brokers[1], skew_s=-SKEW_S / 2 + 1)
    city.populate()
    city.settle()
    city.network.run_for(120)
    city.settle()
    city.probe()
