"""Few classes are read one by one and many through the index, and nobody can tell the difference."""

from __future__ import annotations

import pytest

from maia.broker.audiences import local_subscribers as audience
from maia.events import Instant
from maia.predicates import ALWAYS, Comparison, Not, Operator, Predicate
from support.numberplate import LOCATION, NOW, NUMBERPLATE, TIMESTAMP, Net

PLATES = ("AE05 XYZ", "LB02 KRT", "KX51 AAD")


def filters(number: int, *, negated: bool) -> list[Predicate]:
    """Return so many filters that all differ; one of them with a negation, if asked for."""
    plates = [Comparison(NUMBERPLATE, Operator.EQ, plate) for plate in PLATES]
    times = [
        Comparison(TIMESTAMP, Operator.GT, Instant(NOW + step)) for step in range(number - len(plates) - 1)
    ]
    last = Not(plates[0]) if negated else ALWAYS
    return [*plates, *times, last]


def delivered(wanted: list[Predicate]) -> list[list[object]]:
    net = Net()
    net.broker()
    office = net.client("billing office")
    refs = [office.subscribe(one) for one in wanted]
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    rows = [
        {NUMBERPLATE: plate, TIMESTAMP: Instant(NOW + 2 * at), LOCATION: "Victoria"}
        for at, plate in enumerate([*PLATES, None, PLATES[0]])
    ]
    camera.publish(ref, *rows)
    return [office.events(one) for one in refs]


@pytest.mark.parametrize("number", [4, audience.READ_ONE_BY_ONE, audience.READ_ONE_BY_ONE + 1])
@pytest.mark.parametrize("negated", [False, True], ids=["plain", "with a negation"])
def test_reading_and_the_index_deliver_the_same(monkeypatch, number, negated):
    wanted = filters(number, negated=negated)
    assert len(set(wanted)) == number
    found = delivered(wanted)
    monkeypatch.setattr(audience, "READ_ONE_BY_ONE", 0)
    assert found == delivered(wanted)
    assert [len(events) for events in found[:3]] == [2, 1, 1]
