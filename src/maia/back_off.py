"""How long does a party wait before it tries again?

Twice as long after each failure, up to a limit, and not in step with others
that failed at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["doubled", "jittered"]

_Seconds = TypeVar("_Seconds", int, float)


def doubled(first: _Seconds, failures: int, *, most: _Seconds) -> _Seconds:
    """Return the wait after so many failures in a row: `first` after one, never more than `most`."""
    return min(most, first * (1 << min(max(failures, 1) - 1, 30)))


def jittered(seconds: float, random: Callable[[int], bytes]) -> float:
    """Return a wait between half of `seconds` and all of them."""
    return seconds * (0.5 + int.from_bytes(random(2), "big") / (1 << 17))
