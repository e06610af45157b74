"""What does this member see of a sealed frame, and who made it?

Brokers that route, edges that deliver and readers of logs ask. `open_frame`
opens what the member's keys open, and leaves the rest closed. `verify_frame`
then answers with a `VerifiedFrame`, which no other function can make: its signer
signed exactly these rows, whatever broker cut the frame on the way. Anything that
does not hold is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import lru_cache
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Final, final

import msgspec
from cryptography.exceptions import InvalidTag
from msgspec.structs import replace

from maia.credentials import Principal
from maia.credentials.proof import Proof
from maia.errors import BrokenCredential, ProtocolViolation
from maia.events import AttributeUid
from maia.sealing.frames.blocks import (
    Division,
    Known,
    array_header,
    commitment_of,
    division,
    is_division,
    known_tree,
    top_of,
)
from maia.sealing.frames.ciphers import EpochKeys, description, frame_binding, nonce
from maia.sealing.frames.content import (
    LEVEL_NUMBERS,
    OpenColumn,
    OpenPart,
    content_of,
    is_uid,
    leaves_of_parts,
    read_content,
    read_plaintext,
    read_whole_columns,
)
from maia.sealing.frames.proof import BadFrameProof, SignatureChecks, frame_root
from maia.sealing.frames.sealer import Draft, ciphers_for, counter_bytes
from maia.types import SealingLevel
from maia.wire.messages import Column as WireColumn
from maia.wire.messages import Sealed, SealedColumn

_SEAL: Final = object()
_EVENT: Final = LEVEL_NUMBERS[SealingLevel.EVENT]
_NO_LEAVES: Final[Mapping[str, Sequence[bytes]]] = MappingProxyType({})


class BrokenSeal(BrokenCredential):
    """A sealed column does not open: it was altered, moved, or sealed under another key."""

    code = "SEALING-BROKEN"


class BadSealedFrame(ProtocolViolation):
    """The fields of a sealed frame do not fit together."""

    code = "PROTOCOL-SEALED-FRAME"


class OpenedFrame(msgspec.Struct, frozen=True):
    """A sealed frame with what could be opened of it; nothing is known yet about who made it."""

    frame: Sealed
    described: bytes
    divided: Division
    """How the frame was divided when it was signed."""
    rows: int
    """How many rows are here."""
    parts: Mapping[str, OpenPart]
    committed: frozenset[str] = frozenset()
    """Parts that were compared with what the signer said of them already."""
    leaves: Mapping[str, Sequence[bytes]] = _NO_LEAVES
    """What was said of the blocks of a part, where that is known already."""

    @property
    def blocks(self) -> Sequence[int]:
        """Return the numbers of the blocks that are here; none if the frame was signed as one."""
        return self.frame.blocks or self.divided.numbers

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
        """Return the opened columns as they travel in the clear; no value was read yet."""
        return [one.column for part in self.parts.values() for one in part.columns]

    @property
    def is_whole(self) -> bool:
        """Say whether everything was opened."""
        return len(self.parts) == len(self.frame.columns)

    def __repr__(self) -> str:
        """Say which frame it is, and nothing of what is in it."""
        return f"OpenedFrame(sequence={self.frame.sequence}, rows={self.rows})"


@final
@dataclass(frozen=True, slots=True)
class VerifiedFrame(Proof):
    """The proof that `signer` signed the rows and columns that `opened` shows; made by verifying alone.

    Whether the signer may publish them is asked elsewhere.
    """

    opened: OpenedFrame
    signer: Principal
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_frame and verify_further make a VerifiedFrame")


# ------------------------------------------------------------ opening


def closed_frame(frame: Sealed) -> OpenedFrame:
    """Return a frame of which nothing is opened; refuse one whose fields contradict each other."""
    divided = check_shape(frame)
    return OpenedFrame(frame, description(frame), divided, divided.rows_left(frame.blocks), {})


def drafted_frame(draft: Draft) -> OpenedFrame:
    """Return a frame that was drafted here, and is to be signed, as what it is to its sealer: open.

    A single event is neither cut nor sent with its plaintext: nothing of it is asked for.
    """
    frame = draft.frame
    parts = {part.uid: part for part in draft.parts}
    if not parts and frame.block_rows:
        parts = {column.uid: OpenPart(column.uid, [OpenColumn(column)]) for column in draft.columns}
    divided = division(frame.rows, frame.block_rows or 1)
    # Who cuts a frame asks for the leaves of its blocks; one block is never cut.
    leaves = dict(zip(parts, draft.leaves, strict=True)) if divided.numbers else _NO_LEAVES
    return OpenedFrame(frame, draft.described, divided, frame.rows, parts, frozenset(parts), leaves)


def open_frame(
    frame: Sealed, keys: EpochKeys, *, only: Collection[AttributeUid] | None = None
) -> OpenedFrame:
    """Open what `keys` open, or of that only some attributes; refuse a frame with a seal that is broken."""
    return open_further(closed_frame(frame), keys, only=only)


def open_further(
    opened: OpenedFrame, keys: EpochKeys, *, only: Collection[AttributeUid] | None = None
) -> OpenedFrame:
    """Open what is still closed of a frame, or of that only some attributes, as far as `keys` go."""
    frame = opened.frame
    if keys.type_id != frame.type_id or keys.epoch != frame.epoch:
        raise BrokenSeal("a frame cannot be opened with the keys of another type or epoch")
    binding, number = frame_binding(opened.described, frame.sealed_by, frame.blocks), nonce(frame.sealed_by)
    blocks, rows, known = len(opened.blocks), opened.rows, opened.parts
    uids = tuple([column.uid for column in frame.columns])
    parts: dict[str, OpenPart] = {}
    for sealed, cipher in zip(frame.columns, keys.ciphers(uids, frame.sealed_by.instance), strict=True):
        uid = sealed.uid
        if uid in known:
            parts[uid] = known[uid]
        elif cipher is not None and (only is None or not uid or uid in only):
            try:
                plaintext = cipher.decrypt(number, sealed.sealed, binding + uid.encode())
            except InvalidTag:
                raise BrokenSeal(f"the seal of attribute `{uid or '*'}` is broken") from None
            if blocks or not uid:
                parts[uid] = read_plaintext(uid, plaintext, blocks=blocks, rows=rows)
            else:
                (column,) = read_whole_columns([uid], [plaintext], rows)
                parts[uid] = OpenPart(uid, [OpenColumn(column)])
    return replace(opened, parts=parts)


# ------------------------------------------------------------ verifying


def verify_frame(opened: OpenedFrame, keys: EpochKeys | None, checks: SignatureChecks) -> VerifiedFrame:
    """Return the proof of who signed a frame and all that was opened of it; refuse it if anything differs."""
    frame = opened.frame
    if keys is not None:
        _check_commitments(opened, keys)
    elif opened.parts:
        raise BadFrameProof("what was opened cannot be proved without the keys that opened it")
    signer = checks.check(frame, frame_root(opened.described, frame))
    return VerifiedFrame(opened, signer, _SEAL)


def verify_further(verified: VerifiedFrame, opened: OpenedFrame, keys: EpochKeys) -> VerifiedFrame:
    """Return the proof for what was opened of a frame since its signature was verified."""
    if opened.frame is not verified.opened.frame:
        raise BadFrameProof("the signature that was verified is that of another frame")
    _check_commitments(opened, keys)
    return VerifiedFrame(opened, verified.signer, _SEAL)


def _check_commitments(opened: OpenedFrame, keys: EpochKeys) -> None:
    parts, committed = opened.parts, opened.committed
    unproved: Sequence[SealedColumn] = opened.frame.columns
    if committed or len(parts) < len(unproved):
        unproved = [one for one in unproved if one.uid in parts and one.uid not in committed]
    if not opened.frame.block_rows:
        _check_keys(opened.frame, unproved, keys)
    elif unproved:
        SaidBySigner(opened, keys).check(unproved, [parts[column.uid] for column in unproved])


def _check_keys(frame: Sealed, columns: Sequence[SealedColumn], keys: EpochKeys) -> None:
    """Refuse what was opened with another key than its signer named; the ciphertext is what it signed."""
    ciphers = ciphers_for(keys, tuple([column.uid for column in columns]), frame.origin)
    for column, cipher in zip(columns, ciphers, strict=True):
        if column.commitment != cipher.name:
            raise not_what_was_signed(column)


class SaidBySigner:
    """What the signer of a frame said of its content, for those who hold the keys to compare."""

    __slots__ = ("_keys", "_opened")

    def __init__(self, opened: OpenedFrame, keys: EpochKeys) -> None:
        """Compare with what is said of this frame, whatever is opened of it."""
        self._opened, self._keys = opened, keys

    def check(self, columns: Sequence[SealedColumn], parts: Sequence[OpenPart]) -> None:
        """Refuse content of which the signer said something else."""
        if self._opened.frame.blocks:
            for column, leaves in zip(columns, self.leaves(parts), strict=True):
                self.tree(column, leaves)
            return
        said = [leaves[0] if len(leaves) == 1 else commitment_of(leaves) for leaves in self.leaves(parts)]
        for column, commitment in zip(columns, said, strict=True):
            if column.commitment != commitment:
                raise not_what_was_signed(column)

    def leaves(self, parts: Sequence[OpenPart]) -> list[list[bytes]]:
        """Return what is to be said of each block that is here, for each part."""
        opened, origin = self._opened, self._opened.frame.origin
        ciphers = ciphers_for(self._keys, tuple([part.uid for part in parts]), origin)
        start = len(array_header(opened.rows))
        return leaves_of_parts(parts, ciphers, counter_bytes(origin), blocks=opened.blocks, start=start)

    def tree(self, column: SealedColumn, leaves: Sequence[bytes]) -> Known:
        """Return the hashes over a column's blocks; refuse those that do not lead to its commitment."""
        here = dict(zip(self._opened.blocks or (0,), leaves, strict=True))
        tree = known_tree(here, count=len(self._opened.divided.counts), path=column.path)
        if top_of(tree) != column.commitment:
            raise not_what_was_signed(column)
        return tree


def not_what_was_signed(column: SealedColumn) -> BadFrameProof:
    """Return the refusal of a column of which the signer said something else."""
    return BadFrameProof(f"attribute `{column.uid or '*'}` is not what the frame's signer published")


# ------------------------------------------------------------ the shape of a frame


def check_shape(frame: Sealed) -> Division:
    """Return how a frame is divided; refuse one whose fields contradict each other, before any is used."""
    kept, columns = frame.kept, frame.columns
    if kept and (len(kept) != frame.rows or any(b <= a for a, b in pairwise(kept))):
        raise BadSealedFrame("the rows that were kept are not numbered in their order")
    divided = _checked_division(frame)
    if not has_columns(frame.level, tuple([column.uid for column in columns])):
        raise BadSealedFrame("the columns of a sealed frame do not fit its level, or belong to no attribute")
    if not frame.blocks and b"".join([column.path for column in columns]) != b"":
        raise BadSealedFrame("nothing leads to what is said of a column of which all is here")
    return divided


@lru_cache(maxsize=4096)
def has_columns(level: int, uids: tuple[str, ...]) -> bool:
    """Say whether these can be the columns of a frame at a level."""
    if level == _EVENT:
        return uids == ("",)
    return len(set(uids)) == len(uids) and all(map(is_uid, uids))


def _checked_division(frame: Sealed) -> Division:
    size = frame.block_rows or 1
    if not is_division(frame.rows, size) or (not frame.block_rows and frame.rows > 1):
        raise BadSealedFrame("a sealed frame cannot be divided as it says it was")
    blocks, divided = frame.blocks, division(frame.rows, size)
    if not blocks:
        if frame.sealed_by != frame.origin:
            raise BadSealedFrame("a whole frame is sealed by its signer")
        return divided
    count = len(divided.counts)
    if len(blocks) >= count or blocks[-1] >= count or any(b <= a for a, b in pairwise(blocks)):
        raise BadSealedFrame("the blocks of a sealed frame are not some of its blocks in their order")
    return divided


# May a neighbour's plaintext be used in place of opening the ciphertext beside it?


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
    if not frame.block_rows:
        return None  # of a single event, its signer has signed the ciphertext and nothing else
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
