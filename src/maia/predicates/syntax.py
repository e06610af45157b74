"""What can a predicate say?

One language serves filters, restrictions, bounds, requirements and
conditions. A predicate has attributes by uid and literals that carry
their kind. It is plain data: `meaning.py` says what it means, and everything
else (text, encoding, covering, executors) is derived from that meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid, BadValue, Kind, Kinds, PresentValue, checked_value, kind_of
from maia.predicates.path_patterns import BadPathPattern, parse_path_pattern

DEPTH_MAX: Final = 64
NODES_MAX: Final = 10_000


class BadPredicate(BadInput):
    """A predicate says something that has no meaning."""

    code = "INPUT-PREDICATE"


class PredicateTooLarge(BadPredicate):
    """A predicate is nested too deeply or has too many parts."""

    code = "INPUT-PREDICATE-SIZE"


class Operator(Enum):
    """How a comparison compares the attribute with its literal."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    __hash__ = object.__hash__  # as for `Kind`: no two members are equal, and filters are hashed often


class TextTest(Enum):
    """What is asked of a string."""

    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    TOKEN = "token"  # noqa: S105 - the name of a test, not a secret
    LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`uid operator literal`; unknown where the attribute is missing or of another kind."""

    uid: AttributeUid
    operator: Operator
    literal: PresentValue
    # Python takes 1, 1.0 and True for equal; with the kind beside it, `x == 1` and `x == True` differ.
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse an order on a kind that has none; fold minus zero."""
        object.__setattr__(self, "literal", _checked_literal(self.literal))
        object.__setattr__(self, "kind", kind_of(self.literal))
        ordered = self.operator not in (Operator.EQ, Operator.NE)
        if ordered and not self.kind.is_ordered:
            raise BadPredicate(f"`{self.operator.value}` has no meaning for a bool")


@dataclass(frozen=True, slots=True)
class Membership:
    """`uid in (…)`: the attribute equals one of some literals, all of one kind."""

    uid: AttributeUid
    literals: frozenset[PresentValue]
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse an empty list and a list of mixed kinds."""
        checked = frozenset(_checked_literal(literal) for literal in self.literals)
        kinds = {kind_of(literal) for literal in checked}
        if len(kinds) != 1:
            raise BadPredicate("`in` needs at least one literal, and all of one kind")
        object.__setattr__(self, "literals", checked)
        object.__setattr__(self, "kind", kinds.pop())


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`prefix(uid, text)` and its relatives.

    `token` asks for one of the words between single spaces, `levels` for a topic path that a pattern
    with `+` and `#` means (`path_patterns.py`).
    """

    uid: AttributeUid
    test: TextTest
    text: str

    def __post_init__(self) -> None:
        """Refuse a token that could never be a word between spaces, and a pattern that means no path."""
        _checked_literal(self.text)
        if self.test is TextTest.LEVELS:
            try:
                parse_path_pattern(self.text)
            except BadPathPattern as problem:
                raise BadPredicate(problem.message) from problem
        if self.test is TextTest.TOKEN and (not self.text or " " in self.text):
            raise BadPredicate("a token is one word: not empty, and without spaces")


@dataclass(frozen=True, slots=True)
class Exists:
    """The attribute is present; the one question that is never unknown."""

    uid: AttributeUid


@dataclass(frozen=True, slots=True)
class Not:
    """The inner predicate is false; unknown stays unknown."""

    inner: Predicate


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds. Of no parts: always true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds. Of no parts: never true."""

    parts: tuple[Predicate, ...]


Atom: TypeAlias = Comparison | Membership | TextMatch | Exists
Predicate: TypeAlias = Atom | Not | AllOf | AnyOf

ALWAYS: Final = AllOf(())
NEVER: Final = AnyOf(())


def atoms(predicate: Predicate) -> Iterator[Atom]:
    """Yield the atoms from left to right. Iterative, so depth cannot hurt it."""
    pending: list[Predicate] = [predicate]
    while pending:
        match pending.pop():
            case Not(inner):
                pending.append(inner)
            case AllOf(parts) | AnyOf(parts):
                pending.extend(reversed(parts))
            case atom:
                yield atom


def attributes_of(predicate: Predicate) -> frozenset[AttributeUid]:
    """Return the attributes in a predicate."""
    return frozenset(atom.uid for atom in atoms(predicate))


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the parts that must all hold, from left to right. Iterative, so depth cannot hurt it."""
    pending = [predicate]
    while pending:
        match pending.pop():
            case AllOf(parts):
                pending.extend(reversed(parts))
            case AnyOf((only,)):
                pending.append(only)
            case part:
                yield part


def with_missing(predicate: Predicate, shown: Container[AttributeUid]) -> Predicate:
    """Return what is true exactly where `predicate` is, if every attribute that is not shown were missing.

    The result has only atoms about shown attributes. Where `predicate` is unknown it may be false: only true
    passes anyway.
    """

    def answer(atom: Atom, *, sought: bool) -> Predicate | None:
        is_false = isinstance(atom, Exists) and not sought
        return None if atom.uid in shown else ALWAYS if is_false else NEVER

    return _with_answers(predicate, answer, sought=True)


def where_possible(predicate: Predicate, is_known: Callable[[AttributeUid], bool | None]) -> Predicate:
    """Return what is true wherever `predicate` may be, whatever the attributes are that are not known.

    None for one that is known where it has a value.
    """

    def answer(atom: Atom, *, sought: bool) -> Predicate | None:
        known = is_known(atom.uid)
        if known is None:
            return AnyOf((atom if sought else Not(atom), Not(Exists(atom.uid))))
        return None if known else ALWAYS

    return _with_answers(predicate, answer, sought=True)


class _Answer(Protocol):
    def __call__(self, atom: Atom, *, sought: bool) -> Predicate | None:
        """Return where an atom is true, or false if that is sought; None to ask the event."""


def _with_answers(predicate: Predicate, answer: _Answer, *, sought: bool) -> Predicate:
    """Return what holds where `predicate` is true, or false if that is sought, some atoms answered."""
    match predicate:
        case Not(inner):
            return _with_answers(inner, answer, sought=not sought)
        case AllOf(parts) | AnyOf(parts):
            # That a conjunction is false is a disjunction: one of its parts is.
            needs_all = isinstance(predicate, AllOf) is sought
            void, decisive = (ALWAYS, NEVER) if needs_all else (NEVER, ALWAYS)
            found = [_with_answers(part, answer, sought=sought) for part in parts]
            left = tuple(dict.fromkeys(part for part in found if part != void))
            if decisive in left:
                return decisive
            return left[0] if len(left) == 1 else (AllOf if needs_all else AnyOf)(left)
        case atom:
            answered = answer(atom, sought=sought)
            return answered if answered is not None else atom if sought else Not(atom)


def mistyped(predicate: Predicate, kinds: Kinds) -> AttributeUid | None:
    """Return a declared attribute that `predicate` compares with another kind of value, if any."""
    for atom in atoms(predicate):
        declared = kinds.get(atom.uid)
        if declared is None or isinstance(atom, Exists):
            continue
        spoken = Kind.STRING if isinstance(atom, TextMatch) else atom.kind
        if spoken is not declared:
            return atom.uid
    return None


def checked_size(
    predicate: Predicate, *, depth_max: int = DEPTH_MAX, nodes_max: int = NODES_MAX
) -> Predicate:
    """Return `predicate`, refused if it nests too deeply or has too many parts.

    Everything recursive in Maia runs behind this check. Literals of an `in`
    list count as parts.
    """
    nodes = 0
    pending: list[tuple[Predicate, int]] = [(predicate, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > depth_max:
            raise PredicateTooLarge(f"the predicate nests deeper than {depth_max} levels")
        nodes += 1
        match node:
            case Not(inner):
                pending.append((inner, depth + 1))
            case AllOf(parts) | AnyOf(parts):
                # Counted before they are visited: a million parts are refused, not walked.
                pending.extend((part, depth + 1) for part in parts[: nodes_max + 1])
            case Membership(_, literals):
                nodes += len(literals)
            case _:
                pass
        if nodes + len(pending) > nodes_max:
            raise PredicateTooLarge(f"the predicate has more than {nodes_max} parts")
    return predicate


def size_of(predicate: Predicate) -> int:
    """Return how many parts a predicate has, as `checked_size` counts them; none if it is always true."""
    if predicate is ALWAYS or predicate == ALWAYS:
        return 0
    nodes = 0
    pending = [predicate]
    while pending:
        node = pending.pop()
        nodes += 1
        match node:
            case Not(inner):
                pending.append(inner)
            case AllOf(parts) | AnyOf(parts):
                pending.extend(parts)
            case Membership(_, literals):
                nodes += len(literals)
            case _:
                pass
    return nodes


def _checked_literal(literal: PresentValue) -> PresentValue:
    try:
        value = checked_value(literal, kind_of(literal))
    except BadValue as problem:
        raise BadPredicate(f"a literal cannot be used: {problem.message}") from problem
    assert value is not None  # noqa: S101 - kind_of refuses null
    return value


# The work that one question about predicates may cost.
#
# Questions such as covering can grow exponentially with the predicates that an attacker chooses. Every
# algorithm counts its steps here and gives the cautious answer once they are used up. Steps, never seconds:
# the answer must not depend on how busy the machine is.


STEPS_MAX: Final = 50_000


class OutOfSteps(Exception):
    """The steps are used up. Caught inside this package, where the cautious answer is known."""


class Steps:
    """A number of steps that only goes down."""

    __slots__ = ("left",)

    def __init__(self, left: int = STEPS_MAX) -> None:
        """Start with `left` steps."""
        self.left = left

    def spend(self, steps: int = 1) -> None:
        """Take some steps, or raise `OutOfSteps`."""
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps


# Filters as constraints on single attributes.
#
# Miklós's relations, merging and the cover table see a filter as he does: a collection of constraints, each
# asking something of one attribute. `exists(x)` is his constraint `any`. A predicate that says more than such
# a collection can say (a real `or`, or the absence of an attribute) is refused here, once, with a sentence
# that its author can act on.


Constraint: TypeAlias = Atom | Not
"""One atom, or one atom negated: something asked of a single attribute."""

Constraints: TypeAlias = Mapping[AttributeUid, tuple[Constraint, ...]]
"""The constraints of one filter by attribute; no entry is empty."""

OPPOSITE: Final = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


class NotAConstraintFilter(BadInput):
    """A predicate is more than a collection of constraints on single attributes."""

    code = "INPUT-NOT-CONSTRAINTS"


def is_true_formula(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Return an equal predicate in which `not` is before atoms only, and rarely there.

    "Equal" in all three truth values: `not (x < 5)` and `x >= 5` are unknown for the same events (missing,
    of another kind), and double negation and De Morgan's laws hold in three-valued logic.
    """
    match predicate:
        case Not(inner):
            return is_true_formula(inner, negate=not negate)
        case AllOf(parts) | AnyOf(parts):
            inner_parts = tuple([is_true_formula(part, negate=negate) for part in parts])
            return AllOf(inner_parts) if isinstance(predicate, AllOf) is not negate else AnyOf(inner_parts)
        case atom:
            return negated(atom) if negate else atom


def negated(atom: Atom) -> Constraint:
    """Return the negation of an atom, as a comparison without `not` where there is one."""
    if isinstance(atom, Comparison):
        return Comparison(atom.uid, OPPOSITE[atom.operator], atom.literal)
    return Not(atom)


def constraints_of(predicate: Predicate) -> Constraints:
    """Return the constraints of `predicate` by attribute, in the order in which they were written."""
    by_uid: dict[AttributeUid, list[Constraint]] = {}
    for part in conjuncts(is_true_formula(checked_size(predicate))):
        if isinstance(part, AllOf | AnyOf):
            raise NotAConstraintFilter(
                "a filter with constraints joins them by `and` alone, and this one needs an `or`"
            )
        atom = unnegated(part)
        if part == Not(atom) and isinstance(atom, Exists):
            raise NotAConstraintFilter(
                f"a constraint asks for a value of an attribute, and `not exists({atom.uid})` for its absence"
            )
        by_uid.setdefault(atom.uid, []).append(part)
    return {uid: tuple(constraints) for uid, constraints in by_uid.items()}


def unnegated(constraint: Constraint) -> Atom:
    """Return the atom inside a constraint."""
    match constraint:
        case Not(Comparison() | Membership() | TextMatch() | Exists() as atom):
            return atom
        case Not():
            raise NotAConstraintFilter("a constraint negates one atom and nothing larger")
        case atom:
            return atom
