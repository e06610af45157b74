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


# The column type of each kind of value.
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
            raise BadInput(
                "INPUT-STORED-COLUMNS",
                f"`{attribute.name}` is of kind {attribute.kind.value}, and is stored as {kind.value}",
            )
    return delivered


EXPANDED_NODES_MAX: Final = 100_000
"""Beyond this, what windows decide becomes a column, in place of being written wherever it is used."""
_INLINE_MAX: Final = 2
"""Operations within each other that are written as one; an operand may be repeated eight times in each."""
_ASKED_INLINE_MAX: Final = 64
"""Questions of a filter that are written over what rules make; for more of them, that becomes columns."""


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
        """Return whether every window shows this attribute, so that an admitted row always has it."""
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
    return ViewPlan(tuple(window.admits for window in view.windows), view.interest, stored, shown_by)


def transforms(view: View) -> bool:
    """Return whether a View shows anything else than was published."""
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


def is_stepwise(view: View, stored: Kinds) -> bool:
    """Whether a View is written with `transformed`: it transforms, or its columns would repeat too much.

    The planners of Spark and PostgreSQL put the definition of a column wherever it is used, so
    an attribute that some windows show costs the size of those windows each time.
    """
    if transforms(view):
        return True
    resolved = plan(view, stored)
    sizes = [size_of(window) for window in resolved.windows]
    cost = {
        uid: sum(sizes[i] for i in windows)
        for uid, windows in resolved.shown_by.items()
        if not resolved.is_always_shown(uid)
    }
    uses = sum(cost.get(atom.uid, 0) for atom in atoms(resolved.interest))
    return uses + sum(cost.values()) > EXPANDED_NODES_MAX


# Predicates and expressions in a target language.


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


@dataclass(frozen=True, slots=True)
class _MadeValue(Generic[T]):
    """A value, how many operations within each other it is written with, and the level that it reads."""

    value: T
    inline: int
    level: int


class _Bound(Generic[T]):
    """Values that have a column of their own, by level: each reads stored columns and lower levels."""

    def __init__(self, algebra: Algebra[T], place: int) -> None:
        self.algebra, self._place, self._count = algebra, place, 0
        self.levels: dict[int, list[tuple[AttributeUid, T]]] = {}

    def bind(self, value: T, kind: Kind, level: int) -> T:
        """Return a column of a level in place of a value; its name is no attribute's."""
        self._count += 1
        name = AttributeUid(f"bound {self._place}.{self._count}")
        self.levels.setdefault(level, []).append((name, value))
        return self.algebra.column(name, kind)

    def calculated(
        self, expression: Expression, columns: Columns[T], level: int, keys: KeyName
    ) -> _MadeValue[T]:
        """Write an expression over `columns` of a level in the target language."""
        match expression:
            case Constant(constant):
                return _MadeValue(self.algebra.literal(constant, expression.kind), 0, level)
            case Take(uid, kind):
                found = _of_kind(uid, kind, columns)
                return _MadeValue(self.algebra.literal(None, kind) if found is None else found, 0, level)
            case Arithmetic(sign, left, right):
                (one, other), made = self._operands((left, right), columns, level, keys)
                value = self.algebra.calculated(sign, one, other, expression.kind)
            case Coalesce(parts):
                values, made = self._operands(parts, columns, level, keys)
                value = self.algebra.coalesced(values, expression.kind)
            case Call(_, inner):
                (one,), made = self._operands((inner,), columns, level, keys)
                value = self.algebra.called(expression, one, keys)
            case _:
                assert_never(expression)
        return _MadeValue(value, 1 + max(part.inline for part in made), max(part.level for part in made))

    def _operands(
        self, parts: Sequence[Expression], columns: Columns[T], level: int, keys: KeyName
    ) -> tuple[list[T], list[_MadeValue[T]]]:
        made = [self.calculated(part, columns, level, keys) for part in parts]
        for place, one in enumerate(made):
            if one.inline >= _INLINE_MAX:
                value = self.bind(one.value, parts[place].kind, one.level + 1)
                made[place] = _MadeValue(value, 0, one.level + 1)
        return [one.value for one in made], made


@dataclass(frozen=True, slots=True)
class Transformed(Generic[T]):
    """What a View comes to in a target language, in steps.

    First `begins` admits rows by what is stored. Then each level of `bound` adds columns, which read what
    is stored and the levels before: written into each other, the steps of a chain would grow exponentially.
    """

    begins: T
    bound: tuple[tuple[tuple[AttributeUid, T], ...], ...]
    admits: T
    seen: dict[AttributeUid, tuple[Kind, T]]


def transformed(view: View, stored: Kinds, algebra: Algebra[T], place: int = 0) -> Transformed[T]:
    """Write windows, and their transformations, over the stored columns.

    `place` tells the bound columns of several Views over one table apart.
    """
    checked_view(view)
    columns, bound = columns_of(checked_stored(stored), algebra), _Bound(algebra, place)
    is_asked_often = sum(1 for _ in atoms(view.interest)) > _ASKED_INLINE_MAX
    through = [
        _through(window, columns, bound, view.recipient, binds_last=is_asked_often) for window in view.windows
    ]
    if len(through) > 1:
        last = 1 + max(bound.levels, default=0)
        through = [(bound.bind(admits, Kind.BOOL, last), shown) for admits, shown in through]
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
                raise BadInput("INPUT-STORED-COLUMNS", f"two windows of the view show `{uid}` as two kinds")
    begins = either([compiled(window.admits, columns, algebra) for window in view.windows], algebra)
    levels = tuple(tuple(bound.levels[level]) for level in sorted(bound.levels))
    return Transformed(begins, levels, either([admits for admits, _ in through], algebra), seen)


def _through(
    window: Window, columns: Columns[T], bound: _Bound[T], recipient: bytes, *, binds_last: bool
) -> tuple[T, dict[AttributeUid, tuple[Kind, T]]]:
    """Return where a window is open, and what it shows there."""
    algebra, level = bound.algebra, 0
    opens = [compiled(window.admits, columns, algebra)]
    shown = {uid: found for uid, found in columns.items() if is_among(uid, window.attributes)}
    for number, step in enumerate(window.transformations, start=1):
        opens.append(compiled(step.restriction, shown, algebra))
        keys = KeyName(step.by.key, recipient, step.holder)
        after, made, level = _after_rules(step, shown, bound, level, keys)
        if binds_last or number < len(window.transformations):
            level += 1
            after |= {uid: (kind, bound.bind(value, kind, level)) for uid, (kind, value) in made.items()}
        else:
            after |= made
        shown = {uid: found for uid, found in after.items() if is_among(uid, step.attributes)}
    return _joined(opens, algebra, conjunction=True), shown


def _after_rules(
    step: Transformation, shown: Columns[T], bound: _Bound[T], level: int, keys: KeyName
) -> tuple[dict[AttributeUid, tuple[Kind, T]], dict[AttributeUid, tuple[Kind, T]], int]:
    """Return what rules leave alone, what they make, and the level that this reads."""
    algebra = bound.algebra
    after, made, highest = {} if step.result is not None else dict(shown), {}, level
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
                found = bound.calculated(rule.value, shown, level, keys)
                then, highest = found.value, max(highest, found.level)
            if rule.condition == ALWAYS:
                value = then
            else:
                value = algebra.chosen(compiled(rule.condition, shown, algebra), then, value, kind)
        made[uid] = kind, value
    return after, made, highest


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
    "is_stepwise",
    "transformed",
    "transforms",
]
