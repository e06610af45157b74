"""Who sees which cars? The numberplate story of the dissertation, sections 3.7 and 5.2.

PITO runs the network and owns the type. The congestion charge service (CCS)
owns the cameras and two offices; the Metropolitan Police (Met) employs
Detective Smith. Many tests begin with
this cast, its keys and its certificates, all derived from one seed. Below are
the brokers, and the network in memory (`maia.testing.Net`) in which they meet.
(`maia demo` plays the same story with organisations and processes.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final

from maia.broker import RecordingSettings
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    LocalName,
    NameCertificate,
    NetworkName,
    NetworkPattern,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    issue,
)
from maia.events import Attribute, AttributeUid, Frame, Instant, Kind, Value, attribute_uid, frame_of
from maia.predicates import Comparison, Operator, Predicate
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.routing.table.hops import SealedEntry, book_key_of_sealed
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import blinded_ids
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.testing import BEGINNING, Cast, NetBroker, NetClient, key_of
from maia.testing import Net as AnyNet
from maia.types import Cover, Sealing, SealingLevel, TypeDefinition, sign_definition
from maia.wire.codec import encode
from maia.wire.messages import Sealed

# The uids of table 4.3.
NUMBERPLATE: Final = attribute_uid("3265")
TIMESTAMP: Final = attribute_uid("9058")
LOCATION: Final = attribute_uid("3467")

NUMBERPLATE_ATTRIBUTES: Final = (
    Attribute("numberplate", NUMBERPLATE, Kind.STRING),
    Attribute("timestamp", TIMESTAMP, Kind.TIMESTAMP),
    Attribute("location", LOCATION, Kind.STRING),
)
NUMBERPLATE_KINDS: Final = {attribute.uid: attribute.kind for attribute in NUMBERPLATE_ATTRIBUTES}

SUSPECT: Final = "AE05 XYZ"
CAMERA: Final = "camera at Victoria"
READ, WRITE = Action.SUBSCRIBE, Action.PUBLISH

_CAST: Final = ("PITO", "CCS", "Met", "billing office", "statistics office", CAMERA, "Detective Smith")
_NETWORK: Final = "UK Police Network"
_TYPE: Final = "uk.gov.pito.Numberplate"
NOW: Final = BEGINNING
SEED: Final = b"tests of the broker"
DAY: Final = 86_400_000_000


def tell_numberplate_story(seed: bytes, *, now: Instant, lifetime_days: int = 30) -> Cast:
    """Issue every certificate of the tables of section 5.2, valid from a day before `now` for some days."""
    keys = {who: key_of(who, seed) for who in _CAST}
    name = TypeName(keys["PITO"].principal, _TYPE, "0")
    definition = sign_definition(TypeDefinition(name, None, NUMBERPLATE_ATTRIBUTES), keys["PITO"])
    today = Instant(now - now % DAY)
    validity = Validity(Instant(today - DAY), Instant(today + lifetime_days * DAY))
    network = NetworkName(keys["PITO"].principal, _NETWORK)
    cast = Cast(keys, network, definition, (), seed=seed, validity=validity)
    connect, both = (Action.CONNECT, Action.SERVE), (Action.CONNECT, Action.SERVE, Action.INSTALL)
    every, on = frozenset(NUMBERPLATE_KINDS), Operator.EQ
    certificates = (
        cast.grant("PITO", "Met", network, *connect, may_delegate=True),
        cast.grant("PITO", "CCS", network, *both, may_delegate=True),
        cast.grant("Met", "Detective Smith", network, *connect),
        cast.grant("CCS", "billing office", network, *both),
        cast.grant("CCS", "statistics office", network, *connect),
        cast.grant("CCS", CAMERA, network, *connect),
        cast.grant("PITO", "CCS", name, WRITE, READ, may_delegate=True),
        cast.grant("PITO", "Met", name, READ, may_delegate=True),
        cast.grant("CCS", "billing office", name, READ, attributes=frozenset({NUMBERPLATE, TIMESTAMP})),
        cast.grant("CCS", "statistics office", name, READ, attributes=frozenset({LOCATION, TIMESTAMP})),
        cast.grant(
            "CCS", CAMERA, name, WRITE, attributes=every, restriction=Comparison(LOCATION, on, "Victoria")
        ),
        cast.grant(
            "Met", "Detective Smith", name, READ, attributes=every,
            restriction=Comparison(NUMBERPLATE, on, SUSPECT),
        ),
    )  # fmt: skip
    return replace(cast, certificates=certificates)


def held_by(cast: Cast, domain: str, about: type[ResourcePattern]) -> SignedCertificate:
    """Return the certificate by which PITO lets a domain use network or type, and pass that on."""
    (held,) = (
        one
        for one in cast.certificates
        if one.certificate.subject == cast.principal(domain) and is_about(one, about)
    )
    return held


def is_about(signed: SignedCertificate, kind: type[ResourcePattern]) -> bool:
    """Return whether a certificate grants something about a type, or a network."""
    one = signed.certificate
    return isinstance(one, AuthorisationCertificate) and isinstance(one.authority.resources, kind)


def without_right_of(
    cast: Cast, who: str, name: str, certificates: Iterable[SignedCertificate] | None = None
) -> tuple[SignedCertificate, ...]:
    """Return all certificates but those that grant a principal something about a type."""
    return tuple(
        one
        for one in (cast.certificates if certificates is None else certificates)
        if one.certificate.subject != cast.principal(who)
        or name not in str(one.certificate.authority.resources)
    )


# Who runs the brokers of the numberplate story? Sections 3.7 and 5.2.1 of the dissertation.
#
# Each of the three domains adds one. PITO coordinates the network and admits
# its own broker itself, and CCS and Met theirs. What its brokers may do with the type Met grants
# to the group `Met Brokers`, of which a name certificate makes its broker a member.


BROKERS: Final[Mapping[str, str]] = {"PITO broker": "PITO", "CCS broker": "CCS", "Met broker": "Met"}
"""The brokers of the story, each with the domain that runs it."""

MET_BROKERS: Final = "Met Brokers"
"""The group to which Met grants what its brokers may do."""


def add_brokers(cast: Cast, seed: bytes) -> Cast:
    """Give each domain of the story a broker, with keys that grow from `seed`."""
    keys = {who: key_of(who, seed) for who in BROKERS}
    met, name = cast.keys["Met"], keys["Met broker"].principal
    member = issue(
        NameCertificate(met.principal, MET_BROKERS, name, cast.validity, "Met broker is one of ours"), met
    )
    connect = {
        who: cast.broker_right(keys[who], by=domain, comment=f"{domain} to its broker")
        for who, domain in BROKERS.items()
    }
    wallets = {
        "PITO broker": (connect["PITO broker"],),
        "CCS broker": (held_by(cast, "CCS", NetworkPattern), connect["CCS broker"]),
        "Met broker": (held_by(cast, "Met", NetworkPattern), connect["Met broker"], member),
    }
    return replace(cast, keys={**cast.keys, **keys}, wallets=wallets)


# Who runs the brokers of the sealed numberplate story, and who of them holds which keys?


CARRIER: Final = "Highways broker"
"""The broker without any right to the type."""
KEY_SERVER: Final = "PITO keys"


def add_carrier(cast: Cast, seed: bytes) -> Cast:
    """Give the three domains brokers with keys, and put a third domain's broker between them."""
    cast, highways = add_brokers(cast, seed), key_of("Highways", seed)
    carrier = _nearest(cast, seed, (cast.keys[who] for who in BROKERS))
    keys = {**cast.keys, CARRIER: carrier, KEY_SERVER: key_of(KEY_SERVER, seed)}
    network, connect = cast.network, (Action.CONNECT, Action.SERVE)
    connects = (
        cast.grant("PITO", highways, network, *connect, may_delegate=True),
        cast.broker_right(carrier, by=highways),
    )
    server = cast.grant("PITO", keys[KEY_SERVER], network, *connect)
    wallets = {**_with_type_rights(cast), CARRIER: connects, KEY_SERVER: (server,)}
    return replace(cast, keys=keys, wallets=wallets)


def sealed_story(cast: Cast, *, keys_at: str) -> Cast:
    """Return the story with a type whose attributes are sealed, by keys that are to be had at an address."""
    return cast.sealed(Sealing(SealingLevel.ATTRIBUTE, cast.principal(KEY_SERVER), (keys_at,)))


def _with_type_rights(cast: Cast) -> dict[str, tuple[SignedCertificate, ...]]:
    """Let each domain pass what it was given on to its broker, whose readers need it."""
    on, members = cast.definition, LocalName(cast.principal("Met"), (MET_BROKERS,))
    of_place = frozenset({LOCATION, TIMESTAMP})
    rights = {
        "PITO broker": (cast.grant("PITO", "PITO broker", on, READ, attributes=of_place),),
        "CCS broker": (held_by(cast, "CCS", TypePattern), cast.grant("CCS", "CCS broker", on, WRITE, READ)),
        "Met broker": (held_by(cast, "Met", TypePattern), cast.grant("Met", members, on, READ)),
    }
    return {who: (*shown, *rights[who]) for who, shown in cast.wallets.items()}


def _nearest(cast: Cast, seed: bytes, others: Iterable[SigningKey]) -> SigningKey:
    """Return a key whose broker is nearer to the type than the others, and so its rendezvous."""
    point = node_id_of_type(cast.type_id)

    def away(key: SigningKey) -> object:
        return closeness(node_id_of_key(key.principal.key), point)

    nearest = min(map(away, others))
    return next(key for number in count() if away(key := key_of(f"{CARRIER} {number}", seed)) < nearest)


# The network in memory, plain, sealed and blinded.


EVERY_KEY: tuple[AttributeUid | None, ...] = (None, NUMBERPLATE, TIMESTAMP, LOCATION)
RECORDING: Final = RecordingSettings()


class Net(AnyNet):
    """The network of the numberplate story; `Net()` has no brokers yet."""

    first = "CCS broker"

    def __init__(self, *, now: Instant = NOW, **settings: Any) -> None:
        super().__init__(add_brokers(tell_numberplate_story(SEED, now=now), SEED), now=now, **settings)

    def three(self, point_of: bytes | None = None) -> tuple[NetBroker, NetBroker, NetBroker]:
        """Start the cameras' broker, one of a third domain that is the rendezvous, and the detectives'."""
        first, last = "CCS broker", "Met broker"
        third = self.name_near(self.type_id if point_of is None else point_of, first, last)
        return self.broker(first), self.broker(third, seeds=[first]), self.broker(last, seeds=[first, third])


class SealedNet(Net):
    """Brokers that seal, carry and open a sealed type, with rights (`entitle`) and keys (`hold`) by hand."""

    def __init__(
        self,
        level: SealingLevel = SealingLevel.ATTRIBUTE,
        *,
        manager: str = "PITO",
        keys_at: tuple[str, ...] = (),
        blinded: bool = False,
        cover: Cover | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**{"share_plaintext": True, **settings})
        self.plain = self.cast.definition
        key, _ = self.cast.identity(manager)
        self.cast = self.cast.sealed(Sealing(level, key.principal, keys_at, blinded, cover))

    def heard_by(self, running: NetBroker) -> bytes:
        """Return all bytes that other brokers sent to a broker."""
        return b"".join(map(encode, self.heard(running)))

    # ---- what a broker knows of what another one wants

    @property
    def key(self) -> bytes:
        """Return the key of the type's interests in routing tables."""
        return book_key_of_sealed(self.type_id)

    def entries(self, at: NetBroker, *, of: NetBroker) -> list[SealedEntry]:
        """Return the sealed entries that a broker has from another one."""
        found = at.parts.routes.book.entries(node_id_of_key(of.key.principal.key), self.key)
        return [entry for entry in found if isinstance(entry, SealedEntry)]

    def known(self, at: NetBroker, *, of: NetBroker) -> list[Predicate]:
        """Return what a broker matches by for another one."""
        return [entry.predicate for entry in self.entries(at, of=of)]

    def rows_for(
        self, at: NetBroker, *, of: NetBroker, frame: Frame, missing: Collection[AttributeUid] = ()
    ) -> list[int]:
        """Return the rows of a frame that a broker would send to another one."""
        targets = at.parts.routes.book.targets_of_frame(self.key, "nobody", frame, missing)
        return list(targets.get(node_id_of_key(of.key.principal.key), ()))


def the_three(
    level: SealingLevel = SealingLevel.ATTRIBUTE,
    *,
    met: Iterable[AttributeUid | None] = EVERY_KEY,
    **settings: Any,
) -> tuple[SealedNet, NetBroker, NetBroker, NetBroker]:
    """Start the cameras' broker, one without rights in the middle, and one that reads."""
    net = SealedNet(level, **settings)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    ccs, middle, last = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(last, *met)
    return net, ccs, middle, last


class BlindedNet(SealedNet):
    """A blinded type between the cameras' broker and the detectives', with one without keys in the middle."""

    BEFORE_S = 3600
    """How long before the beginning of a test its first epoch began."""

    def __init__(
        self,
        *,
        cover: Cover | None = None,
        met: tuple[Action, ...] = (READ,),
        middle: tuple[Action, ...] = (),
        **settings: Any,
    ) -> None:
        super().__init__(SealingLevel.EVENT, blinded=True, cover=cover, **settings)
        self.since: dict[int, Instant] = {1: Instant(self.now - self.BEFORE_S * 1_000_000)}
        self.entitle("CCS broker", READ, WRITE)
        self.entitle("Met broker", *met)
        if middle:
            self.entitle(self.name_near(self.id_of(1), "CCS broker", "Met broker"), *middle)
        self.ccs, self.middle, self.met = self.three(self.id_of(1))
        for running in (self.ccs, self.met, *([self.middle] if middle else [])):
            self.bring(running, 1)

    def bring(self, running: NetBroker, *epochs: int) -> KeyRing:
        """Let a broker hold the keys of these epochs; one begins when it is first brought to a broker."""
        held = self.ring_of(*epochs)
        self.use(running, held)
        return held

    def ring_of(self, *epochs: int) -> KeyRing:
        """Return a member's ring; it is the same for all members."""
        held = KeyRing(self.type_id)
        for epoch in epochs:
            held.learn(epoch, since=self.since.setdefault(epoch, self.now))
            held.hold(
                GroupId(self.type_id), epoch, Secret.from_bytes(key_of(f"/{epoch}", SEED).principal.key)
            )
        return held

    def id_of(self, epoch: int) -> bytes:
        """Return the blinded id of an epoch."""
        since = dict(self.since)
        found = blinded_ids(self.ring_of(epoch))[epoch]
        self.since = since
        return found

    def sealed_frames(self, *, to: NetBroker) -> list[Sealed]:
        """Return the sealed frames that reached a broker."""
        return [one for one in self.frames(to=to) if isinstance(one, Sealed)]


def camera_and_reader(net: Net, who: str = "CCS", **reader: Any) -> tuple[NetClient, NetClient]:
    """Let the camera advertise at the first broker, and a reader subscribe at the last."""
    camera, office = net.client(CAMERA), net.client(who, "Met broker")
    assert camera.was_accepted(camera.advertise(ref=1))
    assert office.was_accepted(office.subscribe(ref=1, **reader))
    return camera, office


def sighting(
    plate: str = "LC04 ABC", where: str = "Victoria", *, at: Instant = NOW
) -> dict[AttributeUid, Value]:
    """Return one event."""
    return {NUMBERPLATE: plate, TIMESTAMP: at, LOCATION: where}


def sightings(*rows: tuple[str, str]) -> Frame:
    """Return a frame of plates and places."""
    return frame_of([{NUMBERPLATE: plate, LOCATION: place} for plate, place in rows], NUMBERPLATE_KINDS)


def ids(certificates: Iterable[SignedCertificate]) -> frozenset[bytes]:
    return frozenset(one.id for one in certificates)
