"""What is an S-expression, and how large may one be?

An S-expression is a string of bytes, a string with a display hint, or a list
of S-expressions (RFC 9804, section 4). A string is Python's `bytes` and a
list is a `tuple`, so that an expression is frozen and costs nothing to build.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.canonical.errors import BadSExpression

__all__ = ["DEFAULT_LIMITS", "Hinted", "Limits", "SExpression"]


@dataclass(frozen=True, slots=True)
class Hinted:
    """A string with a hint on how to show it, such as `[text/plain]`; the hint is never empty."""

    hint: bytes
    text: bytes

    def __post_init__(self) -> None:
        """Refuse an empty hint: it says nothing, and would be a second way to say it."""
        if not self.hint:
            raise BadSExpression("a display hint must not be empty")


SExpression: TypeAlias = "bytes | Hinted | tuple[SExpression, ...]"


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an S-expression a reader accepts."""

    size_max: int = 1 << 20
    depth_max: int = 128
    atom_max: int = 1 << 20


DEFAULT_LIMITS: Final = Limits()
