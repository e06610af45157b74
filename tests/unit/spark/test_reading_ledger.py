"""X5: what a governed table shows is on record before it is handed out, row for row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from maia.credentials import TypeName
from maia.ledger.files import disclosures_in
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
    recorded = list(disclosures_in(ledger))  # nothing was read of the table yet
    names = {one.name: one.uid for one in ATTRIBUTES}
    shown = defaultdict(set)
    for row in table.collect():
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


def test_without_a_record_nothing_is_read_of_a_type_whose_owner_demands_one(spark, tmp_path):
    """A95 by way of the log."""
    log = Recorded(tmp_path, event_type=demanding())
    log.publish(sightings(3))
    log.write()
    asked = {"log": str(tmp_path), "event_type": log.event_type, "reader": reader()}
    with raises("PIPELINE-LEDGER-REQUIRED"):
        governed(spark, **asked)
    with raises("PIPELINE-LEDGER-REQUIRED"):
        governed(spark, is_stream=True, ledger=tmp_path / "ledger", **asked)


def test_a_table_without_spark_is_on_record_in_the_same_way(spark, tmp_path):
    log = Recorded(tmp_path / "log", event_type=demanding())
    log.publish(sightings(60))
    log.publish(sightings(40, 60), published_at=at(4))
    log.write()
    reads = reader(grant(READER, [PLATE], "speed < 30"), grant(READER, [SPEED], validity=between(None, 2)))
    asked = {"event_type": log.event_type, "reader": reads}
    governed(spark, log=str(log.folder), ledger=tmp_path / "of-spark", **asked)
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
