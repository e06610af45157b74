"""Generated events are the same rows a reader that makes them, and look like what they stand for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from statistics import fmean, pvariance

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.events import INT_MAX, INT_MIN
from maia.spark.generators import (
    BROKERAGES,
    CAMERAS,
    DISTRICTS,
    FLOWS,
    GENERATORS,
    ROWS_MAX,
    SENSORS,
    SIGHTINGS,
    STOCKS,
    TRADES,
    WATCHED_PLATE,
    Order,
    generated,
)
from maia.spark.generators.files import write_generated
from maia.testing.refusals import raises
from reference.pipeline_applications import distance_km

# ------------------------------------------------------------ the same rows


@pytest.fixture(params=GENERATORS)
def generator(request):
    return GENERATORS[request.param]


def test_rows_of_one_seed_are_the_same_in_whatever_parts(generator):
    many = generator.rows(rows=3_000, seed=7, per_day=1_000)
    assert generator.rows(rows=50, seed=7, per_day=1_000).equals(many.slice(0, 50))
    assert generator.rows(start=1_990, rows=20, seed=7, per_day=1_000).equals(many.slice(1_990, 20))
    assert not generator.rows(rows=3_000, seed=8, per_day=1_000).equals(many)


PINNED = {
    "sightings": ["EB31 WAA", "2026-11-02 09:18:36.380194+00:00", "Park Lane"],
    "trades": [
        "2026-11-02 09:41:57.297312+00:00",
        "derivatives",
        "WCX",
        "10",
        "56.58",
        "Elm Street",
        "Dunmore",
    ],
    "sensors": ["2026-11-02 05:55:33.196800+00:00", "Southwark", "Southwark 6", "61.5", "13.1", "34.4"],
    "prescriptions": [
        "2026-11-02 09:43:37.540801+00:00",
        "Dr 028",
        "patient 04554",
        "5d607495fe712cfd",
        "amoxicillin",
        "none",
        "424.04",
        "True",
    ],
}


def test_a_row_is_never_made_otherwise_than_today(generator):
    """What a reader generated last year can be generated again."""
    row = generator.rows(start=123_456, rows=1, seed=2003).to_pylist()[0]
    assert [str(value) for value in row.values()] == PINNED[generator.name]


@pytest.mark.parametrize(
    "asked",
    [
        {"rows": -1, "seed": 0},
        {"rows": 1, "start": -1, "seed": 0},
        {"rows": 1, "start": ROWS_MAX, "seed": 0},
        {"rows": 1, "seed": INT_MAX + 1},
        {"rows": 1, "seed": INT_MIN - 1},
        {"rows": 1, "seed": 0, "per_day": 0},
    ],
)
def test_what_cannot_be_made_is_refused(generator, asked):
    with raises("INPUT-GENERATION"):
        generator.rows(**asked)


@pytest.mark.parametrize("seed", [INT_MIN, -1, 0, INT_MAX])
def test_every_seed_and_every_place_makes_rows(generator, seed):
    assert generator.rows(start=ROWS_MAX - 5, rows=5, seed=seed).num_rows == 5
    assert generator.rows(rows=0, seed=seed).num_rows == 0
    assert generator.rows(rows=5, seed=seed, per_day=1).num_rows == 5


# ------------------------------------------------------------ files and executors


def test_files_hold_the_rows_and_are_as_old_as_their_place(tmp_path):
    told = []
    files = write_generated(
        tmp_path / "made", SIGHTINGS, Order(2_500, 7, 1_000), rows_per_file=1_000, made=told.append
    )
    assert sorted(told) == [500, 1_000, 1_000]
    ages = [file.stat().st_mtime_ns for file in files]
    assert ages == sorted(set(ages))
    whole = SIGHTINGS.rows(rows=2_500, seed=7, per_day=1_000)
    assert pa.concat_tables(map(pq.read_table, files)).equals(pa.Table.from_batches([whole]))


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    with raises("INPUT-GENERATION", match="already there"):
        write_generated(tmp_path, SIGHTINGS, Order(10, 7))
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_stops_in_the_middle_leaves_nothing_behind(tmp_path):
    def stop(_rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_generated(tmp_path / "made", SIGHTINGS, Order(5_000, 7), rows_per_file=100, made=stop)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_does_not_stand_in_the_way(tmp_path):
    (tmp_path / ".made.unfinished").mkdir()
    (tmp_path / ".made.unfinished" / "part-000000.parquet").write_bytes(b"half")
    write_generated(tmp_path / "made", SIGHTINGS, Order(10, 7))
    assert [file.name for file in (tmp_path / "made").iterdir()] == ["part-000000.parquet"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_executors_make_the_same_rows_in_any_number_of_partitions(spark, partitions):
    order = Order(140_000, 7)
    made = generated(spark, SIGHTINGS, order, partitions=partitions).toArrow()
    here = pa.Table.from_batches([SIGHTINGS.rows(rows=order.rows, seed=order.seed)])
    assert made.cast(here.schema).equals(here)


# ------------------------------------------------------------ a city's cameras


@pytest.fixture(scope="module")
def sightings():
    return SIGHTINGS.rows(rows=100_000, seed=7, per_day=50_000).to_pylist()


def test_few_vehicles_are_seen_often_and_most_rarely(sightings):
    seen = Counter(row["numberplate"] for row in sightings if row["numberplate"])
    assert all(re.fullmatch(r"[A-Z]{2}\d\d [A-Z]{3}", plate) for plate in seen)
    busiest = sum(count for _, count in seen.most_common(len(seen) // 100))
    assert 0.05 < busiest / len(sightings) < 0.4
    assert sum(count == 1 for count in seen.values()) > len(seen) / 3
    assert 1 <= seen[WATCHED_PLATE] <= 40


def test_rush_hours_are_busy_and_nights_are_not(sightings):
    hours = Counter(row["timestamp"].hour for row in sightings)
    assert hours[8] > 1.5 * hours[12] > 5 * hours[3]
    assert hours[17] > 1.5 * hours[13]
    assert set(hours) == set(range(24))


def test_some_sightings_come_twice_some_late_and_some_plates_cannot_be_read(sightings):
    times = Counter((row["timestamp"], row["location"], row["numberplate"]) for row in sightings)
    assert len(sightings) / 64 == pytest.approx(len(sightings) - len(times), rel=0.15)
    illegible = sum(row["numberplate"] is None for row in sightings)
    assert len(sightings) / 256 == pytest.approx(illegible, rel=0.2)
    latest, late = sightings[0]["timestamp"], 0
    for row in sightings:
        latest = max(latest, row["timestamp"])
        assert latest - row["timestamp"] < timedelta(hours=2.5)
        late += latest - row["timestamp"] > timedelta(minutes=15)
    assert len(sightings) / 128 == pytest.approx(late, rel=0.25)


def test_vehicles_drive_as_fast_as_traffic_does(sightings):
    paths = defaultdict(set)
    for row in sightings:
        if row["numberplate"]:
            paths[row["numberplate"]].add((row["timestamp"], row["location"]))
    speeds = [
        distance_km(CAMERAS[there], CAMERAS[here]) / ((at - since) / timedelta(hours=1))
        for path in paths.values()
        for (since, there), (at, here) in pairwise(sorted(path))
        if here != there
    ]
    assert len(speeds) > 1_000
    # Two vehicles may share a plate, which one in many thousands does.
    assert sorted(speeds)[int(len(speeds) * 0.999)] < 60
    assert {row["location"] for row in sightings} == set(CAMERAS)


# ------------------------------------------------------------ an exchange


def test_trades_are_as_zipf_would_have_them():
    trades = TRADES.rows(rows=100_000, seed=7)
    count = Counter(trades["stock"].to_pylist())
    assert len(set(STOCKS)) == len(STOCKS)
    assert set(count) <= set(STOCKS)
    assert count[STOCKS[0]] / count[STOCKS[9]] == pytest.approx(10, rel=0.15)
    assert count[STOCKS[0]] / count[STOCKS[99]] == pytest.approx(100, rel=0.35)
    assert set(trades["flow"].to_pylist()) == set(FLOWS)
    assert set(trades["buyer"].to_pylist()) == set(trades["seller"].to_pylist()) == set(BROKERAGES)


def test_the_market_is_open_on_weekdays_by_day():
    moments = TRADES.rows(rows=20_000, seed=7, per_day=1_000)["time"].to_pylist()
    assert {moment.weekday() for moment in moments} == {0, 1, 2, 3, 4}
    assert all(7 <= moment.hour <= 17 for moment in moments)


def test_prices_walk_so_that_four_days_move_them_twice_as_far_as_one():
    days = defaultdict(dict)
    for row in TRADES.rows(rows=120_000, seed=7, per_day=2_000).to_pylist():
        days[row["stock"]][row["time"].date()] = row["price"]
    moves = {1: [], 4: []}
    for prices in (days[stock] for stock in STOCKS[:100]):
        in_order = [prices[day] for day in sorted(prices)]
        for lag, found in moves.items():
            found += [after / before - 1 for before, after in zip(in_order, in_order[lag:], strict=False)]
    assert pvariance(moves[4]) / pvariance(moves[1]) == pytest.approx(4, rel=0.35)
    assert all(
        price > 0 and round(price, 2) == price for prices in days.values() for price in prices.values()
    )


# ------------------------------------------------------------ a city's sensors


def test_days_are_loud_and_dirty_and_nights_are_neither():
    rows = SENSORS.rows(rows=40_000, seed=7, per_day=20_000).to_pylist()
    assert {row["district"] for row in rows} == set(DISTRICTS)

    def at(hour: int, what: str) -> float:
        return fmean(row[what] for row in rows if row["time"].hour == hour and row[what] is not None)

    assert at(8, "noise_db") > at(3, "noise_db") + 10
    assert at(17, "no2") > 2 * at(3, "no2")
    assert at(17, "pm25") > 2 * at(3, "pm25")
    for what in ("noise_db", "pm25", "no2"):
        assert sum(row[what] is None for row in rows) == pytest.approx(len(rows) / 256, rel=0.35)
