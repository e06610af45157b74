"""Who can read what travels? Sealed frames, the keys that open them, and the groups that share keys."""

from __future__ import annotations

from maia.sealing.frames.ciphers import EpochKeys
from maia.sealing.frames.content import LEVEL_NUMBERS, plaintexts_by_uid
from maia.sealing.frames.opener import SealedRun, VerifiedRun, open_run, read_run, verify
from maia.sealing.frames.proof import BATCH_MAX, SignatureChecks
from maia.sealing.frames.sealer import Draft, Publication, Sealer
from maia.sealing.keys.secrets import SECRET_BYTES, BadSecret, Secret

__all__ = [
    "BATCH_MAX",
    "LEVEL_NUMBERS",
    "SECRET_BYTES",
    "BadSecret",
    "Draft",
    "EpochKeys",
    "Publication",
    "SealedRun",
    "Sealer",
    "Secret",
    "SignatureChecks",
    "VerifiedRun",
    "open_run",
    "plaintexts_by_uid",
    "read_run",
    "verify",
]
