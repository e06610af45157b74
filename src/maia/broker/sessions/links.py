"""Who is at the other end of each link, and what stands there on whose rights?

Everything that a client was granted hangs on its link: a reference means
nothing on any other link, so knowing somebody's reference is worth nothing
(A13, A69), and a closed link takes everything with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from maia.broker.durable.cursors import Cursor
from maia.broker.publication.publisher_view import Shaper
from maia.broker.refusals import RefTaken, TooManyEntries, UnknownRef
from maia.broker.settings import BrokerLimits
from maia.credentials import (
    Action,
    Principal,
    ResourceName,
    SignedCertificate,
    Validity,
)
from maia.credentials.validity.one_time_answers import VouchedFor
from maia.events import AttributeUid, Instant, PresentValue
from maia.policy import Reason, Request, View
from maia.predicates import Predicate
from maia.types import VerifiedType
from maia.wire.effects import LinkId
from maia.wire.kept_requests import RequestFrame
from maia.wire.messages import SealedRights

__all__ = [
    "NOTHING_KNOWN",
    "Advertisement",
    "Entry",
    "Grounds",
    "Known",
    "Link",
    "Projection",
    "Right",
    "Role",
    "Share",
    "Stage",
    "Subscription",
]


class Stage(Enum):
    """How far the handshake of a link has come."""

    AWAITING_GREETING = "awaiting greeting"
    AWAITING_HELLO = "awaiting hello"
    AWAITING_WELCOME = "awaiting welcome"
    READY = "ready"
    CLOSING = "closing"


class Role(Enum):
    """What the peer is to this broker; nothing before the handshake ends."""

    UNKNOWN = "unknown"
    CLIENT = "client"
    BROKER = "broker"


_CLIENT_ADDRESS: Final = AttributeUid("client-address")


@dataclass(frozen=True, slots=True)
class Known:
    """What a broker knows of a connection by itself."""

    address: str | None = None
    """Where the peer has dialled from, without the port."""

    @property
    def facts(self) -> dict[AttributeUid, PresentValue]:
        """Return it as conditions ask for it."""
        return {} if self.address is None else {_CLIENT_ADDRESS: self.address}


NOTHING_KNOWN: Final = Known()


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a right rests on: all of it but the filter, so a client's rights to one type share it."""

    principal: Principal
    action: Action
    resource: ResourceName
    asked_type: VerifiedType | None
    pool: tuple[SignedCertificate, ...] = field(repr=False)
    """All that was shown, to decide again from."""
    used: tuple[SignedCertificate, ...] = field(repr=False)
    """The certificates of the chains that were found, to show to other brokers."""
    stable: Validity
    epoch: int
    watched: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The ids of the certificates that it is decided again with: see `revocation/dependencies.py`."""
    known: Known = field(default=NOTHING_KNOWN, repr=False)
    """What is known of its holder's connection, for conditions that ask for it."""
    is_rated: bool = False
    """Whether a condition asks how much its holder publishes, so that each frame is asked about."""
    vouched: VouchedFor | None = field(default=None, repr=False)
    """The one-time answers that it rests on, if it does."""
    limit: Reason | None = None
    """That not all of its holder's grants were counted, if that is so."""


@dataclass(frozen=True, slots=True)
class Right:
    """What the kernel permitted, to be asked again when `stable` ends or evidence changes."""

    grounds: Grounds
    filter: Predicate = field(repr=False)
    # Kept out of repr: a View holds restrictions that its holder may not read.
    view: View = field(repr=False)

    @property
    def principal(self) -> Principal:
        """Return who holds it."""
        return self.grounds.principal

    @property
    def action(self) -> Action:
        """Return what its holder may do."""
        return self.grounds.action

    @property
    def resource(self) -> ResourceName:
        """Return with what its holder may do it."""
        return self.grounds.resource

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return all that was shown, to decide again from."""
        return self.grounds.pool

    @property
    def used(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates of the chains that were found, to show to other brokers."""
        return self.grounds.used

    @property
    def stable(self) -> Validity:
        """Return the period in which the answer stays the same, unless evidence changes."""
        return self.grounds.stable

    @property
    def watched(self) -> frozenset[bytes]:
        """Return the ids of the certificates that it is decided again with."""
        return self.grounds.watched

    @property
    def known(self) -> Known:
        """Return what is known of its holder's connection."""
        return self.grounds.known

    @property
    def is_rated(self) -> bool:
        """Say whether a condition asks how much its holder publishes, so that each frame is asked about."""
        return self.grounds.is_rated

    @property
    def vouched(self) -> VouchedFor | None:
        """Return the one-time answers that it rests on, if it does."""
        return self.grounds.vouched

    @property
    def event_type(self) -> VerifiedType:
        """Return the version that the holder speaks; only publishers and subscribers have one."""
        asked_type = self.grounds.asked_type
        assert asked_type is not None  # noqa: S101 - a request for events names its type
        return asked_type

    @property
    def request(self) -> Request:
        """Return what was asked of the kernel, made anew: to keep it would double the right."""
        grounds = self.grounds
        return Request(grounds.principal, grounds.action, grounds.resource, grounds.asked_type, self.filter)


@dataclass(frozen=True, slots=True)
class Projection:
    """A super-type that events of a sub-type are also published as (docs/decisions/inheritance.md)."""

    super_type: VerifiedType
    stream: bytes
    """The stream of its frames: a subscriber to both types cannot be given one for the other."""
    consents: tuple[Right, ...] = field(repr=False)
    """The rights to `extend`, of each type on the way whose signer does not own the next."""

    @property
    def type_id(self) -> bytes:
        """Return by what the super-type is routed."""
        return self.super_type.type_id


@dataclass(slots=True)
class Advertisement:
    """What a publisher may write under one reference, and how far its stream has come."""

    ref: int
    link: LinkId
    right: Right
    shaper: Shaper
    stream: bytes
    lease_ends: Instant
    proof: bytes = field(repr=False)
    last_sequence: int | None = None
    projections: tuple[Projection, ...] = ()
    """The super-types that its events are also published as, the nearest first."""

    @property
    def type_ids(self) -> tuple[bytes, ...]:
        """Return the types that it publishes: its own, and those that it is a sub-type of."""
        return (self.right.event_type.type_id, *(one.type_id for one in self.projections))


@dataclass(slots=True)
class Subscription:
    """What a subscriber sees under one reference; `view_class` is shared with everybody who sees the same."""

    ref: int
    link: LinkId
    right: Right
    view_class: bytes
    lease_ends: Instant
    frame: RequestFrame = field(repr=False)
    """What the signed request shares with others, and beside it what it has of its own."""
    own: bytes = field(repr=False)
    cursor: Cursor | None = None
    """How far it has come, if it is durable: it is served from the event log."""

    @property
    def proof(self) -> bytes:
        """Return the signed request."""
        return self.frame.whole(self.own)


Entry = Advertisement | Subscription


@dataclass(frozen=True, slots=True)
class Share:
    """The uids that a neighbour may read, as sealed columns name them, and for how long that is so."""

    uids: frozenset[str]
    since: Instant
    until: Instant
    evidence: int
    versions: int

    def holds(self, now: Instant, evidence: int, versions: int) -> bool:
        """Say whether the answer was worked out for this moment, from what is known today."""
        return self.since <= now <= self.until and self.evidence == evidence and self.versions == versions


@dataclass(slots=True)
class Link:
    """One connection, from the first byte on."""

    id: LinkId
    peer: Principal
    dialled: str | None
    stage: Stage
    opened_at: Instant
    heard_at: Instant
    role: Role = Role.UNKNOWN
    instance: bytes = b""
    address: str | None = None
    shown: tuple[bytes, ...] = field(default=(), repr=False)
    """The credentials that the peer showed in the handshake."""
    said: int = 0
    """How many bytes the peer has said before its welcome."""
    statements: list[bytes] = field(default_factory=list, repr=False)
    """What the peer has shown of statements before it showed certificates that they are about."""
    connect: Right | None = None
    known: Known = NOTHING_KNOWN
    """What conditions may ask about the connection."""
    look_at: Instant | None = None
    silent_rounds: int = 0
    """How often all links were looked at since something was heard on this one."""
    advertisements: dict[int, Advertisement] = field(default_factory=dict)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    warned: dict[int, str] = field(default_factory=dict)
    """Of what stands, why it cannot be served, as its holder was told last; see `access/impairment.py`."""
    looks: set[Instant] = field(default_factory=set)
    """The moments at which its entries will be looked at."""
    lease_ends: Instant | None = None
    """When the lease that was granted last ends, for others to share."""
    sealed_rights: dict[bytes, SealedRights] = field(default_factory=dict, repr=False)
    """What the peer showed of its rights to sealed types, by type, while there is no key to open it."""
    shares: dict[bytes, Share] = field(default_factory=dict)
    """What of each sealed type the peer may read, by what it has shown."""
    rights: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    """The certificates that a broker showed for each sealed type, sealed for its members."""
    reliance_max: int = 4096
    """From how many certificates on it is looked at what still rests on them."""
    rights_bytes: int = 0
    """How many bytes `sealed_rights` and `rights` take, about."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all that stands on this link."""
        return (*self.subscriptions.values(), *self.advertisements.values())

    @property
    def is_ready(self) -> bool:
        """Say whether both sides have proved their right to connect."""
        return self.stage is Stage.READY

    def advertisement(self, ref: int) -> Advertisement:
        """Return what is advertised under `ref` on this link."""
        entry = self.advertisements.get(ref)
        if entry is None:
            raise UnknownRef(f"nothing is advertised under `{ref}` on this link")
        return entry

    def subscription(self, ref: int) -> Subscription:
        """Return what is subscribed to under `ref` on this link."""
        entry = self.subscriptions.get(ref)
        if entry is None:
            raise UnknownRef(f"nothing is subscribed to under `{ref}` on this link")
        return entry

    def check_room_to_advertise(self, ref: int, limits: BrokerLimits) -> None:
        """Refuse a reference in other use, and one advertisement more than a client may have."""
        _check_room(ref, self.advertisements, self.subscriptions, limits.advertisements_per_client)

    def check_room_to_subscribe(self, ref: int, limits: BrokerLimits) -> None:
        """Refuse a reference in other use, and one subscription more than a client may have."""
        _check_room(ref, self.subscriptions, self.advertisements, limits.subscriptions_per_client)


def _check_room(ref: int, wanted: Mapping[int, Entry], other: Mapping[int, Entry], most: int) -> None:
    if ref in other:
        raise RefTaken(f"`{ref}` stands for something else on this link")
    if ref not in wanted and len(wanted) >= most:
        raise TooManyEntries(f"a client has at most {most} of these at one time")
