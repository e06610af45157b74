"""What does a View come to over the columns that are stored?

The three executors over columns ask before they compile. The plan says which
windows show which column, so that hidden columns are dropped, columns that
every window shows are passed on untouched, and only the rest need a CASE. It
also keeps the compiled form within limits, whatever the View says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar, assert_never

from maia.credentials.authority import Transformation
from maia.errors import BadInput
from maia.events import (
    Attribute,
    AttributeUid,
    Kind,
    Kinds,
    PresentValue,
    attribute_uid,
    routed_uid,
    vocabulary_of,
)
from maia.expressions.syntax import (
    Arithmetic,
    ArithmeticSign,
    Call,
    Coalesce,
    Constant,
    Expression,
    Take,
    assigned_kinds,
    checked_rules,
)
from maia.policy.view import WINDOWS_MAX, View, Window, is_among, shows, window_size
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    ALWAYS,
    NODES_MAX,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    atoms,
    checked_size,
    size_of,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


# Which column type holds which kind of value?
#
# The executors, the log and the tests all ask here, so that a table written by one of them is read by all
# of them. Each kind has exactly one type per system; a column of any other type is refused, because
# comparing it would need a coercion and Maia has none.


POSTGRES_TYPES: Final[dict[Kind, str]] = {
    Kind.STRING: "text",
    Kind.INT: "bigint",
    Kind.FLOAT: "double precision",
    Kind.BOOL: "boolean",
    Kind.TIMESTAMP: "timestamptz",
    Kind.BYTES: "bytea",
}


class StoredMismatch(BadInput):
    """A table or batch does not have the columns that it was said to have."""

    code = "INPUT-STORED-COLUMNS"


def spark_type(kind: Kind) -> DataType:
    """Return the Spark type of a kind. Strings have the binary collation, the default."""
    from pyspark.sql import types as t

    match kind:
        case Kind.STRING:
            return t.StringType()
        case Kind.INT:
            return t.LongType()
        case Kind.FLOAT:
            return t.DoubleType()
        case Kind.BOOL:
            return t.BooleanType()
        case Kind.TIMESTAMP:
            return t.TimestampType()
        case Kind.BYTES:
            return t.BinaryType()


def spark_schema(stored: Kinds) -> StructType:
    """Return the schema of a data frame whose columns are called by uid."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(uid, spark_type(kind)) for uid, kind in stored.items()])


def checked_stored(stored: Kinds) -> Kinds:
    """Return `stored`, refused if a uid could be taken for anything but a column's name.

    A predicate's attribute becomes a column only if it is stored, so no text
    of a policy or a subscriber reaches a query as an identifier.
    """
    for uid in stored:
        routed_uid(uid)
    return stored


def checked_delivered(delivered: tuple[Attribute, ...], stored: Kinds) -> tuple[Attribute, ...]:
    """Return `delivered`, refused if two share a uid or a name, or one is stored as another kind.

    No two versions of a type give one uid two kinds, so the caller has mixed
    up two types; null would hide that.
    """
    vocabulary_of(delivered)
    for attribute in delivered:
        kind = stored.get(attribute.uid, attribute.kind)
        if kind is not attribute.kind:
            raise StoredMismatch(
                f"`{attribute.name}` is of kind {attribute.kind.value}, and is stored as {kind.value}"
            )
    return delivered


EXPANDED_NODES_MAX: Final = 100_000


class ViewSummarises(BadInput):
    """A View of what many events come to was to be applied to single events."""

    code = "VIEW-SUMMARISES"


class ViewTooLarge(BadInput):
    """A View has too many windows, or its predicates are too large together."""

    code = "INPUT-VIEW-SIZE"


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A View, resolved against what is stored."""

    windows: tuple[Predicate, ...]
    interest: Predicate
    stored: Kinds
    shown_by: dict[AttributeUid, tuple[int, ...]]
    """The windows, by position, that show each stored attribute; hidden ones are left out."""

    @property
    def seen(self) -> dict[AttributeUid, Kind]:
        """Return the kinds of what some window shows: all that the interest may name."""
        return {uid: self.stored[uid] for uid in self.shown_by}

    def is_always_shown(self, uid: AttributeUid) -> bool:
        """Say whether every window shows this attribute, so that an admitted row always has it."""
        return len(self.shown_by[uid]) == len(self.windows)


def plan(view: View, stored: Kinds) -> ViewPlan:
    """Resolve a View against the stored columns, within the limits."""
    checked_view(view)
    checked_stored(stored)
    shown_by = {
        uid: windows
        for uid in stored
        if (windows := tuple(i for i, window in enumerate(view.windows) if shows(window, uid)))
    }
    resolved = ViewPlan(tuple(window.admits for window in view.windows), view.interest, stored, shown_by)
    _check_expansion(resolved)
    return resolved


def transforms(view: View) -> bool:
    """Say whether a View shows anything else than was published."""
    return any(window.transformations for window in view.windows)


def checked_view(view: View) -> View:
    """Return `view`, refused if it is too large to compile. Everything recursive runs behind this."""
    if len(view.windows) > WINDOWS_MAX:
        raise ViewTooLarge(f"a view has at most {WINDOWS_MAX} windows, and this one has {len(view.windows)}")
    for window in view.windows:
        checked_size(window.admits)
        for step in window.transformations:
            if step.summary is not None:
                raise ViewSummarises(
                    "the view shows what many events come to in a period, and no event alone"
                )
            checked_size(step.restriction)
            for rule in checked_rules(step.rules):
                attribute_uid(rule.uid)
    size = size_of(checked_size(view.interest)) + sum(window_size(window) for window in view.windows)
    if size > NODES_MAX:
        raise ViewTooLarge(f"the predicates of a view have at most {NODES_MAX} parts together")
    return view


def _check_expansion(resolved: ViewPlan) -> None:
    # The planners of Spark and PostgreSQL put the definition of a column wherever it is used, so
    # an attribute that some windows show costs the size of those windows each time.
    sizes = [size_of(window) for window in resolved.windows]
    cost = {
        uid: sum(sizes[i] for i in windows)
        for uid, windows in resolved.shown_by.items()
        if not resolved.is_always_shown(uid)
    }
    uses = sum(cost.get(atom.uid, 0) for atom in atoms(resolved.interest))
    if uses + sum(cost.values()) > EXPANDED_NODES_MAX:
        raise ViewTooLarge(f"written out by column, the view has more than {EXPANDED_NODES_MAX} parts")


# How is a predicate, or an expression, put together in a target language?


T = TypeVar("T")

Columns: TypeAlias = Mapping[AttributeUid, tuple[Kind, T]]
"""What can be asked about: the kind of each attribute, and its value in the target language."""


class Algebra(Protocol[T]):
    """The pieces of one target language. Answers are true, false or unknown per row."""

    def column(self, uid: AttributeUid, kind: Kind) -> T:
        """Return the value of a stored column."""

    def constant(self, answer: bool | None) -> T:
        """Return the same answer for every row; None is unknown."""

    def is_present(self, found: T) -> T:
        """Ask whether there is a value: true or false, never unknown."""

    def compare(self, found: T, operator: Operator, literal: PresentValue, kind: Kind) -> T:
        """Compare a value with a literal of its kind."""

    def is_one_of(self, found: T, literals: Sequence[PresentValue], kind: Kind) -> T:
        """Ask whether a value equals one of some literals of its kind."""

    def matches(self, found: T, test: TextTest, text: str) -> T:
        """Put a question to a string."""

    def negated(self, inner: T) -> T:
        """Turn true and false around; unknown stays."""

    def all_of(self, parts: Sequence[T]) -> T:
        """Join at least two parts: false if one is false, else unknown if one is."""

    def any_of(self, parts: Sequence[T]) -> T:
        """Join at least two parts: true if one is true, else unknown if one is."""

    def literal(self, value: PresentValue | None, kind: Kind) -> T:
        """Return the same value for every row; None is missing."""

    def calculated(self, sign: ArithmeticSign, left: T, right: T, kind: Kind) -> T:
        """Calculate with two numbers of one kind."""

    def coalesced(self, parts: Sequence[T], kind: Kind) -> T:
        """Return the first of at least two values that is present."""

    def called(self, call: Call, inner: T, keys: KeyName) -> T:
        """Apply a function to a value."""

    def chosen(self, condition: T, then: T, otherwise: T, kind: Kind) -> T:
        """Return one value where a condition is true, another where it is false, none where it is unknown."""


@dataclass(frozen=True, slots=True)
class KeyName:
    """Whose secret keys an expression, and for whom: public keys, and no secret."""

    issuer: bytes
    recipient: bytes
    holder: bytes


def columns_of(stored: Kinds, algebra: Algebra[T]) -> dict[AttributeUid, tuple[Kind, T]]:
    """Return the stored columns in the target language."""
    return {uid: (kind, algebra.column(uid, kind)) for uid, kind in stored.items()}


def compiled(predicate: Predicate, columns: Columns[T], algebra: Algebra[T]) -> T:
    """Write `predicate` over `columns` in the target language.

    An attribute without a column is missing in every row. The caller has
    checked the size, so the recursion is bounded.
    """
    match predicate:
        case Exists(uid):
            return algebra.is_present(columns[uid][1]) if uid in columns else algebra.constant(False)
        case Comparison(uid, operator, literal):
            found = _of_kind(uid, predicate.kind, columns)
            if found is None:
                return algebra.constant(None)
            return algebra.compare(found, operator, literal, predicate.kind)
        case Membership(uid, literals):
            found = _of_kind(uid, predicate.kind, columns)
            if found is None:
                return algebra.constant(None)
            return algebra.is_one_of(found, in_order(literals), predicate.kind)
        case TextMatch(uid, test, text):
            found = _of_kind(uid, Kind.STRING, columns)
            if found is None:
                return algebra.constant(None)
            if test is TextTest.LEVELS and (pattern := parse_path_pattern(text)).is_literal:
                # Comparisons are faster than a regular expression, and a planner understands them.
                node = algebra.compare(found, Operator.EQ, pattern.literal, Kind.STRING)
                below = algebra.matches(found, TextTest.PREFIX, f"{pattern.literal}/")
                return algebra.any_of([node, below]) if pattern.has_rest else node
            return algebra.matches(found, test, text)
        case Not(inner):
            return algebra.negated(compiled(inner, columns, algebra))
        case AllOf(parts):
            answers = [compiled(part, columns, algebra) for part in parts]
            return _joined(answers, algebra, conjunction=True)
        case AnyOf(parts):
            answers = [compiled(part, columns, algebra) for part in parts]
            return _joined(answers, algebra, conjunction=False)
        case _:
            assert_never(predicate)


def _of_kind(uid: AttributeUid, kind: Kind, columns: Columns[T]) -> T | None:
    found = columns.get(uid)
    return found[1] if found is not None and found[0] is kind else None


def calculated(expression: Expression, columns: Columns[T], algebra: Algebra[T], keys: KeyName) -> T:
    """Write an expression over `columns` in the target language."""
    match expression:
        case Constant(value):
            return algebra.literal(value, expression.kind)
        case Take(uid, kind):
            found = _of_kind(uid, kind, columns)
            return algebra.literal(None, kind) if found is None else found
        case Arithmetic(sign, left, right):
            one = calculated(left, columns, algebra, keys)
            return algebra.calculated(sign, one, calculated(right, columns, algebra, keys), expression.kind)
        case Coalesce(parts):
            values = [calculated(part, columns, algebra, keys) for part in parts]
            return algebra.coalesced(values, expression.kind)
        case Call(_, inner):
            return algebra.called(expression, calculated(inner, columns, algebra, keys), keys)
        case _:
            assert_never(expression)


@dataclass(frozen=True, slots=True)
class Transformed(Generic[T]):
    """What a View with transformations comes to in a target language."""

    admits: T
    seen: dict[AttributeUid, tuple[Kind, T]]


def transformed(view: View, stored: Kinds, algebra: Algebra[T]) -> Transformed[T]:
    """Write windows with transformations over the stored columns, within the limits."""
    checked_view(view)
    checked_stored(stored)
    if algebra is not _SIZES:
        sizes = transformed(view, stored, _SIZES)
        whole = sizes.admits + sum(size for _, size in sizes.seen.values())
        # The planners of Spark and PostgreSQL put a column's definition wherever the interest uses it.
        whole += sum(sizes.seen[atom.uid][1] for atom in atoms(view.interest) if atom.uid in sizes.seen)
        if whole > EXPANDED_NODES_MAX:
            raise ViewTooLarge(f"written out by column, the view has more than {EXPANDED_NODES_MAX} parts")
    through = [
        _through(window, columns_of(stored, algebra), algebra, view.recipient) for window in view.windows
    ]
    seen: dict[AttributeUid, tuple[Kind, T]] = {}
    for admits, shown in through:
        for uid, (kind, value) in shown.items():
            missing = algebra.literal(None, kind)
            # Where the window is not open, or not known to be, there is no value.
            here = value if len(through) == 1 else algebra.chosen(admits, value, missing, kind)
            if uid not in seen:
                seen[uid] = kind, here
            elif seen[uid][0] is kind:
                seen[uid] = kind, algebra.coalesced([seen[uid][1], here], kind)
            else:
                raise StoredMismatch(f"two windows of the view show `{uid}` as two kinds")
    return Transformed(either([admits for admits, _ in through], algebra), seen)


def _through(
    window: Window, columns: Columns[T], algebra: Algebra[T], recipient: bytes
) -> tuple[T, dict[AttributeUid, tuple[Kind, T]]]:
    """Return where a window is open, and what it shows there."""
    opens = [compiled(window.admits, columns, algebra)]
    shown = {uid: found for uid, found in columns.items() if is_among(uid, window.attributes)}
    for step in window.transformations:
        opens.append(compiled(step.restriction, shown, algebra))
        after = _after_rules(step, shown, algebra, KeyName(step.by.key, recipient, step.holder))
        shown = {uid: found for uid, found in after.items() if is_among(uid, step.attributes)}
    return _joined(opens, algebra, conjunction=True), shown


def _after_rules(
    step: Transformation, shown: Columns[T], algebra: Algebra[T], keys: KeyName
) -> dict[AttributeUid, tuple[Kind, T]]:
    after = {} if step.result is not None else dict(shown)
    for uid, assigned in assigned_kinds(step.rules).items():
        before = after.pop(uid, None)
        kind = assigned or (None if before is None else before[0])
        if kind is None:
            continue  # what was not there is removed
        value = before[1] if before is not None and before[0] is kind else algebra.literal(None, kind)
        for rule in step.rules:
            if rule.uid != uid:
                continue
            then = algebra.literal(None, kind)
            if rule.value is not None:
                then = calculated(rule.value, shown, algebra, keys)
            if rule.condition == ALWAYS:
                value = then
            else:
                value = algebra.chosen(compiled(rule.condition, shown, algebra), then, value, kind)
        after[uid] = kind, value
    return after


class _SizeAlgebra:
    """Each piece is how many parts it has when it is written out; the most that a target needs."""

    def column(self, uid: AttributeUid, kind: Kind) -> int:
        return 1

    def constant(self, answer: bool | None) -> int:
        return 1

    def is_present(self, found: int) -> int:
        return 1 + found

    def compare(self, found: int, operator: Operator, literal: PresentValue, kind: Kind) -> int:
        return 1 + found

    def is_one_of(self, found: int, literals: Sequence[PresentValue], kind: Kind) -> int:
        return 2 * found + len(literals)

    def matches(self, found: int, test: TextTest, text: str) -> int:
        return 1 + found

    def negated(self, inner: int) -> int:
        return 1 + inner

    def all_of(self, parts: Sequence[int]) -> int:
        return 1 + sum(parts)

    def any_of(self, parts: Sequence[int]) -> int:
        return 1 + sum(parts)

    def literal(self, value: PresentValue | None, kind: Kind) -> int:
        return 1

    def calculated(self, sign: ArithmeticSign, left: int, right: int, kind: Kind) -> int:
        return 8 + 4 * (left + right)

    def coalesced(self, parts: Sequence[int], kind: Kind) -> int:
        return 1 + sum(parts)

    def called(self, call: Call, inner: int, keys: KeyName) -> int:
        return 8 + 8 * inner

    def chosen(self, condition: int, then: int, otherwise: int, kind: Kind) -> int:
        return 2 + 2 * condition + then + otherwise


_SIZES: Final[Algebra[int]] = _SizeAlgebra()


def in_order(literals: frozenset[PresentValue]) -> list[PresentValue]:
    """Return the literals of an `in` in a fixed order, so that equal views compile to equal text."""
    # All literals are of one kind, so they have an order; False < True serves here too.
    return sorted(literals)


def either(answers: Sequence[T], algebra: Algebra[T]) -> T:
    """Join any number of answers: true where at least one is."""
    return _joined(answers, algebra, conjunction=False)


def _joined(answers: Sequence[T], algebra: Algebra[T], *, conjunction: bool) -> T:
    if not answers:
        return algebra.constant(conjunction)
    if len(answers) == 1:
        return answers[0]
    return algebra.all_of(answers) if conjunction else algebra.any_of(answers)


__all__ = [
    "EXPANDED_NODES_MAX",
    "WINDOWS_MAX",
    "ViewPlan",
    "ViewTooLarge",
    "checked_view",
    "plan",
    "Algebra",
    "Columns",
    "KeyName",
    "Transformed",
    "columns_of",
    "compiled",
    "either",
    "in_order",
    "transformed",
    "transforms",
]
