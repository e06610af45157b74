"""A requirement means one thing: to its definition, to a page of reference, and as a part of a filter."""

from __future__ import annotations

import operator

import pytest
from hypothesis import assume, given
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
from maia.predicates import ALWAYS, Comparison, Operator, covers, format_predicate
from maia.predicates.attribute_pairs import with_pairs
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


SIGNS = {"==": "eq", "!=": "ne", ">=": "ge", "<": "lt", "<=": "le", ">": "gt"}


@pytest.mark.laws
@given(
    st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(sorted(SIGNS)), ATTRIBUTES, st.booleans()
)
def test_two_attributes_of_a_statement_compare_as_their_values_do(left, right, sign, attributes, denied):
    """I10: also as a part of a filter that has travelled; unknown where one is missing or of another kind."""
    assume(left != right)
    text = f"{left} {sign} {right}"
    requirement = parse_requirement(f"not ({text})" if denied else text)
    one, other = attributes.get(left), attributes.get(right)
    is_known = one is not None and other is not None and type(one) is type(other)
    expected = is_known and getattr(operator, SIGNS[sign])(one, other) is not denied
    paired = with_pairs(uids(attributes))
    assert is_met(requirement, paired) is expected
    assert requirement_from_bytes(requirement_to_bytes(requirement)) == requirement
    assert parse_requirement(format_predicate(requirement)) == requirement
    joined = filter_from_bytes(filter_to_bytes(joined_with_filter(ALWAYS, requirement)))
    index = MatchIndex[str]()
    index.add("wanted", joined)
    frame = seen_with_publisher(
        frame_of([{AttributeUid("speed"): 1}], {AttributeUid("speed"): Kind.INT}), paired
    )
    assert ("wanted" in index.match_frame(frame)) is expected


def test_the_words_of_the_paper_mean_what_ours_mean():
    """I10: Gismo 3.1 and figure 2, as printed."""
    anna = with_pairs(uids({"nationality": "uk", "sec-clearance": "NATO secret", "releasable-to": "uk no"}))
    same = {
        '(nationality="uk") or\n(sec_clearance="NATO secret")': (
            'nationality == "uk" or sec-clearance == "NATO secret"'
        ),
        "nameexists sec_clearance": "exists(sec-clearance)",
        'releasable_to hastoken "no"': 'token(releasable-to, "no")',
        'hastoken(releasable_to, "no")': 'token(releasable-to, "no")',
        '"no" ismember releasable_to': 'token(releasable-to, "no")',
        'sec_clearance substring "secret"': 'contains(sec-clearance, "secret")',
        'nationality ismember ("uk", "no")': 'nationality in ("uk", "no")',
        '"uk" == nationality': 'nationality == "uk"',
    }
    for theirs, ours in same.items():
        assert parse_requirement(theirs) == parse_requirement(ours)
        assert is_met(parse_requirement(theirs), anna)
    assert is_met(parse_requirement("nationality ismember releasable_to"), anna)
    assert not is_met(parse_requirement("sec_clearance ismember releasable_to"), anna)
    with raises("INPUT-REQUIREMENT"):
        parse_requirement("not nameexists clearance")


@pytest.mark.parametrize(
    ("mirrored", "same"),
    [
        ("3 <= clearance", "clearance >= 3"),
        ("-0.5 < trust", "trust > -0.5"),
        ("true == trained", "trained == true"),
        ("false != trained and true", "trained != false and true"),
        ("@2026-11-15T08:30:00Z < since", "since > @2026-11-15T08:30:00Z"),
        ('x"beef" == badge', 'badge == x"beef"'),
        ("0xbeef == badge", 'badge == x"beef"'),
        ("not (true == trained or false)", "not (trained == true or false)"),
        ("true-blue == 1", "#true-blue == 1"),
    ],
)
def test_a_literal_of_any_kind_stands_on_the_left_too(mirrored, same):
    assert parse_requirement(mirrored) == parse_requirement(same)


@pytest.mark.parametrize("text", ["true ==", "true == false", "@2026-11-15T08:30:00Z", "true < trained", "x"])
def test_a_literal_on_the_left_is_compared_with_an_attribute(text):
    with raises("INPUT-PREDICATE-TEXT"):
        parse_requirement(text)


def test_of_a_statement_with_very_many_attributes_none_are_paired():
    """A87: pairs grow with the square; what is not derived satisfies nothing."""
    many = uids({f"a{number}": 1 for number in range(17)})
    assert with_pairs(many) == many
    assert not is_met(parse_requirement("a1 == a2"), with_pairs(many))
    assert is_met(parse_requirement("a1 == a2"), with_pairs(uids({"a1": 1, "a2": 1})))
