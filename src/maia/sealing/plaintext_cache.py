"""May a neighbour's plaintext be used in place of opening the ciphertext beside it?

A broker with the same right on an attribute sends its content along (K4), and
the receiver asks here. What came is used only if it is what the frame's signer
said of the content: a neighbour that holds the key itself cannot make another
fit (A51). What does not fit is dropped, and the ciphertext is opened instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from maia.errors import BrokenCredential
from maia.events import AttributeUid
from maia.sealing.ciphers import EpochKeys
from maia.sealing.content import OpenPart, content_of, read_content
from maia.sealing.opening import OpenedFrame, SaidBySigner, blocks_and_rows_here, closed_frame, open_frame
from maia.wire.messages import Sealed, SealedColumn

__all__ = ["contents", "open_with_cache"]


def contents(opened: OpenedFrame, uids: Collection[str]) -> dict[str, bytes]:
    """Return the content of those parts (empty: of whole events) that a neighbour has the right to."""
    return {uid: content_of(part) for uid, part in opened.parts.items() if uid in uids}


def open_with_cache(
    frame: Sealed, cached: Mapping[str, bytes], keys: EpochKeys
) -> tuple[OpenedFrame, frozenset[str]]:
    """Open a frame by what came along, and the rest as usual; name what came along and was a lie."""
    closed = closed_frame(frame)
    believed: dict[str, OpenPart] = {}
    for column in frame.columns:
        if column.uid in cached:
            part = _believed(frame, column, cached[column.uid], keys)
            if part is not None:
                believed[column.uid] = part
    lies = frozenset(cached) - frozenset(believed)
    rest = [AttributeUid(column.uid) for column in frame.columns if column.uid not in believed]
    if not rest:
        return replace(closed, parts=believed, committed=frozenset(believed)), lies
    opened = open_frame(frame, keys, only=rest)
    parts = {
        column.uid: part
        for column in frame.columns
        if (part := believed.get(column.uid) or opened.parts.get(column.uid)) is not None
    }
    return replace(opened, parts=parts, committed=frozenset(believed)), lies


def _believed(frame: Sealed, column: SealedColumn, content: bytes, keys: EpochKeys) -> OpenPart | None:
    if keys.type_id != frame.type_id or keys.epoch != frame.epoch:
        return None
    if keys.cipher(AttributeUid(column.uid) or None, frame.origin.instance) is None:
        return None
    blocks, rows = blocks_and_rows_here(frame)
    try:
        part = read_content(column.uid, content, blocks=blocks, rows=rows)
        SaidBySigner(frame, keys).check(column, part)
    except BrokenCredential:
        return None
    return part
