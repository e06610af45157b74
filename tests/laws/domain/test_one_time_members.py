"""Whatever happens, no peer holds the newest key for longer than a lease after it was last confirmed.

The reference is one number for each member, the moment of the last answer that
was brought, and the set of rights that were revoked. It knows nothing of
epochs, links, questions or back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maia.credentials import SignedStatement
from maia.events import Instant
from maia.validity import OneTimeQuestion
from support.key_groups import PLATE, SECOND
from support.one_time_keys import LEASE_S, OneTimeNet, reading, revoked, vouches
from support.random_cases import usually

NAMES = ("one", "two")
Step: TypeAlias = tuple[str, str, float]


class Reference:
    """Who was confirmed last when, and whose right is gone."""

    def __init__(self, net: OneTimeNet) -> None:
        self.net = net
        self.refuses: set[str] = set()
        self.is_gone: set[str] = set()
        self.was_disturbed: set[str] = set()
        self.vouched_at: dict[str, Instant] = {}
        net.answering = {name: self.answering(name) for name in NAMES}

    def answering(self, name: str) -> Callable[[OneTimeQuestion], SignedStatement | None]:
        def answer(question: OneTimeQuestion) -> SignedStatement | None:
            if name in self.refuses:
                return None
            self.vouched_at[name] = self.net.now
            return vouches(question)

        return answer

    def may_hold(self, name: str) -> bool:
        last = self.vouched_at.get(name)
        is_fresh = last is not None and self.net.now - last <= LEASE_S * SECOND
        return is_fresh and name not in self.is_gone

    def must_hold(self, name: str) -> bool:
        return name not in self.was_disturbed | self.is_gone


def done(net: OneTimeNet, reference: Reference, step: Step) -> None:
    what, name, seconds = step
    if what != "wait":
        reference.was_disturbed |= set(NAMES) if what == "restart" else {name}
    match what:
        case "refuse":
            reference.refuses.add(name)
        case "vouch":
            reference.refuses.discard(name)
        case "revoke" if name not in reference.is_gone:
            reference.is_gone.add(name)
            number = len(reference.is_gone)
            net.tell_server(revoked(number, *(reading(one, PLATE) for one in sorted(reference.is_gone))))
        case "cut":
            net.cut_off(net.members[name])
        case "join":
            net.cut_off(net.members[name], is_cut_off=False)
        case "restart":
            net.restart_server()
    net.run(seconds)


def steps() -> st.SearchStrategy[list[Step]]:
    what = st.sampled_from(["wait", "refuse", "vouch", "revoke", "cut", "join", "restart"])
    waits = st.sampled_from([0.0, 1.0, 14.0, 29.0, 31.0, 61.0])
    return st.lists(st.tuples(what, st.sampled_from(NAMES), waits), max_size=10)


@pytest.mark.laws
@settings(max_examples=usually(5, laws=20))  # each one lets minutes pass at a server and two members
@given(steps())
@example([("refuse", "one", 31.0), ("vouch", "one", 61.0)])
@example([("cut", "one", 29.0), ("restart", "two", 61.0), ("join", "one", 14.0)])
@example([("refuse", "one", 14.0), ("revoke", "two", 31.0), ("restart", "one", 1.0)])
def test_no_peer_holds_the_newest_key_who_was_not_confirmed_within_a_lease(taken: list[Step]) -> None:
    """A30, A39: and a peer that was, throughout, holds it at every moment."""
    net = OneTimeNet()
    reference = Reference(net)
    members = {name: net.member(name, reading(name, PLATE)) for name in NAMES}
    for step in taken:
        done(net, reference, step)
        for name, member in members.items():
            assert not net.holds(member, PLATE) or reference.may_hold(name), (name, step)
            assert net.holds(member, PLATE) or not reference.must_hold(name), (name, step)
