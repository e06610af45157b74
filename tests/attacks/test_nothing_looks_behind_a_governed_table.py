"""A93: no expression over a governed table reaches a column, a row or a value that its View hides.

Spark resolves a column that a `select` has dropped from the plan below, and its optimiser moves a user's
expression to where a restriction has not decided yet. Each table here is asked in every way there is, by
name, by uid, by position and by traps that go off on what is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import product

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import ALL_ATTRIBUTES, SignedCertificate, Transformation, TypeName, issue
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import parse_rule
from maia.expressions.summary_text import parse_summary
from maia.predicates import parse_predicate
from maia.spark.governed.reader import slices_of
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.spark.matching.bulk import EVENT, TYPE, BulkMatcher
from maia.spark.matching.tables import Subscription
from maia.spark.session.session import PLAN_LENGTH
from maia.types import SealingLevel, TypeDefinition, sign_definition, verify_definition
from maia.views.plan import spark_schema
from maia.views.to_spark import to_spark
from support.governed import (
    ATTRIBUTES,
    NOON,
    OWNER,
    PLACE,
    PLATE,
    SEEN,
    SPEED,
    Recorded,
    asked,
    at,
    between,
    governed,
    grant,
    key_of,
    reader,
    typed,
)  # fmt: skip
from support.spark import execution_of

SETTINGS = {
    "as it is": {},
    "without code of a whole stage": {"spark.sql.codegen.wholeStage": "false"},
    "without any code": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.subexpressionElimination.enabled": "false",
    },
    "with fewer rules": {
        "spark.sql.optimizer.excludedRules": ",".join(
            f"org.apache.spark.sql.catalyst.optimizer.{rule}"
            for rule in ("CollapseProject", "ColumnPruning", "ReplaceNullWithFalseInPredicate")
        )
    },
    "forgiving": {"spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "true"},
}
VOCABULARY = {one.name: one for one in ATTRIBUTES}
TRAFFIC = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(OWNER.principal, "uk.gov.Traffic", "0"),
            None,
            (
                Attribute("area", AttributeUid("1"), Kind.STRING),
                Attribute("mean", AttributeUid("2"), Kind.FLOAT),
                Attribute("cars", AttributeUid("3"), Kind.INT),
            ),
        ),
        OWNER,
    ),
    at=NOON,
    previous=None,
)
SUMMARY = parse_summary(
    "1 hour at least 2 late 60 seconds",
    ["area := location"],
    ["mean := mean(speed)", "cars := count()"],
    VOCABULARY,
    TRAFFIC.vocabulary,
)
# Of Ely one car came, and too few had a speed in Madingley: there the restriction behind is unknown.
CARS = [{PLACE: "Victoria", SPEED: 30}] * 4 + [{PLACE: "Ely", SPEED: 99}] + [{PLACE: "Madingley"}] * 3
# A car without a plate, of which the restriction is unknown, and one at another place.
SIGHTINGS = [
    {PLATE: "AE1", PLACE: "Victoria", SPEED: 1, SEEN: NOON},
    {PLATE: "AE2", PLACE: "Victoria", SPEED: 2, SEEN: NOON},
    {PLATE: None, PLACE: "Victoria", SPEED: 40, SEEN: NOON},
    {PLATE: "AE3", PLACE: "Madingley", SPEED: 50, SEEN: NOON},
]
ROWS, SPEED_AND_PLATE = 'speed < 10 or numberplate == "AE9"', [PLATE, SPEED]


def transforming(
    plain: SignedCertificate, step: Transformation, *, may_delegate: bool = False
) -> SignedCertificate:
    authority = replace(plain.certificate.authority, transformations=(step,))
    return issue(replace(plain.certificate, authority=authority, may_delegate=may_delegate), OWNER)


NARROW = grant(attributes=[PLATE], restriction='location == "Victoria"')
LIKE_ITS_USER = grant(attributes=SPEED_AND_PLATE, restriction=ROWS)
ROUNDED = transforming(
    grant(restriction=ROWS),
    Transformation(
        OWNER.principal,
        (parse_rule("speed := bucket(speed, 10) when speed < 10", VOCABULARY, None),),
        frozenset(SPEED_AND_PLATE),
    ),
)
# The city may pass on what it sees, which is a summary; it restricts that, and shows two attributes of it.
CITY = key_of("city")
PASSED_ON = grant(
    attributes=[AttributeUid("1"), AttributeUid("3")],
    restriction=parse_predicate('area == "Victoria" or not mean == 1.0', TRAFFIC.vocabulary),
)
BEHIND = (
    transforming(
        grant(CITY),
        Transformation(OWNER.principal, (), ALL_ATTRIBUTES, result=TRAFFIC.name, summary=SUMMARY),
        may_delegate=True,
    ),
    issue(replace(PASSED_ON.certificate, issuer=CITY.principal), CITY),
)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Spark logs each refusal, and this is about hundreds of them."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.fixture(scope="module")
def desk() -> Iterator[JobDesk]:
    with job_desk() as opened:
        yield opened


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[SealingLevel | None, Recorded]:
    made = {}
    for level in (None, SealingLevel.ATTRIBUTE):
        made[level] = log = Recorded(tmp_path_factory.mktemp("log") / "log", level)
        log.publish(SIGHTINGS)
        log.write()
    return made


@pytest.fixture(scope="module")
def traffic(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Return a summary in which one group is too small, and another is hidden by the step behind it."""
    log = Recorded(tmp_path_factory.mktemp("log"))
    log.publish(CARS)
    log.write()
    known = {"event_type": log.event_type, "shown_as": TRAFFIC, "reader": reader(*BEHIND)}
    return governed(spark, log=str(log.folder), until=at(5), **known)


WHICH = {
    "plain": {},
    "sealed": {"level": SealingLevel.ATTRIBUTE},
    "with frames": {"with_meta": True},
    "in periods": {"periods": True},
    "stream": {"is_stream": True},
    "stream in periods": {"periods": True, "is_stream": True},
}


@pytest.fixture
def table(
    spark: SparkSession, logs: dict[SealingLevel | None, Recorded], desk: JobDesk
) -> Callable[..., DataFrame]:
    """Return a table of a right: plain or sealed, as a stream, or of several periods."""

    def made(which: str, *rights: SignedCertificate) -> DataFrame:
        how = dict(WHICH[which])
        log = logs[level := how.pop("level", None)]
        if how.pop("periods", False):
            terms = (between(-1, 1), between(2, 3))
            rights = tuple(issue(replace(rights[0].certificate, validity=one), OWNER) for one in terms)
        keys = None if level is None else log.keys(desk)
        known = {"log": str(log.folder), "event_type": log.event_type, "reader": reader(*rights)}
        return governed(spark, keys=keys, **known, **how)

    return made


@contextmanager
def settings(spark: SparkSession, chosen: dict[str, str]) -> Iterator[None]:
    """Run a part of a test with settings that every user of a session may choose."""
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def in_sql(table: DataFrame, text: str) -> DataFrame:
    table.createOrReplaceTempView("asked_in_sql")
    return table.sparkSession.sql(text)


# Each asks an expression of a table. All give up on a name that is not there, and none takes another row.
WAYS: dict[str, Callable[[DataFrame, str], DataFrame]] = {
    "where": lambda table, text: table.where(text),
    "where twice": lambda table, text: table.where("1 = 1").select("*").where(text),
    "select": lambda table, text: table.select(F.expr(text)),
    "sort": lambda table, text: table.orderBy(F.expr(text)),
    "sort within": lambda table, text: table.sortWithinPartitions(F.expr(text)),
    "repartition": lambda table, text: table.repartition(2, F.expr(text)),
    "repartition by range": lambda table, text: table.repartitionByRange(2, F.expr(text)),
    "group": lambda table, text: table.groupBy(F.expr(text)).count(),
    "pivot": lambda table, text: (
        table.withColumn("asked", F.expr(text)).groupBy().pivot("asked", [True]).count()
    ),
    "measure": lambda table, text: table.agg(F.max(F.expr(text))),
    "window": lambda table, text: table.select(
        F.count(F.lit(1)).over(Window.partitionBy(F.expr(text)).orderBy(F.lit(1)))
    ),
    "sample": lambda table, text: table.sampleBy(F.expr(text), {True: 1.0}, 7),
    "join": lambda table, text: table.join(table.sparkSession.range(1), F.expr(text)),
    "semi join": lambda table, text: table.join(table.sparkSession.range(1), F.expr(text), "left_semi"),
    "anti join": lambda table, text: table.join(table.sparkSession.range(1), F.expr(text), "left_anti"),
    "observe": lambda table, text: table.observe("asked", F.max(F.expr(text)).alias("most")),
    "function": lambda table, text: table.where(F.udf(lambda found: found or True, "boolean")(F.expr(text))),
    "distinct": lambda table, text: table.where(text).distinct().where(text),
    "except": lambda table, text: table.exceptAll(table.where(text)),
    "limit": lambda table, text: table.limit(10).where(text),
    "json": lambda table, text: table.where(text).select(F.to_json(F.struct("*"))),
    "SQL": lambda table, text: in_sql(table, f"select * from asked_in_sql where {text} order by {text}"),
    "SQL having": lambda table, text: in_sql(
        table, f"select count(1) from asked_in_sql group by all having max({text})"
    ),
    "correlated": lambda table, text: in_sql(
        table, f"select * from asked_in_sql t where exists (select 1 from range(1) where {text})"
    ),
}


# ------------------------------------------------------------ names


HIDDEN = (
    PLACE, SEEN, "the wall", "_metadata", "header", "sealed", "published_at", "_published_at", "_period",
    "events", "k0", "m0", "n0", "v0", "period start",
)  # fmt: skip


# How Spark looks for a name depends on the operator, and hardly on what is below it.
LOOKED_AT_IN_ALL_WAYS = ("plain", "stream in periods")
SOME_WAYS = ("where", "select", "sort", "repartition", "group", "semi join", "SQL", "SQL having")


def names_reached(
    table: DataFrame, asked: str = PLACE, *, ways: Iterable[str] = WAYS
) -> list[tuple[str, str]]:
    """Return which names of what is behind a table are found: one by many ways, and all by one way."""
    reached = []
    for way, name in (*product(ways, [asked]), *product(["where"], HIDDEN)):
        if name in table.columns:
            continue
        try:
            WAYS[way](table, f"`{name}` is null")
        except AnalysisException:
            continue
        reached.append((way, name))
    return reached


@pytest.mark.parametrize("which", WHICH)
def test_no_name_uid_or_position_leads_behind_a_table(table, which):
    """A93: a column that the View's own restriction reads is not there, whichever operator asks for it."""
    asked = table(which, NARROW)
    assert names_reached(asked, ways=WAYS if which in LOOKED_AT_IN_ALL_WAYS else SOME_WAYS) == []
    for ask in (asked.__getitem__, asked.metadataColumn):
        with pytest.raises(AnalysisException):
            asked.select(ask(PLACE))
    with pytest.raises(AnalysisException):
        asked.orderBy(F.lit(len(asked.columns) + 1)).schema  # noqa: B018 - no such position


def test_no_name_leads_behind_a_summary_a_view_of_stored_columns_or_a_match(spark, traffic):
    """A93: the number of events in a group, and what was grouped, are as far as a source's own columns."""
    assert names_reached(traffic, "events") == []
    kinds = {one.uid: one.kind for one in ATTRIBUTES}
    (one,) = slices_of(asked(reader(NARROW), typed()), reader(NARROW))
    stored = spark.createDataFrame([], spark_schema(kinds))
    assert names_reached(to_spark(one.view, kinds, ATTRIBUTES).of(stored), ways=SOME_WAYS) == []
    matcher = BulkMatcher(spark, [Subscription("s", "t", one.view)], kinds)
    given = stored.select(F.lit(1).alias(EVENT), F.lit("t").alias(TYPE), "*")
    assert names_reached(matcher.as_seen(given), "_received_0", ways=SOME_WAYS) == []


ERRORS = {
    "an unknown name": lambda shown: shown.select("nowhere"),
    "an aggregate in a filter": lambda shown: shown.where("sum(speed) > 1"),
    "a union of other columns": lambda shown: shown.unionAll(shown.select("numberplate")),
    "a function of another kind": lambda shown: shown.select(F.explode("numberplate")),
}


@pytest.mark.parametrize("which", ["plain", "sealed", "in periods", "stream"])
def test_no_error_and_no_explanation_of_spark_shows_what_a_restriction_compares_with(
    spark, table, which, capsys
):
    """A93: an analyst's mistake shows the plan of the whole query, with the View in it."""
    chosen = spark.conf.get(PLAN_LENGTH)
    spark.conf.unset(PLAN_LENGTH)
    try:
        shown = table(which, grant(attributes=SPEED_AND_PLATE, restriction='location == "Victoria"'))
        for mistake in ERRORS.values():
            with pytest.raises(AnalysisException) as problem:
                mistake(shown).schema  # noqa: B018 - the mistake
            assert "Victoria" not in str(problem.value)
    finally:
        spark.conf.set(PLAN_LENGTH, chosen)
    shown.explain(extended=True)
    assert "Victoria" not in capsys.readouterr().out, "the View is in no plan"


# ------------------------------------------------------------ rows and values


# On a car without a plate, or in another place, each of these ends the query.
HIDDEN_CAR = "(speed >= 10 or speed is null and numberplate is null)"
TRAPS = (
    f"speed < 10 or 1 / if({HIDDEN_CAR}, 0, 1) > 0",
    f"if({HIDDEN_CAR}, raise_error('seen'), true)",
    f"cast(if({HIDDEN_CAR}, 'seen', '1') as int) = 1 or speed < 10",
    "numberplate = 'AE9' or assert_true(speed < 10) is null",
)
IN_TRAFFIC = (
    "area = 'Victoria' or 1 / if(area in ('Ely', 'Madingley'), 0, 1) > 0",
    "area = 'Victoria' or assert_true(cars >= 4) is null",
    "if(cars < 4, raise_error('seen'), true)",
)


def found_by(table: DataFrame, traps: Sequence[str], name: str) -> list[list[str]]:
    """Return what each trap finds, in order; one job asks all of them."""
    asked = (table.where(trap).select(F.lit(number), name) for number, trap in enumerate(traps))
    found: list[list[str]] = [[] for _ in traps]
    for number, value in sorted(reduce(DataFrame.unionAll, asked).collect()):
        found[number].append(value)
    return found


@pytest.mark.parametrize("chosen", SETTINGS)
def test_no_trap_goes_off_on_a_row_or_a_group_that_is_hidden(spark, table, traffic, chosen):
    """A93: in every operator and with every setting, a user's expression meets the rows of the View alone."""
    with settings(spark, SETTINGS[chosen]):
        shown = table("plain", LIKE_ITS_USER)
        for way in WAYS if chosen == "without any code" else ("semi join",):
            WAYS[way](shown, TRAPS[0]).collect()
        assert found_by(shown, TRAPS, "numberplate") == [["AE1", "AE2"]] * len(TRAPS)
        assert found_by(traffic, IN_TRAFFIC, "area") == [["Victoria"]] * len(IN_TRAFFIC)


def test_no_trap_goes_off_behind_a_transformation_or_in_a_sealed_table(table):
    """A93: what a rule makes, and what was sealed, is asked of shown rows only."""
    for shown in (table("plain", ROUNDED), table("sealed", LIKE_ITS_USER)):
        assert found_by(shown, TRAPS, "numberplate") == [["AE1", "AE2"]] * len(TRAPS)


def test_a_function_is_called_with_no_value_that_a_window_hides(table):
    """A93: where it is unknown whether a window is open, its attribute is null to every function and trap."""
    places = grant(attributes=[PLACE], restriction='numberplate == "AE1"')
    shown = table("plain", grant(attributes=[SPEED], restriction="speed < 45"), places)
    seen = F.udf(lambda place, speed: place is None or speed == 1, "boolean")
    for text in (
        "1 / if(location = 'Victoria' and speed = 40, 0, 1) > 0",
        "if(location is not null and speed <> 1, raise_error('seen'), true)",
        "cast(replace(location, 'Victoria', if(speed = 1, '1', 'x')) as int) = 1 or location is null",
    ):
        assert shown.where(text).count() == 3
    assert shown.where(seen("location", "speed")).count() == 3


def test_a_user_stays_above_the_wall_in_every_plan(table, traffic):
    """A93: what is below the wall is the same for each question; the policy's own terms are pushed down."""
    mark = "speed + 4711 > 4700"
    for shown, text in (
        (table("in periods", LIKE_ITS_USER), mark),
        (traffic, mark.replace("speed", "cars")),
    ):
        for way, ask in WAYS.items():
            plan = execution_of(ask(shown, text)).optimizedPlan().toString()
            parts = re.split(r"SPARK_PARTITION_ID\(\) AS the wall#\d+\]\n", plan)
            assert len(parts) > 1, way
            for below in parts[1:]:
                # Up to where another branch of the plan begins.
                indent = len(re.match(r"[\s:]*", below).group())
                own = [below.splitlines()[0]]
                for line in below.splitlines()[1:]:
                    if len(re.match(r"[\s:]*", line).group()) <= indent - 3:
                        break
                    own.append(line)
                assert not any("4711" in re.sub(r"#\d+", "", line) for line in own), f"{way}\n{plan}"


@pytest.mark.parametrize("which", ["stream", "stream in periods"])
def test_a_stream_sets_off_no_trap_either(spark, table, which):
    """A93: the same wall stands in each batch of a stream."""
    stream = table(which, LIKE_ITS_USER)
    for number, trap in enumerate((TRAPS[0], " and ".join(f"({trap})" for trap in TRAPS[1:]))):
        with settings(spark, SETTINGS["without code of a whole stage"]):
            query = (
                stream.where(trap)
                .writeStream.format("memory")
                .queryName(f"trap_{number}")
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(300)
        assert spark.table(f"trap_{number}").count() == 2
