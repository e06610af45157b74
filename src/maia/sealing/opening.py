"""What does this member see of a sealed frame, and who made it?

Brokers that route, edges that deliver and readers of logs ask. `open_frame`
opens what the member's keys open, and leaves the rest closed. `verify_frame`
then answers with a `VerifiedFrame`, which nobody else can make: its signer
signed exactly these rows, whoever cut the frame on the way. Anything that
does not hold is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import chain, pairwise
from typing import Final, NoReturn, cast, final

from cryptography.exceptions import InvalidTag

from maia.credentials import Principal
from maia.errors import BrokenCredential, ProtocolViolation
from maia.events import AttributeUid
from maia.sealing.associated import description, frame_binding, nonce
from maia.sealing.block_tree import Known, commitment_of, known_tree, top_of
from maia.sealing.blocks import Division, array_header, division, is_division
from maia.sealing.ciphers import EpochKeys
from maia.sealing.content import LEVEL_NUMBERS, OpenPart, is_uid, leaves_of, read_plaintext
from maia.sealing.frame_proof import (
    BadFrameProof,
    SignatureChecks,
    frame_root,
)
from maia.sealing.sealer import Draft, cipher_for, counter_bytes
from maia.types import SealingLevel
from maia.wire.messages import Column as WireColumn
from maia.wire.messages import Sealed, SealedColumn

__all__ = [
    "BadSealedFrame",
    "BrokenSeal",
    "OpenedFrame",
    "VerifiedFrame",
    "closed_frame",
    "drafted_frame",
    "open_frame",
    "open_rest",
    "verify_frame",
]

_SEAL: Final = object()
_EVENT: Final = LEVEL_NUMBERS[SealingLevel.EVENT]


class BrokenSeal(BrokenCredential):
    """A sealed column does not open: it was altered, moved, or sealed under another key."""

    code = "SEALING-BROKEN"


class BadSealedFrame(ProtocolViolation):
    """The fields of a sealed frame do not fit together."""

    code = "PROTOCOL-SEALED-FRAME"


@dataclass(frozen=True, slots=True)
class OpenedFrame:
    """A sealed frame with what could be opened of it; nothing is known yet about who made it."""

    frame: Sealed
    described: bytes = field(repr=False)
    parts: Mapping[str, OpenPart] = field(repr=False)
    committed: frozenset[str] = frozenset()
    """Parts that were compared with what the signer said of them already."""
    leaves: Mapping[str, Sequence[bytes]] = field(default_factory=dict, repr=False)
    """What was said of the blocks of a part, where that is known already."""

    @property
    def divided(self) -> Division:
        """Return how the frame was divided when it was signed."""
        return division(self.frame.rows, self.frame.block_rows)

    @property
    def blocks(self) -> Sequence[int]:
        """Return the numbers of the blocks that are here; none if the frame was signed as one."""
        return self.frame.blocks or self.divided.numbers

    @property
    def rows(self) -> int:
        """Return how many rows are here."""
        return rows_here(self.frame)

    @property
    def row_numbers(self) -> list[int]:
        """Return the numbers of the rows here in the publisher's frame; empty if all of it is here."""
        frame = self.frame
        if not frame.blocks:
            return frame.kept
        here = chain.from_iterable(map(self.divided.rows_of, frame.blocks))
        return [frame.kept[row] for row in here] if frame.kept else list(here)

    @property
    def columns(self) -> list[WireColumn]:
        """Return the opened columns as they travel in the clear; no value was looked at yet."""
        return [one.column for part in self.parts.values() for one in part.columns]

    @property
    def is_whole(self) -> bool:
        """Say whether everything was opened."""
        return len(self.parts) == len(self.frame.columns)


@final
@dataclass(frozen=True, slots=True)
class VerifiedFrame:
    """The proof that `signer` signed the rows and columns that `opened` shows. Only `verify_frame` makes it.

    Whether the signer may publish them is asked elsewhere.
    """

    opened: OpenedFrame
    signer: Principal
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse to be built by anybody but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_frame makes a VerifiedFrame")

    def __init_subclass__(cls) -> None:
        """Refuse sub-classes, which could leave the check out."""
        raise TypeError("a VerifiedFrame has no sub-classes")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled: bytes from elsewhere are no proof."""
        raise TypeError("a VerifiedFrame cannot be pickled; send the sealed frame and verify it again")


# ------------------------------------------------------------ opening


def closed_frame(frame: Sealed) -> OpenedFrame:
    """Return a frame of which nothing is opened, for those who hold no key."""
    _check_shape(frame)
    return OpenedFrame(frame, description(frame), {})


def drafted_frame(draft: Draft) -> OpenedFrame:
    """Return a frame that was drafted here, and is to be signed, as what it is to its sealer: open."""
    parts = {part.uid: part for part in draft.parts}
    leaves = dict(zip(parts, draft.leaves, strict=True))
    return OpenedFrame(draft.frame, draft.described, parts, frozenset(parts), leaves)


def open_frame(
    frame: Sealed, keys: EpochKeys, *, only: Collection[AttributeUid] | None = None
) -> OpenedFrame:
    """Open what `keys` open, or of that only some attributes; refuse a frame with a seal that is broken."""
    _check_shape(frame)
    if keys.type_id != frame.type_id or keys.epoch != frame.epoch:
        raise BrokenSeal("a frame cannot be opened with the keys of another type or epoch")
    described = description(frame)
    binding = frame_binding(described, frame.sealed_by, frame.blocks)
    number, instance = nonce(frame.sealed_by), frame.sealed_by.instance
    blocks, rows = blocks_and_rows_here(frame)
    parts: dict[str, OpenPart] = {}
    for column in frame.columns:
        uid = column.uid
        if only is not None and uid and uid not in only:
            continue
        cipher = keys.cipher(cast("AttributeUid", uid) or None, instance)  # checked with the shape
        if cipher is None:
            continue
        try:
            plaintext = cipher.decrypt(number, column.sealed, binding + uid.encode())
        except InvalidTag:
            raise BrokenSeal(f"the seal of attribute `{uid or '*'}` is broken") from None
        parts[uid] = read_plaintext(uid, plaintext, blocks=blocks, rows=rows)
    return OpenedFrame(frame, described, parts)


def open_rest(opened: OpenedFrame, keys: EpochKeys) -> OpenedFrame:
    """Open what is still closed, as far as `keys` go."""
    frame = opened.frame
    closed = [AttributeUid(column.uid) for column in frame.columns if column.uid not in opened.parts]
    found = {**opened.parts, **open_frame(frame, keys, only=closed).parts}
    parts = {column.uid: found[column.uid] for column in frame.columns if column.uid in found}
    return replace(opened, parts=parts)


def rows_here(frame: Sealed) -> int:
    """Return how many rows are left of a frame."""
    return blocks_and_rows_here(frame)[1]


def blocks_and_rows_here(frame: Sealed) -> tuple[int, int]:
    """Return how many blocks are here (0 if the frame was signed as one), and how many rows."""
    divided, blocks = division(frame.rows, frame.block_rows), frame.blocks
    return len(blocks or divided.numbers), divided.rows_left(blocks)


# ------------------------------------------------------------ verifying


def verify_frame(opened: OpenedFrame, keys: EpochKeys | None, checks: SignatureChecks) -> VerifiedFrame:
    """Return the proof of who signed a frame and all that was opened of it; refuse it if anything differs."""
    frame = opened.frame
    if keys is not None:
        _check_commitments(opened, keys)
    elif opened.parts:
        raise BadFrameProof("what was opened cannot be proved without the keys that opened it")
    signer = checks.check(frame, frame_root(opened.described, frame.columns))
    return VerifiedFrame(opened, signer, _SEAL)


def _check_commitments(opened: OpenedFrame, keys: EpochKeys) -> None:
    said = SaidBySigner(opened.frame, keys)
    for column in opened.frame.columns:
        part = opened.parts.get(column.uid)
        if part is not None and column.uid not in opened.committed:
            said.check(column, part)


class SaidBySigner:
    """What the signer of a frame said of its content, for those who hold the keys to compare."""

    __slots__ = ("_blocks", "_count", "_counter", "_frame", "_keys", "_start")

    def __init__(self, frame: Sealed, keys: EpochKeys) -> None:
        """Look once at what all columns share."""
        self._frame, self._keys = frame, keys
        divided = division(frame.rows, frame.block_rows)
        self._blocks, self._count = frame.blocks or divided.numbers, len(divided.counts)
        self._start = len(array_header(rows_here(frame)))
        self._counter = counter_bytes(frame.origin)

    def check(self, column: SealedColumn, part: OpenPart) -> None:
        """Refuse content of which the signer said something else."""
        leaves = self.leaves(column, part)
        if self._frame.blocks:
            self.tree(column, leaves)
        elif column.commitment != commitment_of(leaves):
            raise _not_what_was_signed(column)

    def leaves(self, column: SealedColumn, part: OpenPart) -> list[bytes]:
        """Return what is to be said of each block that is here."""
        salt = cipher_for(self._keys, column.uid, self._frame.origin).salt
        return leaves_of(part, salt, self._counter, blocks=self._blocks, start=self._start)

    def tree(self, column: SealedColumn, leaves: Sequence[bytes]) -> Known:
        """Return the hashes over a column's blocks; refuse those that do not lead to its commitment."""
        here = dict(zip(self._blocks or (0,), leaves, strict=True))
        tree = known_tree(here, count=self._count, path=column.path)
        if top_of(tree) != column.commitment:
            raise _not_what_was_signed(column)
        return tree


def _not_what_was_signed(column: SealedColumn) -> BadFrameProof:
    return BadFrameProof(f"attribute `{column.uid or '*'}` is not what the frame's signer published")


# ------------------------------------------------------------ the shape of a frame


def _check_shape(frame: Sealed) -> None:
    """Refuse a frame whose fields contradict each other, before anything is computed from them."""
    if frame.kept and (len(frame.kept) != frame.rows or any(b <= a for a, b in pairwise(frame.kept))):
        raise BadSealedFrame("the rows that were kept are not numbered in their order")
    _check_blocks(frame)
    uids = [column.uid for column in frame.columns]
    if (uids != [""]) if frame.level == _EVENT else ("" in uids or len(set(uids)) != len(uids)):
        raise BadSealedFrame("the columns of a sealed frame do not fit its level")
    if frame.level != _EVENT and not all(map(is_uid, uids)):
        raise BadSealedFrame("a column of a sealed frame belongs to no attribute")
    if not frame.blocks and any(column.path for column in frame.columns):
        raise BadSealedFrame("nothing leads to what is said of a column of which all is here")


def _check_blocks(frame: Sealed) -> None:
    if not is_division(frame.rows, frame.block_rows):
        raise BadSealedFrame("a sealed frame cannot be divided as it says it was")
    blocks = frame.blocks
    if not blocks:
        if frame.sealed_by != frame.origin:
            raise BadSealedFrame("a whole frame is sealed by whoever signed it")
        return
    count = len(division(frame.rows, frame.block_rows).counts)
    if len(blocks) >= count or blocks[-1] >= count or any(b <= a for a, b in pairwise(blocks)):
        raise BadSealedFrame("the blocks of a sealed frame are not some of its blocks in their order")
