"""What a peer makes a broker keep and log has a bound in bytes, whatever it was refused for (A74, A89)."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256

import pytest

from maia.broker import BrokerLimits
from maia.broker.interests.entries import Proof
from maia.broker.rights import authoriser as edge
from maia.credentials import (
    ALL_ACTIONS,
    FIRST_VERSION,
    UNBOUNDED,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    OnlineTest,
    RevocationList,
    SigningKey,
    TestKind,
    TypeName,
    certificate_to_bytes,
    sign_statement,
    statement_to_bytes,
)
from maia.credentials.encoding.certificates import issue
from maia.domain import DomainLimits
from maia.predicates import ALWAYS
from maia.routing.overlay.table import is_closer, node_id_of_key, node_id_of_type
from maia.routing.table.hops import book_key_of_sealed
from maia.testing import NetClient
from maia.types import definition_to_bytes, type_id
from maia.wire.codec import encode
from maia.wire.effects import Close, LinkId, LinkOpened, Received
from maia.wire.messages import (
    Interest,
    Message,
    NodeRecord,
    Offer,
    Replica,
    SealedPart,
    SealedRights,
    Show,
    Subscribe,
    Wanted,
    Welcome,
)
from maia.wire.names import filter_to_bytes
from support.key_groups import KeyNet
from support.numberplate import Net
from support.sealed_messages import made_up_proof, sealed_interest, sealed_offer, sealed_wanted

MIB = 1 << 20
BILLING = "billing office"
STRANGER = SigningKey.from_seed(b"\x0a" * 32)
ROGUE = SigningKey.from_seed(b"\x0f" * 32)
BEYOND = "PROTOCOL-BEYOND-SHARE"


class Kept:
    """How many bytes are kept now, beyond those at the beginning."""

    def __init__(self) -> None:
        gc.collect()
        self._before = tracemalloc.get_traced_memory()[0]

    @property
    def at_most(self) -> int:
        """Return how many, with what may be garbage."""
        return tracemalloc.get_traced_memory()[0] - self._before

    @property
    def bytes(self) -> int:
        gc.collect()
        return self.at_most


@contextmanager
def counted() -> Iterator[Kept]:
    tracemalloc.start()
    try:
        yield Kept()
    finally:
        tracemalloc.stop()


def certificate(net: Net, number: int = 0, *, padding: int = 0, **changes: object) -> bytes:
    """Return a certificate that the stranger gave itself: no peer who owns anything has a part in it."""
    own = net.cast.connect_right(STRANGER.principal).certificate
    assert isinstance(own, AuthorisationCertificate)
    comment = f"number {number:09} " + "." * padding
    made_up = replace(own, issuer=STRANGER.principal, comment=comment, **changes)
    return certificate_to_bytes(issue(made_up, STRANGER))


def revocations(number: int, count: int) -> bytes:
    """Return a list by the stranger that revokes certificates which do not exist."""
    ids = frozenset(one.to_bytes(32, "big") for one in range(count))
    return statement_to_bytes(sign_statement(RevocationList(STRANGER.principal, number, None, ids), STRANGER))


def many_like(data: bytes, first: int, count: int) -> list[bytes]:
    """Return copies of a certificate with other numbers; the signature of none of them is good."""
    return [
        data.replace(b"number 000000000", b"number %09d" % number) for number in range(first, first + count)
    ]


def rogue_broker(net: Net) -> NetClient:
    """Connect a peer with nothing but a right to connect, who says that it is a broker."""
    right = net.cast.broker_right(ROGUE)
    rogue = net.client("a rogue broker", key=ROGUE, credentials=(right,), address="rogue:1")
    assert rogue.last(Welcome)
    return rogue


# ------------------------------------------------------------ before the welcome


def test_refused_hellos_leave_little_behind() -> None:
    """A89: a hundred strangers, each with 150 kB of certificates of its own, leave no more than a few."""
    net = Net()
    running = net.broker()
    one = certificate(net, subject=ROGUE.principal, padding=1000)
    count = 150_000 // len(one)
    with counted() as kept:
        for number in range(100):
            stranger = net.client("a stranger", key=STRANGER, credentials=(), says_hello=False)
            stranger.hello(credentials=many_like(one, count * number, count))
            assert stranger.closed
            net.clients.clear()
            running.notes.clear()
            del stranger
        assert kept.bytes < 8 * MIB


@pytest.mark.parametrize("share", [100_000, 400_000])
def test_what_is_said_before_the_welcome_has_a_bound(share: int) -> None:
    """A89: statements before the hello, in as many messages as one likes, end with the link."""
    net = Net(limits=BrokerLimits(bytes_before_welcome=share))
    net.broker()
    show = Show(0, [], [revocations(1, 1000)])
    fitting = share // len(encode(show))
    stranger = net.client("a stranger", key=STRANGER, credentials=(), says_hello=False)
    with counted() as kept:
        for _ in range(fitting):
            stranger.say(show)
        assert not stranger.closed, "at the edge"
        assert kept.bytes < 2 * share
        stranger.say(show)
        assert stranger.bye == BEYOND
        assert kept.bytes < MIB // 4, "and nothing is left of it"


def test_statements_are_held_within_a_number_of_bytes() -> None:
    """A89: of those of a client that was welcomed, the newest are held."""
    statements = [revocations(number, 1) for number in range(1, 5)]
    net = Net(limits=BrokerLimits(statement_bytes_shown=2 * len(statements[0])))
    running = net.broker()
    billing = net.client(BILLING)
    billing.say(Show(1, [], statements))
    (link,) = running.parts.links.values()
    assert link.statements == statements[-2:]


def test_certificates_that_a_client_shows_have_a_bound_in_bytes() -> None:
    """A89: as many bytes as may be shown, and one more."""
    net = Net()
    one = certificate(net)
    shown_before = sum(len(certificate_to_bytes(signed)) for signed in net.cast.certificates)
    net = Net(limits=BrokerLimits(certificate_bytes_shown=shown_before + 2 * len(one)))
    net.broker()
    billing = net.client(BILLING)
    billing.say(Show(1, many_like(one, 0, 2), []))
    assert billing.was_accepted(1)
    billing.say(Show(2, many_like(one, 2, 1), []))
    assert billing.code_of(2) == "UNAVAILABLE-ENTRY-QUOTA"


def test_strangers_fill_no_log() -> None:
    """A89: the log tells the end of some of them, and then how many there were."""
    net = Net()
    running = net.broker()
    for _ in range(300):
        net.client("a stranger", key=STRANGER, credentials=())
    lines = running.noted("closing")
    assert len(lines) == 60
    net.advance(61)
    (summed,) = running.noted("closing")[60:]
    assert summed["repeated"] == 240


def test_a_key_server_receives_no_more_than_a_handshake_before_the_welcome() -> None:
    """A89: the same share holds there, at the edge and beyond it."""
    show = encode(Show(0, [], [revocations(1, 100)]))
    net = KeyNet(limits=DomainLimits(bytes_before_welcome=3 * len(show)))
    link = LinkId(5000)
    net.server.handle(LinkOpened(link, STRANGER.principal, None), net.now)
    closed = [
        any(isinstance(effect, Close) for effect in net.server.handle(Received(link, show), net.now))
        for _ in range(4)
    ]
    assert closed == [False, False, False, True]


def test_what_led_to_a_permit_is_remembered_within_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A89: peers that may connect show long pools of their own beside; the oldest are forgotten."""
    bytes_max = 8 * 40_000
    monkeypatch.setattr(edge, "_POOL_BYTES_MAX", bytes_max)
    net = Net()
    running = net.broker()
    padding = certificate(net, padding=1000)
    known, office = running.parts.authoriser, net.client("billing office")
    pools, found = known._pools, known._found
    right = [certificate_to_bytes(one) for one in net.cast.certificates]
    for number in range(20):
        shown = [*right, *many_like(padding, 10 * number, 10)]
        office.say(
            Subscribe(
                number, office.request(Action.SUBSCRIBE), shown, [definition_to_bytes(net.cast.definition)]
            )
        )
        assert office.was_accepted(number)
        assert 0 < pools.bytes <= bytes_max
        assert 0 < found.bytes <= bytes_max
    assert len(pools) == len(found) == 2
    assert known.pool(shown) is known.pool(shown)
    known.evidence_changed()
    assert found.bytes == 0


# ------------------------------------------------------------ a broker with nothing but a right to connect


def wanted(number: int, size: int = 0) -> Wanted:
    """Return an interest without a proof."""
    return Wanted(number.to_bytes(16, "big"), filter_to_bytes(ALWAYS), None, [bytes(size)] if size else [])


def sealed(number: int) -> Wanted:
    name = number.to_bytes(16, "big")
    proof = made_up_proof(seal=name, size=SIZE)
    return sealed_wanted(name, proof, [SealedPart([], bytes(16), bytes(200))])


def type_of(number: int) -> bytes:
    """Return the id of a type that no peer has defined."""
    return sha256(b"a type, number %d" % number).digest()


def sealed_type_of(number: int) -> bytes:
    return book_key_of_sealed(type_of(number))


HOLDER = NodeRecord(STRANGER.principal.key, "nowhere:1")
SIZE = 50_000
TOLD = {
    "interests": lambda number: Interest(type_of(number), [wanted(number, SIZE)], []),
    "offers": lambda number: Offer(type_of(number), True, None, [bytes(SIZE)]),
    "replicas": lambda number: Replica(type_of(number), HOLDER, [wanted(number, SIZE)], False),
    "sealed interests": lambda number: sealed_interest(type_of(number), [sealed(number)]),
    "sealed offers": lambda number: sealed_offer(type_of(number), made_up_proof(size=SIZE)),
    "sealed replicas": lambda number: Replica(
        book_key_of_sealed(type_of(number)), HOLDER, [sealed(number)], False
    ),
    "rights to sealed types": lambda number: SealedRights(type_of(number), made_up_proof(size=SIZE)),
}
TAKEN_BACK = {
    "interests": lambda number: Interest(type_of(number), [], [number.to_bytes(16, "big")]),
    "offers": lambda number: Offer(type_of(number), False, None, []),
    "replicas": lambda number: Replica(type_of(number), HOLDER, [], False),
    "sealed interests": lambda number: sealed_interest(type_of(number), [], [number.to_bytes(16, "big")]),
    "sealed offers": lambda number: sealed_offer(type_of(number), None),
    "sealed replicas": lambda number: Replica(sealed_type_of(number), HOLDER, [], False),
}


@pytest.mark.parametrize("kind", TOLD)
def test_what_a_broker_tells_of_types_that_do_not_exist_has_a_bound_in_bytes(kind: str) -> None:
    """A89: whatever it is called, a neighbour that makes this broker keep too much is parted from."""
    share = MIB
    net = Net(limits=BrokerLimits(bytes_per_peer=share), verify_in_transit=0.0, open_borders=True)
    net.broker()
    rogue = rogue_broker(net)
    with counted() as kept:
        told = 0
        while not rogue.closed and told < 100:
            rogue.say(TOLD[kind](told))
            told += 1
            assert kept.at_most < 3 * share
        assert rogue.bye == BEYOND
        assert 15 <= told <= 1 + share // SIZE, "its share is for it to use"


@pytest.mark.parametrize("kind", TAKEN_BACK)
def test_what_is_taken_back_is_not_held_against_a_broker(kind: str) -> None:
    """A89: an account of what is kept, not of what was ever said."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=0.0, open_borders=True)
    net.broker()
    rogue = rogue_broker(net)
    rogue.say(TOLD[kind](1000))  # stands all the time
    for number in range(60):
        rogue.say(TOLD[kind](number))
        rogue.say(TOLD[kind](number))  # told twice, kept once
        rogue.say(TAKEN_BACK[kind](number))
    assert not rogue.closed


def test_refused_interests_have_a_bound_and_one_line_in_the_log() -> None:
    """A89: what was refused has to be remembered, to compare books; so it counts, and each is a line less."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=1.0)
    running = net.broker()
    rogue = rogue_broker(net)
    with counted() as kept:
        for number in range(100):
            rogue.say(Interest(type_of(1), [wanted(500 * number + one) for one in range(500)], []))
            if rogue.closed:
                break
        assert rogue.bye == BEYOND
        assert kept.bytes < 3 * MIB
    assert len(running.noted("refused")) == 1
    refused = running.counts["maia_refused_total"]
    net.advance(61)
    assert [line.get("repeated") for line in running.noted("refused")] == [None, refused - 1]
    assert refused > 2000


def test_interests_that_are_refused_and_taken_back_leave_nothing() -> None:
    """A89: an honest neighbour whose clients come and go is not parted from."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=1.0)
    running = net.broker()
    rogue = rogue_broker(net)
    for number in range(10):
        some = [wanted(500 * number + one) for one in range(500)]
        rogue.say(Interest(type_of(1), some, []))
        rogue.say(Interest(type_of(1), [], [one.id for one in some]))
    assert not rogue.closed
    (neighbour,) = running.parts.routes.neighbours.values()
    assert not neighbour.changed


def test_offers_without_proof_fill_no_desk() -> None:
    """A89: certificates that lead nowhere, by testers of one's own making, are no peer's to wait for."""
    net = Net(verify_in_transit=1.0)
    running = net.broker()
    rogue = rogue_broker(net)
    testers = [SigningKey.from_seed(bytes([number]) * 32) for number in range(1, 200)]
    for number, tester in enumerate(testers):
        validity = UNBOUNDED.with_tests(OnlineTest(TestKind.CRL, tester.principal))
        demanding = certificate(net, number, validity=validity)
        rogue.say(Offer(type_of(1), True, None, [demanding]))
        rogue.say(Interest(type_of(1), [Wanted(bytes(16), filter_to_bytes(ALWAYS), None, [demanding])], []))
    desk = running.parts.statements
    assert not desk.certificates
    assert not desk.issuers
    assert STRANGER.principal not in desk.streams.values()
    (link,) = running.parts.links.values()
    assert len(desk.dependencies.certificates_on(link.id)) == 1, "its right to connect, and nothing else"


def test_nothing_is_left_of_a_broker_that_was_parted_from() -> None:
    """A89: all that was kept on its behalf goes with the link."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=0.0, open_borders=True)
    net.broker()
    with counted() as kept:
        for _ in range(5):
            rogue = rogue_broker(net)
            message: Message
            for number in range(100):
                message = TOLD["sealed interests"](number)
                rogue.say(message)
                if rogue.closed:
                    break
            assert rogue.bye == BEYOND
            del rogue
            net.clients.clear()
        assert kept.bytes < MIB


def test_what_others_say_of_a_broker_is_not_held_against_it() -> None:
    """A89: a rogue rendezvous leaves replicas that speak of an honest broker, which then comes."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=0.0, open_borders=True)
    running = net.broker()
    routes, honest_key = running.parts.routes, SigningKey.from_seed(b"\x0d" * 32)
    own, rogue_node = routes.membership.own.node, node_id_of_key(ROGUE.principal.key)
    led = [
        number
        for number in range(100)
        if is_closer(rogue_node, than=own, target=node_id_of_type(type_of(number)))
    ]
    rogue, holder = rogue_broker(net), NodeRecord(honest_key.principal.key, "honest:1")
    for number in led[:15]:
        rogue.say(Replica(type_of(number), holder, [wanted(number, SIZE)], False))
    rogue.hang_up()
    right = net.cast.broker_right(honest_key)
    honest = net.client("an honest broker", key=honest_key, credentials=(right,), address="honest:1")
    node = node_id_of_key(honest_key.principal.key)
    assert any(routes.book.entries(node, type_of(number)) for number in led[:15]), "it was adopted"
    assert routes.book.link(node).bytes == 0
    for number in range(200, 210):
        honest.say(TOLD["interests"](number))
    assert not honest.closed


def test_replicas_for_brokers_that_never_come_have_a_bound() -> None:
    """A89: what a rendezvous that is gone has left waits for its holder, and the oldest of it goes."""
    net = Net(limits=BrokerLimits(bytes_per_peer=MIB), verify_in_transit=0.0, open_borders=True)
    running = net.broker()
    routes = running.parts.routes
    own, rogue_node = routes.membership.own.node, node_id_of_key(ROGUE.principal.key)
    # The rogue can say so of types that it would lead itself.
    led = [
        number
        for number in range(400)
        if is_closer(rogue_node, than=own, target=node_id_of_type(type_of(number)))
    ]
    told = 0
    for times in range(5):
        rogue = rogue_broker(net)
        for number in led[15 * times : 15 * times + 15]:
            holder = NodeRecord(SigningKey.from_seed(type_of(number)).principal.key, f"nowhere:{number}")
            rogue.say(Replica(type_of(number), holder, [wanted(number, SIZE)], False))
            told += 1
        assert not rogue.closed
        rogue.hang_up()
    waiting = sum(len(some) for some in routes.to_adopt.values())
    assert 0 < waiting < told
    assert waiting * SIZE <= routes.to_adopt_bytes <= MIB


def test_certificates_behind_interests_that_are_gone_are_forgotten() -> None:
    """A89: a peer that owns a type of its own can prove interests in it by ever new certificates."""
    net = Net(verify_in_transit=1.0)
    running = net.broker()
    rogue = rogue_broker(net)
    (link,) = running.parts.links.values()
    link.reliance_max = 50
    name = TypeName(STRANGER.principal, "uk.test.Own", FIRST_VERSION)
    kind, dependencies = type_id(name.owner, name.name), running.parts.statements.dependencies
    authority = Authority(AnyResource(STRANGER.principal), ALL_ACTIONS)
    asked = rogue.request(Action.SUBSCRIBE, event_type=name)
    for number in range(200):
        proof = certificate(net, number, subject=ROGUE.principal, authority=authority)
        entry = Wanted(number.to_bytes(16, "big"), filter_to_bytes(ALWAYS), asked, [proof])
        gone = [(number - 1).to_bytes(16, "big")] if number > 1 else []
        rogue.say(Interest(kind, [entry], gone))
        assert len(dependencies.certificates_on(link.id)) <= 52
        link.reliance_max = 50
    left = running.parts.routes.book.entries(running.parts.routes.node_of[link.id], kind)
    assert {int.from_bytes(entry.id, "big") for entry in left} == {0, 199}
    for entry in left:
        assert isinstance(entry.baggage, Proof)
        assert entry.baggage.watched
        assert entry.baggage.watched <= set(dependencies.certificates_on(link.id)), "what stands is watched"
    assert not rogue.closed
