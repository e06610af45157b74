"""How does a person read this S-expression?

In the advanced form of RFC 9804: words as they are, text in quotes,
keys and digests in hexadecimal, longer binary strings in base64, and lists
that do not fit on a line are spread over several. Only printable ASCII is
written, so that no two different strings look alike; `read_advanced` gives
back exactly what was written.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

from maia.canonical.errors import BadSExpression
from maia.canonical.expression import Hinted, SExpression

__all__ = ["write_advanced"]

_COLUMNS: Final = 100
_INDENT: Final = 2
# Beyond this depth the indentation stops growing, or deep nesting would take quadratic space.
_INDENT_MAX: Final = 60
_HEX_MAX: Final = 64

_TOKEN: Final = re.compile(rb"[A-Za-z\-./_:*+=][A-Za-z0-9\-./_:*+=]*")
_TEXT: Final = re.compile(rb"[\x20-\x7e\t\n\r]*")
_ESCAPES: Final = {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def write_advanced(expression: SExpression) -> str:
    """Return `expression` as text for people; it ends without a line break."""
    parts: list[str] = []
    pending: list[str | tuple[SExpression, int]] = [(expression, 0)]
    while pending:
        work = pending.pop()
        if isinstance(work, str):
            parts.append(work)
            continue
        node, indent = work
        line = _on_one_line(node, _COLUMNS - indent)
        if line is not None:
            parts.append(line)
        elif isinstance(node, tuple):
            pending.extend(reversed(_spread(node, indent)))
        else:
            parts.append(_shown(node))
    return "".join(parts)


def _spread(node: tuple[SExpression, ...], indent: int) -> list[str | tuple[SExpression, int]]:
    """Return the work of writing a list over several lines: its head beside the bracket, the rest below."""
    inner = min(indent + _INDENT, _INDENT_MAX)
    work: list[str | tuple[SExpression, int]] = ["("]
    for position, child in enumerate(node):
        if position:
            work.append("\n" + " " * inner)
        work.append((child, inner))
    work.append(")")
    return work


def _on_one_line(expression: SExpression, room: int) -> str | None:
    """Return the expression on one line, or None as soon as it is known not to fit."""
    parts: list[str] = []
    used = 0
    pending: list[SExpression | str] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            if len(node) > room:
                return None
            pending.append(")")
            for position, child in enumerate(reversed(node)):
                if position:
                    pending.append(" ")
                pending.append(child)
            node = "("
        part = node if isinstance(node, str) else _shown(node)
        used += len(part)
        if used > room:
            return None
        parts.append(part)
    return "".join(parts)


def _shown(node: SExpression) -> str:
    match node:
        case bytes():
            return _shown_string(node)
        case Hinted(hint, text):
            return f"[{_shown_string(hint)}]{_shown_string(text)}"
    raise BadSExpression(f"a `{type(node).__name__}` is neither bytes nor a tuple nor a hinted string")


def _shown_string(text: bytes) -> str:
    if _TOKEN.fullmatch(text):
        return text.decode("ascii")
    if _TEXT.fullmatch(text) or _is_text(text):
        return '"' + "".join(map(_shown_byte, text)) + '"'
    if len(text) <= _HEX_MAX:
        return f"#{text.hex()}#"
    return f"|{b64encode(text).decode('ascii')}|"


def _is_text(text: bytes) -> bool:
    """Say whether a person would take the bytes for words in some language rather than for a key."""
    try:
        return text.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _shown_byte(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
