"""Which fault strikes where, when and for how long? The same seed gives the same list.

Faults come in rounds: each round has every kind once, in an order that the seed chooses, so that a run of
any length has about as many of each. The next one may begin before the last is over; at one place there is
one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What can go wrong."""

    KILL = "kill"
    KILL_DOMAIN = "kill of the domain's server"
    KILL_UNDER_LOAD = "kill under load"
    PAUSE = "pause"
    PAUSE_DOMAIN = "pause of the domain's server"
    CUT = "cut both ways"
    CUT_ONE_WAY = "cut one way"
    LEAVE = "publisher leaves"
    PUBLISHER_KILLED = "publisher killed"
    BURST = "burst and pause"
    SLOW_DISK = "slow disk"
    EIO = "EIO"
    ENOSPC = "ENOSPC"
    EROFS = "EROFS"
    CLOCK_SECONDS = "clock ±20 s"
    CLOCK_HOUR = "clock ±1 h"
    LOST_LOG = "log folder lost"
    OLD_BACKUP = "old backup restored"
    REVOKED = "right revoked"


DISK = frozenset({Kind.SLOW_DISK, Kind.EIO, Kind.ENOSPC, Kind.EROFS})
CLOCK = frozenset({Kind.CLOCK_SECONDS, Kind.CLOCK_HOUR})
NEEDS_SHIM = DISK | CLOCK
LOSES_DATA = frozenset({Kind.LOST_LOG, Kind.OLD_BACKUP})
"""After these something that only one broker had may be gone: it has to be reported."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `at` an organisation (and between it and `other`), from `begins_s` on, for `holds_s`."""

    number: int
    kind: Kind
    at: str
    other: str
    begins_s: float
    holds_s: float
    sign: int
    """Whether a clock goes ahead or back."""

    @property
    def place(self) -> str:
        """Return what can have one fault at a time."""
        match self.kind:
            case Kind.CUT | Kind.CUT_ONE_WAY:
                return "–".join(sorted((self.at, self.other)))
            case Kind.LEAVE | Kind.PUBLISHER_KILLED:
                return f"publisher of {self.at}"
            case Kind.KILL_DOMAIN | Kind.PAUSE_DOMAIN:
                return f"domain of {self.at}"
            case Kind.BURST:
                return f"broker of {self.other}"
            case Kind.REVOKED:
                return f"guest {self.number}"
            case _:
                return f"broker of {self.at}"

    def __str__(self) -> str:
        """Return one line for people."""
        has_two = self.kind in (Kind.CUT, Kind.CUT_ONE_WAY, Kind.BURST)
        where = f"{self.at} to {self.other}" if has_two else self.at
        sign = {1: " ahead", -1: " back"}[self.sign] if self.kind in CLOCK else ""
        return f"{self.number}: {self.kind}{sign} at {where}, {self.holds_s:.1f} s from {self.begins_s:.1f} s"


HOLDS_S = {
    Kind.KILL: (0.2, 5.0),
    Kind.KILL_DOMAIN: (0.2, 10.0),
    Kind.KILL_UNDER_LOAD: (0.2, 3.0),
    Kind.PAUSE: (0.5, 12.0),
    Kind.PAUSE_DOMAIN: (0.5, 20.0),
    Kind.CUT: (0.5, 25.0),
    Kind.CUT_ONE_WAY: (0.5, 25.0),
    Kind.LEAVE: (0.5, 15.0),
    Kind.PUBLISHER_KILLED: (0.5, 5.0),
    Kind.BURST: (4.0, 8.0),
    Kind.SLOW_DISK: (2.0, 8.0),
    Kind.EIO: (0.5, 5.0),
    Kind.ENOSPC: (0.5, 8.0),
    Kind.EROFS: (0.5, 8.0),
    Kind.CLOCK_SECONDS: (2.0, 15.0),
    Kind.CLOCK_HOUR: (2.0, 10.0),
    Kind.LOST_LOG: (0.2, 2.0),
    Kind.OLD_BACKUP: (0.2, 2.0),
    Kind.REVOKED: (3.0, 10.0),
}
"""From how many to how many seconds a fault lasts."""


def faults(
    seed: int, places: Sequence[str], kinds: Sequence[Kind], *, apart_s: tuple[float, float] = (2.0, 8.0),
    holds_most_s: float = 60.0,
) -> Iterator[Fault]:  # fmt: skip
    """Yield faults without end, in the order in which they begin."""
    random, number, begins_s = Random(seed), 0, 0.0
    while True:
        for kind in random.sample(sorted(kinds), len(kinds)):
            at, other = random.sample(sorted(places), 2)
            least, most = HOLDS_S[kind]
            begins_s += random.uniform(*apart_s)
            holds_s = min(random.uniform(least, most), holds_most_s)
            yield Fault(number, kind, at, other, begins_s, holds_s, random.choice((-1, 1)))
            number += 1
