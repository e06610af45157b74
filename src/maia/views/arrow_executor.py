"""What does this View show of a batch of events, column by column?

Brokers ask for frames and the log for segments. Whole columns go through
Arrow's kernels; the logic is three-valued (`and_kleene` and relatives), and a
row passes only where the answer is true. The answer is that of `see` in
`maia.policy.view` for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maia.errors import BadInput
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind, Kinds, PresentValue, Value
from maia.expressions.meaning import NO_KEYS, TransformationKeys, calculated, keyed_result, result_of
from maia.expressions.summaries import Group, GroupKey, derived_event, group_key
from maia.expressions.syntax import KEYED, ArithmeticSign, Call
from maia.policy.view import View, shows, split
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, Predicate, TextTest, attributes_of, checked_size
from maia.views.plan import (
    Algebra,
    KeyName,
    ViewPlan,
    checked_delivered,
    checked_stored,
    columns_of,
    compiled,
    plan,
    transformed,
    transforms,
)

# Which Arrow type holds which kind of value? Apart from `schema.py`, because Arrow takes long to load.


ARROW_TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.BYTES: pa.binary(),
}


def arrow_schema(stored: Kinds) -> pa.Schema:
    """Return the schema of a batch whose columns are called by uid."""
    return pa.schema([pa.field(uid, ARROW_TYPES[kind]) for uid, kind in stored.items()])


SeeBatch: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
TestBatch: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]

# Any: pyarrow is not typed, and an answer is an Array, or a Scalar where it is the same for all rows.
Answer: TypeAlias = Any
Columns: TypeAlias = Mapping[AttributeUid, Any]
Ask: TypeAlias = Callable[[Columns], Answer]
SeenOf: TypeAlias = Callable[[tuple[int, dict[AttributeUid, Any]]], tuple[Any, dict[AttributeUid, Any]]]
"""From the rows and columns of a batch to the numbers of the rows that are admitted, and what is seen."""

_KERNELS: Final = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


def to_arrow(
    view: View,
    stored: Kinds,
    delivered: tuple[Attribute, ...] | None = None,
    keys: TransformationKeys = NO_KEYS,
) -> SeeBatch:
    """Return a function from a batch of `stored` columns, called by uid, to what the View shows.

    With `delivered` the result has exactly those attributes, by name, in that
    order; what is hidden or not stored is null. Without it
    the result has the shown columns, still by uid.
    """
    see_rows = to_arrow_rows(view, stored, delivered, keys)
    return lambda batch: see_rows(batch)[0]


def to_arrow_rows(
    view: View,
    stored: Kinds,
    delivered: tuple[Attribute, ...] | None = None,
    keys: TransformationKeys = NO_KEYS,
) -> Callable[[pa.RecordBatch], tuple[pa.RecordBatch, pa.Array]]:
    """Return a function as `to_arrow` does, which also says which rows of the batch these are."""
    seen_of, kinds = _transformed(view, stored, keys) if transforms(view) else _screened(view, stored)
    given = kinds if transforms(view) else stored
    interest = None if view.interest == ALWAYS else _asked(view.interest, kinds)
    fields = _fields(kinds, None if delivered is None else checked_delivered(delivered, given))
    schema = pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind, _ in fields])
    expected = arrow_schema(stored)

    def see_rows(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        numbers, seen = seen_of(_columns(batch, expected))
        if interest is not None:
            wanted = _mask(interest(seen), len(numbers))
            seen, numbers = _filtered(seen, wanted), _where(numbers, wanted)
        rows = len(numbers)
        arrays = [pa.nulls(rows, ARROW_TYPES[kind]) if uid is None else seen[uid] for _, kind, uid in fields]
        return _batch(arrays, schema, rows), numbers

    return see_rows


def to_arrow_hidden(
    view: View, stored: Kinds, delivered: tuple[Attribute, ...]
) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return a function from a batch of `stored` columns to what of each row the View does not show, by name.

    What is null, and is not named, was published so, or not at all.
    """
    tests = [to_arrow_test(window.admits, stored) for window in view.windows]
    shown = np.array([[shows(window, one.uid) for one in delivered] for window in view.windows], bool)
    names = np.array([one.name for one in delivered], object)

    def hidden(batch: pa.RecordBatch) -> pa.Array:
        opened = np.array([test(batch) for test in tests], bool).reshape(len(tests), batch.num_rows)
        kinds, of_row = np.unique(opened, axis=1, return_inverse=True)
        lists = [list(names[~shown[kinds[:, at]].any(axis=0)]) for at in range(kinds.shape[1])]
        found = pa.array(lists, pa.list_(pa.string()))
        return found.take(pa.array(of_row.reshape(-1)))

    return hidden


def _screened(view: View, stored: Kinds) -> tuple[SeenOf, Kinds]:
    resolved = plan(view, stored)
    windows = [_asked(window, stored) for window in resolved.windows]
    return lambda given: _seen(resolved, windows, given), resolved.seen


def _transformed(view: View, stored: Kinds, keys: TransformationKeys) -> tuple[SeenOf, Kinds]:
    found = transformed(view, stored, _ArrowAlgebra(keys))

    def seen_of(given: tuple[int, dict[AttributeUid, Any]]) -> tuple[pa.Array, dict[AttributeUid, Any]]:
        rows, columns = given
        begun = _mask(found.begins(columns), rows)
        numbers, columns = _numbers(begun), _filtered(columns, begun)
        for level in found.bound:
            columns |= {name: _array(value(columns), len(numbers)) for name, value in level}
        admitted = _mask(found.admits(columns), len(numbers))
        numbers, kept = _where(numbers, admitted), _filtered(columns, admitted)
        return numbers, {uid: _array(value(kept), len(numbers)) for uid, (_, value) in found.seen.items()}

    return seen_of, {uid: kind for uid, (kind, _) in found.seen.items()}


def _filtered(columns: Mapping[AttributeUid, Any], mask: Any) -> dict[AttributeUid, Any]:
    return {uid: _where(column, mask) for uid, column in columns.items()}


def _where(column: Any, mask: Any) -> Any:
    """Return the rows that a mask admits; where it admits all, nothing is copied."""
    return column if mask.true_count == len(mask) else column.filter(mask)


def _numbers(mask: Any) -> Any:
    if mask.true_count == len(mask):
        return pa.array(np.arange(len(mask), dtype=np.uint64))
    return pc.indices_nonzero(mask)


def _array(value: Answer, rows: int) -> Any:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def to_arrow_test(predicate: Predicate, stored: Kinds) -> TestBatch:
    """Return a function from a batch of `stored` columns, called by uid, to a mask of the admitted rows."""
    ask = _asked(checked_size(predicate), checked_stored(stored))
    # Only what is asked about is looked for, so that a batch may come without the rest.
    asked = attributes_of(predicate)
    expected = arrow_schema({uid: kind for uid, kind in stored.items() if uid in asked})

    def test_batch(batch: pa.RecordBatch) -> pa.BooleanArray:
        rows, columns = _columns(batch, expected)
        return _mask(ask(columns), rows)

    return test_batch


def _fields(
    seen: Kinds, delivered: tuple[Attribute, ...] | None
) -> list[tuple[str, Kind, AttributeUid | None]]:
    """Return each result column: its name, its kind, and the seen column that fills it, if one does."""
    if delivered is None:
        return [(uid, kind, uid) for uid, kind in seen.items()]
    return [(a.name, a.kind, a.uid if a.uid in seen else None) for a in delivered]


def _columns(batch: pa.RecordBatch, expected: pa.Schema) -> tuple[int, dict[AttributeUid, Any]]:
    columns = {}
    for field in expected:
        position = batch.schema.get_field_index(field.name)
        if position < 0 or not batch.schema.field(position).type.equals(field.type):
            raise BadInput(
                "INPUT-STORED-COLUMNS", f"the batch has no column `{field.name}` of type `{field.type}`"
            )
        columns[AttributeUid(field.name)] = batch.column(position)
    return batch.num_rows, columns


def _seen(
    resolved: ViewPlan, windows: Sequence[Ask], given: tuple[int, dict[AttributeUid, Any]]
) -> tuple[Any, dict[AttributeUid, Any]]:
    """Return the admitted rows with hidden columns left out and hidden values null."""
    rows, columns = given
    opened = [_mask(window(columns), rows) for window in windows]
    admitted = _either(opened, rows)
    numbers = _numbers(admitted)
    cut = [_where(mask, admitted) for mask in opened] if len(opened) > 1 else []
    seen = {}
    for uid, showing in resolved.shown_by.items():
        column = _where(columns[uid], admitted)
        if not resolved.is_always_shown(uid):
            shown = _either([cut[i] for i in showing], len(numbers))
            column = pc.if_else(shown, column, pa.scalar(None, column.type))
        seen[uid] = column
    return numbers, seen


def _mask(answer: Answer, rows: int) -> Any:
    """Return an answer as an array in which unknown has become false: only true passes."""
    if isinstance(answer, pa.Scalar):
        return pa.repeat(pa.scalar(answer.as_py() is True), rows)
    return pc.fill_null(answer, False)


def _either(masks: Sequence[Any], rows: int) -> Any:
    if not masks:
        return pa.repeat(pa.scalar(False), rows)
    either = masks[0]
    for mask in masks[1:]:
        either = pc.or_(either, mask)
    return either


def _batch(arrays: list[Any], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # A batch without columns still has rows: a subscriber may learn that something happened.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _asked(predicate: Predicate, columns: Kinds) -> Ask:
    return compiled(predicate, columns_of(columns, _ARROW), _ARROW)


class _ArrowAlgebra:
    """Each piece is a function from the columns of a batch to an answer or a value per row.

    Arrow's arithmetic wraps around or raises, so expressions are calculated value by value, by the
    functions of the definition.
    """

    def __init__(self, keys: TransformationKeys = NO_KEYS) -> None:
        self._keys = keys

    def column(self, uid: AttributeUid, kind: Kind) -> Ask:
        return lambda columns: columns[uid]

    def constant(self, answer: bool | None) -> Ask:
        same = pa.scalar(answer, pa.bool_())
        return lambda columns: same

    def is_present(self, found: Ask) -> Ask:
        return lambda columns: pc.is_valid(found(columns))

    def compare(self, found: Ask, operator: Operator, literal: PresentValue, kind: Kind) -> Ask:
        kernel, operand = _KERNELS[operator], _scalar(literal, kind)
        return lambda columns: kernel(found(columns), operand)

    def is_one_of(self, found: Ask, literals: Sequence[PresentValue], kind: Kind) -> Ask:
        wanted = _value_set(literals, kind)

        def ask(columns: Columns) -> Answer:
            column = found(columns)
            # `is_in` answers false for null, where the meaning says unknown.
            return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), _UNKNOWN)

        return ask

    def matches(self, found: Ask, test: TextTest, text: str) -> Ask:
        match test:
            case TextTest.PREFIX:
                return lambda columns: pc.starts_with(found(columns), text)
            case TextTest.SUFFIX:
                return lambda columns: pc.ends_with(found(columns), text)
            case TextTest.CONTAINS:
                return lambda columns: pc.match_substring(found(columns), text)
            case TextTest.TOKEN:
                return lambda columns: pc.match_substring(_spaced(found(columns)), f" {text} ")
            case TextTest.LEVELS:
                expression = rf"(?s)\A{parse_path_pattern(text).regex()}\z"
                return lambda columns: pc.match_substring_regex(found(columns), expression)
            case _:
                assert_never(test)

    def literal(self, value: PresentValue | None, kind: Kind) -> Ask:
        same = pa.scalar(None, ARROW_TYPES[kind]) if value is None else _scalar(value, kind)
        return lambda columns: same

    def calculated(self, sign: ArithmeticSign, left: Ask, right: Ask, kind: Kind) -> Ask:
        def of_both(one: Value, other: Value) -> Value:
            return None if one is None or other is None else calculated(sign, one, other)

        return _by_value(of_both, kind, (left, kind), (right, kind))

    def coalesced(self, parts: Sequence[Ask], kind: Kind) -> Ask:
        return lambda columns: pc.coalesce(*(part(columns) for part in parts))

    def chosen(self, condition: Ask, then: Ask, otherwise: Ask, kind: Kind) -> Ask:
        # Where the condition is null, so is the result.
        return lambda columns: pc.if_else(condition(columns), then(columns), otherwise(columns))

    def called(self, call: Call, inner: Ask, keys: KeyName) -> Ask:
        step_keys = self._keys.of(keys.issuer, keys.recipient, keys.holder)

        def of_one(value: Value) -> Value:
            if value is None:
                return None
            if call.function in KEYED:
                return keyed_result(call, value, step_keys)
            return result_of(call.function, value, call.operands)

        return _by_value(of_one, call.kind, (inner, call.inner.kind))

    def negated(self, inner: Ask) -> Ask:
        return lambda columns: pc.invert(inner(columns))

    def all_of(self, parts: Sequence[Ask]) -> Ask:
        return _folded(pc.and_kleene, parts)

    def any_of(self, parts: Sequence[Ask]) -> Ask:
        return _folded(pc.or_kleene, parts)


_ARROW: Final[Algebra[Ask]] = _ArrowAlgebra()


def _by_value(calculate: Callable[..., Value], kind: Kind, *operands: tuple[Ask, Kind]) -> Ask:
    """Return a function that calculates row by row; scalars count for every row."""

    def ask(columns: Columns) -> Answer:
        given = [(operand(columns), of_kind) for operand, of_kind in operands]
        rows = next((len(one) for one, _ in given if not isinstance(one, pa.Scalar)), None)
        lists = [_values(one, of_kind, 1 if rows is None else rows) for one, of_kind in given]
        results = [calculate(*row) for row in zip(*lists, strict=True)]
        if rows is None:
            return pa.scalar(results[0], ARROW_TYPES[kind])
        return pa.array(results, ARROW_TYPES[kind])

    return ask


def _values(given: Any, kind: Kind, rows: int) -> list[Value]:
    column = _array(given, rows)
    if kind is not Kind.TIMESTAMP:
        values: list[Value] = column.to_pylist()
        return values
    return [None if one is None else Instant(one) for one in column.cast(pa.int64()).to_pylist()]


def _folded(kernel: Callable[[Answer, Answer], Answer], parts: Sequence[Ask]) -> Ask:
    first, *rest = parts

    def ask(columns: Columns) -> Answer:
        answer = first(columns)
        for part in rest:
            answer = kernel(answer, part(columns))
        return answer

    return ask


def _scalar(literal: PresentValue, kind: Kind) -> pa.Scalar:
    # An Instant is an int, which Arrow takes for microseconds where the type says so.
    return pa.scalar(int(literal) if kind is Kind.TIMESTAMP else literal, ARROW_TYPES[kind])


def _value_set(literals: Sequence[PresentValue], kind: Kind) -> pa.Array:
    values = [int(literal) if kind is Kind.TIMESTAMP else literal for literal in literals]
    if kind is Kind.FLOAT and 0.0 in literals:
        values.append(-0.0)  # `is_in` compares bits, where zero has two forms
    return pa.array(values, ARROW_TYPES[kind])


def _spaced(column: Any) -> Any:
    """Put a space before and after, so that every word is between two."""
    space = pa.scalar(" ")
    return pc.binary_join_element_wise(space, column, space, pa.scalar(""))


# A View that summarises, by column.
#
# The View's ordinary parts go through Arrow's kernels. The groups between them are made in Python, because
# Arrow's own sums depend on the order of their values. The answer is that of `summarised` in
# `maia.policy.view`.


SummariseBatch: TypeAlias = Callable[[pa.RecordBatch, pa.Array, Instant], pa.RecordBatch]
"""From events, their moments of publication and the present moment to what is shown of closed periods."""


def to_arrow_summary(
    view: View, stored: Kinds, delivered: tuple[Attribute, ...], keys: TransformationKeys = NO_KEYS
) -> SummariseBatch:
    """Return a function from a batch of `stored` columns to what the View shows, by name."""
    parts = split(view)
    summary = parts.summary
    front = to_arrow_rows(parts.front, stored, None, keys)
    behind = to_arrow(parts.behind, summary.kinds, delivered, keys)
    schema = arrow_schema(summary.kinds)
    every_us = summary.every_s * SECOND

    def summarise(batch: pa.RecordBatch, published_at: pa.Array, closed_at: Instant) -> pa.RecordBatch:
        taken, rows = front(batch)
        moments = published_at.take(rows).cast(pa.int64()).to_pylist()
        columns = {name: _column_values(taken.column(name)) for name in taken.schema.names}
        groups: dict[tuple[Instant, GroupKey], Group] = {}
        for row, moment in enumerate(moments):
            start = Instant(moment - moment % every_us)
            event = {AttributeUid(name): values[row] for name, values in columns.items()}
            key = group_key(summary, event)
            if key is not None and summary.closes_at(start) <= closed_at:
                groups.setdefault((start, key), Group()).add(summary, event)
        made = [
            derived
            for (start, key), group in groups.items()
            if (derived := derived_event(summary, start, key, group)) is not None
        ]
        arrays = [
            pa.array([one.get(AttributeUid(field.name)) for one in made], field.type) for field in schema
        ]
        return behind(pa.RecordBatch.from_arrays(arrays, schema=schema))

    return summarise


def _column_values(column: pa.Array) -> list[Value]:
    """Return the values of a column as our own; moments are no datetimes, whose calendar is shorter."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if one is None else Instant(one) for one in pc.cast(column, pa.int64()).to_pylist()]
