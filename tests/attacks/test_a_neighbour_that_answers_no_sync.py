"""A neighbour delays what is accepted by seconds, and keeps nothing from being accepted (A87)."""

from __future__ import annotations

from maia.wire.codec import encode
from maia.wire.effects import Send
from maia.wire.messages import RoutesSynced, SyncRoutes
from support.city import mesh_city

ROUNDS = 1_000


def test_a_neighbour_that_never_answers_and_asks_without_end_costs_seconds_and_little_room():
    """A87: it holds its answers back, makes up answers of others, and begins rounds that nobody waits for."""
    city = mesh_city(
        5,
        brokers=3,
        edges=[(0, 1), (0, 2)],
        liars={1: lambda message: [] if isinstance(message, RoutesSynced) else [message]},
    )
    network, victim = city.network, city.network.node(city.brokers[0]).parts
    network.run_for(30)
    city.camera("camera", "Soho", via=[2])
    network.run_until(lambda: city.cameras[0].stands, at_most=10)
    began = network.now
    office = city.office("office", via=[0])
    network.run_until(lambda: office.stands, at_most=10)
    assert network.now - began > 3_000_000, "the round waited for the one that does not answer"
    city.sees(city.cameras[0], 2)
    network.run_for(1)
    assert len(office.seen) == 2

    liar = network.node(city.brokers[1]).parts
    (link,) = [one.id for one in liar.links.values() if one.role.value == "broker"]
    (asker,) = [one.id for one in victim.links.values() if one.peer == liar.own.principal]
    key, chance = liar.own.principal.key, network.chance("liar")
    asked = [SyncRoutes(chance.randbytes(16), [bytes(32)], False, key, 1 << 60) for _ in range(ROUNDS)]
    made_up = [RoutesSynced(chance.randbytes(16)) for _ in range(ROUNDS)]
    network.act(city.brokers[1], lambda _now: [Send(link, encode(one)) for one in (*asked, *made_up)])
    network.run_for(1)
    rounds = victim.syncs.rounds.values()
    assert 0 < sum(one.asker == asker for one in rounds) <= 256
    network.run_for(10)
    assert not victim.syncs.rounds
    assert not victim.syncs.next
    assert asker in victim.links, "and nobody is parted from for it"
