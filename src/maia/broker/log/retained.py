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
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from maia.broker.links.transit import Transit, from_carried
from maia.broker.rights.authorisation import Authorisation
from maia.events import INSTANT_MIN, Instant
from maia.routing.table.hops import Hop
from maia.wire.columns import is_late
from maia.wire.messages import Carried, CarriedSigned, Released, Sealed, signer_of

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
    if isinstance(frame, Transit):
        signer = b"" if frame.signed is None else frame.signed.signer
        return frame.type_id, frame.publisher.key, frame.stream, signer, topic
    return frame.type_id, frame.publisher, frame.stream, signer_of(frame), topic


def _origin(held: Transit | Carried | Sealed) -> bytes:
    """Return the stream of its publisher that a frame was released from; nothing for any other frame."""
    return (held.origin or b"") if isinstance(held, Transit | Released | CarriedSigned) else b""


def _size_of(held: Transit | Carried | Sealed) -> int:
    """Return about how many bytes a frame holds; columns that are written later do not count."""
    if isinstance(held, Carried):
        return 512 + sum([len(column.data) for column in held.columns])
    if isinstance(held, Sealed):
        return 512 + sum([len(column.sealed) for column in held.columns])
    return 512 + (sum([len(one.data) for one in held.written]) or 64 * held.frame.rows)


class _Line(msgspec.Struct):
    """What is remembered of one stream: the last frame, and those before it, the newest first."""

    last: RetainedFrame
    size: int
    earlier: deque[tuple[RetainedFrame, int]]


class RetainedFrames:
    """The last frames of a bounded number of streams, and of which types they are all there is."""

    __slots__ = ("_bytes", "_complete", "_earlier", "_earlier_bytes", "_of_type", "_own", "_passed")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._own: OrderedDict[_Stream, _Line] = OrderedDict()
        """Streams of publishers here; what was heard longest ago is the first."""
        self._passed: OrderedDict[_Stream, _Line] = OrderedDict()
        """Streams that came by."""
        self._of_type: dict[bytes, dict[_Stream, None]] = {}
        self._complete: dict[bytes, Instant] = {}
        self._bytes = 0
        self._earlier: OrderedDict[_Stream, _Line] = OrderedDict()
        """Those of which frames before the last one are remembered."""
        self._earlier_bytes = 0

    def __len__(self) -> int:
        """Return how many frames are remembered."""
        return len(self._own) + len(self._passed)

    def remember(self, frames: Sequence[RetainedFrame], topic: str = "") -> None:
        """Take note of frames of one stream, or of a row on a topic; an older one is left out."""
        stream, right = _stream_of(frames[0].held, topic), frames[0].right
        lines, others = (self._passed, self._own) if right is None else (self._own, self._passed)
        line = lines.get(stream) or others.get(stream)
        before = None if line is None else line.last
        for frame in frames:
            sequence, size = frame.held.sequence, _size_of(frame.held)
            if line is None:
                self._of_type.setdefault(stream[0], {})[stream] = None
                line = _Line(frame, size, deque())
            else:
                newest = line.last.held.sequence
                if sequence < newest and (stream[3] or is_late(sequence, newest=newest)):
                    continue  # of what is signed, every number below the newest is late
                self._bytes -= line.size
                if sequence != newest:
                    self._remember_earlier(stream, line)
                line.last, line.size = frame, size
            self._bytes += size
        if line is None or line.last is before:
            return
        others.pop(stream, None)
        lines[stream] = line
        lines.move_to_end(stream)
        while self._bytes > _BYTES_MAX or len(self._own) + len(self._passed) > FRAMES_MAX:
            self._forget(next(iter(self._passed or self._own)))

    def _remember_earlier(self, stream: _Stream, line: _Line) -> None:
        earlier, frame, size = line.earlier, line.last, line.size
        if not earlier:
            self._earlier[stream] = line
        if isinstance(frame.held, Transit):
            frame = replace(frame, held=frame.held.as_carried())
        earlier.appendleft((frame, size))
        self._earlier_bytes += size
        if len(earlier) > _EARLIER:
            self._earlier_bytes -= earlier.pop()[1]
        while self._earlier_bytes > _EARLIER_BYTES_MAX:
            _, longest_ago = self._earlier.popitem(last=False)
            self._forget_earlier(longest_ago)

    def _forget_earlier(self, line: _Line) -> None:
        self._earlier_bytes -= sum(size for _, size in line.earlier)
        line.earlier.clear()

    def line(self, frame: Transit | Sealed) -> list[RetainedFrame]:
        """Return what is remembered of the stream of a frame, the last first."""
        return self._line(_stream_of(frame))

    def _line(self, stream: _Stream) -> list[RetainedFrame]:
        line = self._passed.get(stream) or self._own.get(stream)
        return [] if line is None else [line.last, *(one.under(line.last) for one, _ in line.earlier)]

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
        known = {key[:3]: line.last for key, line in self._own.items()}
        for (type_id, publisher, stream), said in known.items():
            yield type_id, publisher, stream, said

    def rest_on(self, type_id: bytes, publisher: bytes, stream: bytes, right: Authorisation) -> None:
        """Take note of the right that a publisher of this broker has from now on."""
        for key in self._of_type.get(type_id, ()):
            line = self._own.get(key)
            if line is not None and key[1:4] == (publisher, stream, b""):
                line.last = replace(line.last, right=right)

    def forget(self, type_id: bytes, publisher: bytes, stream: bytes, came_from: Hop | None = None) -> bool:
        """Forget what was said on a stream, or of that what came from one hop; say whether it was known."""
        gone = [
            key
            for key in self._of_type.get(type_id, ())
            if key[1] == publisher
            and stream in (key[2], _origin(self._line(key)[0].held))
            and came_from in (None, self._line(key)[0].came_from)
        ]
        for key in gone:
            self._forget(key)
        return bool(gone)

    def _forget(self, stream: _Stream) -> None:
        line = self._passed.pop(stream, None) or self._own.pop(stream)
        self._bytes -= line.size
        self._earlier.pop(stream, None)
        self._forget_earlier(line)
        of_type = self._of_type[stream[0]]
        del of_type[stream]
        if not of_type:
            del self._of_type[stream[0]]
        self._complete.pop(stream[0], None)

    # ------------------------------------------------------------ is that everything?

    def is_complete(self, type_id: bytes, now: Instant) -> bool:
        """Return whether all neighbours were asked not long ago, and everything passed here since."""
        return now < self._complete.get(type_id, _LONG_AGO)

    def complete(self, type_id: bytes, until: Instant) -> None:
        """Take note that all neighbours have answered, and that what is published up to then passes here."""
        self._complete[type_id] = until

    def incomplete(self, type_id: bytes) -> None:
        """Take note that something may be published that does not pass here."""
        self._complete.pop(type_id, None)
