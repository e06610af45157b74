"""D17, D18: a stream says how far it is behind its log, and can wait for what the log lacks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from maia.events import Attribute, AttributeUid, Kind
from maia.spark.errors import SparkProblem
from maia.spark.governed.log_folder import LogFolder
from maia.spark.governed.plan import Access
from maia.spark.governed.stream_lag import Lag, lag_of
from maia.spark.governed.table import Streaming, TableQuery, governed
from maia.testing import raises, wait_until
from support.governed import ATTRIBUTES, Recorded, reader, typed
from support.growing_log import Growing

EVERYTHING = ReadAllAvailable()


class Followed:
    """A log and a stream over it, which keeps what it has seen."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.log = spark, folder, Growing(folder)
        self.seen: Counter[int] = Counter()

    def start(self, **terms: object):
        stream = governed(
            self.spark,
            str(self.log.folder),
            Access(reader(), (self.log.made.event_type,)),
            TableQuery(columns=["speed"]),
            stream=Streaming(**terms),
        )
        kept = stream.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        return kept.foreachBatch(lambda batch, _number: self._keep(batch)).start()

    def _keep(self, batch) -> None:
        self.seen.update(row.speed for row in batch.collect())

    def lag(self, query) -> Lag:
        return lag_of(query, [LogFolder(str(self.log.folder))])


@pytest.fixture
def followed(spark: SparkSession, tmp_path: Path) -> Followed:
    return Followed(spark, tmp_path)


def test_spark_counts_rows_and_shows_how_far_the_log_is(followed: Followed) -> None:
    followed.log.record(3, rows=4)  # three segments
    query = followed.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    (done,) = [one for one in query.recentProgress if one.numInputRows]
    (source,) = done.sources
    assert (done.numInputRows, source.numInputRows) == (12, 12)
    assert done.inputRowsPerSecond == pytest.approx(source.inputRowsPerSecond)
    assert done.processedRowsPerSecond > 0
    assert json.loads(source.latestOffset)["position"] == 3
    assert followed.lag(query) == Lag(0, 0.0, 0, is_held=False)
    followed.log.record(2, rows=5, hours=1)
    followed.log.lack(7)
    assert followed.lag(query) == Lag(10, 3600.0, 7, is_held=False)
    followed.log.join()  # segments that were read with those that were not: about as many
    lag = followed.lag(query)
    assert 8 <= lag.events <= 10


def test_a_stream_that_wants_all_waits_where_it_is_and_says_so(followed: Followed) -> None:
    followed.log.record(2)
    query = followed.start(require_complete=True)
    try:
        query.processAllAvailable()
        assert followed.seen == Counter(range(4))
        followed.log.lack(3)
        followed.log.record(2)
        query.processAllAvailable()
        assert followed.seen == Counter(range(4))
    finally:
        query.stop()
    query = followed.start(require_complete=True)
    try:
        wait_until(lambda: query.lastProgress is not None)
        lag = followed.lag(query)
        assert (lag.events, lag.missing, lag.is_held) == (4, 3, True)
        followed.log.lack(0)  # the broker has found them
        query.processAllAvailable()
        assert followed.seen == Counter(range(8))
        wait_until(lambda: not followed.lag(query).is_held)
    finally:
        query.stop()


def test_a_run_that_ends_by_itself_cannot_wait(tmp_path: Path) -> None:
    log = Growing(tmp_path)
    log.record()
    log.lack(2)
    for waits in (False, True):
        one = log.reader(require_complete=waits)
        start = one.initialOffset()
        assert (one.latestOffset(start, EVERYTHING) == start) is waits
        latest = one.reportLatestOffset()
        assert (latest["position"], latest["missing"], latest["held"]) == (1, 2, waits)
    with pytest.raises(SparkProblem, match=r"\[UNAVAILABLE-LOG-INCOMPLETE\] the log is known to lack 2 "):
        one.prepareForTriggerAvailableNow()


def test_there_is_no_lag_before_a_batch_or_of_another_log(tmp_path: Path) -> None:
    log = [LogFolder(str(tmp_path / "log"))]
    with raises("UNAVAILABLE-LAG", match="no batch yet"):
        lag_of(SimpleNamespace(lastProgress=None), log)
    offset = {"type": "00" * 32, "position": 3, "forgotten": 0}
    latest = json.dumps({**offset, "log": ["/elsewhere"]})
    source = SimpleNamespace(endOffset=json.dumps(offset), latestOffset=latest)
    files = SimpleNamespace(endOffset='{"logOffset": 3}', latestOffset=None)
    with raises("UNAVAILABLE-LAG", match="no stream of this log"):
        lag_of(SimpleNamespace(lastProgress=SimpleNamespace(sources=[source, files])), log)


def test_events_that_are_later_than_their_moments_come_once(followed: Followed) -> None:
    followed.log.record(2)
    for hours in (-30, 5, -5):  # the day before, later, and before what was read
        query = followed.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        followed.log.record(2, hours=hours)
        followed.log.join()
    query = followed.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert followed.seen == Counter(range(16))


def test_a_type_gets_a_new_version_in_the_middle_of_a_stream(followed: Followed) -> None:
    log, old = followed.log, followed.log.made.event_type
    colour = Attribute("colour", AttributeUid("colour"), Kind.STRING)
    newer = typed(
        attributes=(*ATTRIBUTES, colour), version="11111111-1111-4111-8111-111111111111", previous=old
    )
    log.record(2)
    query = followed.start()
    try:
        query.processAllAvailable()
        log.made = Recorded(followed.folder / "newer", event_type=newer)
        log.record(2)  # published with the new attribute
        query.processAllAvailable()
        assert followed.seen == Counter(range(8))
    finally:
        query.stop()
    # The reader takes the new version, and goes on from its checkpoint.
    found: list[tuple[int, str | None]] = []
    stream = governed(
        followed.spark, str(log.folder), Access(reader(), (old, newer)), TableQuery(), stream=Streaming()
    )
    assert stream.columns[-1] == "colour"
    kept = stream.writeStream.option("checkpointLocation", str(followed.folder / "checkpoint"))
    query = kept.foreachBatch(
        lambda batch, _number: found.extend((row.speed, row.colour) for row in batch.collect())
    ).start()
    try:
        log.record(1)
        query.processAllAvailable()
    finally:
        query.stop()
    assert found == [(8, None), (9, None)]
