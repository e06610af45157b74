"""A39: statements withheld, replayed, reordered, doubled or cut off never extend a right."""

from __future__ import annotations

from maia.events import SECOND, Instant
from maia.testing.simulation import Chaos, Trouble, Troublemaker
from maia.types.verified import statement_to_event
from support.city import LEAD_S, PERIOD_S, VouchedCity
from support.seeds import with_seeds


def populated(seed: int, **named: object) -> VouchedCity:
    """A camera and the Met at one broker, offices at each."""
    city = VouchedCity(seed, **named)
    city.camera("camera", "Victoria", via=[0])
    for number in range(len(city.brokers)):
        city.office(f"office {number}", via=[number])
        city.office(f"other {number}", via=[number])
    city.settle()
    city.probe()
    return city


def named(city: VouchedCity, name: str):
    return next(one for one in city.offices if one.name == name)


def films(city: VouchedCity, seconds: int) -> None:
    """Let the camera see something every half second."""
    for _ in range(2 * seconds):
        city.sees(city.cameras[0])
        city.network.run_for(0.5)


@with_seeds(2)
def test_a_revoked_office_receives_nothing_after_a_moment_and_the_others_go_on(seed):
    """A35: over three brokers, with everything connected, the statement arrives as fast as events do."""
    city = populated(seed)
    loser = named(city, "office 2")
    city.revoke(loser)
    city.network.run_for(2)
    heard = len(loser.seen)
    films(city, 10)
    assert len(loser.seen) == heard
    assert loser.gone == ["POLICY-REVOKED"]
    city.offices.remove(loser)
    city.probe()
    assert not any(one.gone for one in city.offices)


@with_seeds(2)
def test_a_broker_that_is_cut_off_stops_when_the_last_statement_says(seed):
    """A39, S17: fail closed in the part without the issuer, for everybody; and back again after the heal."""
    city = populated(seed)
    lone = city.camera("camera behind", "Soho", via=[2])
    city.network.run_for(5)
    behind = [one for one in city.offices if one.name.endswith("2")]
    city.network.partition([city.brokers[2], lone.name, *(one.name for one in behind)])
    ends = city.covered_until
    for one in behind:
        city.endings[one.name] = ends
    city.revoke(named(city, "office 2"))
    city.endings["office 2"] = ends
    while city.network.now < ends - SECOND:
        city.sees(lone)
        city.network.run_for(0.5)
    assert all(one.seen and max(one.seen) > ends - 4 * SECOND for one in behind)
    for _ in range(20):
        city.sees(lone)
        city.network.run_for(0.5)
    city.network.heal()
    city.endings["other 2"] = None
    city.network.run_for(90)
    assert named(city, "office 2").gone
    city.offices.remove(named(city, "office 2"))
    city.settle()
    city.probe()


@with_seeds(1, also=(3,))
def test_a_list_that_was_published_to_nobody_is_asked_for_before_the_one_in_force_ends(seed):
    """The issuer's broker is alone when a list falls due: no subscription that stands misses an event."""
    city = VouchedCity(seed, brokers=4, issuer_at=1)
    city.camera("camera", "Victoria", via=[0])
    for number in (0, 2, 3):
        city.office(f"office {number}", via=[number])
    city.settle()
    city.network.run_until(
        lambda: city.covered_until - city.network.now < (LEAD_S + 0.5) * SECOND, at_most=30
    )
    ends = city.covered_until
    city.network.partition([city.brokers[1], "Met"])
    city.network.run_until(lambda: city.covered_until > ends, at_most=5)
    city.network.heal()
    seen = []
    while city.network.now < ends + 3 * SECOND:
        seen += city.sees(city.cameras[0])
        city.network.run_for(0.25)
    city.probe()
    assert not any(set(city.expected(one, seen)) - set(one.seen) for one in city.offices)


@with_seeds(2)
def test_replayed_reordered_and_doubled_statements_bring_nothing_back(seed):
    """A39: whoever holds recorded statements sends them again, in any order, for as long as it likes."""
    city = populated(seed)
    loser = named(city, "office 1")
    city.revoke(loser)
    city.network.run_for(2)
    heard, chance = len(loser.seen), city.network.chance("replays")
    city.network.set_chaos(Chaos(double=0.2, overtake=0.2), among=city.brokers)
    for _ in range(30):
        old = chance.sample(city.stated, min(3, len(city.stated)))
        city.issuer.publish(city.stream, [statement_to_event(one) for one in old])
        city.sees(city.cameras[0])
        city.network.run_for(1)
    assert len(loser.seen) == heard
    city.network.set_chaos()
    city.offices.remove(loser)
    city.network.run_for(60)
    city.settle()
    city.probe()


@with_seeds(2)
def test_each_verifier_goes_by_its_own_clock_and_never_back(seed):
    """A78: brokers whose clocks are ahead or behind stop that much earlier or later, and no later."""
    city = populated(seed)
    city.set_clock(1, 2.0)
    city.set_clock(2, -2.0)
    city.network.run_for(2 * PERIOD_S)
    city.settle()
    city.is_silent = True  # from here on nothing is stated
    ends = city.covered_until
    for one in city.offices:
        city.endings[one.name] = ends
    while city.network.now < ends + 10 * SECOND:
        city.sees(city.cameras[0])
        city.network.run_for(0.25)
    last = {one.name: max(one.seen) for one in city.offices}
    for number, skew_s in ((0, 0.0), (1, 2.0), (2, -2.0)):
        ended = Instant(ends - int(skew_s * SECOND))
        assert last[f"office {number}"] <= ended, (number, last, ends)
        # A broker on the way whose clock is ahead ends it that much earlier.
        assert last[f"office {number}"] > ends - 3 * SECOND, (number, last, ends)
    city.set_clock(0, -30.0)  # back into a period that is over
    films(city, 5)
    assert {one.name: max(one.seen) for one in city.offices} == last


@with_seeds(3)
def test_in_any_trouble_a_revoked_right_never_outlives_its_last_statement(seed):
    """A39, A82: crashes, partitions and sleep while rights are taken back one after the other."""
    city = populated(seed, brokers=4)
    maker = Troublemaker(city.network, city.brokers, Trouble(every_s=7))
    maker.begin()
    losers = [one for one in city.offices if one.name.startswith("office")]
    for number in range(60):
        if number % 12 == 5 and losers:
            city.revoke(losers.pop())
        for camera in city.cameras:
            city.sees(camera)
        city.network.run_for(1)


def _fingerprint(seed: int) -> str:
    city = populated(seed)
    city.revoke(city.offices[0])
    films(city, 5)
    return city.network.trace.fingerprint


def test_one_seed_is_one_run():
    assert _fingerprint(7) == _fingerprint(7)
