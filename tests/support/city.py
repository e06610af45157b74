"""A city under observation: brokers of two forces, cameras, offices, and a check on every delivery.

Nothing here knows how brokers route. What an office may see of an event is
worked out from the certificates by `decide`, `shape` and `see` alone, before
the event is published. Every event carries its own moment, which every office
may see, so a delivered row is compared with the very event that it came from.

The city is a `maia.testing.Simulation`, and sealed, vouched for, or on a mesh of routers if a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import SimpleNamespace

import msgspec

from maia.broker import Broker
from maia.broker.settings import Routing
from maia.client import ClientSettings, Delivered, Ended, KnownVersion, Notice, known_version
from maia.client.entries import Advertised, EntryStage, Subscribed
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    TypeName,
    TypePattern,
    Validity,
)
from maia.credentials.requirements import NO_REQUIREMENT
from maia.domain import DomainSettings
from maia.events import SECOND, Event, Instant
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, see, shape
from maia.predicates import (
    ALWAYS,
    AllOf,
    AnyOf,
    Comparison,
    Membership,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    admits,
)
from maia.routing.aggregation.budget import BudgetRange
from maia.routing.mesh.aggregates import digest_of_part
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.sealing.keys.key_ring import KeyTerms
from maia.testing import Cast, Statements, address_of, key_of
from maia.testing.simulation import BEGINNING, Host, SimulatedClient, Simulation
from maia.types import Cover, Sealing, SealingLevel, TypeDefinition, validity_definition
from maia.types.definition import TOPIC, topic_attributes
from maia.types.verified import statement_to_event
from maia.validity import ASSUMED_GOOD
from maia.wire.codec import decode, encode
from maia.wire.effects import Dial, Effect, Input, LinkId, Received, Send
from maia.wire.mesh_messages import InterestPart, part_from_bytes, part_to_bytes
from maia.wire.messages import (
    Accepted,
    Advertise,
    Deliver,
    Failed,
    Greeting,
    Hello,
    Message,
    Subscribe,
    Welcome,
)
from maia.wire.messages import Ended as EndedMessage
from maia.wire.names import filter_to_bytes
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP, is_about, tell_numberplate_story
from support.sub_types import CHARGE, FEE, SECRET_FEE, tell_of_sub_types

LEASE_S = 12
PLATES = (SUSPECT, "B4 NKR", "CU 7", "D0 NUT")
PLACES = ("Victoria", "Soho", "Bank")
LANES = ("", "/a", "/a/b", "/b")


def tell_city_story(seed: int) -> Cast:
    """Tell the numberplate story of a city; in every other one cameras publish on topics of their places."""
    cast = tell_numberplate_story(b"city/%d" % seed, now=BEGINNING)
    cast = replace(cast, seed=b"%d/" % seed)
    if not has_topics(seed):
        return cast
    by_key = {key.principal: key for key in cast.keys.values()}
    name = TypeName(cast.network.owner, "topic.city", "0")

    def on_topics(signed: SignedCertificate) -> SignedCertificate:
        said = signed.certificate
        if not is_about(signed, TypePattern):
            return signed
        terms = {"attributes": said.authority.attributes, "restriction": said.authority.restriction}
        how = {"may_delegate": said.may_delegate, "comment": said.comment, **terms}
        return cast.grant(by_key[said.issuer], said.subject, name, *said.authority.actions, **how)

    certificates = tuple(map(on_topics, cast.certificates))
    shape = topic_attributes(cast.definition.definition.attributes)
    return replace(cast, certificates=certificates).defined(TypeDefinition(name, None, shape))


def has_topics(seed: int) -> bool:
    """Return whether events of a city are on topics; in the others the second camera publishes a sub-type."""
    return seed % 2 == 0


def on(*patterns: str) -> Predicate:
    """Return the predicate of what is on one of some topics."""
    return AnyOf(tuple(TextMatch(TOPIC.uid, TextTest.LEVELS, one) for one in patterns))


def random_edges(seed: int, routers: int, *, degree: int = 3) -> set[tuple[int, int]]:
    """Return a connected graph: a tree that the seed chooses, and more edges up to the mean degree."""
    chance = Random(f"{seed}/mesh")  # noqa: S311 - repeatable is what we want here
    edges = {tuple(sorted((number, chance.randrange(number)))) for number in range(1, routers)}
    most = min(routers * degree // 2, routers * (routers - 1) // 2)
    while len(edges) < most:
        edges.add(tuple(sorted(chance.sample(range(routers), 2))))
    return edges


class Violation(AssertionError):
    """The network broke a promise."""


@dataclass(slots=True)
class Office:
    """A subscriber: what it asked for, what it may see, and what it has seen."""

    name: str
    client: SimulatedClient
    view: View
    entry: Subscribed | None = None
    seen: list[int] = field(default_factory=list)
    """The moments of the events it was shown, in the order in which they came."""
    newest: dict[str, int] = field(default_factory=dict)
    """The last of them by camera."""
    gone: list[str] = field(default_factory=list)

    @property
    def stands(self) -> bool:
        return self.entry is not None and self.entry.stage is EntryStage.ACCEPTED


@dataclass(slots=True)
class Camera:
    """A publisher, and what it may write."""

    name: str
    client: SimulatedClient
    view: View
    entry: Advertised
    place: str
    sent: int = 0
    is_of_sub_type: bool = False
    """Whether it publishes a sub-type of what the offices read, with an attribute more."""

    @property
    def stands(self) -> bool:
        return self.entry.stage is EntryStage.ACCEPTED


Lie = Callable[[Message], list[Message]]


class City:
    """So many brokers, and whoever is added to them; with `edges`, a mesh that is linked in no other way."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        lease_s: int = LEASE_S,
        edges: Collection[tuple[int, int]] | None = None,
        liars: Mapping[int, Lie] | None = None,
        sealing: Sealing | None = None,
        **settings: object,
    ) -> None:
        self.seed, self.has_topics = seed, has_topics(seed)
        self.cast = tell_city_story(seed)
        if sealing is not None:
            self.cast = self.cast.sealed(sealing)
        self.known: KnownVersion = known_version([self.cast.definition], at=BEGINNING)
        self.brokers = [f"broker {number}" for number in range(brokers)]
        self.addresses = [address_of(name) for name in self.brokers]
        self.edges, self.liars = edges, liars or {}
        self.network = Simulation(seed, cast=self.cast)
        self.chance = self.network.chance("city")
        self.cameras: list[Camera] = []
        self.offices: list[Office] = []
        self.events: dict[int, tuple[Camera, Event]] = {}
        """Every event as it leaves its camera's broker, by its moment."""
        self._moments = BEGINNING
        for number in range(brokers):
            self.add_broker(number, lease_s=lease_s, **settings)

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        """Return what a broker can show beside its right to connect."""
        return ()

    # ------------------------------------------------------------ the cast

    def key(self, name: str) -> SigningKey:
        """Return the key of a broker or client of this city."""
        return key_of(name, self.cast.seed)

    def add_broker(self, number: int, **settings: object) -> None:
        name, force = self.brokers[number], ("CCS", "Met")[number % 2]
        shown = (
            *self.connects(force),
            self.cast.broker_right(self.key(name), by=force),
            *self.rights_of_broker(number),
        )
        how: dict[str, object] = {"credentials": shown, **settings}
        if self.edges is None:
            how["seeds"] = [seed for seed in self.brokers[:2] if seed != name]
        else:
            # One end of each edge dials: a neighbour that is not configured is a neighbour all the same.
            dialled = tuple(self.addresses[max(edge)] for edge in sorted(self.edges) if min(edge) == number)
            how |= {"routing": Routing.MESH, "neighbours": dialled}
        if number in self.liars:
            how["make"] = partial(LyingBroker, self.liars[number])
        self.network.broker(name, **how)

    def office(
        self,
        name: str,
        wanted: Predicate = ALWAYS,
        *,
        via: Sequence[int] = (0,),
        attributes: AttributeSet = ALL_ATTRIBUTES,
        restriction: Predicate = ALWAYS,
        until: Instant | None = None,
        skew_s: float = 0.0,
        requires: Predicate = NO_REQUIREMENT,
    ) -> Office:
        """Add an office with its certificates, and let it subscribe."""
        terms = {"attributes": attributes, "restriction": restriction}
        if until is not None:
            terms["validity"] = Validity(self.cast.validity.not_before, until)
        pool = self.pool("Met", name, self.grant("Met", name, Action.SUBSCRIBE, **terms))
        view = self.view(name, Action.SUBSCRIBE, pool, wanted)
        office = Office(name, self.client(name, pool, via, skew_s), view)
        office.client.on_notice = lambda notice: self.check(office, notice)
        office.entry = office.client.subscribe(self.known, wanted, requires=requires)
        self.offices.append(office)
        return office

    def camera(self, name: str, place: str, *, via: Sequence[int] = (0,), skew_s: float = 0.0) -> Camera:
        """Add a camera whose events say where it stands, whatever it writes."""
        right = self.grant("CCS", name, Action.PUBLISH, restriction=self._published_at(place))
        return self.add_camera(name, place, self.known, self.pool("CCS", name, right), via, skew_s)

    def camera_of_sub_type(
        self, name: str, place: str, *, via: Sequence[int] = (0,), skew_s: float = 0.0
    ) -> Camera:
        """Add a camera that publishes a sub-type of the type, to which alone it has a right."""
        world = tell_of_sub_types(self.cast, sealing=self.cast.definition.definition.sealing)
        known = known_version([world.charge], at=BEGINNING)
        at_place = Comparison(LOCATION, Operator.EQ, place)
        right = self.cast.grant("CCS", self.key(name), world.charge, Action.PUBLISH, restriction=at_place)
        return self.add_camera(name, place, known, (*self.connects("CCS", name), right), via, skew_s)

    def _published_at(self, place: str) -> Predicate:
        """Return what a camera may say: where it is, and on topics of that place alone."""
        at_place = Comparison(LOCATION, Operator.EQ, place)
        return AllOf((at_place, on("/city", f"/city/{place}/#"))) if self.has_topics else at_place

    def near(self, place: str) -> Predicate:
        """Return a filter for what happens at a place, by topic in cities that have topics."""
        return on(f"/city/{place}/#") if self.has_topics else Comparison(LOCATION, Operator.EQ, place)

    def add_camera(
        self,
        name: str,
        place: str,
        known: KnownVersion,
        pool: tuple[SignedCertificate, ...],
        via: Sequence[int] = (0,),
        skew_s: float = 0.0,
    ) -> Camera:
        client = self.client(name, pool, via, skew_s)
        view = self.view(name, Action.PUBLISH, pool, ALWAYS, known)
        is_below = known is not self.known
        camera = Camera(name, client, view, client.advertise(known), place, is_of_sub_type=is_below)
        self.cameras.append(camera)
        return camera

    def client(
        self,
        name: str,
        pool: Iterable[SignedCertificate] | None = None,
        via: Sequence[int] = (0,),
        skew_s: float = 0.0,
    ) -> SimulatedClient:
        """Add a client; without certificates it may connect and nothing else."""
        held = self.connects("Met", name) if pool is None else tuple(pool)
        at = [self.brokers[number] for number in via]
        how = {"credentials": held, "ahead_s": skew_s, "dial_again_most_s": 4.0}
        return self.network.client(name, *at, key=self.key(name), **how)

    # ------------------------------------------------------------ certificates

    def connects(self, force: str, name: str | None = None) -> tuple[SignedCertificate, ...]:
        """Return by which certificates a force, or one of its people, may connect."""
        open_to = (Action.CONNECT, Action.SERVE)
        held = self.cast.grant("PITO", force, self.cast.network, *open_to, may_delegate=True)
        return (held,) if name is None else (held, self.grant(force, name, Action.CONNECT))

    def force_on_type(self, force: str) -> tuple[SignedCertificate, ...]:
        """Return what a force may do with the type."""
        to = self.cast.principal(force)
        return tuple(
            one
            for one in self.cast.certificates
            if one.certificate.subject == to and is_about(one, TypePattern)
        )

    def pool(self, force: str, name: str, *rights: SignedCertificate) -> tuple[SignedCertificate, ...]:
        """Return what a person of a force holds: its way into the network, that of the force, and rights."""
        return (*self.connects(force, name), *self.force_on_type(force), *rights)

    def grant(self, force: str, name: str, action: Action, **terms: object) -> SignedCertificate:
        """Let a force grant one of its people to connect, or something about the type."""
        if action is Action.CONNECT:
            return self.cast.grant(force, self.key(name), self.cast.network, action, Action.SERVE, **terms)
        return self.cast.grant(force, self.key(name), self.cast.definition, action, **terms)

    def view(
        self,
        name: str,
        action: Action,
        pool: Iterable[SignedCertificate],
        wanted: Predicate,
        known: KnownVersion | None = None,
    ) -> View:
        """Decide by the certificates alone what somebody sees, or may write."""
        version = (known or self.known).event_type
        request = Request(self.key(name).principal, action, version.name, version, wanted)
        evidence = gather_evidence(request, tuple(pool), at=BEGINNING, standing=ASSUMED_GOOD)
        decision = decide(request, evidence, NO_FACTS, BEGINNING)
        assert isinstance(decision, Permit), decision
        return decision.view

    # ------------------------------------------------------------ what happens in the city

    def populate(self) -> None:
        """Put two cameras and six offices at brokers that the seed chooses."""
        every = range(len(self.brokers))

        def somewhere() -> list[int]:
            return self.chance.sample(every, len(every))

        self.camera(f"camera at {PLACES[0]}", PLACES[0], via=somewhere())
        second = self.camera if self.has_topics else self.camera_of_sub_type
        second(f"camera at {PLACES[1]}", PLACES[1], via=somewhere())
        self.office("billing", via=somewhere(), attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
        self.office("statistics", via=somewhere(), attributes=frozenset({LOCATION, TIMESTAMP}))
        self.office("detective", via=somewhere(), restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
        self.office("archive", via=somewhere())
        self.office("Soho desk", self.near("Soho"), via=somewhere())
        if self.has_topics:
            self.office("lane a", on("/city/+/a/#"), via=somewhere())
        this_plate = Comparison(NUMBERPLATE, Operator.EQ, PLATES[1])
        self.office("Victoria desk", this_plate, via=somewhere(), restriction=self.near("Victoria"))

    def settle(self, at_most: float = 120.0) -> None:
        """Wait until everything that was asked for stands, and brokers have told each other."""
        self.network.run_until(
            lambda: all(one.stands for one in (*self.cameras, *self.offices)), at_most=at_most
        )
        self.network.run_for(2 * LEASE_S)

    def sighting(self) -> dict[str, object]:
        """Draw an event; its moment is its name."""
        self._moments = max(self._moments + 1, self.network.now)
        return {
            NUMBERPLATE: self.chance.choice(PLATES),
            TIMESTAMP: Instant(self._moments),
            LOCATION: self.chance.choice(PLACES),
        }

    def sees(self, camera: Camera, count: int = 1) -> list[int]:
        """Let a camera publish so many sightings in one frame; return their moments, none without room."""
        written = [self.sighting() for _ in range(count)]
        if camera.is_of_sub_type:
            written = [{**event, FEE: SECRET_FEE} for event in written]
        if self.has_topics:
            topics = [f"/city/{camera.place}{self.chance.choice(LANES)}" for _ in written]
            written = [{**event, TOPIC.uid: one} for event, one in zip(written, topics, strict=True)]
        for event in written:
            shaped = shape(camera.view, event)
            seen = {uid: value for uid, value in shaped.items() if uid in self.known.event_type.kinds}
            self.events[event[TIMESTAMP]] = (camera, seen)
        if not self.send(camera, written):
            return []
        camera.sent += count
        return [event[TIMESTAMP] for event in written]

    def send(self, camera: Camera, events: Sequence[Event]) -> bool:
        """Let a camera send what it has written, if there is room."""
        return camera.client.publish(camera.entry, events)

    def expected(self, office: Office, moments: Iterable[int]) -> list[int]:
        """Return which of these events an office may see, by its certificates and its filter."""
        return [moment for moment in moments if see(office.view, self.events[moment][1]) is not None]

    # ------------------------------------------------------------ what must never happen

    def check(self, office: Office, notice: Notice) -> None:
        """Look at what an office is told."""
        if isinstance(notice, Ended):
            office.gone.append(notice.problem.code)
        if not isinstance(notice, Delivered):
            return
        for row in list(notice.frame.events()):
            moment = int(row[TIMESTAMP])
            self.check_row(office, moment, row, notice)
            self._check_order(office, moment)
            office.seen.append(moment)

    def check_row(self, office: Office, moment: int, row: Event, notice: Delivered) -> None:
        """Compare a row with what the office may see of the event."""
        if moment not in self.events:
            raise Violation(f"{office.name} was shown an event that nobody published: {row}")
        camera, event = self.events[moment]
        shown = {uid: value for uid, value in row.items() if value is not None}
        if see(office.view, event) != shown:
            raise Violation(f"{office.name} was shown {shown} of {event}, by {self.network.story()}")
        if notice.publisher != self.key(camera.name).principal:
            raise Violation(f"{office.name} was told the wrong publisher of {event}")

    def _check_order(self, office: Office, moment: int) -> None:
        """Insist on each camera's own order, in which nothing comes twice."""
        camera = self.events[moment][0].name
        newest = office.newest.get(camera)
        if newest is not None and moment <= newest:
            how = "twice" if moment in office.seen else f"after {newest}"
            raise Violation(f"{office.name} was shown {moment} of {camera} {how}, by {self.network.story()}")
        office.newest[camera] = moment

    def probe(self, wait_s: float = 5.0) -> None:
        """Publish from every camera, and insist that every office hears all that it may see."""
        moments = {camera.name: self.sees(camera, 4) for camera in self.cameras}
        assert all(moments.values()), f"no room to publish: {moments}"
        self.network.run_for(wait_s)
        for office in self.offices:
            wanted = [one for name in moments for one in self.expected(office, moments[name])]
            missing = sorted(set(wanted) - set(office.seen))
            if missing:
                who = {self.events[one][0].name for one in missing}
                raise Violation(
                    f"{office.name} never heard {len(missing)} events of {who}, by {self.network.story()}"
                )


def mesh_city(
    seed: int, *, brokers: int = 6, edges: Collection[tuple[int, int]] | None = None, **more: object
) -> City:
    """Return a city on a mesh of routers: each knows its key and the addresses of its neighbours."""
    linked = random_edges(seed, brokers) if edges is None else edges
    return City(seed, brokers=brokers, edges=linked, **more)


class Watched:
    """A node, and a listener to every message that reaches it; `said` listens to what it sends, too."""

    def __init__(
        self, node, heard: Callable[[bytes], None], said: Callable[[bytes], None] | None = None
    ) -> None:
        self.node, self.heard, self.said = node, heard, said

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received):
            self.heard(happened.data)
        effects = self.node.handle(happened, now)
        for effect in effects if self.said is not None else ():
            if isinstance(effect, Send):
                self.said(effect.data)
        return effects

    def __getattr__(self, name: str):
        return getattr(self.node, name)


def delivered_to(city: City, office: Office) -> list[bytes]:
    """Listen to an office from now on; the labels of frames that a broker delivers come to the list."""
    labels: list[bytes] = []

    def heard(data: bytes) -> None:
        if isinstance(message := decode(data), Deliver):
            labels.append(message.label)

    city.network.host(office.name).node = Watched(office.client, heard)
    return labels


# A city with a sealed type: a key server, brokers with rights, and some without.


KEYS = "key server"
TERMS = KeyTerms(refresh_s=60, overdue_s=3600, drift_s=30, back_dating_s=20)


def rendezvous_of(seed: int, *, brokers: int) -> int:
    """Return the number of the broker at which the type's interests and offers will meet in a city."""
    cast = tell_city_story(seed)
    point = node_id_of_type(cast.type_id)
    keys = [key_of(f"broker {number}", cast.seed).principal.key for number in range(brokers)]
    return min(range(brokers), key=lambda one: closeness(node_id_of_key(keys[one]), point))


class SealedCity(City):
    """Brokers that seal and open; those in `outsiders` have no right to the type, and are overheard."""

    def __init__(
        self,
        seed: int,
        *,
        level: SealingLevel = SealingLevel.ATTRIBUTE,
        outsiders: frozenset[int] = frozenset(),
        terms: KeyTerms = TERMS,
        keeps_history: bool = False,
        blinded: bool = False,
        cover: Cover | None = None,
        **settings: object,
    ) -> None:
        self.level, self.outsiders = level, outsiders
        self.overheard: dict[str, list[bytes]] = {}
        manager = key_of(KEYS, b"%d/" % seed)
        sealing = Sealing(level, manager.principal, (address_of(KEYS),), blinded, cover)
        super().__init__(seed, sealing=sealing, **{"share_plaintext": True, **settings})
        kept = frozenset({self.cast.type_id}) if keeps_history else frozenset()
        shown = (self.cast.connect_right(manager),)
        how = {"terms": terms, "lease_s": 12, "history": kept}
        domain = DomainSettings(self.cast.network, address_of(KEYS), shown, **how)
        self.keys: Host = self.network.add_key_server(KEYS, manager, domain)
        for number in outsiders:
            self._listen_in(self.network.host(self.brokers[number]))

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        """Let PITO grant every broker but the outsiders to write and read the type, and CCS its sub-type."""
        if number in self.outsiders:
            return ()
        below = TypeName(self.cast.principal("CCS"), CHARGE, "0")
        return tuple(
            self.cast.grant(issuer, self.key(self.brokers[number]), about, action)
            for issuer, about in (("PITO", self.cast.definition), ("CCS", below))
            for action in (Action.PUBLISH, Action.SUBSCRIBE)
        )

    def _listen_in(self, host: Host) -> None:
        """Record every message that reaches a host, in this life and the next ones."""
        heard, build = self.overheard.setdefault(host.name, []), host.build
        host.build = lambda kept, random: Watched(build(kept, random), heard.append)
        host.node = None if host.node is None else Watched(host.node, heard.append)

    def epoch(self, number: int) -> int | None:
        """Return the newest epoch that a broker knows."""
        ring = self.network.host(self.brokers[number]).node.parts.keys.member.ring(self.cast.type_id)
        return None if ring is None else ring.newest


# A city whose offices have rights that must be vouched for, and the force that does, or takes them back.


PERIOD_S = 12
LEAD_S = 4
UNDER_WAY_S = 2.0
"""How long a delivery may be on its way from a broker to its client."""


class VouchedCity(City):
    """Offices are served while the Met vouches for them, and not a moment longer."""

    def __init__(self, seed: int, *, brokers: int = 3, issuer_at: int = 0, **settings: object) -> None:
        self.rights: dict[str, SignedCertificate] = {}
        super().__init__(seed, brokers=brokers, require_install=False, **settings)
        self.says = Statements(self.cast.keys["Met"])
        self.skews = dict.fromkeys(range(brokers), 0.0)
        self.endings: dict[str, Instant | None] = {}
        """Up to when an office may be served, by the clock of its broker."""
        self.homes: dict[str, int] = {}
        self.covered_until = Instant(BEGINNING - 1)
        self.stated: list[SignedStatement] = []
        self.is_silent = False
        own = ClientSettings(
            self.cast.network, (self.addresses[issuer_at],), self.connects("Met"), dial_again_most_s=2.0
        )
        self.issuer = self.network.add_client("Met", self.cast.keys["Met"], own)
        self.stream = self.issuer.advertise(
            known_version([validity_definition(self.cast.keys["Met"])], at=BEGINNING)
        )
        self._beat()

    def _beat(self) -> None:
        """State, some time before the last list ends, what holds for the next period."""
        if self.covered_until < self.network.now:
            self.covered_until = Instant(self.network.now - 1)
        if not self.is_silent and self.covered_until < self.network.now + LEAD_S * SECOND:
            since = Instant(self.covered_until + 1)
            self.state(self.says.list_for(since, PERIOD_S))
            self.covered_until = Instant(since + PERIOD_S * SECOND - 1)
        self.network.after(1, self._beat)

    def state(self, *statements: SignedStatement) -> bool:
        """Publish statements in one frame, if the Met is connected."""
        self.stated += statements
        return self.issuer.publish(self.stream, [statement_to_event(one) for one in statements])

    def revoke(self, office: Office) -> None:
        """Take an office's right back, and say so at once; whoever misses it learns with the next list."""
        self.endings[office.name] = self.covered_until
        self.state(self.says.revoke(self.rights[office.name]))

    def grant(self, force: str, name: str, action: Action, **terms: object) -> SignedCertificate:
        if action is not Action.SUBSCRIBE:
            return super().grant(force, name, action, **terms)
        self.rights[name] = super().grant(force, name, action, test=TestKind.TIMED_CRL, **terms)
        return self.rights[name]

    def office(self, name, *args, via=(0,), **named) -> Office:
        self.endings[name], self.homes[name] = None, via[0]
        return super().office(name, *args, via=via, **named)

    def set_clock(self, broker: int, skew_s: float) -> None:
        self.skews[broker] = skew_s
        self.network.set_clock(self.brokers[broker], skew_s=skew_s)

    def check(self, office: Office, notice: Notice) -> None:
        super().check(office, notice)
        ends = self.endings[office.name]
        if not isinstance(notice, Delivered) or ends is None:
            return
        by_its_broker = self.network.now + self.skews[self.homes[office.name]] * SECOND
        if by_its_broker > ends + UNDER_WAY_S * SECOND:
            raise Violation(f"{office.name} was served after its right had ended: {self.network.story()}")


# Two routers with one link between them: many changing filters behind one, and events from the other.


SOME_PLATES = tuple(f"P{number}" for number in range(60))
STREETS = tuple(f"S{number}" for number in range(60))
DISTRICTS = 8


def random_filter(chance: Random) -> Predicate:
    """Some plates in some streets of one of eight districts."""
    district = chance.randrange(DISTRICTS)
    plate, street = 7 * district + chance.randrange(4), (13 * district) % 56 + chance.randrange(4)
    return AllOf(
        (
            Membership(NUMBERPLATE, frozenset(SOME_PLATES[plate : plate + chance.randint(2, 3)])),
            Membership(LOCATION, frozenset(STREETS[street : street + chance.randint(2, 3)])),
        )
    )


class SpillingCity:
    """A publisher, and an office whose subscriptions come and go; counts the bytes between the routers."""

    PERIOD_S = LEASE_S / 3

    def __init__(
        self,
        seed: int,
        aggregation: BudgetRange | None,
        *,
        is_mesh: bool = True,
        restriction: Predicate = ALWAYS,
    ) -> None:
        city = self.city = City(seed, brokers=2, aggregation=aggregation, edges={(0, 1)} if is_mesh else None)
        self.chance = city.network.chance("spilling")
        self.network = city.network
        self.bytes_between = 0
        self.network.on_effects = self._count_bytes
        right = city.grant("CCS", "camera", Action.PUBLISH)
        self.camera = city.add_camera("camera", "Victoria", city.known, city.pool("CCS", "camera", right))
        right = city.grant("Met", "office", Action.SUBSCRIBE, restriction=restriction)
        self.office = city.client("office", city.pool("Met", "office", right), (1,))
        self.office.on_notice = self._delivered
        self.wanted: dict[int, tuple[Subscribed, Predicate]] = {}
        self.filters: dict[int, Predicate] = {}
        """Of all subscriptions that there ever were."""
        self.rows: list[tuple[int, Event]] = []
        """What was delivered, with the reference of its subscription."""
        self.moment = TIMESTAMP
        """The attribute that tells events apart."""

    def _count_bytes(self, host: Host, effects: Sequence[Effect]) -> None:
        if host.name not in self.city.brokers:
            return
        for effect in effects:
            if isinstance(effect, Send):
                link = host.node.parts.links.get(effect.link)
                if link is not None and link.role.value == "broker":
                    self.bytes_between += len(effect.data)

    def state(self, broker: int):
        """Return what a broker knows."""
        return self.network.node(self.city.brokers[broker]).parts

    @property
    def aggregate(self):
        """Return what the office's router announces of the type."""
        return self.state(1).routes.aggregates[self.city.cast.type_id]

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
            event |= {NUMBERPLATE: self.chance.choice(SOME_PLATES), LOCATION: self.chance.choice(STREETS)}
            events.append(event)
        assert self.camera.client.publish(self.camera.entry, events)
        return events

    def period(self, *, rows: int, changes: int) -> int:
        """Let one period pass; return the bytes that crossed the link in it."""
        before = self.bytes_between
        self.change(changes)
        self.network.run_for(self.PERIOD_S / 2)
        self.publish(rows)
        self.network.run_for(self.PERIOD_S / 2)
        return self.bytes_between - before

    def _delivered(self, notice: object) -> None:
        if isinstance(notice, Delivered):
            for event in notice.frame.events():
                self.rows += [(ref, event) for ref in notice.refs]

    def is_wanted(self, event: Event) -> bool:
        """The slow reference: does any filter that is registered admit an event?"""
        return any(admits(filter_, event) for _, filter_ in self.wanted.values())


# Who does not play by the rules?


class LyingBroker(Broker):
    """A router that does not say what an honest one would; `lie` says what is sent in place of what."""

    def __init__(self, lie: Lie, *args: object, **named: object) -> None:
        super().__init__(*args, **named)
        self.lie, self.heard = lie, list[Message]()

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
        return part_to_bytes(msgspec.structs.replace(said, filter=filter_to_bytes(ALWAYS)))

    says_instead(broker, lambda parts: [wider(part) for part in parts])


def says_also(broker: Broker, more: InterestPart) -> None:
    """Let a router sign a part that no client of it asked for."""
    says_instead(broker, lambda parts: [*parts, part_to_bytes(more)])


def goes_on_wanting(broker: Broker) -> None:
    """Let a router publish what it wants now for ever, whatever becomes of it."""
    said = list(broker.parts.router._own_parts.build().values())
    says_instead(broker, lambda _parts: said)


def says_instead(broker: Broker, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Let a router sign other parts than its own."""
    router = broker.parts.router
    honest = router._own_parts.build

    def build() -> dict[bytes, bytes]:
        return {digest_of_part(part): part for part in change(list(honest().values()))}

    router._own_parts = SimpleNamespace(build=build)


class Parrot:
    """Listens to one client of a city, holds its key, and repeats it to a broker of its choice."""

    def __init__(self, city: City, name: str) -> None:
        """Listen to the client at the host `name` from now on."""
        self.hello: Hello | None = None
        self.heard_requests: list[Message] = []
        self.was_accepted = False
        """Whether the client was told that something it asked for stands."""
        self._city, self._name, self._numbers = city, name, 0
        host = city.network.host(name)
        host.node = Watched(host.node, self._listen, self._listen)

    def _listen(self, data: bytes) -> None:
        message = decode(data)
        if isinstance(message, Hello):
            self.hello = message
        if isinstance(message, Subscribe | Advertise):
            self.heard_requests.append(message)
        if isinstance(message, Accepted):
            self.was_accepted = True

    def repeat_everything(self, *, broker: int) -> set[str]:
        """Say it all again over a new link; return the codes of the answers, `ACCEPTED` for a success.

        Somebody who has not overheard the handshake has nothing to say.
        """
        if self.hello is None:
            return set()
        self._numbers += 1
        repeater = _Repeater(self._city.addresses[broker], self)
        principal = self._city.network.host(self._name).principal
        self._city.network.add_node(f"parrot {self._numbers}", principal, lambda _kept, _random: repeater)
        self._city.network.run_for(3)
        return set(repeater.answers)


@dataclass
class _Repeater:
    """Shakes hands as the client did, and then repeats its requests as they were."""

    address: str
    parrot: Parrot
    answers: list[str] = field(default_factory=list)

    def start(self, _now: Instant) -> list[Effect]:
        return [Dial(self.address)]

    def handle(self, happened: Input, _now: Instant) -> list[Effect]:
        return self._said(happened.link, decode(happened.data)) if isinstance(happened, Received) else []

    def _said(self, link: LinkId, message: Message) -> list[Effect]:
        match message:
            case Greeting():
                return [Send(link, encode(self.parrot.hello))]
            case Welcome():
                return [Send(link, encode(one)) for one in self.parrot.heard_requests]
            case Accepted():
                self.answers.append("ACCEPTED")
            case Failed(code=code) | EndedMessage(code=code):
                self.answers.append(code)
        return []
