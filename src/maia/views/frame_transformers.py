"""What do transformations make of a whole frame, column by column?

Brokers ask for Views of one window, which most are. Columns that no rule
touches are passed on as they are, and what a function makes of a value is
remembered: numberplates, places and hours come again and again. The rows that are
given have passed the window's own restriction. The answer is that of `see` in
`maia.policy.view` for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never, cast

from maia.credentials.authority import AllAttributes, AttributeSet, Transformation
from maia.events import AttributeUid, Column, Frame, Kind, PresentValue, Value
from maia.expressions.meaning import KeyView, TransformationKeys, calculated, keyed_result, result_of
from maia.expressions.syntax import (
    KEYED,
    Arithmetic,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Take,
    assigned_kinds,
)
from maia.policy.view import View, is_among
from maia.predicates.meaning import RowReader, row_reader
from maia.predicates.syntax import ALWAYS, Not, Predicate
from maia.views.plan import checked_view

Columns: TypeAlias = Mapping[AttributeUid, Column]
Calculate: TypeAlias = Callable[[Columns, int], Sequence[Value]]
Rows: TypeAlias = Sequence[int]
SeeFrame: TypeAlias = Callable[[Frame], tuple[Frame | None, Rows]]
"""What is shown of a frame, None for nothing, and of which of its rows."""
_Make: TypeAlias = Callable[[PresentValue], Value]
_RESULTS_MAX: Final = 16_384
_LENGTH_MAX: Final = 256
"""Longer texts are not remembered: they would take room, and hardly come again."""
_Step: TypeAlias = Callable[[Frame, Rows], tuple[Frame | None, Rows]]


def transforming_frames(view: View, keys: TransformationKeys) -> SeeFrame:
    """Return a function from rows that the View's one window admits to what it shows; None for nothing."""
    (window,) = checked_view(view).windows
    steps = [
        _step(step, keys.of(step.by.key, view.recipient, step.holder)) for step in window.transformations
    ]
    wanted = _reader(view.interest)

    def see(frame: Frame) -> tuple[Frame | None, Rows]:
        shown: Frame | None = _only(frame, window.attributes)
        rows: Rows = range(frame.rows)
        for step in steps:
            if shown is not None:
                shown, rows = step(shown, rows)
        return (None, ()) if shown is None else _narrowed(shown, rows, wanted)

    return see


def _reader(predicate: Predicate) -> RowReader | None:
    return None if predicate == ALWAYS else row_reader(predicate)


def _only(frame: Frame, shown: AttributeSet) -> Frame:
    if isinstance(shown, AllAttributes) or frame.columns.keys() <= shown:
        return frame
    return Frame(frame.rows, {uid: column for uid, column in frame.columns.items() if is_among(uid, shown)})


def _narrowed(frame: Frame, numbers: Rows, reader: RowReader | None) -> tuple[Frame | None, Rows]:
    if reader is None:
        return frame, numbers
    rows = reader(range(frame.rows), frame)
    if not rows:
        return None, ()
    if len(rows) == frame.rows:
        return frame, numbers
    return frame.take(rows), [numbers[row] for row in rows]


def _step(step: Transformation, keys: KeyView) -> _Step:
    admits = _reader(step.restriction)
    kinds = assigned_kinds(step.rules)
    rules = [_rule(rule, keys) for rule in step.rules]

    def run(frame: Frame, rows: Rows) -> tuple[Frame | None, Rows]:
        came, rows = _narrowed(frame, rows, admits)
        if came is None:
            return None, rows
        columns = {} if step.result is not None else dict(came.columns)
        for uid, kind in kinds.items():
            before = columns.get(uid)
            if kind is not None and (before is None or before.kind is not kind):
                columns[uid] = Column(kind, (None,) * came.rows)
        for rule in rules:
            rule(came, columns)
        return _only(Frame(came.rows, columns), step.attributes), rows

    return run


def _rule(rule: Rule, keys: KeyView) -> Callable[[Frame, dict[AttributeUid, Column]], None]:
    uid = rule.uid
    calculate = None if rule.value is None else _calculator(rule.value, keys)
    holds, fails = _reader(rule.condition), row_reader(Not(rule.condition))

    def assign(frame: Frame, columns: dict[AttributeUid, Column]) -> None:
        before = columns.get(uid)
        if before is None:
            return  # nothing is there to be removed
        made: Sequence[Value] = (None,) * frame.rows
        if calculate is not None:
            made = calculate(frame.columns, frame.rows)
        if holds is not None:
            every = range(frame.rows)
            true, false = set(holds(every, frame)), set(fails(every, frame))
            # Where the condition is unknown, nothing is shown.
            made = [
                made[row] if row in true else before.values[row] if row in false else None for row in every
            ]
        columns[uid] = Column(before.kind, tuple(made))

    return assign


def _calculator(expression: Expression, keys: KeyView) -> Calculate:
    match expression:
        case Constant(value):
            return lambda columns, rows: (value,) * rows
        case Take(uid, kind):
            return lambda columns, rows: _taken(columns.get(uid), kind, rows)
        case Arithmetic(sign, left, right):
            one, other = _calculator(left, keys), _calculator(right, keys)
            return lambda columns, rows: [
                None if a is None or b is None else calculated(sign, a, b)
                for a, b in zip(one(columns, rows), other(columns, rows), strict=True)
            ]
        case Coalesce(parts):
            calculators = [_calculator(part, keys) for part in parts]
            return lambda columns, rows: [
                next((value for value in row if value is not None), None)
                for row in zip(*(calculate(columns, rows) for calculate in calculators), strict=True)
            ]
        case Call(function, inner, operands):
            given = _calculator(inner, keys)
            if function is Function.FIRST:
                count = int(operands[0])
                # The syntax takes a prefix of texts alone.
                return lambda columns, rows: [
                    None if value is None else value[:count]
                    for value in cast("Sequence[str | None]", given(columns, rows))
                ]
            make: _Make = partial(result_of, function, operands=operands)
            if function in KEYED:
                make = partial(keyed_result, expression, keys=keys)
            result = _Results(make).__getitem__
            return lambda columns, rows: list(map(result, given(columns, rows)))
        case _:
            assert_never(expression)


def _taken(column: Column | None, kind: Kind, rows: int) -> Sequence[Value]:
    return column.values if column is not None and column.kind is kind else (None,) * rows


class _Results(dict[Value, Value]):
    """What a function makes of the values of one kind that came last, as far as there is room."""

    __slots__ = ("_make",)

    def __init__(self, make: _Make) -> None:
        super().__init__({None: None})
        self._make = make

    def __missing__(self, value: PresentValue) -> Value:
        made = self._make(value)
        if len(self) > _RESULTS_MAX:
            self.clear()
            self[None] = None
        if not isinstance(value, str | bytes) or len(value) <= _LENGTH_MAX:
            self[value] = made
        return made
