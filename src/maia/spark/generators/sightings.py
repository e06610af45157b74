"""What do a city's numberplate cameras see, at any size?

A few vehicles are seen very often and most of them rarely; mornings and
evenings are busy. Vehicles move: from one camera to the next, never faster
than traffic does. Some plates cannot be read, some cameras were offline and
report hours late, and some sightings arrive twice.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maia.events import Kind
from maia.spark.generators.generator import (
    START,
    Bits,
    Generator,
    Numbers,
    Rhythm,
    chance,
    cut,
    moments,
    named,
)

# In the order in which a driver passes them, with latitude and longitude.
CAMERAS: Final[dict[str, tuple[float, float]]] = {
    "Marble Arch": (51.5131, -0.1589), "Park Lane": (51.5075, -0.1529),
    "Hyde Park Corner": (51.5027, -0.1527),
    "Victoria": (51.4952, -0.1441), "Pimlico": (51.4893, -0.1334), "Vauxhall Bridge": (51.4876, -0.1270),
    "Lambeth Bridge": (51.4944, -0.1230), "Waterloo": (51.5036, -0.1143),
    "Elephant and Castle": (51.4943, -0.1000), "Southwark": (51.5040, -0.1050),
    "Blackfriars": (51.5096, -0.1044), "Tower Bridge": (51.5055, -0.0754), "Aldgate": (51.5143, -0.0755),
    "Shoreditch": (51.5234, -0.0750), "Old Street": (51.5255, -0.0875), "Angel": (51.5325, -0.1058),
    "King's Cross": (51.5304, -0.1239), "Euston Road": (51.5283, -0.1338), "Bloomsbury": (51.5205, -0.1262),
    "Holborn": (51.5174, -0.1201),
}  # fmt: skip
WATCHED_PLATE: Final = "AE05 XYZ"

_WATCHED_VEHICLE: Final = 300
_TRAFFIC: Final = Rhythm(
    (4, 3, 2, 2, 3, 8, 20, 42, 56, 44, 32, 30, 31, 31, 32, 36, 46, 58, 52, 36, 24, 17, 12, 7)
)
_VISIT_US: Final = 300_000_000
"""A vehicle is at one camera for a fifth of this time, and then on its way to the next."""
_VISITS_PER_LEG: Final = 3

# Thirty-two letters, some twice, and sixty-four years: five and six bits choose one.
_LETTERS: Final = np.frombuffer(b"ABCDEFGHJKLMNOPRSTUVWXYZABEKLMPY", np.uint8)
_HOMES: Final = np.array([place * place * len(CAMERAS) // (64 * 64) for place in range(64)], np.int64)


def _made(numbers: Numbers, seed: int, per_day: int) -> tuple[Any, ...]:
    # Any: pyarrow is not typed.
    first_arrival = _without_repeats(numbers, seed, per_day)
    who = chance(first_arrival, seed=seed, purpose=2)
    # One of 262,144 vehicles: a product of three chances is small more often than not.
    vehicle = (cut(who, 0, 18) * cut(who, 18, 18) * cut(who, 36, 18)) >> 36
    moment = _moment(first_arrival, seed, per_day)
    moment, camera = _passed(moment, vehicle, seed)
    is_legible = pa.array(cut(who, 54, 8) > 0)
    plate = pc.if_else(
        pa.array(vehicle == _WATCHED_VEHICLE), WATCHED_PLATE, _plate(chance(vehicle, seed=seed, purpose=3))
    )
    return (
        pc.if_else(is_legible, plate, pa.scalar(None, pa.string())),
        moments(moment),
        named(camera, list(CAMERAS)),
    )


def _without_repeats(numbers: Numbers, seed: int, per_day: int) -> Numbers:
    """Return the row that each row is: itself, or for one in 64 an earlier one once more."""
    bits = chance(numbers, seed=seed, purpose=1)
    # As many rows as come in some minutes of a busy hour.
    earlier = numbers - 1 - cut(bits, 6, 32) % max(1, per_day // 2048)
    return np.where((cut(bits, 0, 6) == 0) & (earlier >= 0), earlier, numbers)


def _moment(numbers: Numbers, seed: int, per_day: int) -> Numbers:
    """Return when each arrival was seen; one in 128 is up to two hours late."""
    bits = chance(numbers, seed=seed, purpose=4)
    arrived = _TRAFFIC.moments(numbers, per_day=per_day) + cut(bits, 0, 20)
    return np.where(cut(bits, 20, 7) == 0, arrived - cut(bits, 27, 33), arrived)


def _passed(moment: Numbers, vehicle: Numbers, seed: int) -> tuple[Numbers, Numbers]:
    """Return when and by which camera each vehicle was seen, somewhere around its home."""
    habits = chance(vehicle, seed=seed, purpose=5)
    own_time = int(START) + moment + cut(habits, 0, 20) * 286
    visit, within = own_time // _VISIT_US, own_time % _VISIT_US
    leg, part = visit // _VISITS_PER_LEG, visit % _VISITS_PER_LEG
    here, there = _turn(vehicle, leg, seed), _turn(vehicle, leg + 1, seed)
    offset = here + (there - here) * part // _VISITS_PER_LEG
    camera = (_HOMES[cut(habits, 20, 6)] + offset) % len(CAMERAS)
    return moment - within + within // 5, camera


def _turn(vehicle: Numbers, leg: Numbers, seed: int) -> Numbers:
    return cut(chance(vehicle + (leg << 20), seed=seed, purpose=6), 0, 2)


def _plate(bits: Bits) -> Any:
    """Spell plates, such as `LB07 KTE`."""
    # Any: pyarrow is not typed.
    spelt = np.empty((len(bits), 8), np.uint8)
    for at, place in ((0, 0), (1, 1), (5, 2), (6, 3), (7, 4)):
        spelt[:, at] = _LETTERS[cut(bits, 6 + 5 * place, 5)]
    year = cut(bits, 0, 6)
    spelt[:, 2] = year // 10 + ord("0")
    spelt[:, 3] = year % 10 + ord("0")
    spelt[:, 4] = ord(" ")
    return pa.array(spelt.view("S8").ravel(), pa.binary()).cast(pa.string())


SIGHTINGS: Final = Generator(
    name="sightings",
    about="numberplates that cameras saw: skewed plates, rush hours, late and repeated sightings",
    columns=(("numberplate", Kind.STRING), ("timestamp", Kind.TIMESTAMP), ("location", Kind.STRING)),
    make=_made,
)
