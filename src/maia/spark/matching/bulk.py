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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema

from maia.credentials.requirements import is_met, requirement_from_bytes
from maia.errors import BadInput
from maia.events import AttributeUid, Instant, Kind, Kinds
from maia.predicates.syntax import Comparison, Operator, Predicate, attributes_of
from maia.spark.errors import told_to_spark
from maia.spark.matching.boxes import AskCandidates, AskEverything, Buckets, Shape, buckets_of, kept_shapes
from maia.spark.matching.tables import (
    OTHER,
    PLAIN,
    RESIDUAL,
    RESIDUAL_MAX,
    WORD,
    BoxesTask,
    KeysTask,
    Subscription,
    beyond,
    filter_from_bytes,
    low,
    presence,
    said_from_bytes,
    shape_from_text,
    shape_to_text,
    subscription_rows,
    words_of,
)
from maia.spark.session.cluster import parallelism
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

ENDS_MAX: Final = 16_384
"""Ends of ranges of one attribute by which its buckets are made; of more, these are taken by chance."""

_TASKS_PER_CORE: Final = 4
_OF_CLASS: Final = ("event_type", "view", "interest", "requires", "said")
_KEYED: Final = t.StructType(
    [
        t.StructField("_wanted", t.StringType()),
        *(t.StructField(f"_{end}_{at}", t.IntegerType()) for at in range(2) for end in ("first", "last")),
    ]
)
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


@dataclass(frozen=True, slots=True)
class Conditions:
    """Boxes with their keys, a row each, and the shapes that their keys have."""

    rows: DataFrame
    shapes: tuple[Shape, ...]
    bounded: tuple[AttributeUid, ...]
    """Attributes that some box asks about."""
    keys: int = 0
    """How many rows of keys they make."""


@dataclass(frozen=True, slots=True)
class Filters:
    """All that a job knows of its subscriptions, who they are left out."""

    plain: Conditions
    """Numbered by class: exact, one box to an event, with what the class is shown."""
    others: Conditions
    """Numbered by filter."""
    doubtful: DataFrame
    """Filters among the others whose candidates have to be asked."""
    cases: Mapping[int, Predicate]
    """The same, if they are few enough to be written into a query; otherwise some of them."""
    residual: Mapping[int, tuple[str, Predicate]]
    """Filters that are asked about every event of a type."""
    opened: DataFrame
    """Which class is shown what where one of the other filters holds."""
    has_others: bool
    asked: frozenset[AttributeUid]
    """Attributes that filters ask about, beside bounds."""
    buckets: Mapping[AttributeUid, Buckets]


@dataclass(frozen=True, slots=True)
class UnmetTask:
    """Says which requirement of a publisher which statements do not meet. Pickled into the job."""

    required: tuple[bytes, ...]

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn statements into pairs."""
        with told_to_spark():
            asked = [(data, requirement_from_bytes(data)) for data in self.required]
            for batch in batches:
                said = [(data, said_from_bytes(data)) for data in batch.column(0).to_pylist()]
                pairs = [(data, who) for data, one in asked for who, says in said if not is_met(one, says)]
                columns = [pa.array([pair[at] for pair in pairs], pa.binary()) for at in range(2)]
                yield pa.RecordBatch.from_arrays(columns, [REQUIRES, "said"])


class BulkMatcher:
    """A set of subscriptions, ready to be matched with any number of events."""

    def __init__(
        self, spark: SparkSession, subscriptions: Iterable[Subscription] | DataFrame, stored: Kinds
    ) -> None:
        """Have tasks work out rights classes and keys; `stored` are the kinds of the events' columns, by uid.

        A list of subscriptions is in the driver's memory; very many are a table (`SUBSCRIPTIONS`).
        """
        self._spark, self._stored = spark, checked_stored(stored)
        self._words = words_of(stored)
        given = subscriptions
        if not isinstance(given, DataFrame):
            given = spark.createDataFrame(subscription_rows(given))
        self._given, self._held = given, ExitStack()
        # Numbers are digests, so that what is lost is computed again with the same ones.
        while True:
            self._salt = token_hex()
            numbered = given.withColumns(self._number("rights_class", *_OF_CLASS))
            each = (F.first(one).alias(one) for one in _OF_CLASS)
            classes = numbered.groupBy("rights_class").agg(*each, _clash())
            # What Python does to a row costs more than what Spark goes by, its size.
            self.classes = self._kept(classes.repartition(_TASKS_PER_CORE * parallelism(spark)))
            """The rights classes: their numbers, and what their subscriptions have in common."""
            split = BoxesTask(stored)
            self._boxes = self._kept(self.classes.mapInArrow(split, from_arrow_schema(split.schema)))
            others = self._boxes.where(F.col("_way") != PLAIN)
            self._opened = others.withColumns(self._number("_number", "_of_type", "_filter"))
            numbers = self._opened.groupBy("_number").agg(
                *(F.first(one).alias(one) for one in ("_of_type", "_filter", "_way", "_exact")),
                F.min("_class").alias("_one"),
                _clash(),
            )
            told, has = self._statistics(self._boxes)
            checked = (self.classes, numbers) if told["others"] else (self.classes,)
            if not any(one.agg(F.bool_or("_clash")).collect()[0][0] for one in checked):
                break
            self.close()
        self._filters = self._worked_out(self._boxes, numbers.drop("_clash"), told, has)
        self._plain = self._keys(self._filters.plain)
        self._others = self._keys(self._filters.others)

    def close(self) -> None:
        """Let executors forget what they keep for this matcher; they do so with the session, too."""
        self._held.close()

    @property
    def members(self) -> DataFrame:
        """Return which subscriptions are in which rights class."""
        number = self._number("rights_class", *_OF_CLASS)["rights_class"]
        return self._given.select(number.alias("rights_class"), "subscription")

    def _number(self, name: str, *columns: str) -> dict[str, Column]:
        """Return a number for rows that are equal in some columns, of which none is null, and a digest."""
        each = (F.sha2(F.col(one).cast("binary"), 256) for one in columns)
        digest = F.sha2(F.concat(F.lit(self._salt), *each), 256)
        return {name: F.conv(F.substring(digest, 1, 15), 16, 10).cast("long"), "_digest": digest}

    def _kept(self, table: DataFrame) -> DataFrame:
        """Keep a table on executors for as long as this matcher is used."""
        kept = table.persist()
        self._held.callback(kept.unpersist)
        return kept

    # -------------------------------------------------------- what tasks work out

    def _worked_out(
        self, boxes: DataFrame, numbers: DataFrame, told: Mapping[str, int], has: frozenset[str]
    ) -> Filters:
        stored, has_others = self._stored, bool(told["others"])
        buckets = buckets_of(self._ends(boxes, told))
        points = {uid: max(1, told[f"points {uid}"]) for uid in stored}
        # Each question to Spark costs half a second of work, however few answer it.
        without_key = numbers.where(F.col("_way") == RESIDUAL).limit(RESIDUAL_MAX + 1)
        residual = {
            one["_number"]: (one["_of_type"], filter_from_bytes(bytes(one["_filter"])))
            for one in (without_key.collect() if has_others else ())
        }
        if len(residual) > RESIDUAL_MAX:
            raise BadInput(
                "INPUT-BULK-IRREGULAR",
                f"more than {RESIDUAL_MAX:,} different filters ask for no value and no range of an "
                "attribute, and a job takes no more of them: add one to each filter, or match them in "
                "several jobs",
            )
        doubtful = numbers.where((F.col("_way") == OTHER) & ~F.col("_exact"))
        some = doubtful.limit(CASES_MAX + 1).collect() if has_others else []
        asks = [told[f"_asks_{at}"] or 0 for at in range(self._words)]
        keyed = boxes.where(F.col("_way") != RESIDUAL).drop(
            *(
                name
                for name in boxes.columns
                if name.startswith(("_low_", "_beyond_", "_present_")) and name not in has
            )
        )
        task = KeysTask(stored, points, buckets)
        schema = t.StructType([*keyed.schema.fields, *_KEYED.fields])
        keyed = self._kept(keyed.mapInArrow(task, schema))
        plain = keyed.where(F.col("_way") == PLAIN).withColumn("_number", F.col("_class"))
        # Of classes that share a filter, one has its boxes.
        first = numbers.select("_number", F.col("_one").alias("_class"))
        named = keyed.where(F.col("_way") == OTHER).withColumns(
            self._number("_number", "_of_type", "_filter")
        )
        shown = [f"_shown_{at}" for at in range(self._words)]
        return Filters(
            plain=self._conditions(plain),
            others=self._conditions(named.join(first, ["_number", "_class"]))
            if has_others
            else Conditions(named, (), ()),
            doubtful=doubtful.select("_number", "_filter"),
            cases={one["_number"]: filter_from_bytes(bytes(one["_filter"])) for one in some},
            residual=residual,
            opened=self._opened.select("_number", F.col("_class").alias("rights_class"), *shown).distinct(),
            has_others=has_others,
            asked=frozenset(
                uid for at, uid in enumerate(stored) if asks[at // WORD] >> (at % WORD) & 1
            ).union(*(attributes_of(one) for _, one in residual.values())),
            buckets=buckets,
        )

    def _statistics(self, boxes: DataFrame) -> tuple[dict[str, int], frozenset[str]]:
        """Return how much is asked of each attribute, and the columns that hold anything."""
        bounds = [name for name in boxes.columns if name.startswith(("_low_", "_beyond_", "_present_"))]
        wanted = [F.count_if(F.col("_way") != PLAIN).alias("others")]
        wanted += [F.count(F.col(f"`{name}`")).alias(name) for name in bounds]
        wanted += [F.bit_or(f"_asks_{at}").alias(f"_asks_{at}") for at in range(self._words)]
        for at, uid in enumerate(self._stored):
            value, is_point = F.col(f"`{low(uid)}`"), _bit(at, "_point")
            wanted += [
                F.approx_count_distinct(F.when(is_point, value)).alias(f"points {uid}"),
                F.count_if(~is_point & value.isNotNull()).alias(f"ends {low(uid)}"),
                F.count_if(~is_point & F.col(f"`{beyond(uid)}`").isNotNull()).alias(f"ends {beyond(uid)}"),
            ]
        told = boxes.agg(*wanted).collect()[0].asDict()
        return told, frozenset(name for name in bounds if told[name])

    def _ends(self, boxes: DataFrame, told: Mapping[str, int]) -> dict[AttributeUid, list[Any]]:
        """Return where ranges begin and end, some of them if they are very many."""
        wanted = {}
        for at, (uid, kind) in enumerate(self._stored.items()):
            for name in (low(uid), beyond(uid)):
                count = told[f"ends {name}"]
                if kind.is_ordered and count:
                    value = F.col(f"`{name}`")
                    value = F.unix_micros(value) if kind is Kind.TIMESTAMP else value
                    chance = F.pmod(F.xxhash64("_class", value), F.lit(1 << 20))
                    is_one = ~_bit(at, "_point") & (chance * F.lit(count) < F.lit(ENDS_MAX << 20))
                    wanted[uid, name] = F.collect_list(F.when(is_one, value)).alias(name)
        if not wanted:
            return {}
        found = boxes.agg(*wanted.values()).collect()[0]
        ends: dict[AttributeUid, list[Any]] = {}
        for uid, name in wanted:
            values = found[name]
            is_moment = self._stored[uid] is Kind.TIMESTAMP
            ends.setdefault(uid, []).extend(map(Instant, values) if is_moment else values)
        return ends

    def _conditions(self, keyed: DataFrame) -> Conditions:
        """Return boxes with their keys, after pairs of attributes that few of them have are no key."""
        sizes = [(F.col(f"_last_{at}") - F.col(f"_first_{at}") + 1).cast("long") for at in range(2)]
        asked = F.count(F.lit(1)), F.sum(sizes[0]), F.sum(sizes[0] * sizes[1])
        counted = {shape_from_text(one[0]): one[1:] for one in keyed.groupBy("_wanted").agg(*asked).collect()}
        becomes = kept_shapes({shape: count for shape, (count, _, _) in counted.items()})
        keys = sum(counted[one][2 if one == got else int(one[0].is_bucket)] for one, got in becomes.items())
        shapes = sorted(set(becomes.values()))
        rows = keyed.withColumn("_shape", _chosen(becomes, lambda _, shape: F.lit(shapes.index(shape))))
        for at in range(2):
            for name in (f"_first_{at}", f"_last_{at}"):
                kept = _chosen(becomes, partial(_kept_place, at=at, column=F.col(name)))
                rows = rows.withColumn(name, kept)
        there = set(rows.columns)
        columns = [low, beyond, presence]
        bounded = [uid for uid in self._stored if any(name(uid) in there for name in columns)]
        return Conditions(rows, tuple(shapes), tuple(bounded), keys)

    # -------------------------------------------------------- answers

    def by_class(self, events: DataFrame) -> DataFrame:
        """Return one row for each event and rights class that gets it: which, and its attributes by uid."""
        return self._named(self._matched(events), "rights_class")

    def by_subscription(self, events: DataFrame) -> DataFrame:
        """Return one row for each event and subscription that gets it, and the attributes that it gets."""
        return self._named(self._matched(events).join(self.members, "rights_class"), "subscription")

    def as_seen(self, events: DataFrame) -> DataFrame:
        """Return events as each rights class sees them: what it is not shown is null."""
        matched = self._matched(events)
        columns = [F.when(_bit(at), F.col(f"`{uid}`")).alias(uid) for at, uid in enumerate(self._stored)]
        return walled(events.join(matched, EVENT).select(EVENT, "rights_class", *columns))

    def count(self, events: DataFrame) -> int:
        """Return how many events all subscriptions get together, without naming them."""
        sizes = self.members.groupBy("rights_class").agg(F.count(F.lit(1)).alias("members"))
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
        if self._filters.has_others:
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
        unmet = (
            self.classes.select("said")
            .distinct()
            .mapInArrow(UnmetTask(tuple(bytes(row[0]) for row in found)), f"{REQUIRES} binary, said binary")
        )
        barred = required.join(F.broadcast(unmet), REQUIRES).select(EVENT, "said")
        said = matched.join(self.classes.select("rights_class", "said"), "rights_class")
        return said.join(barred, [EVENT, "said"], "left_anti").select(*matched.columns)

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
        inside = [_inside(uid, conditions.rows.columns) for uid in conditions.bounded]
        # As an equality it would become part of the join's key, and Spark is fastest with one number.
        of_type = F.col("_of_type").between(F.col(TYPE), F.col(TYPE))
        return looking.join(keys, "_key").where(reduce(Column.__and__, inside, of_type))

    def _gathered(self, given: DataFrame) -> DataFrame:
        """Return what the windows of a class, and the boxes of a filter, show together."""
        matches = [one for one in (self._checked(given), self._residual(given)) if one is not None]
        if not matches:
            return self._nothing(given)
        opened = self._filters.opened
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
        if found is None or not filters.cases:
            return None if found is None else found.select(*kept)
        if len(filters.cases) <= CASES_MAX:
            return found.where(self._case()).select(*kept)
        asked = [F.col(f"`{uid}`") for uid in self._stored if uid in filters.asked]
        needed = found.select(*kept, *asked).join(filters.doubtful, "_number", "left")
        schema = needed.select(*kept).schema
        ask = AskCandidates(filter_from_bytes, dict(self._stored), "_number", "_filter", kept)
        return needed.repartition("_number").sortWithinPartitions("_number").mapInArrow(ask, schema)

    def _case(self) -> Column:
        """Return the question of each filter that bounds do not express, by its number."""
        case: Column | None = None
        for number, predicate in self._filters.cases.items():
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
                F.when(
                    (F.col(TYPE) == of_type) & to_spark_test(predicate, self._stored),
                    F.lit(number).cast("long"),
                )
                for number, (of_type, predicate) in residual.items()
            ]
            return given.select(*kept, F.explode(F.array_compact(F.array(*holding))).alias("_number"))
        schema = t.StructType([*given.select(*kept).schema.fields, t.StructField("_number", t.LongType())])
        ask = AskEverything(dict(residual), dict(self._stored), TYPE, "_number", kept)
        asked = self._stored_among(predicate for _, predicate in residual.values())
        return given.select(TYPE, *kept, *asked).mapInArrow(ask, schema)

    # -------------------------------------------------------- keys

    def _keys(self, conditions: Conditions) -> DataFrame | None:
        """Return a row for each key that a box is found by, with the box's bounds."""
        if not conditions.shapes:
            return None
        rows = conditions.keys
        if rows > KEY_ROWS_MAX:
            raise BadInput(
                "INPUT-BULK-KEYS", f"the filters make {rows:,} rows of keys, and a job takes {KEY_ROWS_MAX:,}"
            )
        spread = conditions.rows
        for at in range(2):
            spread = spread.withColumn(f"_at_{at}", F.explode(F.sequence(f"_first_{at}", f"_last_{at}")))
        shapes = [
            F.when(F.col("_shape") == number, _key(number, shape, F.col("_of_type"), _box_part))
            for number, shape in enumerate(conditions.shapes)
        ]
        bounds = [name(uid) for uid in conditions.bounded for name in (low, beyond, presence)]
        shown = [f"_shown_{at}" for at in range(self._words)]
        keys = spread.withColumn("_key", F.coalesce(*shapes)).select(
            "_key", "_number", "_of_type", *shown, *(f"`{one}`" for one in bounds if one in spread.columns)
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
        asked = filters.asked.union(filters.plain.bounded, filters.others.bounded)
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
        return given.select(EVENT, F.lit(0).cast("long").alias("rights_class"), *received).limit(0)


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


def _bit(at: int, name: str = "_received") -> Column:
    return F.getbit(F.col(f"{name}_{at // WORD}"), F.lit(at % WORD)) == 1


def _clash() -> Column:
    """Return whether rows that differ have one number: then another salt is taken."""
    return (F.min("_digest") != F.max("_digest")).alias("_clash")


def _chosen(becomes: Mapping[Shape, Shape], value: Callable[[Shape, Shape], Column]) -> Column:
    """Return a value by the key that a box wants, and the one that it gets."""
    whens = [
        F.when(F.col("_wanted") == shape_to_text(wanted), value(wanted, got))
        for wanted, got in becomes.items()
    ]
    return F.coalesce(*whens, F.lit(0))


def _kept_place(wanted: Shape, got: Shape, *, at: int, column: Column) -> Column:
    """Return a bucket of a key; none where the attribute that it is of is no part of the key any more."""
    is_kept = wanted == got or (at == 0 and wanted[0].is_bucket)
    return column if is_kept else F.lit(0)


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
