"""Who may speak on this link at all?

    we accepted                       we dialled
    ------------------------------    -----------------------------------
    open      -> Greeting, await Hello     open     -> await Greeting
    Hello     -> verify, Welcome, ready    Greeting -> verify, Hello, await Welcome
                                           Welcome  -> ready

TLS has proved the peer's key before. Each side then checks that this key may
connect to this very network, before it says or believes anything else (A11,
A12). The side that dials shows its credentials only to a peer that has shown
its own (A19). Anything out of turn ends the link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from maia.broker.access.challenges import challenge_hello, vouched_for
from maia.broker.access.one_time_pending import HeldHello
from maia.broker.refusals import (
    LinkNotNeeded,
    NotVouchedFor,
    OutOfTurn,
    StatementAwaited,
    TooManyLinks,
    WrongNetwork,
    WrongProtocol,
)
from maia.broker.routing.peers import broker_known, broker_ready, superseded
from maia.broker.sessions.close import close_link
from maia.broker.sessions.credentials import hear_held, hold_statements, show_own_statements
from maia.broker.sessions.link_checks import ask_to_look_at_link, next_look_at_right_to_connect, read_later
from maia.broker.sessions.links import Link, Role, Stage
from maia.broker.state import BrokerState, seconds_after
from maia.broker.upkeep import begin_rounds
from maia.credentials import Action
from maia.events import Instant
from maia.policy import GrantStale, GrantTestedOnce
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkOpened, Note, Send
from maia.wire.messages import PROTOCOL_VERSION, Greeting, Hello, Message, Show, Vouched, Welcome

__all__ = ["Step", "open_link", "step_of"]

Step = Callable[[BrokerState, Link, Message, Instant], list[Effect]]


def open_link(state: BrokerState, opened: LinkOpened, now: Instant) -> list[Effect]:
    """Take on a connection whose key is proved; part from one too many, and from one to ourselves."""
    stage = Stage.AWAITING_HELLO if opened.dialled is None else Stage.AWAITING_GREETING
    link = Link(opened.link, opened.peer, opened.dialled, stage, opened_at=now, heard_at=now)
    link.remote = opened.remote
    state.links[link.id] = link
    if link.peer == state.principal:
        return close_link(state, link, OutOfTurn("a broker does not connect to itself"), now)
    if link.dialled is None:
        state.waiting.take(link.id, opened.remote)
    parted = _make_room(state, link, now)
    if link.stage is not stage:
        return parted
    ask_to_look_at_link(state, link, seconds_after(now, state.settings.limits.handshake_s))
    if stage is Stage.AWAITING_GREETING:
        return parted
    greeting = Greeting(PROTOCOL_VERSION, state.network, state.own_credentials, state.instance)
    return [*parted, *show_own_statements(state, link.id, now), Send(link.id, encode(greeting))]


def _make_room(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Part from a link if there is one too many: from one that waits, if any does, or from the new one.

    A peer that has proved nothing keeps none out that could (A74, A88).
    """
    is_full = len(state.links) > state.settings.limits.links
    if not is_full and not state.waiting.is_overfull:
        return []
    waits = state.waiting.next_to_go()
    problem = TooManyLinks("this broker has as many links as it may, and others wait to be welcomed")
    return close_link(state, link if waits is None else state.links[waits], problem, now)


def step_of(link: Link, message: Message) -> Step:
    """Return what this message means at this point, which is nothing unless it is the expected one."""
    step = _STEPS.get((link.stage, type(message)))
    if step is None:
        raise OutOfTurn(f"`{type(message).__name__}` was not expected on a link that is {link.stage.value}")
    return step


def _greeted(state: BrokerState, link: Link, message: Message, now: Instant) -> list[Effect]:
    assert isinstance(message, Greeting)  # noqa: S101 - by the table below
    heard = _verify(state, link, message, now)
    link.role, link.address = Role.BROKER, link.dialled
    link.stage = Stage.AWAITING_WELCOME
    hello = Hello(
        PROTOCOL_VERSION, state.network, state.own_credentials, state.instance, state.settings.address
    )
    return [*heard, *show_own_statements(state, link.id, now), Send(link.id, encode(hello))]


def _said_hello(state: BrokerState, link: Link, message: Message, now: Instant) -> list[Effect]:
    assert isinstance(message, Hello)  # noqa: S101 - by the table below
    try:
        heard = _verify(state, link, message, now)
    except GrantTestedOnce:
        # A broker has nobody to ask: its own certificates cannot be tested so.
        pool = state.authoriser.pool_of_stranger(link.shown, state.authoriser.budget_before_welcome())
        asked = challenge_hello(state, link, message, pool, now) if message.address is None else []
        if not asked:
            raise
        return asked
    return [*heard, *_said_welcome(state, link, message, now)]


def _vouched_for(state: BrokerState, link: Link, message: Message, now: Instant) -> list[Effect]:
    """Go on with a hello that has waited to be vouched for."""
    assert isinstance(message, Vouched)  # noqa: S101 - by the table below
    redeemed = state.one_time.redeem(link.id, message.id, message.answers, now)
    if redeemed is None or not isinstance(redeemed.challenged.asked.waits, HeldHello):
        raise OutOfTurn("nobody was asked to vouch for anything")
    hello, budget = redeemed.challenged.asked.waits.message, state.authoriser.budget_before_welcome()
    pool = state.authoriser.pool_of_stranger(link.shown, budget)
    vouched = vouched_for(state, redeemed.once, now)
    try:
        link.connect = state.authoriser.decide_connect(link.peer, pool, now, link.remote, vouched, budget)
    except GrantTestedOnce as problem:
        raise NotVouchedFor("your right to connect must be vouched for, for this very link") from problem
    state.statements.dependencies.note(link.id, link.connect.watched)
    link.instance = hello.instance
    return _said_welcome(state, link, hello, now)


def _said_welcome(state: BrokerState, link: Link, message: Hello, now: Instant) -> list[Effect]:
    link.role = Role.CLIENT if message.address is None else Role.BROKER
    link.address = message.address
    welcome = Send(link.id, encode(Welcome(state.settings.lease_s)))
    return [welcome, *_ready(state, link, now)]


def _shown_statements(state: BrokerState, link: Link, message: Message, _now: Instant) -> list[Effect]:
    assert isinstance(message, Show)  # noqa: S101 - by the table below
    if message.certificates:
        raise OutOfTurn("certificates are shown in the greeting or hello, and later")
    hold_statements(state, link, message.statements)
    return []


def _welcomed(state: BrokerState, link: Link, _message: Message, now: Instant) -> list[Effect]:
    return _ready(state, link, now)


def _verify(state: BrokerState, link: Link, shown: Greeting | Hello, now: Instant) -> list[Effect]:
    """Check version, network and right to connect, and remember what was shown."""
    if shown.version != PROTOCOL_VERSION:
        raise WrongProtocol(f"version `{shown.version}` of the protocol is not spoken here")
    if shown.network != state.network:
        raise WrongNetwork(f"this is a broker of network `{state.settings.network.name}`, and of no other")
    link.shown = tuple(shown.credentials)
    # Nothing is known of the peer yet: what the owner's signatures do not lead to is not even read (A87).
    budget = state.authoriser.budget_before_welcome()
    pool = state.authoriser.pool_of_stranger(link.shown, budget)
    state.authoriser.expect(link.peer, Action.CONNECT, state.settings.network, pool, now, budget)
    heard = hear_held(state, link, now)
    try:
        link.connect = state.authoriser.decide_connect(link.peer, pool, now, link.remote, budget=budget)
    except GrantStale as problem:
        raise StatementAwaited(problem.message) from problem
    state.statements.dependencies.note(link.id, link.connect.watched)
    link.instance = shown.instance
    return heard


def _ready(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    link.stage = Stage.READY
    state.waiting.leave(link.id)
    ask_to_look_at_link(state, link, next_look_at_right_to_connect(link, now))
    begin_rounds(state, now)
    fields = {"link": link.id, "peer": str(link.peer), "role": link.role.value, "address": link.address}
    if link.role is not Role.BROKER:
        return [Note("connected", fields)]
    # A new connection pays no debts: whoever was cut off for the work it caused waits for the rest of them.
    return [Note("connected", fields), *_joined(state, link, now), *read_later(state, link, now)]


def _joined(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Make a broker a neighbour; of two links to it, one has to go."""
    loser = superseded(state, link)
    effects = broker_known(state, link, now) if loser is link else broker_ready(state, link, now)
    if loser is not None:
        effects += close_link(state, loser, LinkNotNeeded("there is another link between us"), now)
    return effects


_STEPS: Final[Mapping[tuple[Stage, type[Message]], Step]] = {
    (Stage.AWAITING_GREETING, Show): _shown_statements,
    (Stage.AWAITING_HELLO, Show): _shown_statements,
    (Stage.AWAITING_GREETING, Greeting): _greeted,
    (Stage.AWAITING_HELLO, Hello): _said_hello,
    (Stage.AWAITING_HELLO, Vouched): _vouched_for,
    (Stage.AWAITING_WELCOME, Welcome): _welcomed,
}
