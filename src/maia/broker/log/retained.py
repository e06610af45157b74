"""What did each publisher publish last?

A new subscriber may ask for the present state of a type before it waits for news
(dissertation 6.3.1). The broker of a publisher remembers the last frame that it took
on from it, with its right; other brokers remember frames that pass whole, and use them for a
lease after they have asked all neighbours (6.3.2). All of it is bounded: what passed longest ago
is forgotten first, and asked for again when it is wanted. What passes takes no room from the
publishers of this broker. When a publisher's right is taken away, its last frame goes,
here and at every broker that it passed (A37).

The last frame of a stream may be withheld from a subscriber that got the one before it. For it, that
one is still the state: otherwise it would see its state vanish, and know that something was withheld
(A91). So some frames before the last one are remembered, and each asker gets the last that it may see.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr, replace

from maia.broker.links.transit import Transit, from_carried
from maia.broker.rights.authorisation import Authorisation
from maia.events import INSTANT_MIN, Instant
from maia.routing.table.hops import Hop
from maia.wire.columns import is_late
from maia.wire.messages import Carried, Sealed

if TYPE_CHECKING:
    pass


FRAMES_MAX: Final = 4096
_BYTES_MAX: Final = 32 << 20
_EARLIER: Final = 15
"""How many frames before the last one are remembered of a stream."""
REMEMBERED: Final = 1 + _EARLIER
"""How many frames of a stream are remembered in all."""
_EARLIER_BYTES_MAX: Final = 16 << 20
_LONG_AGO: Final = Instant(INSTANT_MIN)

_Stream = tuple[bytes, bytes, bytes, bytes, str]
"""A type, a publisher, one of its streams, who signed it (empty for a plain frame), and on which topic.

Frames of one signer are kept beside those of another, and never in their place: their
reader checks the signers (A90).
"""


class RetainedFrame(msgspec.Struct, frozen=True):
    """One of the last frames of a stream, as it travelled; or as it can be read here, if it is of topics.

    A frame is hardly ever asked for, and the values of many would slow down all that a broker does.
    """

    held: Transit | Carried | Sealed
    heard_at: Instant
    came_from: Hop
    right: Authorisation | None = None
    """What a publisher of this broker wrote it under, to be asked about again; None if it came by."""
    consents: tuple[Authorisation, ...] = ()
    """What lets it be seen as this type, if its publisher wrote it as a sub-type."""
    row: int = 0
    """The last event on its topic, where the frame is one of topics."""
    size: int = 0
    """About how many bytes it held when it was remembered; columns that are written later do not count."""

    def __post_init__(self) -> None:
        """Work out how much it takes."""
        held, size = self.held, 512
        if isinstance(held, Carried):
            size += sum([len(column.data) for column in held.columns])
        elif isinstance(held, Sealed):
            size += sum([len(column.sealed) for column in held.columns])
        elif held.written:
            size += sum([len(one.data) for one in held.written.values()])
        else:
            size += 64 * held.frame.rows
        force_setattr(self, "size", size)

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"RetainedFrame(sequence={self.held.sequence}, came_from={self.came_from!r})"

    @property
    def frame(self) -> Transit | Sealed:
        """Return the frame, read if it is a plain one."""
        return from_carried(self.held, {}) if isinstance(self.held, Carried) else self.held

    def under(self, last: RetainedFrame) -> RetainedFrame:
        """Return an earlier frame of a stream: what lets the last one be passed on lets this one."""
        return replace(self, right=last.right, consents=last.consents)

    @property
    def rights(self) -> tuple[Authorisation, ...]:
        """Return every right that lets it be passed on; nothing for what came by."""
        return () if self.right is None else (self.right, *self.consents)


Shows: TypeAlias = Callable[[RetainedFrame], bool]
"""Says whether an asker may see something of a frame."""


def _last_rows(rows: list[RetainedFrame]) -> RetainedFrame:
    """Return one frame with the last events on topics out of it, which say that they are a part of one."""
    said = rows[0]
    whole = said.frame
    assert isinstance(whole, Transit)  # noqa: S101 - the topics of others are not remembered
    part = whole.cut(sorted({one.row for one in rows}))
    return replace(said, held=replace(part, kept=part.kept or list(range(part.frame.rows))))


def _stream_of(frame: Transit | Carried | Sealed, topic: str = "") -> _Stream:
    if isinstance(frame, Carried):
        return frame.type_id, frame.publisher, frame.stream, b"", topic
    if isinstance(frame, Sealed):
        return frame.type_id, frame.publisher, frame.stream, frame.signer, topic
    return frame.type_id, frame.publisher.key, frame.stream, b"", topic


class RetainedFrames:
    """The last frames of a bounded number of streams, and of which types they are all there is."""

    __slots__ = ("_bytes", "_complete", "_earlier", "_earlier_bytes", "_frames", "_of_type", "_passed")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._frames: OrderedDict[_Stream, RetainedFrame] = OrderedDict()
        self._passed: dict[_Stream, None] = {}
        """Those of the frames that came by, in the same order."""
        self._of_type: dict[bytes, dict[_Stream, None]] = {}
        self._complete: dict[bytes, Instant] = {}
        self._bytes = 0
        self._earlier: OrderedDict[_Stream, deque[RetainedFrame]] = OrderedDict()
        """The frames before the last one, the newest first."""
        self._earlier_bytes = 0

    def __len__(self) -> int:
        """Return how many frames are remembered."""
        return len(self._frames)

    def remember(self, last: RetainedFrame, topic: str = "") -> bool:
        """Take note of a frame, or of a row on a topic; say whether it is not older than the one known."""
        stream, sequence = _stream_of(last.held, topic), last.held.sequence
        known = self._frames.get(stream)
        if known is None:
            self._of_type.setdefault(stream[0], {})[stream] = None
        else:
            newest = known.held.sequence
            if sequence < newest and (stream[3] or is_late(sequence, newest=newest)):
                return False  # of what is signed, every number below the newest is late
            self._bytes -= known.size
            if sequence != newest:
                self._remember_earlier(stream, known)
        self._frames[stream] = last
        self._frames.move_to_end(stream)
        self._passed.pop(stream, None)
        if last.right is None:
            self._passed[stream] = None
        self._bytes += last.size
        while len(self._frames) > FRAMES_MAX or self._bytes > _BYTES_MAX:
            self._forget(next(iter(self._passed or self._frames)))
        return True

    def _remember_earlier(self, stream: _Stream, frame: RetainedFrame) -> None:
        earlier = self._earlier.get(stream)
        if earlier is None:
            earlier = self._earlier[stream] = deque()
        if isinstance(frame.held, Transit):
            frame = replace(frame, held=frame.held.as_carried())
        earlier.appendleft(frame)
        self._earlier_bytes += frame.size
        if len(earlier) > _EARLIER:
            self._earlier_bytes -= earlier.pop().size
        while self._earlier_bytes > _EARLIER_BYTES_MAX:
            _, gone = self._earlier.popitem(last=False)
            self._earlier_bytes -= sum(one.size for one in gone)

    def line(self, frame: Transit | Sealed) -> list[RetainedFrame]:
        """Return what is remembered of the stream of a frame, the last first."""
        return self._line(_stream_of(frame))

    def _line(self, stream: _Stream) -> list[RetainedFrame]:
        said = self._frames.get(stream)
        if said is None:
            return []
        earlier = self._earlier.get(stream, ())
        return [said, *(one.under(said) for one in earlier)]

    def of_type(
        self, type_id: bytes, shows: Shows = lambda _said: True
    ) -> Iterator[tuple[bytes, bytes, RetainedFrame]]:
        """Yield publisher, stream and last frame that shows something, of all that published a type.

        Of topics these are, for each stream in the order of their numbers, the frames that hold the last
        event on some topic, cut to these events.
        """
        cut: dict[tuple[bytes, bytes, int], list[RetainedFrame]] = {}
        for stream in list(self._of_type.get(type_id, ())):
            is_topic = bool(stream[4])
            line = self._line(stream)
            said = next((one for one in line if shows(_last_rows([one]) if is_topic else one)), None)
            if said is None:
                continue
            if is_topic:
                cut.setdefault((stream[1], stream[2], said.frame.sequence), []).append(said)
            else:
                yield stream[1], stream[2], said
        for publisher, number, sequence in sorted(cut):
            rows = cut[publisher, number, sequence]
            yield publisher, number, _last_rows(rows)

    def under_rights(self) -> Iterator[tuple[bytes, bytes, bytes, RetainedFrame]]:
        """Yield type, publisher, stream and last frame of every publisher of this broker."""
        known = {key[:3]: said for key, said in self._frames.items() if said.right is not None}
        for (type_id, publisher, stream), said in known.items():
            yield type_id, publisher, stream, said

    def rest_on(self, type_id: bytes, publisher: bytes, stream: bytes, right: Authorisation) -> None:
        """Take note of the right that a publisher of this broker has from now on."""
        for key in self._of_type.get(type_id, ()):
            known = self._frames[key]
            if key[1:4] == (publisher, stream, b"") and known.right is not None:
                renewed = self._frames[key] = replace(known, right=right)
                self._bytes += renewed.size - known.size

    def forget(self, type_id: bytes, publisher: bytes, stream: bytes, came_from: Hop | None = None) -> bool:
        """Forget what was said on a stream, or of that what came from one hop; say whether it was known."""
        gone = [
            key
            for key in self._of_type.get(type_id, ())
            if key[1:3] == (publisher, stream) and came_from in (None, self._frames[key].came_from)
        ]
        for key in gone:
            self._forget(key)
        return bool(gone)

    def _forget(self, stream: _Stream) -> None:
        self._bytes -= self._frames.pop(stream).size
        self._earlier_bytes -= sum(one.size for one in self._earlier.pop(stream, ()))
        self._passed.pop(stream, None)
        of_type = self._of_type[stream[0]]
        del of_type[stream]
        if not of_type:
            del self._of_type[stream[0]]
        self._complete.pop(stream[0], None)

    # ------------------------------------------------------------ is that everything?

    def is_complete(self, type_id: bytes, now: Instant) -> bool:
        """Say whether all neighbours were asked not long ago, and everything passed here since."""
        return now < self._complete.get(type_id, _LONG_AGO)

    def complete(self, type_id: bytes, until: Instant) -> None:
        """Take note that all neighbours have answered, and that what is published up to then passes here."""
        self._complete[type_id] = until

    def incomplete(self, type_id: bytes) -> None:
        """Take note that something may be published that does not pass here."""
        self._complete.pop(type_id, None)
