"""What goes wrong, when, and for how long?

Tests that want trouble of every kind, in an unforeseen order, let
the seed choose: hosts fail between any two effects, machines go dark, groups
are cut off, clocks jump, lines slow down, processes sleep. Every fault is
repaired after a while, and all of them when the trouble ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from maia.testing.simulation.network import Simulation
from maia.testing.simulation.weather import Weather

_EFFECTS_MOST: Final = 40
_SLOW: Final = Weather(least_s=0.05, spread_s=0.2, gust_chance=0.1, gust_s=3.0, bytes_per_s=20_000)


@dataclass(frozen=True, slots=True)
class Trouble:
    """How much goes wrong: mean times in seconds, and how often each kind is chosen."""

    every_s: float = 15.0
    repaired_after_s: float = 20.0
    down_most: int = 1
    """How many hosts are down at one time."""
    kills: int = 3
    torn: int = 3
    """Crashes between two effects of one step."""
    dark: int = 2
    partitions: int = 2
    clocks: int = 1
    clock_skew_s: float = 5.0
    slow_lines: int = 1
    sleeps: int = 1
    """Processes that are stopped for a while, and go on."""


class Troublemaker:
    """Makes trouble among the named hosts until it is stopped."""

    __slots__ = ("_chance", "_is_on", "_kinds", "_names", "_network", "_trouble", "made")

    def __init__(self, network: Simulation, names: Sequence[str], trouble: Trouble) -> None:
        """Choose by the network's own seed."""
        self._network, self._names, self._trouble = network, tuple(names), trouble
        self._chance = network.chance("trouble")
        self._is_on = False
        self.made: list[str] = []
        """What was done, a word each, for the person who reads a failing test."""
        weights: dict[Callable[[str], None], int] = {
            self._kill: trouble.kills,
            self._tear: trouble.torn,
            self._darken: trouble.dark,
            self._cut_off: trouble.partitions,
            self._set_clock: trouble.clocks,
            self._slow_down: trouble.slow_lines,
            self._put_to_sleep: trouble.sleeps,
        }
        self._kinds = [kind for kind, weight in weights.items() for _ in range(weight)]

    def begin(self) -> None:
        """Start making trouble."""
        self._is_on = True
        self._network.after(self._mean(self._trouble.every_s), self._make)

    def end(self) -> None:
        """Stop, and repair everything."""
        self._is_on = False
        self._network.heal()
        for name in self._names:
            self._network.set_clock(name, skew_s=0.0)
            self._come_back(name)
        self._network.set_chaos()
        for one in self._names:
            for other in self._names:
                self._network.set_weather(Weather(), between=(one, other))

    def _make(self) -> None:
        if not self._is_on:
            return
        self._chance.choice(self._kinds)(self._chance.choice(self._names))
        self._network.after(self._mean(self._trouble.every_s), self._make)

    def _repair(self, repair: Callable[[], None]) -> None:
        self._network.after(self._mean(self._trouble.repaired_after_s), partial(self._unless_over, repair))

    def _unless_over(self, repair: Callable[[], None]) -> None:
        if self._is_on:
            repair()

    def _mean(self, seconds: float) -> float:
        return self._chance.expovariate(1 / seconds)

    # ------------------------------------------------------------ the kinds of trouble

    def _may_fail(self) -> bool:
        hosts = [self._network.host(name) for name in self._names]
        down = sum(host.node is None or host.effects_left is not None for host in hosts)
        return down < self._trouble.down_most

    def _fail(self, name: str, word: str, fail: Callable[[], None]) -> None:
        if self._may_fail():
            self.made.append(f"{word} {name}")
            fail()
            self._repair(partial(self._come_back, name))

    def _come_back(self, name: str) -> None:
        self._network.host(name).effects_left = None
        self._network.wake_up(name)
        self._network.restart(name)

    def _kill(self, name: str) -> None:
        self._fail(name, "kill", partial(self._network.crash, name))

    def _darken(self, name: str) -> None:
        self._fail(name, "darken", partial(self._network.crash, name, dark=True))

    def _tear(self, name: str) -> None:
        effects = self._chance.randrange(_EFFECTS_MOST)
        self._fail(name, "tear", partial(self._network.crash_within, name, effects))

    def _cut_off(self, _name: str) -> None:
        group = self._chance.sample(self._names, self._chance.randint(1, max(1, len(self._names) // 2)))
        self.made.append(f"cut off {' '.join(group)}")
        self._network.partition(group)
        self._repair(self._network.heal)

    def _set_clock(self, name: str) -> None:
        most = self._trouble.clock_skew_s
        self.made.append(f"set clock of {name}")
        self._network.set_clock(name, skew_s=self._chance.uniform(-most, most))

    def _put_to_sleep(self, name: str) -> None:
        self.made.append(f"put to sleep {name}")
        self._network.put_to_sleep(name)
        self._repair(partial(self._network.wake_up, name))

    def _slow_down(self, name: str) -> None:
        other = self._chance.choice(self._names)
        self.made.append(f"slow down {name} {other}")
        self._network.set_weather(_SLOW, between=(name, other))
        self._repair(partial(self._network.set_weather, Weather(), between=(name, other)))
