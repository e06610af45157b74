"""What is a sealed column bound to?

To everything around it: a ciphertext that is moved to another attribute,
event, type, epoch, frame or publisher no longer opens (A46; the binding that
the dissertation's section 7.5 leaves open). Signers sign the same description
of the frame, so that sealing again after a cut changes none of it.
The bytes have one form, and no two descriptions share it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from maia.wire.messages import Sealed, SealMark

__all__ = ["NONCE_BYTES", "description", "frame_binding", "nonce"]

NONCE_BYTES: Final = 12

_DOMAIN: Final = b"maia/1/sealed-frame\x00"
_FIXED: Final = Struct(">B32s32s32s16sQqQII16sQI")
_MARK: Final = Struct(">16sQB")


def description(frame: Sealed) -> bytes:
    """Return what the signer says about a frame apart from its content."""
    kept = frame.kept
    fixed = _FIXED.pack(
        frame.level,
        frame.type_id,
        frame.publisher,
        frame.signer,
        frame.stream,
        frame.sequence,
        frame.published_at,
        frame.epoch,
        frame.rows,
        frame.block_rows,
        frame.origin.instance,
        frame.origin.counter,
        len(kept),
    )
    return _DOMAIN + fixed + Struct(f">{len(kept)}H").pack(*kept) if kept else _DOMAIN + fixed


def frame_binding(described: bytes, sealed_by: SealMark, blocks: list[int]) -> bytes:
    """Return what all columns of a frame are bound to: its description, who sealed it, and what is left.

    Each column is bound to this and to its own uid, which comes behind it, and nothing can follow that.
    """
    return described + _MARK.pack(sealed_by.instance, sealed_by.counter, len(blocks)) + bytes(blocks)


def nonce(mark: SealMark) -> bytes:
    """Return the nonce of everything sealed under one mark: its counter, under the keys of its instance."""
    return mark.counter.to_bytes(NONCE_BYTES, "big")
