"""What does a value from another system's database, file or page mean as an argument of a fact?

A source declares the kind of each column. A value that does not fit makes the
whole reading fail: a row that was left out in silence could take a right away
from the wrong person, and one that was guessed could give one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from maia.credentials import principal_from_text
from maia.credentials.arguments import Argument, ParameterKind, checked_argument
from maia.errors import MaiaError, Unavailable
from maia.events import Instant

__all__ = ["BadFactRow", "Row", "row_of", "rows_of"]

Row = tuple[Argument, ...]

ROWS_MAX: Final = 200_000
_BOOLS: Final = {"true": True, "false": False, "1": True, "0": False}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = 1_000_000


class BadFactRow(Unavailable):
    """A source of facts holds something that is no fact of the declared kinds, or too much of it."""

    code = "UNAVAILABLE-FACT-ROW"


def rows_of(found: Iterable[Sequence[object]], kinds: Sequence[ParameterKind]) -> list[Row]:
    """Return the rows of a source as arguments; refuse all of them if one does not fit."""
    rows: list[Row] = []
    for number, one in enumerate(found, start=1):
        if number > ROWS_MAX:
            raise BadFactRow(f"there are more than the {ROWS_MAX} rows that are read")
        rows.append(row_of(one, kinds, number))
    return rows


def row_of(found: Sequence[object], kinds: Sequence[ParameterKind], number: int = 1) -> Row:
    """Return one row as arguments."""
    if len(found) != len(kinds):
        raise BadFactRow(f"row {number} has {len(found)} values, and {len(kinds)} kinds are declared")
    try:
        return tuple(_argument(value, kind) for value, kind in zip(found, kinds, strict=True))
    except (MaiaError, ValueError, OverflowError) as problem:
        said = problem.message if isinstance(problem, MaiaError) else "a value cannot be read"
        raise BadFactRow(f"row {number}: {said}") from None


def _argument(value: object, kind: ParameterKind) -> Argument:
    match kind, value:
        case ParameterKind.PRINCIPAL, str():
            return principal_from_text(value.strip())
        case ParameterKind.TIMESTAMP, str():
            return Instant.parse(value.strip())
        case ParameterKind.TIMESTAMP, datetime():
            if value.tzinfo is None:
                raise ValueError("a moment without a zone can mean several")
            passed = value - _EPOCH
            return Instant((passed.days * 86_400 + passed.seconds) * _MICROSECONDS + passed.microseconds)
        case ParameterKind.INT, str():
            return checked_argument(int(value.strip(), 10), kind)
        case ParameterKind.FLOAT, str():
            return checked_argument(float(value.strip()), kind)
        case ParameterKind.FLOAT, int() if type(value) is int:
            return checked_argument(float(value), kind)
        case ParameterKind.BOOL, str() if value.strip().lower() in _BOOLS:
            return _BOOLS[value.strip().lower()]
        case ParameterKind.BOOL, int() if type(value) is int and value in (0, 1):
            return bool(value)
    return checked_argument(value, kind)
