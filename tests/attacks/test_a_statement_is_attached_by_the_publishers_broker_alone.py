"""What does a publisher or a router gain by a statement of its own choice? Nothing; from a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from maia.broker.server.server import run_broker
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.credentials import SigningKey, certificate_to_bytes
from maia.credentials.identity import SignedIdentity, pack_identity
from maia.errors import MaiaError
from maia.events import Frame, frame_of
from maia.sealing.frames.authorship import Publishing, proof_of_author, sign_as_author
from maia.testing import in_a_loop, soon, until
from maia.types import type_id
from maia.wire.codec import encode
from maia.wire.columns import frame_label, frame_to_columns
from maia.wire.effects import Send
from maia.wire.messages import (
    Accepted,
    Author,
    Bye,
    CarriedWithAuthor,
    Identify,
    Message,
    Offer,
    Publish,
    SignedByPublisher,
)
from support.live import BROKER, STORY, TYPE, Stranger, client, hello, settings, stranger
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS
from support.two_message import (
    EVE,
    NORWAY,
    UK,
    link_identity,
    live_links,
    live_statement,
    statement,
    whole_second,
)

CAMERA, BILLING = "camera at Victoria", "billing office"
HERE, CAMERA_KEY = STORY.keys[BROKER], STORY.keys[CAMERA]
ROUTER = SigningKey.from_seed(b"\x79" * 32)
TRUST = link_identity(HERE, own=live_statement(HERE)).trust
TYPE_ID = type_id(TYPE.owner, TYPE.name)
STREAM = b"s" * 16


def frame(plate: str) -> Frame:
    return frame_of([{NUMBERPLATE: plate, LOCATION: "Victoria"}], NUMBERPLATE_KINDS)


def carried(
    sequence: int, plate: str, said: SignedIdentity | None, proof: bytes = b"", at: int | None = None
) -> CarriedWithAuthor:
    """Return a frame of the camera as a router sends it on, with any statement and signature beside it."""
    author = Author(b"" if said is None else pack_identity(said), proof)
    moment = int(system_now()) if at is None else at
    columns = frame_to_columns(frame(plate))
    return CarriedWithAuthor(
        TYPE_ID, CAMERA_KEY.principal.key, STREAM, sequence, moment, 1, [], columns, author
    )


@asynccontextmanager
async def watched_broker() -> AsyncIterator[tuple[str, Subscription]]:
    """Run a broker that believes Norway, with an office that receives everything."""
    relaxed = settings(identity=TRUST, verify_in_transit=0.0)
    async with AsyncExitStack() as stack:
        links = live_links(HERE)
        running = await stack.enter_async_context(run_broker(HERE, relaxed, by_statement=links))
        billing = await stack.enter_async_context(client(BILLING, running.address))
        yield running.address, await billing.subscribe(STORY.definition)


async def as_router(peer: Stranger) -> None:
    """Shake hands as a broker, and offer the type."""
    right = STORY.broker_right(ROUTER)
    await soon(peer.hear())
    peer.say(hello(address="127.0.0.1:1", credentials=[certificate_to_bytes(right)]))
    await heard(peer, Identify)  # the broker shows its own statement to a neighbour
    peer.say(Offer(TYPE_ID, True, None, []))


async def heard(peer: Stranger, kind: type[Message]) -> Message:
    """Wait for a message of one kind."""
    while not isinstance(message := await soon(peer.hear()), kind):
        assert message is not None, "the broker closed the link"
        assert not isinstance(message, Bye), message
    return message


@in_a_loop
async def test_a_publisher_has_no_way_to_attach_a_statement():
    """A14, A96: attached by the publisher itself. Its broker has refused it, so nothing is attached."""
    async with watched_broker() as (address, bills), stranger(CAMERA_KEY, address) as camera:
        await camera.introduce(CAMERA)
        camera.say(carried(1, "FORGED", live_statement(CAMERA_KEY)))
        said = await camera.hear_until_closed()
        assert [one.code for one in said if isinstance(one, Bye)] == ["PROTOCOL-BROKERS-ONLY"]
        assert await bills.some(1, timeout_s=0.05) == []


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (lambda: live_statement(EVE), "CREDENTIAL-IDENTITY"),
        (lambda: live_statement(CAMERA_KEY, by=UK), "CREDENTIAL-IDENTITY-PROVIDER"),
        (lambda: live_statement(CAMERA_KEY, from_s=-120, until_s=-60), "CREDENTIAL-IDENTITY-EXPIRED"),
        (lambda: live_statement(CAMERA_KEY, from_s=60), "CREDENTIAL-IDENTITY-EXPIRED"),
        (
            lambda: statement(CAMERA_KEY, start=whole_second(system_now()), community="coalition.south"),
            "CREDENTIAL-IDENTITY-COMMUNITY",
        ),
    ],
    ids=["borrowed", "another provider", "expired", "not yet", "another community"],
)
@in_a_loop
async def test_a_bad_renewal_is_refused_and_the_statement_before_it_counts(shown, code):
    """A96: on a live link, by a client that holds a good statement."""
    async with watched_broker() as (address, bills), AsyncExitStack() as stack:
        own = link_identity(CAMERA_KEY, own=live_statement(CAMERA_KEY, clearance=3))
        camera = await stack.enter_async_context(client(CAMERA, address, identity=lambda: own))
        cars = await camera.advertise(STORY.definition)
        with pytest.raises(MaiaError) as refused:
            await camera.identify(shown())
        assert refused.value.code == code
        await cars.publish(numberplate="AE05 XYZ")
        assert (await soon(anext(bills))).publisher.attributes["clearance"] == 3


@in_a_loop
async def test_a_router_that_attaches_what_does_not_hold_is_not_believed():
    """A14, A96: of another key, another provider, another time, or no statement at all."""
    lies = [
        live_statement(EVE),
        live_statement(CAMERA_KEY, by=UK),
        live_statement(CAMERA_KEY, from_s=-120, until_s=-60),
        None,
    ]
    async with watched_broker() as (address, bills), stranger(ROUTER, address) as router:
        await as_router(router)
        for number, said in enumerate(lies, start=1):
            router.say(carried(number, f"lie {number}", said))
            event = await soon(anext(bills))
            assert event["numberplate"] == f"lie {number}"
            assert (event.publisher.principal, event.publisher.identity) == (CAMERA_KEY.principal, None)
        router.say(carried(9, "true", live_statement(CAMERA_KEY)))
        assert (await soon(anext(bills))).publisher.identifier == "somebody@norway"


@in_a_loop
async def test_a_router_cannot_change_move_or_invent_what_a_publisher_has_signed():
    """A14, A98: the subscriber's broker refuses what a router altered, and its client verifies the rest."""
    at, whole = int(system_now()), frame("AE05 XYZ")
    seed = b"z" * 32

    def proof(sequence: int, key: SigningKey = CAMERA_KEY) -> bytes:
        about = Publishing(TYPE_ID, frame_label(CAMERA_KEY.principal.key, STREAM, sequence), at)
        signature = sign_as_author(whole, about, key, seed)
        return proof_of_author(whole, about, key.principal, signature, seed).to_bytes()

    async with watched_broker() as (address, bills), stranger(ROUTER, address) as router:
        await as_router(router)
        router.say(carried(1, "AE05 XYZ", None, proof(1), at))
        assert (await soon(anext(bills))).publisher.is_signed
        router.say(carried(2, "AE05 XYZ", None, proof(1), at))  # moved to another place in the stream
        router.say(carried(3, "BD51 SMR", None, proof(3), at))  # with another value
        router.say(carried(4, "AE05 XYZ", None, b"\xff" * 100, at))  # made up
        router.say(carried(5, "AE05 XYZ", None, proof(5, EVE), at))  # signed by another key
        router.say(carried(6, "AE05 XYZ", None, proof(6), at))
        received = await soon(anext(bills))
        label = frame_label(CAMERA_KEY.principal.key, STREAM, 6)
        assert (received.delivered.label, received.publisher.is_signed) == (label, True)


@in_a_loop
async def test_the_statement_of_a_router_is_not_the_publishers():
    """A15: a frame that came over a link with a statement is its publisher's, who has none."""
    async with watched_broker() as (address, bills), stranger(ROUTER, address) as router:
        await as_router(router)
        router.say(Identify(7, pack_identity(live_statement(ROUTER, clearance=9))))
        assert (await heard(router, Accepted)).id == 7
        router.say(carried(1, "AE05 XYZ", None))
        assert (await soon(anext(bills))).publisher.identity is None
        router.say(carried(2, "AE05 XYZ", live_statement(ROUTER, clearance=9)))
        assert (await soon(anext(bills))).publisher.identity is None
        # Neither does a client speak for the broker that it is connected to.
        async with client(CAMERA, address) as camera:
            cars = await camera.advertise(STORY.definition)
            await cars.publish(numberplate="BD51 SMR")
            assert (await soon(anext(bills))).publisher.identity is None
            assert NORWAY.principal in TRUST.providers
            await until(lambda: camera.broker == HERE.principal, "it is the broker with a statement")


@in_a_loop
async def test_a_frame_with_a_signature_that_does_not_hold_ends_the_advertisement():
    """A14: the publisher's own broker refuses it, before any subscriber has to."""
    async with watched_broker() as (address, bills), AsyncExitStack() as stack:
        camera = await stack.enter_async_context(client(CAMERA, address))
        cars = await camera.advertise(STORY.definition)
        session, entry = camera._session, cars._entry
        columns, signed = frame_to_columns(frame("FORGED")), SignedByPublisher(b"x" * 64, b"s" * 32)
        forged = Publish(entry.ref, 0, int(system_now()), 1, columns, None, signed)
        assert session.link is not None
        camera._perform([Send(session.link, encode(forged))])
        await until(lambda: cars._problem is not None, "the advertisement has ended")
        assert cars._problem.code == "CREDENTIAL-AUTHORSHIP"
        assert "FORGED" not in [event["numberplate"] for event in await bills.some(9, timeout_s=0.05)]
