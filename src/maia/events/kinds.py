"""What kinds of value are there, and which Python class is each?

An attribute declares one kind and every value, literal and column of it has
that kind. Kinds never mix: there is no coercion anywhere in Maia, so `1`,
`1.0`, `True` and `"1"` are four different things (see
docs/decisions/values.md).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from maia.errors import BadInput

__all__ = [
    "INSTANT_MAX",
    "INSTANT_MIN",
    "INT_MAX",
    "INT_MIN",
    "Instant",
    "Kind",
    "NotAnInstant",
    "SECOND",
    "just_after",
    "seconds_after",
]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
SECOND: Final = 1_000_000
"""The microseconds of a second: moments and the distances between them are counted in these."""
_new_int: Final = int.__new__  # found once: a moment is made several times for every message

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TOO_FINE: Final = re.compile(r"[.,][0-9]{7}")

# Years 0001 to 9999: the range that Python, Arrow, PostgreSQL and Spark all read back unchanged.
INSTANT_MIN: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
INSTANT_MAX: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND


class Kind(Enum):
    """The declared type of an attribute."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    BYTES = "bytes"

    # Members are equal only to themselves, so where they live will do. Enum would hash the name, in Python,
    # and tables by kind are looked into for every column of every frame.
    __hash__ = object.__hash__

    @property
    def is_ordered(self) -> bool:
        """Say whether `<` and its relatives mean anything for this kind."""
        return self is not Kind.BOOL


class NotAnInstant(BadInput):
    """A text or number does not name a moment that Maia can represent."""

    code = "INPUT-INSTANT"


class Instant(int):
    """A moment: microseconds since 1970-01-01 UTC, between the years 0001 and 9999.

    It is an `int` so that columns of instants stay cheap, and a class of its
    own so that an integer is never taken for a moment: `kind_of` compares the
    exact class.
    """

    __slots__ = ()

    def __new__(cls, microseconds: int) -> Instant:
        """Check the range; a moment outside it cannot be stored everywhere."""
        given = type(microseconds)
        if given is not int and given is not Instant:
            # int() would cut 0.5 to 0 and take True for 1.
            raise NotAnInstant(f"microseconds are an int, and a {given.__name__} was given")
        if INSTANT_MIN <= microseconds <= INSTANT_MAX:
            return _new_int(cls, microseconds)
        raise NotAnInstant(f"`{int(microseconds)}` microseconds is outside the years 0001 to 9999")

    @classmethod
    def from_datetime(cls, moment: datetime) -> Instant:
        """Convert an aware datetime; a naive one has no meaning here and is refused."""
        if moment.utcoffset() is None:
            raise NotAnInstant(f"`{moment.isoformat()}` names no time zone")
        return cls((moment - _EPOCH) // _MICROSECOND)

    @classmethod
    def parse(cls, text: str) -> Instant:
        """Read ISO 8601 with a zone, such as `2026-11-15T08:30:00Z`."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as problem:
            shown = text[:64].encode("unicode_escape").decode()
            raise NotAnInstant(f"`{shown}` is not a moment such as `2026-11-15T08:30:00Z`") from problem
        if _TOO_FINE.search(text):
            # fromisoformat would drop the seventh digit without a word.
            raise NotAnInstant("a moment has at most six digits after the second")
        return cls.from_datetime(moment)

    def to_datetime(self) -> datetime:
        """Return the same moment as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=int(self))

    def __str__(self) -> str:
        """Return ISO 8601 in UTC, with as many digits as needed."""
        return self.to_datetime().isoformat().replace("+00:00", "Z")

    def __repr__(self) -> str:
        """Return what a person would recognise in a failing test."""
        return f"Instant({self!s})"


def seconds_after(moment: Instant, seconds: float) -> Instant:
    """Return the moment so many seconds later (earlier, if negative), or the last or first there is."""
    return Instant(max(INSTANT_MIN, min(INSTANT_MAX, moment + int(seconds * SECOND))))


def just_after(moment: Instant) -> Instant:
    """Return the first moment at which something that holds up to `moment` holds no more."""
    return Instant(min(INSTANT_MAX, moment + 1))
