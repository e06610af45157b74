"""How do the providers and routers of the coalition come to run, and how do routers prove their boot?

Each is a process of its own with real sockets: three times `maia domain serve`,
six times `maia broker`. Routers quote the boot of their TPM to the provider of
their nation, which then states their level. The TPM of Plymouth is an emulated
chip (swtpm) where one is installed; all others are in software.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.arguments import written
from maia.api.client import DomainClient
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    Authority,
    NetworkName,
    NetworkPattern,
    Principal,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
)
from maia.credentials.appointments import Argument
from maia.credentials.identity import SignedIdentity, identity_from_bytes, identity_to_bytes, identity_to_text
from maia.demo.numberplate import granted, key_of
from maia.demo.processes import (
    BROKER_FILE,
    DOMAIN_FILE,
    Child,
    Starting,
    home_of,
    start,
    stop_all,
    write_node,
)
from maia.errors import MaiaError
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind, Value, attribute_uid
from maia.keystore.tpm import Tpm, prove_boot
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence
from maia.predicates import ALWAYS
from maia.testing.software_tpm import Maker, SoftwareTpm, registers
from maia.testing.swtpm import EmulatedMachine, LocalAuthority, missing_emulator
from maia.types import (
    SignedDefinition,
    TypeDefinition,
    VerifiedType,
    definition_to_text,
    sign_definition,
    verify_definition,
)

if TYPE_CHECKING:
    from maia.credentials import Principal


# Who takes part in the coalition, what may each of them see, and how are the routers linked?
#
# Three nations, each with an identity provider and two routers; seven people on
# ships and staffs. The type belongs to the coalition, which grants rights to it
# by certificate. Who gets which event is then a matter of requirements: what a
# publisher asks of subscribers, and a subscriber of publishers.


COALITION: Final = "Coalition"
COMMUNITY: Final = "coalition.north"
DEMAND: Final = "tpm-integrity >= 2"
"""What every router demands of its neighbours."""

_DAY: Final = 86_400
_VESSEL, _PLACE, _SOURCE = (attribute_uid(one) for one in ("1", "2", "3"))
ATTRIBUTES: Final = (
    Attribute("vessel", _VESSEL, Kind.STRING),
    Attribute("place", _PLACE, Kind.STRING),
    Attribute("source", _SOURCE, Kind.STRING),
)

Contact = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Nation:
    """A nation: which providers its routers trust, and whose guests its own provider accepts."""

    name: str
    trusts: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Router:
    """A router of a nation, and those that it is linked to."""

    name: str
    nation: str
    neighbours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a key: at home in one nation, and connected to one router."""

    name: str
    identifier: str
    nation: str
    router: str
    attributes: Mapping[AttributeUid, Argument]
    action: Action = Action.SUBSCRIBE
    requires: str = "true"
    """What a subscriber asks of publishers."""
    sees: AttributeSet = ALL_ATTRIBUTES


def _who(nationality: str, clearance: int) -> dict[AttributeUid, Argument]:
    return {attribute_uid("nationality"): nationality, attribute_uid("clearance"): clearance}


# Norway and the Netherlands do not know each other's providers: trust is never transitive.
NATIONS: Final[Mapping[str, Nation]] = {
    one.name: one
    for one in (
        Nation("Norway", ("Norway", "Britain"), ("Netherlands",)),
        Nation("Britain", ("Norway", "Britain", "Netherlands"), ("Norway",)),
        Nation("Netherlands", ("Britain", "Netherlands"), ()),
    )
}

# A ladder: what Plymouth carried finds its way through London.
ROUTERS: Final[Mapping[str, Router]] = {
    one.name: one
    for one in (
        Router("Oslo", "Norway", ("Bergen", "London")),
        Router("Bergen", "Norway", ("Oslo", "Plymouth")),
        Router("London", "Britain", ("Oslo", "Plymouth", "Den Haag")),
        Router("Plymouth", "Britain", ("Bergen", "London", "Den Helder")),
        Router("Den Haag", "Netherlands", ("London", "Den Helder")),
        Router("Den Helder", "Netherlands", ("Den Haag", "Plymouth")),
    )
}

PEOPLE: Final[Mapping[str, Person]] = {
    one.name: one
    for one in (
        Person("Anna", "anna@norway", "Norway", "Oslo", _who("no", 3), Action.PUBLISH),
        Person("Kent", "kent@britain", "Britain", "London", _who("uk", 2), Action.PUBLISH),
        Person("Bo", "bo@norway", "Norway", "Bergen", _who("no", 3)),
        Person("Brown", "brown@britain", "Britain", "London", _who("uk", 2)),
        Person("Kari", "kari@norway", "Norway", "Plymouth", _who("no", 3)),
        Person(
            "Vries", "vries@netherlands", "Netherlands", "Oslo", _who("nl", 3), requires='nationality == "no"'
        ),
        Person(
            "Smit",
            "smit@netherlands",
            "Netherlands",
            "Den Helder",
            _who("nl", 1),
            sees=frozenset({_VESSEL, _PLACE}),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Cast:
    """Keys, certificates and the type, all from one seed."""

    keys: Mapping[str, SigningKey] = field(repr=False)
    network: NetworkName
    definition: SignedDefinition
    event_type: VerifiedType
    certificates: Mapping[str, tuple[SignedCertificate, ...]]
    """What each router and each person can show."""

    def principal(self, who: str) -> Principal:
        """Return the public key of a nation, a router or a person."""
        return self.keys[who].principal

    def view_of(self, who: str, *, now: Instant) -> View:
        """Return what a person may see or write of a contact, as the kernel decides it."""
        person = PEOPLE[who]
        name, version = self.event_type.name, self.event_type
        request = Request(self.principal(who), person.action, name, version, ALWAYS)
        decision = decide(request, gather_evidence(request, self.certificates[who], at=now), NO_FACTS, now)
        if not isinstance(decision, Permit):
            raise decision.as_refusal()
        return decision.view


def assemble(seed: bytes, *, now: Instant) -> Cast:
    """Make the keys of everybody, and let the coalition issue its certificates."""
    names = (COALITION, *NATIONS, *ROUTERS, *PEOPLE)
    keys = {who: key_of(who, seed) for who in names}
    coalition = keys[COALITION]
    whole = now - now % SECOND
    validity = Validity(Instant(whole - _DAY * SECOND), Instant(whole + _DAY * SECOND))
    network = NetworkName(coalition.principal, "Coalition North")
    definition = TypeDefinition(TypeName(coalition.principal, "coalition.Contact", "0"), None, ATTRIBUTES)
    signed = sign_definition(definition, coalition)

    def may(
        who: str, what: ResourcePattern, action: Action, seen: AttributeSet = ALL_ATTRIBUTES
    ) -> SignedCertificate:
        authority = Authority(what, frozenset({action}), seen)
        return granted(coalition, keys[who].principal, authority, validity)

    of_network = NetworkPattern(coalition.principal, exact_name(network.name))
    of_type = TypePattern(coalition.principal, exact_name(definition.name.name), None)
    certificates: dict[str, tuple[SignedCertificate, ...]] = {
        who: (may(who, of_network, Action.CONNECT),) for who in (*NATIONS, *ROUTERS, *PEOPLE)
    }
    for who, person in PEOPLE.items():
        certificates[who] += (may(who, of_type, person.action, person.sees),)
    return Cast(keys, network, signed, verify_definition(signed, at=now), certificates)


Say = Callable[[str], None]
"""Called with a sentence whenever something has happened."""

LOSES_ITS_LEVEL: Final = "Plymouth"
_PCRS: Final = (0, 7)
_LEVEL: Final = 2
APPROVED_BOOT: Final = ((0, b"firmware 5.2"), (7, b"secure boot on"))
CHANGED_BOOT: Final = ((0, b"firmware 5.2, changed"), (7, b"secure boot off"))


class Machine(Protocol):
    """A machine that can be booted."""

    def boot(self, *events: tuple[int, bytes]) -> bytes:
        """Start anew, and measure what is started."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """The identity provider of a nation, as those who come to it see it. Calls block: ask from a thread."""

    cast: Cast
    nation: str
    address: str
    clients: dict[str, DomainClient] = field(default_factory=dict, repr=False)

    def as_(self, who: str) -> DomainClient:
        """Return the connection of a router, a person, or the administrator, who has the nation's key."""
        if who not in self.clients:
            domain = self.cast.principal(self.nation)
            self.clients[who] = DomainClient(self.address, domain=domain, key=self.cast.keys[who])
        return self.clients[who]

    def close(self) -> None:
        """Close all connections."""
        for client in self.clients.values():
            client.close()

    def register(self, who: str, identifier: str, attributes: Mapping[AttributeUid, Argument]) -> None:
        """Register a subject, or replace what is registered about it."""
        body = bodies.SubjectBody(identifier, {uid: written(value) for uid, value in attributes.items()})
        path = f"/v1/subjects/{self.cast.principal(who)}"
        self.as_(self.nation).call("PUT", path, body, answer=answers.SubjectAnswer)

    def remove(self, who: str, reason: str) -> None:
        """Remove a subject from the register."""
        path = f"/v1/subjects/{self.cast.principal(who)}/removal"
        self.as_(self.nation).call("POST", path, bodies.Reason(reason), answer=answers.News)

    def trust(self, nation: str) -> None:
        """Accept the subjects of another nation as guests."""
        path = f"/v1/trusted-providers/{self.cast.principal(nation)}"
        body = bodies.TrustBody(nation.lower(), "unbounded")
        self.as_(self.nation).call("PUT", path, body, answer=answers.ProviderAnswer)

    def approve(self, roots: list[bytes]) -> None:
        """Approve one boot, and these makers of TPMs."""
        values = {str(pcr): registers(*APPROVED_BOOT)[pcr].hex() for pcr in _PCRS}
        boot = bodies.BootConfiguration("router 5.2", _LEVEL, values)
        body = bodies.ApprovedBody(list(_PCRS), [boot], roots)
        self.as_(self.nation).call("PUT", "/v1/tpm/approved", body, answer=answers.ApprovedAnswer)

    def statement(self, who: str, lifetime_s: int | None = None) -> SignedIdentity:
        """Return a statement about a subject, which asks for it itself."""
        body = bodies.IdentityBody(lifetime_s)
        found = self.as_(who).call("POST", "/v1/identity", body, answer=answers.IdentityAnswer)
        return identity_from_bytes(found.statement)

    def guest(self, who: str, home: SignedIdentity) -> SignedIdentity:
        """Return a guest statement on the ground of one of another nation."""
        body = bodies.GuestBody(identity_to_bytes(home))
        found = self.as_(who).call("POST", "/v1/identity/guest", body, answer=answers.GuestAnswer)
        return identity_from_bytes(found.statement)

    def prove(self, router: str, tpm: Tpm) -> str | None:
        """Let a router quote its boot; return the code if it is refused."""
        try:
            prove_boot(self.as_(router), tpm)
        except MaiaError as problem:
            return problem.code
        return None


@dataclass(slots=True)
class World:
    """Everything that runs."""

    cast: Cast
    folder: Path
    providers: dict[str, Provider] = field(default_factory=dict)
    tpms: dict[str, Tpm] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    statements: dict[str, SignedIdentity] = field(default_factory=dict)
    """The statement of each router that it shows now."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Where each router accepts statement links."""
    children: dict[str, Child] = field(default_factory=dict)
    is_emulated: bool = False
    """Whether the TPM of the router that loses its level is swtpm."""

    def provider_of(self, who: str) -> Provider:
        """Return the provider at which a router or a person is registered."""
        return self.providers[(ROUTERS.get(who) or PEOPLE[who]).nation]

    def trusted_by(self, nation: str) -> frozenset[Principal]:
        """Return the providers that a nation's routers, and its people, believe."""
        return frozenset(self.cast.principal(one) for one in NATIONS[nation].trusts)

    def boot(self, router: str, *events: tuple[int, bytes]) -> str | None:
        """Boot a router's machine, quote, and renew the router's statement; return the code of a refusal."""
        self.machines[router].boot(*events)
        provider = self.provider_of(router)
        refused = provider.prove(router, self.tpms[router])
        self.statements[router] = provider.statement(router)
        file = home_of(self.folder, router) / "router.identity"
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name("router.identity.part")
        part.write_text(identity_to_text(self.statements[router]), encoding="utf-8")
        part.replace(file)
        return refused


@contextmanager
def world_at_work(cast: Cast, folder: Path, say: Say) -> Iterator[World]:
    """Run providers and routers while the body runs."""
    world = World(cast, folder)
    with ExitStack() as stack:
        stack.callback(lambda: stop_all(list(world.children.values())))
        say("three identity providers start, and the routers' machines get their TPMs")
        starting = _start_providers(world)
        roots = _make_machines(world, stack)
        for nation, one in starting.items():
            provider = world.providers[nation] = Provider(cast, nation, one.interface())
            stack.callback(provider.close)
        say("the providers answer; people and routers are registered")
        _register(world)
        for provider in world.providers.values():
            provider.approve(roots)
        for router in ROUTERS:
            world.boot(router, *APPROVED_BOOT)
        kind = f"; the TPM of {LOSES_ITS_LEVEL} is swtpm" if world.is_emulated else ""
        say(f"six routers have proved their boot: each has a statement with level {_LEVEL}{kind}")
        _start_routers(world)
        say(f"six routers form a mesh; each demands `{DEMAND}` of its neighbours")
        yield world


def _start_providers(world: World) -> dict[str, Starting]:
    starting: dict[str, Starting] = {}
    for nation in NATIONS:
        home = home_of(world.folder, nation)
        settings: dict[str, object] = {
            "api.listen": "127.0.0.1:0",
            "identity.community": COMMUNITY,
            "identity.lifetime_s": 900,
        }
        _write(world.cast, home, nation, DOMAIN_FILE, settings)
        starting[nation] = start(f"provider of {nation}", home)
        world.children[nation] = starting[nation].process
    return starting


def _register(world: World) -> None:
    for who, person in PEOPLE.items():
        world.provider_of(who).register(who, person.identifier, person.attributes)
    for router in ROUTERS:
        world.provider_of(router).register(router, f"{router.replace(' ', '-').lower()}.routers", {})
    for nation in NATIONS.values():
        for guest in nation.hosts:
            world.providers[nation.name].trust(guest)


def _make_machines(world: World, stack: ExitStack) -> list[bytes]:
    """Give each router a machine with a TPM; return the certificates of the makers."""
    maker = Maker("Maker of the coalition's TPMs")
    roots = [maker.root]
    for router in ROUTERS:
        if router == LOSES_ITS_LEVEL and not missing_emulator():
            authority = LocalAuthority(world.folder / "maker")
            machine = EmulatedMachine(world.folder / "tpm", authority)
            world.tpms[router] = stack.enter_context(machine.running())
            world.machines[router], world.is_emulated = machine, True
            roots.append(authority.certificate)
        else:
            made = SoftwareTpm(maker)
            world.tpms[router] = world.machines[router] = made
    return roots


def _start_routers(world: World) -> None:
    """Start the routers one after the other: of two neighbours, the later one names the earlier."""
    for router, one in ROUTERS.items():
        home = home_of(world.folder, router)
        (home / "types").mkdir(parents=True, exist_ok=True)
        (home / "types" / "contact.type").write_text(
            definition_to_text(world.cast.definition), encoding="utf-8"
        )
        settings: dict[str, object] = {
            "types": "types",
            "identity.listen": "127.0.0.1:0",
            "identity.statement": "router.identity",
            "identity.providers": [str(world.cast.principal(each)) for each in NATIONS[one.nation].trusts],
            "identity.demand": DEMAND,
            "routing": "mesh",
            "neighbours": [
                f"{world.cast.principal(each)}@{world.addresses[each]}"
                for each in one.neighbours
                if each in world.addresses
            ],
        }
        _write(world.cast, home, router, BROKER_FILE, settings)
        begun = start(f"router {router}", home)
        world.children[router] = begun.process
        (world.addresses[router],) = begun.ready("statement")


def _write(cast: Cast, home: Path, name: str, file: str, settings: Mapping[str, object]) -> None:
    write_node(
        home,
        file=file,
        key=cast.keys[name],
        network=cast.network,
        certificates=cast.certificates[name],
        settings=settings,
    )
