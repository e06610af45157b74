"""A value that one system reads differently opens no door in any of them.

Every claim is put to the Python closure, Arrow, PostgreSQL and Spark, and to
the definition that they all follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import (
    Attribute,
    AttributeUid,
    BadValue,
    Instant,
    Kind,
    PresentValue,
    checked_event,
    frame_of,
)
from maia.policy.view import View, Window
from maia.predicates.syntax import (
    AllOf,
    BadPredicate,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)
from maia.views import to_arrow, to_sql
from maia.views.to_spark import to_spark
from support.executors import ArrowExecutor, PostgresExecutor, PythonExecutor, SparkExecutor
from support.view_cases import Batch, Executor, assert_agrees, expected_answers

ROW, X = AttributeUid("row"), AttributeUid("x")
EQ, NE, LT, LE, GT, GE = Operator


@pytest.fixture(scope="module")
def executors(postgres_server: str, spark: SparkSession) -> Iterator[Sequence[Executor]]:
    """All four executors, Spark with generated code."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        yield (
            PythonExecutor(),
            ArrowExecutor(),
            PostgresExecutor(connection),
            SparkExecutor(spark, generated=True),
        )
    spark.conf.unset("spark.sql.optimizer.excludedRules")


def admitted(
    executors: Sequence[Executor], kind: Kind, values: Sequence[PresentValue | None], *asked: Predicate
) -> list[list[PresentValue | None]]:
    """Return the values that each predicate admits, after all executors have agreed on it."""
    events = [{ROW: row} if value is None else {ROW: row, X: value} for row, value in enumerate(values)]
    views = tuple(View((Window(predicate, ALL_ATTRIBUTES),)) for predicate in asked)
    delivered = (Attribute("row", ROW, Kind.INT), Attribute("x", X, kind))
    batch = Batch(views, tuple(events), delivered, {ROW: Kind.INT, X: kind})
    for executor in executors:
        assert_agrees(executor, batch)
    return [[values[row] for row in sorted(answer)] for answer in expected_answers(batch)]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_enter_neither_as_a_value_nor_as_a_literal(number: float):
    """A56: NaN is greater than everything in Spark and than nothing in Python, so it exists nowhere."""
    with pytest.raises(BadValue):
        checked_event({X: number}, {X: Kind.FLOAT})
    with pytest.raises(BadValue):
        frame_of([{X: number}], {X: Kind.FLOAT})
    with pytest.raises(BadPredicate):
        Comparison(X, GT, number)
    with pytest.raises(BadPredicate):
        Membership(X, frozenset({1.0, number}))


def test_integers_beyond_the_precision_of_a_double_stay_apart(executors: Sequence[Executor]):
    """A57: 2^53 and 2^53+1 are one double; an int column never becomes one."""
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    answers = admitted(
        executors, Kind.INT, values,
        Comparison(X, EQ, 2**53), Comparison(X, GT, 2**53), Membership(X, frozenset({2**53 + 1})),
        Comparison(X, EQ, float(2**53)), Not(Comparison(X, EQ, float(2**53))), Comparison(X, LE, 1e300),
        Comparison(X, EQ, 2**63 - 1), Comparison(X, LT, -(2**63) + 1),
    )  # fmt: skip
    assert answers == [
        [2**53], [2**53 + 1, 2**63 - 1], [2**53 + 1],
        [], [], [],
        [2**63 - 1], [-(2**63)],
    ]  # fmt: skip


def test_a_number_never_meets_a_text_that_looks_like_it(executors: Sequence[Executor]):
    """A58: `'10' = 10` and `'10 ' = 10` hold in Spark; here neither they nor their opposites do."""
    ten = Comparison(X, EQ, 10)
    answers = admitted(
        executors, Kind.STRING, ["10", "10 ", " 10", "1e1", "true"],
        ten, Not(ten), Comparison(X, LT, 11), Membership(X, frozenset({10, 11})), Comparison(X, EQ, True),
        Comparison(X, EQ, "10"),
    )  # fmt: skip
    assert answers == [[], [], [], [], [], ["10"]]


@pytest.mark.parametrize(("kind", "values"), [(Kind.INT, [0, 1]), (Kind.FLOAT, [0.0, 1.0])])
def test_a_truth_value_never_meets_a_number(
    executors: Sequence[Executor], kind: Kind, values: list[PresentValue]
):
    """A58: `True == 1` holds in Python; here neither it nor its opposite does."""
    true = Comparison(X, EQ, True)
    assert admitted(executors, kind, values, true, Not(true), Membership(X, frozenset({True}))) == [
        [],
        [],
        [],
    ]
    one = Comparison(X, EQ, values[1])
    assert admitted(executors, Kind.BOOL, [False, True], one, Not(one), true) == [[], [], [True]]


def test_a_missing_value_passes_no_question_and_no_denial(executors: Sequence[Executor]):
    """A59: `not (class == "secret")` does not admit an event without a class; empty is not missing."""
    secret = Comparison(X, EQ, "secret")
    answers = admitted(
        executors, Kind.STRING, [None, "", "secret", "open"],
        Not(secret), Comparison(X, NE, "secret"), Not(Membership(X, frozenset({"secret", "other"}))),
        Not(AllOf((secret, Exists(X)))), Not(TextMatch(X, TextTest.PREFIX, "s")), Exists(X), Not(Exists(X)),
        Comparison(X, EQ, ""), TextMatch(X, TextTest.CONTAINS, ""),
    )  # fmt: skip
    assert answers == [
        ["", "open"], ["", "open"], ["", "open"],
        [None, "", "open"], ["", "open"], ["", "secret", "open"], [None],
        [""], ["", "secret", "open"],
    ]  # fmt: skip


TEXTS = [
    "B",
    "a",
    "é",
    "e\u0301",
    "É",
    "ß",
    "ss",
    "I",
    "ı",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "a ",
    "ａ",
]


def test_text_is_ordered_by_code_point_everywhere(executors: Sequence[Executor]):
    """A60: no locale, no case, no normal form, and no surrogates below U+E000."""
    answers = admitted(executors, Kind.STRING, TEXTS, *(Comparison(X, LT, text) for text in TEXTS))
    for text, smaller in zip(TEXTS, answers, strict=True):
        assert {*smaller} == {other for other in TEXTS if [*map(ord, other)] < [*map(ord, text)]}


def test_text_equals_itself_alone_everywhere(executors: Sequence[Executor]):
    """A60: NFC and NFD, upper and lower case, wide and narrow letters are different texts."""
    answers = admitted(executors, Kind.STRING, TEXTS, *(Comparison(X, EQ, text) for text in TEXTS))
    assert answers == [[text] for text in TEXTS]


def test_letters_of_several_bytes_are_single_letters_in_every_question(executors: Sequence[Executor]):
    """A60: the end of a text is counted in letters, and half a letter is never matched."""
    values = ["aé", "é", "aé\U00010000", "e\u0301", "\U00010000é", "é a"]
    answers = admitted(
        executors, Kind.STRING, values,
        TextMatch(X, TextTest.SUFFIX, "é"), TextMatch(X, TextTest.SUFFIX, "é\U00010000"),
        TextMatch(X, TextTest.PREFIX, "é"), TextMatch(X, TextTest.CONTAINS, "\u0301"),
        TextMatch(X, TextTest.TOKEN, "é"),
    )  # fmt: skip
    assert answers == [["aé", "é", "\U00010000é"], ["aé\U00010000"], ["é", "é a"], ["e\u0301"], ["é", "é a"]]


def test_a_database_that_ignores_case_does_not_widen_a_view(postgres: psycopg.Connection):
    """A60: the collation of a PostgreSQL column does not reach a View's comparisons."""
    if not postgres.execute("SELECT 1 FROM pg_collation WHERE collprovider = 'i'").fetchall():
        pytest.skip("this PostgreSQL was built without ICU, so no column of it can ignore case")
    postgres.execute(
        "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    postgres.execute('CREATE TEMPORARY TABLE events ("row" bigint, x text COLLATE folded)')
    postgres.execute("INSERT INTO events VALUES (1, 'SECRET'), (2, 'sécret'), (3, 'secret')")
    assert len(postgres.execute("SELECT 1 FROM events WHERE x = 'secret'").fetchall()) == 3
    questions = [
        Comparison(X, EQ, "secret"), Membership(X, frozenset({"secret"})), Not(Comparison(X, NE, "secret")),
        TextMatch(X, TextTest.SUFFIX, "secret"), TextMatch(X, TextTest.PREFIX, "secr"),
        TextMatch(X, TextTest.CONTAINS, "ecre"), TextMatch(X, TextTest.TOKEN, "secret"),
    ]  # fmt: skip
    for predicate in questions:
        view = View((Window(predicate, ALL_ATTRIBUTES),))
        query = to_sql(view, "events", {ROW: Kind.INT, X: Kind.STRING}, (Attribute("row", ROW, Kind.INT),))
        assert postgres.execute(query.text, query.operands).fetchall() == [(3,)], predicate


ZEROES = {ROW: Kind.INT, X: Kind.FLOAT}
IN_A_LONG_LIST = Membership(X, frozenset(float(i) for i in range(20)))


def test_minus_zero_from_a_foreign_table_is_zero_in_a_long_list_too(
    postgres: psycopg.Connection, spark: SparkSession
):
    """A61: hash sets see two zeroes where `=` sees one; a table that others wrote may hold both."""
    view = View((Window(IN_A_LONG_LIST, ALL_ATTRIBUTES),))
    delivered = (Attribute("row", ROW, Kind.INT),)
    schema = pa.schema([("row", pa.int64()), ("x", pa.float64())])
    batch = pa.RecordBatch.from_pylist([{"row": 1, "x": -0.0}, {"row": 2, "x": -1.0}], schema)
    assert to_arrow(view, ZEROES, delivered)(batch).to_pylist() == [{"row": 1}]
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    assert [row.row for row in to_spark(view, ZEROES, delivered).of(frame).collect()] == [1]
    postgres.execute('CREATE TEMPORARY TABLE zeroes ("row" bigint, x double precision)')
    postgres.execute("INSERT INTO zeroes VALUES (1, '-0.0'), (2, -1)")
    query = to_sql(view, "zeroes", ZEROES, delivered)
    assert postgres.execute(query.text, query.operands).fetchall() == [(1,)]


def test_floats_keep_every_bit(executors: Sequence[Executor]):
    """A61: no decimal, no single precision, no rounding on the way to another system."""
    values = [0.1, 0.1 + 2**-56, 0.30000000000000004, 0.3, 5e-324, 1.7976931348623157e308, 0.0]
    answers = admitted(executors, Kind.FLOAT, values, *(Comparison(X, EQ, value) for value in values))
    assert answers == [[value] for value in values]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_a_moment_is_the_same_in_every_zone(executors: Sequence[Executor], spark: SparkSession, zone: str):
    """A61: clocks that go back, years 0001 and 9999, and a session in another zone change no answer."""
    values = [
        Instant.parse(text)
        for text in (
            "0001-01-01T00:00:00Z", "1582-10-10T00:00:00Z", "2026-03-08T07:30:00Z", "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z", "9999-12-31T23:59:59.999999Z",
        )
    ]  # fmt: skip
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        answers = admitted(executors, Kind.TIMESTAMP, values, *(Comparison(X, LE, value) for value in values))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert answers == [values[: i + 1] for i in range(len(values))]
