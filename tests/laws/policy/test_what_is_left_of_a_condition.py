"""What a broker honestly leaves of a condition a border takes, and nothing that it cannot come to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maia.events import AttributeUid
from maia.policy.claims import needs_of
from maia.policy.facts import answered
from maia.predicates import NEVER, AllOf, AnyOf, Comparison, Not, Operator, Predicate
from maia.predicates.covering.covers import provably_empty
from maia.predicates.meaning import verdict

OF_EVENTS = ["ward", "dose", "publisher.clearance"]
OF_THE_WORLD = ["subscriber.clearance", "world.hour", "world.site"]
UIDS = [AttributeUid(uid) for uid in (*OF_EVENTS, *OF_THE_WORLD)]

questions = st.builds(
    Comparison,
    st.sampled_from(UIDS),
    st.sampled_from([Operator.EQ, Operator.LT, Operator.GE]),
    st.integers(0, 3),
)


def joined(some: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    parts = st.lists(some, max_size=3).map(tuple)
    return st.one_of(some.map(Not), parts.map(AllOf), parts.map(AnyOf))


conditions = st.recursive(questions, joined, max_leaves=8)
worlds = st.dictionaries(st.sampled_from(UIDS[len(OF_EVENTS) :]), st.integers(0, 3))
events = st.dictionaries(st.sampled_from(UIDS[: len(OF_EVENTS)]), st.integers(0, 3))


@given(conditions, worlds)
def test_what_answers_leave_is_taken_and_needs_nothing_that_they_are_not(
    said: Predicate, world: dict[AttributeUid, int]
) -> None:
    needs = needs_of(said, answered(said, world))
    assert not provably_empty(needs)
    assert verdict(needs, world) is True


@given(conditions, worlds, worlds, events)
def test_what_is_taken_is_what_the_condition_comes_to_in_such_a_world(
    said: Predicate,
    told_there: dict[AttributeUid, int],
    world: dict[AttributeUid, int],
    event: dict[AttributeUid, int],
) -> None:
    claimed = answered(said, told_there)
    if needs_of(said, claimed) != NEVER and verdict(needs_of(said, claimed), world) is True:
        told = verdict(claimed, event | world)
        assert told is None or told == verdict(said, event | world)
