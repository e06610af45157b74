"""How does Spark show what this View shows?

Pipelines ask. The answer is made of Catalyst columns only, so the planner
prunes, pushes down and generates code exactly as for a query written by hand;
no Python function runs per row. Pseudonyms and noise are the exception: their
secrets must not be in a plan, so a vectorised function finds them in the worker.
No text is ever parsed as SQL: columns are called by uid in backticks, operands
are typed literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final, Protocol, assert_never
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf

from maia.errors import BadInput
from maia.events import INT_MIN, SECOND, Attribute, AttributeUid, Instant, Kind, Kinds, PresentValue
from maia.expressions.meaning import (
    CALCULATES,
    FLOAT_HIGH,
    FLOAT_LOW,
    TransformationKeys,
    keyed_result,
    steps_in_one,
)
from maia.expressions.summaries import STEPS_WIDTH, Aggregate, Measure, Summary
from maia.expressions.syntax import UNITS, ArithmeticSign, Call, Function
from maia.policy.view import View, split
from maia.predicates.meaning import COMPARES
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, Predicate, TextTest, checked_size
from maia.views.arrow_executor import ARROW_TYPES
from maia.views.plan import (
    Algebra,
    KeyName,
    ViewPlan,
    checked_delivered,
    checked_stored,
    columns_of,
    compiled,
    either,
    is_stepwise,
    plan,
    spark_type,
    transformed,
)

if TYPE_CHECKING:
    from maia.views.plan import KeyName

# Pseudonyms and noise, without the secret in a plan.
#
# A function over Arrow batches is pickled into the plan together with a
# `TransformationKeySource`: a description of where a worker finds the secret, such as the path of a
# file, and never the secret itself. The worker asks it once per process.


class TransformationKeySource(Protocol):
    """Where a worker finds the secrets of transformations. It is hashable, and pickled without a secret."""

    def transformation_keys(self) -> TransformationKeys:
        """Return the secrets; asked in the worker."""

    def __hash__(self) -> int:
        """Return the same for sources of the same secrets: a worker asks each of them once."""


def keyed_column(call: Call, inner: Column, name: KeyName, keys: TransformationKeySource) -> Column:
    """Return a pseudonym or a perturbed value as a column."""
    issuer, recipient, holder = name.issuer, name.recipient, name.holder

    def of_batch(values: pa.Array) -> pa.Array:
        step_keys = _secrets(keys).of(issuer, recipient, holder)
        kind = call.inner.kind
        found = values.cast(pa.int64()).to_pylist() if kind is Kind.TIMESTAMP else values.to_pylist()
        given = (Instant(one) if kind is Kind.TIMESTAMP and one is not None else one for one in found)
        results = [None if one is None else keyed_result(call, one, step_keys) for one in given]
        return pa.array(results, ARROW_TYPES[call.kind])

    # The stubs of Spark know functions over iterators of batches only.
    made = arrow_udf(of_batch, returnType=spark_type(call.kind).simpleString())  # type: ignore[call-overload]
    column: Column = made(inner)
    return column


@lru_cache(maxsize=16)
def _secrets(keys: TransformationKeySource) -> TransformationKeys:
    return keys.transformation_keys()


@dataclass(frozen=True, slots=True)
class SparkView:
    """A View as columns: which rows, what is seen of them, which of those are wanted, and by which names.

    `interest` is null where the subscriber wants everything it may see.
    """

    stored: Kinds = field(repr=False)
    admits: Column
    seen: tuple[Column, ...]
    interest: Column | None
    delivered: tuple[Column, ...]
    uids: tuple[AttributeUid, ...] = ()
    """What the columns of `seen` are called."""
    at_once: tuple[Column, ...] | None = None
    """The delivered columns over what is stored, if no interest is asked in between."""
    is_open: bool = False
    """Whether every row is admitted."""
    bound: tuple[tuple[Column, ...], ...] = ()
    """Columns that the others read, level by level."""
    begins: Column | None = None
    """Which rows are admitted by what is stored, if columns are bound."""

    def of(self, events: DataFrame, *kept: str) -> DataFrame:
        """Return `events`, whose columns are called by uid, as the View shows them, and these others."""
        _check_columns(events, self.stored)
        admitted = self.admitted(events)
        if self.at_once is not None:
            return walled(admitted.select(*self.at_once, *kept))
        seen = admitted.select(*self.seen, *kept)
        wanted = seen if self.interest is None else seen.where(self.interest)
        return walled(wanted.select(*self.delivered, *kept))

    def admitted(self, events: DataFrame) -> DataFrame:
        """Return the rows that the View shows anything of, with the columns that it binds."""
        if self.begins is not None:
            events = with_bound(events.where(self.begins), self.bound)
        return events if self.is_open else events.where(self.admits)


def with_bound(events: DataFrame, bound: Iterable[Sequence[Column]]) -> DataFrame:
    """Return `events` with the columns that Views bind; no level is written into the next one."""
    for level in bound:
        events = _closed(events.select("*", *level))
    return events


_WALL: Final = "the wall"


def walled(shown: DataFrame) -> DataFrame:
    """Return the same table, such that nothing written over it reaches a row or a value behind it (A93).

    Analysis looks for a column that a `select` has dropped in the plan below, and for the hidden columns
    of a source; it does neither behind a view. The optimiser joins neighbouring filters, merges
    projections and moves filters through them; it does neither where a projection that is not
    deterministic has a filter above it. Everything below is ours: it has no side effects, so Spark may
    rearrange it, push it down and prune it. It costs one comparison of two numbers for each row.
    """
    session, name = shown.sparkSession, f"maia_{uuid4().hex}"
    _closed(shown).createTempView(name)
    found = session.table(name)
    # Spark Connect looks a table up by its name when it runs; there, the name goes with the session.
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session.catalog.dropTempView(name)
    return found


def _closed(made: DataFrame) -> DataFrame:
    marked = made.select("*", F.spark_partition_id().alias(_WALL))
    return marked.where(F.col(f"`{_WALL}`") >= F.lit(0)).drop(_WALL)


def to_spark(
    view: View,
    stored: Kinds,
    delivered: tuple[Attribute, ...],
    keys: TransformationKeySource | None = None,
    place: int = 0,
) -> SparkView:
    """Compile a View for data frames with the `stored` columns.

    The result has the delivered attributes, by name, in that order; what is
    hidden or not stored is null. Needs a running session. `keys` is where the workers find the secrets
    of pseudonyms and noise, which are no part of the plan; without it such values are null. `place` tells
    apart what several Views over one table bind.
    """
    if is_stepwise(view, stored):
        return _transformed(view, stored, delivered, keys, place)
    resolved = plan(view, stored)
    columns = columns_of(stored, _SPARK)
    windows = [compiled(window, columns, _SPARK) for window in resolved.windows]
    return SparkView(
        stored=dict(stored),
        admits=either(windows, _SPARK),
        seen=tuple(_seen_column(uid, resolved, windows) for uid in resolved.shown_by),
        interest=_interest(view, resolved.seen),
        delivered=tuple(_delivered_column(a, resolved.seen) for a in checked_delivered(delivered, stored)),
        uids=tuple(resolved.shown_by),
    )


def _transformed(
    view: View,
    stored: Kinds,
    delivered: tuple[Attribute, ...],
    keys: TransformationKeySource | None,
    place: int,
) -> SparkView:
    found = transformed(view, stored, _SparkAlgebra(keys), place)
    seen = {uid: kind for uid, (kind, _) in found.seen.items()}
    named = checked_delivered(delivered, seen)
    values = {uid: value for uid, (_, value) in found.seen.items()}
    at_once = tuple(values.get(one.uid, _missing(one.kind)).alias(one.name) for one in named)
    open_windows = (
        window.admits == ALWAYS and all(step.restriction == ALWAYS for step in window.transformations)
        for window in view.windows
    )
    return SparkView(
        stored=dict(stored),
        admits=found.admits,
        seen=tuple(value.alias(uid) for uid, (_, value) in found.seen.items()),
        interest=_interest(view, seen),
        delivered=tuple(_delivered_column(one, seen) for one in named),
        uids=tuple(seen),
        at_once=at_once if view.interest == ALWAYS else None,
        is_open=any(open_windows),
        bound=tuple(tuple(value.alias(name) for name, value in level) for level in found.bound),
        begins=found.begins if found.bound else None,
    )


def _interest(view: View, seen: Kinds) -> Column | None:
    return None if view.interest == ALWAYS else compiled(view.interest, columns_of(seen, _SPARK), _SPARK)


def to_spark_test(predicate: Predicate, stored: Kinds) -> Column:
    """Return `predicate` over the `stored` columns, called by uid: true, false, or null for unknown."""
    return compiled(checked_size(predicate), columns_of(checked_stored(stored), _SPARK), _SPARK)


def _check_columns(events: DataFrame, stored: Kinds) -> None:
    # A string column with another collation would compare differently, so the type must be exact.
    found = {column.name: column.dataType for column in events.schema.fields}
    for uid, kind in stored.items():
        if found.get(uid) != spark_type(kind):
            raise BadInput(
                "INPUT-STORED-COLUMNS",
                f"the data frame has no column `{uid}` of type `{spark_type(kind).simpleString()}`",
            )


def _seen_column(uid: AttributeUid, resolved: ViewPlan, windows: Sequence[Column]) -> Column:
    if resolved.is_always_shown(uid):
        return _column(uid)
    showing = either([windows[i] for i in resolved.shown_by[uid]], _SPARK)
    return F.when(showing, _column(uid)).alias(uid)


def _delivered_column(attribute: Attribute, seen: Kinds) -> Column:
    if attribute.uid in seen:
        return _column(attribute.uid).alias(attribute.name)
    return _missing(attribute.kind).alias(attribute.name)


def _missing(kind: Kind) -> Column:
    return F.lit(None).cast(spark_type(kind))


class _SparkAlgebra:
    """Each piece is a column. Catalyst's own logic is three-valued already."""

    def __init__(self, keys: TransformationKeySource | None = None) -> None:
        self._keys = keys

    def column(self, uid: AttributeUid, kind: Kind) -> Column:
        return _column(uid)

    def constant(self, answer: bool | None) -> Column:
        return F.lit(answer).cast(spark_type(Kind.BOOL)) if answer is None else F.lit(answer)

    def is_present(self, found: Column) -> Column:
        return found.isNotNull()

    def compare(self, found: Column, operator: Operator, literal: PresentValue, kind: Kind) -> Column:
        compared: Column = COMPARES[operator](found, _literal(literal, kind))
        return compared

    def is_one_of(self, found: Column, literals: Sequence[PresentValue], kind: Kind) -> Column:
        listed = found.isin([_literal(literal, kind) for literal in literals])
        if kind is Kind.FLOAT and 0.0 in literals:
            # A long list becomes a hash set, where zero has two forms; `=` knows only one.
            return listed | (found == _literal(0.0, kind))
        return listed

    def matches(self, found: Column, test: TextTest, text: str) -> Column:
        match test:
            case TextTest.PREFIX:
                return F.startswith(found, F.lit(text))
            case TextTest.SUFFIX:
                return F.endswith(found, F.lit(text))
            case TextTest.CONTAINS:
                return F.contains(found, F.lit(text))
            case TextTest.TOKEN:
                space = F.lit(" ")
                return F.contains(F.concat(space, found, space), F.lit(f" {text} "))
            case TextTest.LEVELS:
                return F.rlike(found, F.lit(rf"(?s)\A{parse_path_pattern(text).regex()}\z"))
            case _:
                assert_never(test)

    def literal(self, value: PresentValue | None, kind: Kind) -> Column:
        return _missing(kind) if value is None else _literal(value, kind)

    def calculated(self, sign: ArithmeticSign, left: Column, right: Column, kind: Kind) -> Column:
        if kind is Kind.FLOAT:
            return _float_calculated(sign, _in_float_range(left), _in_float_range(right))
        match sign:
            case ArithmeticSign.PLUS:
                return F.try_add(left, right)
            case ArithmeticSign.MINUS:
                return F.try_subtract(left, right)
            case ArithmeticSign.TIMES:
                return F.try_multiply(left, right)
            case ArithmeticSign.OVER:
                fits = (right != _whole(0)) & ~((left == _whole(INT_MIN)) & (right == _whole(-1)))
                return F.when(fits, F.call_function("div", left, right))
            case _:
                assert_never(sign)

    def coalesced(self, parts: Sequence[Column], kind: Kind) -> Column:
        return F.coalesce(*parts)

    def chosen(self, condition: Column, then: Column, otherwise: Column, kind: Kind) -> Column:
        return F.when(condition, then).when(~condition, otherwise)

    def called(self, call: Call, inner: Column, keys: KeyName) -> Column:
        operand = call.operands[0] if call.operands else None
        match call.function:
            case Function.ROUND_TO | Function.BUCKET:
                return _stepped(call, inner)
            case Function.TRUNCATE:
                micros = F.unix_micros(inner)
                return F.timestamp_micros(micros - F.pmod(micros, _whole(UNITS[str(operand)] * SECOND)))
            case Function.FIRST:
                return F.substring(inner, 1, int(operand or 0))
            case Function.UPPER:
                return F.translate(inner, ascii_lowercase, ascii_uppercase)
            case Function.LOWER:
                return F.translate(inner, ascii_uppercase, ascii_lowercase)
            case Function.MASK:
                kept = F.lit(int(operand or 0))
                hidden = F.greatest(F.char_length(inner) - kept, F.lit(0))
                return F.concat(F.repeat(F.lit("*"), hidden), F.right(inner, kept))
            case Function.DAY_OF:
                return _periods(F.unix_micros(inner), UNITS["day"])
            case Function.HOUR_OF:
                return F.pmod(_periods(F.unix_micros(inner), UNITS["hour"]), _whole(24))
            case Function.PSEUDONYM | Function.PERTURB | Function.LOOKUP:
                if self._keys is None:
                    return self.literal(None, call.kind)
                return keyed_column(call, inner, keys, self._keys)
            case _:
                assert_never(call.function)

    def negated(self, inner: Column) -> Column:
        return ~inner

    def all_of(self, parts: Sequence[Column]) -> Column:
        return _balanced(lambda one, other: one & other, parts)

    def any_of(self, parts: Sequence[Column]) -> Column:
        return _balanced(lambda one, other: one | other, parts)


_SPARK: Final[Algebra[Column]] = _SparkAlgebra()


def _whole(number: int) -> Column:
    return F.lit(number).cast(spark_type(Kind.INT))


def _periods(micros: Column, seconds: int) -> Column:
    """Return how many periods of so many seconds have passed since 1970; before, the number is negative."""
    period = _whole(seconds * SECOND)
    return F.call_function("div", micros - F.pmod(micros, period), period)


def _in_float_range(found: Column) -> Column:
    size = F.abs(found)
    return F.when((found == F.lit(0.0)) | ((size >= F.lit(FLOAT_LOW)) & (size <= F.lit(FLOAT_HIGH))), found)


def _float_calculated(sign: ArithmeticSign, one: Column, other: Column) -> Column:
    if sign is ArithmeticSign.OVER:
        other = F.when(other != F.lit(0.0), other)
    found: Column = CALCULATES[sign](one, other) + F.lit(0.0)
    return found


def _stepped(call: Call, inner: Column) -> Column:
    rounds = call.function is Function.ROUND_TO
    if call.kind is Kind.FLOAT:
        size = float(call.operands[0])
        per_one, step = steps_in_one(size), F.lit(size)
        steps = _in_float_range(inner) / step
        nearest = F.rint(steps)
        # `floor` of a double is a long in Spark, which would overflow.
        whole = nearest if rounds else F.when(nearest > steps, nearest - F.lit(1.0)).otherwise(nearest)
        return (whole * step if per_one is None else whole / F.lit(per_one)) + F.lit(0.0)
    every = int(call.operands[0])
    number = F.try_add(inner, _whole(every // 2)) if rounds else inner
    return F.try_subtract(number, F.pmod(number, _whole(every)))


def _balanced(join: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    # A chain of ten thousand would be that deep, and Catalyst walks its trees by recursion.
    level = list(parts)
    while len(level) > 1:
        paired = [join(one, other) for one, other in zip(level[::2], level[1::2], strict=False)]
        level = paired + level[len(paired) * 2 :]
    return level[0]


def _column(uid: AttributeUid) -> Column:
    return F.col("`" + uid.replace("`", "``") + "`")


def _literal(value: PresentValue, kind: Kind) -> Column:
    """Return a literal of exactly the column's type, so that Catalyst has nothing to coerce."""
    if kind is Kind.TIMESTAMP:
        return F.timestamp_micros(F.lit(int(value)).cast(spark_type(Kind.INT)))
    if kind is Kind.INT:
        return F.lit(value).cast(spark_type(kind))
    return F.lit(value)


# A View that summarises.
#
# As a group-by between the View's two ordinary parts. Sums are of whole numbers, in decimals that hold
# them exactly, so the answer does not depend on partitions. It is that of `summarised` in
# `maia.policy.view`.


_START = "period start"
_WHOLE = t.DecimalType(20, 0)


@dataclass(frozen=True, slots=True)
class SparkSummary:
    """A View that summarises, as columns."""

    front: SparkView
    summary: Summary = field(repr=False)
    behind: SparkView

    def of(self, events: DataFrame, published_at: Column, shown: Column | None = None) -> DataFrame:
        """Return what many `events`, whose columns are called by uid, come to.

        `shown` says of which periods, over `period_start()` and `closes_at()`.
        """
        taken = self.front.admitted(events).select(*self.front.seen, _start(self.summary, published_at))
        return self.grouped(taken, shown)

    def grouped(self, taken: DataFrame, shown: Column | None = None) -> DataFrame:
        """Return what rows of the front part come to, which `start_column` gave the start of their period."""
        summary = self.summary
        keys = [f"`k{place}`" for place in range(len(summary.keys))]
        for key in keys:
            taken = taken.where(F.col(key).isNotNull())
        if shown is not None:
            taken = taken.where(shown)
        found = taken.groupBy(F.col(f"`{_START}`"), *map(F.col, keys)).agg(
            F.count(F.lit(1)).alias("events"),
            *(column for place, one in enumerate(summary.measures) for column in _parts(place, one)),
        )
        named = [F.col(key).alias(one.uid) for key, one in zip(keys, summary.keys, strict=True)]
        made = [_made(place, one, summary).alias(one.uid) for place, one in enumerate(summary.measures)]
        derived = found.where(F.col("events") >= summary.at_least).select(*named, *made)
        return self.behind.of(derived)

    def start_column(self, published_at: Column) -> Column:
        """Return the beginning of the period of each row, as microseconds, under its own name."""
        return _start(self.summary, published_at)

    @property
    def start(self) -> Column:
        """Return the beginning of a row's period, in microseconds."""
        return F.col(f"`{_START}`")


def to_spark_summary(
    view: View, stored: Kinds, delivered: tuple[Attribute, ...], keys: TransformationKeySource | None = None
) -> SparkSummary:
    """Compile a View that summarises for data frames with the `stored` columns."""
    parts = split(view)
    behind = to_spark(parts.behind, parts.summary.kinds, delivered, keys)
    return SparkSummary(to_spark(parts.front, stored, (), keys), parts.summary, behind)


def _start(summary: Summary, published_at: Column) -> Column:
    moment, every = F.unix_micros(published_at), F.lit(summary.every_s * SECOND)
    return (moment - F.pmod(moment, every)).alias(_START)


def _parts(place: int, measure: Measure) -> list[Column]:
    """Return what is counted, added up or compared for a measure."""
    column = F.col(f"`m{place}`")
    match measure.aggregate:
        case Aggregate.COUNT | Aggregate.PERIOD_START:
            return []
        case Aggregate.MEAN:
            whole = column.cast(_WHOLE) if measure.step is None else _steps(column, measure.step)
            return [F.count(whole).alias(f"n{place}"), F.sum(whole).alias(f"v{place}")]
        case _:
            pick = F.min if measure.aggregate is Aggregate.MIN else F.max
            return [F.count(column).alias(f"n{place}"), pick(column).alias(f"v{place}")]


def _steps(column: Column, step: float) -> Column:
    size = F.abs(column)
    within = (column == F.lit(0.0)) | ((size >= F.lit(FLOAT_LOW)) & (size <= F.lit(FLOAT_HIGH)))
    steps = F.rint(F.when(within, column) / F.lit(step))
    return F.when(F.abs(steps) <= F.lit(float(STEPS_WIDTH)), steps.cast(t.LongType()).cast(_WHOLE))


def _made(place: int, measure: Measure, summary: Summary) -> Column:
    number, value = F.col(f"n{place}"), F.col(f"v{place}")
    match measure.aggregate:
        case Aggregate.COUNT:
            return F.col("events")
        case Aggregate.PERIOD_START:
            return F.timestamp_micros(F.col(f"`{_START}`"))
        case Aggregate.MEAN:
            mean = value.cast(t.DoubleType()) / number.cast(t.DoubleType())
            value = mean if measure.step is None else mean * F.lit(measure.step) + F.lit(0.0)
        case _:
            pass
    return F.when(number >= summary.at_least, value)
