"""One node's way into the overlay, step by step."""

from __future__ import annotations

import itertools

import pytest

from maia.routing.overlay.candidates import CandidateLimits
from maia.routing.overlay.membership import (
    Ask,
    Connect,
    Dropped,
    MembershipLimits,
    OverlayMembership,
    Spread,
)
from support.overlay import SECOND, Ring, contact, id_of

OWN = contact(0)


def newcomer(*seeds: int, **limits: int) -> OverlayMembership:
    return OverlayMembership(
        OWN,
        seeds=[contact(seed).address for seed in seeds],
        leaf_size=4,
        limits=MembershipLimits(**limits),
    )


def connected(*numbers: int) -> OverlayMembership:
    """Return a node that has joined, with links to these and all questions answered."""
    node = newcomer()
    node.start(0)
    for number in numbers:
        answer_all(node, node.confirmed(contact(number), 0))
    return node


def answer_all(node: OverlayMembership, steps, *contacts) -> list:
    """Answer every question with the same brokers; return the steps that are no questions."""
    others = []
    for step in steps:
        if isinstance(step, Ask):
            others += answer_all(node, node.reply(step.node, step.number, contacts, 0))
        else:
            others.append(step)
    return others


# ------------------------------------------------------------ joining


def test_the_first_broker_is_a_network_of_its_own():
    alone = newcomer()
    assert alone.start(0) == []
    assert alone.is_joined


def test_a_newcomer_connects_to_its_seeds_and_never_to_itself():
    node = newcomer(0, 1, 2)
    assert node.start(0) == [Connect(contact(1).address), Connect(contact(2).address)]
    assert not node.is_joined


def test_a_newcomer_asks_the_seed_who_is_near_and_connects_to_them():
    node = newcomer(1)
    node.start(0)
    steps = node.confirmed(contact(1), 0, dialled=contact(1).address)
    assert steps == [Ask(id_of(1), OWN.node, 1)]
    assert not node.is_joined
    steps = node.reply(id_of(1), 1, [contact(1), contact(2), OWN], 0)
    assert steps == [Connect(contact(2).address)]
    assert not node.is_joined
    (ask,) = [
        step for step in node.confirmed(contact(2), 0, dialled=contact(2).address) if isinstance(step, Ask)
    ]
    assert ask.node == id_of(2)
    node.reply(id_of(2), ask.number, [contact(1)], 0)
    assert node.is_joined
    assert node.overlay.leaf_set == {id_of(1), id_of(2)}


def test_a_newcomer_joins_although_a_name_it_was_given_is_dead():
    node = newcomer(1)
    node.start(0)
    node.confirmed(contact(1), 0, dialled=contact(1).address)
    assert node.reply(id_of(1), 1, [contact(2)], 0) == [Connect(contact(2).address)]
    node.dial_failed(contact(2).address, 0)
    assert node.is_joined


def test_seeds_that_do_not_answer_are_tried_again_with_growing_rests():
    node = newcomer(1)
    assert node.start(0) == [Connect(contact(1).address)]
    rests, now = [], 0
    for _ in range(9):
        assert node.dial_failed(contact(1).address, now) == []
        waking = node.wake_at(now)
        assert node.tick(waking - 1) == []
        while not (steps := node.tick(waking)):  # a refresh may be due first
            waking = node.wake_at(waking)
        assert steps == [Connect(contact(1).address)]
        rests.append((waking - now) // SECOND)
        now = waking
    assert rests == [1, 2, 4, 8, 16, 16, 16, 16, 16]


def test_a_dial_that_never_ends_counts_as_failed():
    node = newcomer(1)
    node.start(0)
    assert node.tick(14 * SECOND) == []
    assert node.tick(15 * SECOND) == []
    assert node.tick(16 * SECOND) == [Connect(contact(1).address)]


def test_a_seed_that_is_this_very_broker_is_not_learned():
    node = newcomer(1)
    node.start(0)
    node.confirmed(OWN, 0, dialled=contact(1).address)
    assert len(node.overlay) == 0


def test_a_question_without_an_answer_is_given_up_after_a_while():
    node = newcomer(1)
    node.start(0)
    node.confirmed(contact(1), 0, dialled=contact(1).address)
    node.tick(9 * SECOND)
    assert not node.is_joined
    node.tick(10 * SECOND)
    assert node.is_joined


@pytest.mark.parametrize(("node_number", "question"), [(1, 2), (1, 0), (2, 1)])
def test_an_answer_to_no_question_is_ignored(node_number, question):
    node = newcomer(1)
    node.start(0)
    node.confirmed(contact(1), 0)
    assert node.reply(id_of(node_number), question, [contact(3)], 0) == []
    assert node.candidates_waiting == 0


def test_an_answer_counts_once():
    node = newcomer(1)
    node.start(0)
    node.confirmed(contact(1), 0)
    node.reply(id_of(1), 1, [], 0)
    assert node.reply(id_of(1), 1, [contact(3)], 0) == []


# ------------------------------------------------------------ answering


def test_an_answer_names_confirmed_brokers_and_this_one_closest_first():
    node = connected(1, 2)
    answer = node.answer(id_of(2))
    assert answer[0] == contact(2)
    assert set(answer) == {OWN, contact(1), contact(2)}


def test_an_answer_is_bounded():
    node = newcomer(answer_max=2)
    for number in (1, 2, 3):
        node.confirmed(contact(number), 0)
    assert len(node.answer(OWN.node)) == 2


# ------------------------------------------------------------ losing and leaving


def test_a_lost_link_takes_the_node_out_and_asks_the_remaining_leaves():
    node = connected(1, 2, 3)
    steps = node.lost(id_of(1), 0)
    assert steps[0] == Dropped(id_of(1))
    assert id_of(1) not in node.overlay
    assert {step.node for step in steps if isinstance(step, Ask)} == {id_of(2), id_of(3)}
    assert Connect(contact(1).address) in steps


def test_a_lost_broker_that_comes_back_is_kept_again():
    node = connected(1, 2)
    node.lost(id_of(1), 0)
    node.confirmed(contact(1), 0, dialled=contact(1).address)
    assert id_of(1) in node.overlay


def test_a_lost_broker_is_tried_again_and_given_up_in_the_end():
    limits = MembershipLimits(candidates=CandidateLimits(tries_max=3))
    node = OverlayMembership(OWN, leaf_size=4, limits=limits)
    node.confirmed(contact(1), 0)
    tried, now, steps = 0, 0, node.lost(id_of(1), 0)
    while Connect(contact(1).address) in steps:
        tried += 1
        node.dial_failed(contact(1).address, now)
        waking = node.wake_at(now)
        if waking is None:
            break
        now, steps = waking, node.tick(waking)
    assert tried == 3
    assert node.candidates_waiting == 0


def test_a_broker_that_leaves_says_so_to_every_broker_linked():
    node = connected(1, 2)
    goodbyes = {Spread(id_of(1), OWN, False), Spread(id_of(2), OWN, False)}
    assert set(node.leave()) == goodbyes


def test_a_goodbye_is_believed_and_not_redialled():
    node = connected(1, 2)
    steps = node.heard(id_of(1), contact(1), False, 0)
    assert steps[0] == Dropped(id_of(1))
    assert not any(isinstance(step, Connect) for step in steps)
    assert node.lost(id_of(1), 0) == []


def test_a_failed_dial_does_not_remove_a_node_with_a_link():
    node = connected(1)
    node.dial_failed(contact(1).address, 0)
    assert id_of(1) in node.overlay


def test_where_nobody_comes_or_goes_refreshes_are_rare_until_somebody_does():
    node = connected(1, 2, 3)
    node.start(0)

    def has_asked(at: int) -> bool:
        asks = [step for step in node.tick(at * SECOND) if isinstance(step, Ask)]
        for ask in asks:  # what an answer leads to is answered as well
            asks += [
                step for step in node.reply(ask.node, ask.number, [], at * SECOND) if isinstance(step, Ask)
            ]
        return bool(asks)

    def refreshes(since: int, upto: int) -> list[int]:
        return [at for at in range(since, upto, 10) if has_asked(at)]

    assert refreshes(10, 500) == [30, 60, 120, 240, 360, 480]
    node.confirmed(contact(1), 500 * SECOND)
    assert refreshes(500, 620) == [600], "it was known already"
    node.lost(id_of(1), 620 * SECOND)
    assert refreshes(630, 720) == [650, 680]


def test_a_seed_that_was_not_there_yet_is_tried_until_it_is_although_others_have_come():
    node = newcomer(9)
    node.start(0)
    node.dial_failed(contact(9).address, 0)
    answer_all(node, node.confirmed(contact(1), 0))
    assert node.tick(SECOND - 1) == []
    assert node.wake_at(0) == SECOND
    assert node.tick(SECOND) == [Connect(contact(9).address)]
    answer_all(node, node.confirmed(contact(9), SECOND, dialled=contact(9).address))
    assert Connect(contact(9).address) not in node.tick(60 * SECOND)


def test_a_seed_that_said_goodbye_and_starts_again_is_called_since_it_may_know_of_nobody():
    node = newcomer(9)
    node.start(0)
    for number in (9, 1):
        answer_all(node, node.confirmed(contact(number), 0, dialled=contact(number).address))
    assert Connect(contact(9).address) not in node.heard(id_of(9), contact(9), False, 0)
    assert Connect(contact(9).address) in node.lost(id_of(9), 0)


def test_a_seed_too_far_away_to_be_kept_is_tried_at_times_in_case_the_network_was_split():
    node = OverlayMembership(
        OWN, seeds=[contact(9).address], leaf_size=4, limits=MembershipLimits(seed_every_s=60)
    )
    node.start(0)
    for number in range(1, 300):
        node.confirmed(contact(number), 0)
    assert id_of(9) not in node.overlay
    node.lost(id_of(9), 0)
    tried = [Connect(contact(9).address) in node.tick(i * 30 * SECOND) for i in range(1, 5)]
    assert tried == [False, True, False, True]


def test_a_linked_node_takes_the_place_of_one_that_is_lost_without_a_new_handshake():
    node = connected(*range(1, 30))
    linked = {id_of(number) for number in range(1, 30)}
    without = next(iter(node.overlay.leaf_set))
    node.lost(without, 0)
    after = OverlayMembership(OWN, leaf_size=4)
    for number in range(1, 30):
        if id_of(number) != without:
            after.confirmed(contact(number), 0)
    assert node.overlay.leaf_set == after.overlay.leaf_set
    assert not any(node.overlay.would_keep(other) for other in linked - {without})


def test_a_broker_that_said_goodbye_is_not_called_back_on_the_word_of_others():
    node = connected(1, 2)
    node.heard(id_of(1), contact(1), False, 0)
    assert node.heard(id_of(2), contact(1), True, 0) == []
    assert id_of(1) not in node.overlay


def test_a_second_seed_that_hangs_does_not_keep_a_newcomer_waiting():
    node = newcomer(1, 2)
    node.start(0)
    (ask,) = node.confirmed(contact(1), 0, dialled=contact(1).address)
    node.reply(id_of(1), ask.number, [], 0)
    assert node.is_joined


# ------------------------------------------------------------ gossip


def test_the_nearest_neighbours_of_an_arrival_send_their_leaves():
    node = connected(1)
    steps = node.confirmed(contact(2), 0)
    assert Spread(id_of(1), contact(2), True) in steps


def test_an_arrival_is_sent_once():
    node = connected(1, 2)
    assert not any(isinstance(step, Spread) for step in node.confirmed(contact(2), 0))


def test_hearsay_is_looked_into_and_not_passed_on():
    node = connected(1, 2)
    assert node.heard(id_of(1), contact(5), True, 0) == [Connect(contact(5).address)]


def test_the_death_of_a_linked_node_is_not_believed():
    node = connected(1, 2)
    assert node.heard(id_of(1), contact(2), False, 0) == []
    assert id_of(2) in node.overlay


def test_no_broker_without_a_link_is_listened_to():
    node = connected(1)
    assert node.heard(id_of(7), contact(8), True, 0) == []
    assert node.candidates_waiting == 0


def test_one_arrival_in_a_settled_network_costs_at_most_two_leaf_sets_of_gossip_and_its_own():
    ring = Ring(leaf_size=4)
    ring.add(0)
    for number in range(1, 12):
        ring.add(number, seeds=[0])
        ring.settle()
    ring.sent.clear()
    ring.add(12, seeds=[0])
    ring.settle()
    arrival = id_of(12)
    told_by_others = [step for step in ring.sent if isinstance(step, Spread) and step.about.node == arrival]
    assert len(told_by_others) <= 2 * 4


def test_a_broker_that_parts_from_us_at_once_again_and_again_is_dialled_less_and_less():
    """One of another version is met, breaks the protocol, and is met again: 800 lines of log in a minute."""
    node, dialled, now = newcomer(1), list[int](), 0
    node.start(now)
    while now < 120 * SECOND:
        answer_all(node, node.confirmed(contact(1), now, dialled=contact(1).address))
        steps = node.lost(contact(1).node, now + SECOND // 10)
        now += SECOND // 10
        while Connect(contact(1).address) not in steps:
            now = node.wake_at(now)
            steps = node.tick(now)
        dialled.append(now)
    waits = [(later - one) / SECOND for one, later in itertools.pairwise(dialled)]
    assert waits[0] < 2
    assert max(waits) > 15
    assert len(dialled) < 20


def test_a_link_that_stood_for_a_while_is_dialled_again_at_once():
    node = newcomer(1)
    node.start(0)
    now = 0
    for _ in range(5):
        answer_all(node, node.confirmed(contact(1), now, dialled=contact(1).address))
        now += 10 * SECOND
        assert Connect(contact(1).address) in node.lost(contact(1).node, now)
