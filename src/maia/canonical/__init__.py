"""S-expressions (RFC 9804): what Maia hashes, signs and sends, and how people read it."""

from maia.canonical.advanced_reader import read_advanced
from maia.canonical.advanced_writer import write_advanced
from maia.canonical.errors import BadSExpression, NotCanonical, SExpressionTooLarge
from maia.canonical.expression import DEFAULT_LIMITS, Hinted, Limits, SExpression
from maia.canonical.reader import read_canonical
from maia.canonical.writer import write_canonical

__all__ = [
    "DEFAULT_LIMITS",
    "BadSExpression",
    "Hinted",
    "Limits",
    "NotCanonical",
    "SExpression",
    "SExpressionTooLarge",
    "read_advanced",
    "read_canonical",
    "write_advanced",
    "write_canonical",
]
