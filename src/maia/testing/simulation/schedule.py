"""What happens next? The virtual clock and the heap of everything that is going to happen.

Two things at one moment have no natural order, so the seed decides: another
seed tries another order, and the same seed repeats it. A caller that adds something
draws the tie-break from its own source of chance. So it does not matter in
which order a node asks for things that have nothing to do with each other,
which may differ from one process to the next.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Final, TypeAlias

import msgspec

from maia.events import Instant

Action: TypeAlias = Callable[[], None]

_TIE_BITS: Final = 32


class Schedule:
    """Actions by the moment at which they happen, in microseconds of true time."""

    __slots__ = ("_added", "_heap", "now")

    def __init__(self, now: int) -> None:
        """Begin at `now` with nothing to do."""
        self.now = int(now)  # an Instant would make all that is added to it dearer
        self._heap: list[tuple[int, int, int, Action]] = []
        self._added = 0

    def __len__(self) -> int:
        """Return how much is still going to happen, whatever was called off included."""
        return len(self._heap)

    def add(self, at: int, chance: Random, action: Action) -> None:
        """Have `action` happen at `at`, or now if that is over; `chance` breaks ties."""
        self._added += 1  # so that two actions are never compared with each other
        item = (at if at > self.now else self.now, chance.getrandbits(_TIE_BITS), self._added, action)
        heapq.heappush(self._heap, item)

    def step(self, until: int) -> bool:
        """Do the next thing that happens up to `until`; say whether there was one."""
        return self.run(until, steps_max=1) == 1

    def run(self, until: int, *, steps_max: int) -> int:
        """Do everything that happens up to `until`, or so many steps of it; return how many there were."""
        heap, steps = self._heap, 0
        while heap and heap[0][0] <= until and steps < steps_max:
            steps += 1
            self.now, _tie, _number, action = heapq.heappop(heap)
            action()
        return steps


# What happened, in which order, and was it the same as last time?


STEPS_KEPT: Final = 4096
"""How many steps are kept for people by default."""

_written: Final = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened at one place; `about` is a link, a number or a word."""

    at: int
    place: str
    what: str
    about: int | str

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return f"{Instant(self.at)} {self.place:<12} {self.what} {self.about}"


class Trace:
    """The last steps, and the fingerprint of all."""

    __slots__ = ("_fingerprint", "_steps", "count")

    def __init__(self, kept: int = STEPS_KEPT) -> None:
        """Begin with nothing; keep the last `kept` steps."""
        self._steps: deque[tuple[int, str, str, int | str]] = deque(maxlen=kept)
        self._fingerprint = blake2b(digest_size=16)
        self.count = 0

    def add(self, at: int, place: str, what: str, about: int | str, data: bytes = b"") -> None:
        """Write one step down; `data` enters the fingerprint and is not kept."""
        self.count += 1
        self._steps.append((at, place, what, about))
        self._fingerprint.update(_written((at, place, what, about, data)))

    def __iter__(self) -> Iterator[Step]:
        """Return the steps that were kept, oldest first."""
        return (Step(*step) for step in self._steps)

    def tail(self, count: int) -> str:
        """Return the last `count` steps, a line each."""
        return "\n".join(str(Step(*step)) for step in list(self._steps)[-count:])

    @property
    def fingerprint(self) -> str:
        """Return what two runs have in common exactly if the same things happened in the same order."""
        return self._fingerprint.hexdigest()
