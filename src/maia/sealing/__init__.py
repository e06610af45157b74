"""Who can read what travels? Sealed frames, the keys that open them, and the groups that share keys."""

from __future__ import annotations

from maia.sealing.secrets import SECRET_BYTES, BadSecret, Secret, SecretForgotten

__all__ = ["SECRET_BYTES", "BadSecret", "Secret", "SecretForgotten"]
