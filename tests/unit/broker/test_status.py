"""What is an operator shown?"""

from __future__ import annotations

from dataclasses import replace

from maia.broker.rights.known_types import KEPT_TYPE
from maia.credentials import Action
from maia.testing import Cast, Net
from maia.types import SignedDefinition, definition_to_bytes, sign_definition
from maia.wire.messages import Carried, CarriedSigned, Message


def of_city(cast: Cast, name: str) -> SignedDefinition:
    """Return a type of the city in the hospital's network."""
    install = cast.grant("hospital", cast.principal("city"), cast.network, Action.INSTALL)
    own = Cast.of("city", of_type=name, number="int").definition.definition
    return sign_definition(replace(own, credentials=(install,)), cast.keys["city"])


def test_types_of_one_name_are_told_apart_by_their_owners() -> None:
    cast = Cast.of("hospital", "city", of_type="Report", number="int")
    net = Net(cast)
    net.broker("north")
    known = (cast.definition, of_city(cast, "Report"), of_city(cast, "Notice"))
    north = net.restart("north", {f"{KEPT_TYPE}{one.id.hex()}": definition_to_bytes(one) for one in known})
    hospital, city = (cast.principal(who) for who in ("hospital", "city"))
    assert sorted(north.broker.status(net.now)["type_names"].values()) == [
        "Notice", *sorted((f"Report of {city}", f"Report of {hospital}")),
    ]  # fmt: skip


def test_frames_of_a_neighbour_that_are_dropped_are_shown_with_the_neighbour_the_type_and_why() -> None:
    cast = Cast.of("hospital", "pen", "desk", of_type="Report", number="int")
    cast = cast.let("pen", Action.PUBLISH).let("desk", Action.SUBSCRIBE)
    net = Net(cast.defined(replace(cast.definition.definition, signed=True)))
    net.entitle("north", Action.PUBLISH)
    net.broker("north")
    south = net.broker("south", seeds=["north"])
    net.client("desk", "south").subscribe()
    pen = net.client("pen", "north")
    ref = pen.advertise()
    net.tamper = unsigned
    pen.publish(ref, {"number": 1})
    pen.publish(ref, {"number": 2})
    (one,) = south.broker.status(net.now)["refusals"]
    shown = {name: one[name] for name in ("principal", "code", "asked", "type", "times")}
    assert shown == {
        "principal": str(net.brokers["north"].key.principal), "code": "REFUSED-UNSIGNED",
        "asked": "Frame", "type": net.type_id.hex(), "times": 2,
    }  # fmt: skip
    assert len(south.noted("refused")) == 1, "one line a minute"


def test_which_versions_a_client_reads_and_writes_is_shown_each_once() -> None:
    cast = Cast.of("hospital", "pen", of_type="Report", number="int")
    net = Net(cast.let("pen", Action.PUBLISH, Action.SUBSCRIBE))
    north = net.broker("north")
    pen = net.client("pen", "north")
    pen.advertise()
    for _ in range(3):
        pen.subscribe()
    (link,) = north.broker.status(net.now)["links"]
    name = cast.definition.definition.name
    said = {"owner": str(name.owner), "name": "Report", "version": str(name.version)}
    assert link["uses"] == [{"action": one, **said} for one in ("publish", "subscribe")]


def unsigned(message: Message) -> Message:
    """Take the signature off, as a router on the way can."""
    if not isinstance(message, CarriedSigned):
        return message
    return Carried(*(getattr(message, name) for name in Carried.__struct_fields__))
