"""The same city twice, once with a plain and once with a sealed type: every broker receives the same.

Subscriptions have filters of every kind: granted, asked for, on attributes
that a certificate hides. One broker has no key at all, is the rendezvous of the
type, and carries interests and frames for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from maia.events import SECOND, AttributeUid
from maia.predicates import AllOf, AnyOf, Comparison, Exists, Membership, Not, Operator
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.testing.simulation import BEGINNING, Chaos, Trouble, Troublemaker
from maia.types import SealingLevel
from support.city import LEASE_S, PLATES, City, SealedCity, rendezvous_of
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP
from support.random_cases import usually
from support.seeds import with_seeds

BROKERS = 5
LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


def equal(uid: AttributeUid, value: str) -> Comparison:
    return Comparison(uid, Operator.EQ, value)


def populate(city: City, homes: list[int]) -> None:
    """Put cameras and offices at brokers that have rights, chosen by the seed."""

    def somewhere() -> list[int]:
        return city.chance.sample(homes, 2)

    city.camera("camera at Victoria", "Victoria", via=somewhere())
    city.camera("camera at Soho", "Soho", via=somewhere())
    city.office("archive", via=somewhere())
    city.office("plates", equal(NUMBERPLATE, PLATES[1]), via=somewhere())
    city.office("places", equal(LOCATION, "Soho"), via=somewhere())
    city.office("both", AllOf((equal(NUMBERPLATE, SUSPECT), equal(LOCATION, "Soho"))), via=somewhere())
    city.office("either", AnyOf((equal(NUMBERPLATE, SUSPECT), equal(LOCATION, "Soho"))), via=somewhere())
    city.office("others", Not(Membership(NUMBERPLATE, frozenset(PLATES[:2]))), via=somewhere())
    city.office("nothing", Not(Exists(NUMBERPLATE)), via=somewhere())
    city.office(
        "billing",
        equal(NUMBERPLATE, SUSPECT),
        via=somewhere(),
        attributes=frozenset({NUMBERPLATE, TIMESTAMP}),
    )
    city.office(
        "statistics", via=somewhere(), attributes=frozenset({LOCATION, TIMESTAMP}),
        restriction=equal(NUMBERPLATE, SUSPECT),
    )  # fmt: skip


def begin(city: City, homes: list[int]) -> None:
    """Let everything stand, up to a moment that all cities share."""
    populate(city, homes)
    city.settle()
    moment = BEGINNING + 200 * SECOND
    assert city.network.now < moment
    city.network.run_for((moment - city.network.now) / SECOND)


def heard(city: City, moments: list[int]) -> dict[str, list[int]]:
    """Return which of these events each office has seen, and check them against the certificates."""
    wanted = set(moments)
    found = {office.name: sorted(set(office.seen) & wanted) for office in city.offices}
    assert found == {office.name: sorted(city.expected(office, moments)) for office in city.offices}
    return found


def all_cities(
    seed: int, story: Callable[[City], list[int]], *, cities: int = 4
) -> list[dict[str, list[int]]]:
    """Tell one story in a plain city, two sealed ones and a blinded one, or the last of them."""
    outsider = rendezvous_of(seed, brokers=BROKERS)
    homes = [number for number in range(BROKERS) if number != outsider]
    answers = []
    sealed = {"brokers": BROKERS, "outsiders": frozenset({outsider})}
    makers: list[Callable[[], City]] = [
        lambda: City(seed, brokers=BROKERS),
        *(partial(SealedCity, seed, level=level, **sealed) for level in LEVELS),
        partial(SealedCity, seed, level=SealingLevel.EVENT, blinded=True, **sealed),
    ]
    for make in makers[-cities:]:
        city = make()
        begin(city, homes)
        answers.append(heard(city, story(city)))
    return answers


def publish(city: City, seconds: int, *, every_s: int = 1) -> list[int]:
    moments: list[int] = []
    for _ in range(0, seconds, every_s):
        for camera in city.cameras:
            moments += city.sees(camera, 3)
        city.network.run_for(every_s)
    return moments


@with_seeds(1)
def test_in_calm_weather_a_sealed_type_is_delivered_exactly_as_a_plain_one(seed):
    """Keys are refreshed every minute meanwhile, so every interest is sealed anew more than once."""

    def story(city: City) -> list[int]:
        moments = publish(city, 130, every_s=3)
        city.network.run_for(10)
        return moments

    plain, by_event, by_attribute, blinded = all_cities(seed, story)
    assert plain == by_event == by_attribute == blinded
    assert any(plain.values())


@pytest.mark.laws
@with_seeds(1)
def test_after_trouble_a_sealed_type_is_delivered_exactly_as_a_plain_one(seed):
    """Brokers crash, are cut off and have wrong clocks; messages are lost, doubled and overtaken."""

    def story(city: City) -> list[int]:
        maker = Troublemaker(city.network, city.brokers, Trouble())
        city.network.set_chaos(Chaos(drop=0.02, double=0.02, overtake=0.02), among=city.brokers)
        maker.begin()
        publish(city, 60, every_s=2)
        maker.end()
        city.network.run_for(6 * LEASE_S + 60)
        city.settle()
        moments = publish(city, 10)
        city.network.run_for(10)
        return moments

    # Each is checked against the certificates by `heard`; plain brokers have troubles of their own elsewhere.
    answers = all_cities(seed, story, cities=usually(2, laws=4))
    assert [set(answer) for answer in answers] == [set(answers[0])] * len(answers)


@pytest.mark.parametrize("level", LEVELS)
def test_the_rendezvous_without_keys_has_opened_nothing(level):
    seed = 3
    outsider = rendezvous_of(seed, brokers=BROKERS)
    city = SealedCity(seed, level=level, brokers=BROKERS, outsiders=frozenset({outsider}))
    begin(city, [number for number in range(BROKERS) if number != outsider])
    node = city.network.host(city.brokers[outsider]).node
    book, key = node.parts.routes.book, book_key_of_sealed(city.cast.type_id)
    entries = [entry for hop in book.hops(key) for entry in book.entries(hop, key)]
    assert entries
    assert book.parent(key) is None
    assert LOCAL not in book.hops(key)
    assert {entry.predicate for entry in entries} == {AllOf(())}
