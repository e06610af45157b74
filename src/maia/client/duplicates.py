"""Has the application had this frame before, or one that was published later?

After a reconnection, or a repair of the network, a frame may arrive twice, or
by an old way after a later one came by a new way. The application hears each
publisher in order and nothing twice, so a frame that is not newer than the
newest of its stream is dropped: its arrival was not promised, and the order
was. A number far below the newest is no late one: the newest was forged, and
must not silence its publisher (A85), or the publisher has begun anew.
"""

from __future__ import annotations

from typing import TypeAlias

from maia.bounded_map import BoundedMap
from maia.wire.stream_numbers import is_late

__all__ = ["SeenFrames"]

_Stream: TypeAlias = tuple[bytes, bytes]


class SeenFrames:
    """The newest frames of many streams, by publisher's key and stream."""

    __slots__ = ("_newest",)

    def __init__(self, streams_max: int) -> None:
        """Remember at most so many streams; the one unused for longest goes first."""
        self._newest: BoundedMap[_Stream, int] = BoundedMap(streams_max)

    def remember(self, publisher: bytes, stream: bytes, sequence: int) -> bool:
        """Remember a frame unless it is repeated or late in its stream; say whether it was remembered."""
        key = (publisher, stream)
        newest = self._newest.get(key)
        if newest is not None and (sequence == newest or is_late(sequence, newest=newest)):
            return False
        self._newest.put(key, sequence)
        return True
