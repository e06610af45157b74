"""S-expressions (RFC 9804): what Maia hashes, signs and sends, and how people read it."""

from maia.canonical.advanced import read_advanced, write_advanced
from maia.canonical.expression import (
    DEFAULT_LIMITS,
    BadSExpression,
    Hinted,
    Limits,
    SExpression,
    read_canonical,
    write_canonical,
)

__all__ = [
    "DEFAULT_LIMITS",
    "BadSExpression",
    "Hinted",
    "Limits",
    "SExpression",
    "read_advanced",
    "read_canonical",
    "write_advanced",
    "write_canonical",
]
