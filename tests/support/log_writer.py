"""A process that records until it is killed; run as a program by `test_a_killed_recorder_loses_nothing.py`.

It is told a folder and a first number on standard input, makes a child for
each line, and the child says on standard output what was acknowledged. The
child begins within milliseconds, because everything is imported before.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

from maia.log.disk.event_log import EventLog, LogLimits
from support.event_log import NOISE, NOON, PLATES, carried

LIMITS = LogLimits(journal_bytes=20_000, segment_bytes=100_000, grace_s=0.0)


def frame(number: int) -> bytes:
    """Return the frame of this number; whoever checks makes it again."""
    return carried(number, type_id=PLATES if number % 3 else NOISE, size=number * 37 % 900)


def record(folder: Path, number: int) -> None:
    """Append, roll and compact for ever, and say what is safe."""
    with EventLog.open(folder, limits=LIMITS) as log:
        say(f"opened {log.next_position}")
        for turn in count(1):
            batch = [frame(number + n) for n in range(turn % 5 + 1)]
            positions = log.append(batch, recorded_at=NOON)
            say(f"safe {positions.start} {number} {len(batch)}")
            number += len(batch)
            if turn % 6 == 0:
                log.roll(NOON)
            if turn % 18 == 0:
                log.compact(NOON)


def say(line: str) -> None:
    """Write one line, whole."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Make a child for each line of input, and say when it has ended."""
    for line in sys.stdin:
        folder, number = line.split()
        child = os.fork()
        if child == 0:
            record(Path(folder), int(number))
        say(f"child {child}")
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    main()
