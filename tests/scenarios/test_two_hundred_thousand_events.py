"""What a data engineer counts in two logs of one type is exact, and planned as other tables of Spark are.

Twelve sealed attributes, two recording brokers of which each lacks a part that the other has, a right that is
restricted by what it does not show. Every answer is computed beside it from the events themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import SECOND, Attribute, AttributeUid, Column, Frame, Instant, Kind
from maia.log.disk.place_log import PlaceLog
from maia.log.format.manifest import Change, MissingRun, Segment
from maia.log.format.names import day_of
from maia.log.format.segments import digest_of, parquet_bytes, row_of, table_of
from maia.places import Place
from maia.predicates import parse_predicate
from maia.sealing import Publication
from maia.spark.governed.log_folder import LogFolder
from maia.spark.keys.key_server import job_desk
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from support.governed import CAMERA, NOON, READER, STREAM, Recorded, governed, grant, reader, typed

EVENTS, IN_FRAME, IN_SEGMENT = 200_000, 250, 40
FRAMES = EVENTS // IN_FRAME
KINDS = {
    **{f"text{n}": Kind.STRING for n in range(4)},
    **{f"number{n}": Kind.INT for n in range(4)},
    **{f"measure{n}": Kind.FLOAT for n in range(3)},
    "clearance": Kind.INT,
}
ATTRIBUTES = tuple(Attribute(name, AttributeUid(f"u-{name}"), kind) for name, kind in KINDS.items())
UIDS = {one.name: one.uid for one in ATTRIBUTES}
SHOWN = ["text0", "text1", "number0", "number1", "measure0"]
WHERE = "clearance < 3"


def values(name: str) -> np.ndarray:
    """Return all values of an attribute, in the order of events."""
    numbers = np.arange(EVENTS, dtype=np.int64)
    draw = (numbers * 2_654_435_761 + sum(map(ord, name)) * 97) % 1_000_003
    return {
        Kind.STRING: np.char.add("w", (draw % 50).astype(str)),
        Kind.INT: draw % (10 if name == "clearance" else 1_000),
        Kind.FLOAT: draw / 8,
    }[KINDS[name]]


@dataclass
class TwoLogs:
    """Two logs of one type, which share most of it, and the events that were published."""

    folders: list[Path]
    made: Recorded
    known: dict[str, np.ndarray] = field(default_factory=lambda: {name: values(name) for name in KINDS})

    @property
    def seen(self) -> np.ndarray:
        """Return which events the right shows."""
        return self.known["clearance"] < 3


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> TwoLogs:
    folder = tmp_path_factory.mktemp("logs")
    made = Recorded(folder / "elsewhere", event_type=typed(SealingLevel.ATTRIBUTE, ATTRIBUTES))
    found = TwoLogs([folder / "north", folder / "south"], made)
    messages = list(published(found))
    for place, lacks in zip(found.folders, (range(200, 260), range(500, 530)), strict=True):
        write(place, made, messages, lacks)
    return found


def published(logs: TwoLogs) -> Iterator[bytes]:
    """Yield every frame, sealed and signed."""
    made = logs.made
    columns = {name: column.tolist() for name, column in logs.known.items()}
    for number in range(FRAMES):
        rows = slice(number * IN_FRAME, (number + 1) * IN_FRAME)
        frame = Frame(
            IN_FRAME, {UIDS[name]: Column(KINDS[name], tuple(all_[rows])) for name, all_ in columns.items()}
        )
        about = Publication(CAMERA.principal, STREAM, number, moment(number), IN_FRAME)
        sealed = made.sealer.seal(
            [frame_to_columns(frame)], [about], keys=made.epoch_keys(1), level=SealingLevel.ATTRIBUTE
        )
        yield from map(encode, made.sealer.sign(sealed))


def moment(number: int) -> Instant:
    return Instant(NOON + number * SECOND)


def write(folder: Path, made: Recorded, messages: list[bytes], lacks: range) -> None:
    """Write a log as a broker does that has missed some frames, and knows it."""
    type_id = made.event_type.type_id
    kept = [number for number in range(FRAMES) if number not in lacks]
    there, segments = PlaceLog(Place(str(folder))), []
    for begin in range(0, len(kept), IN_SEGMENT):
        numbers = kept[begin : begin + IN_SEGMENT]
        first, last = begin + 1, begin + len(numbers)
        spans = (int(moment(numbers[0])), int(moment(numbers[-1]))) * 2
        rows = [
            row_of(messages[number], position=first + at, recorded_at=int(moment(number)))
            for at, number in enumerate(numbers)
        ]
        data = parquet_bytes(table_of(rows), type_id)
        about = type_id, day_of(NOON), first, last, digest_of(data), len(numbers)
        segments.append(Segment(*about, len(numbers) * IN_FRAME, len(data), *spans))
        there.put(segments[-1].path, data)
    hole = MissingRun(type_id, CAMERA.principal.key, STREAM, lacks[0], lacks[-1])
    there.commit(Change(int(moment(FRAMES)), segments[-1].last, bytes(16), segments, [], [], [hole]))


@pytest.fixture
def table(spark, logs: TwoLogs) -> Iterator[Callable[..., DataFrame]]:
    with job_desk() as desk:

        def of(*folders: Path, attributes: list[str] | None = SHOWN, **asked) -> DataFrame:
            uids = None if attributes is None else [UIDS[name] for name in attributes]
            who = reader(grant(READER, uids, parse_predicate(WHERE, {one.name: one for one in ATTRIBUTES})))
            places = list(map(str, folders or logs.folders))
            return governed(
                spark,
                log=places if len(places) > 1 else places[0],
                event_type=logs.made.event_type,
                reader=who,
                keys=logs.made.keys(desk),
                **asked,
            )

        yield of


def test_rows_columns_and_sums_are_those_of_the_events(logs: TwoLogs, table) -> None:
    """No row is missing or doubled, though each log lacks some, and what decides is not shown."""
    whole, seen = table(), logs.seen
    assert whole.count() == seen.sum()
    sums = whole.agg(
        F.sum("number0"), F.sum("measure0"), F.countDistinct("text1"), F.count("clearance")
    ).first()
    assert list(sums) == [
        logs.known["number0"][seen].sum(),
        pytest.approx(logs.known["measure0"][seen].sum()),
        len(set(logs.known["text1"][seen])),
        0,
    ]
    by_text = {row.text0: row["count"] for row in whole.groupBy("text0").count().collect()}
    assert by_text == {
        str(text): int(((logs.known["text0"] == text) & seen).sum())
        for text in np.unique(logs.known["text0"][seen])
    }
    assert {one.name for one in whole.schema} == set(KINDS)


def test_one_log_shows_what_it_has_and_says_what_it_lacks(logs: TwoLogs, table) -> None:
    """T1: fewer rows with a number, and not fewer rows."""
    for folder, lacks in zip(logs.folders, (range(200, 260), range(500, 530)), strict=True):
        has = np.ones(EVENTS, bool)
        has[lacks[0] * IN_FRAME : (lacks[-1] + 1) * IN_FRAME] = False
        assert table(folder).count() == (logs.seen & has).sum()
        assert LogFolder(str(folder)).of_type(logs.made.event_type.type_id).missing == len(lacks)


def test_spark_plans_it_by_its_size_and_opens_what_is_asked_for(spark, logs: TwoLogs, table, capsys) -> None:
    """T2, T3: no large table is sent to the driver, and no column is opened for nothing."""
    whole = table(attributes=None)
    other = table(logs.folders[0], attributes=None).select("text0")
    joined = whole.join(other, "text0").select("number1")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", 1 << 20)
    try:
        joined.explain()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    plan = capsys.readouterr().out
    assert "SortMergeJoin" in plan
    opened = {name for name in KINDS if f"uk.gov.Numberplate.{name}(" in plan}
    assert opened == {"text0", "number1"}
    assert WHERE.split(maxsplit=1)[0] not in plan, "what decides about rows is in no plan"
    few = spark.range(100).selectExpr("concat('w', id % 7) AS text0").distinct()
    found = whole.join(few, "text0").agg(F.sum("number1")).first()[0]
    wanted = np.isin(logs.known["text0"], [f"w{n}" for n in range(7)]) & logs.seen
    assert found == logs.known["number1"][wanted].sum()


def test_a_log_as_it_was_has_the_rows_of_then(logs: TwoLogs, table) -> None:
    """T5: at a moment in both logs, and up to a position in one."""
    until = 300
    then = np.arange(EVENTS) < (until + 1) * IN_FRAME
    assert table(as_of=moment(until)).count() == (logs.seen & then).sum()
    north = table(logs.folders[0], as_of=100).count()
    assert north == (logs.seen & (np.arange(EVENTS) < 100 * IN_FRAME)).sum()


def test_a_stream_counts_rows_and_has_all_of_them(spark, logs: TwoLogs, table, tmp_path: Path) -> None:
    """T4: what Spark reports of a batch are rows of the query."""
    shown = table(is_stream=True, columns=["number0"])
    query = (
        shown.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert sum(one.numInputRows for one in query.recentProgress) == logs.seen.sum()
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.agg(F.sum("number0")).first()[0] == logs.known["number0"][logs.seen].sum()
