"""What does a blinded frame hide beside its events?

Who published them, as which number of which stream, and when. On the outside
stands the publisher's broker with a stream of its own, so that neither a
publisher nor a number leads from one blinded id to the next. All of it is in
one more column, the envelope, sealed with the others; an envelope without a
publication makes a cover frame. The same column fills a frame up to the size
that the owner chose, so that cover and content are of one form (A55, A100).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from maia.credentials import Principal, principal_from_bytes
from maia.events import Column, Instant, Kind
from maia.sealing.frames.content import BadContent, OpenColumn, OpenPart, content_of
from maia.types.definition import ENVELOPE_UID
from maia.wire.columns import encode_column, kind_to_number
from maia.wire.messages import Column as WireColumn

_COVER: Final = b"\x00"
_EVENTS: Final = b"\x01"
_FIELDS: Final = Struct(">32s16sqq")
ENVELOPE_BYTES: Final = 1 + _FIELDS.size
_SLACK: Final = 16
"""Lengths in front of longer values take some bytes more; content is padded to 64 anyway."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What the envelope of a frame says: the identity of a publication, and its moment."""

    publisher: Principal = field(repr=False)
    stream: bytes = field(repr=False)
    sequence: int
    published_at: Instant


def envelope(inside: Inside | None, *, rows: int, fill: int = 0) -> Column:
    """Return the column of a publication, or of cover, with so many bytes to fill the frame."""
    if inside is None:
        said = _COVER + bytes(_FIELDS.size)
    else:
        moment = +inside.published_at
        said = _EVENTS + _FIELDS.pack(inside.publisher.key, inside.stream, inside.sequence, moment)
    return Column(Kind.BYTES, (said + bytes(fill), *[None] * (rows - 1)))


def fill_bytes(columns: Sequence[WireColumn], *, rows: int, size: int) -> int | None:
    """Return by how much the envelope of these columns is filled up to a size; None if they are longer."""
    bare = envelope(None, rows=rows)
    data = encode_column(bare.kind, bare.values)
    written = [*columns, WireColumn(ENVELOPE_UID, kind_to_number(bare.kind), data)]
    room = size - _SLACK - len(content_of(OpenPart("", list(map(OpenColumn, written)))))
    return room if room >= 0 else None


def read_envelope(column: Column | None) -> Inside | None:
    """Read what an envelope says, None if it is that of a cover frame; refuse what no sealer writes."""
    said = None if column is None or column.kind is not Kind.BYTES or not column.values else column.values[0]
    if not isinstance(said, bytes) or len(said) < ENVELOPE_BYTES or any(said[ENVELOPE_BYTES:]):
        raise BadContent("a blinded frame has no envelope")
    kind, fields = said[:1], said[1:ENVELOPE_BYTES]
    if kind == _COVER and not any(fields):
        return None
    if kind != _EVENTS:
        raise BadContent("the envelope of a blinded frame is neither a publication's nor cover")
    publisher, stream, sequence, moment = _FIELDS.unpack(fields)
    if sequence < 0:
        raise BadContent("the envelope of a blinded frame has no number")
    return Inside(principal_from_bytes(publisher), stream, sequence, Instant(moment))
