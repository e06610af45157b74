"""What do a city's sensors measure, at any size?

Traffic, noise and pollution of a city are among the examples of OASIS'08
(section 2.1). Every sensor of every district reports noise, fine dust and
nitrogen dioxide in turn; each follows the day, districts differ, now and then
a value is missing or a report comes late.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from maia.events import Kind
from maia.spark.generators.generator import (
    DAY_US,
    Bits,
    Generator,
    Numbers,
    Reals,
    bell,
    chance,
    cut,
    moments,
    named,
)

DISTRICTS: Final = (
    "Camden", "City", "Hackney", "Islington", "Kensington", "Lambeth", "Southwark", "Tower Hamlets",
    "Wandsworth", "Westminster",
)  # fmt: skip

_SENSORS_PER_DISTRICT: Final = 20
_HOUR_US: Final = 3_600_000_000
# What each hour adds: decibels, and shares of the usual dust and gas.
_LOUD: Final = np.array(
    [-9, -10, -11, -11, -9, -5, 0, 4, 5, 3, 2, 2, 3, 2, 2, 3, 4, 6, 5, 3, 1, -1, -4, -7, -9], np.float64
)
_DIRTY: Final = np.array(
    [0.6, 0.5, 0.5, 0.5, 0.6, 0.8, 1.1, 1.5, 1.6, 1.3, 1.1, 1.0, 1.0, 1.0, 1.0, 1.1, 1.3, 1.6, 1.5, 1.2, 1.0,
     0.9, 0.8, 0.7, 0.6], np.float64
)  # fmt: skip


def _made(numbers: Numbers, seed: int, per_day: int) -> tuple[Any, ...]:
    # Any: pyarrow is not typed.
    bits = chance(numbers, seed=seed, purpose=1)
    sensor = numbers % (len(DISTRICTS) * _SENSORS_PER_DISTRICT)
    district = sensor % len(DISTRICTS)
    since = _since_start(numbers, bits, per_day)
    nature = chance(district, seed=seed, purpose=2)
    noise = 60.0 + cut(nature, 0, 3) + _of_hour(_LOUD, since) + 3.0 * _swing(numbers, seed, 3)
    air = _of_hour(_DIRTY, since)
    dust = (9.0 + cut(nature, 3, 3)) * air * (1.0 + 0.2 * _swing(numbers, seed, 4))
    gas = (22.0 + 2 * cut(nature, 6, 3)) * air * (1.0 + 0.2 * _swing(numbers, seed, 5))
    return (
        moments(since),
        named(district, DISTRICTS),
        named(sensor, _SENSOR_NAMES),
        _tenths(noise, is_missing=cut(bits, 40, 8) == 0),
        _tenths(dust, is_missing=cut(bits, 48, 8) == 0),
        _tenths(gas, is_missing=cut(bits, 56, 8) == 0),
    )


_SENSOR_NAMES: Final = tuple(
    f"{DISTRICTS[number % len(DISTRICTS)]} {number // len(DISTRICTS) + 1}"
    for number in range(len(DISTRICTS) * _SENSORS_PER_DISTRICT)
)


def _since_start(numbers: Numbers, bits: Bits, per_day: int) -> Numbers:
    """Return microseconds since the start: spread evenly, one in 128 up to half an hour late."""
    day, number = numbers // per_day, numbers % per_day
    late = np.where(cut(bits, 0, 7) == 0, cut(bits, 7, 31), 0)
    moment: Numbers = day * DAY_US + number * DAY_US // per_day - late
    return np.maximum(moment, 0)


def _of_hour(by_hour: Reals, since: Numbers) -> Reals:
    hour, within = since % DAY_US // _HOUR_US, (since % _HOUR_US) / _HOUR_US
    return np.asarray(by_hour[hour] * (1.0 - within) + by_hour[hour + 1] * within, np.float64)


def _swing(numbers: Numbers, seed: int, purpose: int) -> Reals:
    return bell(chance(numbers, seed=seed, purpose=purpose))


def _tenths(values: Reals, *, is_missing: Any) -> Any:
    # Any: pyarrow is not typed.
    return pa.array(np.floor(np.maximum(values, 0.0) * 10.0 + 0.5) / 10.0, mask=is_missing)


SENSORS: Final = Generator(
    name="sensors",
    about="noise and air in a city's districts, with the rhythm of the day",
    columns=(
        ("time", Kind.TIMESTAMP),
        ("district", Kind.STRING),
        ("sensor", Kind.STRING),
        ("noise_db", Kind.FLOAT),
        ("pm25", Kind.FLOAT),
        ("no2", Kind.FLOAT),
    ),
    make=_made,
)
