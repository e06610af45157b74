"""Which events leave together in the next frame?

A frame leaves at once while nothing is under way. While a frame is, events
fill the next one, which leaves when it is full or when the broker has
answered. So a quiet publisher never waits, and a busy one fills its
frames by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from maia.errors import BadInput
from maia.events import AttributeUid, Column, Frame, Kind, PresentValue, Value
from maia.types import VerifiedType
from maia.wire.columns import EventWriter, frame_to_columns
from maia.wire.messages import Column as WireColumn

ROWS_PER_FRAME: Final = 1024
FRAME_BYTES: Final = 1 << 20
"""About how many characters a frame has when it leaves; one long event alone may have more."""
_LONG: Final = (str, bytes)
EVENT_BYTES_MAX: Final = 2 << 20
"""How many characters one event may have, so that any frame fits into a message, four bytes each."""


class EventTooLarge(BadInput):
    """An event has more text than a message has room for."""

    code = "INPUT-EVENT-TOO-LARGE"


def rows_per_frame(event_type: VerifiedType) -> int:
    """Return how many events leave together; of a covered type each leaves alone, as cover does."""
    sealing = event_type.sealing
    return ROWS_PER_FRAME if sealing is None or sealing.cover is None else 1


class FrameFiller:
    """Events of one publisher that wait for their frame, by column."""

    __slots__ = ("_columns", "_kinds", "_rows_max", "_size", "alone", "rows")

    def __init__(self, event_type: VerifiedType) -> None:
        """Begin with an empty frame of the publisher's version."""
        self._rows_max = rows_per_frame(event_type)
        self._kinds: Mapping[AttributeUid, Kind] = event_type.kinds
        self._columns: dict[AttributeUid, list[Value]] = {uid: [] for uid in self._kinds}
        self._size = 0
        self.rows = 0
        """How many events wait."""
        self.alone = EventWriter(self._kinds)
        """Writes an event that leaves alone."""

    @property
    def is_full(self) -> bool:
        """Say whether the frame should wait for no more events."""
        return self.rows >= self._rows_max or self._size >= FRAME_BYTES

    def add(self, event: Mapping[AttributeUid, PresentValue]) -> None:
        """Add one event that was checked against the type."""
        size = sum([len(value) for value in event.values() if isinstance(value, _LONG)])
        if size > EVENT_BYTES_MAX:
            raise EventTooLarge(f"an event of {size} characters is longer than {EVENT_BYTES_MAX}")
        for uid, values in self._columns.items():
            values.append(event.get(uid))
        self._size += size
        self.rows += 1

    def take(self) -> tuple[int, list[WireColumn]]:
        """Return what waits as columns ready to travel; attributes that no event has are left out."""
        rows, columns = self.rows, self._columns
        self._columns = {uid: [] for uid in self._kinds}
        self.rows = self._size = 0
        if rows == 1:
            return 1, self.alone.columns_of([value for (value,) in columns.values()])
        return rows, columns_of(rows, columns, self._kinds)


def columns_of(
    rows: int, columns: Mapping[AttributeUid, Sequence[Value]], kinds: Mapping[AttributeUid, Kind]
) -> list[WireColumn]:
    """Return columns ready to travel, every value checked; those of nulls alone are left out."""
    given = {
        uid: Column(kinds[uid], tuple(values)) for uid, values in columns.items() if values.count(None) < rows
    }
    return frame_to_columns(Frame(rows, given))
