"""How long does a party wait before it tries again?

Twice as long after each failure, up to a limit, and not in step with others
that failed at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["Pauses", "doubled", "jittered"]

_Seconds = TypeVar("_Seconds", int, float)


def doubled(first: _Seconds, failures: int, *, most: _Seconds) -> _Seconds:
    """Return the wait after so many failures in a row: `first` after one, never more than `most`."""
    return min(most, first * (1 << min(max(failures, 1) - 1, 30)))


def jittered(seconds: float, random: Callable[[int], bytes]) -> float:
    """Return a wait between half of `seconds` and all of them."""
    return seconds * (0.5 + int.from_bytes(random(2), "big") / (1 << 17))


class Pauses:
    """The waits before something that has ended is begun again: short ones after it ran for a good while."""

    def __init__(self, first_s: float, *, most_s: float, clock: Callable[[], float]) -> None:
        """Wait for `first_s` after one end, and never longer than `most_s`; `clock` counts seconds."""
        self._first_s, self._most_s, self._clock = first_s, most_s, clock
        self._failures, self._began = 0, clock()

    def begin(self) -> None:
        """Take note that it begins now."""
        self._began = self._clock()

    def forget(self) -> None:
        """Wait as after a first end next time."""
        self._failures = 0

    def ended_s(self) -> float:
        """Return how long to wait now that it has ended; what ran for longer than any wait ran well."""
        if self._clock() - self._began > self._most_s:
            self.forget()
        self._failures += 1
        return doubled(self._first_s, self._failures, most=self._most_s)
