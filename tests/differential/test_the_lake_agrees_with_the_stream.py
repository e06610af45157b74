"""D10: what subscribers received live is what the pipeline shows them of the recorded log.

Random types, versions, certificates, filters, keys and events; plain, sealed
as events, by attribute, and blinded; sub-types and trees of topics; tables, of Spark
and of Arrow alone, files for partners, and streams. Row by row, attribute by attribute, each value beside
its kind. `make agreement CASES=2000` tries many worlds in place of a few; `MAIA_WORLD=48113`
repeats one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Instant, Kind
from maia.policy import PolicyRefusal
from maia.share.files import SharedFiles
from maia.share.writing import ShownPart, write_files
from maia.spark.governed.arrow_table import ArrowTable
from maia.spark.governed.reading_ledger import reading_ledger, seen_rows
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.types import SealingLevel
from maia.views.plan import spark_type
from maia.wire.columns import frame_label, stream_label
from support.agreement import RandomReader, Seen, World
from support.agreement_summaries import SummarisingWorld
from support.governed import decided, governed

FIRST = 48_113
WORLDS = int(os.environ.get("MAIA_AGREEMENT", "5"))
AT_ONCE = 8
"""Worlds whose tables are read by one job: a job costs more than its rows."""
STREAMED = 2

Case = tuple[World, RandomReader]


def seeds(count: int) -> list[int]:
    one = os.environ.get("MAIA_WORLD")
    return [int(one)] if one else list(range(FIRST, FIRST + count))


@pytest.fixture(scope="module")
def desk() -> Iterator[JobDesk]:
    with job_desk() as opened:
        yield opened


# ------------------------------------------------------------ many tables in one


def packed(table: DataFrame, case: Case, name: str) -> DataFrame:
    """Return a table in a form that all tables share: one map of names to values for each kind."""
    _, one = case
    shown = [each for each in one.version.attributes if each.name in table.columns]
    maps = [_map_of(kind, [each.name for each in shown if each.kind is kind]) for kind in Kind]
    meta = ["_publisher", "_stream", "_sequence", "_row"]
    moment = F.unix_micros("_published_at").alias("_published_at")
    return table.select(F.lit(name).alias("case"), *meta, moment, *maps)


def _map_of(kind: Kind, names: Sequence[str]) -> Column:
    """Moments go as numbers: Python's clocks do not reach as far as ours."""
    pairs = [part for name in names for part in (F.lit(name), _plain(kind, name))]
    held = "bigint" if kind is Kind.TIMESTAMP else spark_type(kind).simpleString()
    return F.create_map(*pairs).cast(f"map<string,{held}>").alias(kind.name)


def _plain(kind: Kind, name: str) -> Column:
    column = F.col(f"`{name}`")
    return F.unix_micros(column) if kind is Kind.TIMESTAMP else column


def unpacked(rows: Iterable[object], cases: dict[str, Case]) -> dict[str, list[Seen]]:
    """Return what each case saw, in the order of publication."""
    found: dict[str, list[tuple[int, int, Seen]]] = {name: [] for name in cases}
    for row in rows:
        values = {name: (kind.name, _read(kind, v)) for kind in Kind for name, v in row[kind.name].items()}
        ordered = tuple((name, *values[name]) for name in sorted(values))
        publisher, stream = bytes(row["_publisher"]), bytes(row["_stream"])
        labels = stream_label(publisher, stream), frame_label(publisher, stream, row["_sequence"])
        seen = (publisher, *labels, row["_published_at"], ordered)
        found[row["case"]].append((row["_sequence"], row["_row"], seen))
    return {name: [seen for *_, seen in sorted(rows, key=lambda x: x[:2])] for name, rows in found.items()}


def _read(kind: Kind, value: object) -> object:
    if value is None:
        return None
    return bytes(value) if kind is Kind.BYTES else Instant(value) if kind is Kind.TIMESTAMP else value


def asked_of(case: Case, desk: JobDesk) -> dict[str, Any]:
    """Return what a reader asks, of Spark or of Arrow."""
    world, one = case
    return {
        "event_type": one.version,
        "reader": world.reader_of(one),
        "keys": world.keys(desk),
        "filter": one.filter,
        "requires": world.identities.of_publishers(one.number),
        "columns": one.columns,
        "versions": world.versions,
        "with_meta": True,
    }


def table_of(spark, case: Case, log: Path, desk: JobDesk, *, is_stream: bool = False) -> DataFrame | None:
    """Return what the pipeline shows a reader; None if it refuses."""
    try:
        return governed(spark, log=str(log), is_stream=is_stream, **asked_of(case, desk))
    except PolicyRefusal:
        return None


def without_spark(cases: dict[str, Case], folder: Path, desk: JobDesk) -> dict[str, list[Seen]]:
    """Return what each case sees in an Arrow table, in the order of publication."""
    rows = []
    for name, case in cases.items():
        try:
            read = decided(**asked_of(case, desk))
        except PolicyRefusal:
            continue
        kinds = {one.name: one.kind for one in read.delivered}
        for row in plain_rows(ArrowTable(read, log=str(folder / str(case[0].seed))).read()):
            maps = {kind.name: {n: row[n] for n, of in kinds.items() if of is kind} for kind in Kind}
            rows.append({**{n: v for n, v in row.items() if n not in kinds}, **maps, "case": name})
    return unpacked(rows, cases)


def for_partners(cases: dict[str, Case], folder: Path, desk: JobDesk) -> dict[str, list[Seen]]:
    """Return what each case sees in the files that `maia share` writes; what is hidden is not in them."""
    rows = []
    for name, case in cases.items():
        try:
            read = decided(**asked_of(case, desk))
        except PolicyRefusal:
            continue
        log, own = str(folder / str(case[0].seed)), folder / "shared" / name
        kinds, shown = {one.name: one.kind for one in read.delivered}, {one.name for one in read.shown}
        parts = [
            ShownPart(
                seen_rows(read, read.opener(read.wanted(log, plans), plans, with_meta=True), plans).narrowed(
                    {*shown, *read.meta}
                ),
                reading_ledger(read, plans, own / "ledger"),
            )
            for plans in read.parts
        ]
        files = SharedFiles(own / "files", 1 << 30)
        for one in write_files(parts, parts[0].seen.schema, files, between=(1, 1 << 40)):
            with files.open(one.names[0]) as file:
                table = pq.read_table(file)
            assert set(table.column_names) == {*shown, *read.meta}
            for row in plain_rows(table):
                maps = {kind.name: {n: row.get(n) for n, of in kinds.items() if of is kind} for kind in Kind}
                rows.append({**{n: row[n] for n in read.meta}, **maps, "case": name})
    return unpacked(rows, cases)


def plain_rows(table: pa.Table) -> list[dict[str, object]]:
    """Moments go as numbers, as above."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table.to_pylist()


def cases_of(worlds: Iterable[World]) -> dict[str, Case]:
    return {f"{world.seed}/{one.number}": (world, one) for world in worlds for one in world.readers}


def union(spark, cases: dict[str, Case], folder: Path, desk: JobDesk, **how: bool) -> DataFrame:
    parts = []
    for name, case in cases.items():
        table = table_of(spark, case, folder / str(case[0].seed), desk, **how)
        if table is not None:
            parts.append(packed(table, case, name))
    return reduce(DataFrame.unionAll, parts)


def assert_same(found: dict[str, list[Seen]], cases: dict[str, Case]) -> None:
    for name, (world, one) in cases.items():
        live, shown = typed(world.received[one.number]), typed(found[name])
        again = f"MAIA_WORLD={world.seed} .venv/bin/pytest tests/differential/{Path(__file__).name}"
        about = f"{again}\n{world.level} recorded by {world.recorded_by}, {one}"
        if world.asks_beyond_keys(one):
            assert not Counter(map(repr, live)) - Counter(map(repr, shown)), about
        else:
            assert shown == live, about


def typed(rows: Sequence[Seen]) -> list[tuple[object, ...]]:
    """Put every value beside its class: Python takes 1, 1.0 and True for equal."""
    return [(*about, tuple((*v, type(v[-1]).__name__) for v in values)) for *about, values in rows]


# ------------------------------------------------------------ claims


def played(seed: int, folder: Path, **how: object) -> World:
    world = World(seed)
    world.live()
    world.write_log(folder / str(seed), **how)
    return world


@pytest.mark.skipif("MAIA_WORLD" in os.environ, reason="one world was asked for")
def test_topics_sub_types_and_blinded_types_are_among_the_worlds():
    worlds = [World(seed) for seed in seeds(8)]
    assert {world.level is None for world in worlds if world.has_topics} == {True, False}
    assert {world.level is None for world in worlds if world.is_extended} == {True, False}
    blinded = [world for world in worlds if world.is_blinded]
    assert (
        {world.has_topics for world in blinded} == {world.is_extended for world in blinded} == {True, False}
    )


def test_a_table_shows_what_a_subscriber_received(spark, tmp_path, desk):
    """Some logs are joined into larger segments, while the smaller ones still lie there."""
    chosen = seeds(WORLDS)
    rows = 0
    for start in range(0, len(chosen), AT_ONCE):
        worlds = [played(seed, tmp_path, compact=seed % 3 == 0) for seed in chosen[start : start + AT_ONCE]]
        cases = cases_of(worlds)
        found = unpacked(union(spark, cases, tmp_path, desk).collect(), cases)
        assert_same(found, cases)
        assert_same(without_spark(cases, tmp_path, desk), cases)
        assert_same(for_partners(cases, tmp_path, desk), cases)
        rows += sum(map(len, found.values()))
    assert rows > len(chosen) or len(chosen) == 1


def test_a_table_shows_the_summaries_that_a_subscriber_received(spark, tmp_path, desk):
    """Of events that a policy has transformed on publication, with the same rows for all others, too."""
    chosen = seeds(max(2, WORLDS // 4))
    shown = 0
    for seed in chosen:
        world = SummarisingWorld(seed)
        world.live()
        world.write_log(tmp_path / str(seed))
        cases = cases_of([world])
        assert_same(unpacked(union(spark, cases, tmp_path, desk).collect(), cases), cases)
        assert_same(without_spark(cases, tmp_path, desk), cases)
        if world.level is SealingLevel.ATTRIBUTE and world.held != frozenset(world.kinds):
            continue  # its broker cannot read all of what is to be counted
        log, asked = (
            str(tmp_path / str(seed)),
            {
                "event_type": world.versions[0],
                "reader": world.summary_reader,
                "keys": world.keys(desk),
                "filter": world.wanted,
                "versions": world.versions,
                "shown_as": world.shown_as,
            },
        )
        table = governed(spark, log=log, **asked)
        names = {one.name: one for one in world.shown_as.attributes}
        columns = [_plain(one.kind, one.name).alias(one.name) for one in names.values()]
        of_arrow = plain_rows(ArrowTable(decided(**asked), log=log).read())
        for rows in (table.select(*columns).collect(), of_arrow):
            found = [
                tuple((one.name, one.kind.name, _read(one.kind, row[one.name])) for one in names.values())
                for row in rows
            ]
            assert sorted(map(repr, found)) == sorted(map(repr, world.summaries)), f"MAIA_WORLD={seed}"
        shown += len(found)
    assert shown or len(chosen) == 1


def test_a_stream_shows_what_a_subscriber_received(spark, tmp_path, desk):
    """The log grows between two runs of one query, which goes on where it was."""
    chosen = seeds(max(STREAMED, WORLDS // 10))
    for start in range(0, len(chosen), STREAMED):
        folder = tmp_path / str(start)
        worlds = [played(seed, folder, part=0.5) for seed in chosen[start : start + STREAMED]]
        cases = {name: case for name, case in cases_of(worlds).items() if case[1].number == 0}
        stream = union(spark, cases, folder, desk, is_stream=True)
        run(stream, folder)
        for world in worlds:
            world.write_log(folder / str(world.seed))
        run(stream, folder)
        rows = spark.read.schema(stream.schema).parquet(str(folder / "out")).collect()
        assert_same(unpacked(rows, cases), cases)


def run(table: DataFrame, folder: Path) -> None:
    query = (
        table.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(300)
    assert query.exception() is None
