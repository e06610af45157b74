"""Who may connect to this broker, and what follows when a link is ready?

The handshake itself is the protocol of all nodes (`maia.sessions.session`).
A broker shows its right to connect to every peer, admits the peers that have
one, and makes those with an address its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.peers import superseded
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.links.links import (
    Link,
    Role,
    Stage,
    ask_to_look_at_link,
    begin_rounds,
    next_look_at_right_to_connect,
    read_later,
)
from maia.broker.links.pending import CONNECTING, Pending, Waits
from maia.broker.own import Own
from maia.broker.refusals import BrokerNoMore
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Closing
from maia.broker.sessions.identities import (
    DemandNotMet,
    PeerIdentities,
    session_limits,
)
from maia.broker.sessions.revocation import Revocation
from maia.broker.streams.catch_up import CatchUp
from maia.broker.timers import TimerWheel
from maia.broker.turn import Turn
from maia.credentials import Action
from maia.credentials.brokers import made_by
from maia.credentials.encoding.certificates import pack
from maia.errors import ProtocolViolation, Unavailable
from maia.events import Instant, seconds_after
from maia.policy import GrantStale, Request
from maia.sessions.admission import Places, RequestQuota
from maia.sessions.challenges import Checked
from maia.sessions.session import Endpoint, statements_for
from maia.validity import VouchedFor
from maia.wire.effects import Effect, LinkId, LinkOpened
from maia.wire.messages import Hello, Identify, Vouched


@dataclass(eq=False, repr=False)
class BrokerSessions(Endpoint[Link]):
    """One broker, as clients and other brokers meet it."""

    own: Own
    authoriser: Authoriser
    broker_quota: RequestQuota
    routes: Routes
    statements: ValidityTracker
    waiting: Places[LinkId]
    router: Router
    links: dict[LinkId, Link]
    catch_up: CatchUp | None
    timers: TimerWheel
    announcer: Announcer
    pending: Pending
    closing: Closing
    revocation: Revocation
    peer_identities: PeerIdentities

    def __post_init__(self) -> None:
        """Meet the peers of a broker."""
        settings = self.own.settings
        super().__init__(
            settings.network,
            instance=self.own.instance,
            address=settings.address,
            lease_s=settings.lease_s,
            limits=session_limits(settings.limits),
        )
        self.turn = Turn(Instant(0))
        """The turn at hand: what the protocol asks for is a part of it."""

    def connected(self, opened: LinkOpened, turn: Turn) -> None:
        """Take on a connection whose key is proved; part from one too many, and from one to ourselves.

        The process of a broker is a client of it, too: that receives the certificates that are pushed to it.
        """
        now = turn.now
        stage = Stage.AWAITING_HELLO if opened.dialled is None else Stage.AWAITING_GREETING
        link = Link(opened.link, opened.peer, opened.dialled, stage, opened_at=now, heard_at=now)
        link.remote = opened.remote
        self.links[link.id] = link
        if opened.identity is not None:
            link.ends_with_identity = True
            self.peer_identities.hold_identity(link, opened.identity)
        if link.peer == self.own.principal and opened.dialled is not None:
            self.closing.close_link(
                link, ProtocolViolation("PROTOCOL-OUT-OF-TURN", "a broker does not connect to itself"), turn
            )
            return
        if link.dialled is None:
            self.waiting.take(link.id, opened.remote)
        self._make_room(link, turn)
        if link.stage is stage:
            ask_to_look_at_link(self.timers, link, seconds_after(now, self.own.settings.limits.handshake_s))
            turn.add(*self.open(link, now))

    def _make_room(self, link: Link, turn: Turn) -> None:
        """Part from a link if there is one too many: from one that waits, if any does, or from the new one.

        A peer that has proved nothing keeps none out that could (A74, A88).
        """
        is_full = len(self.links) > self.own.settings.limits.links
        if not is_full and not self.waiting.is_overfull:
            return
        waits = self.waiting.next_to_go()
        problem = Unavailable(
            "UNAVAILABLE-LINKS", "this broker has as many links as it may, and others wait to be welcomed"
        )
        self.closing.close_link(link if waits is None else self.links[waits], problem, turn)

    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return what shows the right to connect; rights to types are shown to their readers alone."""
        del now
        return self.own.shown

    def own_statements(self, now: Instant) -> list[bytes]:
        """Return the statements by which the broker's own certificates still count."""
        return statements_for(self.own.settings.credentials, self.statements.monitor, now)

    def admit(self, session: Link, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Decide a peer's right to connect."""
        link, authoriser = session, self.authoriser
        # Nothing is known of the peer yet: what the owner's signatures do not lead to is not even read (A87).
        budget = authoriser.budget_before_welcome()
        pool = authoriser.pool_of_stranger(link.shown, budget)
        authoriser.expect(link.peer, Action.CONNECT, self.own.settings.network, pool, now, budget)
        self.revocation.receive_held(link, self.turn)
        role = Role.CLIENT if link.address is None else Role.BROKER
        if role is Role.BROKER and link.peer == self.own.principal:
            raise ProtocolViolation("PROTOCOL-OUT-OF-TURN", "a broker does not connect to itself")
        try:
            if role is Role.BROKER:
                ours = authoriser.makers(self.own.principal, self.own.settings.credentials, now)
                link.connect, is_inside = authoriser.decide_broker(
                    link.peer, pool, now, ours, link.circumstances, budget
                )
                link.is_foreign = not is_inside
            else:
                link.connect = authoriser.decide_connect(
                    link.peer, pool, now, link.circumstances, vouched, budget
                )
        except GrantStale as problem:
            raise Unavailable("UNAVAILABLE-STATEMENT-AWAITED", problem.message) from problem
        if role is Role.CLIENT:
            self._check_still_broker(link, now)
        link.role = role
        self.statements.dependencies.note(link.id, link.connect.watched)
        for signed in link.connect.used:
            if signed.certificate.subject == link.peer:  # what leads to others too stays at hand
                pack(signed)
        if link.role is not Role.BROKER:
            return []
        if link.dialled is None:  # who was dialled shows its statement with its welcome
            self.peer_identities.check_demand(link)
        part = self.turn.beside()
        if not link.ends_with_identity:
            self.peer_identities.introduce_self(link, part)
        return part.effects

    def _check_still_broker(self, link: Link, now: Instant) -> None:
        """Take no client on once this broker is none any more, but its organisation and its own process."""
        me, own = self.own.principal, self.own.settings.credentials
        if link.peer not in {me, *made_by(me, own)} and self.statements.is_broker_no_more(me, own, now):
            raise BrokerNoMore

    def identified(self, session: Link, message: Identify, now: Instant) -> list[Effect]:
        """Take the identity statement that another broker shows before its hello, or its welcome."""
        del now
        part = self.turn.beside()
        self.peer_identities.receive_identity_before_welcome(session, message, part)
        return part.effects

    def challenge(self, session: Link, hello: Hello, now: Instant) -> list[Effect]:
        """Have a client's right to connect vouched for; a broker cannot ask testers about its own."""
        del now
        if session.address is not None:
            return []
        authoriser = self.authoriser
        pool = authoriser.pool_of_stranger(session.shown, authoriser.budget_before_welcome())
        request = Request(session.peer, Action.CONNECT, self.network)
        part = self.turn.beside()
        self.pending.ask_first(session, CONNECTING, request, pool, hello, part)
        return part.effects

    def redeem(self, session: Link, message: Vouched, now: Instant) -> Checked[Waits] | None:
        """Return what became of the challenge that a client answers before its welcome."""
        return self.pending.one_time.redeem(session.id, message, now)

    def ready(self, link: Link, turn: Turn) -> None:
        """Serve a client that has become ready; make a broker a neighbour."""
        self.waiting.leave(link.id)
        ask_to_look_at_link(self.timers, link, next_look_at_right_to_connect(link, turn.now))
        begin_rounds(self.timers, self.own.settings.lease_s, turn.now)
        try:
            self.peer_identities.check_demand(link)
        except DemandNotMet as problem:
            self.closing.close_link(link, problem, turn)
            if link.dialled is not None:
                self.router.dial_failed(link.dialled, turn)
            return
        peer, role = str(link.peer), link.role.value
        turn.note("connected", link=link.id, peer=peer, role=role, address=link.address)
        if link.role is not Role.BROKER:
            return
        if link.is_foreign:
            self.routes.foreign.add(link.id)
            if not self.own.settings.open_borders:
                self.routes.borders.add(link.id)
        # Of two links to one broker, one has to go.
        loser = superseded(self.own, self.links, self.routes, link)
        router = self.router
        self.announcer.begin_announcing(turn)
        if loser is link:
            router.neighbour_known(link, turn)
        else:
            router.neighbour_up(link, turn)
        if loser is not None:
            self.closing.close_link(
                loser, Unavailable("UNAVAILABLE-LINK-NOT-NEEDED", "there is another link between us"), turn
            )
        if loser is not link and self.catch_up is not None:
            # After that: a link that is replaced may have been silent for long, and something was missed.
            self.catch_up.neighbour_up(link.id)
        # A new connection pays no debts: a broker that was cut off for the work it caused waits for the rest.
        read_later(self.broker_quota, link, self.own.settings.lease_s, turn)
