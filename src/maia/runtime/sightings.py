"""What would a month of a city's numberplate cameras look like?

The demonstration, the benchmarks and the tests ask for as many sightings as
they need. A few vehicles are seen very often and most of them rarely, mornings
and evenings are busy, some cameras see more than others, and now and then a
plate cannot be read. Row `i` of a seed is the same row however many are asked
for, and on however many cores.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput
from maia.events import INT_MAX, INT_MIN, AttributeUid, Instant

__all__ = ["CAMERAS", "ROWS_MAX", "BadSightings", "generated_sightings"]

ROWS_MAX: Final = 10_000_000_000

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
_LETTERS: Final = "ABCDEFGHJKLMNOPRSTUVWXYZABEKLMPY"
_YEARS: Final = "".join(f"{year:02}" for year in range(64))


class BadSightings(BadInput):
    """Sightings were asked for that cannot be made."""

    code = "INPUT-SIGHTINGS"


def generated_sightings(
    spark: SparkSession,
    *,
    rows: int,
    seed: int,
    numberplate: AttributeUid,
    timestamp: AttributeUid,
    location: AttributeUid,
    watched: str = "AE05 XYZ",
) -> DataFrame:
    """Return sightings with columns called by the given uids; `watched` is among the rarer plates."""
    if not 0 <= rows <= ROWS_MAX or not INT_MIN <= seed <= INT_MAX:
        raise BadSightings(f"sightings number 0 to {ROWS_MAX}, and a seed fits into 64 bits")
    who, when = _hash(F.col("id"), seed, 1), _hash(F.col("id"), seed, 2)
    vehicle = _vehicle(who)
    plate = F.when(vehicle == _WATCHED_VEHICLE, F.lit(watched)).otherwise(_plate(_hash(vehicle, seed, 3)))
    is_legible = _bits(who, 54, 8) > 0
    return spark.range(rows).select(
        F.when(is_legible, plate).alias(numberplate),
        _moment(when).alias(timestamp),
        _camera(when).alias(location),
    )


# What follows cuts numbers out of the bits of a hash. Arithmetic on doubles would read better and
# runs many times slower, because the code that Spark makes of it is too long for Java to compile.


def _vehicle(bits: Column) -> Column:
    """Pick one of 262,144 vehicles: a product of three chances is small more often than not."""
    return F.shiftrightunsigned(_bits(bits, 0, 18) * _bits(bits, 18, 18) * _bits(bits, 36, 18), 36)


def _plate(bits: Column) -> Column:
    """Spell a plate, such as `LB07 KTE`."""

    def letter(place: int) -> Column:
        position = _bits(bits, 6 + 5 * place, 5).cast("int") + F.lit(1)
        return F.substr(F.lit(_LETTERS), position, F.lit(1))

    year = F.substr(F.lit(_YEARS), _bits(bits, 0, 6).cast("int") * F.lit(2) + F.lit(1), F.lit(2))
    return F.concat(letter(0), letter(1), year, F.lit(" "), letter(2), letter(3), letter(4))


def _moment(bits: Column) -> Column:
    """Pick one of 32 days, and mostly a busy hour of it."""
    day, part_of_day = _bits(bits, 0, 5), _bits(bits, 5, 4)
    early, late = _bits(bits, 15, 24) * F.lit(_TICK_US), _bits(bits, 39, 24) * F.lit(_TICK_US)
    # The sum of two chances peaks in the middle, which is bell enough for traffic.
    bell = (early + late) * F.lit(2)
    time = (
        F.when(part_of_day < 6, bell + F.lit(_MORNING_US))
        .when(part_of_day < 12, bell + F.lit(_EVENING_US))
        .otherwise(early * F.lit(20))
    )
    return F.timestamp_micros(F.lit(int(_START)).cast("bigint") + day * F.lit(_DAY_US) + time)


def _camera(bits: Column) -> Column:
    """Pick a camera; the first of them see the most."""
    places = [CAMERAS[place * place * len(CAMERAS) // (64 * 64)] for place in range(64)]
    return F.element_at(F.array(*map(F.lit, places)), _bits(bits, 9, 6).cast("int") + F.lit(1))


def _bits(of: Column, start: int, width: int) -> Column:
    return F.shiftrightunsigned(of, start).bitwiseAND(F.lit((1 << width) - 1).cast("bigint"))


def _hash(of: Column, seed: int, purpose: int) -> Column:
    return F.xxhash64(F.lit(seed).cast("bigint"), F.lit(purpose), of)
