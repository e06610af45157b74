"""What does this View show of a batch of events, column by column?

Brokers ask for frames and the log for segments. Whole columns go through
Arrow's kernels; the logic is three-valued (`and_kleene` and relatives), and a
row passes only where the answer is true. The answer is that of `see` in
`maia.policy.view` for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from maia.events import Attribute, AttributeUid, Kind, Kinds, PresentValue
from maia.policy.view import View
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import ALWAYS, Operator, Predicate, TextTest, attributes_of, checked_size
from maia.views.arrow_types import ARROW_TYPES, arrow_schema
from maia.views.plan import Algebra, ViewPlan, compiled, plan
from maia.views.schema import StoredMismatch, checked_delivered, checked_stored

__all__ = ["SeeBatch", "TestBatch", "to_arrow", "to_arrow_test"]

SeeBatch: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
TestBatch: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]

# Any: pyarrow is not typed, and an answer is an Array, or a Scalar where it is the same for all rows.
Answer: TypeAlias = Any
Columns: TypeAlias = Mapping[AttributeUid, Any]
Ask: TypeAlias = Callable[[Columns], Answer]

_KERNELS: Final = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


def to_arrow(view: View, stored: Kinds, delivered: tuple[Attribute, ...] | None = None) -> SeeBatch:
    """Return a function from a batch of `stored` columns, called by uid, to what the View shows.

    With `delivered` the result has exactly those attributes, by name, in that
    order; what is hidden or not stored is null. Without it
    the result has the shown columns, still by uid.
    """
    resolved = plan(view, stored)
    windows = [_asked(window, stored) for window in resolved.windows]
    interest = None if resolved.interest == ALWAYS else _asked(resolved.interest, resolved.seen)
    fields = _fields(resolved, None if delivered is None else checked_delivered(delivered, stored))
    schema = pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind, _ in fields])
    expected = arrow_schema(stored)

    def see_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, seen = _seen(resolved, windows, _columns(batch, expected))
        if interest is not None:
            wanted = _mask(interest(seen), rows)
            seen = {uid: column.filter(wanted) for uid, column in seen.items()}
            rows = pc.sum(wanted).as_py() or 0
        arrays = [pa.nulls(rows, ARROW_TYPES[kind]) if uid is None else seen[uid] for _, kind, uid in fields]
        return _batch(arrays, schema, rows)

    return see_batch


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
    resolved: ViewPlan, delivered: tuple[Attribute, ...] | None
) -> list[tuple[str, Kind, AttributeUid | None]]:
    """Return each result column: its name, its kind, and the seen column that fills it, if one does."""
    seen = resolved.seen
    if delivered is None:
        return [(uid, kind, uid) for uid, kind in seen.items()]
    return [(a.name, a.kind, a.uid if a.uid in seen else None) for a in delivered]


def _columns(batch: pa.RecordBatch, expected: pa.Schema) -> tuple[int, dict[AttributeUid, Any]]:
    columns = {}
    for field in expected:
        position = batch.schema.get_field_index(field.name)
        if position < 0 or not batch.schema.field(position).type.equals(field.type):
            raise StoredMismatch(f"the batch has no column `{field.name}` of type `{field.type}`")
        columns[AttributeUid(field.name)] = batch.column(position)
    return batch.num_rows, columns


def _seen(
    resolved: ViewPlan, windows: Sequence[Ask], given: tuple[int, dict[AttributeUid, Any]]
) -> tuple[int, dict[AttributeUid, Any]]:
    """Return the admitted rows with hidden columns left out and hidden values null."""
    rows, columns = given
    opened = [_mask(window(columns), rows) for window in windows]
    admitted = _either(opened, rows)
    kept = pc.sum(admitted).as_py() or 0
    cut = [mask.filter(admitted) for mask in opened] if len(opened) > 1 else []
    seen = {}
    for uid, showing in resolved.shown_by.items():
        column = columns[uid].filter(admitted)
        if not resolved.is_always_shown(uid):
            shown = _either([cut[i] for i in showing], kept)
            column = pc.if_else(shown, column, pa.scalar(None, column.type))
        seen[uid] = column
    return kept, seen


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
    return compiled(predicate, columns, _ARROW)


class _ArrowAlgebra:
    """Each piece is a function from the columns of a batch to an answer per row."""

    def constant(self, answer: bool | None) -> Ask:
        same = pa.scalar(answer, pa.bool_())
        return lambda columns: same

    def is_present(self, uid: AttributeUid) -> Ask:
        return lambda columns: pc.is_valid(columns[uid])

    def compare(self, uid: AttributeUid, operator: Operator, literal: PresentValue, kind: Kind) -> Ask:
        kernel, operand = _KERNELS[operator], _scalar(literal, kind)
        return lambda columns: kernel(columns[uid], operand)

    def is_one_of(self, uid: AttributeUid, literals: Sequence[PresentValue], kind: Kind) -> Ask:
        wanted = _value_set(literals, kind)

        def ask(columns: Columns) -> Answer:
            column = columns[uid]
            # `is_in` answers false for null, where the meaning says unknown.
            return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), _UNKNOWN)

        return ask

    def matches(self, uid: AttributeUid, test: TextTest, text: str) -> Ask:
        match test:
            case TextTest.PREFIX:
                return lambda columns: pc.starts_with(columns[uid], text)
            case TextTest.SUFFIX:
                return lambda columns: pc.ends_with(columns[uid], text)
            case TextTest.CONTAINS:
                return lambda columns: pc.match_substring(columns[uid], text)
            case TextTest.TOKEN:
                return lambda columns: pc.match_substring(_spaced(columns[uid]), f" {text} ")
            case TextTest.LEVELS:
                expression = rf"(?s)\A{parse_path_pattern(text).regex()}\z"
                return lambda columns: pc.match_substring_regex(columns[uid], expression)
            case _:
                assert_never(test)

    def negated(self, inner: Ask) -> Ask:
        return lambda columns: pc.invert(inner(columns))

    def all_of(self, parts: Sequence[Ask]) -> Ask:
        return _folded(pc.and_kleene, parts)

    def any_of(self, parts: Sequence[Ask]) -> Ask:
        return _folded(pc.or_kleene, parts)


_ARROW: Final[Algebra[Ask]] = _ArrowAlgebra()


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
