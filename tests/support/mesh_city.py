"""The observed city on a mesh of routers: each knows its key and the addresses of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from types import SimpleNamespace

from msgspec.structs import replace

from maia.broker import Broker, BrokerSettings
from maia.broker.settings import Routing
from maia.credentials import Action
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.routing.mesh.aggregates import digest_of_part
from maia.wire.codec import decode, encode
from maia.wire.effects import Effect, Input, Received, Send
from maia.wire.mesh_messages import InterestPart, part_from_bytes, part_to_bytes
from maia.wire.messages import Message
from maia.wire.names import filter_to_bytes
from support.simulated_city import LEASE_S, City


def random_edges(seed: int, routers: int, *, degree: int = 3) -> set[tuple[int, int]]:
    """Return a connected graph: a tree that the seed chooses, and more edges up to the mean degree."""
    chance = Random(f"{seed}/mesh")  # noqa: S311 - repeatable is what we want here
    edges = {tuple(sorted((number, chance.randrange(number)))) for number in range(1, routers)}
    most = min(routers * degree // 2, routers * (routers - 1) // 2)
    while len(edges) < most:
        edges.add(tuple(sorted(chance.sample(range(routers), 2))))
    return edges


class MeshCity(City):
    """A city whose brokers are linked as `edges` say and in no other way."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 6,
        edges: Iterable[tuple[int, int]] | None = None,
        lease_s: int = LEASE_S,
        liars: Mapping[int, Callable[[Message], list[Message]]] | None = None,
        **settings: object,
    ) -> None:
        self.liars = liars or {}
        self.edges = set(random_edges(seed, brokers) if edges is None else edges)
        super().__init__(seed, brokers=brokers, lease_s=lease_s, **settings)

    def _add_broker(self, number: int, lease_s: int, settings: dict[str, object]) -> None:
        name, force = self.brokers[number], ("CCS", "Met")[number % 2]
        # One end of each edge dials: a neighbour that is not configured is a neighbour all the same.
        dialled = tuple(self.addresses[max(edge)] for edge in sorted(self.edges) if min(edge) == number)
        own = BrokerSettings(
            network=self.cast.network,
            address=self.addresses[number],
            credentials=(
                self._force_connects(force),
                self._grant(force, name, Action.CONNECT),
                *self.rights_of_broker(number),
            ),
            routing=Routing.MESH,
            neighbours=dialled,
            lease_s=lease_s,
            **settings,
        )
        if number not in self.liars:
            self.network.add_broker(name, self.key(name), own)
            return

        def build(kept: Mapping[str, bytes], random: Callable[[int], bytes]) -> LyingBroker:
            broker = LyingBroker(self.key(name), own, random=random, kept=kept)
            broker.lie, broker.heard = self.liars[number], []
            return broker

        self.network.add_node(name, self.key(name).principal, build, address=own.address)


class LyingBroker(Broker):
    """A router that does not say what an honest one would; `lie` says what is sent in place of what."""

    lie: Callable[[Message], list[Message]]
    heard: list[Message]

    def start(self, now: Instant) -> list[Effect]:
        return self._lied(super().start(now))

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received):
            self.heard.append(decode(happened.data))
        return self._lied(super().handle(happened, now))

    def _lied(self, effects: list[Effect]) -> list[Effect]:
        told: list[Effect] = []
        for effect in effects:
            if type(effect) is Send:
                told += [Send(effect.link, encode(one)) for one in self.lie(decode(effect.data))]
            else:
                told.append(effect)
        return told


def wants_everything(broker: Broker) -> None:
    """Let a router sign that its clients want everything, whatever their certificates give."""

    def wider(part: bytes) -> bytes:
        said = part_from_bytes(part)
        if not isinstance(said, InterestPart):
            return part
        return part_to_bytes(replace(said, filter=filter_to_bytes(ALWAYS)))

    _say(broker, lambda parts: [wider(part) for part in parts])


def says_also(broker: Broker, more: InterestPart) -> None:
    """Let a router sign a part that no client of it asked for."""
    _say(broker, lambda parts: [*parts, part_to_bytes(more)])


def _say(broker: Broker, change: Callable[[list[bytes]], list[bytes]]) -> None:
    router = broker.parts.router
    honest = router._own_parts.build

    def build() -> dict[bytes, bytes]:
        return {digest_of_part(part): part for part in change(list(honest().values()))}

    router._own_parts = SimpleNamespace(build=build)
