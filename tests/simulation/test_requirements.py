"""Random statements, requirements, renewals and expiries: each subscriber gets what the reference says.

The reference is one page (`reference/requirements.py`) and knows no broker. In a calm
network what is delivered is exactly what it says. In trouble, a renewal and a frame
may overtake each other on different ways: then nothing is delivered that no moment
between publication and delivery permits, and after repair the two agree again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maia.credentials.requirements import parse_requirement
from maia.events import SECOND, Event
from maia.testing.simulation import SimulatedClient, Trouble, Troublemaker
from reference import requirements as reference
from support.city import LEASE_S, PLACES, Camera, City, Office, Violation
from support.coalition import TRUST, random_attributes, random_rule, statement
from support.numberplate import TIMESTAMP
from support.seeds import with_seeds

LONG_S = 100_000


class Coalition(City):
    """A city whose cameras and offices have statements, and require something of each other."""

    def __init__(self, seed: int, *, lives: Sequence[int]) -> None:
        super().__init__(seed, brokers=3, identity=TRUST)
        self.lives = lives
        self.people: dict[str, reference.Person] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self.wants: dict[str, reference.Requirement] = {}
        self.required: dict[int, reference.Requirement] = {}
        """What each publication requires, by its moment."""
        for place in PLACES[:2]:
            camera = self.camera(f"camera at {place}", place, via=self._somewhere())
            self.clients[camera.name] = camera.client
        for number in range(5):
            name = f"office {number}"
            self.wants[name] = random_rule(self.chance) if number else reference.NOTHING
            wanted = parse_requirement(reference.written(self.wants[name]))
            self.clients[name] = self.office(name, via=self._somewhere(), requires=wanted).client
        self.people = {name: reference.Person() for name in self.clients}

    def _somewhere(self) -> list[int]:
        return self.chance.sample(range(3), 3)

    def renew(self, share: float = 0.3) -> None:
        """Let some of them show a new statement, with other attributes, for a while."""
        for name, client in self.clients.items():
            if self.chance.random() >= share:
                continue
            life_s, attributes = self.chance.choice(self.lives), random_attributes(self.chance)
            made = statement(self.key(name), attributes, since=self.network.now, life_s=life_s)
            client.identify(made)
            ends = made.statement.not_after
            self.people[name].statements.append(reference.Statement(self.network.now, ends, attributes))
        self.network.run_for(0.3)

    def between_seconds(self) -> None:
        """Wait until no statement begins or ends while a frame is on its way."""
        self.network.run_for((0.4 - self.network.now % SECOND / SECOND) % 1)

    def send(self, camera: Camera, events: Sequence[Event]) -> bool:
        required = random_rule(self.chance) if self.chance.random() < 0.7 else reference.NOTHING
        for event in events:
            self.required[int(event[TIMESTAMP])] = required
        requirement = parse_requirement(reference.written(required))
        return camera.client.publish(camera.entry, events, requires=requirement)

    def published(self, moment: int) -> reference.Publication:
        return reference.Publication(moment, self.events[moment][0].name, moment, self.required[moment])

    def expected(self, office: Office, moments: Iterable[int]) -> list[int]:
        return [
            moment
            for moment in super().expected(office, moments)
            if office.name in reference.receivers(self.published(moment), self.people, self.wants)
        ]

    def check_row(self, office: Office, moment: int, row: Event, notice) -> None:
        super().check_row(office, moment, row, notice)
        one = self.published(moment)
        author = any(
            reference.meets(self.wants[office.name], said) for said in self._said(one.publisher, moment)
        )
        reader = any(reference.meets(one.requires, said) for said in self._said(office.name, moment))
        if not (author and reader):
            raise Violation(f"{office.name} was shown {one} outside requirements, by {self.network.story()}")

    def _said(self, name: str, since: int) -> Iterable[reference.Attributes]:
        """Yield what somebody's statement said at some moment between then and now."""
        person, now = self.people[name], int(self.network.now)
        yield person.attributes(since)
        for one in person.statements:
            if since <= one.shown_at <= now:
                yield one.attributes


@with_seeds(3)
def test_in_a_calm_network_every_subscriber_gets_exactly_what_the_reference_says(seed):
    """I5, I4: statements are renewed between publications, and say something else each time."""
    coalition = Coalition(seed, lives=(LONG_S,))
    coalition.settle()
    coalition.renew(share=0.8)
    moments: list[int] = []
    for _ in range(25):
        coalition.between_seconds()
        for camera in coalition.cameras:
            moments += coalition.sees(camera, coalition.chance.choice((1, 1, 3)))
        coalition.network.run_for(0.3)
        coalition.renew()
    coalition.network.run_for(2)
    delivered = 0
    for office in coalition.offices:
        assert sorted(office.seen) == sorted(coalition.expected(office, moments)), office.name
        delivered += len(office.seen)
    assert 0 < delivered < len(moments) * len(coalition.offices), "requirements decide something"


@with_seeds(2)
def test_in_trouble_nothing_is_delivered_outside_requirements_and_all_is_repaired(seed):
    """A98: crashes, partitions, lost messages and slow links while statements are renewed."""
    coalition = Coalition(seed, lives=(LONG_S,))
    coalition.settle()
    coalition.renew(share=0.8)
    maker = Troublemaker(coalition.network, coalition.brokers, Trouble())
    maker.begin()
    for _ in range(60):
        for camera in coalition.cameras:
            if coalition.chance.random() < 0.5:
                coalition.sees(camera, 1)
        coalition.network.run_for(1)
        coalition.renew(share=0.1)
    maker.end()
    coalition.network.run_for(6 * LEASE_S + 60)
    coalition.settle()
    # A statement that a broker with a wrong clock refused is shown again with the next one.
    coalition.renew(share=1.0)
    coalition.network.run_for(5)
    coalition.probe()
    coalition.probe()
