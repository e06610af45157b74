"""A broker that lies about others gains no place, no routes and little of our time."""

from __future__ import annotations

from hashlib import sha256

from maia.routing.overlay.candidates import CandidateLimits
from maia.routing.overlay.membership import Ask, Connect, Contact, MembershipLimits, OverlayMembership
from maia.routing.overlay.table import closeness
from support.overlay import SECOND, Ring, contact, id_of

LIMITS = MembershipLimits(candidates=CandidateLimits(waiting_per_teller=32, waiting_max=100))
OWN, LIAR = contact(0), contact(1)


def invented(count: int, *, address: str | None = None) -> list[Contact]:
    """Return brokers that do not exist, under fresh keys; the liar may choose where they stand."""
    return [
        Contact.of(sha256(b"nobody %d" % number).digest(), address or f"10.66.0.1:{number}")
        for number in range(count)
    ]


def victim_of(liar: Contact) -> tuple[OverlayMembership, Ask]:
    """Return a node that has just asked the liar who its neighbours are."""
    node = OverlayMembership(OWN, limits=LIMITS)
    (ask,) = node.confirmed(liar, 0)
    return node, ask


def dialled(steps) -> list[str]:
    return [step.address for step in steps if isinstance(step, Connect)]


def test_an_invented_broker_enters_no_table_and_no_answer():
    """A67: what a peer says about others is a claim; only a handshake makes a neighbour of a name."""
    node, ask = victim_of(LIAR)
    lies = invented(500)
    node.reply(LIAR.node, ask.number, lies, 0)
    assert set(node.overlay.nodes) == {LIAR.node}
    assert set(node.answer(OWN.node)) == {OWN, LIAR}
    assert all(node.overlay.next_hop(lie.node) in {None, LIAR.node} for lie in lies)


def test_one_liar_has_a_bounded_share_of_what_waits():
    """A77: an answer of any length, again and again, keeps no more than one teller's share waiting."""
    node, ask = victim_of(LIAR)
    node.reply(LIAR.node, ask.number, invented(5000), 0)
    for lie in invented(5000):
        node.heard(LIAR.node, lie, True, 0)
    assert node.candidates_waiting <= LIMITS.candidates.waiting_per_teller


def test_all_liars_together_have_a_bounded_share_of_what_waits():
    """A76: many tellers do not add up to unbounded memory either."""
    node = OverlayMembership(OWN, limits=LIMITS)
    lies = iter(invented(2000))
    for number in range(1, 13):
        node.confirmed(contact(number), 0)
        for _ in range(100):
            node.heard(id_of(number), next(lies), True, 0)
    assert node.candidates_waiting <= LIMITS.candidates.waiting_max


def test_a_liar_causes_few_connections_at_a_time():
    """A74: names are tried a few at once, and each failure frees one place only."""
    node, ask = victim_of(LIAR)
    at_once = LIMITS.candidates.dials_at_once
    first = dialled(node.reply(LIAR.node, ask.number, invented(500), 0))
    assert len(first) == at_once
    assert len(dialled(node.dial_failed(first[0], 0))) == 1
    assert dialled(node.heard(LIAR.node, contact(9), True, 0)) == []


def test_a_thousand_names_at_one_address_cause_one_connection():
    """A74: brokers are not turned against a victim's address by pointing invented names at it."""
    node, ask = victim_of(LIAR)
    lies = invented(1000, address="192.0.2.1:443")
    steps = node.reply(LIAR.node, ask.number, lies, 0)
    assert dialled(steps) == ["192.0.2.1:443"]
    assert dialled(node.dial_failed("192.0.2.1:443", 0)) == []
    assert node.candidates_waiting == 0
    tries = 0
    for moment in range(60):
        for lie in lies[:50]:
            steps = node.heard(LIAR.node, lie, True, moment * SECOND)
            tries += len(dialled(steps))
            if dialled(steps):
                node.dial_failed("192.0.2.1:443", moment * SECOND)
    assert tries <= 6  # after 1, 2, 4, 8, 16 and 32 seconds


def test_a_peer_that_answers_under_another_name_counts_as_itself():
    """A9: the handshake says who listens there; the name that the liar gave for the address is dropped."""
    node, ask = victim_of(LIAR)
    claimed = Contact.of(b"\x07" * 32, contact(5).address)
    assert dialled(node.reply(LIAR.node, ask.number, [claimed], 0)) == [contact(5).address]
    node.confirmed(contact(5), 0, dialled=contact(5).address)
    assert claimed.node not in node.overlay
    assert node.candidates_waiting == 0
    assert id_of(5) in node.overlay


def test_honest_names_are_tried_before_those_of_a_liar():
    """A77: after the first false names, the liar's come last, however close they pretend to stand."""
    node = OverlayMembership(OWN, limits=LIMITS)
    (ask,) = node.confirmed(LIAR, 0)
    close = sorted(invented(2000), key=lambda lie: closeness(lie.node, OWN.node))[:30]
    steps = node.reply(LIAR.node, ask.number, close, 0)
    (honest_ask,) = [step for step in node.confirmed(contact(2), 0) if isinstance(step, Ask)]
    node.reply(id_of(2), honest_ask.number, [contact(3)], 0)
    assert contact(3).address in dialled(node.dial_failed(dialled(steps)[0], 0))


def test_no_peer_can_declare_another_peer_dead():
    """A67: a death is seen on one's own link, or found out by dialling; rumours remove no peer."""
    node = OverlayMembership(OWN, limits=LIMITS)
    for number in (1, 2, 3):
        node.confirmed(contact(number), 0)
    for number in (2, 3):
        node.heard(LIAR.node, contact(number), False, 0)
    assert {id_of(2), id_of(3)} <= set(node.overlay.nodes)


def test_a_rumour_cannot_move_a_broker_to_another_address():
    """A67: the address of a confirmed broker is the one that it gave itself."""
    node = OverlayMembership(OWN, limits=LIMITS)
    node.confirmed(LIAR, 0)
    node.confirmed(contact(2), 0)
    node.heard(LIAR.node, Contact.of(contact(2).key, "192.0.2.1:443"), True, 0)
    assert node.contact(id_of(2)) == contact(2)


def test_verified_newcomers_do_not_push_out_those_who_serve():
    """A77: keys made to stand at one prefix find its place taken; the holder stays until it is gone."""
    node = OverlayMembership(OWN, leaf_size=2)
    for number in range(1, 200):
        node.confirmed(contact(number), 0)
    holders = set(node.overlay.table.values())
    for number in range(200, 1000):
        node.confirmed(contact(number), 0)
    assert holders <= set(node.overlay.table.values())


def test_an_honest_network_forms_although_every_fourth_broker_invents_neighbours():
    """A76: lies cost some failed dials; the leaf sets come out right."""
    ring = Ring(3, leaf_size=8)
    ring.add(0)
    for number in range(1, 24):
        node = ring.add(number, seeds=[0])
        if number % 4 == 0:
            truth, lies = node.answer, tuple(invented(100))
            node.answer = lambda target, truth=truth, lies=lies: (*lies, *truth(target))
        ring.settle()
    ring.pass_time(120)
    assert ring.wrong_leaf_sets() == {}
