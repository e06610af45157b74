"""What readers see of recorded events: plain, sealed as a whole, and sealed by attribute."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.log.disk.event_log import EventLog
from maia.policy import Facts
from maia.policy.facts import during
from maia.predicates import parse_predicate
from maia.spark.governed.arrow_table import ArrowTable
from maia.spark.governed.reader import FactPeriod, RightsCut, slices_of
from maia.spark.governed.table import META_COLUMNS
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.codec import encode
from support.governed import (
    ATTRIBUTES,
    CAMERA,
    NOON,
    OWNER,
    PLACE,
    PLATE,
    SPEED,
    STREAM,
    Recorded,
    asked,
    at,
    between,
    decided,
    governed,
    grant,
    reader,
    rows_of,
    sightings,
    typed,
)

CAR_PARK = AttributeUid("car-park")


def named(event):
    return {one.name: event.get(one.uid) for one in ATTRIBUTES}


def test_a_reader_without_a_key_gets_null_and_nothing_where_the_policy_asks(spark, tmp_path, desk):
    log, events = Recorded(tmp_path, SealingLevel.ATTRIBUTE), sightings(20)
    log.publish(events)
    log.write()
    keys = log.keys(desk, only=[None, PLATE, SPEED])
    table = governed(spark, log=str(tmp_path), event_type=log.event_type, reader=reader(), keys=keys)
    without = [named(event) | {"location": None, "seen": None} for event in events]
    assert rows_of(table) == sorted(without, key=repr)
    for restriction in ('location == "Victoria"', "not exists(location)"):
        who = reader(grant(restriction=restriction))
        table = governed(spark, log=str(tmp_path), event_type=log.event_type, reader=who, keys=keys)
        assert rows_of(table) == []


def test_without_any_key_nothing_is_shown(spark, tmp_path, desk):
    for level in SealingLevel:
        log = Recorded(tmp_path / level.value, level)
        log.publish(sightings(5))
        log.write()
        table = governed(
            spark,
            log=str(log.folder),
            event_type=log.event_type,
            reader=reader(),
            keys=log.keys(desk, only=[]),
        )
        assert rows_of(table) == []


def test_each_period_has_the_rights_of_its_moment(spark, tmp_path, desk):
    log, events = Recorded(tmp_path, SealingLevel.ATTRIBUTE), sightings(4)
    for event, hours in zip(events, (-2, 0, 30, 60), strict=True):
        log.publish([event], published_at=at(hours))
    log.write()
    who = reader(
        grant(attributes=[PLATE], validity=between(-1, 40)),
        grant(attributes=[PLACE], restriction="speed > 1", validity=between(20, 40)),
    )
    table = governed(
        spark, log=str(tmp_path), event_type=log.event_type, reader=who, keys=log.keys(desk), with_meta=True
    )
    found = {row["_sequence"]: row for row in rows_of(table)}
    assert set(found) == {2, 3}
    assert (found[2]["numberplate"], found[2]["location"]) == ("AE00001", None)
    assert (found[3]["numberplate"], found[3]["location"]) == ("AE00002", "Trumpington")
    with raises("POLICY-EXPIRED"):
        governed(
            spark, log=str(tmp_path), event_type=log.event_type, reader=who, keys=log.keys(desk), since=at(41)
        )
    early = governed(
        spark, log=str(tmp_path), event_type=log.event_type, reader=who, keys=log.keys(desk), until=at(1)
    )
    assert len(rows_of(early)) == 1


def test_a_condition_holds_in_the_periods_in_which_its_facts_were_known(spark, tmp_path):
    log, events, duty = Recorded(tmp_path), sightings(3), AttributeUid("on-duty")
    for event, hours in zip(events, (0, 2, 4), strict=True):
        log.publish([event], published_at=at(hours))
    log.write()
    on_duty = parse_predicate("duty == true", {"duty": Attribute("duty", duty, Kind.BOOL)})
    who = reader(grant(condition=on_duty), facts=(FactPeriod(between(1, 3), Facts({duty: True})),))
    table = governed(spark, log=str(tmp_path), event_type=log.event_type, reader=who)
    assert [row["numberplate"] for row in rows_of(table)] == ["AE00001"]


def test_a_rule_sees_the_world_of_the_moment_of_publication(spark, tmp_path):
    """X9: in a table as at a broker; of a moment of which nothing is known, the attribute is missing."""
    log, events = Recorded(tmp_path), sightings(3)
    for event, hours in zip(events, (0, 2, 4), strict=True):
        log.publish([event], published_at=at(hours))
    log.write()
    incident = AttributeUid("incident")
    known = tuple(
        FactPeriod(between(*hours), Facts(asserted={OWNER.principal: {incident: said}}))
        for hours, said in (((1, 3), True), ((3, 5), False))
    )
    rule = "numberplate := first(numberplate, 2) when world.incident == false"
    table = governed(
        spark, log=str(tmp_path), event_type=log.event_type, reader=reader(grant(rule=rule), facts=known)
    )
    assert {row["numberplate"] for row in rows_of(table)} == {None, "AE00001", "AE"}


def test_a_right_for_working_hours_reads_what_was_published_in_them(spark, tmp_path):
    """E7: hours of a zone, over weeks, are one scan; the whole of time must be bounded by the reader."""
    log, events = Recorded(tmp_path), sightings(4)
    moments = ("2026-11-13T09:00:00Z", "2026-11-13T17:00:00Z", "2026-11-14T12:00:00Z", "2026-11-16T16:59:59Z")
    for event, moment in zip(events, moments, strict=True):
        log.publish([event], published_at=Instant.parse(moment))
    log.write()
    office = during("Europe/London", days=frozenset(range(1, 6)), start=9 * 60, end=17 * 60)
    who = reader(grant(condition=office))
    read = {"log": str(tmp_path), "event_type": log.event_type, "reader": who}
    table = governed(spark, **read, since=Instant.parse("2026-10-12T00:00:00Z"), until=at(24 * 14))
    assert sorted(row["speed"] for row in rows_of(table)) == [0, 3]
    (one,) = slices_of(asked(who, log.event_type), who, since=at(-24 * 7), until=at(24 * 7))
    assert len(one.spans) == 10
    with raises("PIPELINE-PERIODS", match="say since when"):
        governed(spark, **read)


def test_a_reader_of_another_version_sees_the_names_of_its_own(spark, tmp_path):
    log = Recorded(tmp_path)
    log.publish(sightings(3))
    log.write()
    renamed = (
        Attribute("plate", PLATE, Kind.STRING),
        Attribute("car_park", CAR_PARK, Kind.STRING),
        Attribute("speed", SPEED, Kind.INT),
    )
    newer = typed(attributes=renamed, version="00000000-0000-4000-8000-000000000001", previous=log.event_type)
    table = governed(spark, log=str(tmp_path), event_type=newer, reader=reader())
    assert table.columns == ["plate", "car_park", "speed"]
    assert [tuple(row.values()) for row in rows_of(table)] == [(f"AE0000{n}", None, n) for n in range(3)]
    hidden = reader(grant(restriction='location == "Madingley"'))
    with raises("PIPELINE-UNKNOWN-TERMS"):
        governed(spark, log=str(tmp_path), event_type=newer, reader=hidden)
    table = governed(spark, log=str(tmp_path), event_type=newer, reader=hidden, versions=[log.event_type])
    assert [row["plate"] for row in rows_of(table)] == ["AE00001"]


def test_what_is_told_about_an_event_beside_its_attributes(spark, tmp_path, desk):
    log = Recorded(tmp_path, SealingLevel.EVENT)
    log.publish(sightings(2), published_at=at(1))
    log.write()
    table = governed(
        spark,
        log=str(tmp_path),
        event_type=log.event_type,
        reader=reader(),
        keys=log.keys(desk),
        columns=["speed"],
        with_meta=True,
    )
    assert table.columns == ["speed", *META_COLUMNS]
    first = rows_of(table)[0]
    assert first["_publisher"] == CAMERA.principal.key
    assert (first["_stream"], first["_sequence"], first["_row"]) == (STREAM, 1, 0)
    assert first["_published_at"] == at(1)


def test_a_type_of_which_nothing_was_recorded_is_an_empty_table(spark, tmp_path):
    event_type = typed()
    assert rows_of(governed(spark, log=str(tmp_path), event_type=event_type, reader=reader())) == []


def test_refusals_come_from_the_driver_before_anything_is_read(spark, tmp_path):
    plain, sealed = typed(), typed(SealingLevel.ATTRIBUTE)
    log = str(tmp_path)
    with raises("POLICY-NO-CHAIN"):
        governed(spark, log=log, event_type=plain, reader=reader(grant(CAMERA)))
    with raises("POLICY-ATTRIBUTE-NOT-READABLE"):
        governed(
            spark, log=log, event_type=plain, reader=reader(grant(attributes=[PLATE])), filter="speed > 3"
        )
    with raises("PIPELINE-NO-KEYS"):
        governed(spark, log=log, event_type=sealed, reader=reader())
    with raises("PIPELINE-COLUMN"):
        governed(spark, log=log, event_type=plain, reader=reader(), columns=["`; drop table"])
    with raises("PIPELINE-MOMENTS"):
        governed(spark, log=log, event_type=plain, reader=reader(), since=Instant(1), until=Instant(0))
    taken = typed(attributes=(Attribute("_Row", PLATE, Kind.STRING),))
    with raises("PIPELINE-NAME-TAKEN"):
        governed(spark, log=log, event_type=taken, reader=reader(), with_meta=True)


def test_a_log_with_a_manifest_is_read_by_it(spark, tmp_path):
    made, events = Recorded(tmp_path / "elsewhere"), sightings(6)
    with closing(EventLog.open(tmp_path / "log", now=NOON)) as log:
        for part in (events[:2], events[2:4], events[4:]):
            log.append([encode(made.publish(part))], recorded_at=NOON)
            log.roll(NOON)
        log.compact(NOON)  # what was joined lies beside what it was joined from, for a while
    known = {"log": str(tmp_path / "log"), "event_type": made.event_type, "reader": reader()}
    assert len(rows_of(governed(spark, **known))) == 6


def test_only_what_is_needed_is_read_from_the_log(tmp_path, desk, monkeypatch):
    log = Recorded(tmp_path, SealingLevel.ATTRIBUTE)
    log.publish(sightings(3))
    log.write()
    asked = {"reader": reader(grant(attributes=[PLATE, PLACE])), "keys": log.keys(desk)}
    read = decided(event_type=log.event_type, columns=["numberplate"], **asked)
    assert read.reads == {"numberplate"}
    seen, whole = set(), pq.ParquetFile.read_row_group

    def noted(file, number, *, columns):
        seen.update(columns)
        return whole(file, number, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    assert ArrowTable(read, log=str(tmp_path)).read().num_rows == 3
    assert seen == {"position", "published_at", "header", PLATE}


def test_forty_narrow_certificates_show_forty_cars(spark, tmp_path, desk):
    """Each of a detective's cases comes with a certificate of its own, and the table adds them up."""
    log, events = Recorded(tmp_path, SealingLevel.ATTRIBUTE), sightings(60)
    log.publish(events)
    log.write()
    cars = [event[PLATE] for event in events if event[PLATE] is not None][:40]
    detective = reader(*(grant(restriction=f'numberplate == "{car}"') for car in cars))
    table = governed(
        spark, log=str(tmp_path), event_type=log.event_type, reader=detective, keys=log.keys(desk)
    )
    assert sorted(row["numberplate"] for row in rows_of(table)) == sorted(cars)
    limited = replace(detective, chains_max=30)
    with pytest.warns(RightsCut, match=r"only 30 of at least 40 grants .* \[POLICY-GRANTS-LEFT-OUT\]"):
        table = governed(
            spark, log=str(tmp_path), event_type=log.event_type, reader=limited, keys=log.keys(desk)
        )
    assert len(rows_of(table)) == 30


def test_spark_knows_how_large_a_table_is_and_sends_no_large_one_to_the_driver(spark, tmp_path, capsys):
    """Of a table that it took for a few bytes, each join would collect all rows."""
    log = Recorded(tmp_path)
    for _ in range(20):
        log.publish(sightings(500))
    log.write()
    table = governed(spark, log=str(tmp_path), event_type=log.event_type, reader=reader())
    least = 20 * 500 * 20  # of one column, as Spark counts
    few = spark.range(2).selectExpr("concat('AE05 XY', id) AS numberplate")

    def joined(most: int, *sides: DataFrame) -> str:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", most)
        try:
            sides[0].join(sides[1], "numberplate").explain()
        finally:
            spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        return capsys.readouterr().out

    assert "SortMergeJoin" in joined(least, table, table)
    assert "BroadcastHashJoin" in joined(20 * least, table, table)
    assert "BroadcastHashJoin" in joined(least, table, few), "a small side may go to all tasks"
    assert len(rows_of(table)) == 20 * 500
