"""In which run of the broker was a position of its log given?

Where a log and the data folder are put back from a backup, positions behind the backup are given a second
time, to other frames. A position that a client still has from before would leave those out. So a position is
of a run: one that began behind the backup is not known any more, and the one in which the backup was made
ends where the log was when the broker was started again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from maia.errors import BadInput
from maia.wire.effects import Keep

KEPT_RUNS: Final = "log-runs"
RUN_BYTES: Final = 8
BEFORE: Final = b""
"""The run of positions that were given before any that is known."""
_RUNS_MAX: Final = 256

_Run = tuple[
    Annotated[int, Meta(ge=1, le=2**63 - 1)],
    Annotated[bytes, Meta(min_length=RUN_BYTES, max_length=RUN_BYTES)],
]
_DECODER: Final = msgspec.msgpack.Decoder(list[_Run])


class LogRuns:
    """From which position on each run has recorded, and what tells it from the others, the oldest first."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        """Know no run."""
        self._firsts: list[int] = []
        self._runs: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        """Yield the runs, the newest first; at last the one of all positions before."""
        yield from reversed(self._runs)
        yield BEFORE

    def begin(self, first: int, run: bytes) -> None:
        """Take note of a run that records from a position on; what others would have there is gone."""
        while self._firsts and self._firsts[-1] >= first:
            del self._firsts[-1], self._runs[-1]
        self._firsts.append(first)
        self._runs.append(run)
        del self._firsts[:-_RUNS_MAX], self._runs[:-_RUNS_MAX]

    def of(self, position: int) -> bytes:
        """Return the run in which a position was recorded."""
        at = bisect_right(self._firsts, position) - 1
        return self._runs[at] if at >= 0 else BEFORE

    def kept(self) -> Keep:
        """Return what has to survive a restart."""
        return Keep(KEPT_RUNS, msgspec.msgpack.encode(list(zip(self._firsts, self._runs, strict=True))))

    def reload(self, data: bytes) -> None:
        """Go on with the runs that were kept."""
        try:
            found = sorted(_DECODER.decode(data))
        except msgspec.MsgspecError as problem:
            raise BadInput("INPUT-KEPT-RUNS", "what was kept of runs of the log cannot be read") from problem
        for first, run in found:
            self.begin(first, run)
