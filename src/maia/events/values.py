"""Is this Python object a value of Maia, and of which kind?

Every value enters through `checked_value`, which refuses what the executors
would treat differently: NaN and infinities, integers beyond 64 bits, strings
that are not Unicode text, and objects of any other class. Minus zero becomes
zero here, once, so that no later code has to handle it.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias, TypeVar

from maia.errors import BadInput
from maia.events.kinds import INT_MAX, INT_MIN, Instant, Kind

__all__ = [
    "STRING_BYTES_MAX",
    "BadValue",
    "PresentValue",
    "Value",
    "checked_value",
    "kind_of",
]

PresentValue: TypeAlias = str | int | float | bool | Instant | bytes
Value: TypeAlias = PresentValue | None

STRING_BYTES_MAX: Final = 1 << 20

_Sized = TypeVar("_Sized", str, bytes)

_KINDS: Final[dict[type, Kind]] = {
    str: Kind.STRING,
    int: Kind.INT,
    float: Kind.FLOAT,
    bool: Kind.BOOL,
    Instant: Kind.TIMESTAMP,
    bytes: Kind.BYTES,
}


class BadValue(BadInput):
    """An object is not a value of Maia, or not one of the kind that was declared."""

    code = "INPUT-VALUE"


def kind_of(value: PresentValue) -> Kind:
    """Return the kind of a value, by its exact class: `True` is never an int."""
    kind = _KINDS.get(type(value))
    if kind is None:
        raise BadValue(
            f"a value of class `{type(value).__name__}` is none of string, int, float, bool, timestamp, bytes"
        )
    return kind


def checked_value(value: object, kind: Kind) -> Value:
    """Return `value` as a value of `kind`, or null; refuse everything else.

    The only change ever made is that minus zero becomes zero.
    """
    if value is None:
        return None
    found = _KINDS.get(type(value))
    if found is not kind:
        seen = found.value if found else type(value).__name__
        raise BadValue(f"a {kind.value} was expected, and a {seen} was given")
    match value:
        case float():
            return _checked_float(value)
        case str():
            return _checked_string(value)
        case bool() | Instant():
            return value
        case int():
            return _checked_int(value)
        case bytes():
            return _checked_size(value, len(value))
    raise AssertionError(f"kind {kind} has no check")


def _checked_float(value: float) -> float:
    if not math.isfinite(value):
        raise BadValue("a float must be a number: NaN and infinities are refused")
    return value + 0.0  # -0.0 + 0.0 is 0.0, and every other float stays as it is


def _checked_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise BadValue("an int must fit into 64 bits")
    return value


def _checked_string(value: str) -> str:
    # PostgreSQL cannot store U+0000, and UTF-8 cannot carry a lone surrogate.
    if "\0" in value:
        raise BadValue("a string must not contain U+0000")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as problem:
        raise BadValue("a string must not contain a lone surrogate") from problem
    return _checked_size(value, size)


def _checked_size(value: _Sized, size: int) -> _Sized:
    if size > STRING_BYTES_MAX:
        raise BadValue(f"a value of {size} bytes is longer than the {STRING_BYTES_MAX} allowed")
    return value
