"""Covering and an independent solver give the same answer.

The solver gets Kleene's logic as two formulas, "is true" and "is false", and
for each attribute a kind and a value of each kind. Floats are mapped to their
rank among the literals, with room between; strings are the solver's own.
"""

from __future__ import annotations

import pytest
import z3
from hypothesis import assume, given
from hypothesis import strategies as st

from maia.events import INT_MAX, INT_MIN, Kind
from maia.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
    covers,
)
from support.predicates import operators_of

pytestmark = pytest.mark.laws

FLOATS = (-1.0, 0.0, 0.5, 1.0, 2.0)  # no two are neighbours, so there is a float in every gap
ABSENT, OTHER = 0, 5
CODES = {Kind.INT: 1, Kind.BOOL: 2, Kind.FLOAT: 3, Kind.STRING: 4}
RESOURCES = 20_000_000  # of the solver's own counting, so that the answer does not depend on the machine


class Attribute:
    """The solver's variables for one attribute."""

    def __init__(self, uid):
        self.kind = z3.Int(f"{uid}-kind")
        self.values = {
            Kind.INT: z3.Int(f"{uid}-int"),
            Kind.BOOL: z3.Bool(f"{uid}-bool"),
            Kind.FLOAT: z3.Int(f"{uid}-float"),
            Kind.STRING: z3.String(f"{uid}-string"),
        }

    def bounds(self):
        number = self.values[Kind.INT]
        return z3.And(self.kind >= ABSENT, self.kind <= OTHER, number >= INT_MIN, number <= INT_MAX)


ATTRIBUTES = {uid: Attribute(uid) for uid in ("x", "y")}


def _literal(value, kind):
    match kind:
        case Kind.FLOAT:
            return z3.IntVal(2 * FLOATS.index(value))
        case Kind.STRING:
            return z3.StringVal(value)
        case Kind.BOOL:
            return z3.BoolVal(value)
        case _:
            return z3.IntVal(value)


def _text(test, text, value):
    wanted = z3.StringVal(text)
    match test:
        case TextTest.PREFIX:
            return z3.PrefixOf(wanted, value)
        case TextTest.SUFFIX:
            return z3.SuffixOf(wanted, value)
        case TextTest.CONTAINS:
            return z3.Contains(value, wanted)
        case TextTest.LEVELS:
            some = z3.Plus(z3.Diff(z3.AllChar(z3.ReSort(z3.StringSort())), z3.Re("/")))
            parts = [z3.Re("")]
            for level in text.removesuffix("/#").split("/")[1:]:
                parts += [z3.Re("/"), some if level == "+" else z3.Re(level)]
            if text.endswith("/#"):
                parts.append(z3.Option(z3.Concat(z3.Re("/"), z3.Full(z3.ReSort(z3.StringSort())))))
            return z3.InRe(value, z3.Concat(*parts))
        case TextTest.TOKEN:
            at_start, at_end = z3.StringVal(f"{text} "), z3.StringVal(f" {text}")
            inside = z3.StringVal(f" {text} ")
            return z3.Or(
                value == wanted,
                z3.PrefixOf(at_start, value),
                z3.SuffixOf(at_end, value),
                z3.Contains(value, inside),
            )


COMPARE = {
    Operator.EQ: lambda found, literal: found == literal,
    Operator.NE: lambda found, literal: found != literal,
    Operator.LT: lambda found, literal: found < literal,
    Operator.LE: lambda found, literal: found <= literal,
    Operator.GT: lambda found, literal: found > literal,
    Operator.GE: lambda found, literal: found >= literal,
}


def _atom(atom):
    attribute = ATTRIBUTES[atom.uid]
    match atom:
        case Exists():
            return attribute.kind != ABSENT, attribute.kind == ABSENT
        case Comparison(_, operator, literal):
            kind = atom.kind
            holds = COMPARE[operator](attribute.values[kind], _literal(literal, kind))
        case Membership(_, literals):
            kind = atom.kind
            holds = z3.Or([attribute.values[kind] == _literal(literal, kind) for literal in literals])
        case TextMatch(_, test, text):
            kind = Kind.STRING
            holds = _text(test, text, attribute.values[kind])
    present = attribute.kind == CODES[kind]
    return z3.And(present, holds), z3.And(present, z3.Not(holds))


def _formulas(predicate):
    """Return the formulas for "is true" and for "is false"."""
    match predicate:
        case Not(inner):
            true, false = _formulas(inner)
            return false, true
        case AllOf(parts):
            pairs = [_formulas(part) for part in parts]
            return z3.And([true for true, _ in pairs]), z3.Or([false for _, false in pairs])
        case AnyOf(parts):
            pairs = [_formulas(part) for part in parts]
            return z3.Or([true for true, _ in pairs]), z3.And([false for _, false in pairs])
        case atom:
            return _atom(atom)


def _solver_says_covered(*, wide, narrow):
    solver = z3.Solver()
    solver.set("rlimit", RESOURCES)
    solver.add(*(attribute.bounds() for attribute in ATTRIBUTES.values()))
    solver.add(_formulas(narrow)[0], z3.Not(_formulas(wide)[0]))
    answer = solver.check()
    return None if answer == z3.unknown else answer == z3.unsat


LITERALS = {Kind.INT: (0, 1, 3, INT_MAX, INT_MIN), Kind.BOOL: (False, True), Kind.FLOAT: FLOATS}


def _numeric_atoms():
    for uid in ATTRIBUTES:
        yield Exists(uid)
        for kind, literals in LITERALS.items():
            for literal in literals:
                yield from (Comparison(uid, operator, literal) for operator in operators_of(kind))
            yield Membership(uid, frozenset(literals[:2]))


def _text_atoms():
    yield Exists("x")
    for text in ("a", "b", "ab", "ba", "aa", "", " "):
        yield from (Comparison("x", operator, text) for operator in (Operator.EQ, Operator.NE))
        plain = (test for test in TextTest if test not in (TextTest.TOKEN, TextTest.LEVELS))
        yield from (TextMatch("x", test, text) for test in plain)
    yield Membership("x", frozenset({"a", "ab"}))
    yield from (TextMatch("x", TextTest.TOKEN, word) for word in ("a", "b", "ab"))
    yield from (TextMatch("x", TextTest.LEVELS, text) for text in ("/a", "/a/#", "/+/b", "/+/+/#"))


def _predicates(atoms, max_leaves):
    return st.recursive(
        st.sampled_from(list(atoms)),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, max_size=3).map(lambda parts: AllOf(tuple(parts))),
            st.lists(inner, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        ),
        max_leaves=max_leaves,
    )


mixed = _predicates([*_numeric_atoms(), *_text_atoms()], 6)
textual = _predicates(_text_atoms(), 3)


@given(mixed, mixed)
def test_predicates_of_all_kinds(wide, narrow):
    answer = _solver_says_covered(wide=wide, narrow=narrow)
    assume(answer is not None)
    assert covers(wide=wide, narrow=narrow) is answer


@given(textual, textual)
def test_predicates_about_text(wide, narrow):
    answer = _solver_says_covered(wide=wide, narrow=narrow)
    assume(answer is not None)
    assert covers(wide=wide, narrow=narrow) is answer
