"""Each application of the pipeline gives one answer: as a batch, as a stream, and worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.spark.applications import (
    APPLICATIONS,
    BILLING,
    ENVIRONMENT,
    PRESCRIPTION_AUDIT,
    STATISTICS,
    TICKER,
    TRACKING,
    EnvironmentTerms,
    PrescriptionTerms,
    TickerTerms,
    TrackingTerms,
    start_stream,
)
from maia.spark.generators import CAMERAS, GENERATORS, WATCHED_PLATE
from reference import pipeline_applications as by_hand

ROWS = 6_000
PER_DAY = 2_000
FILES = 2


class Events:
    """Generated events, shuffled within reach of the watermarks, as rows, as files and as data frames."""

    def __init__(self, spark, folder: Path, generator: str, *, of_one_vehicle: bool = False) -> None:
        made = GENERATORS[generator].rows(rows=ROWS, seed=11, per_day=PER_DAY)
        if of_one_vehicle:
            plates = pa.array([None if at % 7 else WATCHED_PLATE for at in range(ROWS)], pa.string())
            made = made.set_column(0, "numberplate", plates)
        self.spark, self.folder = spark, folder / "events"
        self.folder.mkdir()
        self.table = pa.Table.from_batches([made])
        self.rows = self.table.to_pylist()
        for number, start in enumerate(range(0, ROWS, ROWS // FILES)):
            pq.write_table(self.table.slice(start, ROWS // FILES), self.folder / f"part-{number}.parquet")
        self.kept = folder

    @property
    def batch(self):
        return self.spark.read.parquet(str(self.folder))

    def stream_answer(self, application, terms):
        """Run as a stream, a file at a time, and return the rows of the answer."""
        stream = (
            self.spark.readStream.schema(self.batch.schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder))
        )
        updates = self.kept / "updates"
        updates.mkdir()
        run = start_stream(
            application, stream, terms, updates=str(updates), checkpoint=str(self.kept / "checkpoint")
        )
        run.query.awaitTermination()
        assert len(list(updates.iterdir())) >= FILES
        return run.answer().toArrow().to_pylist()


TERMS = {
    "billing": BILLING.terms,
    "statistics": STATISTICS.terms,
    "tracking": TrackingTerms(vehicle=WATCHED_PLATE),
    "ticker": TickerTerms(flows=("shares", "derivatives")),
    "environment": EnvironmentTerms(noise_limit_db=63.0),
    "prescription-audit": PrescriptionTerms(others_min=3, times=2.5),
}


@pytest.fixture(params=APPLICATIONS)
def case(request, spark, tmp_path):
    application = APPLICATIONS[request.param]
    events = Events(spark, tmp_path, application.generator, of_one_vehicle=application is TRACKING)
    return application, events, TERMS[application.name]


def in_order(rows: list[dict[str, object]]) -> list[str]:
    return sorted(map(repr, rows))


def test_batch_and_stream_give_the_same_rows(case):
    application, events, terms = case
    batch = application.of(events.batch, terms).toArrow().to_pylist()
    assert len(batch) > 100
    assert in_order(events.stream_answer(application, terms)) == in_order(batch)


def test_each_vehicle_is_charged_once_a_day_as_by_hand(spark, tmp_path):
    events = Events(spark, tmp_path, "sightings")
    charged = [tuple(row) for row in BILLING.of(events.batch).collect()]
    assert len(charged) == len(set(charged))
    assert set(charged) == by_hand.charges(events.rows)


def test_windows_count_as_by_hand(spark, tmp_path):
    events = Events(spark, tmp_path, "sightings")
    counted = STATISTICS.of(events.batch).toArrow().to_pylist()
    assert {tuple(row.values()) for row in counted} == by_hand.counts(events.rows)


def test_a_path_leads_where_it_leads_by_hand(spark, tmp_path):
    events = Events(spark, tmp_path, "sightings", of_one_vehicle=True)
    everybody = events.rows[::-1]
    odd = everybody[3] | {"location": "nowhere"}
    table = pa.Table.from_pylist([*everybody, everybody[0], odd], schema=events.table.schema)
    frame = spark.createDataFrame(table)
    found = TRACKING.of(frame, TrackingTerms(vehicle=WATCHED_PLATE)).toArrow().to_pylist()
    found.sort(key=lambda row: (row["day"], row["step"]))
    expected = by_hand.path([*everybody, odd], CAMERAS, vehicle=WATCHED_PLATE)
    assert [list(row.values())[:6] for row in found] == [list(row[:6]) for row in expected]
    assert [row["was_out_of_sight"] for row in found] == [row[8] for row in expected]
    for row, (*_, km, speed, _out) in zip(found, expected, strict=True):
        assert row["km"] == (None if km is None else pytest.approx(km, abs=6e-4))
        assert row["km_per_h"] == (None if speed is None else pytest.approx(speed, rel=1e-6, abs=0.051))


@pytest.mark.parametrize("flows", [(), ("shares",)])
def test_prices_weigh_volumes_as_by_hand(spark, tmp_path, flows):
    events = Events(spark, tmp_path, "trades")
    found = TICKER.of(events.batch, TickerTerms(flows=flows)).toArrow().to_pylist()
    expected = by_hand.prices(events.rows, flows=flows)
    assert {tuple(row.values())[:3] for row in found} == set(expected)
    for row in found:
        flow, stock, starts_at, *rest = row.values()
        assert rest == pytest.approx(list(expected[flow, stock, starts_at]), abs=6e-5)


def test_noise_and_air_are_measured_as_by_hand(spark, tmp_path):
    events = Events(spark, tmp_path, "sensors")
    found = ENVIRONMENT.of(events.batch).toArrow().to_pylist()
    expected = by_hand.environment(events.rows)
    assert {tuple(row.values())[:2] for row in found} == set(expected)
    for row in found:
        district, starts_at, *rest = row.values()
        reports, noise, dust, gas, is_too_loud, is_too_dirty = expected[district, starts_at]
        assert rest[0] == reports
        assert rest[1:4] == pytest.approx([noise, dust, gas], abs=0.0101)
        if noise != 65.0:
            assert rest[4] == is_too_loud
        assert rest[5] == is_too_dirty


def test_prescriptions_are_audited_as_by_hand(spark, tmp_path):
    """D5: doses against the doctor's own others, patients not treated; equal and unknown ones, too."""
    events = Events(spark, tmp_path, "prescriptions")
    odd = [{**events.rows[0], "treated": None}, {**events.rows[1], "dose": None}, events.rows[2]]
    table = pa.Table.from_pylist([*events.rows, *odd], schema=events.table.schema)
    terms = PrescriptionTerms(history_days=2, times=2.5, others_min=3)
    found = PRESCRIPTION_AUDIT.of(spark.createDataFrame(table), terms).toArrow().to_pylist()
    expected = by_hand.audit([*events.rows, *odd], days=2, times="2.5", others_min=3)
    assert {tuple(row.values()) for row in found} == expected
    assert len(found) == len(expected)
    assert min(sum(row[name] for row in found) for name in ("untreated", "unusual")) > 5
