"""How is a log read a little at a time, without beginning anew each time?

A durable subscription that catches up asks for some frames, and for the next
ones when those are acknowledged. To find a place means to read and verify the
file that it lies in, so the places where the latest readings stopped are held
on to. A reading sees the log as it was when it began; when it ends, the log
is read again, so that nothing recorded meanwhile is left out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from maia.log.disk.event_log import EventLog
from maia.log.format.records import LogRecord

__all__ = ["HELD_MAX", "LogReadings"]

HELD_MAX: Final = 4
"""A held reading may hold a whole segment in memory."""


class LogReadings:
    """The places at which readings of a log stopped. For one thread."""

    def __init__(self, log: EventLog) -> None:
        """Read `log`."""
        self._log = log
        self._held: OrderedDict[tuple[bytes, int], Iterator[LogRecord]] = OrderedDict()

    def read(
        self, type_id: bytes, first: int, *, upto: int, frames_max: int, bytes_max: int
    ) -> tuple[list[LogRecord], int]:
        """Return frames of a type within these bounds, and how far the log was looked through for them."""
        records = self._held.pop((type_id, first), None)
        was_held = records is not None
        frames: list[LogRecord] = []
        size, place = 0, first
        while True:
            records = self._log.read(place, type_ids={type_id}) if records is None else records
            for record in records:
                is_enough = bool(frames) and (len(frames) >= frames_max or size >= bytes_max)
                if is_enough or record.position > upto:
                    stopped = upto if not is_enough else frames[-1].position
                    self._hold(type_id, stopped + 1, chain((record,), records))
                    return frames, stopped
                frames.append(record)
                size += len(record.message)
                place = record.position + 1
            if not was_held:
                return frames, upto
            records, was_held = None, False  # what was recorded since the reading began

    def _hold(self, type_id: bytes, place: int, records: Iterator[LogRecord]) -> None:
        self._held[type_id, place] = records
        if len(self._held) > HELD_MAX:
            self._held.popitem(last=False)
