"""May a neighbour's plaintext be used in place of opening the ciphertext beside it?

A broker with the same right on an attribute sends its content along (K4), and
the receiver asks here. What came is used only if it is what the frame's signer
said of the content: a neighbour that holds the key itself cannot make another
fit (A51). What does not fit is dropped, and the ciphertext is opened instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from maia.errors import BrokenCredential
from maia.events import AttributeUid
from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.frames.content import OpenPart, content_of, read_content
from maia.sealing.frames.opened_frame import OpenedFrame, SaidBySigner, open_further
from maia.wire.messages import SealedColumn

__all__ = ["contents", "open_with_cache"]


def contents(opened: OpenedFrame, uids: Collection[str]) -> dict[str, bytes]:
    """Return the content of those parts (empty: of whole events) that a neighbour has the right to."""
    return {uid: content_of(part) for uid, part in opened.parts.items() if uid in uids}


def open_with_cache(
    closed: OpenedFrame, cached: Mapping[str, bytes], keys: EpochKeys
) -> tuple[OpenedFrame, frozenset[str]]:
    """Open a frame by what came along, and the rest as usual; name what came along and was a lie."""
    believed: dict[str, OpenPart] = {}
    for column in closed.frame.columns:
        if column.uid in cached:
            part = _believed(closed, column, cached[column.uid], keys)
            if part is not None:
                believed[column.uid] = part
    opened = replace(closed, parts=believed, committed=frozenset(believed))
    if len(believed) < len(closed.frame.columns):
        opened = open_further(opened, keys)
    return opened, frozenset(cached) - frozenset(believed)


def _believed(closed: OpenedFrame, column: SealedColumn, content: bytes, keys: EpochKeys) -> OpenPart | None:
    frame = closed.frame
    if keys.type_id != frame.type_id or keys.epoch != frame.epoch:
        return None
    if keys.cipher(AttributeUid(column.uid) or None, frame.origin.instance) is None:
        return None
    try:
        part = read_content(column.uid, content, blocks=len(closed.blocks), rows=closed.rows)
        SaidBySigner(closed, keys).check([column], [part])
    except BrokenCredential:
        return None
    return part
