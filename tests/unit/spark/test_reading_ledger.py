"""X5, D15: what a governed table or stream shows is on record before it is handed out, row for row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.cli.main import main
from maia.credentials import TypeName
from maia.ledger.files import disclosures_in, ledger_at, verify_ledger
from maia.ledger.records import from_ranges
from maia.spark.governed.arrow_table import ArrowTable
from maia.testing.refusals import raises
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.governed import (
    ATTRIBUTES,
    NOON,
    OWNER,
    PLATE,
    READER,
    SPEED,
    Recorded,
    at,
    between,
    decided,
    governed,
    grant,
    reader,
    sightings,
    typed,
)


def demanding():
    name = TypeName(OWNER.principal, "uk.gov.Numberplate", "0")
    definition = replace(TypeDefinition(name, None, ATTRIBUTES), ledger=True)
    return verify_definition(sign_definition(definition, OWNER), at=NOON)


def test_each_row_is_on_record_with_the_attributes_that_it_shows_and_the_certificates_by_which(
    spark, tmp_path
):
    log = Recorded(tmp_path / "log", event_type=demanding())
    log.publish(sightings(60))
    log.publish(sightings(40, 60), published_at=at(4))
    log.write()
    slow, early = grant(READER, [PLATE], "speed < 30"), grant(READER, [SPEED], validity=between(None, 2))
    ledger = tmp_path / "ledger"
    asked = {
        "log": str(log.folder),
        "event_type": log.event_type,
        "reader": reader(slow, early),
        "with_meta": True,
    }
    table = governed(spark, ledger=ledger, **asked)
    assert list(disclosures_in(ledger)) == []  # nothing was read of the table yet
    rows = table.collect()
    recorded = list(disclosures_in(ledger))
    assert rows == governed(spark, **{**asked, "event_type": typed()}).collect()
    names = {one.name: one.uid for one in ATTRIBUTES}
    shown = defaultdict(set)
    for row in rows:
        seen = tuple(sorted(names[name] for name in names if row[name] is not None))
        shown[row["_sequence"], seen].add(row["_row"])
    found = defaultdict(set)
    for one in recorded:
        found[one.sequence, one.attributes].update(from_ranges(one.ranges))
        by = {slow.id, early.id} if one.sequence == 1 else {slow.id}
        assert (one.recipient, one.broker, set(one.certificates)) == (
            READER.principal.key,
            READER.principal.key,
            by,
        )
    assert dict(found) == dict(shown) != {}
    assert sum(one.rows for one in recorded) == len(rows)


def test_without_a_record_nothing_is_read_of_a_type_whose_owner_demands_one(spark, tmp_path):
    """A95 by way of the log."""
    log = Recorded(tmp_path, event_type=demanding())
    log.publish(sightings(3))
    log.write()
    asked = {"log": str(tmp_path), "event_type": log.event_type, "reader": reader()}
    with raises("PIPELINE-LEDGER-REQUIRED"):
        governed(spark, **asked)
    with raises("PIPELINE-LEDGER-REQUIRED"):
        governed(spark, is_stream=True, **asked)


def many_frames(folder):
    log = Recorded(folder, event_type=demanding())
    for number in range(20):
        log.publish(sightings(30, 30 * number))
    for number in range(50):
        log.publish(sightings(1, 1000 + number))
    log.write()
    return log


def on_record(ledger):
    """Return each row that is on record, as often as it is."""
    return sorted(
        (one.sequence, row, one.attributes)
        for one in disclosures_in(ledger)
        for row in from_ranges(one.ranges)
    )


def test_an_account_has_each_reading_once_however_often_a_task_runs(spark, tmp_path):
    log, ledger = many_frames(tmp_path / "log"), tmp_path / "ledger"
    asked = {"log": str(log.folder), "event_type": log.event_type, "reader": reader()}
    table = governed(spark, ledger=ledger, **asked)
    # In one stage: the same rows twice, by several tasks that one process runs one after the other.
    assert table.union(table).coalesce(1).count() == 2 * 650
    once = on_record(ledger)
    assert len(once) == len(set(once)) == 650
    assert table.count() == 650  # a second reading
    assert on_record(ledger) == sorted(once * 2)


def test_a_reader_that_takes_little_or_dies_has_what_it_was_shown_on_record(spark, tmp_path, capsys):
    log, ledger = many_frames(tmp_path / "log"), tmp_path / "ledger"
    asked = {"log": str(log.folder), "event_type": log.event_type, "reader": reader()}
    table = governed(spark, ledger=ledger, **asked)
    (row,) = table.limit(1).collect()
    assert row["speed"] is not None
    assert on_record(ledger)
    with pytest.raises(PySparkException):
        table.select(F.raise_error(F.col("location"))).collect()
    found = verify_ledger(ledger)
    assert found.unchained > 0
    assert found.deliveries == len(list(disclosures_in(ledger)))
    assert main(["ledger", "verify", str(ledger)]) == 0
    assert "a job that runs, or was killed" in capsys.readouterr().out
    before = on_record(ledger)
    governed(spark, ledger=ledger, **asked)  # the next reader chains what the dead one left
    found = verify_ledger(ledger)
    assert (found.unchained, found.head.entries, on_record(ledger)) == (0, 1, before)
    part = next(ledger.glob("reads/*/*.part"))
    data = part.read_bytes()
    part.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with raises("INPUT-LEDGER", match="not as it was written"):
        verify_ledger(ledger)
    part.unlink()
    with raises("INPUT-LEDGER", match="cannot be read"):
        verify_ledger(ledger)


def test_a_stream_is_on_record_batch_by_batch_also_where_a_batch_runs_again(spark, tmp_path):
    log, ledger = many_frames(tmp_path / "log"), tmp_path / "ledger"
    asked = {"log": str(log.folder), "event_type": log.event_type, "reader": reader()}

    def run(name):
        rows = governed(spark, is_stream=True, ledger=ledger, **asked)
        writing = rows.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query = writing.trigger(availableNow=True).start(str(tmp_path / name))
        query.awaitTermination(120)
        return spark.read.parquet(str(tmp_path / name)).count()

    assert run("first") == 650
    once = on_record(ledger)
    assert len(once) == len(set(once)) == 650
    for path in (tmp_path / "checkpoint" / "commits").iterdir():  # as if the driver had died before
        path.unlink()
    assert run("again") == 650
    assert on_record(ledger) == once
    log.publish(sightings(7, 2000))
    log.write()
    assert run("again") == 657
    assert len(on_record(ledger)) == 657
    assert verify_ledger(ledger).unchained <= 1  # at most the last batch is still to be chained


def test_a_table_without_spark_is_on_record_in_the_same_way(spark, tmp_path):
    log = Recorded(tmp_path / "log", event_type=demanding())
    log.publish(sightings(60))
    log.publish(sightings(40, 60), published_at=at(4))
    log.write()
    reads = reader(grant(READER, [PLATE], "speed < 30"), grant(READER, [SPEED], validity=between(None, 2)))
    asked = {"event_type": log.event_type, "reader": reads}
    governed(spark, log=str(log.folder), ledger=tmp_path / "of-spark", **asked).collect()
    with raises("PIPELINE-LEDGER-REQUIRED"):
        ArrowTable(decided(**asked), log=str(log.folder))
    table = ArrowTable(decided(**asked), log=str(log.folder), ledger=tmp_path / "of-arrow")
    assert table.schema.names == [one.name for one in ATTRIBUTES]
    assert sum(batch.num_rows for batch in table.batches()) == 60  # the early ones, by their speed

    def found(folder):
        return {
            (one.sequence, one.attributes, tuple(from_ranges(one.ranges)), one.certificates)
            for one in disclosures_in(folder)
        }

    assert found(tmp_path / "of-arrow") == found(tmp_path / "of-spark") != set()


def test_a_ledger_may_lie_in_an_object_store(spark_in_store, bucket, tmp_path, capsys):
    log, ledger = many_frames(tmp_path / "log"), str(bucket / "reads")
    asked = {"log": str(log.folder), "event_type": log.event_type, "reader": reader()}
    table = governed(spark_in_store, ledger=ledger, **asked)
    assert table.union(table).count() == 2 * 650
    governed(spark_in_store, ledger=ledger, **asked)
    found = verify_ledger(ledger_at(ledger))
    assert (found.head.entries, found.unchained) == (1, 0)
    assert len(on_record(ledger_at(ledger))) == 650
    assert main(["ledger", "verify", ledger, "--json"]) == 0
    assert '"unchained":0' in capsys.readouterr().out.replace(" ", "")
