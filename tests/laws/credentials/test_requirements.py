"""A requirement means one thing: to its definition, to a page of reference, and as a part of a filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials.requirements import (
    checked_requirement,
    is_met,
    joined_with_filter,
    parse_requirement,
    requirement_from_bytes,
    requirement_to_bytes,
    seen_with_publisher,
)
from maia.events import AttributeUid, Kind, frame_of
from maia.predicates import ALWAYS, Comparison, Operator, covers
from maia.predicates.meaning import admitted_rows
from maia.routing.matching.index import MatchIndex
from maia.testing.refusals import raises
from maia.wire.names import filter_from_bytes, filter_to_bytes
from reference import requirements as reference

NAMES = ("nationality", "clearance", "on-duty", "rank")
VALUES = st.one_of(st.sampled_from(("uk", "no", "")), st.integers(-2, 4), st.booleans())
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@st.composite
def one_question(draw: st.DrawFn) -> reference.Requirement:
    name, value = draw(st.sampled_from(NAMES)), draw(VALUES)
    signs = ("==", "!=") if isinstance(value, bool) else ("==", "!=", ">=", "<")
    return (name, draw(st.sampled_from(signs)), value)


def combined(inner: st.SearchStrategy[reference.Requirement]) -> st.SearchStrategy[reference.Requirement]:
    several = st.lists(inner, min_size=0, max_size=3)
    return st.one_of(
        st.builds(lambda parts: ("and", *parts), several),
        st.builds(lambda parts: ("or", *parts), several),
        st.builds(lambda part: ("not", part), inner),
    )


PLAIN = st.recursive(one_question(), combined, max_leaves=6)
"""Without `exists`, which a requirement may not deny."""
REQUIREMENTS = st.one_of(
    PLAIN,
    st.builds(lambda name, part: ("and", ("exists", name), part), st.sampled_from(NAMES), PLAIN),
    st.builds(lambda name, part: ("or", ("exists", name), part), st.sampled_from(NAMES), PLAIN),
)


def uids(attributes: reference.Attributes) -> dict[AttributeUid, object]:
    return {AttributeUid(name): value for name, value in attributes.items()}


@pytest.mark.laws
@given(REQUIREMENTS, ATTRIBUTES)
def test_a_requirement_is_met_as_the_reference_says(required, attributes):
    requirement = parse_requirement(reference.written(required))
    assert is_met(requirement, uids(attributes)) is reference.meets(required, attributes)
    assert requirement_from_bytes(requirement_to_bytes(requirement)) == requirement


@pytest.mark.laws
@given(REQUIREMENTS, ATTRIBUTES, st.sets(st.sampled_from(NAMES)))
def test_who_shows_fewer_attributes_never_meets_more(required, attributes, left_out):
    """A98: to leave a statement out, or a part of it, opens nothing."""
    requirement = parse_requirement(reference.written(required))
    fewer = {name: value for name, value in attributes.items() if name not in left_out}
    assert is_met(requirement, uids(attributes)) or not is_met(requirement, uids(fewer))


@pytest.mark.laws
@given(REQUIREMENTS, ATTRIBUTES, st.integers(0, 9), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_joined_with_a_filter_it_admits_what_both_admit(required, attributes, least, speeds):
    """Matched by column, by index, and after it has travelled between brokers."""
    requirement, speed = parse_requirement(reference.written(required)), AttributeUid("speed")
    wanted = Comparison(speed, Operator.GE, least)
    joined = filter_from_bytes(filter_to_bytes(joined_with_filter(wanted, requirement)))
    frame = frame_of([{speed: one} for one in speeds], {speed: Kind.INT})
    seen = seen_with_publisher(frame, uids(attributes))
    expected = [
        row for row, one in enumerate(speeds) if one >= least and reference.meets(required, attributes)
    ]
    assert list(admitted_rows(joined, seen)) == expected
    index: MatchIndex[str] = MatchIndex()
    index.add("it", joined)
    assert list(index.match_frame(seen).get("it", [])) == expected
    assert covers(wide=wanted, narrow=joined)


@pytest.mark.parametrize(
    "text", ["not exists(clearance)", "clearance >= 3 or not (exists(rank))", "not (all(exists(rank), true))"]
)
def test_what_asks_for_a_missing_attribute_is_refused(text):
    with raises("INPUT-REQUIREMENT"):
        parse_requirement(text)


@pytest.mark.parametrize(
    "data", [b"(3:and)", b"(2:==19:publisher.clearance(3:int1:3))", b"(6:exists4:rank", b"x"]
)
def test_only_the_one_form_of_a_requirement_is_read(data):
    """Not the empty one, none about reserved attributes, none that is cut off."""
    with raises("PROTOCOL-REQUIREMENT"):
        requirement_from_bytes(data)


def test_a_requirement_is_short():
    assert checked_requirement(ALWAYS) == ALWAYS
    with raises("INPUT-REQUIREMENT"):
        parse_requirement(f'nationality == "{"x" * 4096}"')
