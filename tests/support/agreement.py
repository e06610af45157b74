"""A small random world: a type or tree of topics, two versions, rights that end, a network that records.

Everything grows from one seed. `World.live` plays the world through real
brokers and says what each reader received; the frames that a broker recorded
meanwhile go into a log of Parquet files. What a governed table shows of that
log must be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from maia.broker.log.progress import HOLD_S
from maia.broker.settings import RecordingSettings
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypeName,
    Validity,
)
from maia.credentials.identity import SignedIdentity, pack_identity
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind, PresentValue, Value
from maia.expressions import Rule, Take
from maia.log.disk.event_log import EventLog, LogLimits
from maia.predicates import ALWAYS, Predicate, attributes_of
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
)
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.spark.governed.plan import Keys
from maia.spark.governed.reader import Reader, ReaderIdentity
from maia.spark.keys.content_keys import RingKeys
from maia.spark.keys.key_server import JobDesk
from maia.testing import NetBroker, NetClient, grant
from maia.types import (
    Sealing,
    SealingLevel,
    TypeDefinition,
    VerifiedType,
    definition_to_bytes,
    sign_definition,
    verify_definition,
)
from maia.types.definition import TOPIC, topic_attributes
from maia.wire.columns import columns_to_frame
from maia.wire.messages import Bye, Deliver, Identify
from support.coalition import TRUST, random_attributes, random_requirement, statement
from support.numberplate import NOW, READ, SEED, WRITE, SealedNet, tell_numberplate_story
from support.view_cases import random_value

HERE, THERE = "CCS broker", "Met broker"
LEVELS = (None, SealingLevel.EVENT, SealingLevel.ATTRIBUTE)
UIDS = ("plate", "0-place", "speed", "sealed", "seen-at", "select", "level", "9")
PHASES = (0, 20, 45)
"""Seconds at which everybody asks again, and something is published at once and a little later."""
LATER_S = 1.5
ENDED_WITH_STATEMENT = "CREDENTIAL-IDENTITY-EXPIRED"
TOPICS = ("/world", "/world/#", "/world/a/#", "/world/+", "/world/+/b", "/world/+/+/#", "/world/a/b")

Seen = tuple[bytes, bytes, bytes, int, tuple[tuple[str, str, Value], ...]]
"""Publisher, labels of stream and frame, and moment of a frame, and of one of its rows: name, kind, value."""


def after(seconds: float) -> Instant:
    return Instant(NOW + int(seconds * SECOND))


class AgreeingNet(SealedNet):
    """Brokers that may seal, record, and know both versions of a random type."""

    def __init__(
        self,
        definition: TypeDefinition,
        level: SealingLevel | None,
        *,
        is_blinded: bool = False,
    ) -> None:
        super().__init__(lease_s=600)
        sealing = None if level is None else Sealing(level, self.cast.principal("PITO"), blinded=is_blinded)
        self.cast = self.cast.defined(replace(definition, sealing=sealing))
        self.sub_type: bytes | None = None
        """The sub-type that the first broker seals as well, if there is one."""

    def use(self, running: NetBroker, ring: KeyRing | None, kind: bytes | None = None) -> None:
        """Let the publisher's broker hold every key of the sub-type beside its keys of the type."""
        super().use(running, ring, kind)
        if kind is not None or self.sub_type is None or running.name != HERE:
            return
        below = KeyRing(self.sub_type)
        below.learn(1, since=self.now)
        own = running.parts.types.kinds(self.sub_type)
        for uid in (None, *own, *map(AttributeUid, (*UIDS, "new", "own"))):
            secret = Secret.from_bytes(sha256(repr(uid).encode()).digest())
            below.hold(GroupId(self.sub_type, uid), 1, secret)
        super().use(running, below, self.sub_type)


@dataclass(frozen=True)
class RandomReader:
    """Somebody who may see some of it: the key, certificates, version and filter."""

    number: int
    key: SigningKey = field(repr=False)
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    version: VerifiedType = field(repr=False)
    filter: Predicate
    columns: tuple[str, ...] | None


class World:
    """What one seed makes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)  # noqa: S311 - test cases, not secrets
        self.level = self.random.choice(LEVELS)
        self.kinds = {
            AttributeUid(uid): self.random.choice(list(Kind))
            for uid in self.random.sample(UIDS, self.random.randint(3, len(UIDS)))
        }
        # Chance of its own, so that worlds without topics are as they were.
        self.has_topics = Random(f"topics of {seed}").random() < 0.3  # noqa: S311 - as above
        is_blinded = Random(f"{seed}/blinded").random() < 0.5  # noqa: S311 - as above
        self.is_blinded = is_blinded and self.level is SealingLevel.EVENT
        first, second = self._versions()
        name = "topic.world" if self.has_topics else f"agreement.World{seed}"
        owner_name = TypeName(self._pito.principal, name, "0")
        definition = TypeDefinition(owner_name, None, first)
        self.net = AgreeingNet(definition, self.level, is_blinded=self.is_blinded)
        self.versions = self._verified(second)
        # In some worlds the camera publishes a sub-type, of which no reader knows. The other draws stay.
        is_extended = Random(f"{seed}/sub-type").random() < 0.4  # noqa: S311 - test cases, not secrets
        self.is_extended = is_extended and not self.has_topics  # a tree of topics has no sub-types
        self.spoken = self._sub_types() if self.is_extended else self.versions
        self.net.sub_type = self.spoken[0].type_id if self.is_extended and self.level else None
        self.held = self._held()
        self.publishes_all = self.random.random() < 0.6
        # Chance of its own again: in some worlds people have statements, and ask for those of others.
        self.identities = Identities(seed)
        self.readers = tuple(self._reader(number) for number in range(3))
        self.recorded_by = self.random.choice((HERE, HERE, THERE))
        self.received: dict[int, list[Seen]] = {}

    # -------------------------------------------------------- the type

    _pito = tell_numberplate_story(SEED, now=NOW).keys["PITO"]

    def _versions(self) -> tuple[tuple[Attribute, ...], tuple[Attribute, ...]]:
        """Return attributes of two versions: one goes, one comes, one has another name, all change places."""
        first = [Attribute(f"a-{n}", uid, kind) for n, (uid, kind) in enumerate(self.kinds.items())]
        second = list(first)
        self.random.shuffle(second)
        second.pop()
        second[0] = replace(second[0], name="renamed")
        new = Attribute("new", AttributeUid("new"), self.random.choice(list(Kind)))
        self.kinds[new.uid] = new.kind
        if self.has_topics:
            self.kinds[TOPIC.uid] = TOPIC.kind
            return topic_attributes(first), topic_attributes((*second, new))
        return tuple(first), (*second, new)

    def _verified(self, second: tuple[Attribute, ...]) -> tuple[VerifiedType, VerifiedType]:
        self.signed = [self.net.cast.definition]
        before = verify_definition(self.signed[0], at=NOW)
        name = replace(before.name, version="00000000-0000-4000-8000-000000000001")
        definition = TypeDefinition(
            name, before.name.version, second, sealing=self.signed[0].definition.sealing
        )
        self.signed.append(sign_definition(definition, self._pito))
        return before, verify_definition(self.signed[1], at=NOW, previous=before)

    def _sub_types(self) -> tuple[VerifiedType, VerifiedType]:
        """Return a version of a sub-type for each version of the type, with an attribute of its own."""
        own = Attribute("own", AttributeUid("own"), Kind.STRING)
        sub_types: list[VerifiedType] = []
        for above, signed in zip(self.versions, self.signed, strict=True):
            name = TypeName(self._pito.principal, f"agreement.Below{self.seed}", above.name.version)
            definition = TypeDefinition(
                name,
                above.definition.previous,
                (own, *above.attributes),
                sealing=above.sealing,
                extends=(signed,),
            )
            previous = sub_types[-1] if sub_types else None
            sub_types.append(
                verify_definition(sign_definition(definition, self._pito), at=NOW, previous=previous)
            )
        return sub_types[0], sub_types[1]

    @property
    def definitions(self) -> list[bytes]:
        return [definition_to_bytes(one) for one in self.signed]

    def _held(self) -> frozenset[AttributeUid]:
        """Return the attributes whose keys the readers' broker holds, which are those it may read."""
        if self.level is not SealingLevel.ATTRIBUTE or self.random.random() < 0.4:
            return frozenset(self.kinds)
        return self._some()

    # -------------------------------------------------------- rights

    def key(self, who: str) -> SigningKey:
        return SigningKey.from_seed(sha256(f"agreement/{self.seed}/{who}".encode()).digest())

    def grant_to(
        self, to: SigningKey, action: Action, shown: AttributeSet, rule: Predicate, validity: Validity
    ) -> SignedCertificate:
        name = self.spoken[0].name if action is WRITE else self.versions[0].name
        steps = self._steps() if action is READ else ()
        return grant(
            self._pito, to, name, action, attributes=shown, restriction=rule, transformations=steps,
            validity=validity,
        )  # fmt: skip

    def _reader(self, number: int) -> RandomReader:
        random, key = self.random, self.key(f"reader {number}")
        version = random.choice(self.versions)
        rights = [
            self.grant_to(key, READ, self._shown(), self._rule(), self._validity())
            for _ in range(random.choice((1, 1, 2, 3)))
        ]
        wanted = random_rule(random, version.kinds, depth=1) if random.random() < 0.6 else ALWAYS
        if wanted != ALWAYS and random.random() < 0.6:  # otherwise most filters ask too much
            asked = frozenset(attributes_of(wanted))
            rights.append(self.grant_to(key, READ, asked | self._some(), self._rule(), self._validity()))
        names = [one.name for one in version.attributes]
        columns = (
            tuple(random.sample(names, random.randint(1, len(names)))) if random.random() < 0.2 else None
        )
        return RandomReader(number, key, tuple(rights), version, wanted, columns)

    def _steps(self) -> tuple[Transformation, ...]:
        """Return a transformation now and then, mostly under a condition."""
        random = self.random
        if random.random() < 0.7:
            return ()
        made: list[Rule] = []
        for uid in random.sample(sorted(self.kinds.keys() - {TOPIC.uid}), random.choice((1, 2))):
            alike = sorted(one for one, kind in self.kinds.items() if kind is self.kinds[uid])
            value = Take(random.choice(alike), self.kinds[uid]) if random.random() < 0.6 else None
            when = self._rule()
            if random.random() < 0.3:  # nothing is known of the world here, and of publishers what they show
                world = Comparison(AttributeUid("world.incident"), Operator.EQ, True)
                said = Comparison(AttributeUid("publisher.clearance"), Operator.GE, random.choice((1, 3)))
                about = (world, said, Not(said)) if self.identities.trust is not None else (world,)
                when = AnyOf((when, random.choice(about)))
            made.append(Rule(uid, value, when))
        return (Transformation(self._pito.principal, tuple(made), self._shown()),)

    def _some(self) -> frozenset[AttributeUid]:
        """Return some attributes, at least one."""
        one = self.random.choice(list(self.kinds))
        return frozenset(uid for uid in self.kinds if uid == one or self.random.random() < 0.6)

    def _shown(self) -> AttributeSet:
        return ALL_ATTRIBUTES if self.random.random() < 0.3 else self._some()

    def _rule(self) -> Predicate:
        return random_rule(self.random, self.kinds, depth=2) if self.random.random() < 0.6 else ALWAYS

    def _validity(self) -> Validity:
        """Return a period that begins when everybody asks, or between, or may end between publications."""
        if self.random.random() < 0.4:
            return Validity(None, None)
        begins = self.random.choice((None, *PHASES, *(phase - 1 for phase in PHASES)))
        ends = self.random.choice([None, *(p + s for p in PHASES for s in (-1, 0, 1)), 46])
        if begins is not None and ends is not None and ends < begins:
            ends = None
        return Validity(*(None if one is None else after(one) for one in (begins, ends)))

    # -------------------------------------------------------- what happens

    def live(self) -> None:
        """Play the world, and remember what every reader received."""
        self.start_brokers()
        camera = self._client("camera", HERE, self._writing())
        identities = self.identities
        readers = [self._client(f"reader {one.number}", THERE, one.credentials) for one in self.readers]
        self.received = {one.number: [] for one in self.readers}
        everybody = (camera, *readers)
        for phase in PHASES:
            version = self.spoken[self.versions.index(self.random.choice(self.versions))]
            for moment in (phase, phase + LATER_S):
                self.net.advance((after(moment) - self.net.now) / SECOND)
                came_back = self._come_back(everybody)
                identities.show(*everybody)
                self._ask(everybody if moment == phase else came_back, camera, readers, version)
                self._publish(camera, version)
            for client in readers:
                client.withdraw(1)
        for one, client in zip(self.readers, readers, strict=True):
            assert {bye.code for bye in client.all_heard(Bye)} <= {ENDED_WITH_STATEMENT}, client.heard
            self.received[one.number] = [
                row for message in client.all_heard(Deliver) for row in seen_rows(message, one)
            ]
        # What follows a gap that no broker fills is recorded after a while; questions are of this moment.
        now = self.net.now
        self.net.advance(HOLD_S + 1)
        self.net.now = now

    def _come_back(self, clients: Iterable[NetClient]) -> list[NetClient]:
        """Connect those again whose links have ended with the statements that they showed."""
        gone = [client for client in clients if client.closed]
        for client in gone:
            self.net.connect(client, HERE if client.principal == self.key("camera").principal else THERE)
            self.net.settle()
        return gone

    def _ask(
        self,
        those: Sequence[NetClient],
        camera: NetClient,
        readers: Sequence[NetClient],
        version: VerifiedType,
    ) -> None:
        identities = self.identities
        if camera in those:
            spoken = [definition_to_bytes(one.signed) for one in self.spoken]
            requires = identities.of_subscribers()
            camera.advertise(event_type=version.name, ref=1, definitions=spoken, requires=requires)
        ask = {"definitions": self.definitions}
        for one, client in zip(self.readers, readers, strict=True):
            if client in those:
                wants = identities.of_publishers(one.number)
                client.subscribe(one.filter, event_type=one.version.name, ref=1, requires=wants, **ask)

    def start_brokers(self) -> None:
        self.net.settings["identity"] = self.identities.trust
        self.net.entitle(HERE, READ, WRITE)
        self.net.entitle(THERE, READ, attributes=self.held if self.level else ALL_ATTRIBUTES)
        recording = {self.recorded_by: RecordingSettings()}
        here = self.net.broker(HERE, recording=recording.get(HERE))
        there = self.net.broker(THERE, seeds=[HERE], recording=recording.get(THERE))
        if self.level is not None:
            self.net.hold(here, None, *self.kinds)
            self.net.hold(there, None, *self.held)
            self.ring = self.net.ring(None, *self.held)

    def _client(self, who: str, at: str, credentials: Sequence[SignedCertificate]) -> NetClient:
        key = self.key(who)
        wallet = (self.net.cast.connect_right(key.principal), *credentials)
        return self.net.client(who, at, key=key, credentials=wallet)

    def _writing(self) -> tuple[SignedCertificate, ...]:
        key, always = self.key("camera"), Validity(None, None)
        if self.publishes_all:
            return (self.grant_to(key, WRITE, ALL_ATTRIBUTES, ALWAYS, always),)
        rule = self._rule()
        if self.has_topics:  # the right on a topic needs those above it, which few random rules grant
            tree = ("/world", self.random.choice(TOPICS[1:]))
            rule = AnyOf(tuple(TextMatch(TOPIC.uid, TextTest.LEVELS, pattern) for pattern in tree))
        return (self.grant_to(key, WRITE, self._some() | attributes_of(rule), rule, always),)

    def _publish(self, camera: NetClient, version: VerifiedType) -> None:
        for _ in range(self.random.choice((1, 1, 2))):
            events = [self._event(version) for _ in range(self.random.choice((1, 2, 7, 20)))]
            self.identities.publish(camera, 1, events, version.kinds)

    def _event(self, version: VerifiedType) -> dict[AttributeUid, PresentValue]:
        event = {
            uid: random_value(self.random, kind)
            for uid, kind in version.kinds.items()
            if self.random.random() < 0.8
        }
        if self.has_topics:
            levels = self.random.choices(("a", "b", "ab"), k=self.random.randrange(4))
            event[TOPIC.uid] = "/".join(("/world", *levels))
        return event

    def asks_beyond_keys(self, one: RandomReader) -> bool:
        """Return whether a reader's rights speak of something that its broker has no key for.

        Such a broker cannot tell others what it wants, nor prove it. Its
        client has whatever comes for somebody else.
        """
        return not self.asks_of(one) <= self.held

    def asks_of(self, one: RandomReader) -> frozenset[AttributeUid]:
        """Return every attribute that a reader's filter or certificates speak of."""
        rules = [signed.certificate.authority.restriction for signed in one.credentials]
        return frozenset().union(*(attributes_of(rule) for rule in (one.filter, *rules)))

    # -------------------------------------------------------- the log

    def write_log(self, folder: Path, *, part: float = 1.0, compact: bool = False) -> None:
        """Put what was recorded into segments, some frames in each; of it only a part, if told."""
        frames = self.net.log(self.recorded_by).safe
        with EventLog.open(folder, limits=LogLimits(grace_s=3600.0), now=NOW) as log:
            wanted = frames[log.next_position - 1 : int(len(frames) * part)]
            for one in wanted:
                log.append([one.data], recorded_at=one.recorded_at)
                if self.random.random() < 0.4:
                    log.roll(one.recorded_at)
            log.roll(self.net.now)
            if compact:
                log.compact(self.net.now)

    # -------------------------------------------------------- how the pipeline reads it

    def reader_of(self, one: RandomReader) -> Reader:
        return Reader(one.key.principal, one.credentials, identity=self.identities.of_reader(one.key))

    def keys(self, desk: JobDesk) -> Keys | None:
        if self.level is None:
            return None
        signer = self.net.brokers[HERE].key.principal
        return Keys(RingKeys(self.ring), desk, {signer: self.net.rights[HERE]})


class Identities:
    """What people show of themselves in a world, and what they require of each other; nothing in many."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"identities of {seed}")  # noqa: S311 - test cases, not secrets
        self.trust = TRUST if self.random.random() < 0.6 else None
        self.wants = [self._requirement() for _ in range(3)]
        self.shown: dict[bytes, list[SignedIdentity]] = {}

    def _requirement(self) -> Predicate:
        if self.trust is None or self.random.random() < 0.4:
            return ALWAYS
        return random_requirement(self.random)

    def of_publishers(self, number: int) -> Predicate:
        return self.wants[number]

    def of_subscribers(self) -> Predicate:
        return self._requirement()

    def show(self, *clients: NetClient) -> None:
        """Let some of them show a statement of some seconds, in place of the one before."""
        for client in clients:
            if self.trust is None or self.random.random() < 0.3:
                continue
            life_s = self.random.choice((1, 300))  # over before more is published, or in force until the next
            made = statement(client.key, random_attributes(self.random), since=client.net.now, life_s=life_s)
            self.shown.setdefault(client.principal.key, []).append(made)
            client.say(Identify(900, pack_identity(made)))

    def publish(
        self,
        camera: NetClient,
        ref: int,
        events: Sequence[Mapping[AttributeUid, PresentValue]],
        kinds: Mapping[AttributeUid, Kind],
    ) -> None:
        """Publish under the advertisement's requirement, or under another one."""
        if self.trust is None or self.random.random() < 0.5:
            camera.publish(ref, *events, kinds=kinds)
            return
        camera.publish(ref, *events, kinds=kinds, requires=self._requirement())

    def of_reader(self, key: SigningKey) -> ReaderIdentity | None:
        if self.trust is None:
            return None
        return ReaderIdentity(self.trust, tuple(self.shown.get(key.principal.key, ())))


def seen_rows(message: Deliver, one: RandomReader) -> list[Seen]:
    """Return the rows of a delivery by the names of the reader's version, all null where nothing came."""
    frame = columns_to_frame(message.columns, message.rows, one.version.kinds)
    about = message.publisher, message.stream, message.label, message.published_at
    assert frame.columns.keys() <= one.version.kinds.keys()
    return [(*about, named(event, one)) for event in frame.events()]


def named(event: Mapping[AttributeUid, Any], one: RandomReader) -> tuple[tuple[str, str, Value], ...]:
    """Return the attributes that a reader asked for, by name, each beside its kind."""
    return tuple(
        (attribute.name, attribute.kind.name, event.get(attribute.uid))
        for attribute in sorted(one.version.attributes, key=lambda each: each.name)
        if one.columns is None or attribute.name in one.columns
    )


# ------------------------------------------------------------ predicates


def random_rule(random: Random, kinds: Mapping[AttributeUid, Kind], *, depth: int) -> Predicate:
    """Return a predicate about these attributes that is neither always nor never true of most events."""
    choice = random.random()
    if depth == 0 or choice < 0.4:
        return random_question(random, kinds)
    parts = tuple(random_rule(random, kinds, depth=depth - 1) for _ in range(2))
    return Not(parts[0]) if choice < 0.55 else AllOf(parts) if choice < 0.7 else AnyOf(parts)


def random_question(random: Random, kinds: Mapping[AttributeUid, Kind]) -> Predicate:
    uid, kind = random.choice(list(kinds.items()))
    choice = random.random()
    if uid == TOPIC.uid and choice < 0.8:
        return TextMatch(uid, TextTest.LEVELS, random.choice(TOPICS))
    if choice < 0.25:
        return Exists(uid)
    if choice < 0.4:
        return Membership(uid, frozenset(random_value(random, kind) for _ in range(random.choice((2, 5)))))
    if kind is Kind.STRING and choice < 0.7:
        return TextMatch(uid, random.choice((TextTest.PREFIX, TextTest.SUFFIX)), random.choice("aAb "))
    operators = list(Operator) if kind.is_ordered else [Operator.EQ, Operator.NE]
    return Comparison(uid, random.choice(operators), random_value(random, kind))
