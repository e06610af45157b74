"""What can be wrong with an S-expression, and where?

Readers of bytes name the byte, counted from 0; readers of text name the line
and the column, counted from 1, as editors do.
"""

from __future__ import annotations

from maia.errors import BadInput

__all__ = ["BadSExpression", "NotCanonical", "SExpressionTooLarge"]


class BadSExpression(BadInput):
    """A text or a value is not an S-expression."""

    code = "INPUT-SEXP"


class NotCanonical(BadSExpression):
    """Bytes are not the one canonical encoding of an S-expression."""

    code = "INPUT-SEXP-NOT-CANONICAL"


class SExpressionTooLarge(BadSExpression):
    """An S-expression is longer or nests deeper than its reader allows."""

    code = "INPUT-SEXP-TOO-LARGE"
