"""What do frames of one stream show that arrive together?

A broker asks that reads many single events at once. They have the same columns and keys, so that these
are looked up once. Each frame is proved and opened as `verify_frame`, `open_further` and `verify_further`
do it (`opened_frame.py`), which are the meaning of this file. A run in which any frame is refused is
refused as a whole: one by one, they say which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import InitVar, dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Final, TypeAlias, final

from cryptography.exceptions import InvalidTag

from maia.credentials import Principal
from maia.credentials.proof import Proof
from maia.events import AttributeUid
from maia.sealing.frames.ciphers import EpochKeys, description, frame_binding, nonce
from maia.sealing.frames.content import (
    column_starts,
    leaves_of,
    read_plaintext,
    read_whole_column,
    whole_head,
)
from maia.sealing.frames.opened_frame import BadSealedFrame, BrokenSeal, check_shape, not_what_was_signed
from maia.sealing.frames.proof import SignatureChecks, frame_root
from maia.sealing.frames.sealer import KeyMissing, counter_bytes
from maia.wire.messages import Column, Sealed

__all__ = ["VerifiedRun", "open_run"]

_SEAL: Final = object()
_run_of: Final = attrgetter(
    "type_id", "epoch", "signer", "publisher", "stream", "level", "rows", "kept", "blocks"
)
_Reader: TypeAlias = tuple[int, str, bytes, Callable[[bytes, bytes, bytes], bytes], bytes]
"""Where a column is, its uid, twice, what opens it, and the salt of what is said about it."""


@final
@dataclass(frozen=True, slots=True)
class VerifiedRun(Proof):
    """The proof that `signer` signed these frames, and what was opened of each; made by `open_run` alone."""

    signer: Principal
    columns: Sequence[Sequence[Column]]
    closed: frozenset[str]
    """The uids of what was not opened, the same in all frames."""
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only open_run makes a VerifiedRun")


def open_run(
    frames: Sequence[Sealed],
    keys: EpochKeys | None,
    checks: SignatureChecks,
    *,
    only: Collection[AttributeUid] | None,
) -> VerifiedRun:
    """Prove and open whole frames of one signer, type, epoch, level and number of rows.

    Without `only`, all that `keys` open is opened, and compared with what the signer said of it. With it,
    these attributes are opened for whoever carries the frames; if there are none, the shortest column is,
    so that no broken ciphertext goes through (A66), and nothing is returned of it. Without keys, signatures
    are verified, and nothing is opened.
    """
    first = frames[0]
    check_shape(first)
    run, uids = _run_of(first), tuple([column.uid for column in first.columns])
    if first.kept or first.blocks:
        raise BadSealedFrame("a run is of frames that were not cut")
    if keys is not None and (keys.type_id != first.type_id or keys.epoch != first.epoch):
        raise BrokenSeal("frames cannot be opened with the keys of another type or epoch")
    opened: list[list[Column]] = []
    readers: list[_Reader] = []
    instance = b""
    for frame in frames:
        mark, columns = frame.origin, frame.columns
        if _run_of(frame) != run or mark != frame.sealed_by or frame.rows != frame.block_rows:
            raise BadSealedFrame("a frame is of another run, or in parts")
        if tuple([column.uid for column in columns]) != uids or b"".join([one.path for one in columns]):
            raise BadSealedFrame("frames of a run have other columns than the first")
        described = description(frame)
        signer = checks.check(frame, frame_root(described, columns))
        if keys is not None:
            if mark.instance != instance:
                instance, readers = mark.instance, _readers(keys, uids, mark.instance, only)
            opened.append(_opened(frame, frame_binding(described, mark, []), readers, only))
    if keys is None or (only is not None and not only):
        return VerifiedRun(signer, [()] * len(frames), frozenset(uids), _SEAL)
    return VerifiedRun(signer, opened, frozenset(uids).difference([one[1] for one in readers]), _SEAL)


def _readers(
    keys: EpochKeys, uids: tuple[str, ...], instance: bytes, only: Collection[AttributeUid] | None
) -> list[_Reader]:
    """Return what opens the columns of frames under one instance; refuse to open none of them."""
    readers = [
        (at, uid, uid.encode(), cipher.decrypt, cipher.salt)
        for at, (uid, cipher) in enumerate(zip(uids, keys.ciphers(uids, instance), strict=True))
        if cipher is not None and (not only or not uid or uid in only)
    ]
    if not readers:
        raise KeyMissing(f"no attribute of a frame can be opened in epoch `{keys.epoch}`")
    return readers


def _opened(
    frame: Sealed, binding: bytes, readers: Sequence[_Reader], only: Collection[AttributeUid] | None
) -> list[Column]:
    """Open what is wanted of a frame; without `only`, compare it with what its signer said."""
    columns, number, counter = frame.columns, nonce(frame.origin), counter_bytes(frame.origin)
    starts, start_bytes = column_starts(frame.rows)
    if only is not None and not only:
        readers = [min(readers, key=lambda one: len(columns[one[0]].sealed))]
    opened: list[Column] = []
    for at, uid, name, decrypt, salt in readers:
        sealed = columns[at]
        try:
            plaintext = decrypt(number, sealed.sealed, binding + name)
        except InvalidTag:
            raise BrokenSeal(f"the seal of attribute `{uid or '*'}` is broken") from None
        if uid:
            column = read_whole_column(uid, plaintext, starts, start_bytes)
            opened.append(column)
            if only is not None:
                continue
            values = column.data[start_bytes - 1 :]
            said = sha256(b"".join((salt, counter, whole_head(uid, column.kind), values))).digest()
        else:
            part = read_plaintext("", plaintext, blocks=0, rows=frame.rows)
            opened += [one.column for one in part.columns]
            (said,) = leaves_of(part, salt, counter, blocks=(), start=start_bytes - 1)
        if only is None and said != sealed.commitment:
            raise not_what_was_signed(sealed)
    return opened
