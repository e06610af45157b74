"""Who may say what once a link is ready, and who answers?

A client asks and publishes; a broker carries and tells. Whoever says what is
the other's to say loses the link (A68). A request that fails is answered, and
the link lives on.

What a peer makes this broker keep has an account in bytes for each link, beside all
limits on numbers (A89):

- before its welcome a peer has proved nothing: what it sends, all messages
  together, is as much as a handshake takes and no more (`maia.sessions`);
- a neighbouring broker tells what others want and offer, and most of it
  cannot be verified here. What is kept on its behalf counts together:
  interests, offers, replicas, rights that no key opens yet, and what has to be
  remembered of what was refused. It is free again when it is taken back.

A peer beyond its share is parted from, and all that it left goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.entries import Received
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Neighbour, Routes
from maia.broker.links.links import Link, Role, read_later
from maia.broker.links.pending import Pending
from maia.broker.own import Own
from maia.broker.refusals import refusal_id
from maia.broker.rights.authoriser import Authoriser, forget_frames
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.entries import Entries, price_of_renewal
from maia.broker.sessions.identities import (
    PeerIdentities,
    price_of_showing,
)
from maia.broker.sessions.requests import Requests
from maia.broker.sessions.revocation import Revocation
from maia.broker.sessions.type_queries import TypeQueries
from maia.broker.streams.log_requests import LogRequests
from maia.broker.streams.paths import Paths
from maia.broker.streams.state_query import Retention, StateAnswers
from maia.broker.streams.streams import Streams
from maia.broker.turn import Turn
from maia.credentials import Action, SignedCertificate, certificate_to_bytes
from maia.credentials.chains.reduction import BYTES_PER_STEP
from maia.credentials.names import type_id
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Unavailable
from maia.sessions.admission import RequestQuota
from maia.wire.messages import (
    Accepted,
    Advertise,
    AskRight,
    AskState,
    Carried,
    CarriedSigned,
    CarriedWithAuthor,
    Ended,
    Failed,
    FetchLog,
    Identify,
    Interest,
    LogAnswered,
    LogFetched,
    Message,
    Offer,
    Path,
    Publish,
    Released,
    RenewAll,
    Replica,
    RightShown,
    RoutesSynced,
    Sealed,
    SealedDoubted,
    SealedRights,
    SealedWithAuthor,
    SealedWithPlaintext,
    Seen,
    Show,
    ShownRight,
    SpillReport,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    Subscribe,
    SubscribePart,
    SyncRoutes,
    TypeQuery,
    TypeReply,
    VersionsQuery,
    Vouched,
    Withdraw,
)
from maia.wire.names import type_from_bytes
from maia.wire.requests import request_from_bytes

KEPT: Final = frozenset({Interest, Offer, Replica, SealedRights})
"""What neighbours say that is kept."""

_CHANGE: Final = 384
"""What it takes to remember that an entry was refused, or narrowed."""
_REFUSED: Final = 128
"""What it takes to remember that a certificate was no proof, beside the certificate."""
_RELIED_ON: Final = 256
"""What it takes to remember that something rests on a certificate."""


# Any: the tables pair each class of message with a function of exactly that class.
Answer: TypeAlias = Callable[[Link, Any, Turn], None]
_CARRIED: Final = (
    Carried, CarriedWithAuthor, CarriedSigned, Released, Sealed, SealedWithAuthor, SealedWithPlaintext,
)  # fmt: skip


@dataclass(slots=True, eq=False, repr=False)
class Dispatch:
    """Who answers which message, at one broker."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    quota: RequestQuota
    broker_quota: RequestQuota
    routes: Routes
    statements: ValidityTracker
    router: Router
    streams: Streams
    named_rights: NamedRights
    log_requests: LogRequests
    syncs: RouteSyncs
    received: ReceivedInterests
    announcer: Announcer
    rekeying: Rekeying
    retention: Retention
    entries: Entries
    state_answers: StateAnswers
    revocation: Revocation
    client_requests: Requests
    pending: Pending
    peer_identities: PeerIdentities
    type_queries: TypeQueries
    paths: Paths
    _of_anybody: Mapping[type, Answer] = field(init=False)
    _of_clients: Mapping[type, Answer] = field(init=False)
    _of_brokers: Mapping[type, Answer] = field(init=False)

    def __post_init__(self) -> None:
        """Answer with the parts of a broker."""
        self._of_anybody = {TypeQuery: self._send_type, VersionsQuery: self._send_type}
        self._of_clients = {
            Advertise: self.client_requests.request,
            Subscribe: self.client_requests.request,
            SubscribePart: self.client_requests.request,
            Seen: self.client_requests.receive_seen,
            Withdraw: self.client_requests.withdraw,
            RenewAll: self.entries.renew_all,
            AskRight: self._show_right,
            Show: self.peer_identities.show,
            Identify: self.peer_identities.receive_identity,
            Vouched: self.pending.hear,
            AskState: self.state_answers.ask_state,
            Publish: self.streams.publish,
        }
        self._of_brokers = {
            **self.router.handlers,
            **dict.fromkeys(_CARRIED, self.streams.carry),
            ShownRight: self.named_rights.receive,
            Path: self.paths.receive,
            SealedRights: self.rekeying.receive_rights,
            SealedDoubted: self.received.receive_doubted,
            SpillReport: self.announcer.receive_spill_report,
            SyncRoutes: self.syncs.receive,
            RoutesSynced: self.syncs.receive_end,
            FetchLog: self.log_requests.receive,
            LogFetched: self.log_requests.receive_fetched,
            LogAnswered: self.log_requests.receive_answered,
            StateQuery: self.state_answers.receive_state_query,
            StateFrame: self.revocation.receive_state_frame,
            StateDone: self.state_answers.receive_state_done,
            StateGone: self.retention.receive_state_gone,
            TypeReply: self.type_queries.receive_reply,
            Identify: self.peer_identities.receive_identity_of_broker,
            Accepted: self.peer_identities.receive_identity_answer,
            Failed: self.peer_identities.receive_identity_answer,
        }

    def answer(self, link: Link, message: Message, turn: Turn, data: bytes = b"") -> None:
        """Do what a message on a ready link asks for, if its sender may ask for it; `data` is how it came."""
        kind = type(message)
        if link.role is Role.CLIENT and kind in self._of_clients:
            self._from_client(link, message, turn)
        elif kind in self._of_anybody:
            self._of_anybody[kind](link, message, turn)
        elif link.role is Role.BROKER and kind in self._of_brokers:
            self._from_broker(link, message, turn, data)
        elif kind in self._of_clients:
            raise ProtocolViolation("PROTOCOL-CLIENTS-ONLY", f"`{kind.__name__}` is for clients to say")
        elif kind in self._of_brokers:
            raise ProtocolViolation("PROTOCOL-BROKERS-ONLY", f"`{kind.__name__}` is for brokers to say")
        else:
            raise ProtocolViolation(
                "PROTOCOL-OUT-OF-TURN",
                f"`{kind.__name__}` is not for a ready link, or of brokers that route in another way",
            )

    def _from_broker(self, link: Link, message: Message, turn: Turn, data: bytes) -> None:
        """Hear what another broker says; one that causes more work than its share is read later (A87)."""
        if not self.routes.is_current(link.id):
            return  # a second link to the same broker may still carry what was said before it had to go
        kind, size = type(message), len(data)
        if isinstance(message, Carried | Sealed | SealedWithPlaintext):
            if self.router.flooding is not None:
                self.router.flooding.arriving(link, message)
            self.streams.carry(link, message, turn, data=(data,) if data else ())
            return
        if kind in KEPT:
            self._check_share(link, size)
        before = self.authoriser.meter.used
        if kind in _FRAMES:
            self._of_brokers[kind](link, message, turn)
            return
        try:
            self._of_brokers[kind](link, message, turn)
        finally:  # who is cut off for it has caused it all the same, and may come back
            work = 1 + size // BYTES_PER_STEP + self.authoriser.meter.used - before
            self.broker_quota.owe(link.peer, turn.now, work)
        read_later(self.broker_quota, link, self.own.settings.lease_s, turn)

    def _from_client(self, link: Link, message: Message, turn: Turn) -> None:
        """Answer a client; what is wrong with one request is said in the answer to it."""
        before = self.authoriser.meter.used
        try:
            if type(message) not in _FREE:
                self.quota.spend(link.peer, turn.now, requests=_price(link, message))
            if link.statements:
                self._receive_held_before(link, message, turn)
            self._of_clients[type(message)](link, message, turn)
        except ProtocolViolation:
            raise
        except MaiaError as problem:
            # What was said so far stays: it follows from what has changed, whatever becomes of the request.
            forget_frames(problem)
            asked = {"asked": type(message).__name__, **_type_asked_for(link, message)}
            self._refuse(link, message, problem, asked, turn)
            turn.refused(problem, link.peer, link=link.id, **asked)
        finally:
            work = self.authoriser.meter.used - before - _WORK_OF_A_REQUEST
            if work > 0:
                self.quota.owe(link.peer, turn.now, work // _WORK_FOR_A_REQUEST)

    def _receive_held_before(self, link: Link, message: Message, turn: Turn) -> None:
        """Take in the statements that were shown about the certificates of a request."""
        if not isinstance(message, Advertise | Subscribe):
            return
        asked = request_from_bytes(message.request).request
        pool = self.authoriser.pool(message.credentials, link.shown)
        self.authoriser.expect(link.peer, asked.action, asked.event_type, pool, turn.now)
        self.revocation.receive_held(link, turn)

    def _refuse(
        self,
        link: Link,
        message: Message,
        problem: MaiaError,
        asked: Mapping[str, str],
        turn: Turn,
    ) -> None:
        match message:
            case Publish(ref=ref) if ref in link.advertisements:
                self.entries.end_advertisement(link, link.advertisements[ref], turn, problem)
            case Publish(ref=ref):
                turn.send(link.id, Ended([ref], problem.code, problem.message))
            case (
                Advertise()
                | Subscribe()
                | Withdraw()
                | RenewAll()
                | AskRight()
                | Show()
                | AskState()
                | Identify()
            ):
                said = problem.message
                if not isinstance(problem, Unavailable):
                    number = refusal_id({"code": problem.code, "principal": str(link.peer), **asked})
                    said = f"{said} (refusal {number})"
                turn.send(link.id, Failed(message.id, problem.code, said))
            case _:
                raise problem

    def _show_right(self, link: Link, message: AskRight, turn: Turn) -> None:
        """Show a client the certificates by which this broker itself may do what it is to do for it (C16)."""
        shown: tuple[SignedCertificate, ...] = ()
        with suppress(BrokenCredential):  # without a chain there is nothing to show
            name = type_from_bytes(message.name)
            shown = self.received.proofs.own_right(Action(message.action), name, turn.now)
        turn.send(link.id, RightShown(message.id, [certificate_to_bytes(signed) for signed in shown]))

    def _send_type(self, link: Link, message: TypeQuery, turn: Turn) -> None:
        """Answer a question about a type, unless another process of this broker serves it."""
        name = type_from_bytes(message.name)
        is_known = type(message) is TypeQuery and self.types.named(name)
        if (
            is_known
            or link.role is not Role.CLIENT
            or not self.client_requests.sent_elsewhere(link, message.id, name, turn)
        ):
            self.type_queries.receive(link, message, turn)

    def _check_share(self, link: Link, size: int) -> None:
        """Part from a peer that would have more than its share with a message of this size that is kept."""
        if self._kept_for(link) + size > self.own.settings.limits.bytes_per_peer:
            raise ProtocolViolation(
                "PROTOCOL-BEYOND-SHARE", "this broker keeps as many bytes on your behalf as it may"
            )

    def _kept_for(self, link: Link) -> int:
        routes = self.routes
        node = routes.node_of.get(link.id)
        if node is None:
            return 0  # a second link to the same broker, on which nothing is heard
        neighbour = routes.neighbours[node]
        refused = _CHANGE * len(neighbour.changed) + _REFUSED * len(neighbour.refused_on)
        told = routes.book.link(node).bytes + routes.store.bytes_from(node)
        relied_on = _RELIED_ON * self._relied_on(link, neighbour)
        return told + refused + neighbour.refused_bytes + link.rights_bytes + relied_on

    def _relied_on(self, link: Link, neighbour: Neighbour) -> int:
        """Return on how many certificates something of a neighbour rests; unused ones are forgotten."""
        dependencies, book = self.statements.dependencies, self.routes.book
        if len(dependencies.certificates_on(link.id)) > link.reliance_max:
            needed = {*neighbour.refused_on, *(link.connect.watched if link.connect else ())}
            for key in book.types():
                told = [entry.baggage for entry in book.entries(neighbour.node, key)]
                for baggage in (*told, book.offer(neighbour.node, key)):
                    if isinstance(baggage, Received):
                        needed |= baggage.watched
            dependencies.keep_only(link.id, needed)
            link.reliance_max = 4096 + 2 * len(dependencies.certificates_on(link.id))
        return len(dependencies.certificates_on(link.id))


def _price(link: Link, message: Message) -> int:
    match message:
        case RenewAll():
            return price_of_renewal(link)
        case Show():
            return price_of_showing(link, message)
        case _:
            return 1


def _type_asked_for(link: Link, message: Message) -> dict[str, str]:
    """Return of which type a refused request is, for those who look the refusal up."""
    match message:
        case Publish(ref=ref) if ref in link.advertisements:
            return {"type": link.advertisements[ref].right.event_type.type_id.hex()}
        case Advertise(request=request) | Subscribe(request=request):
            with suppress(MaiaError):
                name = request_from_bytes(request).request.event_type
                return {"type": type_id(name.owner, name.name).hex()}
    return {}


_WORK_OF_A_REQUEST: Final = 1024
"""Steps that a request may cost when its certificates are met for the first time: its own price pays them."""
_WORK_FOR_A_REQUEST: Final = 256
"""So many steps more count for another request; the client's quota pays for them so (A87)."""

_FREE: Final = frozenset({Publish, Seen, Vouched})
"""What a client may say as often as it likes."""

_FRAMES: Final = frozenset({StateFrame, LogFetched})
"""What publishers said: brokers carry it as fast as it comes."""
