"""What a peer shows beside its requests: what it costs, what it changes, and who makes room for it."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.broker.sessions.identities import price_of_showing
from maia.broker.streams import state_query as current_state
from maia.credentials import Action, SignedCertificate, SigningKey, TestKind, statement_to_bytes
from maia.testing import Statements, shown
from maia.types import validity_type_id
from maia.wire.messages import AskState, Show, StateQuery, StateTold
from support.numberplate import LOCATION, NUMBERPLATE, TIMESTAMP, Net, sighting
from support.one_time import pool_with

BILLING, CCS, MET = "billing office", "CCS broker", "Met broker"
TESTERS = [SigningKey.from_seed(bytes([number]) * 32) for number in range(90, 96)]
WIDE = frozenset({NUMBERPLATE, TIMESTAMP, LOCATION})


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def right_vouched_for_by(net: Net, tester: SigningKey, who: str) -> SignedCertificate:
    """Return a right to see more, which counts while somebody vouches for it whom nobody here knows."""
    to = net.cast.principal(who)
    named = {"test": TestKind.TIMED_CRL, "attributes": WIDE, "by": tester.principal}
    return net.cast.grant("CCS", to, net.cast.definition, Action.SUBSCRIBE, **named)


def test_showing_certificates_costs_as_much_as_deciding_again_what_stands(net: Net) -> None:
    """A74: whoever has many entries cannot have all of them decided again for the price of one request."""
    billing = net.client(BILLING)
    for _ in range(6):
        billing.subscribe()
    link = net.brokers[CCS].parts.links[billing.link]
    assert price_of_showing(link, Show(1, [b"a certificate"], [])) == 1 + 6 // 2
    assert price_of_showing(link, Show(1, [], [b"a statement"])) == 1


def test_a_certificate_and_the_word_that_it_demands_count_when_they_are_shown_together(net: Net) -> None:
    """P7: rights widen by one message; nobody had a reason to listen to this tester before it."""
    billing, camera = net.client(BILLING), net.client("camera at Victoria")
    ref, offer = billing.subscribe(), camera.advertise()
    word = Statements(TESTERS[0]).list_for(net.now, 60)
    billing.say(
        Show(901, shown([right_vouched_for_by(net, TESTERS[0], BILLING)]), [statement_to_bytes(word)])
    )
    camera.publish(offer, sighting())
    assert [set(event) for event in billing.events(ref)] == [WIDE]


def test_a_revocation_counts_even_if_the_peer_that_shows_it_is_refused(net: Net) -> None:
    """P7: whose right it ends is told so at once, and nobody has to wait for a lease."""
    right = net.cast.grant(
        "CCS", net.cast.principal(BILLING), net.cast.definition, Action.SUBSCRIBE, test=None
    )
    billing = net.client(BILLING, credentials=pool_with(net, right))
    ref = billing.subscribe()
    assert billing.was_accepted(ref)
    says = Statements(net.cast.keys["CCS"])
    says.revoked.add(right.id)
    stranger = net.client("stranger", key=TESTERS[0], says_hello=False)
    stranger.say(Show(0, [], [statement_to_bytes(says.list_now())]))
    stranger.hello()
    assert stranger.bye == "POLICY-NO-CHAIN"
    assert billing.ended_with(ref) == "POLICY-REVOKED"


def test_the_stream_of_somebody_who_had_to_make_room_is_wanted_no_more() -> None:
    """A74: people who never speak are named in turn, and the broker asks for one stream at a time."""
    net = Net(limits=BrokerLimits(statement_issuers=1))
    net.broker()
    net.broker(MET, seeds=[CCS])
    stranger = net.client("Detective Smith")
    for tester in TESTERS:
        stranger.subscribe(credentials=[right_vouched_for_by(net, tester, "Detective Smith")])
    wanted = net.brokers[CCS].broker.status(net.now)["rendezvous"]
    streams = [validity_type_id(tester.principal).hex() for tester in TESTERS]
    assert [one in wanted for one in streams] == [False] * 5 + [True]


def test_questions_that_wait_for_others_are_few_and_whoever_asks_beyond_is_told_so(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A74: the answer comes at once, and says that it may not be everything."""
    monkeypatch.setattr(current_state, "_QUESTIONS_MAX", 0)
    net.broker(MET, seeds=[CCS])
    net.client("camera at Victoria", MET).advertise()
    billing = net.client(BILLING)
    billing.say(AskState(99, billing.subscribe()))
    assert billing.last(StateTold).is_whole is False
    assert not any(isinstance(message, StateQuery) for _, _, message in net.carried)
