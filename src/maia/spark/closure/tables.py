"""How is the closure of a pool computed by many machines, kept as a table, and brought up to date?

The certificates are filed under the types that they could be about (`filing.py`), and chains of them are
found in rounds of joins (`rounds.py`). A closure is a folder, or a place in an object store, that any reader
of Parquet can query:

    rows/type_no=0/…    a row for each principal, attribute and chain: see ROWS
    pool/type_no=0/…    the certificates that count for the type: see POOL
    closure.json        which types, computed when

When one certificate comes or goes, only the principals that it leads to, in the types that it is about,
are computed anew, from the certificates that lead to them. The files of other types are linked. That is done
by the process that asks, without Spark, and it holds what depends on the change, not the pool.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import Owner, Principal, QuorumEvidence, certificate_from_bytes
from maia.credentials.chains.quorum import evidence_to_bytes
from maia.errors import BadInput
from maia.events import Instant
from maia.places import AlreadyThere, Place, place_of
from maia.private_files import create_private
from maia.spark.closure.filing import FILED_DDL, POOL, Filing, FilingTask, Lineage, RevokedTask, World
from maia.spark.closure.reach import Reach, ReachedGrant
from maia.spark.closure.rounds import Rounds
from maia.spark.errors import told_to_spark
from maia.spark.session.cluster import is_here, parallelism
from maia.spark.stored_files import StoredFiles
from maia.types import VerifiedType, definition_to_bytes

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


ROWS: Final = pa.schema(
    [
        pa.field("principal", pa.binary(), nullable=False),
        pa.field("type_id", pa.binary(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("owner", pa.string(), nullable=False),
        pa.field("attribute", pa.string(), nullable=False),
        pa.field("uid", pa.string(), nullable=False),
        pa.field("since", pa.timestamp("us", "UTC")),
        pa.field("until", pa.timestamp("us", "UTC")),
        pa.field("where", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        pa.field("transformation", pa.string(), nullable=False),
        pa.field("shown_as", pa.string(), nullable=False),
        pa.field("tests", pa.list_(pa.string()), nullable=False),
        pa.field("may_delegate", pa.bool_(), nullable=False),
        pa.field("certificates", pa.list_(pa.binary()), nullable=False),
    ]
)
"""One chain shows one attribute of one type to one principal.

`since` and `until` are null where the certificates are stated as unbounded. `where` says which events,
`condition` what a broker asks when the right is used, `tests` what a verifier demands of the certificates,
`transformation` what the chain makes of the attribute; each is empty where there is none.
"""

_NOTE: Final = "closure.json"
_VERSION: Final = 1
_NOTE_BYTES_MAX: Final = 256 << 20
_PARTITIONS_PER_CORE: Final = 4
_BATCH_ROWS: Final = 50_000
_FILE_BYTES: Final = 32 << 20
"""About what an update holds before it writes a file."""
ANEW_MAX: Final = 200_000
"""Certificates that an update computes with; what depends on more of them is computed anew, in Spark."""


class _ClosureNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `closure.json` says."""

    version: int
    at: int
    types: list[Lineage]
    names: list[str]
    quorums: list[bytes]
    certificates: int


@dataclass(frozen=True, slots=True)
class Closure:
    """A closure in a folder or another place."""

    place: Place
    at: Instant
    types: tuple[Lineage, ...]
    names: tuple[str, ...]
    """The readable names of the types, by number."""
    quorums: tuple[bytes, ...]
    certificates: int
    revoked: int = field(default=0, compare=False)
    """How many were left out, when it was computed, because a statement revokes them."""

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the table."""
        return _table_of(spark, self, list(_files(self).values()))

    def keep(self) -> None:
        """Write the note, which makes the folder a closure; last of all."""
        note = _ClosureNote(
            _VERSION, int(self.at), list(self.types), list(self.names), list(self.quorums), self.certificates
        )
        self.place.create(_NOTE, msgspec.json.encode(note))


def open_closure(where: str | os.PathLike[str]) -> Closure:
    """Return a closure that `build` or `update` made."""
    place = place_of(where)
    try:
        with place.open(_NOTE) as file:
            note = msgspec.json.decode(file.read(_NOTE_BYTES_MAX), type=_ClosureNote)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise BadInput(
            "INPUT-CLOSURE", f"`{where}` is no closure; `maia pipeline closure build` makes one"
        ) from problem
    if note.version != _VERSION:
        raise BadInput("INPUT-CLOSURE", f"`{where}` is a closure of another version")
    return Closure(
        place, Instant(note.at), tuple(note.types), tuple(note.names), tuple(note.quorums), note.certificates
    )


@contextmanager
def _begun(where: str | os.PathLike[str]) -> Iterator[Place]:
    """Hand out a place in which nothing is yet; if the body fails, nothing is left of it in a store."""
    place = place_of(where)
    # In a store, there is what has files: some keep the name of a folder that is empty.
    if place.listed(is_deep=True) if place.local is None else place.exists():
        raise BadInput("INPUT-CLOSURE", f"`{where}` is already there")
    try:
        yield place
    except BaseException:
        if place.local is None:
            for one in place.listed(is_deep=True):
                place.remove(one.path)
        raise


# Grants as rows of the table


def _columns(grants: Iterable[ReachedGrant], event_type: VerifiedType) -> Iterator[pa.RecordBatch]:
    """Write grants as rows of the table, some ten thousand at a time."""
    fixed = {"type_id": event_type.type_id, "type": event_type.name.name, "owner": str(event_type.name.owner)}
    columns: dict[str, list[object]] = {name: [] for name in ROWS.names}
    for grant in grants:
        sight, period = grant.sight, grant.period
        chain = {
            **fixed,
            "principal": grant.principal.key,
            "since": period.not_before,
            "until": period.not_after,
            "where": sight.where,
            "condition": sight.condition,
            "shown_as": sight.shown_as,
            "tests": [f"{test.kind.value} by {test.by}" for test in period.tests],
            "may_delegate": grant.may_delegate,
            "certificates": [one.id for one in grant.certificates],
        }
        for shown in sight.attributes:
            columns["attribute"].append(shown.name)
            columns["uid"].append(shown.uid)
            columns["transformation"].append(sight.transformation if shown.is_transformed else "")
        for name, value in chain.items():
            columns[name].extend([value] * len(sight.attributes))
        if len(columns["uid"]) >= _BATCH_ROWS:
            yield pa.record_batch(columns, schema=ROWS)
            columns = {name: [] for name in ROWS.names}
    yield pa.record_batch(columns, schema=ROWS)


# The whole closure, in Spark


def build(  # noqa: PLR0913 - each is named at the call
    spark: SparkSession,
    certificates: Sequence[bytes],
    where: str | os.PathLike[str],
    *,
    types: Sequence[Sequence[VerifiedType]],
    tables: Sequence[str] = (),
    quorums: Sequence[QuorumEvidence] = (),
    ends: Mapping[bytes, Instant] | None = None,
    statements: Sequence[bytes] = (),
    at: Instant,
    step: Callable[[str], None] = lambda _title: None,
    work: Path | None = None,
) -> Closure:
    """Compute the closure of a pool into a new folder, or a place.

    Spark computes in a folder. For a place in an object store that is one that is made in `work`, on this
    machine if it is not named, and gone afterwards; tasks then copy the closure to the place.

    `types` are the versions of each type, the oldest first; rows are about the newest. A large pool is in
    `tables`, Parquet files with a column `certificate`, which Spark reads. What `statements` revoke
    is left out; for questions about the past, revoked certificates are there with the
    last moment at which they counted, in `ends`.
    """
    closed = tuple(tuple(definition_to_bytes(one.signed) for one in versions) for versions in types)
    shown = tuple(map(evidence_to_bytes, quorums))
    last = [None if ends is None else ends.get(one) for one in certificates]
    given = pa.table({"certificate": pa.array(certificates, pa.binary()), "ends": pa.array(last, pa.int64())})
    with _begun(where) as place, _folder_for(spark, place, work) as folder:
        pool = _Pool(given, tables, closed, shown, statements)
        count, revoked = _compute(spark, pool, folder, types=types, at=at, step=step)
        if place.local is None:
            step("copying to the place")
            _copy(spark, folder, place)
        names = tuple(versions[-1].name.name for versions in types)
        made = Closure(place, at, closed, names, shown, count - revoked, revoked)
        made.keep()
    return made


@contextmanager
def _folder_for(spark: SparkSession, place: Place, work: Path | None) -> Iterator[Path]:
    """Hand out the new folder in which Spark computes: the place, or one that is gone afterwards."""
    if place.local is not None:
        place.local.mkdir(mode=0o700, parents=True)
        yield place.local
        return
    if work is None and not is_here(spark):
        raise BadInput(
            "INPUT-PIPELINE-CHECKPOINT",
            "on a cluster, a closure for an object store comes together in a folder that every worker reads "
            "and writes: name such a folder with --checkpoint",
        )
    with tempfile.TemporaryDirectory(prefix="maia-closure-", dir=work) as folder:
        yield Path(folder).resolve()


@dataclass(frozen=True, slots=True)
class _Pool:
    """What a closure is computed from."""

    given: pa.Table
    tables: Sequence[str]
    types: tuple[Lineage, ...]
    quorums: tuple[bytes, ...]
    statements: Sequence[bytes]


def _compute(
    spark: SparkSession,
    pool: _Pool,
    folder: Path,
    *,
    types: Sequence[Sequence[VerifiedType]],
    at: Instant,
    step: Callable[[str], None],
) -> tuple[int, int]:
    """Write pool and rows into a folder; return how many certificates there are, and how many revoked."""
    closed, shown, statements = pool.types, pool.quorums, pool.statements
    given, rounds = folder / "given.parquet", folder / "rounds"
    with create_private(given) as file:
        pq.write_table(pool.given, file, compression="zstd")
    tasks, whole = _PARTITIONS_PER_CORE * parallelism(spark), str(folder.resolve())
    step("filing certificates")
    # All tasks work on a type together: its certificates, and later its rows, go to several of them.
    parts = -(-tasks // max(1, len(closed)))
    read = spark.read.parquet(str(given.resolve()))
    for table in pool.tables:
        more = spark.read.parquet(table).select("certificate").where("certificate is not null")
        read = read.unionByName(more.withColumn("ends", F.lit(None).cast("bigint")))
    read = read.dropDuplicates(["certificate"])
    filed = read.repartition(tasks).mapInArrow(FilingTask(closed, shown, at, statements), FILED_DDL)
    filed = filed.repartition(tasks, "type_no", F.pmod(F.xxhash64("id"), F.lit(parts)))
    filed.write.partitionBy("type_no").parquet(f"{whole}/pool")
    step("computing chains")
    newest = [versions[-1] for versions in types]
    found = _owners_rows(spark, newest, World(closed, shown, at))
    if any((folder / "pool").glob("type_no=*")):
        work = Rounds(spark, f"{whole}/pool", str(rounds.resolve()), closed, shown, at, tasks)
        owners = [one.name.owner for one in newest]
        chains = work.grants([one.key if isinstance(one, Principal) else None for one in owners])
        found = found.unionByName(chains)
    names = [
        (no, bytearray(one.type_id), one.name.name, str(one.name.owner)) for no, one in enumerate(newest)
    ]
    about = spark.createDataFrame(names, "type_no int, type_id binary, type string, owner string")
    rows = found.join(F.broadcast(about), "type_no").select("type_no", *ROWS.names)
    rows = rows.repartition(tasks, "type_no", F.pmod(F.xxhash64("principal"), F.lit(parts)))
    rows.write.partitionBy("type_no").parquet(f"{whole}/rows")
    count, revoked = read.count(), 0
    if statements:
        monitored = RevokedTask(tuple(statements), at)
        revoked = read.select("certificate").mapInArrow(monitored, "certificate binary").count()
    given.unlink()
    shutil.rmtree(rounds, ignore_errors=True)
    return count, revoked


def _copy(spark: SparkSession, folder: Path, place: Place) -> None:
    """Let tasks copy the files of a closure, each as it is."""
    files = [str(file.relative_to(folder)) for file in folder.glob("*/type_no=*/*.parquet")]
    tasks = min(len(files), _PARTITIONS_PER_CORE * parallelism(spark))
    named = spark.createDataFrame([(one,) for one in files], "path string").repartition(max(1, tasks))
    named.mapInArrow(_CopyTask(str(folder), place), "path string").count()


@dataclass(frozen=True, slots=True)
class _CopyTask:
    """Copies files from a folder to a place. Pickled into the job."""

    folder: str
    place: Place

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Copy files, and pass on their paths."""
        with told_to_spark():
            for batch in batches:
                for path in batch.column("path").to_pylist():
                    # A task that died before may have copied it, whole as every file of a place is.
                    with suppress(AlreadyThere):
                        self.place.create(path, Path(self.folder, path).read_bytes())
                yield batch


def _owners_rows(spark: SparkSession, types: Sequence[VerifiedType], world: World) -> DataFrame:
    """Return what the owners of types see, which no certificate says."""
    made = []
    for number, one in enumerate(types):
        grant = Reach(one, (), at=world.at, constitutions=world.constitutions).owner_grant()
        rows = pa.Table.from_batches(_columns(() if grant is None else (grant,), one), ROWS)
        made.append(rows.add_column(0, "type_no", pa.array([number] * len(rows), pa.int32())))
    whole = pa.concat_tables(made).drop_columns(["type_id", "type", "owner"])
    return spark.createDataFrame(whole)


def _computed(world: World, pool: pa.Table, only: frozenset[Principal] | None) -> Iterator[pa.RecordBatch]:
    """Compute the grants of the one type of `world`."""
    (event_type,) = world.types
    ids, ends = pool.column("id").to_pylist(), pool.column("ends").to_pylist()
    reach = Reach(
        event_type,
        [certificate_from_bytes(one) for one in pool.column("certificate").to_pylist()],
        at=world.at,
        constitutions=world.constitutions,
        ends={one: Instant(end) for one, end in zip(ids, ends, strict=True) if end is not None},
    )
    return _columns(reach.grants(only), event_type)


# One certificate more, or less


@dataclass(frozen=True, slots=True)
class ClosureUpdate:
    """What an update has done."""

    types: int
    """How many types had to be looked at."""
    principals: int
    """How many principals of these were computed anew."""


def certificates_of(closure: Closure) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for number in range(len(closure.types)):
        for batch in _Part(closure, "pool", number, POOL).batches(["id", "certificate"]):
            found |= zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    return found


def update(
    old: Closure,
    where: str | os.PathLike[str],
    *,
    added: Sequence[bytes] = (),
    removed: Sequence[bytes] = (),
    at: Instant | None = None,
) -> tuple[Closure, ClosureUpdate]:
    """Write the closure of a pool with some certificates more, and some less, into a new folder, or a place.

    It is computed here and not in Spark: less depends on a few certificates than a job costs.
    """
    now = old.at if at is None else at
    filing = Filing(World(old.types, old.quorums, now))
    more, less = (filing.filed(dict.fromkeys(some)) for some in (added, removed))
    principals = 0
    with _begun(where) as place:
        new = replace(old, place=place, at=now, certificates=old.certificates + len(added) - len(removed))
        for number in range(len(old.types)):
            if number not in more and number not in less:
                for part in ("pool", "rows"):
                    _take_over(old.place / part / f"type_no={number}", place / part / f"type_no={number}")
                continue
            fresh, lost = (pa.Table.from_pylist(one.get(number, []), POOL) for one in (more, less))
            # A certificate that is added again is there once.
            changed = pa.concat_tables([lost, fresh])
            before = _Part(old, "pool", number, POOL)
            after = before.without("id", changed["id"]), fresh
            principals += _update_type(new, number, old, [before, fresh], after, changed)
        new.keep()
    return new, ClosureUpdate(len(more.keys() | less.keys()), principals)


def _update_type(
    closure: Closure,
    number: int,
    old: Closure,
    ever: Sequence[_Part | pa.Table],
    after: Sequence[_Part | pa.Table],
    changed: pa.Table,
) -> int:
    """Write the pool of a type, and its rows: of whom the change leads to anew, of others as they were."""
    world = World([closure.types[number]], closure.quorums, closure.at)
    rows = _Part(old, "rows", number, ROWS)
    ends = _reached(ever, changed["subject"], ("issuer", "subject"))
    asked, only, kept = after, None, iter(())
    if ends is not None:
        leading = _reached(after, ends, ("subject", "issuer"))
        asked = [_within(one, "subject", leading) for one in after]
        only = frozenset(map(Principal, ends.to_pylist()))
        kept = rows.without("principal", ends).batches()
    size = sum(one.num_rows for one in asked)
    if size > ANEW_MAX:
        raise BadInput(
            "INPUT-CLOSURE",
            f"what changed has to do with {size:,} certificates of `{closure.names[number]}`: compute the "
            "closure anew, without --since",
        )
    pool = pa.concat_tables([_loaded(one) for one in asked])
    computed = pa.Table.from_batches(_computed(world, pool, only), ROWS)
    stored = (batch for one in after for batch in _batches(one))
    for part, schema, batches in (("pool", POOL, stored), ("rows", ROWS, chain(kept, computed.to_batches()))):
        _write(batches, schema, closure.place / part / f"type_no={number}")
    return len(set(computed.column("principal").to_pylist()) if only is None else only)


def _reached(
    pool: Sequence[_Part | pa.Table], start: pa.ChunkedArray | pa.Array, way: tuple[str, str]
) -> pa.Array | None:
    """Return the principals that certificates lead to; None for all, where names or thresholds take part.

    In rounds: the certificates of those that the last round found lead to the next ones.
    """
    if any(_within(one, "subject", None).num_rows for one in pool):
        return None
    here, there = way
    found = pc.unique(start)
    frontier = found
    while len(frontier):
        steps = [_loaded(_within(one, here, frontier), [there])[there] for one in pool]
        beyond = pc.unique(pa.chunked_array([chunk for one in steps for chunk in one.chunks], pa.binary()))
        frontier = beyond.filter(pc.invert(pc.is_in(beyond, value_set=found)))
        found = pa.concat_arrays([found, frontier])
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """The pool or the rows of a type in a closure, some of it; read as it is needed."""

    closure: Closure
    part: str
    number: int
    schema: pa.Schema
    # Any: pyarrow is not typed.
    condition: Any = None

    @property
    def num_rows(self) -> int:
        if not (names := self._names):
            return 0
        with self._place.dataset(names) as files:
            return int(files.count_rows(filter=self.condition))

    def where(self, condition: Any) -> _Part:
        return replace(self, condition=condition if self.condition is None else self.condition & condition)

    def without(self, column: str, values: pa.Array | pa.ChunkedArray) -> _Part:
        return self.where(~pc.field(column).isin(_one_array(values)))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        if not (files := self._names):
            return
        names = list(columns or self.schema.names)
        with self._place.dataset(files) as found:
            for batch in found.to_batches(columns=names, filter=self.condition):
                yield batch.cast(pa.schema([self.schema.field(one) for one in names]))

    @property
    def _place(self) -> Place:
        return self.closure.place / self.part / f"type_no={self.number}"

    @property
    def _names(self) -> list[str]:
        return _tables_in(self._place)


def _tables_in(place: Place, *, is_deep: bool = False) -> list[str]:
    return [one.path for one in place.listed(is_deep=is_deep) if one.path.endswith(".parquet")]


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _within(one: _Part | pa.Table, column: str, values: pa.Array | None) -> _Part | pa.Table:
    """Return the rows with one of these values; without any, those that have none."""
    if isinstance(one, _Part):
        field = pc.field(column)
        return one.where(field.is_null() if values is None else field.isin(values))
    return one.filter(pc.is_null(one[column]) if values is None else pc.is_in(one[column], value_set=values))


def _batches(one: _Part | pa.Table) -> Iterable[pa.RecordBatch]:
    return one.batches() if isinstance(one, _Part) else one.to_batches()


def _loaded(one: _Part | pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    if isinstance(one, pa.Table):
        return one if columns is None else one.select(list(columns))
    names = list(columns or one.schema.names)
    return pa.Table.from_batches(one.batches(columns), pa.schema([one.schema.field(name) for name in names]))


def _write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, place: Place) -> None:
    """Write batches as files, of which this process never holds more than one."""
    held: list[pa.RecordBatch] = []
    size, count = 0, 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _FILE_BYTES:
            _create(held, schema, place)
            held, size, count = [], 0, count + 1
    if held or not count:  # a table without rows has columns nevertheless
        _create(held, schema, place)


def _create(batches: list[pa.RecordBatch], schema: pa.Schema, place: Place) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_batches(batches, schema), buffer, compression="zstd")
    place.create(f"part-{uuid4()}.parquet", buffer.getvalue())


def _take_over(source: Place, target: Place) -> None:
    """Use the files of another closure, which no program changes; copy them where links do not reach."""
    if target.local is not None:
        target.local.mkdir(mode=0o700, parents=True)
    for name in _tables_in(source):
        if not _linked(source / name, target / name):
            target.create(name, source.read(name))


def _linked(source: Place, target: Place) -> bool:
    if source.local is None or target.local is None:
        return False
    try:
        os.link(source.local, target.local)
    except OSError:
        return False
    return True


# Who can see this, and what has changed since? Questions to the table of a closure, in Spark.


_RIGHT = (
    "principal", "type_id", "type", "owner", "attribute", "uid", "since", "until", "where", "condition",
    "transformation", "shown_as", "tests",
)  # fmt: skip
"""What two rows have in common that are one right; the certificates behind it may be others."""


def holds_at(moment: datetime | Column) -> Column:
    """Return whether a row of a closure holds at a moment."""
    at = moment if isinstance(moment, Column) else F.lit(moment)
    begun = F.col("since").isNull() | (F.col("since") <= at)
    return begun & (F.col("until").isNull() | (F.col("until") >= at))


def who_can(
    rows: DataFrame,
    *,
    type_name: str,
    owner: Owner | None = None,
    attribute: str | None = None,
    at: datetime | None = None,
) -> DataFrame:
    """Return the grants of a type, by its readable name; of an attribute by its name or uid; at a moment."""
    found = rows.where(F.col("type") == type_name)
    if owner is not None:
        found = found.where(F.col("owner") == str(owner))
    if attribute is not None:
        found = found.where((F.col("attribute") == attribute) | (F.col("uid") == attribute))
    if at is not None:
        found = found.where(holds_at(at))
    return found


def check_asked(
    closure: Closure, word: str, attribute: str | None, *, folders: Sequence[Path] = ()
) -> tuple[Owner, str]:
    """Return the type that a word means; refuse what the closure does not know, which nobody can see."""
    from maia.profile.type_names import type_meant

    world = World(closure.types, closure.quorums, closure.at)
    named = [(event_type.name.owner, event_type.name.name) for event_type in world.types]
    meant = type_meant(word, named, folders=folders)
    type_name = meant[1]
    own = [
        one
        for event_type, name in zip(world.types, named, strict=True)
        if name == meant
        for one in event_type.attributes
    ]
    if attribute is not None and attribute not in {word for one in own for word in (one.name, one.uid)}:
        raise BadInput(
            "INPUT-CLOSURE",
            f"`{type_name}` has no attribute `{attribute}`; it has "
            + ", ".join(dict.fromkeys(one.name for one in own)),
        )
    return meant


def difference(spark: SparkSession, old: Closure, new: Closure) -> DataFrame:
    """Return the rights that only one of two closures has, `more` of the new one and `less` of the old."""
    sides = (_some(spark, *pair) for pair in ((old, new), (new, old)))
    before, after = (one.select(*_RIGHT).distinct() for one in sides)
    more, less = after.exceptAll(before), before.exceptAll(after)
    return more.withColumn("change", F.lit("more")).union(less.withColumn("change", F.lit("less")))


def _some(spark: SparkSession, closure: Closure, other: Closure) -> DataFrame:
    """Return the rows that may differ: a file that was linked has the same rows in both."""
    mine, others = (_files(one) for one in (closure, other))
    differ = [file for name, file in mine.items() if closure.types != other.types or name not in others]
    if not differ:
        return closure.rows(spark).limit(0)
    return _table_of(spark, closure, differ)


def _files(closure: Closure) -> dict[str, Place]:
    """Return the files of the rows, by their paths."""
    rows = closure.place / "rows"
    return {path: rows / path for path in _tables_in(rows, is_deep=True)}


def _table_of(spark: SparkSession, closure: Closure, files: list[Place]) -> DataFrame:
    """Return some files of a closure as a table."""
    if closure.place.local is None:
        return StoredFiles(tuple(files), ROWS).table(spark).select(*ROWS.names)
    return spark.read.parquet(*map(str, files)).select(*ROWS.names)
