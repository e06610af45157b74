"""Whatever fails: nothing unauthorised, doubled or out of order is delivered, repair loses no subscription.

The check of every delivery is in `support.city`; here is only what
goes wrong.
"""

from __future__ import annotations

from maia.testing.simulation import Chaos, Trouble, Troublemaker, Weather
from support.city import LEASE_S, City
from support.seeds import with_seeds

REPAIR_S = 6 * LEASE_S + 60


def live_through(city: City, seconds: float) -> None:
    """Let every camera publish a little in every second or so."""
    for _ in range(int(seconds)):
        for camera in city.cameras:
            if city.chance.random() < 0.5:
                city.sees(camera, city.chance.randint(1, 3))
        city.network.run_for(1)


def assert_repaired(city: City) -> None:
    """Everything stands again after a while, and every office receives what is theirs."""
    city.network.run_for(REPAIR_S)
    city.settle()
    city.probe()
    city.probe()


def break_no_promise(seed: int, *, brokers: int, seconds: float) -> None:
    """Make trouble of every kind for so long, then insist on repair."""
    city = City(seed, brokers=brokers)
    city.populate()
    city.settle()
    maker = Troublemaker(city.network, city.brokers, Trouble())
    maker.begin()
    live_through(city, seconds)
    maker.end()
    assert_repaired(city)
    assert maker.made


@with_seeds(4)
def test_crashes_partitions_and_wrong_clocks_break_no_promise_among_three_brokers(seed):
    break_no_promise(seed, brokers=3, seconds=120)


@with_seeds(1)
def test_crashes_partitions_and_wrong_clocks_break_no_promise_among_nine_brokers(seed):
    break_no_promise(seed, brokers=9, seconds=180)


@with_seeds(2)
def test_the_loss_of_any_one_broker_loses_no_subscription(seed):
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    city.probe()
    lost = city.brokers[seed % 5]
    city.network.crash(lost, dark=bool(seed % 2))
    live_through(city, 20)
    assert_repaired(city)
    city.network.restart(lost)
    assert_repaired(city)


@with_seeds(3)
def test_a_frame_whose_answer_was_lost_is_sent_again_and_received_once(seed):
    """The camera's broker passes frames on and fails before it can say so; another broker gets them again."""
    city = City(seed, brokers=4)
    camera = city.camera("camera", "Soho", via=[0, 1])
    office = city.office("office", via=[2])
    city.network.set_weather(Weather(spread_s=0.1), between=(camera.name, city.brokers[0]))
    city.settle()
    moments = [moment for _ in range(5) for moment in city.sees(camera)]
    city.network.run_until(lambda: len(office.seen) >= 2, at_most=5)
    city.network.crash(city.brokers[0])
    city.network.run_for(REPAIR_S)
    city.settle()
    city.probe()
    assert set(office.seen) & set(moments)


@with_seeds(2)
def test_brokers_come_and_go_and_every_client_still_receives(seed):
    city = City(seed, brokers=6)
    city.populate()
    city.settle()
    for _ in range(4):
        name = city.chance.choice(city.brokers)
        city.network.act(name, city.network.node(name).drain)
        city.network.run_for(city.chance.uniform(0, 10))
        city.network.crash(name)
        live_through(city, city.chance.uniform(0, 30))
        city.network.restart(name)
        live_through(city, city.chance.uniform(0, 30))
    assert_repaired(city)


@with_seeds(2)
def test_offices_come_and_go_and_those_who_stay_hear_everything(seed):
    """In calm weather nothing is lost at all, however much others move."""
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    begun = len(city.events)
    for number in range(8):
        guest = city.office(f"guest {number}", via=[city.chance.randrange(5)])
        live_through(city, city.chance.randint(1, 6))
        if city.chance.random() < 0.7:
            city.offices.remove(guest)
            guest.client.withdraw(guest.entry)
        live_through(city, 2)
    city.network.run_for(5)
    for office in city.offices[:6]:
        published = sorted(city.events)[begun:]
        assert set(city.expected(office, published)) <= set(office.seen)
    refused = [city.network.host(name).counts["maia_frames_refused_total"] for name in city.brokers]
    assert refused == [0] * 5, "honest brokers send nothing unasked"


@with_seeds(2)
def test_books_that_differ_are_brought_together_again(seed):
    """Links between brokers drop, double and turn round single messages, and renewals find it out."""
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    city.network.set_chaos(Chaos(drop=0.05, double=0.05, overtake=0.05), among=city.brokers)
    live_through(city, 90)
    city.network.set_chaos()
    assert_repaired(city)
