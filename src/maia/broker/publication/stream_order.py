"""Does this frame come after those of its stream that were delivered?

While the tree of a type changes, a later frame may overtake an earlier one on
another way. Subscribers get each publisher's frames in their order: a frame
that comes too late is left out, and counted. The numbers of a sealed frame
are its signer's own: only frames of the same signer make it late. A plain
frame is late within limits, because its number proves nothing (A85).
"""

from __future__ import annotations

from maia.bounded_map import BoundedMap
from maia.wire.stream_numbers import is_late

__all__ = ["StreamOrder"]


class StreamOrder:
    """The last frame of each stream that was delivered here, for a bounded number of streams."""

    __slots__ = ("_last",)

    def __init__(self, streams_max: int) -> None:
        """Begin with nothing delivered."""
        self._last: BoundedMap[tuple[bytes, bytes, bytes], int] = BoundedMap(streams_max)

    def admit(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Take note of a frame; say whether no later one was delivered before it.

        `signer` is whose signature was verified, empty for a plain frame. Other
        rows of the same frame are not too late.
        """
        key = (publisher, stream, signer)
        last = self._last.get(key) or 0
        if sequence < last if signer else is_late(sequence, newest=last):
            return False
        self._last.put(key, sequence)
        return True
