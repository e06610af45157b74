"""How do messages fare between two places: how late, how slow, and what gets lost?

`Weather` is what real networks do to a connection: it stays in order, and
takes its time. `Chaos` breaks what a connection promises: single messages
vanish, come twice or overtake each other inside one link. No TLS connection
does that. It is here to prove that the books of two brokers are brought
together again whatever made them differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random
from typing import Final

from maia.events import SECOND

__all__ = ["CALM", "NO_CHAOS", "Chaos", "Weather"]


@dataclass(frozen=True, slots=True)
class Weather:
    """The delay of a message in one direction; all times in seconds."""

    least_s: float = 0.0005
    """What the fastest message takes."""
    spread_s: float = 0.002
    """What an average message takes beyond that; the spread is exponential."""
    gust_chance: float = 0.0
    """How often a message is held up, one that is lost and sent again for instance."""
    gust_s: float = 0.2
    """By how much at most."""
    bytes_per_s: float | None = None
    """How fast bytes pass, one message after the other; None for no limit."""

    def __post_init__(self) -> None:
        """Refuse weather in which messages arrive before they were sent."""
        if min(self.least_s, self.spread_s, self.gust_chance, self.gust_s) < 0:
            raise ValueError("delays and chances are not negative")
        if self.bytes_per_s is not None and self.bytes_per_s <= 0:
            raise ValueError("a link that passes no bytes is a partition")

    def delay(self, chance: Random) -> int:
        """Return the microseconds that one message takes."""
        seconds = self.least_s
        if self.spread_s:
            # `expovariate`, written out: nothing is drawn more often.
            seconds += -log(1.0 - chance.random()) / (1 / self.spread_s)
        if self.gust_chance and chance.random() < self.gust_chance:
            seconds += chance.random() * self.gust_s
        return max(1, int(seconds * SECOND))

    def passage(self, size: int) -> int:
        """Return the microseconds for which a message of `size` bytes keeps the line busy."""
        return 0 if self.bytes_per_s is None else int(size / self.bytes_per_s * SECOND)


def _every_message(_data: bytes) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Chaos:
    """Chances, for each message, that a link breaks its promise; `concerns` picks the messages."""

    drop: float = 0.0
    double: float = 0.0
    overtake: float = 0.0
    concerns: Callable[[bytes], bool] = _every_message

    def __post_init__(self) -> None:
        """Refuse what are no chances."""
        if not all(0.0 <= part <= 1.0 for part in (self.drop, self.double, self.overtake)):
            raise ValueError("a chance lies between 0 and 1")


CALM: Final = Weather()
NO_CHAOS: Final = Chaos()
