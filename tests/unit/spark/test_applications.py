"""What each application does at its edges: hours, days, repeats, withheld values, wrong tables and terms."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from maia.events import Kind
from maia.spark.applications import (
    APPLICATIONS,
    BILLING,
    ENVIRONMENT,
    STATISTICS,
    TICKER,
    TRACKING,
    ChargingTerms,
    StatisticsTerms,
    TickerTerms,
    TrackingTerms,
)
from maia.spark.applications.application import columns_read, plan_lines
from maia.spark.generators import GENERATORS
from maia.testing.refusals import raises
from maia.views import ARROW_TYPES
from support.spark import execution_of

WEDNESDAY = datetime(2026, 11, 4, tzinfo=UTC)
SIGHTING = {"numberplate": Kind.STRING, "timestamp": Kind.TIMESTAMP, "location": Kind.STRING}


def at(hour: int, minute: int = 0, second: int = 0, *, day: datetime = WEDNESDAY) -> datetime:
    return day.replace(hour=hour, minute=minute, second=second)


def table(spark, columns: dict[str, Kind], *rows: tuple[object, ...]):
    schema = pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
    return spark.createDataFrame(
        pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)
    )


def seen(spark, *rows: tuple[object, ...]):
    return table(spark, SIGHTING, *rows)


# ------------------------------------------------------------ billing


def test_charging_hours_begin_and_end_on_the_stroke_of_the_local_clock(spark):
    july = datetime(2026, 7, 1, tzinfo=UTC)
    saturday = datetime(2026, 11, 7, tzinfo=UTC)
    charged = BILLING.of(
        seen(
            spark,
            ("too early", at(6, 59, 59), None),
            ("first", at(7), None),
            ("last", at(17, 59, 59), None),
            ("too late", at(18), None),
            ("summer, seven by the clock", at(6, day=july), None),
            ("summer, six by the clock", at(17, day=july), None),
            ("saturday morning", at(11, 59, day=saturday), None),
            ("saturday noon", at(12, day=saturday), None),
        )
    )
    assert {row.numberplate for row in charged.collect()} == {
        "first", "last", "summer, seven by the clock", "saturday noon",
    }  # fmt: skip


def test_a_vehicle_pays_once_a_day_however_often_and_in_whatever_order_it_is_seen(spark):
    tuesday = datetime(2026, 11, 3, tzinfo=UTC)
    noon = ("AE05 XYZ", at(12), "Victoria")
    charged = BILLING.of(
        seen(
            spark,
            noon,
            noon,
            ("AE05 XYZ", at(9), "Angel"),
            ("AE05 XYZ", at(9, day=tuesday), "Angel"),
            (None, at(9), "Angel"),
            ("withheld", None, "Angel"),
        ),
        ChargingTerms(charge_pence=500),
    )
    assert sorted(tuple(row) for row in charged.collect()) == [
        ("AE05 XYZ", date(2026, 11, 3), 500),
        ("AE05 XYZ", date(2026, 11, 4), 500),
    ]


# ------------------------------------------------------------ what is read


def test_statistics_need_no_numberplate_at_all(spark):
    without = {name: kind for name, kind in SIGHTING.items() if name != "numberplate"}
    counted = STATISTICS.of(
        table(
            spark,
            without,
            (at(9, 14, 59), "Angel"),
            (at(9, 15), "Angel"),
            (at(9, 20), "Angel"),
            (at(9), None),
        )
    )
    assert sorted((row.starts_at.minute, row.sightings) for row in counted.collect()) == [(0, 1), (15, 2)]


@pytest.mark.parametrize("application", APPLICATIONS.values(), ids=APPLICATIONS)
def test_an_application_reads_what_it_says_and_nothing_else(spark, application, tmp_path):
    made = GENERATORS[application.generator]
    spark.createDataFrame(pa.Table.from_batches([made.rows(rows=3, seed=1)])).write.parquet(f"{tmp_path}/t")
    terms = TrackingTerms(vehicle="AE05 XYZ") if application is TRACKING else None
    result = application.of(spark.read.parquet(f"{tmp_path}/t"), terms)
    assert columns_read(result) == set(application.reads)
    assert not application.never_reads & set(result.columns)
    assert set(application.keys) <= set(result.columns)


def test_a_plan_is_told_without_the_values_that_are_compared_with(spark, tmp_path):
    seen(spark, ("AE05 XYZ", at(9), "Angel")).write.parquet(f"{tmp_path}/t")
    sightings = spark.read.parquet(f"{tmp_path}/t")
    restricted = sightings.where("numberplate = 'AE05 XYZ' and location <> 'Holborn'")
    result = TRACKING.of(restricted, TrackingTerms(vehicle="AE05 XYZ"))
    assert "AE05 XYZ" in execution_of(result).sparkPlan().toString()
    told = "\n".join(plan_lines(result))
    assert "AE05" not in told
    assert "Holborn" not in told
    assert "numberplate" in told
    named_by_value = restricted.selectExpr("numberplate = 'AE05 XYZ'", "location").groupBy("location").count()
    assert "AE05" not in "\n".join(plan_lines(named_by_value.select("location")))


# ------------------------------------------------------------ the others


def test_a_path_knows_gaps_and_unknown_places(spark):
    path = TRACKING.of(
        seen(
            spark,
            ("AE05 XYZ", at(9), "Angel"),
            ("AE05 XYZ", at(9, 30), "Angel"),
            ("AE05 XYZ", at(10, 0, 1), "nowhere"),
            ("AE05 XYZ", at(10, 0, 1), "Old Street"),
            ("LB07 KTE", at(9, 10), "Angel"),
        ),
        TrackingTerms(vehicle="AE05 XYZ", gap_minutes=30),
    )
    rows = sorted(path.collect(), key=lambda row: row.step)
    assert [row.location for row in rows] == ["Angel", "Angel", "Old Street", "nowhere"]
    assert [row.was_out_of_sight for row in rows] == [False, False, True, False]
    assert [row.km for row in rows] == [None, 0.0, pytest.approx(1.48, abs=0.01), None]
    assert [row.km_per_h for row in rows] == [None, 0.0, pytest.approx(3.0, abs=0.1), None]


def test_no_reader_is_followed_without_being_named(spark):
    with raises("INPUT-PIPELINE-TERM", match="follows one vehicle"):
        TRACKING.of(seen(spark), None)


def test_a_trade_without_shares_price_or_time_moves_no_price(spark):
    columns = dict(TICKER.reads)
    result = TICKER.of(
        table(
            spark,
            columns,
            (at(9), "shares", "ABC", 100, 10.0),
            (at(9, 0, 59), "shares", "ABC", 300, 20.0),
            (at(9), "shares", "ABC", 0, 999.0),
            (at(9), "shares", "ABC", None, 999.0),
            (at(9), "shares", "ABC", 1, None),
            (None, "shares", "ABC", 1, 999.0),
            (at(9), "derivatives", "DEF", 1, 999.0),
        ),
        TickerTerms(flows=("shares",)),
    )
    assert [tuple(row)[3:] for row in result.collect()] == [(2, 400, 17.5, 10.0, 20.0)]


def test_noise_is_averaged_as_sound_and_what_was_not_measured_exceeds_nothing(spark):
    columns = dict(ENVIRONMENT.reads)
    result = ENVIRONMENT.of(
        table(
            spark,
            columns,
            (at(9), "Camden", 60.0, None, None),
            (at(9, 1), "Camden", 70.0, 20.0, None),
            (at(9, 2), "City", None, None, None),
            (at(9, 3), "City", 5000.0, 1.0, 41.0),
        )
    )
    camden, city = sorted(result.collect())
    assert (camden.noise_db, camden.pm25, camden.no2) == (67.4, 20.0, None)
    assert (camden.is_too_loud, camden.is_too_dirty) == (True, True)
    assert (city.noise_db, city.is_too_loud, city.is_too_dirty) == (None, False, True)


# ------------------------------------------------------------ wrong tables and terms


def test_a_missing_column_and_a_column_of_another_type_are_named(spark):
    with raises("INPUT-PIPELINE-COLUMN", match=r"needs the column `numberplate` of type string.*has `id`"):
        BILLING.of(spark.range(1))
    wrong = spark.range(1).selectExpr("id as numberplate", "id as timestamp")
    with raises("INPUT-PIPELINE-COLUMN", match="`numberplate` of type string, and it is bigint"):
        BILLING.of(wrong)


@pytest.mark.parametrize(
    ("application", "changes", "complaint"),
    [
        (BILLING, {"price": "1"}, "has no term `price`; it has `charge_pence`"),
        (BILLING, {"charge_pence": "a lot"}, "is no number"),
        (BILLING, {"first_hour": "25"}, "hours go from 0 to 24"),
        (BILLING, {"late_days": "-1"}, "negative"),
        (BILLING, {"zone": "Atlantis"}, "no time zone"),
        (STATISTICS, {"window_minutes": "7"}, "fill a day"),
        (STATISTICS, {"window_minutes": "0"}, "fill a day"),
        (TRACKING, {"gap_minutes": "-1"}, "negative"),
        (TICKER, {"late_minutes": "-1"}, "negative"),
        (ENVIRONMENT, {"noise_limit_db": "loud"}, "is no number"),
        (ENVIRONMENT, {"late_minutes": "-1"}, "negative"),
    ],
)
def test_a_wrong_term_is_refused_with_a_reason(application, changes, complaint):
    with raises("INPUT-PIPELINE-TERM", match=complaint):
        application.terms_with(changes)


def test_terms_are_read_as_what_they_are():
    assert BILLING.terms_with({"charge_pence": "1"}) == ChargingTerms(charge_pence=1)
    assert STATISTICS.terms_with({}) == StatisticsTerms()
    assert TICKER.terms_with({"flows": "shares, derivatives"}) == TickerTerms(flows=("shares", "derivatives"))
    assert ENVIRONMENT.terms_with({"no2_limit": "20"}).no2_limit == 20.0
