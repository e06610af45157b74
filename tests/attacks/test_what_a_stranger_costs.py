"""Certificates that a peer made up cost a broker, a key server and a domain next to nothing.

All of it is counted in signature checks, certificates read and steps, never in seconds: the counts are the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.broker import BrokerLimits
from maia.credentials import (
    Action,
    Authority,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    TopicPattern,
    TypeName,
    TypePattern,
    exact_name,
)
from maia.credentials.chains.discovery import FORGED_MAX
from maia.domain.access.results import AdminAct
from maia.errors import Refusal
from maia.predicates import ALWAYS
from maia.testing import NetClient, grant, shown
from maia.types import type_id
from maia.wire.codec import decode, encode
from maia.wire.effects import LinkId, LinkOpened, Received, Send
from maia.wire.messages import PROTOCOL_VERSION, Bye, Hello, Interest, Offer, Wanted, Welcome
from maia.wire.names import filter_to_bytes, network_to_bytes
from support.costs import OWN_KEYS, STRANGER, counted, of_ones_own, stranger_pools
from support.domain_server import DomainAtWork, domain_at_work
from support.key_groups import MANAGER, NETWORK, KeyNet
from support.key_groups import OWNER as NETWORK_OWNER
from support.numberplate import Net

ROGUE = SigningKey.from_seed(b"\x0f" * 32)
POOLS = ("one forgery", "only forgeries", "behind a genuine one")
FORGERIES_MAX = FORGED_MAX + 1
"""How many forgeries are looked at: the last one ends it."""
STEPS_MAX = 16 * 64
"""What a stranger may cost beside the checks of its forgeries."""


def connecting(net: Net) -> Authority:
    network = net.cast.network
    return Authority(NetworkPattern(network.owner, exact_name(network.name)), frozenset({Action.CONNECT}))


def passed_on(
    owner: SigningKey, subject: SigningKey, authority: Authority, *, final: bool = False
) -> SignedCertificate:
    return grant(owner, subject, authority, may_delegate=not final)


# ------------------------------------------------------------ a hello


@pytest.mark.parametrize("kind", POOLS)
def test_a_hello_of_made_up_certificates_costs_a_broker_a_few_checks(kind: str) -> None:
    """A24, A74, A87: 255 certificates; what the owner's signatures do not lead to is not even read."""
    net = Net()
    net.broker()
    genuine = passed_on(net.cast.keys["PITO"], net.cast.keys["Met"], connecting(net))
    pool = stranger_pools(genuine.certificate.issuer, connecting(net), genuine)[kind]()
    assert len(pool) >= 250
    with counted() as costs:
        stranger = net.client("a stranger", key=STRANGER, credentials=pool[:256])
    assert isinstance(stranger.heard[-1], Bye)
    assert stranger.heard[-1].code == "POLICY-NO-CHAIN"
    assert costs.checks <= (FORGERIES_MAX if kind == "only forgeries" else 2)
    assert costs.read <= 1, "only the genuine one was worth reading"
    assert costs.steps < STEPS_MAX


@pytest.mark.parametrize("kind", POOLS)
def test_a_hello_of_made_up_certificates_costs_a_key_server_a_few_checks(kind: str) -> None:
    """A24, A74, A87: the same at the server that hands out keys."""
    net = KeyNet()
    authority = Authority(
        NetworkPattern(NETWORK_OWNER.principal, exact_name(NETWORK.name)), frozenset({Action.CONNECT})
    )
    genuine = passed_on(NETWORK_OWNER, MANAGER, authority)
    pool = stranger_pools(NETWORK_OWNER.principal, authority, genuine)[kind]()
    link = LinkId(1_000)
    net.server.handle(LinkOpened(link, STRANGER.principal, None), net.now)
    hello = Hello(PROTOCOL_VERSION, network_to_bytes(NETWORK), shown(pool[:256]), bytes(16), None)
    with counted() as costs:
        effects = net.server.handle(Received(link, encode(hello)), net.now)
    (said,) = [decode(effect.data) for effect in effects if isinstance(effect, Send)]
    assert isinstance(said, Bye)
    assert said.code == "POLICY-NO-CHAIN"
    assert costs.checks <= (FORGERIES_MAX if kind == "only forgeries" else 2)
    assert costs.read <= 1
    assert costs.steps < STEPS_MAX


def test_who_may_connect_and_shows_much_besides_costs_no_more_than_the_budget() -> None:
    """A24, A87: a genuine right that may not be passed on, and 250 certificates of one's own behind it."""
    net = Net()
    net.broker()
    right = net.cast.connect_right(STRANGER.principal)
    onward = passed_on(STRANGER, OWN_KEYS[0], connecting(net))
    mine = of_ones_own(connecting(net), STRANGER.principal, 254)
    with counted() as costs:
        peer = net.client("connect only", key=STRANGER, credentials=(right, onward, *mine))
    assert isinstance(peer.heard[-1], Welcome)
    assert (costs.checks, costs.read) == (1, 1)
    assert costs.steps < STEPS_MAX


def chain_to_stranger(net: Net, length: int) -> tuple[SignedCertificate, ...]:
    people = [net.cast.keys["PITO"]]
    people += [SigningKey.from_seed((7_000 + number).to_bytes(32, "big")) for number in range(length - 1)]
    return tuple(passed_on(one, other, connecting(net)) for one, other in pairwise([*people, STRANGER]))


@pytest.mark.parametrize(
    ("work", "length", "code"),
    [
        (4096, 64, None),  # the longest chain there may be, with what a broker allows unless told otherwise
        (16 * 20 + 8, 20, "POLICY-SEARCH-LIMIT"),  # enough to check it, not enough to search it
        (16 * 20 - 1, 20, "POLICY-SEARCH-LIMIT"),  # one check too few
        (4000, 20, None),
    ],
)
def test_the_budget_before_welcome_is_enough_for_any_honest_chain(
    work: int, length: int, code: str | None
) -> None:
    """A80, A87: at the edge and beyond; who is refused for it receives that, and not that it has no right."""
    net = Net(limits=BrokerLimits(work_before_welcome=work))
    net.broker()
    chain = chain_to_stranger(net, length)
    with counted() as costs:
        peer = net.client("far away", key=STRANGER, credentials=tuple(reversed(chain)))
    last = peer.heard[-1]
    assert (last.code if isinstance(last, Bye) else None) == code
    assert isinstance(last, Bye | Welcome)
    assert costs.checks <= work // 16


def test_who_may_pass_a_right_on_costs_no_more_than_the_budget_either() -> None:
    """A24, A87: a genuine right, and 250 certificates of one's own that do follow from it."""
    net = Net()
    net.broker()
    first = passed_on(net.cast.keys["PITO"], OWN_KEYS[0], connecting(net))
    mine = of_ones_own(connecting(net), STRANGER.principal, 254)
    with counted() as costs:
        peer = net.client("a far relative", key=STRANGER, credentials=(first, *mine))
    assert peer.heard[-1].code == "POLICY-SEARCH-LIMIT"
    work = BrokerLimits().work_before_welcome
    assert costs.checks <= work // 16
    # Checks have a budget beside that of the steps; the last step of each search is counted and not done.
    assert costs.steps <= 2 * work + 64


# ------------------------------------------------------------ the domain's interface


@pytest.fixture
def met(tmp_path: Path) -> Iterator[DomainAtWork]:
    with domain_at_work(tmp_path) as found:
        yield found


@pytest.mark.parametrize("kind", ["one forgery", "only forgeries"])
def test_made_up_certificates_in_a_header_cost_a_domain_a_few_checks(met: DomainAtWork, kind: str) -> None:
    """A24, A74, A87: ten strangers, and the revocation behind them finds a thread that has nothing to do."""
    authority = Authority(TopicPattern(met.key.principal, exact_name(AdminAct.CHANGE_RIGHTS.topic)), ADMIN)
    pool = stranger_pools(met.key.principal, authority, size=40)[kind]()
    nothing = bodies.Revocation(["00" * 32])
    with counted() as costs:
        for number in range(10):
            with met.client(f"stranger {number}", *pool) as stranger, pytest.raises(Refusal) as refused:
                stranger.call("POST", "/v1/revocations", nothing, answer=object)
            assert refused.value.code.startswith("POLICY-")
    # The signed request is one check, and so are the two rights that the domain itself lends the caller.
    assert costs.checks <= 10 * (3 + (FORGERIES_MAX if kind == "only forgeries" else 1))
    assert costs.read == 0
    assert costs.steps < 10 * STEPS_MAX
    with met.admin() as admin:
        assert admin.call("GET", "/v1/audit", answer=answers.AuditPage)


ADMIN = frozenset({Action.PUBLISH, Action.SUBSCRIBE})


# ------------------------------------------------------------ another broker


def rogue_broker(net: Net) -> NetClient:
    """Connect a key with nothing but a right to connect, which says that it is a broker."""
    credentials = (net.cast.broker_right(ROGUE),)
    return net.client("a rogue broker", key=ROGUE, credentials=credentials, address="rogue:1")


def reading(name: TypeName) -> Authority:
    pattern = TypePattern(name.owner, exact_name(name.name), None)
    return Authority(pattern, frozenset({Action.SUBSCRIBE, Action.PUBLISH}))


def wanted(net: Net, name: TypeName, pool: tuple[SignedCertificate, ...], number: int) -> Wanted:
    stranger = NetClient(net, STRANGER, ())
    stranger.stream = number.to_bytes(16, "big")
    request = stranger.request(Action.SUBSCRIBE, event_type=name, nonce=number.to_bytes(16, "big"))
    return Wanted(number.to_bytes(16, "big"), filter_to_bytes(ALWAYS), request, shown(pool[:256]))


@pytest.mark.parametrize("kind", ["one forgery", "only forgeries"])
def test_made_up_proofs_of_a_connected_broker_cost_a_few_checks_each(kind: str) -> None:
    """A24, A67, A87: interests and offers by certificates that no peer signed."""
    net = Net(verify_in_transit=1.0)
    running = net.broker()
    rogue, name = rogue_broker(net), net.cast.type_name
    pool = stranger_pools(name.owner, reading(name), size=60)[kind]()
    kind_of = type_id(name.owner, name.name)
    asked = [wanted(net, name, pool, number) for number in range(4)]
    offer = NetClient(net, STRANGER, ()).request(Action.PUBLISH)
    with counted() as costs:
        rogue.say(Interest(kind_of, asked, []))
        rogue.say(Offer(kind_of, True, offer, shown(pool)))
    assert len(running.noted("refused")) >= 1
    # Each has one signed request, and its forgeries.
    assert costs.checks <= 5 * (1 + (FORGERIES_MAX if kind == "only forgeries" else 1))
    assert not rogue.closed
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe())


def test_a_message_of_another_broker_takes_no_more_work_than_one_message_may() -> None:
    """A24, A87: interests in a type of the attacker's own, every one of them proved, and dear."""
    net = Net(verify_in_transit=1.0, limits=BrokerLimits(work_per_message=10_000))
    net.broker()
    rogue = rogue_broker(net)
    name = TypeName(ROGUE.principal, "mine", "0")
    first = passed_on(ROGUE, OWN_KEYS[0], reading(name))
    pool = (first, *of_ones_own(reading(name), STRANGER.principal, 250))
    asked = [wanted(net, name, pool, number) for number in range(20)]
    with counted() as costs:
        rogue.say(Interest(type_id(name.owner, name.name), asked, []))
    assert costs.steps < 3 * 10_000
    assert costs.checks <= 10_000 // 16
    assert isinstance(rogue.heard[-1], Bye)
    assert rogue.heard[-1].code == "PROTOCOL-TOO-MUCH-AT-ONCE"
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe())


def test_a_broker_that_causes_more_work_than_its_share_is_read_later() -> None:
    """A77, A87: counted by what its messages cost; others are answered at the same moment."""
    net = Net(verify_in_transit=1.0, limits=BrokerLimits(work_per_minute_and_broker=2_000))
    running = net.broker()
    rogue = rogue_broker(net)
    name = TypeName(ROGUE.principal, "mine", "0")
    pool = (passed_on(ROGUE, STRANGER, reading(name)),)
    for number in range(100):
        rogue.say(Interest(type_id(name.owner, name.name), [wanted(net, name, pool, number)], []))
        if "maia_links_slowed_total" in running.counts:
            break
    else:
        pytest.fail("nothing slows it down")
    assert 5 < number < 60
    assert not rogue.closed, "an honest broker with much to say is slowed down, and not cut off"
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe())
    slowed = running.counts["maia_links_slowed_total"]
    net.advance(61)
    rogue.say(Interest(type_id(name.owner, name.name), [wanted(net, name, pool, 1_000)], []))
    assert running.counts["maia_links_slowed_total"] == slowed


def test_a_broker_that_was_cut_off_for_its_work_does_not_come_back_without_debts() -> None:
    """A77, A87: neither the end of the link nor a new connection pays for a message that took too much."""
    limits = BrokerLimits(work_per_message=2_000, work_per_minute_and_broker=2_000)
    net = Net(verify_in_transit=1.0, limits=limits)
    running = net.broker()
    rogue = rogue_broker(net)
    name = TypeName(ROGUE.principal, "mine", "0")
    pool = (passed_on(ROGUE, STRANGER, reading(name)),)
    asked = [wanted(net, name, pool, number) for number in range(100)]
    rogue.say(Interest(type_id(name.owner, name.name), asked, []))
    assert rogue.closed
    assert "maia_links_slowed_total" not in running.counts
    again = rogue_broker(net)
    assert not again.closed
    assert running.counts["maia_links_slowed_total"] == 1, "it is welcome, and not read for now"


# ------------------------------------------------------------ a client that is welcome


def test_requests_that_cost_much_count_for_many() -> None:
    """A77, A87: a peer that may pass a right on can make its search dear, and pays for it with its quota."""
    net = Net(limits=BrokerLimits(requests_per_minute=60))
    net.broker()
    name = net.cast.type_name
    first = passed_on(net.cast.keys["PITO"], OWN_KEYS[0], reading(name))
    right = net.cast.connect_right(STRANGER.principal)
    client = net.client("an heir", key=STRANGER, credentials=(right,))
    codes = []
    for number in range(12):
        mine = of_ones_own(replace(reading(name)), STRANGER.principal, 100 + number)
        codes.append(client.code_of(client.subscribe(credentials=(first, *mine))))
    assert codes[0] == "POLICY-CONDITION-NOT-MET", "it was searched, and decided"
    assert codes[-1] == "UNAVAILABLE-REQUEST-QUOTA"
