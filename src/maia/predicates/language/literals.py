"""What does this literal mean, given the kind of its attribute?

`5` is an int beside an int attribute and 5.0 beside a float one; a quoted text
is a string, a moment or bytes. A literal that its attribute could never equal
is refused here, with the reason, instead of becoming a filter that never
matches. `$name` is a value that is passed with the text, and never
becomes part of it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from typing import Final, TypeAlias

from maia.events import BadValue, Instant, Kind, NotAnInstant, PresentValue, checked_value, kind_of
from maia.predicates.language.scanner import NAME, BadPredicateText, Scanner, nearest

NO_PARAMETERS: Final[Mapping[str, PresentValue]] = {}

_DIGITS_MAX: Final = 64
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.])")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_MOMENT: Final = re.compile(r"@([0-9A-Za-z:.+-]+)")
_HEX: Final = re.compile(r"0x([0-9A-Fa-f]+)(?![A-Za-z0-9_])")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f\x7f]*')
_ESCAPE: Final = re.compile(r'\\(?:(["\\nrt])|u\{([0-9A-Fa-f]{1,6})\})')
_BYTES_MARK: Final = re.compile('x(?=")')
_QUOTE: Final = re.compile('"')
_HEX_DIGITS: Final = re.compile("[0-9A-Fa-f]*")
_ESCAPED: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_WANTED: Final = {
    Kind.STRING: 'a quoted string such as `"AE05 XYZ"`',
    Kind.INT: "a whole number such as `30`",
    Kind.FLOAT: "a number such as `0.5`",
    Kind.BOOL: "`true` or `false`",
    Kind.TIMESTAMP: 'a moment such as `"2026-11-15T08:30:00Z"`',
    Kind.BYTES: 'hexadecimal bytes such as `x"beef"`',
}
_FORMS: Final = {
    Kind.STRING: "a quoted text",
    Kind.FLOAT: "a number",
    Kind.BOOL: "a bool",
    Kind.TIMESTAMP: "a moment",
    Kind.BYTES: "a byte string",
}
_Written: TypeAlias = tuple[Kind, PresentValue]
"""The kind that a literal shows itself, and its value; a number is a float that is still text."""


class WrongLiteral(BadPredicateText):
    """A literal is not a value of its attribute's kind."""

    code = "INPUT-PREDICATE-LITERAL"


def read_literal(
    scanner: Scanner, kind: Kind | None, parameters: Mapping[str, PresentValue] = NO_PARAMETERS
) -> PresentValue:
    """Read the next literal, as a value of `kind`, or of the kind it shows itself."""
    begins = scanner.mark()
    try:
        if scanner.take("$"):
            return _parameter(scanner, kind, parameters)
        written = _take(scanner)
        value = _as_kind(written, kind or _shown_kind(written))
    except (BadValue, NotAnInstant) as problem:
        raise scanner.refused(problem.message, at=begins, problem=WrongLiteral) from problem
    return value


def read_text(scanner: Scanner) -> str:
    """Read a quoted string."""
    return str(read_literal(scanner, Kind.STRING))


def _parameter(scanner: Scanner, kind: Kind | None, parameters: Mapping[str, PresentValue]) -> PresentValue:
    """Read the name behind a `$` and return the value that was handed in for it."""
    begins = scanner.position - 1
    name = scanner.take_here(NAME) or ""
    if name not in parameters:
        said = f"nothing is handed in for `${name[:64]}`{nearest(name, parameters, '$')}"
        raise scanner.refused(said, at=begins, problem=WrongLiteral)
    value = parameters[name]
    try:
        return _present(value, kind or kind_of(value))
    except BadValue as problem:
        raise BadValue(f"`${name}`: {problem.message}") from problem


def _present(value: PresentValue, kind: Kind) -> PresentValue:
    checked = checked_value(value, kind)
    assert checked is not None  # noqa: S101 - a present value stays one
    return checked


def _take(scanner: Scanner) -> _Written:
    """Take one literal in the form in which it is written."""
    if (number := scanner.take_match(_NUMBER)) is not None:
        return Kind.FLOAT, number
    if scanner.sees('"'):
        return Kind.STRING, _quoted(scanner)
    if scanner.take_match(_BYTES_MARK) is not None:
        return Kind.BYTES, _bytes(_quoted(scanner))
    if (digits := scanner.take_match(_HEX)) is not None:
        return Kind.BYTES, _bytes(digits[2:])
    if (moment := scanner.take_match(_MOMENT)) is not None:
        return Kind.TIMESTAMP, Instant.parse(moment[1:])
    if (word := scanner.take_word("true", "false")) is not None:
        return Kind.BOOL, word == "true"
    if scanner.sees("'"):
        raise scanner.refused('strings are in double quotes: `"…"`')
    raise scanner.expected("a literal: a number, a quoted string, `true` or `false`")


def _shown_kind(written: _Written) -> Kind:
    kind, value = written
    return Kind.INT if kind is Kind.FLOAT and _WHOLE.fullmatch(str(value)) else kind


def _as_kind(written: _Written, kind: Kind) -> PresentValue:
    match (*written, kind):
        case (Kind.FLOAT, str(digits), Kind.INT):
            return _present(_int(digits), kind)
        case (Kind.FLOAT, str(digits), Kind.FLOAT):
            return _present(_float(digits), kind)
        case (Kind.STRING, str(text), Kind.TIMESTAMP):
            return Instant.parse(text)
        case (Kind.STRING, str(text), Kind.BYTES):
            return _present(_bytes(text), kind)
        case (shown, value, _) if shown is kind:
            return _present(value, kind)
        case (shown, _, _):
            raise BadValue(f"expected {_WANTED[kind]}, but {_FORMS[shown]} was given")


def _int(digits: str) -> int:
    if not _WHOLE.fullmatch(digits):
        raise BadValue(f"expected {_WANTED[Kind.INT]}, but `{digits[:_DIGITS_MAX]}` is not written as one")
    return int(_short(digits))


def _float(digits: str) -> float:
    number = float(_short(digits))
    if not math.isfinite(number):
        raise BadValue("the number is too large for a float")
    if _WHOLE.fullmatch(digits) and int(number) != int(digits):
        raise BadValue(f"no float equals `{digits}`; write `{number!r}` if you mean that")
    mantissa = digits.lower().partition("e")[0]
    if number == 0 and any(digit in "123456789" for digit in mantissa):
        raise BadValue("the number is too small for a float")
    return number


def _short(digits: str) -> str:
    # int() of very many digits is slow, and no 64-bit number needs them.
    if len(digits) > _DIGITS_MAX:
        raise BadValue(f"a number has at most {_DIGITS_MAX} characters")
    return digits


def _bytes(digits: str) -> bytes:
    if len(digits) % 2 or not _HEX_DIGITS.fullmatch(digits):
        raise BadValue(f"expected {_WANTED[Kind.BYTES]}: pairs of hexadecimal digits")
    return bytes.fromhex(digits)


def _quoted(scanner: Scanner) -> str:
    """Take a text in double quotes and undo its escapes."""
    begins = scanner.mark()
    scanner.must_take('"')
    parts: list[str] = []
    while True:
        parts.append(scanner.take_here(_PLAIN) or "")
        if scanner.take_here(_QUOTE) is not None:
            return "".join(parts)
        here = scanner.position
        escape = scanner.take_here(_ESCAPE)
        if escape is not None:
            parts.append(_unescaped(escape))
        elif here == len(scanner.text):
            raise scanner.refused("the string that begins here has no closing quote", at=begins)
        else:
            said = r"a string cannot hold this: write `\"`, `\\`, `\n`, `\r`, `\t` or `\u{…}`"
            raise scanner.refused(said, at=here, problem=WrongLiteral)


def _unescaped(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPED[escape[1]]
    point = int(escape[3:-1], 16)
    if point > sys.maxunicode:
        raise BadValue("there is no such character")
    return chr(point)
