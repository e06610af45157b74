"""Statements are renewed, changed and left to expire in a network in trouble; a reference says who is who.

The reference is one rule: an event is shown with a statement that the publisher held when it
published or later, that was in force then, and with no other; and nothing reaches an office on a
statement link after its own statement has expired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maia.client import Delivered, Disconnected, Notice
from maia.credentials.identity import Identity, IdentityTrust, SignedIdentity, issue_identity
from maia.events import SECOND, AttributeUid, Instant
from maia.sealing.two_message import LinkIdentity
from maia.testing.simulation import Weather
from support.city import PLACES, Camera, City, Office
from support.numberplate import TIMESTAMP
from support.seeds import with_seeds
from support.two_message import COMMUNITY, NORWAY

TRUST = IdentityTrust(COMMUNITY, frozenset({NORWAY.principal}))
CLEARANCE = AttributeUid("clearance")
ON_ITS_WAY_S = 3.0
"""How long a frame or the news of an expiry may be on its way in this weather."""


@dataclass
class Holder:
    """A client and all statements that it has held, in their order."""

    name: str
    held: list[SignedIdentity] = field(default_factory=list)

    @property
    def now(self) -> Identity:
        return self.held[-1].statement


class Coalition:
    """A city whose brokers believe one provider, and a provider that issues for seconds."""

    def __init__(self, seed: int) -> None:
        self.city = City(seed, brokers=3, identity=TRUST)
        self.network, self.chance = self.city.network, self.city.chance
        self.holders: dict[str, Holder] = {}
        self.published: dict[int, int] = {}
        """Of which number the statement was that its camera held, by the moment of the event."""
        self.shown = 0
        for broker in self.city.brokers:
            self.issue(broker, life_s=86_400)
            self._open_by_statement(broker)
        self.cameras = [self._camera(place) for place in PLACES[:2]]
        self.office = self.city.office("archive", via=[2, 0])
        self.desk = self.city.office("desk", via=[1, 2])
        for office in (self.office, self.desk):
            office.client.on_notice = self._checking(office, office.client.on_notice)

    def issue(self, name: str, *, life_s: int) -> SignedIdentity:
        """Issue a statement with a clearance that the seed chooses."""
        holder = self.holders.setdefault(name, Holder(name))
        start = Instant(self.network.now // SECOND * SECOND)
        attributes = {CLEARANCE: self.chance.randrange(10), AttributeUid("number"): len(holder.held)}
        subject, by = self.city.key(name).principal, NORWAY.principal
        ends = Instant(start + life_s * SECOND)
        said = Identity(by, COMMUNITY, subject, f"{name}@norway", attributes, start, ends, by)
        holder.held.append(issue_identity(said, NORWAY))
        return holder.held[-1]

    def _open_by_statement(self, name: str) -> None:
        own = self.holders[name].held[-1]
        self.network.host(name).link_identity = LinkIdentity(self.city.key(name), own, TRUST.providers)

    def _camera(self, place: str) -> Camera:
        name = f"camera at {place}"
        camera = self.city.camera(name, place, via=self.chance.sample(range(3), 2))
        camera.client.identify(self.issue(name, life_s=600))
        return camera

    def renew(self, name: str, *, life_s: int) -> None:
        """Renew the statement of a client inside its connection, if it has one."""
        signed = self.issue(name, life_s=life_s)
        if self.network.host(name).link_identity is not None:
            self._open_by_statement(name)
        client = next(one.client for one in (*self.cameras, self.office, self.desk) if one.name == name)
        client.identify(signed)

    def put_on_statement_link(self, office: Office, *, life_s: int) -> None:
        """Let an office come back by a statement link."""
        self.issue(office.name, life_s=life_s)
        self._open_by_statement(office.name)
        self.network.crash(office.name)
        self.network.restart(office.name)
        office.entry = office.client.subscribe(self.city.known)

    def publish(self, camera: Camera) -> None:
        (moment,) = self.city.sees(camera)
        self.published[moment] = len(self.holders[camera.name].held) - 1

    # ------------------------------------------------------------ the reference

    def _checking(self, office: Office, before: Callable[[Notice], None]) -> Callable[[Notice], None]:
        def check(notice: Notice) -> None:
            before(notice)
            if isinstance(notice, Delivered):
                self._check(office, notice)

        return check

    def _check(self, office: Office, notice: Delivered) -> None:
        now = self.network.now
        if self.network.host(office.name).link_identity is not None:
            ends = self.holders[office.name].now.not_after
            assert now <= ends + ON_ITS_WAY_S * SECOND, "an office with an expired statement got an event"
        camera = next(one for one in self.cameras if self.city.key(one.name).principal == notice.publisher)
        if notice.by is None or notice.by.identity is None:
            return
        self.shown += 1
        said, held = notice.by.identity, self.holders[camera.name].held
        number = said.attributes[AttributeUid("number")]
        assert said == held[number].statement, "a statement that no provider made"
        for moment in notice.frame.columns[TIMESTAMP].values:
            assert number >= self.published[moment], "an older statement than the publisher held"
            assert said.not_after >= notice.published_at, "a statement that had expired"

    def clearance_shown(self, office: Office) -> object:
        seen = [one for _, one in office.client.notices if isinstance(one, Delivered)]
        by = seen[-1].by
        return None if by is None or by.identity is None else by.identity.attributes[CLEARANCE]


@with_seeds(4)
def test_attributes_follow_the_statements_of_publishers_whatever_happens(seed):
    """I4, I6: renewals and expiries, a partition and a crash; then calm, and the last statement counts."""
    town = Coalition(seed)
    town.city.settle()
    town.put_on_statement_link(town.desk, life_s=60)
    town.city.settle()
    town.network.set_weather(Weather(least_s=0.2))
    for step in range(30):
        camera = town.chance.choice(town.cameras)
        match town.chance.randrange(4):
            case 0:
                town.renew(camera.name, life_s=town.chance.choice((3, 10, 40)))
            case 1 if step < 20:
                town.renew("desk", life_s=30)
            case _ if camera.stands:
                town.publish(camera)
        if step == 10:
            town.network.partition(town.city.brokers[:1], town.city.brokers[1:])
        if step == 14:
            town.network.heal()
        if step == 18:
            town.network.crash(town.city.brokers[0])
            town.network.restart(town.city.brokers[0])
        town.network.run_for(1.0)
    # The desk was not renewed any more: its link has ended, with the code.
    town.network.run_for(60)
    codes = [one.problem.code for _, one in town.desk.client.notices if isinstance(one, Disconnected)]
    assert "CREDENTIAL-IDENTITY-EXPIRED" in codes
    assert not town.desk.client.session.is_ready
    # Calm: what is published now is shown with the last statement, and after it no link stands (I11).
    for camera in town.cameras:
        town.renew(camera.name, life_s=200)
        town.network.run_until(lambda camera=camera: camera.stands and town.office.stands, at_most=120)
        town.publish(camera)
        town.network.run_for(ON_ITS_WAY_S)
        assert town.clearance_shown(town.office) == town.holders[camera.name].now.attributes[CLEARANCE]
        town.network.run_for(240)
        assert not camera.client.session.is_ready
    assert town.shown > 0
