"""How does a predicate look as a Python expression?

Asked by `to_python`. The expression answers "is it true?" or "is it false?",
never "unknown": asking an atom for either answer includes the check that a
value of the right kind is there, and Kleene's `not` swaps the two questions.
So plain `and`, `or` and short-circuit evaluation give the three-valued answer.

INVARIANT: the text is made of the words in this file and of numbers. Operands
and uids are constants that the text names by number, so nothing that a policy
or a subscriber wrote is ever parsed as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, assert_never

from maia.events import AttributeUid, Instant, Kind
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
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
)

__all__ = ["CLASSES", "Constants", "is_true"]

CLASSES: Final[dict[Kind, type]] = {
    Kind.STRING: str,
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.TIMESTAMP: Instant,
    Kind.BYTES: bytes,
}

_HOLDS: Final = {
    Operator.EQ: "==",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}
_FAILS: Final = {
    Operator.EQ: "!=",
    Operator.NE: "==",
    Operator.LT: ">=",
    Operator.LE: ">",
    Operator.GT: "<=",
    Operator.GE: "<",
}


@dataclass(slots=True)
class Constants:
    """The operands that the text names: `k0` is `values[0]`."""

    values: list[object] = field(default_factory=list)

    def name(self, value: object) -> str:
        """Keep a value and return its name."""
        self.values.append(value)
        return f"k{len(self.values) - 1}"

    @property
    def names(self) -> list[str]:
        """Return all names, in the order of the values."""
        return [f"k{i}" for i in range(len(self.values))]


Variable = Callable[[AttributeUid], str | None]
"""The expression that holds an attribute's value or None; null if the attribute cannot be there."""


def is_true(predicate: Predicate, variable: Variable, constants: Constants) -> str:
    """Return an expression that is True where the verdict is true, and False elsewhere."""
    return _asked(predicate, variable, constants, wanted=True)


def _asked(predicate: Predicate, variable: Variable, constants: Constants, *, wanted: bool) -> str:
    match predicate:
        case Not(inner):
            return _asked(inner, variable, constants, wanted=not wanted)
        case AllOf(parts):
            asked = [_asked(part, variable, constants, wanted=wanted) for part in parts]
            return _joined(asked, conjunction=wanted)
        case AnyOf(parts):
            asked = [_asked(part, variable, constants, wanted=wanted) for part in parts]
            return _joined(asked, conjunction=not wanted)
        case Exists(uid):
            found = variable(uid)
            if found is None:
                return str(not wanted)
            return f"({found} is not None)" if wanted else f"({found} is None)"
        case Comparison() | Membership() | TextMatch():
            found = variable(predicate.uid)
            return "False" if found is None else _atom(predicate, found, constants, wanted=wanted)
        case _:
            assert_never(predicate)


def _joined(asked: list[str], *, conjunction: bool) -> str:
    if not asked:
        return str(conjunction)
    return asked[0] if len(asked) == 1 else f"({(' and ' if conjunction else ' or ').join(asked)})"


def _atom(
    atom: Comparison | Membership | TextMatch, found: str, constants: Constants, *, wanted: bool
) -> str:
    kind = Kind.STRING if isinstance(atom, TextMatch) else atom.kind
    test = _test(atom, found, constants, wanted=wanted)
    # The kind comes first: `<` between two classes raises, and `1 == True` holds.
    return f"(type({found}) is {kind.value}_ and {test})"


def _test(
    atom: Comparison | Membership | TextMatch, found: str, constants: Constants, *, wanted: bool
) -> str:
    negation = "" if wanted else "not "
    match atom:
        case Comparison(_, operator, literal):
            return f"{found} {(_HOLDS if wanted else _FAILS)[operator]} {constants.name(literal)}"
        case Membership(_, literals):
            return f"{found} {negation}in {constants.name(literals)}"
        case TextMatch(_, test, text):
            operand = (
                re.compile(parse_path_pattern(text).regex(), re.DOTALL) if test is TextTest.LEVELS else text
            )
            return negation + _text_test(test, found, constants.name(operand))
        case _:
            assert_never(atom)


def _text_test(test: TextTest, found: str, operand: str) -> str:
    match test:
        case TextTest.PREFIX:
            return f"{found}.startswith({operand})"
        case TextTest.SUFFIX:
            return f"{found}.endswith({operand})"
        case TextTest.CONTAINS:
            return f"({operand} in {found})"
        case TextTest.TOKEN:
            return f"({operand} in {found}.split(' '))"
        case TextTest.LEVELS:
            return f"({operand}.fullmatch({found}) is not None)"
        case _:
            assert_never(test)
