"""Which bytes encode this S-expression when it is hashed, signed or sent?

There is exactly one answer, the canonical form of RFC 9804. The writer works
through an explicit stack, so that no depth of nesting can exhaust Python's.
"""

from __future__ import annotations

from typing import Final

from maia.canonical.errors import BadSExpression
from maia.canonical.expression import Hinted, SExpression

__all__ = ["write_canonical"]

# Stands on the stack where a list must be closed. No expression is None, so it cannot be mistaken.
_CLOSE: Final = None

_LENGTHS: Final = tuple(b"%d:" % length for length in range(128))


def write_canonical(expression: SExpression) -> bytes:
    """Return the canonical form of `expression`."""
    parts: list[bytes] = []
    pending: list[SExpression | None] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, bytes):
            # Joining three pieces is faster than formatting them, which shows in every certificate.
            length = len(node)
            parts += (_LENGTHS[length] if length < 128 else b"%d:" % length, node)
        elif isinstance(node, tuple):
            parts.append(b"(")
            pending.append(_CLOSE)
            pending.extend(reversed(node))
        elif node is _CLOSE:
            parts.append(b")")
        elif isinstance(node, Hinted):
            parts.append(b"[%d:%b]%d:%b" % (len(node.hint), node.hint, len(node.text), node.text))
        else:
            raise BadSExpression(
                f"a `{type(node).__name__}` is neither bytes nor a tuple nor a hinted string"
            )
    return b"".join(parts)
