"""Which number has a frame in its stream, what does a subscriber see of that, and does it come too late?

A publisher numbers the frames of its stream, and brokers route, order and remember them by these
numbers. A subscriber gets labels in their place: a number would say how many frames it did not get, and a
restriction is to withhold without a trace (A91). A label is a hash of the stream, which is
random and which no subscriber learns, so that nobody else finds the number behind it; and it is the same at
every broker, so that a frame that comes again, over another broker, is recognised.

Without a signature a number or a moment proves nothing, so none may silence what comes after
it (A85): a frame is late if it is a little older than the newest one, and one that is far older says
that the newest was no true one, or that its publisher has begun anew. Either way the stream
goes on from there.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final

NUMBERS_BEHIND_MAX: Final = 1 << 16
"""How many numbers below the newest one are late: far more frames than overtake each other."""
TIME_BEHIND_MAX: Final = 600_000_000
"""How many microseconds before the newest one are late: far longer than a frame takes on its way."""
_LABEL_BYTES: Final = 16
_STREAMS_REMEMBERED: Final = 4096
_FRAME: Final = b"maia/1/frame-label\x00"
_STREAM: Final = b"maia/1/stream-label\x00"


def is_late(sequence: int, *, newest: int) -> bool:
    """Say whether a frame was published before the newest one of its stream, as far as numbers tell."""
    return newest - NUMBERS_BEHIND_MAX <= sequence < newest


def is_published_late(published_at: int, *, newest: int) -> bool:
    """Say the same to a subscriber, which has no number: by the moments of publication."""
    return newest - TIME_BEHIND_MAX <= published_at < newest


@lru_cache(maxsize=_STREAMS_REMEMBERED)
def stream_label(publisher: bytes, stream: bytes) -> bytes:
    """Return what subscribers tell a publisher's stream by."""
    return sha256(_STREAM + publisher + stream).digest()[:_LABEL_BYTES]


def frame_label(publisher: bytes, stream: bytes, sequence: int) -> bytes:
    """Return what subscribers recognise a frame by, and what its publisher signs in place of its number."""
    return sha256(_FRAME + publisher + stream + sequence.to_bytes(8, "big")).digest()[:_LABEL_BYTES]
