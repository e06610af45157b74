"""What does a broker know at this moment?

One object holds it, so that the paths through the broker are functions from a
message and this state to effects. Nothing here is shared with another broker,
a clock or a socket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from maia.broker.access.authoriser import Authoriser
from maia.broker.access.known_types import KnownTypes
from maia.broker.access.replay_journal import ReplayJournal
from maia.broker.durable.recording import Recording
from maia.broker.publication.authors import AttachedStatements
from maia.broker.publication.disclosures import Disclosures
from maia.broker.publication.retained import Question, RetainedFrames
from maia.broker.publication.tally import DeliveryTally
from maia.broker.revocation.validity import ValidityTracker
from maia.broker.routing.router import Router
from maia.broker.routing.routes import Routes, new_routes
from maia.broker.sealed.blinded import BlindedIds, CoverSlots
from maia.broker.sealed.entries import SealedInterests
from maia.broker.sealed.keys import KeyRequests, SealingKeys
from maia.broker.sealed.publisher_rights import PublisherRights
from maia.broker.sessions.links import Held, Link, RepeatedNotes
from maia.broker.settings import BrokerSettings
from maia.broker.subscriptions.identity_classes import LinkIdentities
from maia.broker.subscriptions.local_subscribers import LocalSubscribers
from maia.broker.timers import TimerWheel
from maia.credentials import (
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    VerificationCache,
    certificate_to_bytes,
)
from maia.events import INSTANT_MIN, Instant, just_after, seconds_after
from maia.sessions.admission import Places, RequestQuota
from maia.sessions.challenges import ChallengeDesk
from maia.views.open_periods import GroupRoom
from maia.wire.effects import LinkId
from maia.wire.names import network_to_bytes

if TYPE_CHECKING:
    from maia.broker.access.impairment import Impairments
    from maia.broker.durable.catch_up import CatchUp
    from maia.broker.durable.delivery import DurableSubscriptions
    from maia.broker.durable.log_requests import LogRequests
    from maia.broker.durable.recorded_frames import RecordedFrames
    from maia.broker.sessions.dispatch import Dispatch
    from maia.broker.streams.streams import Streams
    from maia.broker.subscriptions.route_sync import RouteSyncs

__all__ = [
    "BrokerState",
    "just_after",
    "new_state",
    "seconds_after",
    "shown_to_every_peer",
]

_LONG_AGO: Final = Instant(INSTANT_MIN)


@dataclass(slots=True)
class BrokerState:
    """Everything that changes while a broker runs."""

    key: SigningKey = field(repr=False)
    settings: BrokerSettings
    random: Callable[[int], bytes]
    instance: bytes
    network: bytes
    own_credentials: list[bytes] = field(repr=False)
    """What is shown in the handshake: the right to connect. Rights to types: `sealed/rekeying.py`."""
    certificates: VerificationCache
    authoriser: Authoriser
    types: KnownTypes
    requests: ReplayJournal
    quota: RequestQuota
    broker_quota: RequestQuota
    """Of the work that other brokers cause, in steps."""
    routes: Routes
    keys: KeyRequests
    blinded: BlindedIds
    """Which type is behind the id of a message."""
    cover: CoverSlots
    seals: SealingKeys
    writers: PublisherRights
    statements: ValidityTracker
    """Validity statements, and which links depend on which certificate."""
    one_time: ChallengeDesk[Held]
    """What waits for one-time answers."""
    waiting: Places[LinkId]
    """Links that others have dialled, and whose right to connect is not known yet."""
    router: Router = field(init=False, repr=False)
    """How interests spread and where frames go; the broker sets it before anything happens."""
    streams: Streams = field(init=False, repr=False)
    """What frames go through; set beside the router."""
    dispatch: Dispatch = field(init=False, repr=False)
    """Who answers which message; set behind them."""
    links: dict[LinkId, Link] = field(default_factory=dict)
    identities: LinkIdentities = field(default_factory=LinkIdentities)
    """What the identity statements of links say, for requirements of publishers."""
    audiences: dict[bytes, LocalSubscribers] = field(default_factory=dict)
    """The local subscribers of each type, by type id."""
    sealed: SealedInterests = field(default_factory=SealedInterests)
    recording: Recording | None = None
    """The event log, if this broker keeps one."""
    durable: DurableSubscriptions | None = field(default=None, repr=False)
    """The durable subscriptions, which are served from it."""
    catch_up: CatchUp | None = field(default=None, repr=False)
    """How it is compared with the logs of other brokers."""
    log_requests: LogRequests = field(init=False, repr=False)
    """What brokers ask each other for that one of them has missed."""
    recorded_frames: RecordedFrames = field(init=False, repr=False)
    """The reader of frames that were recorded, or kept as the present state."""
    disclosures: Disclosures | None = None
    """What was written to the ledger of deliveries, if this broker keeps one."""
    retained: RetainedFrames = field(default_factory=RetainedFrames)
    """The last frames of publishers, for subscribers that ask for the present state."""
    questions: dict[bytes, Question] = field(default_factory=dict)
    """State queries that were not answered by all neighbours yet, by their numbers."""
    syncs: RouteSyncs = field(init=False, repr=False)
    """Clients that are answered when other brokers know what they ask for."""
    own_identity: bytes = field(default=b"", repr=False)
    """The short form of this broker's own identity statement, if it has one."""
    attached: AttachedStatements = field(default_factory=lambda: AttachedStatements(None))
    """The identity statements of publishers that came with their frames."""
    impairments: Impairments = field(init=False, repr=False)
    """What cannot be served at this moment; set behind the log."""
    summary_room: GroupRoom = field(default_factory=GroupRoom)
    """How much summaries may remember together."""
    timers: TimerWheel = field(default_factory=TimerWheel)
    counters: Counter[str] = field(default_factory=Counter)
    delivered: DeliveryTally = field(default_factory=DeliveryTally)
    repeated: RepeatedNotes = field(default_factory=RepeatedNotes)
    """What the log does not say again and again."""
    forgives_until: Instant = _LONG_AGO
    """Up to when no lease ends because this broker was too late to read its renewal."""
    keep_at: Instant | None = None
    publications_kept: bytes = b""
    certificates_kept: set[bytes] = field(default_factory=set)
    is_draining: bool = False

    @property
    def principal(self) -> Principal:
        """Return who this broker is."""
        return self.key.principal

    def audience(self, type_id: bytes) -> LocalSubscribers:
        """Return the local subscribers of a type, none at first."""
        known = self.audiences.get(type_id)
        if known is None:
            known = LocalSubscribers(self.settings.transformation_keys, self.summary_room)
            self.audiences[type_id] = known
            if (ring := self.seals.ring_of(type_id)) is not None:
                known.follow_answers(ring.answers, ring.readable)
        return known


def new_state(
    key: SigningKey,
    settings: BrokerSettings,
    *,
    random: Callable[[int], bytes],
    process_id: Callable[[], int],
    kept: Mapping[str, bytes],
) -> BrokerState:
    """Return the state of a broker that has not started; `process_id` tells a fork from its parent."""
    certificates = VerificationCache()
    statements = ValidityTracker(kept, issuers_max=settings.limits.statement_issuers)
    authoriser = Authoriser(settings, certificates, statements)
    types = KnownTypes(settings, certificates, authoriser.meter)
    keys = KeyRequests(
        key, settings, types=types, random=random, kept=kept, cache=certificates, standing=statements.monitor
    )
    blinded = BlindedIds(keys.ring_of, types, random)
    seals = SealingKeys(
        key, random=random, process_id=process_id, limits=settings.limits, ring_of=blinded.ring_of
    )
    instance, ledger = random(16), None
    if settings.ledger is not None:
        ledger = Disclosures(key.principal, instance, settings.ledger.of_all_types)
    return BrokerState(
        key=key,
        settings=settings,
        random=random,
        instance=instance,
        disclosures=ledger,
        network=network_to_bytes(settings.network),
        own_credentials=shown_to_every_peer(settings.credentials),
        certificates=certificates,
        authoriser=authoriser,
        types=types,
        requests=ReplayJournal(settings.limits),
        quota=RequestQuota(settings.limits.requests_per_minute),
        broker_quota=RequestQuota(settings.limits.work_per_minute_and_broker),
        routes=new_routes(key.principal, settings),
        keys=keys,
        blinded=blinded,
        cover=CoverSlots(settings.limits.frames_waiting_per_type, settings.limits.bytes_waiting_per_type),
        seals=seals,
        writers=PublisherRights(authoriser),
        statements=statements,
        one_time=ChallengeDesk(settings.limits, lease_s=settings.lease_s, random=random),
        waiting=Places(settings.limits.links_before_welcome),
        sealed=SealedInterests(ring_of=blinded.ring_of),
        attached=AttachedStatements(settings.identity),
        summary_room=GroupRoom(settings.limits.summary_groups),
    )


def shown_to_every_peer(certificates: Iterable[SignedCertificate]) -> list[bytes]:
    """Return what this broker shows to every peer, as bytes."""
    # Certificates for types do not help to connect, and say more than every peer may know.
    return [
        certificate_to_bytes(one)
        for one in certificates
        if not isinstance(one.certificate, AuthorisationCertificate)
        or not isinstance(one.certificate.authority.resources, TypePattern)
    ]
