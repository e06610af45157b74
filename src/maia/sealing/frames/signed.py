"""Who signed these frames, which travel in the clear?

The frames of a type whose protection is `signed` are plaintext, and its publisher's broker signs them, those
of one turn together, in the same way as sealed ones (`proof.py`). What is signed is the whole frame:

    root <- "maia/1/signed-frame", type, publisher, signer, stream, number, moments of publication and of
            signature, right, hash of what is said of the publisher, rows, the class it is for and the
            publisher's stream, numbers of the rows in the publisher's frame, uids and kinds of the columns,
            their lengths, their bytes

Nothing can be left out of it and nothing be put in: brokers pass a signed frame on as it came
(docs/decisions/signed-types.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Final

import msgspec

from maia.credentials import Principal
from maia.sealing.frames.proof import SignatureChecks
from maia.sealing.frames.sealer import NOT_SIGNED, Draft
from maia.wire.columns import LayoutKey, by_column
from maia.wire.messages import Author, Carried, CarriedSigned, FrameSignature

_ROOT: Final = b"maia/1/signed-frame\x00"
_ABOUT: Final = Struct(">32s32s32s16sQqq32s32sIIB")
_COLUMN: Final = Struct(">HB")
_NO_AUTHOR: Final = bytes(32)
_NO_VIEW: Final = 0xFF
_NO_STREAM: Final = bytes(16)
_NOTHING_SAID: Final = Author(b"", b"")
_ENCODER: Final = msgspec.msgpack.Encoder()


def draft_signed(frame: Carried, signer: Principal, *, right: bytes, at: int) -> Draft:
    """Return a plain frame with the place for a signature, and the hash that is to be signed."""
    return drafts_signed([frame], signer, right=right, at=at)[0]


def drafts_signed(frames: Iterable[Carried], signer: Principal, *, right: bytes, at: int) -> list[Draft]:
    """Return plain frames with the places for their signatures, and the hashes that are to be signed."""
    signature = FrameSignature(signer.key, right, +at, NOT_SIGNED, 0, [])
    drafted = [_drafted(one, signature) for one in frames]
    return [
        Draft(one, root, one.columns) for one, root in zip(drafted, roots_of_signed(drafted), strict=True)
    ]


def _drafted(frame: Carried, signature: FrameSignature) -> CarriedSigned:
    label = frame.type_id, frame.publisher, frame.stream, frame.sequence, frame.published_at
    about: tuple[Author | None, bytes | None, bytes | None] = None, None, None
    if type(frame) is not Carried:  # nearly always it is
        author: Author | None = getattr(frame, "author", None)
        about = (
            None if author == _NOTHING_SAID else author,
            getattr(frame, "view", None),
            getattr(frame, "origin", None),
        )
    return CarriedSigned(*label, frame.rows, frame.kept, frame.columns, *about, signature)


def signer_of_run(frames: Sequence[CarriedSigned], checks: SignatureChecks) -> Principal:
    """Return who signed frames of one signer; refuse any that is not exactly as it was signed."""
    return checks.check([one.signed for one in frames], roots_of_signed(frames))


def roots_of_signed(frames: Sequence[CarriedSigned]) -> list[bytes]:
    """Return the hashes of frames; the columns of single events, which are alike, are gone through once."""
    alike = by_column([one.columns for one in frames]) if len(frames) > 1 else None
    if not alike:
        return [root_of_signed(one) for one in frames]
    names, lengths = _names(tuple([(uid, kind) for uid, kind, _ in alike]))
    by_frame = zip(*[data for _, _, data in alike], strict=True)
    return [_root(frame, names, lengths, data) for frame, data in zip(frames, by_frame, strict=True)]


def root_of_signed(frame: CarriedSigned) -> bytes:
    """Return the hash of a frame that its signature covers."""
    columns = frame.columns
    names, lengths = _names(tuple([(one.uid, one.kind) for one in columns]))
    return _root(frame, names, lengths, [one.data for one in columns])


def _root(frame: CarriedSigned, names: bytes, lengths: Struct, data: Sequence[bytes]) -> bytes:
    signed, kept, author, view = frame.signed, frame.kept, frame.author, frame.view
    about = _ABOUT.pack(
        frame.type_id,
        frame.publisher,
        signed.signer,
        frame.stream,
        frame.sequence,
        frame.published_at,
        signed.signed_at,
        signed.right,
        _NO_AUTHOR if author is None else sha256(_ENCODER.encode(author)).digest(),
        frame.rows,
        len(kept),
        _NO_VIEW if view is None else len(view),
    )
    numbers = _numbers(len(kept)).pack(*kept) if kept else b""
    released = b"" if view is None else view + (frame.origin or _NO_STREAM)
    said = (_ROOT, about, released, numbers, names, lengths.pack(*map(len, data)), *data)
    return sha256(b"".join(said)).digest()


@lru_cache(maxsize=4096)
def _names(columns: LayoutKey) -> tuple[bytes, Struct]:
    """Return what is said of the columns of frames that have the same, and how their lengths are written."""
    names = [(uid.encode(), kind) for uid, kind in columns]
    said = b"".join([_COLUMN.pack(len(name), kind) + name for name, kind in names])
    return len(columns).to_bytes(2, "big") + said, Struct(f">{len(columns)}I")


@lru_cache(maxsize=256)
def _numbers(count: int) -> Struct:
    return Struct(f">{count}H")
