"""Is this Python object a value of Maia, and of which kind?

Every value enters through `checked_value`, which refuses what the executors
would treat differently: NaN and infinities, integers beyond 64 bits, strings
that are not Unicode text, and objects of any other class. Minus zero becomes
zero here, once, so that no later code has to handle it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NewType, TypeAlias, TypeVar

from maia.errors import BadInput

# The kinds of value, and the Python class of each.


INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
SECOND: Final = 1_000_000
"""The microseconds of a second: moments and the distances between them are counted in these."""
_new_int: Final = int.__new__  # found once: a moment is made several times for every message

_Datetime: TypeAlias = datetime  # inside `Instant`, the name is a property's
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
        """Return whether `<` and its relatives mean anything for this kind."""
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
    def from_datetime(cls, moment: _Datetime) -> Instant:
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

    def to_datetime(self) -> _Datetime:
        """Return the same moment as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=int(self))

    @property
    def datetime(self) -> _Datetime:
        """Return the same moment as an aware datetime in UTC, as `to_datetime` does."""
        return self.to_datetime()

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
        case str():
            return _checked_string(value)
        case float():
            return _checked_float(value)
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
    if value.isascii() and len(value) <= STRING_BYTES_MAX:
        return value
    try:
        size = len(value.encode())
    except UnicodeEncodeError as problem:
        raise BadValue("a string must not contain a lone surrogate") from problem
    return _checked_size(value, size)


def _checked_size(value: _Sized, size: int) -> _Sized:
    if size > STRING_BYTES_MAX:
        raise BadValue(f"a value of {size} bytes is longer than the {STRING_BYTES_MAX} allowed")
    return value


# Attributes: names for people, uids for machines.


AttributeUid = NewType("AttributeUid", str)

ATTRIBUTES_MAX: Final = 1024

# Lower case only: Spark folds the case of column names, and a uid is a column name there.
_UID: Final = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,61}[0-9a-z])?", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", re.ASCII)
_RESERVED: Final = frozenset(
    ("and", "or", "not", "in", "exists", "true", "false", "null", "prefix", "suffix", "contains", "token")
)


class BadAttribute(BadInput):
    """An attribute's name or uid cannot be used."""

    code = "INPUT-ATTRIBUTE"


def attribute_uid(text: str) -> AttributeUid:
    """Return `text` as a uid: 1 to 63 of `0-9 a-z -`, neither starting nor ending with `-`."""
    if not _UID.fullmatch(text):
        raise BadAttribute(
            f"`{_shown(text)}` is not an attribute uid: use digits, lower case letters and inner hyphens"
        )
    return AttributeUid(text)


def named_uid(name: str) -> AttributeUid:
    """Return the uid of a statement's attribute by the name that people write: `_` and `-` are one sign."""
    return attribute_uid(name.replace("_", "-"))


PUBLISHER_PREFIX: Final = "publisher."
"""Begins the reserved uids of a publisher's attributes. A uid has no dot, so no type defines one of these."""
SUBSCRIBER_PREFIX: Final = "subscriber."
WORLD_PREFIX: Final = "world."
"""Begin what a condition asks of the one who asks, and of the world: known when a right is decided."""
_PREFIXES: Final = (PUBLISHER_PREFIX, SUBSCRIBER_PREFIX, WORLD_PREFIX)


def stated_uid(text: str) -> AttributeUid:
    """Return `text` as a uid that requirements ask about: an attribute's, or what follows from two."""
    match text.split("."):
        case [left, "vs" | "token" | "contains" as pair, right]:
            return AttributeUid(f"{attribute_uid(left)}.{pair}.{attribute_uid(right)}")
        case _:
            return attribute_uid(text)


def routed_uid(text: str) -> AttributeUid:
    """Return `text` as a uid that brokers route by: an attribute's, or one of the publisher's."""
    if text.startswith(PUBLISHER_PREFIX):
        return AttributeUid(PUBLISHER_PREFIX + stated_uid(text[len(PUBLISHER_PREFIX) :]))
    return attribute_uid(text)


def is_of_event(uid: str) -> bool:
    """Return whether a uid is of an attribute that events have, and not about a side or the world."""
    return "." not in uid


def condition_uid(text: str) -> AttributeUid:
    """Return `text` as a uid of what a condition may ask: of the event, of either side, or of the world."""
    for prefix in _PREFIXES:
        if text.startswith(prefix):
            return AttributeUid(prefix + attribute_uid(text[len(prefix) :]))
    return attribute_uid(text)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a type version: what people call it, what it is, and its kind."""

    name: str
    uid: AttributeUid
    kind: Kind

    def __post_init__(self) -> None:
        """Refuse names that a filter, a column or a reader could take for something else."""
        attribute_uid(self.uid)
        if not _NAME.fullmatch(self.name) or self.name.lower() in _RESERVED:
            raise BadAttribute(
                f"`{_shown(self.name)}` is not an attribute name: use letters, digits, `_` and `-`, "
                "and no word of the filter language"
            )


Vocabulary: TypeAlias = Mapping[str, Attribute]
"""The attributes that a text may name."""


def vocabulary_of(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    """Index attributes by name; refuse two that share a uid or differ only in case."""
    by_name: dict[str, Attribute] = {}
    folded: set[str] = set()
    uids: set[AttributeUid] = set()
    for attribute in attributes:
        if attribute.name.lower() in folded:
            raise BadAttribute(f"two attributes are called `{attribute.name}` (case does not count)")
        if attribute.uid in uids:
            raise BadAttribute(f"two attributes have the uid `{attribute.uid}`")
        if len(by_name) >= ATTRIBUTES_MAX:
            raise BadAttribute(f"a type has at most {ATTRIBUTES_MAX} attributes")
        folded.add(attribute.name.lower())
        uids.add(attribute.uid)
        by_name[attribute.name] = attribute
    return by_name


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()
