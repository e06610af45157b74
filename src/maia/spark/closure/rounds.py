"""How are all chains of a pool found by joins, however many machines the pool lies on?

In rounds. The frontier is the chains that the last round found; it is joined with the certificates that their
holders issued; each pair is extended, proved, and compared with the other chains of its holder, by the steps
of `reach.py`; what is new and not needless is the next frontier. Names are resolved before, in rounds of
the same form. No task holds a whole type, and the driver nothing but how far the rounds have come.

Of a type in whose pool is a threshold, or which several own, the kernel's search is run for each principal:
tasks share the principals, and each of them holds the pool of the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import Principal, SignedCertificate, VerificationCache, certificate_from_bytes
from maia.credentials.certificate import UNBOUNDED, NameCertificate
from maia.credentials.chains.flows import DEFAULT_LIMITS
from maia.credentials.chains.reduction import rewritten
from maia.credentials.encoding.parts import LINKED_NAMES_MAX
from maia.credentials.keys import LocalName
from maia.events import AttributeUid, Instant
from maia.spark.closure.filing import (
    FILED_DDL,
    NAME,
    TO_KEY,
    TO_NAME,
    TO_SEVERAL,
    Lineage,
    World,
    name_key,
)
from maia.spark.closure.reach import START, Path, Reach, ReachedGrant, Sight
from maia.spark.errors import told_to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STEP: Final = "array<struct<certificate: binary, ends: bigint>>"
_KEY: Final = ("type_no", "holder")
_GRANT_DDL: Final = (
    "is_shown boolean, since timestamp, until timestamp, where string, condition string, shown_as string, "
    "tests array<string>, passes_on boolean, certificates array<binary>, "
    "attributes array<struct<attribute: string, uid: string, transformation: string>>"
)
_CHAIN_DDL: Final = (
    f"type_no int, holder binary, may_delegate boolean, path array<{_STEP}>, trail array<binary>"
)
_CHAINS_DDL: Final = f"{_CHAIN_DDL}, {_GRANT_DDL}"
"""A chain: its certificates step by step, the ranks that it is ordered by, and what it shows."""
_WALK_DDL: Final = (
    f"start binary, name binary, looks_for binary, subject binary, passed array<binary>, "
    f"trail array<binary>, way {_STEP}"
)
_READ_MAX: Final = 4096
_REMEMBERED: Final = 16_384
"""Chains that a task remembers: those of one frontier come one after the other."""

Step: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The chains of a pool, which lies filed at `pool`; `scratch` is for what comes between."""

    spark: SparkSession
    pool: str
    scratch: str
    types: tuple[Lineage, ...]
    quorums: tuple[bytes, ...]
    at: Instant
    tasks: int

    def grants(self, owners: Sequence[bytes | None]) -> DataFrame:
        """Return what all chains show, a row for each attribute; an owner is None if it is a quorum."""
        filed = self.spark.read.schema(FILED_DDL).parquet(self.pool)
        several, sought = self._kinds_of_types(filed)
        shared = [no for no, owner in enumerate(owners) if owner is None or no in several]
        plain = filed.where(~F.col("type_no").isin(shared)) if shared else filed
        task = _Task(self.types, self.quorums, self.at, sought)
        found = [self._shown(self._chains(plain, owners, shared, task))]
        if shared:
            by_kernel = filed.where(F.col("type_no").isin(shared))
            found.append(self._by_kernel(by_kernel, task))
        return reduce(DataFrame.unionByName, found)

    def _kinds_of_types(self, filed: DataFrame) -> tuple[frozenset[int], dict[int, frozenset[AttributeUid]]]:
        """Return in which types a threshold takes part, and which attributes are sought in each."""
        each = filed.select("type_no", "kind", F.explode_outer("sought").alias("uid"))
        several = F.bool_or(F.col("kind") == TO_SEVERAL)
        rows = each.groupBy("type_no").agg(several, F.collect_set("uid")).collect()
        shared = frozenset(number for number, is_shared, _ in rows if is_shared)
        return shared, {number: frozenset(map(AttributeUid, uids)) for number, _, uids in rows}

    # -------------------------------------------------------- chains

    def _chains(
        self, filed: DataFrame, owners: Sequence[bytes | None], shared: Sequence[int], task: _Task
    ) -> DataFrame:
        """Return the chains of all holders, none of which another makes needless."""
        edges = self._edges(filed)
        begin = [(no, bytearray(owner)) for no, owner in enumerate(owners) if owner and no not in shared]
        nothing = F.array().cast(f"array<{_STEP}>"), F.array().cast("array<binary>")
        start = self.spark.createDataFrame(begin, "type_no int, holder binary")
        frontier = start.select(*_KEY, nothing[0].alias("path"), nothing[1].alias("trail"))
        known = self.spark.createDataFrame([], _CHAINS_DDL)
        lost = self.spark.createDataFrame([], "type_no int, holder binary, trail array<binary>")
        # No chain is longer than its limit, so there are no more rounds.
        for number in range(DEFAULT_LIMITS.certificates_max + 1):
            found = self._kept(f"found-{number}", self._longer(frontier, edges, task))
            if found.isEmpty():
                break
            compared = self._kept(f"round-{number}", self._compared(found, known, lost, task))
            new = compared.where("is_new").drop("is_new")
            known = new if not number else known.unionByName(new)
            gone = compared.where("not is_new").select(*_KEY, "trail")
            lost = lost.unionByName(gone)
            frontier = new.where("may_delegate").select(*_KEY, "path", "trail")
        return _without(known, lost)

    def _longer(self, frontier: DataFrame, edges: DataFrame, task: _Task) -> DataFrame:
        """Return what the certificates that holders issued make of their chains."""
        pairs = frontier.join(edges, [frontier.type_no == edges.of_type, frontier.holder == edges.issuer])
        # What Python does to a row costs more than what Spark goes by, its size.
        pairs = pairs.select("type_no", "path", "trail", "step", "rank", "subject").repartition(self.tasks)
        made = pairs.mapInArrow(task.extend, f"{_CHAIN_DDL}, step {_STEP}, rank binary, {_GRANT_DDL}")
        path, trail = F.concat("path", F.array("step")), F.concat("trail", F.array("rank"))
        return made.withColumns({"path": path, "trail": trail}).drop("step", "rank")

    def _compared(self, found: DataFrame, known: DataFrame, lost: DataFrame, task: _Task) -> DataFrame:
        """Return new chains that are not needless, and those that they make needless, as not new."""
        touched = _without(known.join(found.select(*_KEY).distinct(), list(_KEY), "left_semi"), lost)
        both = found.withColumn("is_new", F.lit(True)).unionByName(touched.withColumn("is_new", F.lit(False)))
        # Shorter chains come first, and of one length in the order in which they are found.
        ordered = both.repartition(self.tasks, *_KEY).sortWithinPartitions(*_KEY, F.size("trail"), "trail")
        return ordered.mapInArrow(task.compare, both.schema)

    def _shown(self, chains: DataFrame) -> DataFrame:
        """Return the rows of a closure, without what is the same for a type."""
        each = chains.where("is_shown").withColumn("one", F.explode("attributes"))
        return each.select(
            "type_no", F.col("holder").alias("principal"), F.col("one.attribute"), F.col("one.uid"), "since",
            "until", "where", "condition", F.col("one.transformation"), "shown_as", "tests",
            F.col("passes_on").alias("may_delegate"), "certificates",
        )  # fmt: skip

    # -------------------------------------------------------- names

    def _edges(self, filed: DataFrame) -> DataFrame:
        """Return which holder each certificate leads to, by which certificates."""
        one = F.array(F.struct("certificate", "ends"))
        of_type = F.col("type_no").alias("of_type")
        plain = filed.where(F.col("kind") == TO_KEY).select(
            of_type, "issuer", "subject", one.alias("step"), "rank"
        )
        named = filed.where(F.col("kind") == TO_NAME)
        starts = named.select(F.col("name").alias("start")).distinct()
        if starts.isEmpty():
            return plain
        meanings = self._meanings(starts, filed.where(F.col("kind") == NAME))
        rank = F.concat("rank", *_ranked(F.col("of_name")))
        by_name = named.drop("subject").join(meanings, named.name == meanings.start)
        return plain.unionByName(
            by_name.select(
                of_type, "issuer", "subject", F.concat(one, "way").alias("step"), rank.alias("rank")
            )
        )

    def _meanings(self, starts: DataFrame, filed: DataFrame) -> DataFrame:
        """Return the principals that names mean, and by which name certificates, as a walk finds them."""
        defining = filed.select(F.col("name").alias("defines"), "certificate", "ends")
        defining = self._kept("names", defining.dropDuplicates(["certificate"]))
        none = F.array().cast("array<binary>")
        frontier = starts.select(
            "start", F.col("start").alias("name"), F.lit(None).cast("binary").alias("subject"),
            none.alias("passed"), none.alias("trail"), F.array().cast(_STEP).alias("way"),
        )  # fmt: skip
        frontier = frontier.mapInArrow(_look_for, _WALK_DDL)
        reached = self._kept("walk", frontier)
        place = ("start", "name", "subject", "passed")
        for number in range(_WALKS_MAX):
            pairs = reached if not number else frontier
            pairs = pairs.where("name is not null").join(defining, F.col("looks_for") == F.col("defines"))
            after = pairs.drop("defines").mapInArrow(_rewrite, _WALK_DDL)
            first = F.min_by(F.struct("looks_for", "trail", "way"), F.col("trail")).alias("first")
            after = after.groupBy(*place).agg(first).select(*place, "first.*")
            same = [F.col(f"a.{one}").eqNullSafe(F.col(f"b.{one}")) for one in place]
            new = after.alias("a").join(reached.alias("b"), same, "left_anti")
            frontier = self._kept(f"walk-{number}", new)
            if frontier.isEmpty():
                break
            reached = reached.unionByName(frontier)
        meant = reached.where("subject is not null")
        return meant.select("start", "subject", "way", F.col("trail").alias("of_name"))

    # -------------------------------------------------------- thresholds

    def _by_kernel(self, filed: DataFrame, task: _Task) -> DataFrame:
        shares = self.spark.range(self.tasks).select(F.col("id").cast("int").alias("share"))
        given = filed.select("type_no", "certificate", "ends").crossJoin(F.broadcast(shares))
        search = _Search(task, self.tasks)
        found = given.groupBy("type_no", "share").applyInArrow(
            lambda key, table: search.grants(key, table),  # noqa: PLW0108 - Spark counts arguments
            f"type_no int, holder binary, {_GRANT_DDL}",
        )
        return self._shown(found)

    def _kept(self, name: str, table: DataFrame) -> DataFrame:
        """Write what a round has found, so that nothing is computed twice."""
        place = f"{self.scratch}/{name}"
        table.write.parquet(place)
        return self.spark.read.schema(table.schema).parquet(place)


_WALKS_MAX: Final = 1 << LINKED_NAMES_MAX


def _without(chains: DataFrame, lost: DataFrame) -> DataFrame:
    return chains.join(lost, [*_KEY, "trail"], "left_anti")


def _ranked(trail: Column) -> list[Column]:
    """Return an order as bytes: shorter ones first."""
    size = F.unhex(F.lpad(F.hex(F.size(trail)), 8, "0"))
    return [size, F.aggregate(trail, F.unhex(F.lit("")), _joined)]


def _joined(one: Column, other: Column) -> Column:
    return F.concat(one, other)


# ------------------------------------------------------------ in a task


class _Checked(VerificationCache):
    """A cache for certificates whose signatures were checked when they were filed."""

    def knows(self, signed: SignedCertificate) -> bool:
        """Return that the signature is good."""
        return True


_read = lru_cache(_READ_MAX)(certificate_from_bytes)


class _Types:
    """What one task knows of the types that come before it."""

    def __init__(self, task: _Task) -> None:
        self._task = task
        self._known: dict[int, tuple[Reach, dict[bytes, Instant], bytes | None]] = {}
        self._paths: dict[tuple[int, tuple[bytes, ...]], Path | None] = {}

    def of(self, number: int) -> tuple[Reach, dict[bytes, Instant], bytes | None]:
        """Return the steps of a type, the ends of certificates, which grow, and the owner."""
        if number not in self._known:
            task, ends = self._task, dict[bytes, Instant]()
            world = World([task.types[number]], task.quorums, task.at)
            (event_type,) = world.types
            reach = Reach(
                event_type,
                (),
                at=task.at,
                constitutions=world.constitutions,
                cache=_Checked(),
                ends=ends,
                sought=task.sought.get(number, frozenset()),
            )
            owner = event_type.name.owner
            self._known[number] = reach, ends, owner.key if isinstance(owner, Principal) else None
        return self._known[number]

    def path(self, number: int, trail: Sequence[bytes], steps: pa.Scalar) -> Path | None:
        """Return a chain that an earlier round found."""
        key = number, tuple(trail)
        if key not in self._paths:
            if len(self._paths) >= _REMEMBERED:
                self._paths.clear()
            path: Path | None = START
            for step in steps.as_py():
                path = None if path is None else self.longer(number, path, step)
            self._paths[key] = path
        return self._paths[key]

    def longer(self, number: int, path: Path, step: Step) -> Path | None:
        """Return a chain with one step more."""
        reach, ends, _ = self.of(number)
        signed, *through = [_read(one["certificate"]) for one in step]
        for certificate, one in zip((signed, *through), step, strict=True):
            if one["ends"] is not None:
                ends[certificate.id] = Instant(one["ends"])
        return reach.extended(path, signed, tuple(through))


@dataclass(frozen=True, slots=True)
class _Task:
    """What tasks have to know; pickled into the job."""

    types: tuple[Lineage, ...]
    quorums: tuple[bytes, ...]
    at: Instant
    sought: Mapping[int, frozenset[AttributeUid]]

    # Any: pyarrow is not typed, and Spark calls these with its batches.
    def extend(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn pairs of a chain and a certificate into longer chains, proved."""
        with told_to_spark():
            types = _Types(self)
            for batch in batches:
                yield _extended(batch, types)

    def compare(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn the chains of holders, sorted, into those that are new, and those that are needless now."""
        with told_to_spark():
            types = _Types(self)
            for batch in _whole_runs(batches, _KEY):
                yield batch.take(pa.array(list(_changed(batch, types)), pa.int64()))


@dataclass(frozen=True, slots=True)
class _Search:
    """Runs the kernel's search for a share of the principals of a type."""

    task: _Task
    tasks: int

    def grants(self, key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        """Turn the pool of a type into the grants of a share."""
        with told_to_spark():
            task, (number, share) = self.task, (one.as_py() for one in key)
            world = World([task.types[number]], task.quorums, task.at)
            pool = [certificate_from_bytes(data) for data in table["certificate"].to_pylist()]
            given = zip(pool, table["ends"].to_pylist(), strict=True)
            ends = {one.id: Instant(end) for one, end in given if end is not None}
            reach = Reach(
                world.types[0],
                pool,
                at=task.at,
                constitutions=world.constitutions,
                cache=_Checked(),
                ends=ends,
            )
            mine = [one for one in reach.searched() if sha256(one.key).digest()[0] % self.tasks == share]
            grants = list(reach.grants(frozenset(mine), with_owner=False))
            about = {
                "type_no": pa.array([number] * len(grants), pa.int32()),
                "holder": pa.array([one.principal.key for one in grants], pa.binary()),
            }
            return pa.table({**about, **_grant_columns(grants)})


def _extended(batch: Any, types: _Types) -> Any:
    places: list[int] = []
    found: list[tuple[Path, ReachedGrant | None]] = []
    numbers, trails, steps, subjects = (
        batch.column(name).to_pylist() for name in ("type_no", "trail", "step", "subject")
    )
    paths = batch.column("path")
    for at, (number, trail, step, holder) in enumerate(zip(numbers, trails, steps, subjects, strict=True)):
        reach, _, owner = types.of(number)
        path = None if holder == owner else types.path(number, trail, paths[at])
        longer = None if path is None else types.longer(number, path, step)
        if longer is not None:
            places.append(at)
            found.append((longer, reach.granted(Principal(holder), longer)))
    kept = batch.take(pa.array(places, pa.int64()))
    columns = {
        "type_no": kept.column("type_no"),
        "holder": kept.column("subject"),
        "may_delegate": pa.array([path.may_delegate for path, _ in found], pa.bool_()),
        **{name: kept.column(name) for name in ("path", "trail", "step", "rank")},
        **_grant_columns([grant for _, grant in found]),
    }
    return pa.RecordBatch.from_pydict(columns)


_SIGHT: Final = pa.struct(
    [
        ("where", pa.string()),
        ("condition", pa.string()),
        ("shown_as", pa.string()),
        (
            "attributes",
            pa.list_(
                pa.struct([("attribute", pa.string()), ("uid", pa.string()), ("transformation", pa.string())])
            ),
        ),
    ]
)


def _grant_columns(grants: Sequence[ReachedGrant | None]) -> dict[str, pa.Array]:
    """Return what grants show as columns; what many of them say is made once."""
    sights: dict[int, int] = {}
    said: list[dict[str, object] | None] = [None]
    numbers: list[int] = []
    for one in grants:
        sight = None if one is None else one.sight
        if sight is not None and id(sight) not in sights:
            sights[id(sight)] = len(said)
            said.append(_sight(sight))
        numbers.append(0 if sight is None else sights[id(sight)])
    words = pa.array(said, _SIGHT).take(pa.array(numbers, pa.int64()))
    moment = pa.timestamp("us", "UTC")
    given = [one and one.period for one in grants]
    return {
        "is_shown": pa.array([one is not None for one in grants], pa.bool_()),
        "since": pa.array([one and one.not_before for one in given], moment),
        "until": pa.array([one and one.not_after for one in given], moment),
        **{name: words.field(name) for name in ("where", "condition", "shown_as")},
        "tests": pa.array(
            [one and [f"{test.kind.value} by {test.by}" for test in one.tests] for one in given],
            pa.list_(pa.string()),
        ),
        "passes_on": pa.array([one and one.may_delegate for one in grants], pa.bool_()),
        "certificates": pa.array(
            [one and [each.id for each in one.certificates] for one in grants], pa.list_(pa.binary())
        ),
        "attributes": words.field("attributes"),
    }


def _sight(sight: Sight) -> dict[str, object]:
    attributes = [
        {"attribute": one.name, "uid": one.uid, "transformation": sight.transformation * one.is_transformed}
        for one in sight.attributes
    ]
    return {
        "where": sight.where,
        "condition": sight.condition,
        "shown_as": sight.shown_as,
        "attributes": attributes,
    }


def _changed(batch: Any, types: _Types) -> Iterator[int]:
    """Yield the rows of new chains that are kept, and of old ones that are kept no more."""
    numbers, holders, is_new = (batch.column(name).to_pylist() for name in (*_KEY, "is_new"))
    first = 0
    for last in range(1, len(numbers) + 1):
        if last < len(numbers) and (numbers[first], holders[first]) == (numbers[last], holders[last]):
            continue
        if last - first == 1:  # most holders have one chain
            yield from (first,) if is_new[first] else ()
        else:
            reach = types.of(numbers[first])[0]
            kept: list[Path] = []
            paths = []
            for at in range(first, last):
                trail = batch.column("trail")[at].as_py()
                path = types.path(numbers[at], trail, batch.column("path")[at])
                paths.append(path)
                if path is not None:
                    reach.keep(kept, path)
            stays = {id(one) for one in kept}
            yield from (first + n for n, one in enumerate(paths) if (id(one) in stays) is is_new[first + n])
        first = last


def _whole_runs(batches: Iterable[Any], key: Sequence[str]) -> Iterator[Any]:
    """Yield sorted batches so that rows with one key are in one of them."""
    held: Any = None
    for batch in batches:
        held = batch if held is None else pa.concat_batches([held, batch])
        last = [held.column(name)[-1] for name in key] if held.num_rows else []
        end = held.num_rows
        while end and all(held.column(name)[end - 1] == one for name, one in zip(key, last, strict=True)):
            end -= 1
        if end:
            yield held.slice(0, end)
            held = held.slice(end)
    if held is not None:
        yield held


# ------------------------------------------------------------ names, in a task


def _look_for(batches: Iterable[Any]) -> Iterator[Any]:
    """Say which definition the first word of a name needs."""
    for batch in batches:
        names = [_name(one) for one in batch.column("name").to_pylist()]
        wanted = pa.array([name_key(one.space, one.names[0]) for one in names], pa.binary())
        columns = [
            batch.column("start"), batch.column("name"), wanted,
            *(batch.column(one) for one in ("subject", "passed", "trail", "way")),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, _WALK_NAMES)


_WALK_NAMES: Final = ["start", "name", "looks_for", "subject", "passed", "trail", "way"]


def _rewrite(batches: Iterable[Any]) -> Iterator[Any]:
    """Turn names, beside a definition of their first word, into what they are after it."""
    with told_to_spark():
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                signed = _read(row["certificate"])
                definition = signed.certificate
                assert isinstance(definition, NameCertificate)  # noqa: S101 - only those are filed as names
                after = rewritten(_name(row["name"]), definition)
                if not isinstance(after, Principal | LocalName):
                    continue
                is_doubtful = definition.validity != UNBOUNDED
                name = after if isinstance(after, LocalName) else None
                rows.append(
                    {
                        "start": row["start"],
                        "name": name and name_key(name.space, *name.names),
                        "looks_for": name and name_key(name.space, name.names[0]),
                        "subject": after.key if isinstance(after, Principal) else None,
                        "passed": sorted({*row["passed"], *([signed.id] if is_doubtful else [])}),
                        "trail": [*row["trail"], _longest_first(signed)],
                        "way": [*row["way"], {"certificate": row["certificate"], "ends": row["ends"]}],
                    }
                )
            yield pa.RecordBatch.from_pylist(rows, schema=_WALK)


_WALK: Final = pa.schema(
    [
        *((name, pa.binary()) for name in _WALK_NAMES[:4]),
        ("passed", pa.list_(pa.binary())),
        ("trail", pa.list_(pa.binary())),
        ("way", pa.list_(pa.struct([("certificate", pa.binary()), ("ends", pa.int64())]))),
    ]
)


def _name(data: bytes) -> LocalName:
    space, *words = msgspec.msgpack.decode(data)
    return LocalName(Principal(space), tuple(words))


def _longest_first(signed: SignedCertificate) -> bytes:
    """Return by what the definitions of a name are ordered, as a book of names orders them."""
    until = signed.certificate.validity.not_after
    return b"".join(
        (
            bytes([until is not None]),
            ((1 << 63) - (until or 0)).to_bytes(8, "big"),
            signed.id,
            signed.signature,
        )
    )
