"""What is a broker made of, and what is each part handed?

Each part owns its state, or works on what it is handed here, and on nothing else. This is the one place that
knows them all. A part names what it needs as the parameters of its class, and is handed the parts of these
names. They are made in the order in which they need each other, which has no circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Final, TypeVar

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.expected_sources import ExpectedSources
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.interests import Interests
from maia.broker.interests.mesh import MeshRouter
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.proofs import Proofs
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.rendezvous import RendezvousRouter
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes, new_routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.keys.blinded import BlindedIds, CoverSlots
from maia.broker.keys.keys import KeyRequests, SealingKeys
from maia.broker.keys.publisher_rights import PublisherRights
from maia.broker.links.authors import AttachedStatements
from maia.broker.links.links import Link, RepeatedNotes
from maia.broker.links.pending import Pending, Waits
from maia.broker.links.projection import Projections
from maia.broker.links.shares import Shares
from maia.broker.log.recording import Recording, new_recording
from maia.broker.log.retained import RetainedFrames
from maia.broker.own import Own, shown_to_every_peer
from maia.broker.persistence import Persistence
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.replay_journal import ReplayJournal
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Closing, Connections
from maia.broker.sessions.covering import Covering
from maia.broker.sessions.dispatch import Dispatch
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.handshake import BrokerSessions
from maia.broker.sessions.identities import PeerIdentities
from maia.broker.sessions.key_events import KeyEvents
from maia.broker.sessions.own_rights import OwnRights
from maia.broker.sessions.requests import Requests
from maia.broker.sessions.revocation import Revocation
from maia.broker.sessions.type_queries import TypeQueries
from maia.broker.settings import BrokerSettings, Routing
from maia.broker.status import Status
from maia.broker.streams.answers import AnswersGiven
from maia.broker.streams.borders import Borders
from maia.broker.streams.catch_up import CatchUp
from maia.broker.streams.disclosures import DeliveryRecords, DeliveryTally, Disclosures
from maia.broker.streams.durable import DurableSubscriptions
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.neighbour import Signers
from maia.broker.streams.paths import Paths
from maia.broker.streams.recorded_frames import RecordedFrames
from maia.broker.streams.sealing import SealAlone
from maia.broker.streams.state_query import Retention, StateAnswers
from maia.broker.streams.streams import Streams
from maia.broker.timers import TimerWheel
from maia.broker.upkeep import Maintenance
from maia.credentials import SigningKey, VerificationCache
from maia.sessions.admission import Places, RequestQuota
from maia.sessions.challenges import ChallengeDesk
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class Parts:
    """The parts of a broker that it asks itself, input by input."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    seals: SealingKeys
    writers: PublisherRights
    statements: ValidityTracker
    one_time: ChallengeDesk[Waits]
    links: dict[LinkId, Link]
    audiences: Audiences
    retained: RetainedFrames
    recording: Recording | None
    durable: DurableSubscriptions | None
    catch_up: CatchUp | None
    log_requests: LogRequests
    disclosures: Disclosures | None
    delivered: DeliveryTally
    router: Router
    impairments: Impairments
    syncs: RouteSyncs
    streams: Streams
    interests: Interests
    closing: Closing
    revocation: Revocation
    peer_identities: PeerIdentities
    key_events: KeyEvents
    persistence: Persistence
    own_rights: OwnRights
    maintenance: Maintenance
    dispatch: Dispatch
    sessions: BrokerSessions
    status: Status
    timers: TimerWheel
    counters: Counter[str]
    repeated: RepeatedNotes


_Part = TypeVar("_Part")
_ROUTERS: Final[Mapping[Routing, Callable[..., Router]]] = {
    Routing.RENDEZVOUS: RendezvousRouter,
    Routing.MESH: MeshRouter,
}
_BEFORE_ROUTER: Final[Mapping[str, Callable[..., object]]] = {
    "pending": Pending,
    "projections": Projections,
    "proofs": Proofs,
    "named_rights": NamedRights,
    "paths": Paths,
    "shares": Shares,
    "signers": Signers,
    "outbox": Outbox,
    "sources": ExpectedSources,
    "received": ReceivedInterests,
    "announcer": Announcer,
    "impairments": Impairments,
    "rekeying": Rekeying,
    "records": DeliveryRecords,
    "answers_given": AnswersGiven,
    "seal_alone": SealAlone,
}
_BEHIND_ROUTER: Final[Mapping[str, Callable[..., object]]] = {
    "syncs": RouteSyncs,
    "borders": Borders,
    "recorded_frames": RecordedFrames,
    "log_requests": LogRequests,
}
_OF_LOG: Final[Mapping[str, Callable[..., object]]] = {"durable": DurableSubscriptions, "catch_up": CatchUp}
_BEHIND_LOG: Final[Mapping[str, Callable[..., object]]] = {
    "interests": Interests,
    "retention": Retention,
    "entries": Entries,
    "state_answers": StateAnswers,
    "type_queries": TypeQueries,
    "closing": Closing,
    "connections": Connections,
    "revocation": Revocation,
    "client_requests": Requests,
    "peer_identities": PeerIdentities,
    "streams": Streams,
    "dispatch": Dispatch,
    "key_events": KeyEvents,
    "persistence": Persistence,
    "covering": Covering,
    "own_rights": OwnRights,
    "maintenance": Maintenance,
    "sessions": BrokerSessions,
    "status": Status,
}


def assemble(
    key: SigningKey,
    settings: BrokerSettings,
    *,
    random: Callable[[int], bytes],
    process_id: Callable[[], int],
    kept: Mapping[str, bytes],
) -> Parts:
    """Return the parts of a broker that has not started; `process_id` tells a fork from its parent."""
    limits, me = settings.limits, key.principal
    certificates = VerificationCache()
    statements = ValidityTracker(kept, issuers_max=limits.statement_issuers)
    authoriser = Authoriser(settings, certificates, statements)
    types = KnownTypes(settings, certificates, authoriser.meter)
    keys = KeyRequests(
        key, settings, types=types, random=random, kept=kept, cache=certificates, standing=statements.monitor
    )
    blinded = BlindedIds(keys.ring_of, types, random)
    seals = SealingKeys(key, random=random, process_id=process_id, limits=limits, ring_of=blinded.ring_of)
    own = Own(key, settings, random, random(16), shown_to_every_peer(settings.credentials))
    ledger = settings.ledger
    parts: dict[str, object] = {
        "own": own,
        "certificates": certificates,
        "statements": statements,
        "authoriser": authoriser,
        "types": types,
        "keys": keys,
        "blinded": blinded,
        "seals": seals,
        "writers": PublisherRights(authoriser),
        "sealed": SealedInterests(ring_of=blinded.ring_of),
        "cover": CoverSlots(limits.frames_waiting_per_type, limits.bytes_waiting_per_type),
        "links": dict[LinkId, Link](),
        "waiting": Places[LinkId](limits.links_before_welcome),
        "identities": LinkIdentities(),
        "attached": AttachedStatements(settings.identity),
        "one_time": ChallengeDesk[Waits](limits, lease_s=settings.lease_s, random=random),
        "quota": RequestQuota(limits.requests_per_minute),
        "broker_quota": RequestQuota(limits.work_per_minute_and_broker),
        "replays": ReplayJournal(limits),
        "routes": new_routes(me, settings),
        "audiences": Audiences(settings.transformation_keys, seals, groups_max=limits.summary_groups),
        "retained": RetainedFrames(),
        "recording": new_recording(me, settings, types),
        "durable": None,
        "catch_up": None,
        "disclosures": None if ledger is None else Disclosures(me, own.instance, ledger.of_all_types),
        "delivered": DeliveryTally(),
        "timers": TimerWheel(),
        "counters": Counter[str](),
        "repeated": RepeatedNotes(),
    }

    def make(kind: Callable[..., _Part]) -> _Part:
        asked = signature(kind).parameters.items()  # those with a default are its own state
        return kind(**{name: parts[name] for name, one in asked if one.default is one.empty})

    of_log = {} if parts["recording"] is None else _OF_LOG
    router = {"router": _ROUTERS[settings.routing]}
    for name, kind in {**_BEFORE_ROUTER, **router, **_BEHIND_ROUTER, **of_log, **_BEHIND_LOG}.items():
        parts[name] = make(kind)
    return make(Parts)
