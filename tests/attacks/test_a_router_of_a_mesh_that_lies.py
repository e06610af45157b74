"""A98: a router of a mesh drops, repeats, dates back or widens aggregated subscriptions.

Nothing is delivered outside of rights, nothing twice, and the others find their ways. Every
delivery of these cities is compared with what `decide` and `see` say of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from maia.broker.settings import Routing
from maia.clock import system_now
from maia.credentials import Action, SigningKey, certificate_to_bytes
from maia.predicates import ALWAYS, Comparison, Operator
from maia.routing.mesh.aggregates import digest_of_part, digest_of_parts
from maia.testing import in_a_loop
from maia.types import type_id
from maia.wire.columns import columns_to_frame
from maia.wire.mesh_messages import ConnectPart, InterestPart, part_to_bytes, sign_head
from maia.wire.messages import (
    AggregateContent,
    AggregateHead,
    AggregateLost,
    AggregateQuery,
    Carried,
    FrameTargets,
    Message,
    Ping,
    Pong,
)
from maia.wire.names import filter_to_bytes
from support.city import LEASE_S, PLATES, City, mesh_city, says_also, wants_everything
from support.live import STORY, broker, client, stranger
from support.numberplate import NUMBERPLATE, SUSPECT, TIMESTAMP

RING = [(0, 1), (1, 2), (2, 3), (0, 3)]


def codes(city: City) -> Counter[str]:
    return Counter(note.fields["code"] for _, note in city.network.notes if note.event == "refused")


def town(seed: int, lie: Callable[[Message], list[Message]]) -> City:
    """Return a ring of four routers, one of which lies, with a camera and offices at the others."""
    city = mesh_city(seed, brokers=4, edges=RING, liars={1: lie})
    city.camera("camera", "Victoria", via=[0])
    city.office("archive", via=[2])
    city.office("desk", via=[3], attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    city.settle()
    return city


def drops(message: Message) -> list[Message]:
    return [] if isinstance(message, AggregateHead | AggregateContent | AggregateLost) else [message]


def repeats() -> Callable[[Message], list[Message]]:
    said: list[Message] = []

    def lie(message: Message) -> list[Message]:
        if not isinstance(message, AggregateHead):
            return [message]
        said.append(message)
        return [said[0], message, message, *said[-4:-2]]

    return lie


def dates_back(message: Message) -> list[Message]:
    if isinstance(message, AggregateHead):
        return [replace(message, dated=message.dated - 5_000_000)]
    return [message]


def numbers_ahead(message: Message) -> list[Message]:
    if isinstance(message, AggregateHead):
        return [replace(message, number=message.number + 10**9), message]
    return [message]


def dates_ahead(message: Message) -> list[Message]:
    if isinstance(message, AggregateHead):
        return [replace(message, dated=message.dated + 3_600_000_000), message]
    return [message]


def repeats_frames(message: Message) -> list[Message]:
    return [message, message] if isinstance(message, Carried | FrameTargets) else [message]


def misdirects(message: Message) -> list[Message]:
    if isinstance(message, FrameTargets):
        return [replace(message, routers=[b"nowhere!", *message.routers], hops=255)]
    return [message]


def alters(message: Message) -> list[Message]:
    if isinstance(message, AggregateContent):
        return [replace(message, add=[part + b"\x00" for part in message.add])]
    return [message]


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (drops, None),
        (repeats(), "AGGREGATE-REPEATED"),
        (dates_back, "CREDENTIAL-AGGREGATE"),
        (numbers_ahead, "CREDENTIAL-AGGREGATE"),
        (dates_ahead, "AGGREGATE-FROM-FUTURE"),
        (alters, "CREDENTIAL-AGGREGATE-ALTERED"),
        (repeats_frames, None),
        (misdirects, None),
    ],
    ids=[
        "drops",
        "repeats",
        "dates back",
        "numbers ahead",
        "dates ahead",
        "alters parts",
        "repeats frames",
        "misdirects frames",
    ],
)
def test_what_a_router_changes_is_refused_and_the_others_reach_each_other(
    lie: Callable[[Message], list[Message]], code: str | None
) -> None:
    """A98, A65, A67 (S10): the origin's signature, number and date count, whoever passes them on."""
    city = town(48_113, lie)
    city.probe()
    city.network.run_for(LEASE_S)
    city.probe()
    if code is not None:
        assert codes(city)[code] > 0, codes(city)


def test_a_router_that_widens_its_clients_filters_gets_no_event_more() -> None:
    """A67, A98 (S11): what it signs is narrowed by its neighbours to what its clients' certificates give."""
    city = mesh_city(7, brokers=3, edges=[(0, 1), (1, 2)], liars={2: lambda message: [message]})
    liar = city.network.node(city.brokers[2])
    wants_everything(liar)
    camera = city.camera("camera", "Victoria", via=[0])
    city.office("detective", via=[2], restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
    city.office("archive", via=[1])
    city.settle()
    city.probe()
    for _ in range(20):
        city.sees(camera)
        city.network.run_for(0.2)
    arrived = [message for message in liar.heard if isinstance(message, Carried)]
    plates = Counter(
        plate
        for message in arrived
        for plate in columns_to_frame(message.columns, message.rows).columns[NUMBERPLATE].values
    )
    assert set(plates) == {SUSPECT}
    assert len({event[NUMBERPLATE] for _, event in city.events.values()}) == len(PLATES)
    assert sum(host.counts["maia_interests_narrowed_total"] for host in city.network.hosts.values()) > 0


def test_a_router_without_a_proof_for_its_interest_gets_nothing() -> None:
    """A67: an interest without the request that caused it is refused by every router on the way."""
    city = mesh_city(9, brokers=3, edges=[(0, 1), (1, 2)], liars={2: lambda message: [message]})
    liar = city.network.node(city.brokers[2])
    unproved = InterestPart(city.cast.type_id, filter_to_bytes(ALWAYS), None, [])
    says_also(liar, unproved)
    camera = city.camera("camera", "Victoria", via=[0])
    city.office("archive", via=[1])
    city.settle()
    city.probe()
    for _ in range(5):
        city.sees(camera)
        city.network.run_for(0.5)
    assert not [message for message in liar.heard if isinstance(message, Carried)]
    assert codes(city)["REFUSED-NOT-PROVED"] > 0


@pytest.mark.parametrize(
    ("may_connect", "code"),
    [(False, "POLICY-NO-CHAIN"), (True, "REFUSED-NOT-A-BROKER")],
    ids=["a stranger's key", "a member's key, with a broker's certificate beside its own"],
)
def test_a_key_that_was_not_made_a_broker_is_no_router_whoever_announces_it(
    may_connect: bool, code: str
) -> None:
    """A67, A89, A118: a router cannot invent routers; it announces them, and none passes that on."""
    invented: list[AggregateHead] = []
    key, parts = SigningKey.from_seed(b"s" * 32), dict[bytes, bytes]()

    def lie(message: Message) -> list[Message]:
        if not isinstance(message, AggregateHead):
            return [message]
        if not invented:
            digest = digest_of_parts(parts)
            head = AggregateHead(key.principal.key, message.number, message.dated, 1, digest, bytes(64))
            invented.append(replace(head, signature=sign_head(head, city.cast.network, key)))
        return [message, invented[0], AggregateContent(invented[0].origin, b"", [*parts.values()], [], False)]

    city = mesh_city(11, brokers=3, edges=[(0, 1), (1, 2)], liars={0: lie})
    cast = city.cast
    connects = cast.grant(cast.owner, key, cast.network, Action.CONNECT, Action.SERVE, may_delegate=True)
    shown = [connects, cast.broker_right(cast.keys["camera at Victoria"])] if may_connect else []
    part = part_to_bytes(ConnectPart([certificate_to_bytes(one) for one in shown]))
    parts[digest_of_part(part)] = part
    city.camera("camera", "Victoria", via=[0])
    city.office("archive", via=[2])
    city.settle()
    city.probe()
    for name in city.brokers[1:]:
        routers = city.network.node(name).status(city.network.now)["mesh"]["routers"].values()
        assert str(key.principal) not in {router["principal"] for router in routers if router["parts"]}
    assert invented
    assert codes(city)[code] > 0, codes(city)


@in_a_loop
async def test_at_a_socket_each_lie_is_counted_and_the_link_gets_no_event() -> None:
    """A98, A67: forged, from the future, repeated, without a proof; over TLS, by a key that may connect."""
    key, other = STORY.keys["billing office"], STORY.keys["camera at Victoria"]
    kind = type_id(STORY.type_name.owner, STORY.type_name.name)
    part = part_to_bytes(InterestPart(kind, filter_to_bytes(ALWAYS), None, []))

    def head(signer: SigningKey, *, origin: SigningKey, ahead_s: int = 0) -> AggregateHead:
        now = int(system_now()) + ahead_s * 1_000_000
        digest = digest_of_parts({digest_of_part(part)})
        plain = AggregateHead(origin.principal.key, now, now, 1, digest, bytes(64))
        return replace(plain, signature=sign_head(plain, STORY.network, signer))

    async with (
        broker(routing=Routing.MESH) as running,
        stranger(key, running.address) as liar,
        client("camera at Victoria", running.address) as camera,
    ):
        await liar.introduce("billing office", address="127.0.0.1:1")
        own = head(key, origin=key)
        liar.say(head(key, origin=other), head(key, origin=key, ahead_s=3600), own, own)
        while not isinstance(await liar.hear(), AggregateQuery):
            pass
        liar.say(AggregateContent(key.principal.key, b"", [part], [], False))
        while running.status()["counters"].get("maia_refused_total", 0) < 4:
            await asyncio.sleep(0.01)
        cars = await camera.advertise(STORY.definition)
        await cars.publish(numberplate="AE05 XYZ")
        await cars.flush()
        liar.say(Ping(7))
        while not isinstance(message := await liar.hear(), Pong):
            assert not isinstance(message, Carried | None)
        assert running.status()["peers"] == 1
