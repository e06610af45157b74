"""The observed city on a mesh of routers: each knows its key and the addresses of its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from maia.broker import BrokerSettings
from maia.broker.settings import Routing
from maia.credentials import Action
from support.simulated_city import LEASE_S, City


def random_edges(seed: int, routers: int, *, degree: int = 3) -> set[tuple[int, int]]:
    """Return a connected graph: a tree that the seed chooses, and more edges up to the mean degree."""
    chance = Random(f"{seed}/mesh")
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
        **settings: object,
    ) -> None:
        self.edges = set(random_edges(seed, brokers) if edges is None else edges)
        super().__init__(seed, brokers=brokers, lease_s=lease_s, **settings)

    def _add_broker(self, number: int, lease_s: int, settings: dict[str, object]) -> None:
        name, force = self.brokers[number], ("CCS", "Met")[number % 2]
        # One end of each edge dials: a neighbour that is not configured is a neighbour all the same.
        dialled = tuple(self.addresses[max(edge)] for edge in sorted(self.edges) if min(edge) == number)
        own = BrokerSettings(
            network=self.story.network,
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
        self.network.add_broker(name, self.key(name), own)
