"""Who can read what travels? Sealed frames, the keys that open them, and the groups that share keys."""

from __future__ import annotations

from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.frames.content import LEVEL_NUMBERS, BadContent, plaintexts_by_uid
from maia.sealing.frames.opener import (
    BadSealedFrame,
    BrokenSeal,
    SealedRun,
    VerifiedRun,
    open_run,
    read_run,
    verify,
)
from maia.sealing.frames.proof import BATCH_MAX, BadFrameProof, SignatureChecks
from maia.sealing.frames.sealer import BadBatch, Draft, KeyMissing, Publication, Sealer, SealerWornOut
from maia.sealing.keys.secrets import SECRET_BYTES, BadSecret, Secret, SecretForgotten

__all__ = [
    "BATCH_MAX",
    "LEVEL_NUMBERS",
    "SECRET_BYTES",
    "BadBatch",
    "BadContent",
    "BadFrameProof",
    "BadSealedFrame",
    "BadSecret",
    "BrokenSeal",
    "Draft",
    "EpochKeys",
    "KeyMissing",
    "Publication",
    "SealedRun",
    "Sealer",
    "SealerWornOut",
    "Secret",
    "SecretForgotten",
    "SignatureChecks",
    "VerifiedRun",
    "open_run",
    "plaintexts_by_uid",
    "read_run",
    "verify",
]
