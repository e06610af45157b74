"""Who may connect to this broker, and what follows when a link is ready?

The handshake itself is the protocol of all nodes (`maia.sessions.session`).
A broker shows its right to connect to every peer, admits the peers that have
one, and makes those with an address its neighbours.
"""

from __future__ import annotations

from maia.broker.access.challenges import challenge_request
from maia.broker.refusals import LinkNotNeeded, OutOfTurn, StatementAwaited, TooManyLinks
from maia.broker.revocation.streams import receive_held
from maia.broker.routing.aggregation import begin_announcing
from maia.broker.routing.peers import superseded
from maia.broker.sessions.close import close_link
from maia.broker.sessions.identities import (
    DemandNotMet,
    check_demand,
    hold_identity,
    introduce_self,
    receive_identity_before_welcome,
    session_limits,
)
from maia.broker.sessions.links import (
    Held,
    Link,
    Role,
    Stage,
    ask_to_look_at_link,
    next_look_at_right_to_connect,
    read_later,
)
from maia.broker.state import BrokerState, seconds_after
from maia.broker.turn import Turn
from maia.broker.upkeep import begin_rounds
from maia.credentials import Action
from maia.credentials.encoding.certificates import pack
from maia.events import Instant
from maia.policy import GrantStale, Request
from maia.sessions.challenges import Checked
from maia.sessions.session import Endpoint, statements_for
from maia.validity import VouchedFor
from maia.wire.effects import Effect, LinkOpened
from maia.wire.messages import Hello, Identify, Vouched


class BrokerSessions(Endpoint[Link]):
    """One broker, as clients and other brokers meet it."""

    def __init__(self, state: BrokerState) -> None:
        """Meet the peers of a broker."""
        settings = state.settings
        super().__init__(
            settings.network,
            instance=state.instance,
            address=settings.address,
            lease_s=settings.lease_s,
            limits=session_limits(settings.limits),
        )
        self._state = state
        self.turn = Turn(Instant(0))
        """The turn at hand: what the protocol asks for is a part of it."""

    def connected(self, opened: LinkOpened, turn: Turn) -> None:
        """Take on a connection whose key is proved; part from one too many, and from one to ourselves."""
        state, now = self._state, turn.now
        stage = Stage.AWAITING_HELLO if opened.dialled is None else Stage.AWAITING_GREETING
        link = Link(opened.link, opened.peer, opened.dialled, stage, opened_at=now, heard_at=now)
        link.remote = opened.remote
        state.links[link.id] = link
        if opened.identity is not None:
            link.ends_with_identity = True
            hold_identity(state, link, opened.identity)
        if link.peer == state.principal:
            close_link(state, link, OutOfTurn("a broker does not connect to itself"), turn)
            return
        if link.dialled is None:
            state.waiting.take(link.id, opened.remote)
        self._make_room(link, turn)
        if link.stage is stage:
            ask_to_look_at_link(state, link, seconds_after(now, state.settings.limits.handshake_s))
            turn.add(*self.open(link, now))

    def _make_room(self, link: Link, turn: Turn) -> None:
        """Part from a link if there is one too many: from one that waits, if any does, or from the new one.

        A peer that has proved nothing keeps none out that could (A74, A88).
        """
        state = self._state
        is_full = len(state.links) > state.settings.limits.links
        if not is_full and not state.waiting.is_overfull:
            return
        waits = state.waiting.next_to_go()
        problem = TooManyLinks("this broker has as many links as it may, and others wait to be welcomed")
        close_link(state, link if waits is None else state.links[waits], problem, turn)

    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return what shows the right to connect; rights to types are shown to their readers alone."""
        del now
        return self._state.own_credentials

    def own_statements(self, now: Instant) -> list[bytes]:
        """Return the statements by which the broker's own certificates still count."""
        return statements_for(self._state.settings.credentials, self._state.statements.monitor, now)

    def admit(self, session: Link, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Decide a peer's right to connect."""
        state, link, authoriser = self._state, session, self._state.authoriser
        # Nothing is known of the peer yet: what the owner's signatures do not lead to is not even read (A87).
        budget = authoriser.budget_before_welcome()
        pool = authoriser.pool_of_stranger(link.shown, budget)
        authoriser.expect(link.peer, Action.CONNECT, state.settings.network, pool, now, budget)
        receive_held(state, link, self.turn)
        try:
            link.connect = authoriser.decide_connect(link.peer, pool, now, link.remote, vouched, budget)
        except GrantStale as problem:
            raise StatementAwaited(problem.message) from problem
        state.statements.dependencies.note(link.id, link.connect.watched)
        for signed in link.connect.used:
            if signed.certificate.subject == link.peer:  # what leads to others too stays at hand
                pack(signed)
        link.role = Role.CLIENT if link.address is None else Role.BROKER
        if link.role is not Role.BROKER:
            return []
        if link.dialled is None:  # who was dialled shows its statement with its welcome
            check_demand(state, link)
        part = self.turn.beside()
        if not link.ends_with_identity:
            introduce_self(state, link, part)
        return part.effects

    def identified(self, session: Link, message: Identify, now: Instant) -> list[Effect]:
        """Take the identity statement that another broker shows before its hello, or its welcome."""
        del now
        part = self.turn.beside()
        receive_identity_before_welcome(self._state, session, message, part)
        return part.effects

    def challenge(self, session: Link, hello: Hello, now: Instant) -> list[Effect]:
        """Have a client's right to connect vouched for; a broker cannot ask testers about its own."""
        del now
        if session.address is not None:
            return []
        authoriser = self._state.authoriser
        pool = authoriser.pool_of_stranger(session.shown, authoriser.budget_before_welcome())
        request = Request(session.peer, Action.CONNECT, self.network)
        part = self.turn.beside()
        challenge_request(self._state, session, request, pool, hello, part)
        return part.effects

    def redeem(self, session: Link, message: Vouched, now: Instant) -> Checked[Held] | None:
        """Return what became of the challenge that a client answers before its welcome."""
        return self._state.one_time.redeem(session.id, message, now)

    def ready(self, link: Link, turn: Turn) -> None:
        """Serve a client that has become ready; make a broker a neighbour."""
        state = self._state
        state.waiting.leave(link.id)
        ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, turn.now))
        begin_rounds(state, turn.now)
        try:
            check_demand(state, link)
        except DemandNotMet as problem:
            close_link(state, link, problem, turn)
            if link.dialled is not None:
                state.router.dial_failed(link.dialled, turn)
            return
        peer, role = str(link.peer), link.role.value
        turn.note("connected", link=link.id, peer=peer, role=role, address=link.address)
        if link.role is not Role.BROKER:
            return
        # Of two links to one broker, one has to go.
        loser = superseded(state, link)
        router = state.router
        begin_announcing(state, turn)
        if loser is link:
            router.neighbour_known(link, turn)
        else:
            router.neighbour_up(link, turn)
        if loser is not None:
            close_link(state, loser, LinkNotNeeded("there is another link between us"), turn)
        # A new connection pays no debts: a broker that was cut off for the work it caused waits for the rest.
        read_later(state, link, turn)
