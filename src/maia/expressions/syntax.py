"""What can a policy compute from an event?

An expression is typed: it knows the kind of its result, and a combination
that means nothing cannot be made. It is bounded in depth and size, and it
has no loops, so that every event has an answer after a known number of steps. It is
plain data: `meaning.py` says what it means, and the executors in `maia.views`
are fast ways to the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid, BadValue, Kind, PresentValue, checked_value, is_of_event, kind_of
from maia.predicates.syntax import ALWAYS, Exists, Predicate, atoms, attributes_of, checked_size, size_of

EXPRESSION_DEPTH_MAX: Final = 8
EXPRESSION_NODES_MAX: Final = 100
RULES_MAX: Final = 64
"""Assignments of one transformation."""
STEP_MAX: Final = 10**15
FLOAT_STEP_MIN: Final = 1e-100
FLOAT_STEP_MAX: Final = 1e100
COUNT_MAX: Final = 10_000
_OPERANDS_MAX: Final = 2


class BadExpression(BadInput):
    """An expression, or a list of assignments, says something that has no meaning or is too large."""

    code = "INPUT-EXPRESSION"


class ArithmeticSign(Enum):
    """What is done with two numbers of one kind."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    OVER = "/"


class Scope(Enum):
    """For whom a keyed function gives the same result."""

    RECIPIENT = "recipient"
    DOMAIN = "domain"


class Function(Enum):
    """What is done with one value and some constants."""

    ROUND_TO = "round_to"
    BUCKET = "bucket"
    TRUNCATE = "truncate"
    FIRST = "first"
    UPPER = "upper"
    LOWER = "lower"
    MASK = "mask"
    DAY_OF = "day_of"
    HOUR_OF = "hour_of"
    PSEUDONYM = "pseudonym"
    PERTURB = "perturb"
    LOOKUP = "lookup"


KEYED: Final = frozenset({Function.PSEUDONYM, Function.PERTURB, Function.LOOKUP})
"""Functions that need something of their issuer's: a secret, or a table."""
TABLE_NAME_MAX: Final = 64
UNITS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
"""The units of `truncate`, in seconds."""

_TAKES: Final[dict[Function, tuple[frozenset[Kind], str]]] = {
    Function.ROUND_TO: (frozenset({Kind.INT, Kind.FLOAT}), "a number and a step"),
    Function.BUCKET: (frozenset({Kind.INT, Kind.FLOAT}), "a number and a step"),
    Function.TRUNCATE: (frozenset({Kind.TIMESTAMP}), 'a timestamp and "minute", "hour" or "day"'),
    Function.FIRST: (frozenset({Kind.STRING}), "a string and how many characters to keep"),
    Function.UPPER: (frozenset({Kind.STRING}), "a string"),
    Function.LOWER: (frozenset({Kind.STRING}), "a string"),
    Function.MASK: (frozenset({Kind.STRING}), "a string and how many characters to keep at its end"),
    Function.DAY_OF: (frozenset({Kind.TIMESTAMP}), "a timestamp"),
    Function.HOUR_OF: (frozenset({Kind.TIMESTAMP}), "a timestamp"),
    Function.PSEUDONYM: (frozenset(Kind), 'a value and "recipient" or "domain"'),
    Function.PERTURB: (
        frozenset({Kind.INT, Kind.FLOAT, Kind.TIMESTAMP}),
        'a number or timestamp, a bound, and "recipient" or "domain"',
    ),
    Function.LOOKUP: (frozenset(Kind), "the name of a table, a value, and the kind of what is found"),
}
_KINDS: Final = frozenset(kind.value for kind in Kind)
_RESULTS: Final = {Function.DAY_OF: Kind.INT, Function.HOUR_OF: Kind.INT, Function.PSEUDONYM: Kind.STRING}


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every event."""

    value: PresentValue
    # Python takes 1, 1.0 and True for equal; the kind beside it tells them apart.
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what is no value; fold minus zero."""
        try:
            kind = kind_of(self.value)
            object.__setattr__(self, "value", checked_value(self.value, kind))
        except BadValue as problem:
            raise BadExpression(f"a constant cannot be used: {problem.message}") from problem
        object.__setattr__(self, "kind", kind)


@dataclass(frozen=True, slots=True)
class Take:
    """The value of an attribute; missing where the event has none, or one of another kind."""

    uid: AttributeUid
    kind: Kind


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two ints or two floats; missing on overflow, on division by zero, and outside the floats' range."""

    sign: ArithmeticSign
    left: Expression
    right: Expression
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse anything but two numbers of one kind."""
        kind = self.left.kind
        if kind is not self.right.kind or kind not in (Kind.INT, Kind.FLOAT):
            raise BadExpression(
                f"`{self.sign.value}` takes two ints or two floats, and not "
                f"{_with_article(kind)} and {_with_article(self.right.kind)}"
            )
        object.__setattr__(self, "kind", kind)


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first of several values that is present."""

    parts: tuple[Expression, ...]
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse an empty list and one of mixed kinds."""
        kinds = {part.kind for part in self.parts}
        if len(self.parts) < _OPERANDS_MAX or len(kinds) != 1:
            raise BadExpression("`coalesce` takes two or more values, all of one kind")
        object.__setattr__(self, "kind", kinds.pop())


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one value; the other operands are constants."""

    function: Function
    inner: Expression
    operands: tuple[PresentValue, ...] = ()
    kind: Kind = field(init=False, repr=False)
    # Beside the operands for the same reason as in a constant.
    _classes: tuple[type, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what the function does not take."""
        kinds, wanted = _TAKES[self.function]
        if self.inner.kind not in kinds or not _fits(self.function, self.inner.kind, self.operands):
            raise BadExpression(f"`{self.function.value}` takes {wanted}")
        kind = _RESULTS.get(self.function, self.inner.kind)
        kind = Kind(self.operands[1]) if self.function is Function.LOOKUP else kind
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "_classes", tuple(type(operand) for operand in self.operands))

    @property
    def scope(self) -> Scope:
        """Return for whom a keyed function gives the same result: its last operand; a table is for all."""
        return Scope.DOMAIN if self.function is Function.LOOKUP else Scope(self.operands[-1])


Expression: TypeAlias = Constant | Take | Arithmetic | Coalesce | Call


def _fits(function: Function, kind: Kind, operands: tuple[PresentValue, ...]) -> bool:
    match function:
        case Function.ROUND_TO | Function.BUCKET:
            return len(operands) == 1 and _is_step(operands[0], kind)
        case Function.TRUNCATE:
            return len(operands) == 1 and operands[0] in UNITS
        case Function.FIRST | Function.MASK:
            return len(operands) == 1 and type(operands[0]) is int and 0 <= operands[0] <= COUNT_MAX
        case Function.PSEUDONYM:
            return len(operands) == 1 and _is_scope(operands[0])
        case Function.PERTURB:
            # Moments are moved by seconds.
            unit = Kind.INT if kind is Kind.TIMESTAMP else kind
            return len(operands) == _OPERANDS_MAX and _is_step(operands[0], unit) and _is_scope(operands[1])
        case Function.LOOKUP:
            return len(operands) == _OPERANDS_MAX and _is_table(operands[0]) and operands[1] in _KINDS
        case _:
            return not operands


def _is_step(operand: PresentValue, kind: Kind) -> bool:
    if kind is Kind.INT:
        return type(operand) is int and 1 <= operand <= STEP_MAX
    return type(operand) is float and FLOAT_STEP_MIN <= operand <= FLOAT_STEP_MAX


def _is_scope(operand: PresentValue) -> bool:
    return isinstance(operand, str) and operand in (Scope.RECIPIENT.value, Scope.DOMAIN.value)


def _is_table(operand: PresentValue) -> bool:
    return isinstance(operand, str) and 0 < len(operand) <= TABLE_NAME_MAX


def _with_article(kind: Kind) -> str:
    return f"an {kind.value}" if kind is Kind.INT else f"a {kind.value}"


@dataclass(frozen=True, slots=True)
class Rule:
    """`when CONDITION: uid := value`; without a value the attribute is removed.

    Condition and value are asked of the event as it was before any rule.
    Where the condition is unknown, the attribute is missing afterwards: a
    value that a policy wants to change is never shown by mistake.
    """

    uid: AttributeUid
    value: Expression | None
    condition: Predicate = ALWAYS


def parts_within(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions that one is made of, from left to right."""
    match expression:
        case Arithmetic(_, left, right):
            return (left, right)
        case Coalesce(parts):
            return parts
        case Call(_, inner):
            return (inner,)
        case _:
            return ()


def expressions_in(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all within it, the outermost first."""
    pending = [expression]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(reversed(parts_within(here)))


def expression_size(expression: Expression) -> int:
    """Return of how many parts an expression is made; refuse one that is too large or too deep."""
    nodes = 0
    pending = [(expression, 1)]
    while pending:
        here, depth = pending.pop()
        nodes += 1
        if depth > EXPRESSION_DEPTH_MAX or nodes > EXPRESSION_NODES_MAX:
            raise BadExpression(
                f"an expression has at most {EXPRESSION_NODES_MAX} parts and {EXPRESSION_DEPTH_MAX} levels"
            )
        pending.extend((part, depth + 1) for part in parts_within(here)[: EXPRESSION_NODES_MAX + 1])
    return nodes


def reads_of(rules: Iterable[Rule]) -> frozenset[AttributeUid]:
    """Return the attributes of an event that rules read, in conditions and values."""
    read: set[AttributeUid] = set()
    for rule in rules:
        read |= {uid for uid in attributes_of(rule.condition) if is_of_event(uid)}
        if rule.value is not None:
            read |= {one.uid for one in expressions_in(rule.value) if isinstance(one, Take)}
    return frozenset(read)


def is_keyed(expression: Expression | None, scope: Scope | None = None) -> bool:
    """Return whether an expression needs a key or a table; with a `scope`, whether one of that scope."""
    return expression is not None and any(
        isinstance(one, Call) and one.function in KEYED and scope in (None, one.scope)
        for one in expressions_in(expression)
    )


def rules_are_keyed(rules: Iterable[Rule], scope: Scope | None = None) -> bool:
    """Return whether one of the rules needs a key; with a `scope`, one of that scope."""
    return any(is_keyed(rule.value, scope) for rule in rules)


def assigned_kinds(rules: Iterable[Rule]) -> dict[AttributeUid, Kind | None]:
    """Return the kind of each attribute that rules assign; None where they only remove it."""
    kinds: dict[AttributeUid, Kind | None] = {}
    for rule in rules:
        if rule.value is not None:
            kinds[rule.uid] = rule.value.kind
        else:
            kinds.setdefault(rule.uid, None)
    return kinds


def rules_size(rules: Iterable[Rule]) -> int:
    """Return of how many parts conditions and values are made together."""
    return sum(
        1 + size_of(rule.condition) + (0 if rule.value is None else expression_size(rule.value))
        for rule in rules
    )


def checked_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules, refused if they are too many, too large, or give one attribute two kinds."""
    if len(rules) > RULES_MAX:
        raise BadExpression(f"a transformation has at most {RULES_MAX} assignments")
    kinds: dict[AttributeUid, Kind] = {}
    for rule in rules:
        checked_size(rule.condition)
        for atom in atoms(rule.condition):
            if isinstance(atom, Exists) and not is_of_event(atom.uid):
                # Withholding a statement would be an answer.
                raise BadExpression(f"`exists({atom.uid})` asks for what may be withheld: ask for a value")
        if rule.value is not None:
            expression_size(rule.value)
            if kinds.setdefault(rule.uid, rule.value.kind) is not rule.value.kind:
                raise BadExpression(f"two assignments give `{rule.uid}` values of two kinds")
    return rules
