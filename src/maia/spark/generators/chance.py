"""What would chance have said about row `i` of this seed?

Generators ask. Chance is a hash of seed, purpose and row number, so any row
can be made without the rows before it, by any worker, and comes out the same.
Only whole numbers and exactly rounded operations are used: no library's idea
of a random number, no sine and no logarithm, which differ between machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["DAY_US", "Bits", "Numbers", "Reals", "Rhythm", "bell", "chance", "cut", "shares_of", "uniform"]

Bits: TypeAlias = npt.NDArray[np.uint64]
Numbers: TypeAlias = npt.NDArray[np.int64]
Reals: TypeAlias = npt.NDArray[np.float64]

DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_PLACES: Final = 1 << 28
"""How many places a day has for arrivals; times the microseconds of an hour they still fit into 64 bits."""

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIXING: Final = ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27), (0xD6E8FEB86659FD93, 32))


def chance(of: Bits | Numbers, *, seed: int, purpose: int) -> Bits:
    """Return 64 bits for each number, as splitmix64 mixes them; each purpose has bits of its own."""
    start = int(_mixed(np.array([(3 * seed + 1) % (1 << 64)], np.uint64))[0])
    return _mixed(of.astype(np.uint64) + np.uint64((start + _GOLDEN * purpose) % (1 << 64)))


def _mixed(bits: Bits) -> Bits:
    for factor, shift in _MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def cut(bits: Bits, start: int, width: int) -> Numbers:
    """Return `width` bits from `start` on, as a number."""
    return ((bits >> np.uint64(start)) & np.uint64((1 << width) - 1)).astype(np.int64)


def uniform(bits: Bits) -> Reals:
    """Return a real number from 0 to 1, the 1 excluded."""
    return cut(bits, 11, 53).astype(np.float64) * 2.0**-53


def bell(bits: Bits) -> Reals:
    """Return a real number around 0 with variance 1: a sum of four chances is bell enough."""
    total = cut(bits, 0, 16) + cut(bits, 16, 16) + cut(bits, 32, 16) + cut(bits, 48, 16)
    return (total.astype(np.float64) / 65_536.0 - 2.0) * 1.7320508075688772


def shares_of(weights: Sequence[int]) -> Numbers:
    """Return where each weight's share ends, on a scale of 2**32. `np.searchsorted` picks by it."""
    total, so_far, ends = sum(weights), 0, []
    for weight in weights:
        so_far += weight
        ends.append((so_far << 32) // total)
    return np.array(ends, np.int64)


@dataclass(frozen=True)
class Rhythm:
    """How busy each hour of a day is. Arrivals that are numbered through a day follow it."""

    hours: tuple[int, ...]

    @cached_property
    def _begins(self) -> Numbers:
        ends = [sum(self.hours[: hour + 1]) * _PLACES // sum(self.hours) for hour in range(24)]
        return np.array([0, *ends], np.int64)

    def moments(self, numbers: Numbers, *, per_day: int) -> Numbers:
        """Return microseconds since the first day began, for arrivals of which each day has `per_day`."""
        place = (numbers % per_day) * _PLACES // per_day
        hour = np.searchsorted(self._begins, place, side="right") - 1
        begins = self._begins[hour]
        within = (place - begins) * _HOUR_US // (self._begins[hour + 1] - begins)
        return numbers // per_day * DAY_US + hour * _HOUR_US + within
