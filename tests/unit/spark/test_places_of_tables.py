"""Tables and commands read from an object store as from a folder: rows, columns, streams, refusals."""

from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from maia.cli import main
from maia.credentials import Action
from maia.log.disk.event_log import EventLog
from maia.log.disk.shipping import PlaceCopy
from maia.places import Place, places_of
from maia.spark.applications.runs import parquet_source
from maia.spark.governed.arrow_table import ArrowTable
from maia.spark.keys.key_server import job_desk
from maia.testing import raises
from maia.types import SealingLevel
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from support.governed import (
    NOON,
    PLATE,
    SPEED,
    Recorded,
    at,
    decided,
    frame_of,
    governed,
    grant,
    key_of,
    reader,
    rows_of,
    sightings,
)
from support.moody_store import MoodyStore
from support.object_store import forgotten_stores, upload


def rolled(folder, frames, place=None):
    """Record frames in a broker's log and roll them; with a place, put them there."""
    with EventLog.open(folder) as log:
        log.append([encode(one) for one in frames], recorded_at=NOON)
        log.roll(NOON)
        if place is not None:
            PlaceCopy(place, folder).ship(log, NOON)
    return str(folder if place is None else place)


@pytest.fixture
def log(tmp_path, bucket):
    made = Recorded(tmp_path / "unused", SealingLevel.ATTRIBUTE)
    for first in (0, 20):
        made.publish(sightings(20, first))
    made.folder = tmp_path / "log"
    rolled(made.folder, made.frames, bucket / "log")
    return made, bucket / "log"


def streamed(rows, folder):
    """What a stream shows until it has read everything."""
    query = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "state"))
    query.format("parquet").start(str(folder / "shown")).awaitTermination()
    return rows_of(rows.sparkSession.read.parquet(str(folder / "shown")))


def test_a_governed_table_shows_the_same_from_a_store_and_from_a_folder(spark_in_store, log, tmp_path):
    made, place = log
    who = reader(grant(attributes=[PLATE, SPEED], restriction="speed > 5"))
    with job_desk("127.0.0.1") as desk:
        about = {"event_type": made.event_type, "reader": who, "keys": made.keys(desk)}
        here = rows_of(governed(spark_in_store, log=made.folder, **about))
        there = governed(spark_in_store, log=str(place).replace("s3:", "s3a:"), **about)
        assert rows_of(there) == here
        assert len(here) == 34
        assert streamed(governed(spark_in_store, log=str(place), is_stream=True, **about), tmp_path) == here
        plan = there._jdf.queryExecution().toString()
        assert "AKIA" not in plan


def test_a_command_reads_parquet_files_and_logs_of_a_store(
    sparkling, spark_in_store, bucket: Place, tmp_path, monkeypatch, capsys, log
):
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(words)
        return status, *capsys.readouterr()

    assert run("pipeline", "generate", "sightings", "city", "--rows", "2000", "--per-day", "1000")[0] == 0
    upload(tmp_path / "city", bucket / "city")
    billing = ("pipeline", "run", "billing", "--from")
    here = json.loads(run(*billing, "city", "--json")[1])
    status, out, err = run(*billing, str(bucket / "city").replace("s3:", "s3a:"), "--json")
    assert status == 0, err
    timed = {"seconds": 0, "events_per_s": 0}
    assert json.loads(out) | timed == here | timed
    for is_there in (False, True):  # tasks write a result to the store, once
        status, out, err = run(*billing, "city", "--out", str(bucket / "charges"), "--json")
        assert status == (2 if is_there else 0), err
    assert "INPUT-PIPELINE-RESULT" in out + err
    assert parquet_source(spark_in_store, str(bucket / "charges")).rows == here["charges"]
    assert (bucket / "charges" / "_SUCCESS").exists()
    status, out, err = run("pipeline", "verify", "billing", "--from", str(bucket / "city"), "--json")
    verified = json.loads(out)
    assert (status, verified["holds"], verified["rows"]) == (0, True, here["charges"]), err
    following = ("--follow", "--out", "charges", "--checkpoint", "checkpoint")
    status, _, err = run(*billing, str(bucket / "city"), *following)
    assert (status, "--log s3://" in err, "[INPUT-PIPELINE-SOURCE]" in err) == (2, True, True), err
    status, _, err = run(*billing, str(bucket / "nothing"))
    assert status == 2
    assert "is not there" in err
    assert "[INPUT-PIPELINE-SOURCE]" in err
    status, _, err = run(*billing, "s3://key:w0rd@city/log")
    assert (status, "[PLACE-SECRET]" in err, "w0rd" in err) == (2, True, False)
    status, out, err = run("log", "verify", str(log[1]), "--json")
    assert (status, json.loads(out)["records"]) == (0, 2), err
    status, _, err = run("log", "verify", str(bucket))
    assert status == 2
    assert "has no manifest" in err


@pytest.mark.parametrize("level", [None, SealingLevel.ATTRIBUTE])
def test_a_table_over_several_logs_shows_each_publication_once(spark, tmp_path, level):
    made = Recorded(tmp_path / "unused", level)
    frames = [made.publish(sightings(10, first), published_at=at(first / 100)) for first in range(0, 60, 10)]
    north, south = rolled(tmp_path / "north", frames[:4]), rolled(tmp_path / "south", frames[2:])
    with job_desk("127.0.0.1") as desk:
        keys = None if level is None else made.keys(desk)
        about = {"event_type": made.event_type, "reader": reader(), "keys": keys}
        both = rows_of(governed(spark, log=[north, south], **about))
        assert sorted(one["speed"] for one in both) == list(range(60))
        arrow = ArrowTable(decided(**about), log=places_of(f"{tmp_path}/*")).read()
        assert arrow.num_rows == 60


def test_what_two_brokers_signed_is_shown_once_and_what_a_stranger_signed_takes_no_place(tmp_path):
    """X10, A66: the publisher's broker was lost, and it published again at another one."""
    signers = {name: key_of(name) for name in ("a stranger", "the first broker", "the second broker")}
    made = [Recorded(tmp_path, SealingLevel.ATTRIBUTE, signer=one) for one in signers.values()]
    logs = [rolled(tmp_path / str(n), [one.publish(sightings(5))]) for n, one in enumerate(made)]
    with job_desk("127.0.0.1") as desk:
        keys = made[0].keys(desk)
        known = {one.principal: (grant(one, action=Action.PUBLISH),) for one in signers.values()}
        del known[signers["a stranger"].principal]
        keys = dataclasses.replace(keys, signers=known)
        about = {"event_type": made[0].event_type, "reader": reader(), "keys": keys}
        for some in (logs, logs[::-1]):
            found = ArrowTable(decided(**about), log=some).read()
            assert sorted(found["speed"].to_pylist()) == list(range(5))


def test_of_a_frame_that_is_partly_in_two_logs_each_row_is_shown_once(tmp_path):
    made = Recorded(tmp_path / "unused")
    whole = made.publish(sightings(6))
    kept = [0, 2, 5]
    part = replace(
        whole,
        rows=3,
        kept=kept,
        columns=frame_to_columns(frame_of([sightings(6)[n] for n in kept], made.event_type.kinds)),
    )
    logs = [rolled(tmp_path / "part", [part]), rolled(tmp_path / "whole", [whole])]
    for some in (logs, logs[::-1]):
        found = ArrowTable(
            decided(event_type=made.event_type, reader=reader(), with_meta=True), log=some
        ).read()
        assert sorted(found["_row"].to_pylist()) == list(range(6))
        assert sorted(found["speed"].to_pylist()) == list(range(6))


def test_a_stream_over_several_logs_shows_late_copies_no_second_time(spark, tmp_path):
    made = Recorded(tmp_path / "unused")
    frames = [made.publish(sightings(10, first), published_at=at(first / 100)) for first in range(0, 50, 10)]
    north, south = tmp_path / "north", tmp_path / "south"
    logs = [rolled(north, frames[:2]), rolled(south, frames[1:3])]
    shown = []

    def run():
        rows = governed(spark, log=logs, event_type=made.event_type, reader=reader(), is_stream=True)
        query = (
            rows.writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda batch, _number: shown.extend(row["speed"] for row in batch.collect()))
            .start()
        )
        query.awaitTermination(120)

    run()
    assert sorted(shown) == list(range(30))
    rolled(north, frames[2:4])  # the third was shown from the other log
    rolled(south, [frames[0], frames[4]])
    run()
    assert sorted(shown) == list(range(50))


def test_a_store_that_is_away_is_said_in_one_line(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with forgotten_stores(), raises("PLACE-UNREACHABLE", match="cannot be listed: NETWORK_CONNECTION"):
        bucket.listed()


@pytest.fixture
def moody(object_store, monkeypatch):
    store = MoodyStore(object_store.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.address)
    with forgotten_stores():
        yield store
    store.close()


def test_a_store_that_is_busy_for_a_moment_costs_no_row_and_one_that_stays_so_is_said(log, moody, desk):
    """What was read is whole, or refused with one sentence, whatever the store answers."""
    made, place = log
    table = ArrowTable(
        decided(event_type=made.event_type, reader=reader(), keys=made.keys(desk)), log=str(place)
    )
    moody.refuses = 2
    assert table.read().num_rows == 40
    moody.refuses = 1 << 20
    with raises("PLACE-UNREACHABLE", "LOG-DAMAGED"):
        table.read()


def test_a_store_that_says_nothing_is_given_up_in_one_sentence(log, moody, desk, monkeypatch):
    made, place = log
    monkeypatch.setattr("maia.places.place._REQUEST_S", 1)
    with forgotten_stores():
        table = ArrowTable(
            decided(event_type=made.event_type, reader=reader(), keys=made.keys(desk)), log=str(place)
        )
        moody.hangs.set()
        with raises("PLACE-UNREACHABLE"):
            table.read()
