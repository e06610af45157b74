"""A44: a stream of a reader whose right ended stops at its next batch, and does not come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from maia.credentials import (
    AuthorisationCertificate,
    OnlineTest,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    TestKind,
    issue,
    period_from,
    sign_statement,
)
from maia.policy import GrantStale
from maia.spark.governed.plan import Keys
from maia.spark.governed.right_watch import right_watch
from maia.spark.keys.key_server import job_desk
from maia.testing.refusals import raises
from maia.types import SealingLevel
from support.governed import (
    HOUR,
    OWNER,
    PLATE,
    Recorded,
    at,
    between,
    governed,
    grant,
    key_of,
    reader,
    rows_of,
    sightings,
)

TESTER = key_of("tester")


def vouched(signed: SignedCertificate) -> SignedCertificate:
    said = signed.certificate
    assert isinstance(said, AuthorisationCertificate)
    validity = said.validity.with_tests(OnlineTest(TestKind.TIMED_CRL, TESTER.principal))
    return issue(AuthorisationCertificate(said.issuer, said.subject, False, said.authority, validity), OWNER)


def listed(number: int, *revoked: SignedCertificate) -> SignedStatement:
    """Return a list for an hour from noon, or one without a period if it revokes something."""
    period = None if revoked else period_from(at(0), microseconds=HOUR)
    ids = frozenset(one.id for one in revoked)
    return sign_statement(RevocationList(TESTER.principal, number, period, ids), TESTER)


def run(table: DataFrame, folder: Path) -> None:
    query = (
        table.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(300)


def test_a_revoked_reader_gets_no_further_batch_and_no_restart(spark, tmp_path):
    """A44: the grant is taken back, the next batch fails, and the checkpoint opens nothing."""
    log, right = Recorded(tmp_path / "log", SealingLevel.ATTRIBUTE), grant(validity=between(-10, 10))
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk:
        known = {"log": str(log.folder), "event_type": log.event_type, "is_stream": True}
        stream = governed(spark, reader=reader(right), keys=log.keys(desk), **known)
        run(stream, tmp_path)
        log.publish(sightings(3, first=3), published_at=at(1))
        log.write()
        desk.end_all()
        with pytest.raises(StreamingQueryException, match="the right behind this table was taken back"):
            run(stream, tmp_path)
        with raises("POLICY-NO-CHAIN"):
            governed(spark, reader=reader(right, revoked=frozenset({right.id})), keys=log.keys(desk), **known)
    kept = spark.read.schema(stream.schema).parquet(str(tmp_path / "out"))
    assert len(rows_of(kept)) == 3


def test_a_running_stream_shows_nothing_that_was_published_after_the_right(spark, tmp_path):
    """A44: no peer has to take an expired right back."""
    log = Recorded(tmp_path / "log")
    log.publish(sightings(1))
    log.write()
    stream = governed(
        spark,
        log=str(log.folder),
        event_type=log.event_type,
        reader=reader(grant(validity=between(-1, 1))),
        is_stream=True,
    )
    for number, hours in ((1, 1), (2, 1.001), (3, 2)):
        log.publish(sightings(1, first=number), published_at=at(hours))
        log.write()
    run(stream, tmp_path)
    kept = rows_of(spark.read.schema(stream.schema).parquet(str(tmp_path / "out")))
    assert [row["speed"] for row in kept] == [0, 1]


@pytest.mark.parametrize("level", [SealingLevel.ATTRIBUTE, None])
def test_a_statement_ends_the_stream_of_the_revoked_reader_and_of_no_other_peer(spark, tmp_path, level):
    """A44: heard while the stream runs, sealed or not; another reader's stream at the same desk goes on."""
    log = Recorded(tmp_path / "log", level)
    mine, other = vouched(grant()), vouched(grant(key_of("other")))
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk, right_watch(desk, [listed(1)], clock=lambda: at(0)) as watch:
        keys = log.keys(desk) if level else Keys(None, desk, {})
        known = {"log": str(log.folder), "event_type": log.event_type, "is_stream": True, "keys": keys}
        with pytest.raises(GrantStale):
            governed(spark, reader=reader(mine), **known)  # no peer has tested it
        stream = governed(spark, reader=reader(mine), watch=watch, **known)
        others = governed(spark, reader=reader(other, who=key_of("other")), watch=watch, **known)
        run(stream, tmp_path / "mine")
        run(others, tmp_path / "other")
        log.publish(sightings(3, first=3), published_at=at(1))
        log.write()
        assert watch.follow([listed(2, mine)]) == []
        with pytest.raises(StreamingQueryException, match="the right behind this table was taken back"):
            run(stream, tmp_path / "mine")
        with raises("POLICY-REVOKED"):
            governed(spark, reader=reader(mine), watch=watch, **known)
        run(others, tmp_path / "other")
    for who, rows in (("mine", 3), ("other", 6)):
        kept = spark.read.schema(stream.schema).parquet(str(tmp_path / who / "out"))
        assert len(rows_of(kept)) == rows


NARROWER = {
    "fewer columns": grant(attributes=[PLATE]),
    "fewer rows": grant(restriction="speed < 2"),
    "less time": grant(validity=between(-1, 0.5)),
}


def test_a_revocation_that_leaves_a_narrower_right_ends_the_stream_as_well(spark, tmp_path):
    """A44: the streams were decided by the wide right; what is left begins a stream of its own."""
    log, wide = Recorded(tmp_path / "log"), vouched(grant())
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk, right_watch(desk, [listed(1)], clock=lambda: at(0)) as watch:
        known = {"log": str(log.folder), "event_type": log.event_type, "keys": Keys(None, desk, {})}
        streams = {
            name: governed(spark, reader=reader(wide, left), watch=watch, is_stream=True, **known)
            for name, left in NARROWER.items()
        }
        run(streams["fewer columns"], tmp_path / "fewer columns")
        log.publish(sightings(3, first=3), published_at=at(1))
        log.write()
        assert watch.follow([listed(2, wide)]) == []
        for name, left in NARROWER.items():
            with pytest.raises(StreamingQueryException, match="the right behind this table was taken back"):
                run(streams[name], tmp_path / name)
            narrower = governed(spark, reader=reader(wide, left), watch=watch, **known)
            shown = [value for row in rows_of(narrower) for value in row.values() if value is not None]
            assert 0 < len(shown) < 6 * 4 - 1, name  # six rows of four values, one without a plate
    schema = streams["fewer columns"].schema
    kept = spark.read.schema(schema).parquet(str(tmp_path / "fewer columns" / "out"))
    assert len(rows_of(kept)) == 3


def test_a_stream_ends_when_no_peer_confirms_its_reader_any_more(spark, tmp_path):
    """A44: a peer that withholds the next list ends the stream, and does not prolong it."""
    log, now = Recorded(tmp_path / "log", SealingLevel.ATTRIBUTE), [at(0)]
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk, right_watch(desk, [listed(1)], clock=lambda: now[0]) as watch:
        stream = governed(
            spark,
            log=str(log.folder),
            event_type=log.event_type,
            reader=reader(vouched(grant())),
            keys=log.keys(desk),
            watch=watch,
            is_stream=True,
        )
        run(stream, tmp_path)
        log.publish(sightings(3, first=3), published_at=at(0.5))
        log.write()
        now[0] = at(2)
        with pytest.raises(StreamingQueryException, match="the right behind this table was taken back"):
            run(stream, tmp_path)
