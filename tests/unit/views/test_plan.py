"""A View is compiled within limits, and over columns that are what they were said to be."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from maia.credentials import SigningKey
from maia.credentials.authority import ALL_ATTRIBUTES, Transformation
from maia.events import Attribute, AttributeUid, BadAttribute, Kind
from maia.expressions.syntax import Arithmetic, ArithmeticSign, Constant, Rule, Take
from maia.policy.view import View, Window
from maia.predicates.syntax import (
    ALWAYS,
    DEPTH_MAX,
    NODES_MAX,
    AllOf,
    AnyOf,
    Comparison,
    Membership,
    Not,
    Operator,
    Predicate,
    PredicateTooLarge,
)
from maia.testing.refusals import raises
from maia.views import WINDOWS_MAX, ViewTooLarge, arrow_schema, to_arrow, to_python, to_sql

PLATE = AttributeUid("plate")
SPEED = AttributeUid("speed")
STORED = {PLATE: Kind.STRING, SPEED: Kind.INT}
DELIVERED = (Attribute("plate", PLATE, Kind.STRING),)


def compile_everywhere(view: View) -> None:
    to_python(view)
    to_arrow(view, STORED)
    to_sql(view, "events", STORED, DELIVERED)


def nested(depth: int) -> Predicate:
    predicate: Predicate = Comparison(SPEED, Operator.GT, 1)
    for level in range(depth - 1):
        other = Comparison(SPEED, Operator.NE, level)
        predicate = Not(predicate) if level % 3 == 0 else (AllOf, AnyOf)[level % 2]((predicate, other))
    return predicate


def all_windows(count: int, admits: Predicate = ALWAYS) -> View:
    return View(tuple(Window(admits, ALL_ATTRIBUTES) for _ in range(count)))


def test_the_largest_number_of_windows_is_compiled_and_one_more_is_refused():
    compile_everywhere(all_windows(WINDOWS_MAX))
    with pytest.raises(ViewTooLarge, match="256 windows"):
        compile_everywhere(all_windows(WINDOWS_MAX + 1))


def test_the_deepest_predicate_is_compiled_and_a_deeper_one_is_refused():
    compile_everywhere(all_windows(1, nested(DEPTH_MAX)))
    with pytest.raises(PredicateTooLarge):
        compile_everywhere(all_windows(1, nested(DEPTH_MAX + 1)))


def test_the_widest_predicate_is_compiled_and_one_part_more_is_refused():
    parts = tuple(Comparison(SPEED, Operator.NE, i) for i in range(NODES_MAX - 2))
    interest = parts[0]
    compile_everywhere(replace(all_windows(1, AnyOf(parts)), interest=interest))
    with pytest.raises(ViewTooLarge, match="10000 parts together"):
        compile_everywhere(replace(all_windows(1, AnyOf((*parts, parts[0]))), interest=interest))


def test_predicates_that_are_too_large_together_are_refused():
    half = Membership(SPEED, frozenset(range(NODES_MAX // 2)))
    with pytest.raises(ViewTooLarge, match="together"):
        compile_everywhere(all_windows(2, half))


def test_a_view_that_would_multiply_when_it_is_written_out_is_written_in_steps():
    long = AnyOf(tuple(Comparison(SPEED, Operator.EQ, i) for i in range(1000)))
    windows = (Window(long, frozenset({PLATE})), Window(ALWAYS, frozenset({SPEED})))
    interest = AllOf(tuple(Comparison(PLATE, Operator.NE, str(i)) for i in range(200)))
    query = to_sql(View(windows, interest), "events", STORED, DELIVERED)
    assert len(query.operands) < 4000
    assert "OFFSET 0" in query.text


def test_what_a_chain_comes_to_grows_with_its_links_and_no_faster():
    """I3: three links with three small rules each were too large for every executor but a broker."""
    speed = Take(SPEED, Kind.INT)
    rules = (
        Rule(SPEED, Arithmetic(ArithmeticSign.OVER, Arithmetic(ArithmeticSign.TIMES, speed, speed), speed)),
        Rule(SPEED, Constant(1), Comparison(SPEED, Operator.GT, 3)),
        Rule(PLATE, None, Comparison(SPEED, Operator.LT, 2)),
    )
    step = Transformation(SigningKey.from_seed(bytes(32)).principal, rules)
    sizes = {}
    for links in (2, 4, 8, 16):
        view = View((Window(ALWAYS, ALL_ATTRIBUTES, (step,) * links),))
        compile_everywhere(view)
        sizes[links] = len(to_sql(view, "events", STORED, DELIVERED).text)
    assert sizes[16] - sizes[8] <= 2.5 * (sizes[8] - sizes[4]) <= 6 * (sizes[4] - sizes[2])


def test_a_batch_with_another_type_than_it_was_said_to_have_is_refused():
    run = to_arrow(all_windows(1), STORED)
    with raises("INPUT-STORED-COLUMNS", match="`speed` of type `int64`"):
        run(pa.RecordBatch.from_pylist([{"plate": "a", "speed": 1.5}]))
    with raises("INPUT-STORED-COLUMNS", match="`plate`"):
        run(pa.RecordBatch.from_pylist([{"speed": 1}]))


def test_an_attribute_stored_as_another_kind_than_it_is_delivered_as_is_refused():
    for compile_view in (to_arrow, lambda *given: to_sql(given[0], "events", *given[1:])):
        with raises("INPUT-STORED-COLUMNS", match="is stored as int"):
            compile_view(all_windows(1), STORED, (Attribute("speed", SPEED, Kind.FLOAT),))


def test_delivered_names_that_differ_only_in_case_are_refused():
    clash = (Attribute("plate", PLATE, Kind.STRING), Attribute("Plate", SPEED, Kind.INT))
    with pytest.raises(BadAttribute, match="case"):
        to_sql(all_windows(1), "events", STORED, clash)


def test_a_view_that_shows_no_attribute_still_shows_that_something_happened():
    view = View((Window(Comparison(SPEED, Operator.GT, 1), frozenset()),))
    batch = pa.RecordBatch.from_pylist(
        [{"plate": "a", "speed": s} for s in (1, 2, 3)], schema=arrow_schema(STORED)
    )
    assert to_arrow(view, STORED)(batch).num_rows == 2
    assert to_python(view)({SPEED: 2}) == {}


def test_without_delivered_attributes_hidden_columns_are_dropped():
    view = View((Window(ALWAYS, frozenset({SPEED})),))
    batch = pa.RecordBatch.from_pylist([{"plate": "a", "speed": 1}], schema=arrow_schema(STORED))
    assert to_arrow(view, STORED)(batch).to_pylist() == [{"speed": 1}]
