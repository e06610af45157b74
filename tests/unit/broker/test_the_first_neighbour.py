"""A broker without neighbours keeps nothing to announce; the first one is sent all that is wanted by then."""

from __future__ import annotations

from maia.predicates import Comparison, Operator
from maia.wire.messages import Interest
from support.numberplate import NUMBERPLATE, Net, sighting

WANTED = 300
"""More than are announced at once."""


def test_the_first_neighbour_is_sent_what_clients_wanted_before_it_came_and_nothing_that_has_ended() -> None:
    net = Net(lease_s=3600)
    routes = net.broker().parts.routes
    billing = net.client("billing office")
    plates = [Comparison(NUMBERPLATE, Operator.EQ, f"plate {number}") for number in range(WANTED)]
    refs = [billing.subscribe(one) for one in plates]
    assert routes.book.types() == ()
    assert routes.aggregates == {}
    billing.withdraw(refs[0])
    net.broker("Met broker", seeds=["CCS broker"])
    billing.withdraw(refs[WANTED - 1])  # before its turn to be announced
    again = billing.subscribe(plates[WANTED - 2])  # announced by then, or not: once
    net.advance(5)

    camera = net.client("camera at Victoria", at="Met broker")
    ref = camera.advertise()
    net.settle()
    camera.publish(ref, *[sighting(f"plate {number}") for number in range(WANTED)])
    seen = {event[NUMBERPLATE] for event in billing.take_events()}
    assert seen == {f"plate {number}" for number in range(1, WANTED - 1)}
    said = [message for _, to, message in net.carried if to == "Met broker" and isinstance(message, Interest)]
    wanted = [one.id for message in said for one in message.add]
    assert len(wanted) == len(set(wanted)) == WANTED - 2
    assert billing.was_accepted(again)
