"""Who can read what travels? Sealed frames, the keys that open them, and the groups that share keys."""

from __future__ import annotations

from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.frames.content import BadContent
from maia.sealing.frames.cut import NothingWanted, cut_frame
from maia.sealing.frames.opened_frame import (
    BadSealedFrame,
    BrokenSeal,
    OpenedFrame,
    VerifiedFrame,
    closed_frame,
    contents,
    open_frame,
    open_with_cache,
    verify_frame,
)
from maia.sealing.frames.proof import BATCH_MAX, BadFrameProof, SignatureChecks
from maia.sealing.frames.sealer import (
    BadBatch,
    BadDivision,
    Draft,
    KeyMissing,
    Publication,
    Sealer,
    SealerWornOut,
)
from maia.sealing.keys.secrets import SECRET_BYTES, BadSecret, Secret, SecretForgotten

__all__ = [
    "BATCH_MAX",
    "SECRET_BYTES",
    "BadBatch",
    "BadContent",
    "BadDivision",
    "BadFrameProof",
    "BadSealedFrame",
    "BadSecret",
    "BrokenSeal",
    "Draft",
    "EpochKeys",
    "KeyMissing",
    "NothingWanted",
    "OpenedFrame",
    "Publication",
    "Sealer",
    "SealerWornOut",
    "Secret",
    "SecretForgotten",
    "SignatureChecks",
    "VerifiedFrame",
    "closed_frame",
    "contents",
    "cut_frame",
    "open_frame",
    "open_with_cache",
    "verify_frame",
]
