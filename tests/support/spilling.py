"""Two routers with one link between them: many changing filters behind one, and events from the other."""

from __future__ import annotations

from random import Random

from maia.client import Delivered
from maia.client.entries import EntryStage, Subscribed
from maia.credentials import Action
from maia.events import Event
from maia.predicates import ALWAYS, AllOf, Membership, Predicate, admits
from maia.routing.aggregation.budget import BudgetRange
from maia.wire.effects import Send
from support.mesh_city import MeshCity
from support.numberplate import LOCATION, NUMBERPLATE, TIMESTAMP
from support.simulated_city import City

LEASE_S = 12
PERIOD_S = LEASE_S / 3
PLATES = tuple(f"P{number}" for number in range(60))
STREETS = tuple(f"S{number}" for number in range(60))


DISTRICTS = 8


def random_filter(chance: Random) -> Predicate:
    """Some plates in some streets of one of eight districts."""
    district = chance.randrange(DISTRICTS)
    plate, street = 7 * district + chance.randrange(4), (13 * district) % 56 + chance.randrange(4)
    return AllOf(
        (
            Membership(NUMBERPLATE, frozenset(PLATES[plate : plate + chance.randint(2, 3)])),
            Membership(LOCATION, frozenset(STREETS[street : street + chance.randint(2, 3)])),
        )
    )


class SpillingCity:
    """A publisher, and an office whose subscriptions come and go; counts the bytes between the routers."""

    def __init__(
        self,
        seed: int,
        aggregation: BudgetRange | None,
        *,
        city: type[City] = MeshCity,
        restriction: Predicate = ALWAYS,
    ) -> None:
        how = {"edges": {(0, 1)}} if city is MeshCity else {}
        self.city = city(seed, brokers=2, lease_s=LEASE_S, aggregation=aggregation, **how)
        self.chance = self.city.network.chance("spilling")
        self.network = self.city.network
        self.bytes_between = 0
        self._count_bytes()
        self.camera = self._camera()
        pool = (
            *self.city._client_connects("Met", "office"),
            *self.city._force_on_type("Met"),
            self.city._grant("Met", "office", Action.SUBSCRIBE, restriction=restriction),
        )
        self.office = self.city._client("office", pool, (1,), 0.0)
        self.office.on_notice = self._delivered
        self.wanted: dict[int, tuple[Subscribed, Predicate]] = {}
        self.filters: dict[int, Predicate] = {}
        """Of all subscriptions that there ever were."""
        self.rows: list[tuple[int, Event]] = []
        """What was delivered, with the reference of its subscription."""
        self.moment = TIMESTAMP
        """The attribute that tells events apart."""

    def _camera(self):
        pool = (
            *self.city._client_connects("CCS", "camera"),
            *self.city._force_on_type("CCS"),
            self.city._grant("CCS", "camera", Action.PUBLISH),
        )
        return self.city._add_camera("camera", "Victoria", self.city.known, pool, (0,), 0.0)

    def _count_bytes(self) -> None:
        perform = self.network._performers[Send]

        def count(host, effect) -> None:
            if host.name in self.city.brokers:
                link = self.state(self.city.brokers.index(host.name)).links.get(effect.link)
                if link is not None and link.role.value == "broker":
                    self.bytes_between += len(effect.data)
            perform(host, effect)

        self.network._performers[Send] = count

    def state(self, broker: int):
        """Return what a broker knows."""
        return self.network.broker(self.city.brokers[broker]).parts

    @property
    def aggregate(self):
        """Return what the office's router announces of the type."""
        return self.state(1).routes.aggregates[self.city.known.event_type.type_id]

    def subscribe(self, filter_: Predicate) -> Subscribed:
        entry = self.office.subscribe(self.city.known, filter_)
        self.wanted[entry.ref] = (entry, filter_)
        self.filters[entry.ref] = filter_
        return entry

    def settle(self) -> None:
        """Wait until all that was asked for is accepted and known to the other router."""
        entries = [self.camera.entry, *(entry for entry, _ in self.wanted.values())]
        self.network.run_until(lambda: all(one.stage is EntryStage.ACCEPTED for one in entries), at_most=60)
        self.network.run_for(2)

    def change(self, subscriptions: int) -> None:
        """Let some subscriptions go and others come."""
        for ref in self.chance.sample(sorted(self.wanted), min(subscriptions, len(self.wanted))):
            entry, _ = self.wanted.pop(ref)
            self.office.withdraw(entry)
        for _ in range(subscriptions):
            self.subscribe(random_filter(self.chance))

    def publish(self, rows: int) -> list[Event]:
        events = []
        for _ in range(rows):
            event = self.city.sighting()
            event |= {NUMBERPLATE: self.chance.choice(PLATES), LOCATION: self.chance.choice(STREETS)}
            events.append(event)
        assert self.camera.client.publish(self.camera.entry, events)
        return events

    def period(self, *, rows: int, changes: int) -> int:
        """Let one period pass; return the bytes that crossed the link in it."""
        before = self.bytes_between
        self.change(changes)
        self.network.run_for(PERIOD_S / 2)
        self.publish(rows)
        self.network.run_for(PERIOD_S / 2)
        return self.bytes_between - before

    def _delivered(self, notice: object) -> None:
        if isinstance(notice, Delivered):
            for event in notice.frame.events():
                self.rows += [(ref, event) for ref in notice.refs]

    def is_wanted(self, event: Event) -> bool:
        """The slow reference: does any filter that is registered admit an event?"""
        return any(admits(filter_, event) for _, filter_ in self.wanted.values())
