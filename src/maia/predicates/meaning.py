"""When does an event satisfy a predicate?

This is the definition, plain and slow. Every compiler agrees with it. The
logic is Kleene's: a comparison with an attribute that is missing, null,
hidden or of another kind is unknown, unknown stays unknown under `not`, and
only true ever passes. SQL's WHERE does the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from maia.events import AttributeUid, Column, Event, Frame, Kind, PresentValue, kind_of
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    attributes_of,
)


def admits(predicate: Predicate, event: Event) -> bool:
    """Return whether `event` passes: its verdict is true, not false and not unknown."""
    return verdict(predicate, event) is True


def verdict(predicate: Predicate, event: Event) -> bool | None:
    """Return whether `event` satisfies `predicate`: True, False, or None for unknown."""
    match predicate:
        case Exists(uid):
            return event.get(uid) is not None
        case Comparison() | Membership() | TextMatch():
            found = event.get(predicate.uid)
            return None if found is None else atom_holds_for(predicate, found)
        case Not(inner):
            answer = verdict(inner, event)
            return None if answer is None else not answer
        case AllOf(parts):
            return _kleene((verdict(part, event) for part in parts), decisive=False)
        case AnyOf(parts):
            return _kleene((verdict(part, event) for part in parts), decisive=True)
        case _:
            assert_never(predicate)


def atom_holds_for(atom: Atom, found: PresentValue) -> bool | None:
    """Answer one question about one present value; unknown if the kinds differ."""
    match atom:
        case Exists():
            return True
        case Comparison(_, sign, literal):
            return bool(COMPARES[sign](found, literal)) if kind_of(found) is atom.kind else None
        case Membership(_, literals):
            return found in literals if kind_of(found) is atom.kind else None
        case TextMatch(_, test, text):
            return text_holds(test, found, text) if isinstance(found, str) else None
        case _:
            assert_never(atom)


# Any: both sides are of one kind, which the caller has checked and the type checker cannot see.
COMPARES: Final[dict[Operator, Callable[[Any, Any], Any]]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
"""How two values of one kind are compared, in Python and in whatever has Python's operators."""


def text_holds(test: TextTest, found: str, text: str) -> bool:
    """Answer one question about a string."""
    match test:
        case TextTest.PREFIX:
            return found.startswith(text)
        case TextTest.SUFFIX:
            return found.endswith(text)
        case TextTest.CONTAINS:
            return text in found
        case TextTest.TOKEN:
            return text in found.split(" ")
        case TextTest.LEVELS:
            return parse_path_pattern(text).matches(found)
        case _:
            assert_never(test)


def _kleene(parts: Iterable[bool | None], *, decisive: bool) -> bool | None:
    """Join answers: one that is decisive settles it; else it is unknown where one is."""
    answers = list(parts)
    if decisive in answers:
        return decisive
    return None if None in answers else not decisive


# The same answers for the rows of a frame.


QUICK_ATOMS_MAX: Final = 16
"""With this many questions a filter is still read faster than an index is asked."""

_Rows: TypeAlias = Sequence[int]
RowReader: TypeAlias = Callable[[_Rows, Frame], _Rows]
"""Returns those of some rows of a frame that pass, in order."""
# Any: as below
_ValuesReader: TypeAlias = Callable[[_Rows, Sequence[Any]], _Rows]


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
    """Return whether a filter is short, and goes down columns only: nothing has to be asked row by row."""
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
            return partial(_ordered_to, COMPARES[other], literal)
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
