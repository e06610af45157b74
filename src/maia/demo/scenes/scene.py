"""What is a scene: who takes part, by which policies, and what does the kernel say of an event?

A scene is data: organisations with their policies, brokers, publishers,
readers, and acts. Keys come from one seed. The owner of the network and of the types
issues by hand what is static; every reader gets its rights from the policy of
its own organisation, at login. What a reader has to see of an event is
calculated here with the kernel alone, and compared with what arrives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    Authority,
    NetworkName,
    NetworkPattern,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
)
from maia.demo.numberplate import granted, key_of
from maia.events import SECOND, Attribute, Instant, Kind, Value, attribute_uid
from maia.expressions import TransformationKeys
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, see, shape
from maia.predicates import ALWAYS, parse_predicate
from maia.types import (
    SignedDefinition,
    TypeDefinition,
    VerifiedType,
    from_transit,
    sign_definition,
    to_transit,
    verify_definition,
)
from maia.validity import Monitor

if TYPE_CHECKING:
    from maia.demo.scenes.play import Stage


Happening = Mapping[str, Value]
"""An event by attribute names, as a publisher writes it or a reader sees it."""

Act = Callable[["Stage"], Awaitable[None]]
"""Something that happens: it publishes, changes a fact, or tries what must be refused."""

HOLDER: Final = "(the holder's key)"
"""Stands for the key of a reader among the arguments of a fact."""

_DAY: Final = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class Held:
    """A right that the owner gives an organisation, to pass on to its members."""

    type_name: str
    where: str = "true"
    attributes: tuple[str, ...] | None = None
    """None for all."""


@dataclass(frozen=True, slots=True)
class Organisation:
    """A domain with a server and a policy of its own."""

    name: str
    broker: str
    """The broker that carries its statements."""
    policy: str
    held: tuple[Held, ...] = ()
    """What it was given; the owner needs nothing."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """A client that publishes a type, by a certificate of the owner."""

    name: str
    broker: str
    type_name: str
    where: str = "true"
    """What it may publish; a value that is asked for alone is filled in."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What a database makes of events that it stores, in the same transaction."""

    type_name: str
    query: str


@dataclass(frozen=True, slots=True)
class Database:
    """A PostgreSQL database that takes part: it stores a type, and releases what its queries make of it."""

    name: str
    broker: str
    stores: str
    derives: tuple[Derived, ...]
    table: str
    """The table that the queries ask, with two columns of text."""
    columns: tuple[str, str]
    rows: frozenset[tuple[str, str]]
    model: Callable[[Happening, Collection[tuple[str, str]]], list[tuple[str, Happening]]]
    """Says without SQL what the queries have to make of an event while the table holds these rows."""
    is_needed: bool = False
    """Whether the scene makes no sense without it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A client that logs in at its organisation and subscribes."""

    name: str
    organisation: str
    broker: str
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """What its organisation knows of it before it logs in."""
    type_name: str
    sees: str
    """In a few words, for the person who watches."""
    shown_as: str | None = None
    """The type that its right converts events into."""
    application: str | None = None
    """What it has Spark make of the log."""


def works_as(role: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what an organisation knows of a reader that has one of its `staff_roles`."""
    return (("works_as", (HOLDER, role)),)


def staff_roles(*names: str) -> str:
    """Return the part of a policy that makes roles of what somebody works as, each for a day."""
    rules = (f'rule {name}\n    while works_as(holder, "{name}")\n    for 1 days\n' for name in names)
    return "".join(
        ["fact works_as(who: principal, what: string)\n\n", *(f"role {name}\n" for name in names), *rules]
    )


def attributes(text: str) -> tuple[tuple[str, Kind], ...]:
    """Read attributes as `maia type define` does: `ward:string value:int`."""
    pairs = (one.partition(":") for one in text.split())
    return tuple((name, Kind(kind)) for name, _, kind in pairs)


@dataclass(frozen=True, slots=True)
class Scene:
    """A story that can be played."""

    name: str
    before: str
    """What a newcomer reads first."""
    network: str
    owner: str
    types: Mapping[str, Sequence[tuple[str, Kind]]]
    brokers: tuple[str, ...]
    """The first one records what it carries, and the others join it."""
    organisations: tuple[Organisation, ...]
    publishers: tuple[Publisher, ...]
    readers: tuple[Reader, ...]
    probes: tuple[tuple[str, Happening], ...]
    """By whom, and events of which each reader sees one at least, with their time: they show when all are
    connected, and that nothing is under way any more. They are from 1970."""
    acts: tuple[Act, ...]
    database: Database | None = None
    secrets_of: str | None = None
    """The organisation whose policy has pseudonyms or noise, if one has."""

    def without_database(self) -> Scene:
        """Return the scene without its database, and without the readers of what that releases."""
        released = () if self.database is None else [one.type_name for one in self.database.derives]
        readers = tuple(one for one in self.readers if one.type_name not in released)
        return replace(self, database=None, readers=readers)

    def reader(self, name: str) -> Reader:
        """Return the reader of that name."""
        return next(one for one in self.readers if one.name == name)


@dataclass(frozen=True, slots=True)
class Wallet:
    """What a reader was given at login, and the statements that say it still counts."""

    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    statements: tuple[SignedStatement, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """The scene with its keys, types and static certificates, all from one seed."""

    scene: Scene
    keys: Mapping[str, SigningKey] = field(repr=False)
    network: NetworkName
    definitions: Mapping[str, SignedDefinition]
    types: Mapping[str, VerifiedType]
    certificates: Mapping[str, tuple[SignedCertificate, ...]]
    """What each broker, organisation, publisher and reader holds from the owner."""

    def principal(self, who: str) -> Principal:
        """Return the public key of a participant."""
        return self.keys[who].principal

    def written(self, by: str, event: Happening, *, now: Instant) -> Happening:
        """Return an event as its publisher may publish it."""
        publisher = next(one for one in self.scene.publishers if one.name == by)
        event_type = self.types[publisher.type_name]
        view = self._view(by, Action.PUBLISH, publisher.type_name, self.certificates[by], None, now)
        return from_transit(shape(view, to_transit(event, event_type)), event_type)

    def view_of(self, reader: Reader, wallet: Wallet, *, now: Instant) -> View:
        """Return what a reader may see, as the kernel decides it from its wallet; raise the refusal."""
        monitor = Monitor.of(wallet.statements, now)
        held = (*self.certificates[reader.name], *wallet.certificates)
        return self._view(reader.name, Action.SUBSCRIBE, reader.type_name, held, monitor, now)

    def seen(
        self, reader: Reader, view: View, event: Happening, keys: TransformationKeys
    ) -> Happening | None:
        """Return what a reader has to see of an event, by the names that it knows; None for nothing."""
        shown = see(view, to_transit(event, self.types[reader.type_name]), keys)
        return None if shown is None else from_transit(shown, self.types[reader.shown_as or reader.type_name])

    def derived(
        self, type_name: str, event: Happening, rows: Collection[tuple[str, str]]
    ) -> list[tuple[str, Happening]]:
        """Return what the database has to make of an event of a type, each with its own type."""
        database = self.scene.database
        if database is None or database.stores != type_name:
            return []
        made = database.model(event, rows)
        return [
            (name, from_transit(to_transit(one, self.types[name]), self.types[name])) for name, one in made
        ]

    def _view(
        self,
        who: str,
        action: Action,
        type_name: str,
        held: Sequence[SignedCertificate],
        standing: Monitor | None,
        now: Instant,
    ) -> View:
        event_type = self.types[type_name]
        request = Request(self.principal(who), action, event_type.name, event_type, ALWAYS)
        decision = decide(request, gather_evidence(request, held, at=now, standing=standing), NO_FACTS, now)
        if not isinstance(decision, Permit):
            raise decision.as_refusal()
        return decision.view


def assemble(scene: Scene, seed: bytes, *, now: Instant) -> Cast:
    """Make the keys of all participants, the types, and the certificates that the owner issues."""
    organisations = [one.name for one in scene.organisations]
    clients = [*(one.name for one in scene.publishers), *(one.name for one in scene.readers)]
    if scene.database is not None:
        clients.append(scene.database.name)
    keys = {who: key_of(who, seed) for who in (scene.owner, *scene.brokers, *organisations, *clients)}
    owner = keys[scene.owner]
    network = NetworkName(owner.principal, scene.network)
    definitions = {name: _defined(name, listed, owner) for name, listed in scene.types.items()}
    types = {name: verify_definition(one, at=now) for name, one in definitions.items()}
    second = now - now % SECOND
    issuing = _Issuing(owner, keys, Validity(Instant(second - _DAY), Instant(second + _DAY)))
    pattern = NetworkPattern(owner.principal, exact_name(network.name))
    connect = frozenset({Action.CONNECT})
    certificates = {who: [issuing.granted(who, pattern, connect)] for who in (*scene.brokers, *clients)}
    for one in scene.organisations:
        both = connect | {Action.INSTALL}
        certificates[one.name] = [issuing.granted(one.name, pattern, both)]
        for held in one.held:
            certificates[one.name].append(
                issuing.on_type(
                    one.name,
                    types[held.type_name],
                    Action.SUBSCRIBE,
                    where=held.where,
                    only=held.attributes,
                    may_delegate=True,
                )
            )
    for publisher in scene.publishers:
        written = types[publisher.type_name]
        may = issuing.on_type(publisher.name, written, Action.PUBLISH, where=publisher.where)
        certificates[publisher.name].append(may)
    if scene.database is not None:
        kept, made = types[scene.database.stores], [types[one.type_name] for one in scene.database.derives]
        may_store = issuing.on_type(scene.database.name, kept, Action.SUBSCRIBE)
        may_release = [issuing.on_type(scene.database.name, one, Action.PUBLISH) for one in made]
        certificates[scene.database.name] += [may_store, *may_release]
        # The broker that records for the database subscribes by itself.
        recorder = scene.brokers[0]
        certificates[recorder] += [issuing.on_type(recorder, one, Action.SUBSCRIBE) for one in (kept, *made)]
    issued = {who: tuple(found) for who, found in certificates.items()}
    return Cast(scene, keys, network, definitions, types, issued)


def _defined(name: str, listed: Sequence[tuple[str, Kind]], owner: SigningKey) -> SignedDefinition:
    attributes = tuple(
        Attribute(called, attribute_uid(str(number)), kind)
        for number, (called, kind) in enumerate(listed, start=1)
    )
    return sign_definition(TypeDefinition(TypeName(owner.principal, name, "0"), None, attributes), owner)


@dataclass(frozen=True, slots=True)
class _Issuing:
    """The owner at its desk."""

    owner: SigningKey = field(repr=False)
    keys: Mapping[str, SigningKey] = field(repr=False)
    validity: Validity

    def granted(self, who: str, what: ResourcePattern, actions: frozenset[Action]) -> SignedCertificate:
        return granted(self.owner, self.keys[who].principal, Authority(what, actions), self.validity)

    def on_type(
        self,
        who: str,
        event_type: VerifiedType,
        action: Action,
        *,
        where: str = "true",
        only: Sequence[str] | None = None,
        may_delegate: bool = False,
    ) -> SignedCertificate:
        uids = {one.name: one.uid for one in event_type.attributes}
        authority = Authority(
            TypePattern(self.owner.principal, exact_name(event_type.name.name), None),
            frozenset({action}),
            ALL_ATTRIBUTES if only is None else frozenset(uids[name] for name in only),
            parse_predicate(where, event_type.vocabulary),
        )
        to = self.keys[who].principal
        return granted(self.owner, to, authority, self.validity, may_delegate=may_delegate)
