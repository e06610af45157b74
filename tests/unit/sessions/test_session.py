"""One session protocol for all nodes: who speaks when, how much, and when silence is absence."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pytest

from maia.broker.settings import BrokerLimits
from maia.credentials import NetworkName, SigningKey, TestKind, statement_to_bytes
from maia.credentials.statements import BadStatement
from maia.errors import MaiaError, Refusal
from maia.events import Instant
from maia.policy import GrantTestedOnce
from maia.sessions.challenges import Asked, ChallengeDesk, Checked, NotVouchedFor
from maia.sessions.session import Endpoint, Established, PeerSilent, Session, SessionLimits, Stage, goodbye
from maia.testing.refusals import raises
from maia.validity import VouchedFor, answer_question, question_from_bytes
from maia.wire.codec import decode, encode
from maia.wire.effects import Close, Effect, LinkId, Send
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Bye,
    Challenge,
    Greeting,
    Hello,
    Message,
    Ping,
    Pong,
    Show,
    Vouched,
    Welcome,
)
from maia.wire.names import network_to_bytes
from support.statements import HOLDER, ISSUER, TESTER, certificate, crl, moment

NETWORK = NetworkName(ISSUER.principal, "PITO")
OTHER = NetworkName(ISSUER.principal, "Other")
LINK = LinkId(1)
TESTED = certificate(TestKind.ONE_TIME)


class Refused(Refusal):
    """A test refuses its peer."""

    code = "REFUSED-BY-TEST"


@dataclass
class Log:
    admitted: list[VouchedFor | None] = field(default_factory=list)
    shown: int = 0


class Node(Endpoint[Session]):
    """A node that admits every peer, unless it is told how to decide."""

    def __init__(
        self,
        network: NetworkName = NETWORK,
        *,
        limits: SessionLimits | None = None,
        decide: Callable[[VouchedFor | None], None] = lambda _: None,
        is_asking: bool = False,
    ) -> None:
        super().__init__(network, instance=bytes(16), lease_s=60, limits=limits)
        self.log, self._decide, self._is_asking = Log(), decide, is_asking
        self.desk: ChallengeDesk[Hashable] = ChallengeDesk(BrokerLimits(), lease_s=60, random=bytes)

    def own_credentials(self, now: Instant) -> list[bytes]:
        self.log.shown += 1
        return [b"a certificate"]

    def own_statements(self, now: Instant) -> list[bytes]:
        return [statement_to_bytes(crl(1))]

    def admit(self, session: Session, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        self._decide(vouched)
        self.log.admitted.append(vouched)
        return []

    def challenge(self, session: Session, hello: Hello, now: Instant) -> list[Effect]:
        if not self._is_asking:
            return []
        asked: Asked[Hashable] = Asked(session.peer, session.id, None, 0, bytes(32), hello)
        return self.desk.ask(asked, [(TESTED.id, TESTER.principal)], now).effects()

    def redeem(self, session: Session, message: Vouched, now: Instant) -> Checked[Hashable] | None:
        return self.desk.redeem(session.id, message, now)


def session(stage: Stage, peer: SigningKey = HOLDER) -> Session:
    dialled = "127.0.0.1:1" if stage is Stage.AWAITING_GREETING else None
    return Session(LINK, peer.principal, dialled, stage, opened_at=moment(0), heard_at=moment(0))


def sent(effects: list[Effect]) -> list[Message]:
    return [decode(effect.data) for effect in effects if isinstance(effect, Send)]


def hello(network: NetworkName = NETWORK, version: int = PROTOCOL_VERSION) -> Hello:
    return Hello(version, network_to_bytes(network), [], bytes(16), None)


def greeting(network: NetworkName = NETWORK, version: int = PROTOCOL_VERSION) -> Greeting:
    return Greeting(version, network_to_bytes(network), [], bytes(16))


# ------------------------------------------------------------ the handshake


def test_two_nodes_show_their_statements_and_certificates_and_become_ready() -> None:
    ours, theirs = Node(), Node()
    accepted, dialled = session(Stage.AWAITING_HELLO), session(Stage.AWAITING_GREETING)
    on_its_way, back = sent(ours.open(accepted, moment(0))), list[Message]()
    assert [type(one) for one in on_its_way] == [Show, Greeting]
    left: list[Message | Established | None] = []
    while on_its_way or back:
        for node, its, inbox, outbox in (
            (theirs, dialled, on_its_way, back),
            (ours, accepted, back, on_its_way),
        ):
            for message in inbox.copy():
                inbox.remove(message)
                effects, what = node.receive(its, encode(message), moment(0))
                outbox.extend(sent(effects))
                left.append(what)
    assert accepted.is_ready
    assert dialled.is_ready
    assert dialled.lease_s == 60
    assert sum(isinstance(one, Established) for one in left) == 2
    assert [len(one.statements) for one in (accepted, dialled)] == [1, 1]


def test_a_node_that_dials_shows_nothing_to_a_peer_that_it_does_not_admit() -> None:
    """A19: no certificate leaves before the peer's right to connect is known."""

    def refuse(_: VouchedFor | None) -> None:
        raise Refused("no")

    node = Node(decide=refuse)
    with pytest.raises(Refused):
        node.receive(session(Stage.AWAITING_GREETING), encode(greeting()), moment(0))
    assert node.log.shown == 0


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (hello(OTHER), "PROTOCOL-WRONG-NETWORK"),
        (hello(version=2), "PROTOCOL-VERSION"),
        (greeting(OTHER), "PROTOCOL-WRONG-NETWORK"),
        (greeting(version=2), "PROTOCOL-VERSION"),
    ],
)
def test_another_network_or_version_is_refused_before_anything_is_decided(
    said: Hello | Greeting, error: type[MaiaError]
) -> None:
    node = Node()
    stage = Stage.AWAITING_HELLO if isinstance(said, Hello) else Stage.AWAITING_GREETING
    with raises(error):
        node.receive(session(stage), encode(said), moment(0))
    assert not node.log.admitted


@pytest.mark.parametrize("stage", [Stage.AWAITING_GREETING, Stage.AWAITING_HELLO, Stage.AWAITING_WELCOME])
@pytest.mark.parametrize(
    "said",
    [
        *(greeting(), hello(), Welcome(60), Show(0, [], []), Show(0, [b"x"], []), Ping(0), Pong(0)),
        *(Vouched(1, []), Challenge(1, 0, 1, [b"x"]), Accepted(1, None)),
    ],
)
def test_a_message_out_of_turn_ends_the_link(stage: Stage, said: Message) -> None:
    """A11: nothing but the next step of the handshake is heard before it is over."""
    in_turn = {
        (Stage.AWAITING_GREETING, Greeting),
        (Stage.AWAITING_HELLO, Hello),
        (Stage.AWAITING_WELCOME, Welcome),
    }
    is_shown = isinstance(said, Show) and not said.certificates and stage is not Stage.AWAITING_WELCOME
    if (stage, type(said)) in in_turn or is_shown:
        Node().receive(session(stage), encode(said), moment(0))
    else:
        with raises("PROTOCOL-OUT-OF-TURN"):
            Node().receive(session(stage), encode(said), moment(0))


def test_what_comes_on_a_ready_link_is_left_to_the_node_but_for_pings() -> None:
    node, ready = Node(), session(Stage.READY)
    effects, left = node.receive(ready, encode(Ping(7)), moment(1))
    assert (sent(effects), left) == ([Pong(7)], None)
    assert node.receive(ready, encode(Pong(7)), moment(1)) == ([], None)
    assert node.receive(ready, encode(Accepted(1, None)), moment(2)) == ([], Accepted(1, None))
    assert ready.heard_at == moment(2)


# ------------------------------------------------------------ checked each time


def needs_answers(vouched: VouchedFor | None) -> None:
    if vouched is None:
        raise GrantTestedOnce(GrantTestedOnce.code, ())


def test_a_hello_that_must_be_vouched_for_waits_for_the_answers_to_a_challenge() -> None:
    node, waits = Node(decide=needs_answers, is_asking=True), session(Stage.AWAITING_HELLO)
    effects, left = node.receive(waits, encode(hello()), moment(0))
    (challenge,) = sent(effects)
    assert isinstance(challenge, Challenge)
    assert left is None
    assert not waits.is_ready
    answers = [statement_to_bytes(answer_question(question_from_bytes(challenge.questions[0]), TESTER))]
    effects, left = node.receive(waits, encode(Vouched(challenge.id, answers)), moment(1))
    assert isinstance(left, Established)
    assert sent(effects) == [Welcome(60)]
    (vouched,) = node.log.admitted
    assert vouched is not None
    assert vouched.until == moment(61)  # one check stands for one lease


def test_answers_that_do_not_do_end_the_handshake() -> None:
    node, waits = Node(decide=needs_answers, is_asking=True), session(Stage.AWAITING_HELLO)
    effects, _ = node.receive(waits, encode(hello()), moment(0))
    (challenge,) = sent(effects)
    assert isinstance(challenge, Challenge)
    with pytest.raises(NotVouchedFor):
        node.receive(waits, encode(Vouched(challenge.id, [])), moment(1))


def test_a_node_that_asks_no_tester_refuses_what_must_be_vouched_for() -> None:
    with pytest.raises(GrantTestedOnce):
        Node(decide=needs_answers).receive(session(Stage.AWAITING_HELLO), encode(hello()), moment(0))


# ------------------------------------------------------------ limits


def test_a_peer_sends_no_more_than_a_handshake_takes_before_it_is_admitted() -> None:
    """A89: all messages count together."""
    show = encode(Show(0, [], []))
    node, peer = Node(limits=SessionLimits(bytes_before_welcome=3 * len(show))), session(Stage.AWAITING_HELLO)
    for _ in range(3):
        node.receive(peer, show, moment(0))
    with raises("PROTOCOL-BEYOND-SHARE"):
        node.receive(peer, show, moment(0))


def test_of_many_statements_the_newest_are_held() -> None:
    peer, shown = session(Stage.READY), [statement_to_bytes(crl(number)) for number in range(1, 6)]
    peer.hold(shown[:3], SessionLimits(statements=3))
    assert peer.statements == shown[:3]
    peer.hold(shown[3:4], SessionLimits(statements=3))
    assert peer.statements == shown[1:4]
    peer.hold(shown[4:], SessionLimits(statement_bytes=len(shown[3]) + len(shown[4])))
    assert peer.statements == shown[3:]


def test_of_statements_with_rubbish_among_them_none_is_held() -> None:
    """A89: on a ready link the refusal is an answer, and the next message brings more of them."""
    peer = session(Stage.READY)
    for _ in range(100):
        with pytest.raises(BadStatement):
            peer.hold([statement_to_bytes(crl(1)), b"no statement"], SessionLimits(statements=3))
    assert peer.statements == []


def test_statements_are_taken_by_issuer_and_held_no_more() -> None:
    peer = session(Stage.READY)
    peer.hold([statement_to_bytes(crl(1)), statement_to_bytes(crl(1, by=ISSUER))], SessionLimits())
    assert peer.take_statements(lambda by: by == ISSUER.principal) == [crl(1, by=ISSUER)]
    assert peer.statements == [statement_to_bytes(crl(1))]


# ------------------------------------------------------------ silence, and the end


def test_a_silent_peer_is_asked_in_the_third_round_and_given_up_in_the_fifth() -> None:
    peer = session(Stage.READY)
    assert [sent(peer.ping()) for _ in range(4)] == [[], [], [Ping(0)], [Ping(0)]]
    with pytest.raises(PeerSilent):
        peer.ping()


def test_any_message_is_a_sign_of_life() -> None:
    node, peer = Node(), session(Stage.READY)
    for _ in range(4):
        peer.ping()
    node.receive(peer, encode(Pong(0)), moment(80))
    assert [sent(peer.ping()) for _ in range(3)] == [[], [], [Ping(0)]]


def test_a_link_that_is_closed_says_why() -> None:
    effects = goodbye(LINK, Refused("no"))
    assert sent(effects) == [Bye("REFUSED-BY-TEST", "no")]
    assert effects[-1] == Close(LINK, "REFUSED-BY-TEST")
