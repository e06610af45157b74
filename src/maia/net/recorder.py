"""What does a runner ask of an event log?

It hands over what a node wants recorded or read, and is told when that is
done. `server/log_recording.py` does it with files and threads; most nodes have no log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from maia.errors import MaiaError
from maia.wire.effects import Input, LogAtStart, ReadLog, Record

__all__ = ["Recorder"]


class Recorder(Protocol):
    """What a runner asks for frames to be recorded and read."""

    def at_start(self, since: int, *, frames_max: int) -> LogAtStart:
        """Return what a broker is told when it starts: at most so many frames from a position on."""
        ...

    @property
    def is_full(self) -> bool:
        """Say whether nothing more should be read from links for now."""
        ...

    def status(self) -> Mapping[str, object]:
        """Return what an operator asks for."""
        ...

    def record(self, effect: Record) -> None:
        """Have a frame written."""
        ...

    def read(self, effect: ReadLog) -> None:
        """Have frames read."""
        ...

    async def flush(self) -> None:
        """Wait until everything is safe that was to be recorded so far."""
        ...

    async def run(
        self,
        *,
        give: Callable[[Input], None],
        fail: Callable[[MaiaError], None],
        after_writing: Callable[[], None],
    ) -> None:
        """Work until cancelled."""
        ...
