"""What would a month of a city's numberplate cameras look like?

The demonstration, the benchmarks and the tests ask for as many sightings as
they need. A few vehicles are seen very often and most of them rarely, mornings
and evenings are busy, some cameras see more than others, and now and then a
plate cannot be read. Row `i` of a seed is the same row however many are asked
for, in whatever parts. They are made with Arrow, a million in about a second,
so that they are ready before Spark is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maia.errors import BadInput
from maia.events import INT_MAX, INT_MIN, AttributeUid, Instant, Kind
from maia.views import ARROW_TYPES

__all__ = ["CAMERAS", "ROWS_MAX", "BadSightings", "generated_sightings", "write_sightings"]

ROWS_MAX: Final = 10_000_000_000
ROWS_PER_FILE: Final = 500_000

CAMERAS: Final = (
    "Victoria", "Vauxhall Bridge", "Marble Arch", "Elephant and Castle", "Tower Bridge", "Old Street",
    "Euston Road", "King's Cross", "Hyde Park Corner", "Lambeth Bridge", "Blackfriars", "Aldgate",
    "Waterloo", "Angel", "Park Lane", "Southwark", "Shoreditch", "Bloomsbury", "Holborn", "Pimlico",
)  # fmt: skip

_START: Final = Instant.parse("2026-11-02T00:00:00Z")
_DAY_US: Final = 86_400_000_000
_MORNING_US: Final = 22_000_000_000  # six o'clock and a little; traffic peaks at half past eight
_EVENING_US: Final = 54_400_000_000
_TICK_US: Final = 256
_WATCHED_VEHICLE: Final = 300

# Thirty-two letters, some twice, and sixty-four years: five and six bits choose one.
_LETTERS: Final = np.frombuffer(b"ABCDEFGHJKLMNOPRSTUVWXYZABEKLMPY", np.uint8)
_PLACES: Final = np.array([place * place * len(CAMERAS) // (64 * 64) for place in range(64)], np.int32)

_Bits = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]


class BadSightings(BadInput):
    """Sightings were asked for that cannot be made."""

    code = "INPUT-SIGHTINGS"


def write_sightings(
    folder: Path,
    *,
    rows: int,
    seed: int,
    numberplate: AttributeUid,
    timestamp: AttributeUid,
    location: AttributeUid,
    watched: str = "AE05 XYZ",
) -> None:
    """Write sightings as Parquet files into a new folder, half a million to a file."""
    folder.mkdir()
    for number, start in enumerate(range(0, max(rows, 1), ROWS_PER_FILE)):
        some = generated_sightings(
            start=start,
            rows=min(ROWS_PER_FILE, rows - start),
            seed=seed,
            numberplate=numberplate,
            timestamp=timestamp,
            location=location,
            watched=watched,
        )
        pq.write_table(pa.Table.from_batches([some]), folder / f"part-{number:05}.parquet")


def generated_sightings(
    *,
    start: int = 0,
    rows: int,
    seed: int,
    numberplate: AttributeUid,
    timestamp: AttributeUid,
    location: AttributeUid,
    watched: str = "AE05 XYZ",
) -> pa.RecordBatch:
    """Return `rows` sightings from row `start` on, in columns called by the given uids.

    `watched` is among the rarer plates.
    """
    if not (start >= 0 <= rows and start + rows <= ROWS_MAX) or not INT_MIN <= seed <= INT_MAX:
        raise BadSightings(f"sightings number 0 to {ROWS_MAX}, and a seed fits into 64 bits")
    row = np.arange(start, start + rows, dtype=np.uint64)
    who, when = _hash(row, seed, 1), _hash(row, seed, 2)
    vehicle = _vehicle(who)
    plate = pc.if_else(pa.array(vehicle == _WATCHED_VEHICLE), watched, _plate(_hash(vehicle, seed, 3)))
    is_legible = pa.array(_bits(who, 54, 8) > 0)
    columns = {
        numberplate: pc.if_else(is_legible, plate, pa.scalar(None, pa.string())),
        timestamp: pa.array(_moment(when)).cast(ARROW_TYPES[Kind.TIMESTAMP]),
        location: _camera(when),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


# What follows cuts numbers out of the bits of a hash, so that no library's idea of chance is in them.


def _vehicle(bits: _Bits) -> _Bits:
    """Pick one of 262,144 vehicles: a product of three chances is small more often than not."""
    return (_bits(bits, 0, 18) * _bits(bits, 18, 18) * _bits(bits, 36, 18)) >> np.uint64(36)


def _plate(bits: _Bits) -> Any:
    """Spell plates, such as `LB07 KTE`."""
    # Any: pyarrow is not typed.
    spelt = np.empty((len(bits), 8), np.uint8)
    for at, place in ((0, 0), (1, 1), (5, 2), (6, 3), (7, 4)):
        spelt[:, at] = _LETTERS[_bits(bits, 6 + 5 * place, 5)]
    year = _bits(bits, 0, 6)
    spelt[:, 2] = year // np.uint64(10) + np.uint64(ord("0"))
    spelt[:, 3] = year % np.uint64(10) + np.uint64(ord("0"))
    spelt[:, 4] = ord(" ")
    return pa.array(spelt.view("S8").ravel(), pa.binary()).cast(pa.string())


def _moment(bits: _Bits) -> _Numbers:
    """Pick one of 32 days, and mostly a busy hour of it."""
    day, part_of_day = _numbers(bits, 0, 5), _numbers(bits, 5, 4)
    early, late = _numbers(bits, 15, 24) * _TICK_US, _numbers(bits, 39, 24) * _TICK_US
    # The sum of two chances peaks in the middle, which is bell enough for traffic.
    bell = (early + late) * 2
    time = np.where(
        part_of_day < 6, bell + _MORNING_US, np.where(part_of_day < 12, bell + _EVENING_US, early * 20)
    )
    return int(_START) + day * _DAY_US + time


def _camera(bits: _Bits) -> Any:
    """Pick a camera; the first of them see the most."""
    # Any: pyarrow is not typed.
    places = pa.array(_PLACES[_bits(bits, 9, 6)])
    return pa.DictionaryArray.from_arrays(places, pa.array(CAMERAS)).dictionary_decode()


def _numbers(of: _Bits, start: int, width: int) -> _Numbers:
    return _bits(of, start, width).astype(np.int64)


def _bits(of: _Bits, start: int, width: int) -> _Bits:
    return (of >> np.uint64(start)) & np.uint64((1 << width) - 1)


def _hash(of: _Bits, seed: int, purpose: int) -> _Bits:
    """Mix numbers as splitmix64 does, twice, so that seed, purpose and row are all spread."""
    return _mixed(of + np.uint64(_MIXED_INTO * (3 * seed + purpose) % (1 << 64)))


def _mixed(bits: _Bits) -> _Bits:
    for factor, shift in ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27), (0xD6E8FEB86659FD93, 32)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


_MIXED_INTO: Final = 0x9E3779B97F4A7C15
