"""How do messages fare between two places: how late, how slow, and what gets lost?

`Weather` is what real networks do to a connection: it stays in order, and
takes its time. `Chaos` breaks what a connection promises: single messages
vanish, come twice or overtake each other inside one link. No TLS connection
does that. It is here to prove that the books of two brokers are brought
together again whatever made them differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from random import Random
from typing import Final

from maia.events import SECOND
from maia.testing.simulation.hosts import Host


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
        return int(seconds * SECOND) or 1

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


# Who can reach whom, and how their connections fare.


class Partitions:
    """The state of the ground between hosts. Hosts in no group are together."""

    __slots__ = ("_chaos", "_group_of", "_in_chaos", "_weather", "_weather_between", "changes")

    def __init__(self, weather: Weather) -> None:
        """Begin with one group and the same weather everywhere."""
        self._group_of: dict[str, int] = {}
        self._weather = weather
        self._weather_between: dict[frozenset[str], Weather] = {}
        self._chaos = NO_CHAOS
        self._in_chaos: frozenset[str] = frozenset()
        self.changes = 0
        """Grows with every change of weather or chaos, so that what was looked up can be remembered."""

    def split(self, groups: Sequence[Iterable[Host]]) -> None:
        """Keep these groups apart; no groups means no partition."""
        self._group_of = {host.name: number for number, group in enumerate(groups, start=1) for host in group}

    def is_reachable(self, one: Host, other: Host) -> bool:
        """Return whether messages pass between two hosts."""
        return self._group_of.get(one.name, 0) == self._group_of.get(other.name, 0)

    def set_weather(self, weather: Weather, between: tuple[str, str] | None) -> None:
        """Change the weather between two hosts, or wherever nothing else was said."""
        self.changes += 1
        if between is None:
            self._weather = weather
        else:
            self._weather_between[frozenset(between)] = weather

    def weather(self, one: Host, other: Host) -> Weather:
        """Return how a message between two hosts fares."""
        return self._weather_between.get(frozenset((one.name, other.name)), self._weather)

    def set_chaos(self, chaos: Chaos, among: frozenset[str]) -> None:
        """Let links among these hosts, or all links if none is named, break their promises."""
        self.changes += 1
        self._chaos, self._in_chaos = chaos, among

    def chaos(self, one: Host, other: Host) -> Chaos:
        """Return in which ways a connection between two hosts breaks its promises."""
        if self._chaos is NO_CHAOS or not self._in_chaos:
            return self._chaos
        return self._chaos if {one.name, other.name} <= self._in_chaos else NO_CHAOS

    def __str__(self) -> str:
        """Return the groups, for the trace."""
        return " ".join(f"{name}:{group}" for name, group in self._group_of.items())
