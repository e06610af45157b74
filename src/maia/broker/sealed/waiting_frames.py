"""Which frames wait for a key, and for how long?

A frame of an epoch that is not known here yet, and a publisher's frame for
which there is no key to seal with, wait while the key is asked for. Frames of
a type wait in their order. There is room for so many frames and bytes of one
type, and no frame waits for longer than its time: whoever is told so decides
what becomes of it. Nothing is ever taken out twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from maia.events import Instant

__all__ = ["WaitingFrames", "WaitingLimits"]

_Frame = TypeVar("_Frame")
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """How much waits, of one type and of all together."""

    frames: int = 1024
    size_bytes: int = 16 << 20
    types: int = 1024
    wait_s: int = 10


@dataclass(slots=True)
class _Queue(Generic[_Frame]):
    """The frames of one type: when each gives up, which stream it is of, its size, and itself."""

    frames: deque[tuple[Instant, Hashable, int, _Frame]] = field(default_factory=deque)
    streams: dict[Hashable, int] = field(default_factory=dict)
    size: int = 0

    def put(self, until: Instant, stream: Hashable, size: int, frame: _Frame) -> None:
        self.frames.append((until, stream, size, frame))
        self.streams[stream] = self.streams.get(stream, 0) + 1
        self.size += size

    def pop(self) -> _Frame:
        _, stream, size, frame = self.frames.popleft()
        self.size -= size
        self.streams[stream] -= 1
        if not self.streams[stream]:
            del self.streams[stream]
        return frame


class WaitingFrames(Generic[_Frame]):
    """Frames by type, each in a queue of its own."""

    __slots__ = ("_limits", "_queues")

    def __init__(self, limits: WaitingLimits) -> None:
        """Begin with nothing waiting."""
        self._limits = limits
        self._queues: dict[bytes, _Queue[_Frame]] = {}

    def __len__(self) -> int:
        """Return how many frames wait."""
        return sum(len(queue.frames) for queue in self._queues.values())

    def types(self) -> tuple[bytes, ...]:
        """Return the types of which frames wait."""
        return tuple(self._queues)

    def holds(self, type_id: bytes, stream: Hashable) -> bool:
        """Say whether a frame of this stream waits: a later one must not overtake it."""
        queue = self._queues.get(type_id)
        return queue is not None and stream in queue.streams

    def until(self, now: Instant) -> Instant:
        """Return until when a frame waits that begins to wait now."""
        return Instant(now + self._limits.wait_s * _SECOND)

    def put(
        self,
        type_id: bytes,
        stream: Hashable,
        frame: _Frame,
        *,
        size: int,
        until: Instant,
        is_doubtful: bool = False,
    ) -> bool:
        """Let a frame wait; say whether there was room. What is doubtful leaves half of it to the rest."""
        queue = self._queues.get(type_id)
        if queue is None:
            if len(self._queues) >= self._limits.types:
                return False
            queue = _Queue()
        share = 2 if is_doubtful else 1
        if len(queue.frames) >= self._limits.frames // share:
            return False
        if queue.size + size > self._limits.size_bytes // share:
            return False
        self._queues[type_id] = queue
        queue.put(until, stream, size, frame)
        return True

    def take(self, type_id: bytes) -> list[_Frame]:
        """Return all frames of a type in their order; none of them waits any more."""
        queue = self._queues.pop(type_id, None)
        return [] if queue is None else [frame for _, _, _, frame in queue.frames]

    def take_overdue(self, now: Instant) -> list[_Frame]:
        """Return the frames whose time is over, those of one type in their order."""
        overdue: list[_Frame] = []
        for type_id, queue in list(self._queues.items()):
            while queue.frames and queue.frames[0][0] <= now:
                overdue.append(queue.pop())
            if not queue.frames:
                del self._queues[type_id]
        return overdue

    def next_due(self) -> Instant | None:
        """Return when the first frame gives up."""
        return min((queue.frames[0][0] for queue in self._queues.values()), default=None)
