"""Who can reach whom at this moment, and how do connections between two hosts fare?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maia.testing.simulation.hosts import Host
from maia.testing.simulation.weather import NO_CHAOS, Chaos, Weather

__all__ = ["Partitions"]


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
        """Say whether messages pass between two hosts."""
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
