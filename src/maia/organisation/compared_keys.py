"""Is the key in a file the one that its holder means?

A file that came by mail may have been swapped on the way, and its name is what
the sender chose (A125). Before such a key is given anything, a person compares it with what
its holder says on another way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from maia.credentials import Principal
from maia.errors import BadInput

_PREFIX: Final = "ed25519:"
_GROUP: Final = 8
_DIGITS_MIN: Final = 32
"""Fewer digits can be hit by trying keys."""


class KeyNotCompared(BadInput):
    """A file holds a key that is not known here, and nobody has said that it was compared."""

    code = "INPUT-KEY-NOT-COMPARED"

    def __init__(self, file: Path, key: Principal) -> None:
        self.file, self.key = file, key
        super().__init__(
            f"`{file}` holds the key {in_groups(key)}, which you do not know: compare it with what its "
            "holder tells you on another way, and say `--key` with what you were told"
        )


def in_groups(key: Principal) -> str:
    """Return a key as two people read it to each other."""
    digits = str(key).removeprefix(_PREFIX)
    return " ".join(digits[at : at + _GROUP] for at in range(0, len(digits), _GROUP))


def is_same_key(key: Principal, told: str) -> bool:
    """Return whether this is the key, or enough of its beginning."""
    digits = "".join(told.lower().removeprefix(_PREFIX).split())
    return len(digits) >= _DIGITS_MIN and str(key).removeprefix(_PREFIX).startswith(digits)
