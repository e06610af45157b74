"""What does it cost to put every delivery on record?

The same broker process twice, over mutual TLS, in frames of 256 and one event at a time: once with a
ledger of all types in its data folder, once without. A record is with the operating system before its
delivery leaves; the disk follows within a second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import Benchmark, Case, Race, Ratio, Side, at_least
from live_network import FRAME_ROWS, Line, broker_process, maia_line, new_world


def cases(quick: bool) -> Iterator[Case]:
    """Yield our broker with a ledger against itself without one."""
    world = new_world()
    for rows, total in ((FRAME_ROWS, 4_096 if quick else 102_400), (1, 256 if quick else 8_192)):
        with tempfile.TemporaryDirectory(prefix="maia-ledger-") as folder:
            ledger = {"folder": str(Path(folder, "ledger")), "all": True}
            with (
                broker_process(world, ledger=ledger) as recording,
                maia_line(world, recording, rows=rows) as ours,
                broker_process(world) as plain,
                maia_line(world, plain, rows=rows) as peer,
            ):
                yield Race(
                    f"frames of {rows}" if rows > 1 else "one event at a time",
                    ours=_side(ours, total),
                    peer=_side(peer, total),
                    ratio=Ratio.PEER_OVER_OURS,
                    target=at_least(0.95),
                )


def _side(line: Line, total: int) -> Side:
    line.carry(total // 4)  # once without the clock, to warm both ends
    return Side(run=lambda: line.carry(total), operations=total, calls=1)


BENCH = Benchmark(
    number=31,
    name="ledger",
    about="events a second through one broker that puts every delivery on record, over one that does not",
    cases=cases,
    stood="",
    peer_lacks="the peer is our own broker, and keeps no account of what it delivered",
)
