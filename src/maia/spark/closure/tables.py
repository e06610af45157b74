"""How is the closure of a pool computed by many machines, kept as a table, and brought up to date?

The certificates are filed under the types that they could be about, and one task computes all grants of a
type (`reach.py`). A closure is a folder that any reader of Parquet can query:

    rows/type_no=0/…    a row for each principal, attribute and chain: see ROWS
    pool/type_no=0/…    the certificates that count for the type: see POOL
    closure.json        which types, computed when

When one certificate comes or goes, only the principals that it leads to, in the types that it is about,
are computed anew, from the certificates that lead to them. The files of other types are linked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import (
    Principal,
    QuorumEvidence,
    SignedCertificate,
    certificate_from_bytes,
    quorum_of,
    verify_constitution,
)
from maia.credentials.certificate import AuthorisationCertificate
from maia.credentials.chains.quorum import evidence_from_bytes, evidence_to_bytes
from maia.errors import BadInput
from maia.events import Instant
from maia.private_files import create_private
from maia.spark.closure.reach import Reach, ReachedGrant, covers_type
from maia.spark.errors import told_to_spark
from maia.types import VerifiedType, definition_from_bytes, definition_to_bytes, verify_definition

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

POOL: Final = pa.schema(
    [
        pa.field("id", pa.binary(), nullable=False),
        pa.field("issuer", pa.binary(), nullable=False),
        pa.field("subject", pa.binary()),
        pa.field("certificate", pa.binary(), nullable=False),
        pa.field("ends", pa.int64()),
    ]
)
"""`subject` is null where it is a name or a threshold, and in name certificates; `ends` is the last moment of
a certificate that was revoked, in microseconds, where the pool has such.
"""

_ROWS_DDL: Final = (
    "type_no int, principal binary, type_id binary, type string, owner string, attribute string, uid string, "
    "since timestamp, until timestamp, where string, condition string, transformation string, "
    "shown_as string, tests array<string>, may_delegate boolean, certificates array<binary>"
)
_POOL_DDL: Final = "type_no int, id binary, issuer binary, subject binary, certificate binary, ends bigint"
_NOTE: Final = "closure.json"
_VERSION: Final = 1
_NOTE_BYTES_MAX: Final = 256 << 20
_PARTITIONS_PER_CORE: Final = 4
_BATCH_ROWS: Final = 50_000


Lineage: TypeAlias = tuple[bytes, ...]
"""A type of a closure: its newest version, after those that it was made from."""


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
    """A closure on disk."""

    folder: Path
    at: Instant
    types: tuple[Lineage, ...]
    names: tuple[str, ...]
    """The readable names of the types, by number."""
    quorums: tuple[bytes, ...]
    certificates: int

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(self.folder.resolve() / "rows"))

    def keep(self) -> None:
        """Write the note, which makes the folder a closure; last of all."""
        note = _ClosureNote(
            _VERSION, int(self.at), list(self.types), list(self.names), list(self.quorums), self.certificates
        )
        new = self.folder / f"{_NOTE}.new"
        with create_private(new) as file:
            file.write(msgspec.json.encode(note))
        new.replace(self.folder / _NOTE)


def open_closure(folder: Path) -> Closure:
    """Return a closure that `build` or `update` made."""
    try:
        with (folder / _NOTE).open("rb") as file:
            note = msgspec.json.decode(file.read(_NOTE_BYTES_MAX), type=_ClosureNote)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise BadInput(
            "INPUT-CLOSURE", f"`{folder}` is no closure; `maia pipeline closure build` makes one"
        ) from problem
    if note.version != _VERSION:
        raise BadInput("INPUT-CLOSURE", f"`{folder}` is a closure of another version")
    return Closure(
        folder, Instant(note.at), tuple(note.types), tuple(note.names), tuple(note.quorums), note.certificates
    )


# What a task needs to know of the types, and how it fills the table


class _World:
    """The types of a closure, verified by the process that works on them."""

    __slots__ = ("at", "constitutions", "types")

    def __init__(self, types: Sequence[Lineage], quorums: Sequence[bytes], at: Instant) -> None:
        self.at = at
        shown = map(evidence_from_bytes, quorums)
        self.constitutions = tuple(verify_constitution(one, quorum=quorum_of(one)) for one in shown)
        self.types = [self._verified(one) for one in types]

    def _verified(self, lineage: Lineage) -> VerifiedType:
        found: VerifiedType | None = None
        for data in lineage:
            signed = definition_from_bytes(data)
            found = verify_definition(signed, at=self.at, previous=found, constitutions=self.constitutions)
        if found is None:
            raise BadInput("INPUT-CLOSURE", "a type of the closure has no version")
        return found


class _Filing:
    """Under which types does a certificate go? Asked once for each resource that certificates name."""

    def __init__(self, world: _World) -> None:
        self._types, self._known = world.types, dict[object, tuple[int, ...]]()

    def numbers(self, signed: SignedCertificate) -> tuple[int, ...]:
        """Return the numbers of the types; a name may be used under all of them."""
        certificate = signed.certificate
        if not isinstance(certificate, AuthorisationCertificate):
            return tuple(range(len(self._types)))
        authority = certificate.authority
        key = (authority.resources, authority.actions, bool(authority.attributes))
        if key not in self._known:
            self._known[key] = tuple(no for no, one in enumerate(self._types) if covers_type(signed, one))
        return self._known[key]

    def filed(self, certificates: Mapping[bytes, int | None]) -> dict[int, list[dict[str, object]]]:
        """Return certificates, with their ends, as rows of the pools of their types."""
        found: dict[int, list[dict[str, object]]] = {}
        for data, ends in certificates.items():
            signed = certificate_from_bytes(data)
            one, subject = signed.certificate, None
            if isinstance(one, AuthorisationCertificate) and isinstance(one.subject, Principal):
                subject = one.subject.key
            row = dict(zip(POOL.names, (signed.id, one.issuer.key, subject, data, ends), strict=True))
            for number in self.numbers(signed):
                found.setdefault(number, []).append(row)
        return found


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
    folder: Path,
    *,
    types: Sequence[Sequence[VerifiedType]],
    quorums: Sequence[QuorumEvidence] = (),
    ends: Mapping[bytes, Instant] | None = None,
    at: Instant,
    step: Callable[[str], None] = lambda _title: None,
) -> Closure:
    """Compute the closure of a pool into a new folder.

    `types` are the versions of each type, the oldest first; rows are about the newest. Certificates that
    are revoked are left out by the caller; for questions about the past they are there with the
    last moment at which they counted, in `ends`.
    """
    if folder.exists():
        raise BadInput("INPUT-CLOSURE", f"`{folder}` is already there")
    closed = tuple(tuple(definition_to_bytes(one.signed) for one in versions) for versions in types)
    shown = tuple(map(evidence_to_bytes, quorums))
    folder.mkdir(mode=0o700, parents=True)
    given = folder / "given.parquet"
    last = [None if ends is None else ends.get(one) for one in certificates]
    _write(
        pa.table({"certificate": pa.array(certificates, pa.binary()), "ends": pa.array(last, pa.int64())}),
        given,
    )
    cores = spark.sparkContext.defaultParallelism
    step("filing certificates")
    pool = str(folder.resolve() / "pool")
    tasks = max(1, min(len(closed), _PARTITIONS_PER_CORE * cores))
    filed = spark.read.parquet(str(given.resolve())).repartition(cores)
    filed = filed.mapInArrow(_filing(closed, shown, at), _POOL_DDL).repartition(tasks, "type_no")
    filed.write.partitionBy("type_no").parquet(pool)
    step("computing chains")
    if any(Path(pool).glob("type_no=*")):
        by_type = spark.read.schema(_POOL_DDL).parquet(pool).repartition(tasks, "type_no").groupBy("type_no")
        found = by_type.applyInArrow(_closing(closed, shown, at), _ROWS_DDL)
        found.write.partitionBy("type_no").parquet(str(folder.resolve() / "rows"))
    made = Closure(
        folder, at, closed, tuple(one[-1].name.name for one in types), shown, len(set(certificates))
    )
    # A type without any certificate has its owner alone.
    for number in range(len(closed)):
        if not (folder / "pool" / f"type_no={number}").is_dir():
            _write_rows(made, number, pa.Table.from_batches([], POOL), None, frozenset())
    given.unlink()
    made.keep()
    return made


# Any: Spark calls these with batches of Arrow, and has no type for such functions.
def _filing(types: Sequence[Lineage], quorums: Sequence[bytes], at: Instant) -> Any:
    def file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with told_to_spark():
            filing = _Filing(_World(types, quorums, at))
            for batch in batches:
                filed = filing.filed(
                    dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
                )
                rows = [{"type_no": number, **row} for number, some in filed.items() for row in some]
                schema = POOL.insert(0, pa.field("type_no", pa.int32()))
                yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return file


def _closing(types: Sequence[Lineage], quorums: Sequence[bytes], at: Instant) -> Any:
    def close(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        with told_to_spark():
            number = key[0].as_py()
            world = _World([types[number]], quorums, at)
            batches = _computed(world, table, None)
            rows = pa.Table.from_batches(batches, ROWS)
            return rows.add_column(0, "type_no", pa.array([number] * len(rows), pa.int32()))

    return close


def _computed(world: _World, pool: pa.Table, only: frozenset[Principal] | None) -> Iterator[pa.RecordBatch]:
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
    for file in (closure.folder / "pool").glob("type_no=*/*.parquet"):
        table = pq.read_table(file, columns=["id", "certificate"], partitioning=None)
        found |= zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)
    return found


def update(
    old: Closure,
    folder: Path,
    *,
    added: Sequence[bytes] = (),
    removed: Sequence[bytes] = (),
    at: Instant | None = None,
) -> tuple[Closure, ClosureUpdate]:
    """Write the closure of a pool with some certificates more, and some less, into a new folder.

    It is computed here and not in Spark: less depends on a few certificates than a job costs.
    """
    if folder.exists():
        raise BadInput("INPUT-CLOSURE", f"`{folder}` is already there")
    now = old.at if at is None else at
    filing = _Filing(_World(old.types, old.quorums, now))
    more, less = (filing.filed(dict.fromkeys(some)) for some in (added, removed))
    folder.mkdir(mode=0o700, parents=True)
    new = replace(old, folder=folder, at=now, certificates=old.certificates + len(added) - len(removed))
    principals = 0
    for number in range(len(old.types)):
        if number not in more and number not in less:
            for part in ("pool", "rows"):
                _link(old.folder / part / f"type_no={number}", folder / part / f"type_no={number}")
            continue
        pool = _read(old, "pool", number, POOL)
        fresh, lost = (pa.Table.from_pylist(one.get(number, []), POOL) for one in (more, less))
        # A certificate that is added again is there once.
        is_other = pc.invert(pc.is_in(pool["id"], value_set=pa.concat_tables([fresh, lost])["id"]))
        after = pa.concat_tables([pool.filter(is_other), fresh])
        ends = _affected(pa.concat_tables([pool, fresh]), pa.concat_tables([lost, fresh]))
        principals += _write_rows(new, number, after, old, ends)
    new.keep()
    return new, ClosureUpdate(len(more.keys() | less.keys()), principals)


def _affected(pool: pa.Table, changed: pa.Table) -> frozenset[bytes] | None:
    """Return the principals that the changed certificates lead to; None for all, where names take part."""
    if pool.column("subject").null_count:
        return None
    onward: dict[bytes, list[bytes]] = {}
    for issuer, subject in zip(*_edges(pool), strict=True):
        onward.setdefault(issuer, []).append(subject)
    return _reached(onward, changed.column("subject").to_pylist())


def _edges(pool: pa.Table) -> tuple[list[bytes], list[bytes]]:
    return pool.column("issuer").to_pylist(), pool.column("subject").to_pylist()


def _reached(edges: Mapping[bytes, Sequence[bytes]], start: Iterable[bytes]) -> frozenset[bytes]:
    found = set[bytes]()
    waiting = list(start)
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting.extend(edges.get(here, ()))
    return frozenset(found)


def _write_rows(
    closure: Closure, number: int, pool: pa.Table, old: Closure | None, ends: frozenset[bytes] | None
) -> int:
    """Write the pool of a type, and its rows: of `ends` anew, of others as they were. Return how many."""
    world = _World([closure.types[number]], closure.quorums, closure.at)
    asked, only, kept = pool, None, pa.Table.from_batches([], ROWS)
    if old is not None and ends is not None:
        before: dict[bytes, list[bytes]] = {}
        for issuer, subject in zip(*_edges(pool), strict=True):
            before.setdefault(subject, []).append(issuer)
        leading = pa.array(sorted(_reached(before, ends)), pa.binary())
        asked = pool.filter(pc.is_in(pool.column("subject"), value_set=leading))
        only = frozenset(map(Principal, ends))
        rows = _read(old, "rows", number, ROWS)
        is_new = pc.is_in(rows.column("principal"), value_set=pa.array(sorted(ends), pa.binary()))
        kept = rows.filter(pc.invert(is_new))
    computed = pa.Table.from_batches(_computed(world, asked, only), ROWS)
    for part, table in (("pool", pool), ("rows", pa.concat_tables([kept, computed]))):
        place = closure.folder / part / f"type_no={number}"
        place.mkdir(parents=True)
        _write(table, place / f"part-{uuid4()}.parquet")
    return len(set(computed.column("principal").to_pylist()) if only is None else only)


def _read(closure: Closure, part: str, number: int, schema: pa.Schema) -> pa.Table:
    files = sorted((closure.folder / part / f"type_no={number}").glob("*.parquet"))
    tables = [pq.read_table(file, partitioning=None).select(schema.names).cast(schema) for file in files]
    return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema)


def _write(table: pa.Table, path: Path) -> None:
    with create_private(path) as file:
        pq.write_table(table, file, compression="zstd")


def _link(source: Path, target: Path) -> None:
    """Use the files of another closure, which no program changes; copy them where links do not reach."""
    target.mkdir(parents=True)
    for file in source.glob("*.parquet"):
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copy2(file, target / file.name)


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
    rows: DataFrame, *, type_name: str, attribute: str | None = None, at: datetime | None = None
) -> DataFrame:
    """Return the grants of a type, by its readable name; of an attribute by its name or uid; at a moment."""
    found = rows.where(F.col("type") == type_name)
    if attribute is not None:
        found = found.where((F.col("attribute") == attribute) | (F.col("uid") == attribute))
    if at is not None:
        found = found.where(holds_at(at))
    return found.drop("type_no")


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
    base = str(closure.folder.resolve() / "rows")
    return spark.read.option("basePath", base).parquet(*map(str, differ))


def _files(closure: Closure) -> dict[tuple[str, str], Path]:
    files = (closure.folder.resolve() / "rows").glob("type_no=*/*.parquet")
    return {(file.parent.name, file.name): file for file in files}
