"""What is an S-expression, and how large may one be?

An S-expression is a string of bytes, a string with a display hint, or a list
of S-expressions (RFC 9804, section 4). A string is Python's `bytes` and a
list is a `tuple`, so that an expression is frozen and costs nothing to build.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from maia.errors import BadInput

# Errors, with their place.


class BadSExpression(BadInput):
    """A text or a value is not an S-expression."""

    code = "INPUT-SEXP"


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


# Reading the canonical form.


_HINT_OPEN: Final = ord("[")
_HINT_CLOSE: Final = ord("]")
_ZERO: Final = ord("0")

# A length field longer than this cannot be true: no size limit comes near it.
_DIGITS_MAX: Final = 12

# Canonical decimals and their values: one lookup both checks and converts the usual length field.
_SMALL: Final = {b"%d" % number: number for number in range(1000)}


def read_canonical(data: bytes, limits: Limits = DEFAULT_LIMITS) -> SExpression:
    """Return the expression whose canonical form is exactly `data`."""
    if len(data) > limits.size_max:
        raise BadSExpression(
            "INPUT-SEXP-TOO-LARGE", f"{len(data)} bytes are more than the {limits.size_max} allowed"
        )
    try:
        expression, end = _read_one(data, limits)
    except IndexError:
        raise BadSExpression(
            "INPUT-SEXP-NOT-CANONICAL", f"the bytes end at byte {len(data)}, in the middle of an expression"
        ) from None
    if end != len(data):
        if end > len(data):
            raise BadSExpression(
                "INPUT-SEXP-NOT-CANONICAL", f"the bytes end at byte {len(data)}, in the middle of a string"
            )
        raise BadSExpression(
            "INPUT-SEXP-NOT-CANONICAL", f"the expression ends at byte {end}, and more bytes follow"
        )
    return expression


def _read_one(data: bytes, limits: Limits) -> tuple[SExpression, int]:
    # The hot loop: lists are `list` while open and become tuples when they close. A string that
    # claims more bytes than there are leaves `at` beyond the end, where the next look or the
    # caller notices; the slice itself never reads too far. Bytes are compared with literals
    # because a global name costs a lookup each time around.
    outer: list[list[SExpression]] = []
    items: list[SExpression] = []
    depth_max, atom_max = limits.depth_max, limits.atom_max
    at = 0
    while True:
        byte = data[at]
        if 48 <= byte <= 57:  # a digit
            start = at + 2
            # One digit is the commonest length by far, and needs no search for the colon.
            if data[at + 1] == 58:  # a colon
                length = byte - 48
            else:
                start, length = _read_length(data, at)
            if length > atom_max:
                raise BadSExpression(
                    "INPUT-SEXP-TOO-LARGE",
                    f"the string at byte {at} is longer than the {atom_max} bytes allowed",
                )
            at = start + length
            items.append(data[start:at])
            if outer:
                continue
        elif byte == 40:  # (
            if len(outer) >= depth_max:
                raise BadSExpression(
                    "INPUT-SEXP-TOO-LARGE", f"lists nest deeper than {depth_max} at byte {at}"
                )
            outer.append(items)
            items = []
            at += 1
            continue
        elif byte == 41 and outer:  # )
            done = tuple(items)
            items = outer.pop()
            items.append(done)
            at += 1
            if outer:
                continue
        else:
            hinted, at = _read_hinted(data, at, atom_max)
            items.append(hinted)
            if outer:
                continue
        return items[0], at


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return where a string starts and how long it claims to be."""
    colon = data.find(b":", at, at + _DIGITS_MAX + 1)
    if colon < 0:
        _refuse_length(data, at)
    digits = data[at:colon]
    length = _SMALL.get(digits)
    if length is None:
        if not digits.isdigit() or digits[0] == _ZERO:
            _refuse_length(data, at)
        length = int(digits)
    return colon + 1, length


def _read_hinted(data: bytes, at: int, atom_max: int) -> tuple[Hinted, int]:
    """Read `[hint]text`, the only thing that can begin at `at` if a string and a list cannot."""
    if data[at] != _HINT_OPEN:
        _refuse_byte(data, at)
    hint, after_hint = _read_string(data, at + 1, atom_max)
    if not hint:
        raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", f"the display hint at byte {at} is empty")
    if data[after_hint] != _HINT_CLOSE:
        raise BadSExpression(
            "INPUT-SEXP-NOT-CANONICAL",
            f"the display hint at byte {at} does not end with `]` at byte {after_hint}",
        )
    text, end = _read_string(data, after_hint + 1, atom_max)
    return Hinted(hint, text), end


def _read_string(data: bytes, at: int, atom_max: int) -> tuple[bytes, int]:
    start, length = _read_length(data, at)
    if length > atom_max:
        raise BadSExpression(
            "INPUT-SEXP-TOO-LARGE", f"the string at byte {at} is longer than the {atom_max} bytes allowed"
        )
    end = start + length
    if end > len(data):
        raise IndexError
    return data[start:end], end


def _refuse_length(data: bytes, at: int) -> NoReturn:
    head = data[at : at + _DIGITS_MAX + 1]
    digits = head[: len(head) - len(head.lstrip(b"0123456789"))]
    if not digits:
        _refuse_byte(data, at)
    if len(digits) > 1 and digits[0] == _ZERO:
        raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", f"the length at byte {at} begins with a zero")
    if len(digits) > _DIGITS_MAX:
        raise BadSExpression(
            "INPUT-SEXP-TOO-LARGE", f"the length at byte {at} has more than {_DIGITS_MAX} digits"
        )
    if at + len(digits) == len(data):
        raise IndexError
    raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", f"the length at byte {at} is not followed by `:`")


def _refuse_byte(data: bytes, at: int) -> NoReturn:
    if at >= len(data):
        raise IndexError
    raise BadSExpression(
        "INPUT-SEXP-NOT-CANONICAL", f"byte {at} is {data[at]:#04x}, where a list or a length was expected"
    )


# Writing the canonical form.


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
