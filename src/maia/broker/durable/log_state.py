"""What has this broker recorded, what is on its way to the disk, and what waits for that?

A recording broker numbers the frames that it takes on: the number is the
frame's position in the event log. Answers that promise safety wait here until
the disk has promised it. The newest frames stay in memory, so that durable
subscriptions that have caught up cost no reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.broker.durable.cursors import Cursor
from maia.broker.sessions.links import Link
from maia.broker.settings import RecordingSettings
from maia.types import VerifiedType
from maia.wire.effects import Effect, LogAtStart, Logged

__all__ = ["LogAtStart", "NO_LOG", "Recording"]

_TAIL_FRAMES: Final = 4096
_TAIL_BYTES: Final = 8 << 20


NO_LOG: Final = LogAtStart()


@dataclass(slots=True)
class Recording:
    """The event log of one broker, as far as the broker knows it."""

    settings: RecordingSettings
    link: Link
    """In place of a client: what this broker wants for its own log stands here."""
    next_position: int = 1
    upto: int = 0
    """Everything up to here is safe."""
    unsafe: dict[int, tuple[bytes, Logged]] = field(default_factory=dict, repr=False)
    """What is on its way to the disk, with its type, by position."""
    waiting: deque[tuple[int, Effect]] = field(default_factory=deque, repr=False)
    """What may be done once everything up to a position is safe."""
    tail: deque[tuple[bytes, Logged]] = field(default_factory=deque, repr=False)
    """The newest safe frames with their types, without gaps."""
    tail_bytes: int = 0
    unsafe_bytes: int = 0
    cursors: dict[tuple[bytes, str], Cursor] = field(default_factory=dict, repr=False)
    """By principal's key and name."""
    reads: dict[int, Cursor] = field(default_factory=dict, repr=False)
    """Who waits for which reading of the log."""
    last_read: int = 0

    def records(self, type_id: bytes, versions: tuple[VerifiedType, ...]) -> bool:
        """Say whether frames of a type are recorded here; `versions` are those that are known.

        Of a type without a known definition nothing is recorded unless its id was chosen: other
        ids can be made up, and would fill the disk (A90).
        """
        chosen = self.settings.types
        if chosen is None:
            return bool(versions)
        return type_id.hex() in chosen or any(version.name.name in chosen for version in versions)

    def number(self, type_id: bytes, frame: Logged) -> None:
        """Take note of a frame that goes to the disk, at the next position."""
        self.unsafe[frame.position] = (type_id, frame)
        self.unsafe_bytes += len(frame.data)
        self.next_position = frame.position + 1

    def replace(self, frame: Logged) -> None:
        """Put in the bytes of a frame that was numbered before it was signed."""
        type_id, _ = self.unsafe[frame.position]
        self.unsafe[frame.position] = (type_id, frame)
        self.unsafe_bytes += len(frame.data)

    def made_safe(self, upto: int) -> list[Effect]:
        """Move what is safe now to the tail, and return what waited for that."""
        for position in range(self.upto + 1, min(upto, self.next_position - 1) + 1):
            type_id, frame = self.unsafe.pop(position)
            self.unsafe_bytes -= len(frame.data)
            self._remember(type_id, frame)
        self.upto = max(self.upto, upto)
        released: list[Effect] = []
        while self.waiting and self.waiting[0][0] <= self.upto:
            released.append(self.waiting.popleft()[1])
        return released

    def once_safe(self, effect: Effect) -> list[Effect]:
        """Return an effect if all that was numbered so far is safe; otherwise it waits for that."""
        if self.upto + 1 == self.next_position:
            return [effect]
        self.waiting.append((self.next_position - 1, effect))
        return []

    def _remember(self, type_id: bytes, frame: Logged) -> None:
        self.tail.append((type_id, frame))
        self.tail_bytes += len(frame.data)
        while len(self.tail) > _TAIL_FRAMES or (self.tail_bytes > _TAIL_BYTES and len(self.tail) > 1):
            _, oldest = self.tail.popleft()
            self.tail_bytes -= len(oldest.data)

    def in_tail(self, position: int) -> bool:
        """Say whether everything from a position on is in memory."""
        return bool(self.tail) and position >= self.tail[0][1].position

    def status(self) -> Mapping[str, object]:
        """Return what an operator asks for."""
        attached = [cursor for cursor in self.cursors.values() if cursor.is_attached]
        behind = [max(0, self.upto - cursor.seen) for cursor in self.cursors.values()]
        return {
            "position": self.upto,
            "unsafe": self.next_position - 1 - self.upto,
            "unsafe_bytes": self.unsafe_bytes,
            "types": len(self.link.subscriptions),
            "cursors": len(self.cursors),
            "cursors_attached": len(attached),
            "farthest_behind": max(behind, default=0),
        }
