"""How do two attributes of one identity statement compare?

Predicates ask about one attribute at a time, and everything that covers, merges,
indexes and compiles them relies on that. A requirement may compare two attributes
(Gismo 3.1: operands on both sides): `rank >= needed_rank`, `nationality ismember
releasable_to`. It is a question about a third one, which follows from the
two: `needed-rank.vs.rank` is -1, 0 or 1 as the first is below, equal to or above the
second, and `releasable-to.token.nationality` says whether the first has the second
among its words. A uid has no dot, so no statement can state one of these. Where
one of the two is missing, or they differ in kind, so is the third: unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any, Final

from maia.events import AttributeUid, PresentValue, kind_of
from maia.predicates.meaning import text_holds
from maia.predicates.syntax import Comparison, Operator, TextTest

PAIRED_MAX: Final = 16
"""Of a statement with more attributes none are paired, which satisfies nothing: pairs are many (A87)."""

MIRRORED: Final = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
}
"""The operator with which `b` compares to `a` where `a` does to `b`."""

_TESTS: Final = (TextTest.TOKEN, TextTest.CONTAINS)


def compared(left: AttributeUid, operator: Operator, right: AttributeUid) -> Comparison:
    """Return the question whether two attributes compare like this."""
    if left > right:
        left, operator, right = right, MIRRORED[operator], left
    return Comparison(AttributeUid(f"{left}.vs.{right}"), operator, 0)


def tested(left: AttributeUid, test: TextTest, right: AttributeUid) -> Comparison:
    """Return the question whether the text of one attribute has the text of another in it."""
    return Comparison(AttributeUid(f"{left}.{test.value}.{right}"), Operator.EQ, literal=True)


def with_pairs(attributes: Mapping[AttributeUid, PresentValue]) -> dict[AttributeUid, PresentValue]:
    """Return attributes with all that follows from two of them."""
    found = dict(attributes)
    if len(attributes) > PAIRED_MAX:
        return found
    for left, right in combinations(sorted(attributes), 2):
        # Any: both are of one kind, which the type checker cannot see.
        one: Any = attributes[left]
        other: Any = attributes[right]
        if kind_of(one) is kind_of(other):
            found[AttributeUid(f"{left}.vs.{right}")] = (one > other) - (one < other)
    texts = {uid: value for uid, value in attributes.items() if isinstance(value, str)}
    for left, right in permutations(texts, 2):
        for test in _TESTS:
            uid = AttributeUid(f"{left}.{test.value}.{right}")
            found[uid] = text_holds(test, texts[left], texts[right])
    return found


def pair_text(question: Comparison) -> str | None:
    """Return the question about two attributes as it is written, or None for another one."""
    match question.uid.split("."), question.operator, question.literal:
        case [left, "vs", right], operator, 0:
            return f"{left} {operator.value} {right}"
        case [left, "token", right], Operator.EQ, True:
            return f"{left} hastoken {right}"
        case [left, "contains", right], Operator.EQ, True:
            return f"{left} substring {right}"
        case _:
            return None
