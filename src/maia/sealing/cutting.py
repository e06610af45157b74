"""Can a frame be cut to fewer rows and still be provable?

Yes, to whole blocks: a broker that opened all of a frame keeps the blocks in
which somebody wants a row, and seals again what is left, under a mark of its
own. What the signer signed stays as it was. A frame of one block, or one that
was not opened entirely, goes on whole: receivers match rows again anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from maia.errors import BadInput
from maia.sealing.associated import frame_binding, nonce
from maia.sealing.blocks import all_blocks, array_header, blocks_with, rows_of_blocks
from maia.sealing.ciphers import EpochKeys
from maia.sealing.content import LEVEL_NUMBERS, OpenColumn, leaves_of, parts_of, plaintext_of
from maia.sealing.frame_proof import BadFrameProof, commitment_of
from maia.sealing.opening import OpenedFrame
from maia.sealing.sealer import Sealer, cipher_for, counter_bytes
from maia.wire.messages import Column, Sealed, SealedColumn

__all__ = ["NothingWanted", "cut_frame"]

_LEVELS: Final = {number: level for level, number in LEVEL_NUMBERS.items()}


class NothingWanted(BadInput):
    """A frame was to be cut to no rows at all, or to rows that it does not have."""

    code = "SEALING-CUT"


def cut_frame(opened: OpenedFrame, wanted: Sequence[int], *, sealer: Sealer, keys: EpochKeys) -> Sealed:
    """Return the frame with the blocks that hold a wanted row, counted among those here; or as it is."""
    frame = opened.frame
    if not wanted or min(wanted) < 0 or max(wanted) >= opened.rows:
        raise NothingWanted("a frame is cut to at least one of its rows")
    here = frame.blocks or all_blocks(frame.rows)
    left = blocks_with(wanted, blocks=frame.blocks, rows=frame.rows)
    if not opened.is_whole or len(left) == len(here) or not here:
        return frame
    columns = [
        _without_other_blocks(one, opened, left) for part in opened.parts.values() for one in part.columns
    ]
    return _sealed_again(opened, columns, left, sealer, keys)


def _leaves(opened: OpenedFrame, column: SealedColumn, keys: EpochKeys) -> bytes:
    """Return what the signer said of every block, from the content if nobody had to say it so far."""
    frame, part = opened.frame, opened.parts[column.uid]
    if frame.blocks:
        return column.commitment
    salt, counter = cipher_for(keys, column.uid, frame.origin).salt, counter_bytes(frame.origin)
    start = len(array_header(frame.rows))
    leaves = leaves_of(part, salt, counter, blocks=all_blocks(frame.rows), start=start)
    if commitment_of(leaves) != column.commitment:
        raise BadFrameProof(f"attribute `{column.uid or '*'}` is not what the frame's signer published")
    return b"".join(leaves)


def _without_other_blocks(one: OpenColumn, opened: OpenedFrame, left: Sequence[int]) -> OpenColumn:
    frame, column = opened.frame, one.column
    here = frame.blocks or all_blocks(frame.rows)
    starts = list(accumulate(one.lengths, initial=len(array_header(opened.rows))))
    places = [here.index(block) for block in left]
    rows = b"".join([column.data[starts[at] : starts[at + 1]] for at in places])
    data = array_header(rows_of_blocks(left, frame.rows)) + rows
    return OpenColumn(Column(column.uid, column.kind, data), tuple([one.lengths[at] for at in places]))


def _sealed_again(
    opened: OpenedFrame, columns: Sequence[OpenColumn], left: list[int], sealer: Sealer, keys: EpochKeys
) -> Sealed:
    frame, mark = opened.frame, sealer.next_mark()
    said = {column.uid: _leaves(opened, column, keys) for column in frame.columns}
    binding, number = frame_binding(opened.described, mark, left), nonce(mark)
    sealed = []
    for part in parts_of(columns, level=_LEVELS[frame.level]):
        cipher = cipher_for(keys, part.uid, mark)
        ciphertext = cipher.encrypt(number, plaintext_of(part), binding + part.uid.encode())
        sealed.append(SealedColumn(part.uid, ciphertext, said[part.uid]))
    return replace(frame, sealed_by=mark, blocks=left, columns=sealed)
