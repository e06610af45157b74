"""Which frames lie in these rows of a log, as far as this reader needs them?

A row of the log is a frame: its header, and the bytes of each attribute in a
column of their own. A reader who needs three attributes of thirty reads three
columns. What was not read is left out of a plain frame. Of a sealed one it
stays closed: the signer's word on every column is in the header, so the proof
needs no byte that was not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from maia.errors import ProtocolViolation
from maia.events import AttributeUid
from maia.log.format.rows import SEALED_COLUMN, BadRow, column_name
from maia.wire.codec import decode
from maia.wire.messages import Carried, Sealed

__all__ = ["columns_to_read", "frame_of_row", "frames_in"]

HEADER: Final = "header"
_UNREAD: Final = bytes(16)
"""Stands for a sealed column that was not read; as short as the protocol allows, and it never opens."""
_PARTED: Final = 4


def columns_to_read(uids: Collection[AttributeUid]) -> tuple[str, ...]:
    """Return the columns of the log that a reader of these attributes needs."""
    return (HEADER, SEALED_COLUMN, *(column_name(uid) for uid in uids))


# Any: pyarrow is not typed.
def frames_in(batch: Any, type_id: bytes) -> Iterator[Carried | Sealed]:
    """Yield the frames of a batch that are of this type; what is no frame is left out."""
    names: list[str] = batch.schema.names
    headers = batch.column(names.index(HEADER)).to_pylist()
    columns = {name: batch.column(at).to_pylist() for at, name in enumerate(names) if name != HEADER}
    for row, header in enumerate(headers):
        try:
            frame = frame_of_row(header, {name: values[row] for name, values in columns.items()})
        except (ProtocolViolation, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # bytes that are no message of today; the log keeps them all the same
        if frame.type_id == type_id:
            yield frame


def frame_of_row(header: bytes, parts: Mapping[str, bytes | None]) -> Carried | Sealed:
    """Put a frame together from its header and from those of its columns that were read."""
    found = msgspec.msgpack.decode(header)
    if isinstance(found, list) and len(found) == _PARTED and found[0] == 1:
        return _filled(found, parts)
    if isinstance(found, list) and len(found) == 2 and isinstance(found[1], bytes):
        frame = decode(found[1])
        if isinstance(frame, Carried | Sealed):
            return frame
    raise BadRow("the header of a row has an unknown form")


def _filled(found: Sequence[Any], parts: Mapping[str, bytes | None]) -> Carried | Sealed:
    """Fill the holes of a parted message, and read it as strictly as if it had come from the network."""
    _, columns_at, hole_at, skeleton = found
    try:
        is_sealed = skeleton[0] == _SEALED_NUMBER
        read = []
        for column in skeleton[columns_at]:
            name = column_name(column[0])
            part = parts.get(name, _UNREAD if is_sealed else None)
            if part is None:
                if name in parts:
                    raise BadRow("the bytes of an attribute are missing from a row")
                continue
            column[hole_at] = part
            read.append(column)
        skeleton[columns_at] = read
    except (IndexError, TypeError, KeyError) as problem:
        raise BadRow("the header of a row is none") from problem
    # The number at the start distinguishes the union, which the type of `convert` cannot say.
    return cast("Carried | Sealed", msgspec.convert(skeleton, type=Carried | Sealed))


_SEALED_NUMBER: Final = Sealed.__struct_config__.tag
