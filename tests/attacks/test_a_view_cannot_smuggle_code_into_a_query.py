"""What a policy or a subscriber wrote stays an operand, in every executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
import pytest
from pyspark.sql import SparkSession

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import Attribute, AttributeUid, BadAttribute, Kind
from maia.policy.view import View, Window
from maia.predicates.syntax import AnyOf, Comparison, Exists, Operator, TextMatch, TextTest
from maia.testing.refusals import raises
from maia.views import to_arrow, to_python, to_sql
from maia.views.to_python import see_source
from maia.views.to_spark import to_spark
from support.executors import ArrowExecutor, PostgresExecutor, PythonExecutor, SparkExecutor
from support.view_cases import Batch, Executor, assert_agrees, expected_answers

ROW, X = AttributeUid("row"), AttributeUid("x")
STORED = {ROW: Kind.INT, X: Kind.STRING}
DELIVERED = (Attribute("row", ROW, Kind.INT), Attribute("x", X, Kind.STRING))

HOSTILE = [
    "' OR '1'='1", "'; DROP TABLE events; --", '"; SELECT 1; --', "` OR true OR `", "\n) OR (TRUE",
    "${spark.app.name}", "${env:HOME}", "${x}%", "{0}", "$1", ":x", "?", "/*", "__import__('os')", "x'00'",
    "%", "%%", "%s", "_", "\\", "\\'",
]  # fmt: skip


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


def test_a_hostile_operand_matches_itself_and_nothing_else(executors: Sequence[Executor]):
    """A72: quotes, backticks, `${}`, wildcards and placeholders are ordinary characters."""
    views = tuple(View((Window(Comparison(X, Operator.EQ, text), ALL_ATTRIBUTES),)) for text in HOSTILE)
    batch = Batch(views, tuple({ROW: i, X: text} for i, text in enumerate(HOSTILE)), DELIVERED, STORED)
    for executor in executors:
        assert_agrees(executor, batch)
    assert [sorted(answer) for answer in expected_answers(batch)] == [[i] for i in range(len(HOSTILE))]


def test_wildcards_are_not_special_in_any_question_about_text(executors: Sequence[Executor]):
    """A72: `%`, `_`, `.` and a backslash match themselves alone."""
    values = ["a%b", "axb", "a_b", "a\\b", "a.b", "%", "\\%", "b", "a% b", "a*"]
    values += [f"/{value}" for value in values]
    operands = ("a%", "%b", "%", "_", "\\", ".", "a_b", "*")
    atoms = [
        TextMatch(X, test, operand)
        for test in TextTest
        # A pattern of topics is a path of letters, digits, `_` and hyphens; other characters are refused.
        for operand in (("/a_b", "/b", "/+") if test is TextTest.LEVELS else operands)
    ]
    batch = Batch(
        tuple(View((Window(atom, ALL_ATTRIBUTES),)) for atom in atoms),
        tuple({ROW: i, X: value} for i, value in enumerate(values)),
        DELIVERED,
        STORED,
    )
    for executor in executors:
        assert_agrees(executor, batch)


def test_no_operand_and_no_foreign_attribute_is_in_the_text_of_a_query():
    """A72: operands travel beside the SQL and beside the Python, never inside."""
    evil = AttributeUid('y" FROM secrets; --')
    window = Window(
        AnyOf((Comparison(X, Operator.EQ, "hostile-operand"), Exists(evil))), frozenset({X, evil})
    )
    view = View((window,), Comparison(evil, Operator.EQ, "hostile-interest"))
    query = to_sql(view, "events", STORED, DELIVERED)
    for text in (query.text, see_source(view)[0]):
        assert "hostile" not in text
        assert "secrets" not in text
    assert query.text.count("%s") == len(query.operands)


@pytest.mark.parametrize("uid", ["a`b", 'a"b', "a.b", "a b", "A", "${a}", "", "a\0", "é", "a%s", "x" * 65])
def test_a_column_cannot_have_a_name_that_is_read_as_anything_else(uid: str):
    """A72: a uid is digits, lower case letters and inner hyphens, and a peer that compiles checks it."""
    view, stored = View((Window(Exists(AttributeUid(uid)), ALL_ATTRIBUTES),)), {AttributeUid(uid): Kind.INT}
    with pytest.raises(BadAttribute):
        to_sql(view, "events", stored, ())
    with pytest.raises(BadAttribute):
        to_arrow(view, stored)
    with pytest.raises(BadAttribute):
        to_spark(view, stored, ())


@pytest.mark.parametrize(
    "name", ["a`b", 'a"; DROP TABLE events; --', "a.b", "${a}", "a b", "a%s", "", "select 1"]
)
def test_a_delivered_attribute_cannot_have_a_name_that_is_read_as_anything_else(name: str):
    """A72: the name of an attribute is checked when the attribute is made."""
    with pytest.raises(BadAttribute):
        Attribute(name, X, Kind.STRING)


@pytest.mark.parametrize(
    "table", ['e"; DROP TABLE kept; --', "%s", "%", "e.v", "E v", "${x}", "`e`", "select", "'"]
)
def test_a_table_may_have_any_name_and_is_found_by_it(postgres: psycopg.Connection, table: str):
    """A72: an operator's table name is one identifier, whatever it looks like."""
    spelled = '"' + table.replace('"', '""') + '"'
    postgres.execute(f'CREATE TEMPORARY TABLE {spelled} ("row" bigint, x text)'.encode())
    postgres.execute(f"INSERT INTO {spelled} VALUES (1, 'a'), (2, 'b')".encode())
    view = View((Window(Comparison(X, Operator.EQ, "b"), ALL_ATTRIBUTES),))
    query = to_sql(view, ("pg_temp", table), STORED, DELIVERED)
    assert postgres.execute(query.text, query.operands).fetchall() == [(2, "b")]


@pytest.mark.parametrize("table", ["", "a\0b", "x" * 64, "é" * 32, ("public", "")])
def test_a_table_name_that_postgresql_would_change_is_refused(table: str | tuple[str, ...]):
    """A72: PostgreSQL cuts long names short, so that two tables could become one."""
    with raises("INPUT-SQL-IDENTIFIER"):
        to_sql(View(()), table, STORED, DELIVERED)


def test_spark_substitutes_no_variable_in_a_view(spark: SparkSession):
    """A72: `${spark.app.name}` in an operand is eighteen characters and not a setting."""
    view = View((Window(TextMatch(X, TextTest.CONTAINS, "${spark.app.name}"), ALL_ATTRIBUTES),))
    events = spark.createDataFrame([(1, "maia-tests"), (2, "${spark.app.name}")], "`row` bigint, x string")
    assert [row.row for row in to_spark(view, STORED, DELIVERED).of(events).collect()] == [2]


def test_the_generated_function_reaches_no_builtin():
    """A72: even if a word did slip into the text, it would find nothing to call."""
    run = to_python(View((Window(Exists(X), ALL_ATTRIBUTES),)))
    assert run.__globals__["__builtins__"] == {}
