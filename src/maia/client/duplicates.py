"""Has the application had this frame before?

After a reconnection, or a repair of the network, a frame may arrive twice.
For each stream the numbers of the last frames are remembered; what lies
further back than that has been seen, because a stream's frames keep their
order but for a few.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

__all__ = ["WINDOW", "SeenFrames"]

WINDOW: Final = 1024
"""How far behind the newest frame of its stream a frame may come and still be told from an old one."""

_Mask: Final = (1 << WINDOW) - 1
_Stream: TypeAlias = tuple[bytes, bytes]


class SeenFrames:
    """The frames of many streams, by publisher's key and stream."""

    __slots__ = ("_newest", "_streams_max")

    def __init__(self, streams_max: int) -> None:
        """Remember at most so many streams; the one unused for longest goes first."""
        self._streams_max = streams_max
        # The newest number, and one bit for each of those before it: bit 0 is the newest itself.
        self._newest: OrderedDict[_Stream, tuple[int, int]] = OrderedDict()

    def is_new(self, publisher: bytes, stream: bytes, sequence: int) -> bool:
        """Say whether a frame has not been here, and remember that it was."""
        key = (publisher, stream)
        newest, seen = self._newest.get(key, (sequence, 0))
        if sequence >= newest:
            seen = ((seen << min(sequence - newest, WINDOW)) | 1) & _Mask if seen else 1
            was_new = sequence > newest or key not in self._newest
            newest = sequence
        else:
            back = newest - sequence
            was_new = back < WINDOW and not seen >> back & 1
            seen |= 1 << back if was_new else 0
        self._remember(key, newest, seen)
        return was_new

    def _remember(self, key: _Stream, newest: int, seen: int) -> None:
        self._newest[key] = (newest, seen)
        self._newest.move_to_end(key)
        if len(self._newest) > self._streams_max:
            self._newest.popitem(last=False)
