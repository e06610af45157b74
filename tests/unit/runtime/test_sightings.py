"""Sightings are the same rows on every machine, in whatever parts they are made."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from maia.events import INT_MAX, INT_MIN, AttributeUid
from maia.runtime.sightings import (
    CAMERAS,
    ROWS_MAX,
    ROWS_PER_FILE,
    BadSightings,
    generated_sightings,
    write_sightings,
)

NAMES = {
    "numberplate": AttributeUid("plate"),
    "timestamp": AttributeUid("time"),
    "location": AttributeUid("place"),
}

FIRST = [
    {
        "plate": "MR54 ASF",
        "time": datetime(2026, 11, 25, 18, 35, 45, 1472, tzinfo=UTC),
        "place": "Marble Arch",
    }
]


def _made(**asked: int) -> pa.RecordBatch:
    return generated_sightings(**NAMES, **asked)


def test_rows_of_one_seed_are_the_same_however_they_are_made():
    many = _made(rows=500, seed=7)
    assert _made(rows=50, seed=7).equals(many.slice(0, 50))
    assert _made(start=450, rows=50, seed=7).equals(many.slice(450))
    assert not _made(rows=500, seed=8).equals(many)


def test_the_first_row_is_this_one():
    assert _made(rows=1, seed=2003).to_pylist() == FIRST


def test_plates_moments_and_places_are_as_in_a_city():
    made = _made(rows=60_000, seed=7)
    plates = [plate for plate in made["plate"].to_pylist() if plate is not None]
    assert all(re.fullmatch(r"[A-Z]{2}\d\d [A-Z]{3}", plate) for plate in plates)
    assert 0 < made["plate"].null_count < 600
    assert 1 <= plates.count("AE05 XYZ") <= 100
    assert set(made["place"].to_pylist()) == set(CAMERAS)
    assert pc.min_max(made["time"].cast(pa.int64())).as_py()["min"] >= 1_793_577_600_000_000


def test_files_hold_the_rows_that_were_asked_for(tmp_path):
    rows = ROWS_PER_FILE + 3
    write_sightings(tmp_path / "some", rows=rows, seed=1, **NAMES)
    assert len(list((tmp_path / "some").iterdir())) == 2
    assert pq.read_table(tmp_path / "some").num_rows == rows
    write_sightings(tmp_path / "none", rows=0, seed=1, **NAMES)
    assert pq.read_table(tmp_path / "none").num_rows == 0


@pytest.mark.parametrize("seed", [INT_MIN, -1, 0, INT_MAX])
def test_every_seed_of_64_bits_is_one(seed):
    assert _made(rows=2, seed=seed).num_rows == 2


@pytest.mark.parametrize(
    ("start", "rows", "seed"),
    [(0, -1, 0), (-1, 1, 0), (ROWS_MAX, 1, 0), (0, 1, INT_MAX + 1), (0, 1, INT_MIN - 1)],
)
def test_what_cannot_be_made_is_refused(start, rows, seed):
    with pytest.raises(BadSightings):
        _made(start=start, rows=rows, seed=seed)
