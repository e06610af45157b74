"""What another broker says is checked as far as it can be, and never becomes a peer's right."""

from __future__ import annotations

import pytest

from maia.credentials import FIRST_VERSION, Action, SigningKey, TypeName
from maia.credentials.authority import Bound, FilterBound
from maia.events import Frame, Kind, frame_of
from maia.predicates import ALWAYS, Comparison, Operator
from maia.routing.table.interests import Tally, digest_of_filter, mark_of_interest
from maia.testing import NetClient, shown
from maia.types import type_id
from maia.wire.columns import frame_to_columns
from maia.wire.messages import (
    Announce,
    Bye,
    Carried,
    Interest,
    NodeRecord,
    Nodes,
    Offer,
    Renew,
    Replica,
    Resync,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, SUSPECT, Net, sighting

ROGUE = SigningKey.from_seed(b"\x0f" * 32)


def rogue_broker(net: Net, at: str = "CCS broker") -> NetClient:
    """Connect a peer with a right to connect who says that it is a broker."""
    credentials = (net.cast.broker_right(ROGUE),)
    return net.client("a rogue broker", at, key=ROGUE, credentials=credentials, address="rogue:1")


def offering(net: Net, rogue: NetClient) -> NetClient:
    """Let a rogue broker offer the type by what a camera once asked for: it is believed from then on."""
    camera = NetClient(net, net.cast.keys["camera at Victoria"], net.cast.certificates)
    rogue.say(Offer(the_type(net), True, camera.request(Action.PUBLISH), shown(net.cast.certificates)))
    return rogue


def the_type(net: Net) -> bytes:
    name = net.cast.type_name
    return type_id(name.owner, name.name)


def carried(net: Net, sequence: int, *plates: str, **changes: object) -> Carried:
    frame = frame_of([sighting(plate) for plate in plates], NUMBERPLATE_KINDS)
    told: dict[str, object] = {
        "type_id": the_type(net),
        "publisher": net.cast.principal("camera at Victoria").key,
        "stream": b"s" * 16,
        "sequence": sequence,
        "published_at": int(net.now),
        "rows": frame.rows,
        "kept": [],
        "columns": frame_to_columns(frame),
    }
    return Carried(**(told | changes))  # type: ignore[arg-type]  # by name


@pytest.fixture
def net() -> Net:
    net = Net(verify_in_transit=1.0, open_borders=True)
    net.broker()
    return net


def test_an_interest_without_proof_routes_nothing(net: Net) -> None:
    """A67, C9: a broker that asks for everything of a type, for no peer."""
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    rogue.say(Interest(the_type(net), [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), None, [])], []))
    camera.publish(camera.advertise(), sighting())
    assert rogue.all_heard(Carried) == []
    assert net.brokers["CCS broker"].noted("refused")[0]["code"] == "REFUSED-NOT-PROVED"


def test_a_proof_routes_no_more_than_it_proves(net: Net) -> None:
    """A67, C9: the detective's own request, with a wider filter around it."""
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    detective = NetClient(net, net.cast.keys["Detective Smith"], net.cast.certificates)
    proof = detective.request(Action.SUBSCRIBE)
    wanted = Wanted(b"w" * 16, filter_to_bytes(ALWAYS), proof, shown(net.cast.certificates))
    rogue.say(Interest(the_type(net), [wanted], []))
    camera.publish(camera.advertise(), sighting("LC04 ABC"), sighting(SUSPECT))
    (frame,) = rogue.all_heard(Carried)
    assert list(frame.kept) == [1]


def test_a_proof_routes_no_more_than_its_bounds(net: Net) -> None:
    """A67, E9: asked for within a bound and wanted without it, and asked for outside."""
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    near = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)
    bounds = (FilterBound(Bound.UPPER, near),)
    right = net.cast.right(ROGUE, Action.SUBSCRIBE, bounds=bounds)
    ref = camera.advertise()
    for number, (asked, rows) in enumerate([(ALWAYS, []), (near, [1])]):
        proof = rogue.request(Action.SUBSCRIBE, asked)
        wanted = Wanted(bytes([number]) * 16, filter_to_bytes(ALWAYS), proof, shown([right]))
        rogue.say(Interest(the_type(net), [wanted], []))
        camera.publish(ref, sighting("LC04 ABC"), sighting(SUSPECT))
        assert [row for frame in rogue.all_heard(Carried) for row in frame.kept] == rows


def a_type_of_its_own(rogue: NetClient) -> TypeName:
    """Return a type that the rogue broker owns, and may therefore read without any certificate."""
    return TypeName(rogue.principal, "one-of-its-own", FIRST_VERSION)


@pytest.mark.parametrize("change", [None, "signer", "action", "type", "own type", "certificates"])
def test_a_proof_of_something_else_proves_nothing(net: Net, change: str | None) -> None:
    """A67, A32, C9: another signer, another action, another type, a type of one's own, no certificates.

    The unchanged proof is the control: with it, the same publication is carried.
    """
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    who = "camera at Victoria" if change == "signer" else "Detective Smith"
    client = NetClient(net, net.cast.keys[who], net.cast.certificates)
    proof = client.request(Action.PUBLISH if change == "action" else Action.SUBSCRIBE)
    if change == "own type":
        proof = rogue.request(Action.SUBSCRIBE, event_type=a_type_of_its_own(rogue))
    kind = b"\x01" * 32 if change == "type" else the_type(net)
    credentials = [] if change == "certificates" else shown(net.cast.certificates)
    rogue.say(Interest(kind, [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), proof, credentials)], []))
    camera.publish(camera.advertise(), sighting(SUSPECT))
    assert len(rogue.all_heard(Carried)) == (1 if change is None else 0)
    assert bool(net.brokers["CCS broker"].noted("refused")) == (change is not None)
    assert not rogue.closed


def test_the_proof_of_an_offer_is_about_the_offered_type(net: Net) -> None:
    """A67, A32, C9: the owner of one type offers another by a request for its own; no interest comes."""
    billing, rogue = net.client("billing office"), rogue_broker(net)
    billing.subscribe()
    rogue.heard.clear()
    proof = rogue.request(Action.PUBLISH, event_type=a_type_of_its_own(rogue))
    rogue.say(Offer(the_type(net), True, proof, []))
    assert rogue.all_heard(Interest) == []
    assert len(offering(net, rogue).all_heard(Interest)) == 1  # what a publisher's own request attracts


def test_an_offer_without_proof_attracts_nothing(net: Net) -> None:
    """A67: interests are not told to a broker that only says that it has publishers."""
    billing, rogue = net.client("billing office"), rogue_broker(net)
    billing.subscribe()
    rogue.heard.clear()
    rogue.say(Offer(the_type(net), True, None, []))
    assert rogue.all_heard(Interest) == []


def test_what_was_refused_does_not_make_two_honest_brokers_disagree(net: Net) -> None:
    """A67: refused and narrowed entries are left out of the comparison, so no peer asks for ever."""
    rogue = rogue_broker(net)
    rogue.say(Interest(the_type(net), [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), None, [])], []))
    tally = Tally()
    tally.add(mark_of_interest(the_type(net), b"w" * 16, digest_of_filter(ALWAYS)))
    rogue.say(Renew(tally.count, tally.digest))
    assert rogue.all_heard(Resync) == []
    rogue.say(Renew(tally.count + 1, tally.digest))
    assert len(rogue.all_heard(Resync)) == 1


def test_a_broker_that_asks_for_everything_twice_is_told_twice_and_not_without_pause(net: Net) -> None:
    """A67: what it could not prove before it may prove now; were it not told, it would lack that for ever."""
    billing, rogue = net.client("billing office"), rogue_broker(net)
    billing.subscribe()
    offering(net, rogue)
    rogue.heard.clear()
    for _ in range(3):
        rogue.say(Resync())
    told = len(rogue.all_heard(Interest))
    assert told >= 1
    for _ in range(20):
        net.advance(1)
    assert len(rogue.all_heard(Interest)) == 2 * told


def test_an_interest_that_is_told_again_without_proof_is_gone(net: Net) -> None:
    """A67: what stood on a proof does not go on standing on nothing, and the books still agree."""
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    detective = NetClient(net, net.cast.keys["Detective Smith"], net.cast.certificates)
    proof, everything = detective.request(Action.SUBSCRIBE), filter_to_bytes(ALWAYS)
    rogue.say(
        Interest(the_type(net), [Wanted(b"w" * 16, everything, proof, shown(net.cast.certificates))], [])
    )
    rogue.say(Interest(the_type(net), [Wanted(b"w" * 16, everything, None, [])], []))
    camera.publish(camera.advertise(), sighting(SUSPECT))
    assert rogue.all_heard(Carried) == []
    tally = Tally()
    tally.add(mark_of_interest(the_type(net), b"w" * 16, digest_of_filter(ALWAYS)))
    rogue.say(Renew(tally.count, tally.digest))
    assert rogue.all_heard(Resync) == []


def test_a_frame_from_a_broker_is_screened_as_every_other(net: Net) -> None:
    """A37: the way in does not matter for what goes out."""
    billing, detective, rogue = net.client("billing office"), net.client("Detective Smith"), rogue_broker(net)
    billing.subscribe()
    detective.subscribe()
    offering(net, rogue).say(carried(net, 1, "LC04 ABC", SUSPECT))
    assert [set(event) for event in billing.events()] == [{NUMBERPLATE, "9058"}] * 2
    assert [event[NUMBERPLATE] for event in detective.events()] == [SUSPECT]


def test_a_frame_is_not_sent_back_to_where_it_came_from(net: Net) -> None:
    """A65: no reflection, whatever the sender wants."""
    rogue = offering(net, rogue_broker(net))
    client = NetClient(net, net.cast.keys["Detective Smith"], net.cast.certificates)
    wanted = Wanted(
        b"w" * 16, filter_to_bytes(ALWAYS), client.request(Action.SUBSCRIBE), shown(net.cast.certificates)
    )
    rogue.say(Interest(the_type(net), [wanted], []))
    rogue.say(carried(net, 1, SUSPECT))
    assert rogue.all_heard(Carried) == []


def test_a_frame_comes_once_by_however_many_ways(net: Net) -> None:
    """A65, A66: whole, cut, and whole again."""
    billing, rogue = net.client("billing office"), offering(net, rogue_broker(net))
    billing.subscribe()
    whole = carried(net, 1, "A", "B", "C")
    frame = frame_of([sighting("B")], NUMBERPLATE_KINDS)
    rogue.say(carried(net, 1, "B", rows=1, kept=[1], columns=frame_to_columns(frame)))
    rogue.say(whole)
    rogue.say(whole)
    assert sorted(str(event[NUMBERPLATE]) for event in billing.events()) == ["A", "B", "C"]


@pytest.mark.parametrize("kept", [[1], [1, 0], [0, 0], [0, 1, 2]])
def test_rows_that_cannot_be_are_refused(net: Net, kept: list[int]) -> None:
    """A75: numbers of rows out of order, twice, or not as many as there are rows."""
    rogue = rogue_broker(net)
    rogue.say(carried(net, 1, "A", "B", kept=kept))
    assert rogue.bye == "PROTOCOL-CUT"


def test_a_value_of_another_kind_ends_the_frame_and_not_the_link(net: Net) -> None:
    """A58: a peer that passed it on may not know the type."""
    billing, rogue = net.client("billing office"), offering(net, rogue_broker(net))
    billing.subscribe()
    frame = frame_of([{NUMBERPLATE: 5}], {NUMBERPLATE: Kind.INT})
    rogue.say(carried(net, 1, "A", columns=frame_to_columns(frame)))
    assert billing.events() == []
    assert not rogue.closed
    assert net.brokers["CCS broker"].counts["maia_frames_refused_total"] == 1


def test_a_broker_speaks_for_itself_alone(net: Net) -> None:
    """A67: news of a peer's death, answers no peer asked for and foreign replicas change no link."""
    met = net.broker("Met broker", seeds=["CCS broker"])
    rogue = rogue_broker(net)
    record = NodeRecord(met.key.principal.key, met.settings.address)
    rogue.say(Announce(record, alive=False))
    rogue.say(Nodes(77, [NodeRecord(b"n" * 32, "nowhere:1")]))
    rogue.say(Replica(the_type(net), record, [Wanted(b"w" * 16, filter_to_bytes(ALWAYS), None, [])], True))
    status = net.brokers["CCS broker"].broker.status(net.now)
    assert status["peers"] == 2
    assert net.brokers["Met broker"].broker.status(net.now)["peers"] == 1


def test_only_its_own_entries_can_a_broker_remove(net: Net) -> None:
    """A67, A69: ids of other brokers' entries mean nothing."""
    net.broker("Met broker", seeds=["CCS broker"])
    camera, detective = net.client("camera at Victoria"), net.client("Detective Smith", "Met broker")
    detective.subscribe()
    ids = [
        wanted.id
        for _, to, message in net.carried
        if to == "CCS broker" and isinstance(message, Interest)
        for wanted in message.add
    ]
    rogue = rogue_broker(net)
    rogue.say(Interest(the_type(net), [], ids))
    camera.publish(camera.advertise(), sighting(SUSPECT))
    assert len(detective.events()) == 1


def test_a_second_link_of_a_broker_replaces_nothing_that_stands(net: Net) -> None:
    """A13: of two links to one broker one counts, and what was told on the other is gone with it."""
    first = rogue_broker(net)
    second = rogue_broker(net)
    assert [one.closed for one in (first, second)].count(True) == 1
    assert net.brokers["CCS broker"].broker.status(net.now)["peers"] == 1
    assert next(one for one in (first, second) if one.closed).all_heard(Bye)


def test_a_broken_column_from_a_broker_ends_the_link(net: Net) -> None:
    """A75: every broker reads what it passes on, so this one did not come from an honest one."""
    rogue = rogue_broker(net)
    good = frame_to_columns(frame_of([sighting()], NUMBERPLATE_KINDS))
    from maia.wire.messages import Column

    bad = [Column(good[0].uid, good[0].kind, good[0].data[:-1])]
    rogue.say(carried(net, 1, "A", columns=bad))
    assert rogue.bye == "PROTOCOL-COLUMN"


def test_an_empty_frame_of_columns_is_a_frame(net: Net) -> None:
    """A75: rows without columns are rows; nothing divides by their number."""
    rogue = offering(net, rogue_broker(net))
    rogue.say(carried(net, 1, "A", columns=frame_to_columns(Frame(1, {}))))
    assert not rogue.closed
