"""A city under observation: brokers of two forces, cameras, offices, and a check on every delivery.

Nothing here knows how brokers route. What an office may see of an event is
worked out from the certificates by `decide`, `shape` and `see` alone, before
the event is published. Every event carries its own moment, which every office
may see, so a delivered row is compared with the very event that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from maia.broker import BrokerSettings
from maia.client import ClientSettings, Delivered, Ended, KnownVersion, Notice, known_version
from maia.client.entries import Advertised, EntryStage, Subscribed
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
    issue,
    parse_name_pattern,
)
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Event, Instant
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, see, shape
from maia.predicates import ALWAYS, AllOf, AnyOf, Comparison, Operator, Predicate, TextMatch, TextTest
from maia.testing import Cast, grant
from maia.testing.simulation import BEGINNING, SimulatedClient, SimulatedNetwork
from maia.types import TypeDefinition, sign_definition
from maia.types.definition import TOPIC, topic_attributes
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP, tell_numberplate_story
from support.sub_types import FEE, SECRET_FEE, tell_of_sub_types

SECOND = 1_000_000
LEASE_S = 12
PLATES = (SUSPECT, "B4 NKR", "CU 7", "D0 NUT")
PLACES = ("Victoria", "Soho", "Bank")
LANES = ("", "/a", "/a/b", "/b")


def tell_city_story(seed: int) -> Cast:
    """Tell the numberplate story of a city; in every other one cameras publish on topics of their places."""
    story = tell_numberplate_story(b"city/%d" % seed, now=BEGINNING)
    if not has_topics(seed):
        return story
    owner, by_key = story.keys["PITO"], {key.principal: key for key in story.keys.values()}
    name = TypeName(owner.principal, "topic.city", "0")
    tree = TypeDefinition(name, None, topic_attributes(story.definition.definition.attributes))

    def on_topics(signed: SignedCertificate) -> SignedCertificate:
        certificate, authority = signed.certificate, signed.certificate.authority
        if not isinstance(authority.resources, TypePattern):
            return signed
        pattern = TypePattern(name.owner, exact_name(name.name), None)
        changed = replace(certificate, authority=replace(authority, resources=pattern))
        return issue(changed, by_key[certificate.issuer])

    certificates = tuple(map(on_topics, story.certificates))
    return replace(story, definition=sign_definition(tree, owner), certificates=certificates)


def has_topics(seed: int) -> bool:
    """Say whether events of a city are on topics; in the others the second camera publishes a sub-type."""
    return seed % 2 == 0


def on(*patterns: str) -> Predicate:
    """Return the predicate of what is on one of some topics."""
    return AnyOf(tuple(TextMatch(TOPIC.uid, TextTest.LEVELS, one) for one in patterns))


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


class City:
    """So many brokers, and whoever is added to them."""

    def __init__(self, seed: int, *, brokers: int = 3, lease_s: int = LEASE_S, **settings: object) -> None:
        self.network = SimulatedNetwork(seed)
        self.chance = self.network.chance("city")
        self.has_topics = has_topics(seed)
        self.cast = self.tell(seed)
        self.known: KnownVersion = known_version([self.cast.definition], at=BEGINNING)
        self.brokers = [f"broker {number}" for number in range(brokers)]
        self.addresses = [f"10.0.0.{number}:7400" for number in range(brokers)]
        self.cameras: list[Camera] = []
        self.offices: list[Office] = []
        self.events: dict[int, tuple[Camera, Event]] = {}
        """Every event as it leaves its camera's broker, by its moment."""
        self._moments = BEGINNING
        self._keys: dict[str, SigningKey] = {}
        for number in range(brokers):
            self._add_broker(number, lease_s, settings)

    def tell(self, seed: int) -> Cast:
        """Tell the story that this city is about."""
        return tell_city_story(seed)

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        """Return what a broker can show beside its right to connect."""
        return ()

    # ------------------------------------------------------------ the cast

    def key(self, name: str) -> SigningKey:
        """Return the key of a broker or client of this city."""
        if name not in self._keys:
            seed = sha256(b"%d/%b" % (self.network.seed, name.encode())).digest()
            self._keys[name] = SigningKey.from_seed(seed)
        return self._keys[name]

    def _add_broker(self, number: int, lease_s: int, settings: dict[str, object]) -> None:
        name, force = self.brokers[number], ("CCS", "Met")[number % 2]
        seeds = tuple(address for place, address in enumerate(self.addresses[:2]) if place != number)
        self.network.add_broker(
            name,
            self.key(name),
            BrokerSettings(
                network=self.cast.network,
                address=self.addresses[number],
                credentials=(
                    self._force_connects(force),
                    self._grant(force, name, Action.CONNECT),
                    *self.rights_of_broker(number),
                ),
                seeds=seeds,
                lease_s=lease_s,
                **settings,
            ),
        )

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
        force = "Met"
        pool = (
            *self._client_connects(force, name),
            *self._force_on_type(force),
            self._grant(
                force, name, Action.SUBSCRIBE, attributes=attributes, restriction=restriction, until=until
            ),
        )
        office = Office(
            name, self._client(name, pool, via, skew_s), self._view(name, Action.SUBSCRIBE, pool, wanted)
        )
        office.client.on_notice = lambda notice: self._check(office, notice)
        office.entry = office.client.subscribe(self.known, wanted, requires=requires)
        self.offices.append(office)
        return office

    def camera(self, name: str, place: str, *, via: Sequence[int] = (0,), skew_s: float = 0.0) -> Camera:
        """Add a camera whose events say where it stands, whatever it writes."""
        pool = (
            *self._client_connects("CCS", name),
            *self._force_on_type("CCS"),
            self._grant("CCS", name, Action.PUBLISH, restriction=self._published_at(place)),
        )
        return self._add_camera(name, place, self.known, pool, via, skew_s)

    def camera_of_sub_type(
        self, name: str, place: str, *, via: Sequence[int] = (0,), skew_s: float = 0.0
    ) -> Camera:
        """Add a camera that publishes a sub-type of the type, to which alone it has a right."""
        world = tell_of_sub_types(self.cast, sealing=self.cast.definition.definition.sealing)
        known = known_version([world.charge], at=BEGINNING)
        pattern = TypePattern(
            known.event_type.name.owner, parse_name_pattern(known.event_type.name.name), None
        )
        at_place = Comparison(LOCATION, Operator.EQ, place)
        subject = self.key(name).principal
        pool = (
            *self._client_connects("CCS", name),
            self._certificate("CCS", subject, pattern, Action.PUBLISH, restriction=at_place),
        )
        return self._add_camera(name, place, known, pool, via, skew_s)

    def _published_at(self, place: str) -> Predicate:
        """Return what a camera may say: where it is, and on topics of that place alone."""
        at_place = Comparison(LOCATION, Operator.EQ, place)
        return AllOf((at_place, on("/city", f"/city/{place}/#"))) if self.has_topics else at_place

    def _near(self, place: str) -> Predicate:
        """Return a filter for what happens at a place, by topic in cities that have topics."""
        return on(f"/city/{place}/#") if self.has_topics else Comparison(LOCATION, Operator.EQ, place)

    def _add_camera(
        self,
        name: str,
        place: str,
        known: KnownVersion,
        pool: tuple[SignedCertificate, ...],
        via: Sequence[int],
        skew_s: float,
    ) -> Camera:
        client = self._client(name, pool, via, skew_s)
        view = self._view(name, Action.PUBLISH, pool, ALWAYS, known)
        is_below = known is not self.known
        camera = Camera(name, client, view, client.advertise(known), place, is_of_sub_type=is_below)
        self.cameras.append(camera)
        return camera

    def client_without_rights(self, name: str, *, via: Sequence[int] = (0,)) -> SimulatedClient:
        """Add a client that may connect and nothing else."""
        return self._client(name, self._client_connects("Met", name), via, 0.0)

    def _client(
        self, name: str, pool: Iterable[SignedCertificate], via: Sequence[int], skew_s: float
    ) -> SimulatedClient:
        settings = ClientSettings(
            network=self.cast.network,
            addresses=tuple(self.addresses[number] for number in via),
            credentials=tuple(pool),
            dial_again_most_s=4.0,
        )
        return self.network.add_client(name, self.key(name), settings, skew_s=skew_s)

    # ------------------------------------------------------------ certificates

    def _force_connects(self, force: str) -> SignedCertificate:
        pattern = NetworkPattern(self.cast.network.owner, parse_name_pattern(self.cast.network.name))
        return self._certificate(
            "PITO", self.cast.principal(force), pattern, Action.CONNECT, may_delegate=True
        )

    def _force_on_type(self, force: str) -> tuple[SignedCertificate, ...]:
        return tuple(
            signed
            for signed in self.cast.certificates
            if isinstance(signed.certificate.authority.resources, TypePattern)
            and signed.certificate.subject == self.cast.principal(force)
        )

    def _client_connects(self, force: str, name: str) -> tuple[SignedCertificate, ...]:
        return (self._force_connects(force), self._grant(force, name, Action.CONNECT))

    def _grant(
        self,
        force: str,
        name: str,
        action: Action,
        *,
        attributes: AttributeSet = ALL_ATTRIBUTES,
        restriction: Predicate = ALWAYS,
        until: Instant | None = None,
    ) -> SignedCertificate:
        network, event_type = self.cast.network, self.known.event_type.name
        pattern = (
            NetworkPattern(network.owner, parse_name_pattern(network.name))
            if action is Action.CONNECT
            else TypePattern(event_type.owner, parse_name_pattern(event_type.name), None)
        )
        subject = self.key(name).principal
        return self._certificate(
            force, subject, pattern, action, attributes=attributes, restriction=restriction, until=until
        )

    def _certificate(
        self, issuer, subject, pattern, action, *, may_delegate=False, until=None, attributes=ALL_ATTRIBUTES,
        restriction=ALWAYS,
    ) -> SignedCertificate:  # fmt: skip
        day = 86_400 * SECOND
        return grant(
            self.cast.keys[issuer],
            subject,
            pattern,
            action,
            attributes=attributes,
            restriction=restriction,
            may_delegate=may_delegate,
            validity=Validity(Instant(BEGINNING - day), until or Instant(BEGINNING + 30 * day)),
        )

    def _view(
        self,
        name: str,
        action: Action,
        pool: Iterable[SignedCertificate],
        wanted: Predicate,
        known: KnownVersion | None = None,
    ) -> View:
        version = (known or self.known).event_type
        request = Request(self.key(name).principal, action, version.name, version, wanted)
        decision = decide(request, gather_evidence(request, tuple(pool), at=BEGINNING), NO_FACTS, BEGINNING)
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
        self.office("Soho desk", self._near("Soho"), via=somewhere())
        if self.has_topics:
            self.office("lane a", on("/city/+/a/#"), via=somewhere())
        self.office(
            "Victoria desk",
            Comparison(NUMBERPLATE, Operator.EQ, PLATES[1]),
            via=somewhere(),
            restriction=self._near("Victoria"),
        )

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

    def _check(self, office: Office, notice: Notice) -> None:
        if isinstance(notice, Ended):
            office.gone.append(notice.problem.code)
        if not isinstance(notice, Delivered):
            return
        rows = list(notice.frame.events())
        for row in rows:
            moment = int(row[TIMESTAMP])
            self._check_row(office, moment, row, notice)
            self._check_order(office, moment)
            office.seen.append(moment)

    def _check_row(self, office: Office, moment: int, row: Event, notice: Delivered) -> None:
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
