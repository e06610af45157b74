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
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeAlias

from maia.events import BadValue, Instant, Kind, NotAnInstant, PresentValue, checked_value, kind_of
from maia.predicates.language.scanner import BadPredicateText, Scanner

NO_PARAMETERS: Final[Mapping[str, PresentValue]] = {}

_DIGITS_MAX: Final = 64
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.])")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_MOMENT: Final = re.compile(r"@([0-9A-Za-z:.+-]+)")
_HEX: Final = re.compile(r"0x([0-9A-Fa-f]+)(?![A-Za-z0-9_])")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f\x7f]*')
_ESCAPE: Final = re.compile(r'\\(?:(["\\nrt])|u\{([0-9A-Fa-f]{1,6})\})')
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
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


class WrongLiteral(BadPredicateText):
    """A literal is not a value of its attribute's kind."""

    code = "INPUT-PREDICATE-LITERAL"


class _Form(Enum):
    """How a literal is written."""

    QUOTED = "a quoted text"
    NUMBER = "a number"
    BOOL = "a bool"
    MOMENT = "a moment"
    BYTES = "a byte string"


_Written: TypeAlias = tuple[_Form, PresentValue]  # a number stays text until its kind is known

_OWN_KIND: Final = {
    _Form.QUOTED: Kind.STRING,
    _Form.BOOL: Kind.BOOL,
    _Form.MOMENT: Kind.TIMESTAMP,
    _Form.BYTES: Kind.BYTES,
}


def read_literal(
    scanner: Scanner, kind: Kind | None, parameters: Mapping[str, PresentValue] = NO_PARAMETERS
) -> PresentValue:
    """Read the next literal, as a value of `kind`, or of the kind it shows itself."""
    begins = scanner.mark()
    try:
        if scanner.take("$"):
            return _parameter(scanner, kind, parameters)
        written = _take(scanner)
        kind = kind or _shown_kind(written)
        value = checked_value(_as_kind(written, kind), kind)
    except (BadValue, NotAnInstant) as problem:
        raise scanner.refused(problem.message, at=begins, problem=WrongLiteral) from problem
    assert value is not None  # noqa: S101 - nothing above is null
    return value


def _parameter(scanner: Scanner, kind: Kind | None, parameters: Mapping[str, PresentValue]) -> PresentValue:
    """Read the name behind a `$` and return the value that was handed in for it."""
    begins = scanner.here() - 1
    name = scanner.take_here(_PARAMETER)
    if name is None or name not in parameters:
        near = get_close_matches((name or "")[:64], parameters, n=1)
        hint = f" (the nearest is `${near[0]}`)" if near else ""
        said = f"nothing is handed in for `${(name or '')[:64]}`{hint}"
        raise scanner.refused(said, at=begins, problem=WrongLiteral)
    value = parameters[name]
    try:
        checked = checked_value(value, kind or kind_of(value))
    except BadValue as problem:
        raise BadValue(f"`${name}`: {problem.message}") from problem
    assert checked is not None  # noqa: S101 - a parameter is a present value
    return checked


def _take(scanner: Scanner) -> _Written:
    """Take one literal in the form in which it is written."""
    if (number := scanner.take_match(_NUMBER)) is not None:
        return _Form.NUMBER, number
    if scanner.sees('"'):
        return _Form.QUOTED, _quoted(scanner)
    if scanner.take_match(_BYTES_MARK) is not None:
        return _Form.BYTES, _bytes(_quoted(scanner))
    if (digits := scanner.take_match(_HEX)) is not None:
        return _Form.BYTES, _bytes(digits[2:])
    if (moment := scanner.take_match(_MOMENT)) is not None:
        return _Form.MOMENT, Instant.parse(moment[1:])
    for word, value in (("true", True), ("false", False)):
        if scanner.take_word(word):
            return _Form.BOOL, value
    if scanner.sees("'"):
        raise scanner.refused('strings are in double quotes: `"…"`')
    raise scanner.expected("a literal: a number, a quoted string, `true` or `false`")


def _shown_kind(written: _Written) -> Kind:
    form, value = written
    if form is _Form.NUMBER:
        return Kind.INT if _WHOLE.fullmatch(str(value)) else Kind.FLOAT
    return _OWN_KIND[form]


def _as_kind(written: _Written, kind: Kind) -> PresentValue:
    match written:
        case (_Form.NUMBER, str(digits)) if kind is Kind.INT:
            return _int(digits)
        case (_Form.NUMBER, str(digits)) if kind is Kind.FLOAT:
            return _float(digits)
        case (_Form.QUOTED, str(text)) if kind is Kind.TIMESTAMP:
            return Instant.parse(text)
        case (_Form.QUOTED, str(text)) if kind is Kind.BYTES:
            return _bytes(text)
        case (form, value) if _OWN_KIND.get(form) is kind:
            return value
        case (form, _):
            raise BadValue(f"expected {_WANTED[kind]}, but {form.value} was given")


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
        escape = scanner.take_here(_ESCAPE)
        if escape is None:
            raise _bad_quoted(scanner, begins)
        parts.append(_unescaped(escape))


def _bad_quoted(scanner: Scanner, begins: int) -> BadPredicateText:
    if scanner.ends_here():
        return scanner.refused("the string that begins here has no closing quote", at=begins)
    return scanner.refused(
        r"a string cannot hold this: write `\"`, `\\`, `\n`, `\r`, `\t` or `\u{…}`",
        at=scanner.here(),
        problem=WrongLiteral,
    )


def _unescaped(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPED[escape[1]]
    point = int(escape[3:-1], 16)
    if point > sys.maxunicode:
        raise BadValue("there is no such character")
    return chr(point)
