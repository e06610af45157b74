"""The story of the dissertation over many brokers: every client receives what is theirs, and nothing else."""

from __future__ import annotations

import pytest

from maia.policy import PolicyRefusal
from maia.predicates import Comparison, Operator
from support.city import City
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP
from support.seeds import with_seeds


@pytest.mark.parametrize("brokers", [1, 3, 9])
@with_seeds(1)
def test_every_office_receives_what_its_certificates_and_its_filter_say(seed, brokers):
    city = City(seed, brokers=brokers)
    city.populate()
    city.settle()
    for _ in range(5):
        city.probe()
    for office in city.offices:
        assert sorted(office.seen) == city.expected(office, city.events)
        assert office.seen


def test_the_offices_of_the_story_see_the_attributes_of_the_story():
    city = City(1, brokers=3)
    billing = city.office("billing", via=[0], attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    smith = city.office("Smith", via=[1], restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
    camera = city.camera("camera", "Victoria", via=[2])
    city.settle()
    shown: dict[str, list[dict]] = {"billing": [], "Smith": []}
    for office in (billing, smith):
        check = office.client.on_notice
        office.client.on_notice = lambda notice, office=office, check=check: (
            check(notice),
            shown[office.name].extend(map(dict, notice.frame.events())) if hasattr(notice, "frame") else None,
        )
    for _ in range(20):
        city.sees(camera)
    city.network.run_for(5)
    assert len(shown["billing"]) == 20
    assert all(LOCATION not in row or row[LOCATION] is None for row in shown["billing"])
    assert shown["Smith"]
    assert {(row[NUMBERPLATE], row[LOCATION]) for row in shown["Smith"]} == {(SUSPECT, "Victoria")}


def test_a_client_that_holds_nothing_does_not_even_ask():
    city = City(2, brokers=3)
    stranger = city.client("stranger")
    city.network.run_for(5)
    with pytest.raises(PolicyRefusal):
        stranger.subscribe(city.known)


def test_an_office_that_asks_about_what_it_may_not_read_is_refused_by_its_broker():
    """A52: a filter over a hidden attribute would tell by what it lets through."""
    city = City(3, brokers=3)
    camera = city.camera("camera", "Soho", via=[1])
    nosy = city.office("nosy", via=[0], attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    city.settle()
    nosy.client.subscribe(city.known, Comparison(LOCATION, Operator.EQ, "Soho"))
    city.sees(camera)
    city.network.run_for(5)
    assert [code.split("-")[0] for code in nosy.gone] == ["POLICY"]
    assert len(nosy.seen) == 1


@with_seeds(1)
def test_a_withdrawn_subscription_receives_nothing_more_and_the_others_go_on(seed):
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    city.probe()
    leaver = city.chance.choice(city.offices)
    city.offices.remove(leaver)
    leaver.client.withdraw(leaver.entry)
    city.network.run_for(5)
    heard = len(leaver.seen)
    city.probe()
    assert len(leaver.seen) == heard


@with_seeds(1)
def test_an_office_that_comes_late_receives_from_then_on(seed):
    city = City(seed, brokers=5)
    city.populate()
    city.settle()
    city.probe()
    late = city.office("late", via=[city.chance.randrange(5)])
    city.settle()
    assert late.seen == []
    city.probe()
    assert late.seen
