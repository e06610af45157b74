"""Attacks on requirements: by routers on the way, by publishers, and with the statements of others."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict, replace

from maia.credentials import Action, SigningKey
from maia.credentials.identity import pack_identity
from maia.credentials.requirements import parse_requirement, requirement_to_bytes
from maia.events import SECOND, Instant, frame_of
from maia.predicates import ALWAYS
from maia.sealing.frames.authorship import Publishing, sign_as_author
from maia.types import SealingLevel
from maia.wire.columns import frame_label, frame_to_columns
from maia.wire.messages import (
    Author,
    Carried,
    CarriedWithAuthor,
    Column,
    Interest,
    Publish,
    Sealed,
    SealedWithAuthor,
    SignedByPublisher,
)
from maia.wire.names import filter_to_bytes
from support.coalition import TRUST, member, plates, publish, statement
from support.numberplate import LOCATION, NOW, NUMBERPLATE, NUMBERPLATE_KINDS, Net, the_three

HERE, THERE = "CCS broker", "Met broker"
READ, WRITE = Action.SUBSCRIBE, Action.PUBLISH
CLEARED = parse_requirement("clearance >= 3")


def wide(author: Author) -> Author:
    return replace(author, requires=requirement_to_bytes(parse_requirement("clearance >= 0")))


def without(author: Author) -> Author:
    return replace(author, requires=b"")


def two_brokers() -> Net:
    net = Net(identity=TRUST)
    net.broker(HERE)
    net.broker(THERE, seeds=[HERE])
    return net


# ---------------------------------------------------------------- the publisher's requirement


@pytest.mark.parametrize("level", [SealingLevel.EVENT, SealingLevel.ATTRIBUTE])
@pytest.mark.parametrize("change", [wide, without, None])
def test_a_sealed_frame_without_its_requirement_is_delivered_to_no_subscriber(level, change):
    """A98: statement and requirement are under the signature of the frame, and so is that there are some."""
    net, *_ = the_three(level, identity=TRUST)

    def tamper(message):
        if not isinstance(message, SealedWithAuthor):
            return message
        if change is not None:
            return replace(message, author=change(message.author))
        fields = asdict(message)
        del fields["author"]
        return Sealed(**fields)

    reader = member(net, "reader", THERE, READ, clearance=1)
    cleared = member(net, "cleared", THERE, READ, clearance=3)
    for client in (reader, cleared):
        client.subscribe()
    camera = net.client("camera at Victoria", HERE)
    ref = camera.advertise(requires=CLEARED)
    publish(camera, ref, "HONEST")
    assert (plates(reader), plates(cleared)) == ([], ["HONEST"])
    net.tamper = tamper
    publish(camera, ref, "STRIPPED")
    assert (plates(reader), plates(cleared)) == ([], [])
    refused = sum(one.counts.get("maia_frames_refused_total", 0) for one in net.brokers.values())
    assert refused == 1


def signed(client, ref, plate, requires, *, is_default):
    """Return a frame that its publisher signs, with what it, or the advertisement, requires."""
    frame = frame_of([{NUMBERPLATE: plate, LOCATION: "Soho"}], NUMBERPLATE_KINDS)
    columns, now = frame_to_columns(frame), int(client.net.now)
    type_id, seed = client.net.type_id, b"seed".ljust(32, b".")
    label = frame_label(client.principal.key, client.stream, client.next_sequence)
    about = Publishing(type_id, label, now, requires)
    sequence, client.next_sequence = client.next_sequence, client.next_sequence + 1
    signature = sign_as_author(frame, about, client.key, seed)
    return Publish(
        ref, sequence, now, 1, columns, None if is_default else requires, SignedByPublisher(signature, seed)
    )


@pytest.mark.parametrize("is_default", [True, False])
@pytest.mark.parametrize("change", [wide, without])
def test_a_plain_frame_that_its_publisher_signed_keeps_its_requirement(change, is_default):
    """A98, A66: and the frame that was tampered with does not use up the number of the honest one."""
    net = two_brokers()
    anna = member(net, "anna", HERE, WRITE)
    reader, cleared = (member(net, f"rank {n}", THERE, READ, clearance=n) for n in (1, 3))
    for client in (reader, cleared):
        client.subscribe()
    ref = anna.advertise(requires=CLEARED) if is_default else anna.advertise()
    frame = signed(anna, ref, "SIGNED", requirement_to_bytes(CLEARED), is_default=is_default)
    seen: list[CarriedWithAuthor] = []

    def tamper(message):
        if not isinstance(message, CarriedWithAuthor):
            return message
        seen.append(message)
        return replace(message, author=change(message.author))

    net.tamper = tamper
    anna.say(frame)
    assert (plates(reader), plates(cleared)) == ([], [])
    assert net.brokers[THERE].counts["maia_frames_refused_total"] == 1
    net.tamper = lambda message: message
    net.repeat(HERE, THERE, seen[0])
    assert (plates(reader), plates(cleared)) == ([], ["SIGNED"])


# ---------------------------------------------------------------- the subscriber's requirement


def test_an_interest_without_its_requirement_brings_more_frames_and_delivers_none_of_them():
    """A67, A98: the filter that a router widens spills, and the subscriber's broker decides again."""
    net = two_brokers()

    def widen(message):
        if not isinstance(message, Interest):
            return message
        return replace(message, add=[replace(one, filter=filter_to_bytes(ALWAYS)) for one in message.add])

    net.tamper = widen
    anna, reader = member(net, "anna", HERE, WRITE, clearance=1), member(net, "reader", THERE, READ)
    reader.subscribe(requires=CLEARED)
    publish(anna, anna.advertise(), "SPILT")
    assert any(isinstance(message, Carried) for *_, message in net.carried)
    assert plates(reader) == []


@pytest.mark.parametrize("whose", ["own provider", "another subject", "expired", "no statement"])
def test_a_statement_that_a_router_attaches_itself_counts_for_nothing(whose):
    """A14, A98: the subscriber's broker verifies provider, community, time and subject itself."""
    net = two_brokers()
    anna, reader = member(net, "anna", HERE, WRITE, clearance=1), member(net, "reader", THERE, READ)
    mallory = SigningKey.from_seed(b"m" * 32)
    forged = {
        "own provider": pack_identity(statement(anna.key, {"clearance": 9}, provider=mallory)),
        "another subject": pack_identity(statement(mallory, {"clearance": 9})),
        "expired": pack_identity(
            statement(anna.key, {"clearance": 9}, since=Instant(NOW - 9 * SECOND), life_s=8)
        ),
        "no statement": b"x" * 300,
    }[whose]

    def tamper(message):
        if isinstance(message, CarriedWithAuthor):
            return replace(message, author=replace(message.author, statement=forged))
        return replace(message, add=[]) if isinstance(message, Interest) and not message.add else message

    net.tamper = tamper
    reader.subscribe(requires=CLEARED)
    other = member(net, "other", THERE, READ)
    other.subscribe()  # so that the frames cross the link
    publish(anna, anna.advertise(), "FORGED")
    assert (plates(reader), plates(other)) == ([], ["FORGED"])


def test_no_publisher_writes_the_attributes_of_publishers_itself():
    """A14: a column cannot have a reserved name, whoever sends it."""
    net = two_brokers()
    anna, reader = member(net, "anna", HERE, WRITE), member(net, "reader", THERE, READ)
    reader.subscribe(requires=CLEARED)
    column = Column("publisher.clearance", 2, b"\x91\x09")
    ref = anna.advertise()
    anna.say(Publish(ref, 0, int(net.now), 1, [column]))
    assert anna.bye is not None
    forged = Carried(net.type_id, anna.principal.key, b"s" * 16, 1, int(net.now), 1, [], [column])
    net.repeat(HERE, THERE, forged)
    assert plates(reader) == []
