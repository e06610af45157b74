"""Can a frame be cut to fewer rows and still be provable?

Yes, to whole blocks: a broker that opened all of a frame keeps the blocks in
which a row is wanted, and seals again what is left, under a mark of its
own. What the signer signed stays as it was. A frame of one block, or one that
was not opened entirely, goes on whole: receivers match rows again anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from maia.errors import BadInput
from maia.sealing.frames.blocks import array_header, path_to
from maia.sealing.frames.ciphers import EpochKeys, frame_binding, nonce
from maia.sealing.frames.content import LEVEL_NUMBERS, OpenColumn, parts_of, plaintext_of
from maia.sealing.frames.opened_frame import OpenedFrame, SaidBySigner
from maia.sealing.frames.sealer import Sealer, ciphers_for
from maia.wire.messages import Column, Sealed, SealedColumn

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


def _paths(opened: OpenedFrame, keys: EpochKeys, left: Sequence[int]) -> dict[str, bytes]:
    """Return what leads from the blocks that are left to what the signer said of each column."""
    said, columns = SaidBySigner(opened, keys), opened.frame.columns
    known = [opened.leaves.get(column.uid) for column in columns]
    leaves: Sequence[Sequence[bytes]] = [one for one in known if one is not None]
    if len(leaves) < len(columns):
        leaves = said.leaves([opened.parts[column.uid] for column in columns])
    count = len(opened.divided.counts)
    return {
        column.uid: path_to(said.tree(column, of_column), left, count=count)
        for column, of_column in zip(columns, leaves, strict=True)
    }


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
    paths = _paths(opened, keys, left)
    said = {column.uid: column.commitment for column in frame.columns}
    binding, number = frame_binding(opened.described, mark, left), nonce(mark)
    sealed = []
    parts = parts_of(columns, level=_LEVELS[frame.level])
    ciphers = ciphers_for(keys, tuple([part.uid for part in parts]), mark)
    for part, cipher in zip(parts, ciphers, strict=True):
        ciphertext = cipher.encrypt(number, plaintext_of(part), binding + part.uid.encode())
        sealed.append(SealedColumn(part.uid, ciphertext, said[part.uid], paths[part.uid]))
    return replace(frame, sealed_by=mark, blocks=left, columns=sealed)
