"""Who would receive which event, with which attributes, for very many subscriptions at once?

    matcher = BulkMatcher(spark, subscriptions, stored)
    matcher.by_subscription(events)      event, subscription, attributes

Those ask who plan a change of rights, replay a day for all subscribers, or feed
thousands of recipients from one table. The answer equals `see` of the policy
kernel for every pair. Pairs are found by a join on type, values and buckets,
compared bound by bound as columns, and gathered by rights class; subscribers
are named last (docs/decisions/bulk-matching.md). No filter is tried on all
events, but for a bounded number of those that no key tells apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from maia.credentials.requirements import is_met, requirement_from_bytes
from maia.errors import BadInput
from maia.events import AttributeUid, Kinds
from maia.predicates.syntax import Comparison, Operator, Predicate, attributes_of
from maia.spark.matching.boxes import AskCandidates, AskEverything, Buckets, Shape
from maia.spark.matching.tables import (
    WORD,
    Conditions,
    RightsClass,
    Subscription,
    beyond,
    low,
    presence,
    rights_classes,
    shown_words,
    table_of_members,
    tables,
)
from maia.views.plan import checked_stored, spark_type
from maia.views.to_spark import to_spark_test, walled

__all__ = [
    "EVENT",
    "REQUIRES",
    "TYPE",
    "BulkMatcher",
    "Subscription",
    "as_super_types",
]

EVENT: Final = "_event"
"""The column that tells events apart."""
TYPE: Final = "_type"
"""The column that says which type an event is of."""
REQUIRES: Final = "_requires"
"""The column with what an event's publisher requires of subscribers, as it travels; it may be left out."""

CASES_MAX: Final = 64
"""Up to this many filters are written into the query; more of them are asked in Arrow."""

BROADCAST_ROWS_MAX: Final = 2_000_000
"""Key rows that are sent to every executor. Beyond, events and keys are shuffled to meet."""

REQUIREMENTS_MAX: Final = 10_000
"""Different requirements of publishers in one job: each is decided once for each class of statements."""

KEY_ROWS_MAX: Final = 50_000_000

_FAR: Final = 1 << 16
"""More than an attribute has buckets: two bucket numbers become one."""


def as_super_types(
    events: DataFrame, super_types: Mapping[str, Mapping[str, Collection[AttributeUid]]]
) -> DataFrame:
    """Return events and, of each event of a sub-type, one more for each super-type with its attributes.

    A log of the network holds these already, as brokers published them. `super_types` says, for a type as the
    type column names it, which attributes each of its super-types has. What tells an event apart becomes the
    pair of `event` and the `type` that it is seen as.
    """
    seen_as = F.array(F.col(TYPE))
    for name, above in super_types.items():
        every = F.array(F.lit(name), *(F.lit(one) for one in above))
        seen_as = F.when(F.col(TYPE) == name, every).otherwise(seen_as)
    each = events.withColumn("_seen_as", F.explode(seen_as))
    columns = [one for one in events.columns if one not in (EVENT, TYPE)]
    return each.select(
        F.struct(F.col(EVENT).alias("event"), F.col("_seen_as").alias("type")).alias(EVENT),
        F.col("_seen_as").alias(TYPE),
        *(F.when(~_is_left_out(uid, super_types), F.col(f"`{uid}`")).alias(uid) for uid in columns),
    )


def _is_left_out(uid: str, super_types: Mapping[str, Mapping[str, Collection[AttributeUid]]]) -> Column:
    """Return whether an attribute is one that the super-type does not have as which a row is seen."""
    left_out = F.lit(False)
    for name, above in super_types.items():
        lacking = [one for one, attributes in above.items() if uid not in attributes]
        left_out = left_out | ((F.col(TYPE) == name) & F.col("_seen_as").isin(lacking))
    return left_out


class BulkMatcher:
    """A set of subscriptions, ready to be matched with any number of events."""

    def __init__(self, spark: SparkSession, subscriptions: Iterable[Subscription], stored: Kinds) -> None:
        """Work out rights classes and keys; `stored` are the kinds of the events' columns, by uid."""
        self._spark = spark
        self.classes: Sequence[RightsClass] = rights_classes(subscriptions, checked_stored(stored))
        self._filters = tables(self.classes, stored)
        self._stored = stored
        self._words = len(shown_words((), stored))
        self._members: DataFrame | None = None
        self._plain = self._keys(self._filters.plain)
        self._others = self._keys(self._filters.others)

    # -------------------------------------------------------- answers

    def by_class(self, events: DataFrame) -> DataFrame:
        """Return one row for each event and rights class that gets it: which, and its attributes by uid."""
        return self._named(self._matched(events), "rights_class")

    def by_subscription(self, events: DataFrame) -> DataFrame:
        """Return one row for each event and subscription that gets it, and the attributes that it gets."""
        if self._members is None:
            self._members = self._spark.createDataFrame(table_of_members(self.classes))
        return self._named(self._matched(events).join(self._members, "rights_class"), "subscription")

    def as_seen(self, events: DataFrame) -> DataFrame:
        """Return events as each rights class sees them: what it is not shown is null."""
        matched = self._matched(events)
        columns = [F.when(_bit(at), F.col(f"`{uid}`")).alias(uid) for at, uid in enumerate(self._stored)]
        return walled(events.join(matched, EVENT).select(EVENT, "rights_class", *columns))

    def count(self, events: DataFrame) -> int:
        """Return how many events all subscriptions get together, without naming them."""
        sizes = self._spark.createDataFrame(
            [(at, len(one.members)) for at, one in enumerate(self.classes)], "rights_class int, members long"
        )
        per_class = self._matched(events).groupBy("rights_class").count()
        total = per_class.join(sizes, "rights_class").agg(F.sum(F.col("count") * F.col("members")))
        return int(total.collect()[0][0] or 0)

    def _named(self, matched: DataFrame, whom: str) -> DataFrame:
        # Not `array_compact`: Spark compiles no function that is given another one.
        none = F.array().cast("array<string>")
        shown = (F.when(_bit(at), F.array(F.lit(u))).otherwise(none) for at, u in enumerate(self._stored))
        return walled(matched.select(EVENT, whom, F.concat(none, *shown).alias("attributes")))

    # -------------------------------------------------------- the join

    def _matched(self, events: DataFrame) -> DataFrame:
        """Return event, class, and the attributes it would receive as bits: shown to it and present."""
        _check_columns(events, self._stored)
        given = events.select(EVENT, TYPE, *(F.col(f"`{u}`") for u in self._asked()), *self._presence())
        given = given.withColumns(self._buckets())
        plain = self._candidates(given, self._filters.plain, self._plain)
        numbered = F.col("_number").alias("rights_class")
        parts = [] if plain is None else [plain.select(EVENT, numbered, *self._received())]
        if self._filters.opened.num_rows:
            parts.append(self._gathered(given))
        matched = reduce(DataFrame.unionAll, parts) if parts else self._nothing(given)
        return self._permitted(matched, events) if REQUIRES in events.columns else matched

    def _permitted(self, matched: DataFrame, events: DataFrame) -> DataFrame:
        """Return the matches of classes that meet what the event's publisher requires."""
        required = events.where(F.length(REQUIRES) > 0).select(EVENT, REQUIRES)
        found = required.select(REQUIRES).distinct().limit(REQUIREMENTS_MAX + 1).collect()
        if not found:
            return matched
        if len(found) > REQUIREMENTS_MAX:
            raise BadInput(
                "INPUT-BULK-REQUIREMENTS",
                f"one job takes at most {REQUIREMENTS_MAX:,} different requirements",
            )
        unmet = self._unmet([bytes(row[0]) for row in found])
        if not unmet:
            return matched
        schema = f"{REQUIRES} binary, rights_class int"
        barred = required.join(F.broadcast(self._spark.createDataFrame(unmet, schema)), REQUIRES)
        return matched.join(barred.select(EVENT, "rights_class"), [EVENT, "rights_class"], "left_anti")

    def _unmet(self, required: Iterable[bytes]) -> list[tuple[bytes, int]]:
        """Return which requirement which class does not meet; one decision for equal statements."""
        found: list[tuple[bytes, int]] = []
        for data in required:
            requirement, decided = requirement_from_bytes(data), dict[frozenset[object], bool]()
            for number, one in enumerate(self.classes):
                said = frozenset((uid, type(value), value) for uid, value in one.attributes.items())
                if said not in decided:
                    decided[said] = is_met(requirement, one.attributes)
                if not decided[said]:
                    found.append((data, number))
        return found

    def _candidates(
        self, given: DataFrame, conditions: Conditions, keys: DataFrame | None
    ) -> DataFrame | None:
        """Return the events beside the boxes that they lie in."""
        if keys is None:
            return None
        found = [
            _key(number, shape, F.col(TYPE), _event_part) for number, shape in enumerate(conditions.shapes)
        ]
        looking = given.withColumn("_key", F.explode(F.array(*found)))
        inside = [_inside(uid, conditions.rows.column_names) for uid in conditions.bounded]
        # As an equality it would become part of the join's key, and Spark is fastest with one number.
        of_type = F.col("_of_type").between(F.col(TYPE), F.col(TYPE))
        return looking.join(keys, "_key").where(reduce(Column.__and__, inside, of_type))

    def _gathered(self, given: DataFrame) -> DataFrame:
        """Return what the windows of a class, and the boxes of a filter, show together."""
        matches = [one for one in (self._checked(given), self._residual(given)) if one is not None]
        if not matches:
            return self._nothing(given)
        opened = F.broadcast(self._spark.createDataFrame(self._filters.opened))
        together = [F.bit_or(f"_received_{at}").alias(f"_received_{at}") for at in range(self._words)]
        rights = reduce(DataFrame.unionAll, matches).join(opened, "_number")
        return (
            rights.select(EVENT, "rights_class", *self._received())
            .groupBy(EVENT, "rights_class")
            .agg(*together)
        )

    def _checked(self, given: DataFrame) -> DataFrame | None:
        """Return event and number of those filters that were found by a key, and hold."""
        filters, kept = self._filters, (EVENT, *self._present_names(), "_number")
        found = self._candidates(given, filters.others, self._others)
        if found is None or not filters.doubtful:
            return None if found is None else found.select(*kept)
        if len(filters.doubtful) <= CASES_MAX:
            return found.where(self._case()).select(*kept)
        needed = found.select(*kept, *self._stored_among(filters.doubtful.values()))
        schema = needed.select(*kept).schema
        ask = AskCandidates(dict(filters.doubtful), dict(self._stored), "_number", kept)
        return needed.repartition("_number").sortWithinPartitions("_number").mapInArrow(ask, schema)

    def _case(self) -> Column:
        """Return the question of each filter that bounds do not express, by its number."""
        case: Column | None = None
        for number, predicate in self._filters.doubtful.items():
            is_its, test = F.col("_number") == number, to_spark_test(predicate, self._stored)
            case = F.when(is_its, test) if case is None else case.when(is_its, test)
        return F.lit(True) if case is None else case.otherwise(F.lit(True))

    def _residual(self, given: DataFrame) -> DataFrame | None:
        """Return event and number of those filters that no key tells apart."""
        residual, kept = self._filters.residual, (EVENT, *self._present_names())
        if not residual:
            return None
        if len(residual) <= CASES_MAX:
            holding = [
                F.when((F.col(TYPE) == of_type) & to_spark_test(predicate, self._stored), F.lit(number))
                for number, (of_type, predicate) in residual.items()
            ]
            return given.select(*kept, F.explode(F.array_compact(F.array(*holding))).alias("_number"))
        schema = t.StructType([*given.select(*kept).schema.fields, t.StructField("_number", t.IntegerType())])
        ask = AskEverything(dict(residual), dict(self._stored), TYPE, "_number", kept)
        asked = self._stored_among(predicate for _, predicate in residual.values())
        return given.select(TYPE, *kept, *asked).mapInArrow(ask, schema)

    # -------------------------------------------------------- keys

    def _keys(self, conditions: Conditions) -> DataFrame | None:
        """Return a row for each key that a box is found by, with the box's bounds."""
        if not conditions.rows.num_rows:
            return None
        spread = self._spark.createDataFrame(conditions.rows)
        for at in range(2):
            spread = spread.withColumn(f"_at_{at}", F.explode(F.sequence(f"_first_{at}", f"_last_{at}")))
        shapes = [
            F.when(F.col("_shape") == number, _key(number, shape, F.col("_of_type"), _box_part))
            for number, shape in enumerate(conditions.shapes)
        ]
        helping = ("_shape", *(f"_{word}_{at}" for word in ("first", "last", "at") for at in range(2)))
        keys = spread.withColumn("_key", F.coalesce(*shapes)).drop(*helping)
        ends = (
            conditions.rows.column(f"_{word}_{at}").to_numpy()
            for at in range(2)
            for word in ("first", "last")
        )
        first_0, last_0, first_1, last_1 = ends
        rows = int(((last_0 - first_0 + 1) * (last_1 - first_1 + 1)).sum())
        if rows > KEY_ROWS_MAX:
            raise BadInput(
                "INPUT-BULK-KEYS", f"the filters make {rows:,} rows of keys, and a job takes {KEY_ROWS_MAX:,}"
            )
        return F.broadcast(keys) if rows <= BROADCAST_ROWS_MAX else keys.hint("shuffle_hash")

    def _buckets(self) -> dict[str, Column]:
        """Return the bucket of each attribute that some key holds by bucket; null where it is missing."""
        shapes = (*self._filters.plain.shapes, *self._filters.others.shapes)
        uids = sorted({part.uid for shape in shapes for part in shape if part.is_bucket})
        known = self._filters.buckets
        return {
            _bucket_of(uid): F.when(F.col(f"`{uid}`").isNotNull(), _bucket(uid, known[uid], self._stored))
            for uid in uids
        }

    # -------------------------------------------------------- columns

    def _asked(self) -> list[AttributeUid]:
        filters = self._filters
        predicates = [*filters.doubtful.values(), *(predicate for _, predicate in filters.residual.values())]
        asked = frozenset().union(
            *map(attributes_of, predicates), filters.plain.bounded, filters.others.bounded
        )
        return [uid for uid in self._stored if uid in asked]

    def _stored_among(self, predicates: Iterable[Predicate]) -> list[Column]:
        asked = frozenset().union(*map(attributes_of, predicates))
        return [F.col(f"`{uid}`") for uid in self._stored if uid in asked]

    def _presence(self) -> list[Column]:
        """Return which attributes an event has, as bits."""
        uids = list(self._stored)
        return [
            _bits([F.col(f"`{uid}`").isNotNull() for uid in uids[at * WORD : (at + 1) * WORD]]).alias(name)
            for at, name in enumerate(self._present_names())
        ]

    def _present_names(self) -> list[str]:
        return [f"_has_{at}" for at in range(self._words)]

    def _received(self) -> list[Column]:
        return [
            F.col(f"_shown_{at}").bitwiseAND(F.col(f"_has_{at}")).alias(f"_received_{at}")
            for at in range(self._words)
        ]

    def _nothing(self, given: DataFrame) -> DataFrame:
        """Return no match at all; what tells events apart keeps its type."""
        received = (F.lit(0).cast("long").alias(f"_received_{at}") for at in range(self._words))
        return given.select(EVENT, F.lit(0).alias("rights_class"), *received).limit(0)


# ------------------------------------------------------------ expressions


def _key(number: int, shape: Shape, of_type: Column, part: Any) -> Column:
    # Any: a function from a shape to columns. The place in the buckets comes last: numbers that
    # differ there alone never hash to one key, so that an event meets a box once.
    return F.xxhash64(F.lit(number), of_type, *part(shape))


def _event_part(shape: Shape) -> list[Column]:
    values = [F.col(f"`{part.uid}`") for part in shape if not part.is_bucket]
    return [*values, _place([F.col(f"`{_bucket_of(part.uid)}`") for part in shape if part.is_bucket])]


def _bucket_of(uid: AttributeUid) -> str:
    return f"_bucket_{uid}"


def _box_part(shape: Shape) -> list[Column]:
    values = [F.col(f"`{low(part.uid)}`") for part in shape if not part.is_bucket]
    places = [F.col(f"_at_{at}") for at in range(sum(part.is_bucket for part in shape))]
    return [*values, _place(places)]


def _place(buckets: Sequence[Column]) -> Column:
    """Return the numbers of at most two buckets as one number."""
    return reduce(lambda one, other: one * F.lit(_FAR) + other, buckets) if buckets else F.lit(0)


def _bucket(uid: AttributeUid, buckets: Buckets, stored: Kinds) -> Column:
    """Return the bucket of a value, by halving."""

    def between(first: int, last: int) -> Column:
        if first == last:
            return F.lit(first)
        middle = (first + last + 1) // 2
        beyond_it = to_spark_test(Comparison(uid, Operator.GE, buckets.begin[middle - 1]), stored)
        return F.when(beyond_it, between(middle, last)).otherwise(between(first, middle - 1))

    return between(0, len(buckets.begin))


def _inside(uid: AttributeUid, columns: Sequence[str]) -> Column:
    """Return whether an event's value lies between a box's bounds; an absent bound holds."""
    value = F.col(f"`{uid}`")
    asked = [F.lit(True)]
    if low(uid) in columns:
        bound = F.col(f"`{low(uid)}`")
        asked.append(bound.isNull() | (value >= bound))
    if beyond(uid) in columns:
        bound = F.col(f"`{beyond(uid)}`")
        asked.append(bound.isNull() | (value < bound))
    if presence(uid) in columns:
        bound = F.col(f"`{presence(uid)}`")
        asked.append(bound.isNull() | (value.isNotNull() == bound))
    return reduce(Column.__and__, asked)


def _bits(flags: Sequence[Column]) -> Column:
    numbers = [
        F.when(flag, F.lit(1 << at).cast("long")).otherwise(F.lit(0).cast("long"))
        for at, flag in enumerate(flags)
    ]
    return reduce(Column.bitwiseOR, numbers) if numbers else F.lit(0).cast("long")


def _bit(at: int) -> Column:
    return F.getbit(F.col(f"_received_{at // WORD}"), F.lit(at % WORD)) == 1


def _check_columns(events: DataFrame, stored: Kinds) -> None:
    found = {column.name: column.dataType for column in events.schema.fields}
    expected = {uid: spark_type(kind) for uid, kind in stored.items()} | {TYPE: t.StringType()}
    for name, kind in expected.items():
        if found.get(name) != kind:
            raise BadInput(
                "INPUT-STORED-COLUMNS", f"the events have no column `{name}` of type `{kind.simpleString()}`"
            )
    if EVENT not in found:
        raise BadInput("INPUT-STORED-COLUMNS", f"the events have no column `{EVENT}`, which tells them apart")
