"""A question over a governed table opens the columns it asks for, and has the same rows whatever it asks."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import Action
from maia.events import AttributeUid
from maia.spark.governed.plan import Access, governed_read
from maia.spark.governed.reading_ledger import seen_rows
from maia.types import SealingLevel
from support.governed import (
    BROKER,
    PLACE,
    PLATE,
    SEEN,
    SPEED,
    Recorded,
    governed,
    grant,
    reader,
    rows_of,
    sightings,
)

NAME = "uk.gov.Numberplate"


def recorded(folder, level=SealingLevel.ATTRIBUTE, frames=3, rows=40):
    log = Recorded(folder, level)
    for n in range(frames):
        log.publish(sightings(rows, first=n * rows))
    if frames:
        log.write()
    return log


def table_of(spark, log, desk, who=None, **how):
    keys = how.pop("keys", None) or log.keys(desk)
    return governed(
        spark, log=str(log.folder), event_type=log.event_type, reader=who or reader(), keys=keys, **how
    )


def opened(shown, capsys):
    """Return the columns for which Spark calls a function, by its plan."""
    shown.explain()
    plan = capsys.readouterr().out
    names = ("numberplate", "location", "speed", "seen")
    return {name for name in names if f"{NAME}.{name}(" in plan}


def test_a_select_in_ordinary_code_and_in_sql_opens_what_it_names(spark, tmp_path, desk, capsys):
    table = table_of(spark, recorded(tmp_path), desk)
    table.createOrReplaceTempView("sightings")
    asked = {
        ("speed",): table.select("speed"),
        ("speed", "location"): table.where("location == 'Victoria'").select("speed"),
        ("location",): spark.sql("SELECT location, count(*) FROM sightings GROUP BY location"),
        (): table.groupBy().count(),
        ("numberplate", "location", "speed", "seen"): table,
    }
    for names, shown in asked.items():
        assert opened(shown, capsys) == set(names), names
    assert asked[("speed",)].agg(F.sum("speed")).collect()[0][0] == sum(n % 100 for n in range(120))
    assert asked[("location",)].count() == 3
    assert asked[()].collect()[0][0] == 120


def test_what_a_restriction_asks_is_opened_and_never_leaves_the_task(spark, tmp_path, desk, capsys):
    log = recorded(tmp_path)
    table = table_of(spark, log, desk, reader(grant(attributes=[PLATE], restriction="speed < 10")))
    assert opened(table.select("numberplate"), capsys) == {"numberplate"}
    assert table.select("numberplate").count() == table.count() == sum(n % 100 < 10 for n in range(120))
    assert {row["speed"] for row in rows_of(table)} == {None}


@pytest.mark.parametrize("held", [[PLATE], [None, PLATE], [PLATE, SPEED]])
def test_which_rows_there_are_does_not_depend_on_the_columns_that_are_asked_for(spark, tmp_path, desk, held):
    """A frame of which a reader may open nothing is none; that is asked of all it may open."""
    log = recorded(tmp_path, frames=1)
    kinds = {uid: kind for uid, kind in log.event_type.kinds.items() if uid == PLACE}
    log.publish([{PLACE: "Ely"}], kinds=kinds)
    log.write()
    table = table_of(spark, log, desk, keys=log.keys(desk, only=held))
    whole = len(rows_of(table))
    assert whole == (41 if None in held else 40)
    for names in ([], ["seen"], ["location"], ["numberplate", "seen"]):
        assert len(rows_of(table.select(*names))) == whole, names


@pytest.mark.parametrize(
    "rights",
    [
        [{"restriction": 'location == "Victoria"'}],
        [{"attributes": [PLATE, SPEED, SEEN]}, {"restriction": 'location == "Victoria"'}],
        [{"rule": 'location := "Victoria"'}],
    ],
)
def test_what_a_signer_may_not_write_is_no_row_though_it_is_not_asked_for(spark, tmp_path, desk, rights):
    """A119: by what its right is known to cover, whichever columns a question names."""
    log = recorded(tmp_path, frames=0)
    for event in sightings(30):
        log.publish([event])
    log.write()
    signed = tuple(grant(BROKER, action=Action.PUBLISH, **right) for right in rights)
    keys = replace(log.keys(desk), signers={BROKER.principal: signed})
    table = table_of(spark, log, desk, keys=keys)
    whole = rows_of(table)
    assert {row["location"] for row in whole} == {"Victoria"}
    for names in ([], ["speed"], ["numberplate", "seen"]):
        assert len(rows_of(table.select(*names))) == len(whole) == 10, names


def test_a_table_may_be_asked_more_than_once_in_one_query(spark, tmp_path, desk):
    table = table_of(spark, recorded(tmp_path), desk)
    plates = table.select("numberplate").where("numberplate IS NOT NULL")
    again = table.where("speed < 50").select("numberplate", "speed")
    assert plates.join(again, "numberplate").count() == again.where("numberplate IS NOT NULL").count()
    assert plates.unionAll(again.select("numberplate")).count() == plates.count() + again.count()
    assert len(table.limit(7).collect()) == 7
    assert table.repartition(3).count() == 120


def test_a_view_that_shows_many_rows_few_and_none_in_turn_shows_each_once(spark, tmp_path, desk):
    """What the numbers of a task promise is more than a View shows."""
    log = Recorded(tmp_path, SealingLevel.ATTRIBUTE)
    speeds = [n % 7 if n < 900 else 50 for n in range(3000)]
    for at in range(0, 3000, 100):
        log.publish([{PLATE: f"AE{at + n:05d}", SPEED: speeds[at + n]} for n in range(100)])
    log.write()
    table = table_of(spark, log, desk, reader(grant(restriction="speed < 3")))
    wanted = sorted(f"AE{n:05d}" for n, speed in enumerate(speeds) if speed < 3)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 64)
    try:
        assert sorted(row.numberplate for row in table.select("numberplate").collect()) == wanted
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_segment_that_says_it_has_fewer_events_than_it_holds_is_refused(spark, tmp_path, desk):
    log = recorded(tmp_path)
    (file,) = tmp_path.rglob("*.parquet")
    found = pq.read_table(file)
    at = found.schema.get_field_index("rows")
    few = found.set_column(at, found.schema.field(at), pa.array([1] * found.num_rows, pa.int32()))
    pq.write_table(few, file, write_page_checksum=True, store_schema=False)
    with pytest.raises(PySparkException, match="LOG-DAMAGED"):
        table_of(spark, log, desk).collect()


def test_what_a_task_opens_for_some_columns_is_what_decides_and_these(tmp_path, desk):
    log = recorded(tmp_path)
    who = reader(grant(attributes=[PLATE, SEEN], restriction="speed < 10"))
    read = governed_read(Access(who, (log.event_type,), log.keys(desk)))
    seen = seen_rows(read, read.opener(read.wanted(str(tmp_path), read.plans), read.plans), read.plans)
    opens = {
        tuple(names): set(seen.narrowed(names).opener.kinds)
        for names in (["numberplate"], ["location"], [], ["numberplate", "seen"])
    }
    assert opens == {
        ("numberplate",): {PLATE, SPEED},
        ("location",): {SPEED},
        (): {SPEED},
        ("numberplate", "seen"): {PLATE, SEEN, SPEED},
    }
    assert AttributeUid("speed") == SPEED


def test_what_a_right_hides_is_told_from_what_was_null(spark, tmp_path, desk):
    """T5: row by row, in a column beside the event; of a question for other columns, too."""
    log = recorded(tmp_path, frames=1, rows=20)
    who = reader(
        grant(attributes=[PLATE], restriction="speed < 5"),
        grant(attributes=[PLATE, PLACE], restriction="speed >= 3"),
    )
    table = table_of(spark, log, desk, who, with_meta=True)
    found = {row["numberplate"]: row["_hidden"] for row in rows_of(table)}
    # The fourth car has no plate, and its plate is not hidden.
    assert found == {
        **{f"AE{n:05d}": ["location", "speed", "seen"] for n in (0, 1, 2)},
        **{f"AE{n:05d}": ["speed", "seen"] for n in range(4, 20) if n != 13},
        None: ["speed", "seen"],
    }
    assert {tuple(row["_hidden"]) for row in table.select("_hidden").collect()} == set(
        map(tuple, found.values())
    )
