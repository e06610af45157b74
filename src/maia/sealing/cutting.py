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
from maia.sealing.block_tree import path_to
from maia.sealing.blocks import array_header
from maia.sealing.ciphers import EpochKeys
from maia.sealing.content import LEVEL_NUMBERS, OpenColumn, parts_of, plaintext_of
from maia.sealing.opening import OpenedFrame, SaidBySigner
from maia.sealing.sealer import Sealer, cipher_for
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
    here = opened.blocks
    left = opened.divided.blocks_with(wanted, blocks=frame.blocks)
    if not opened.is_whole or len(left) == len(here) or not here:
        return frame
    columns = [
        _without_other_blocks(one, opened, left) for part in opened.parts.values() for one in part.columns
    ]
    return _sealed_again(opened, columns, left, sealer, keys)


def _path(opened: OpenedFrame, column: SealedColumn, said: SaidBySigner, left: Sequence[int]) -> bytes:
    """Return what leads from the blocks that are left to what the signer said of the column."""
    uid = column.uid
    leaves = opened.leaves.get(uid) or said.leaves(column, opened.parts[uid])
    return path_to(said.tree(column, leaves), left, count=len(opened.divided.counts))


def _without_other_blocks(one: OpenColumn, opened: OpenedFrame, left: Sequence[int]) -> OpenColumn:
    column = one.column
    here = opened.blocks
    starts = list(accumulate(one.lengths, initial=len(array_header(opened.rows))))
    places = [here.index(block) for block in left]
    rows = b"".join([column.data[starts[at] : starts[at + 1]] for at in places])
    data = array_header(opened.divided.rows_left(left)) + rows
    return OpenColumn(Column(column.uid, column.kind, data), tuple([one.lengths[at] for at in places]))


def _sealed_again(
    opened: OpenedFrame, columns: Sequence[OpenColumn], left: list[int], sealer: Sealer, keys: EpochKeys
) -> Sealed:
    frame, mark = opened.frame, sealer.next_mark()
    said = SaidBySigner(frame, keys)
    columns_of = {column.uid: column for column in frame.columns}
    binding, number = frame_binding(opened.described, mark, left), nonce(mark)
    sealed = []
    for part in parts_of(columns, level=_LEVELS[frame.level]):
        cipher = cipher_for(keys, part.uid, mark)
        ciphertext = cipher.encrypt(number, plaintext_of(part), binding + part.uid.encode())
        column = columns_of[part.uid]
        path = _path(opened, column, said, left)
        sealed.append(SealedColumn(part.uid, ciphertext, column.commitment, path))
    return replace(frame, sealed_by=mark, blocks=left, columns=sealed)
