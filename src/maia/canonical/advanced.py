"""Which S-expression did a person write?

Reads the advanced form of RFC 9804: words, quoted text, `#hex#`, `|base64|`,
`5:exact`, `[hint]text`, lists, white space between them, and one transport
form `{base64}`. What is signed is never this text but the canonical form of
what it says. Anything that the RFC does not define, comments included, is
refused with its line and column.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final, NoReturn

from maia.canonical.expression import (
    DEFAULT_LIMITS,
    BadSExpression,
    Hinted,
    Limits,
    SExpression,
    read_canonical,
)

_SPACE: Final = re.compile(r"[ \t\v\f\r\n]*")
_TOKEN: Final = re.compile(r"[A-Za-z\-./_:*+=][A-Za-z0-9\-./_:*+=]*")
_LENGTH: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})(?=[:\"#|])")
# Everything up to the next quote that no backslash hides; it cannot backtrack.
_QUOTED: Final = re.compile(r"(?:[^\"\\]|\\[\s\S])*+\"")
_PLAIN: Final = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]+")
_ESCAPE: Final = re.compile(r"\\(?:([btvnfr\"'?\\])|([0-3][0-7]{2})|x([0-9A-Fa-f]{2})|(\r\n|\n\r|\r|\n))")
_LETTERS: Final = {
    "b": b"\b", "t": b"\t", "v": b"\v", "n": b"\n", "f": b"\f", "r": b"\r",
    '"': b'"', "'": b"'", "?": b"?", "\\": b"\\",
}  # fmt: skip
_DROP_SPACE: Final = str.maketrans("", "", " \t\v\f\r\n")

# Text is longer than its bytes: `\x00` and spread-out lists spend several characters a byte.
_TEXT_FACTOR: Final = 8


def read_advanced(text: str, limits: Limits = DEFAULT_LIMITS) -> SExpression:
    """Return the expression that `text` describes, in the advanced form of RFC 9804."""
    if len(text) > _TEXT_FACTOR * limits.size_max:
        raise BadSExpression(
            "INPUT-SEXP-TOO-LARGE",
            f"{len(text)} characters are more than the {_TEXT_FACTOR * limits.size_max} allowed",
        )
    return _AdvancedReader(text, limits).read()


class _AdvancedReader:
    """A place in a text, and the means to read on from there."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits = text, limits
        self.at = 0

    def read(self) -> SExpression:
        """Read one expression and the white space around it, and nothing else."""
        outer: list[list[SExpression]] = []
        items: list[SExpression] = []
        while True:
            self.skip_space()
            following = self.text[self.at : self.at + 1]
            if following == "(":
                if len(outer) >= self.limits.depth_max:
                    self.refuse_size(f"lists nest deeper than {self.limits.depth_max}")
                outer.append(items)
                items = []
                self.at += 1
                continue
            if following == ")" and outer:
                outer[-1].append(tuple(items))
                items = outer.pop()
                self.at += 1
            elif following == "{" and not outer:
                items.append(self.read_transport())
            else:
                items.append(self.read_string())
            if not outer:
                return self.finished(items[0])

    def finished(self, expression: SExpression) -> SExpression:
        """Return the expression if nothing follows it."""
        self.skip_space()
        if self.at != len(self.text):
            self.refuse("the expression has ended, and more text follows")
        return expression

    def read_string(self) -> bytes | Hinted:
        """Read a string, with or without a display hint."""
        if self.text[self.at : self.at + 1] != "[":
            return self.read_plain_string()
        self.at += 1
        self.skip_space()
        began = self.at
        hint = self.read_plain_string()
        if not hint:
            self.refuse("a display hint must not be empty", began)
        self.skip_space()
        self.expect("]")
        self.skip_space()
        return Hinted(hint, self.read_plain_string())

    def read_plain_string(self) -> bytes:
        """Read a word, or a string in one of the four other notations."""
        began = self.at
        if word := _TOKEN.match(self.text, self.at):
            self.at = word.end()
            return self.checked_string(word.group().encode("ascii"), None, began)
        length = self.read_length()
        match self.text[self.at : self.at + 1]:
            case ":" if length is not None:
                string = self.read_verbatim(length)
            case '"':
                string = self.read_quoted()
            case "#":
                string = self.read_hexadecimal()
            case "|":
                string = self.read_base64("|")
            case "":
                self.refuse("the text ends in the middle of an expression")
            case other:
                self.refuse(f"`{ascii(other)[1:-1]}` cannot begin a string or a list")
        return self.checked_string(string, length, began)

    def read_length(self) -> int | None:
        """Read the optional length before a string."""
        found = _LENGTH.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        return int(found.group())

    def checked_string(self, string: bytes, length: int | None, began: int) -> bytes:
        """Return the string if it is as long as it claims, and no longer than allowed."""
        if length is not None and length != len(string):
            self.refuse(f"the string says that it has {length} bytes, and has {len(string)}", began)
        if len(string) > self.limits.atom_max:
            self.refuse_size(f"a string is longer than the {self.limits.atom_max} bytes allowed", began)
        return string

    def read_verbatim(self, length: int) -> bytes:
        """Read exactly as many characters as promised; in a text they must be ASCII."""
        self.at += 1
        taken = self.text[self.at : self.at + length]
        if not taken.isascii():
            self.refuse("a verbatim string holds a character outside ASCII; write it in hexadecimal")
        self.at += len(taken)
        return taken.encode("ascii")

    def read_quoted(self) -> bytes:
        """Read text in quotes and replace its escapes."""
        found = _QUOTED.match(self.text, self.at + 1)
        if not found:
            self.refuse("a quoted string does not end")
        end = found.end() - 1
        self.at += 1
        parts: list[bytes] = []
        while self.at < end:
            plain = _PLAIN.match(self.text, self.at, end)
            if plain:
                parts.append(plain.group().encode("ascii"))
                self.at = plain.end()
            else:
                parts.append(self.read_escape(end))
        self.at = end + 1
        return b"".join(parts)

    def read_escape(self, end: int) -> bytes:
        """Read one escape; a raw control character is refused."""
        escape = _ESCAPE.match(self.text, self.at, end)
        if not escape:
            self.refuse(
                "a quoted string holds an unknown escape, or an unprintable or non-ASCII character "
                "that must be written as `\\xhh`"
            )
        self.at = escape.end()
        letter, octal, hexadecimal, _line_break = escape.groups()
        if letter:
            return _LETTERS[letter]
        if octal:
            return bytes((int(octal, 8),))
        return bytes.fromhex(hexadecimal) if hexadecimal else b""

    def read_hexadecimal(self) -> bytes:
        """Read `#…#`."""
        began = self.at
        digits = self.read_until("#")
        # `bytes.fromhex` skips some white space by itself, which we have removed; what is left is digits.
        if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits):
            self.refuse("a hexadecimal string needs an even number of digits between `#` and `#`", began)
        return bytes.fromhex(digits)

    def read_base64(self, closing: str) -> bytes:
        """Read base64 up to its closing character; padding may be left out, stray bits may not be set."""
        began = self.at
        digits = self.read_until(closing)
        bare = digits.rstrip("=")
        if len(digits) - len(bare) not in (0, -len(bare) % 4):
            self.refuse("a base64 string has the wrong padding", began)
        try:
            string = b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except (binascii.Error, ValueError):
            self.refuse("a base64 string holds a character or a length that base64 does not have", began)
        if binascii.b2a_base64(string, newline=False).rstrip(b"=") != bare.encode("ascii"):
            self.refuse("a base64 string ends in bits that mean nothing", began)
        return string

    def read_transport(self) -> SExpression:
        """Read `{…}`: the canonical form in base64."""
        began = self.at
        data = self.read_base64("}")
        try:
            return read_canonical(data, self.limits)
        except BadSExpression as problem:
            self.refuse(f"the transport form does not hold a canonical expression: {problem.message}", began)

    def read_until(self, closing: str) -> str:
        """Return the text before `closing`, without white space, and step over it."""
        end = self.text.find(closing, self.at + 1)
        if end < 0:
            self.refuse(f"there is no closing `{closing}`")
        taken = self.text[self.at + 1 : end].translate(_DROP_SPACE)
        self.at = end + 1
        return taken

    def skip_space(self) -> None:
        """Step over white space."""
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()

    def expect(self, character: str) -> None:
        """Step over one character, which must be there."""
        if self.text[self.at : self.at + 1] != character:
            self.refuse(f"`{character}` was expected")
        self.at += 1

    def refuse(self, problem: str, at: int | None = None) -> NoReturn:
        """Say what is wrong, and where."""
        raise BadSExpression(f"{problem} ({self.place(at)})")

    def refuse_size(self, problem: str, at: int | None = None) -> NoReturn:
        """Say what is too large, and where."""
        raise BadSExpression("INPUT-SEXP-TOO-LARGE", f"{problem} ({self.place(at)})")

    def place(self, at: int | None) -> str:
        """Return line and column as an editor counts them."""
        before = self.text[: self.at if at is None else at]
        return f"line {before.count(chr(10)) + 1}, column {len(before) - (before.rfind(chr(10)) + 1) + 1}"


# Writing it for people.


_COLUMNS: Final = 100
_INDENT: Final = 2
# Beyond this depth the indentation stops growing, or deep nesting would take quadratic space.
_INDENT_MAX: Final = 60
_HEX_MAX: Final = 64

_PLAIN_TOKEN: Final = re.compile(rb"[A-Za-z\-./_:*+=][A-Za-z0-9\-./_:*+=]*")
_TEXT: Final = re.compile(rb"[\x20-\x7e\t\n\r]*")
_ESCAPES: Final = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r", ord('"'): '\\"', ord("\\"): "\\\\"}


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
    if _PLAIN_TOKEN.fullmatch(text):
        return text.decode("ascii")
    if _TEXT.fullmatch(text) or _is_text(text):
        return '"' + "".join(map(_shown_byte, text)) + '"'
    if len(text) <= _HEX_MAX:
        return f"#{text.hex()}#"
    return f"|{b64encode(text).decode('ascii')}|"


def _is_text(text: bytes) -> bool:
    """Return whether a person would take the bytes for words in some language rather than for a key."""
    try:
        return text.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _shown_byte(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
