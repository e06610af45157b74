"""Which rows of a frame does a filter admit?

A broker asks this where a type has few classes of subscribers, so that an
index would cost more than reading each filter. The answer is that of `admits`
for every row. A conjunction narrows the rows part by part, and a comparison
goes down one column; whatever else there is, is asked row by row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from maia.events import AttributeUid, Column, Frame, Kind
from maia.predicates.meaning import admits, atom_holds_for
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Operator,
    Predicate,
    TextMatch,
    attributes_of,
)

__all__ = ["QUICK_ATOMS_MAX", "RowReader", "admitted_rows", "is_quickly_read", "row_reader"]

QUICK_ATOMS_MAX: Final = 16
"""With this many questions a filter is still read faster than an index is asked."""

_Rows: TypeAlias = Sequence[int]
RowReader: TypeAlias = Callable[[_Rows, Frame], _Rows]
"""Returns those of some rows of a frame that pass, in order."""
# Any: as below
_ValuesReader: TypeAlias = Callable[[_Rows, Sequence[Any]], _Rows]

# Any: both sides are of one kind, which is checked for the column and invisible to the type checker.
_ORDERED: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def admitted_rows(predicate: Predicate, frame: Frame) -> Sequence[int]:
    """Return the rows that pass, in order. Every column holds values of its own kind, and nulls."""
    return row_reader(predicate)(range(frame.rows), frame)


def row_reader(predicate: Predicate) -> RowReader:
    """Prepare a filter that many frames are asked about; the reader narrows the rows it is given."""
    match predicate:
        case AllOf(parts):
            return _reader_of_all(tuple(map(row_reader, parts)))
        case AnyOf(parts):
            return _reader_of_any(tuple(map(row_reader, parts)))
        case Exists(uid):
            return lambda rows, frame: _present(rows, frame.columns.get(uid))
        case Comparison(uid) | Membership(uid) | TextMatch(uid):
            return _reader_down(uid, _kind(predicate), _values_reader(predicate))
        case _:
            return lambda rows, frame: _row_by_row(rows, predicate, frame)


def is_quickly_read(predicate: Predicate) -> bool:
    """Say whether a filter is short, and goes down columns only: nothing has to be asked row by row."""
    pending, atoms = [predicate], 0
    while pending and atoms <= QUICK_ATOMS_MAX:
        match pending.pop():
            case AllOf(parts) | AnyOf(parts) if len(parts) <= QUICK_ATOMS_MAX:
                pending += parts
                atoms += 1
            case Comparison() | Membership() | TextMatch() | Exists():
                atoms += 1
            case _:
                return False
    return atoms <= QUICK_ATOMS_MAX


def _reader_of_all(parts: tuple[RowReader, ...]) -> RowReader:
    def read(rows: _Rows, frame: Frame) -> _Rows:
        for part in parts:
            if not rows:
                break
            rows = part(rows, frame)
        return rows

    return read


def _reader_of_any(parts: tuple[RowReader, ...]) -> RowReader:
    def read(rows: _Rows, frame: Frame) -> _Rows:
        found: set[int] = set()
        for part in parts:
            found.update(part([row for row in rows if row not in found], frame))
        return sorted(found)

    return read


def _reader_down(uid: AttributeUid, kind: Kind, read_values: _ValuesReader) -> RowReader:
    def read(rows: _Rows, frame: Frame) -> _Rows:
        column = frame.columns.get(uid)
        # Missing, or of another kind: unknown for every row, and unknown does not pass.
        return () if column is None or column.kind is not kind else read_values(rows, column.values)

    return read


def _kind(atom: Comparison | Membership | TextMatch) -> Kind:
    return Kind.STRING if isinstance(atom, TextMatch) else atom.kind


def _present(rows: _Rows, column: Column | None) -> _Rows:
    if column is None:
        return ()
    return rows if None not in column.values else [row for row in rows if column.values[row] is not None]


def _values_reader(atom: Comparison | Membership | TextMatch) -> _ValuesReader:
    match atom:
        case Membership(_, literals):
            return lambda rows, values: [row for row in rows if values[row] in literals]
        case Comparison(_, Operator.EQ, literal):
            return partial(_equal_to, literal)
        case Comparison(_, other, literal):
            return partial(_ordered_to, _ORDERED[other], literal)
        case TextMatch():
            return lambda rows, values: [
                row for row in rows if (value := values[row]) is not None and atom_holds_for(atom, value)
            ]
        case _:
            assert_never(atom)


# Any: both sides are of one kind, which is checked for the column and invisible to the type checker.
def _equal_to(literal: Any, rows: _Rows, values: Sequence[Any]) -> _Rows:
    if values.count(literal) == len(values):
        return rows  # frames often have one value all the way down
    return [row for row in rows if values[row] == literal]


def _ordered_to(holds: Callable[[Any, Any], bool], literal: Any, rows: _Rows, values: Sequence[Any]) -> _Rows:
    return [row for row in rows if (value := values[row]) is not None and holds(value, literal)]


def _row_by_row(rows: _Rows, predicate: Predicate, frame: Frame) -> _Rows:
    asked: list[tuple[AttributeUid, Column]] = [
        (uid, column) for uid in attributes_of(predicate) if (column := frame.columns.get(uid)) is not None
    ]
    return [row for row in rows if admits(predicate, {uid: column.values[row] for uid, column in asked})]
