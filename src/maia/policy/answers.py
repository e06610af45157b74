"""How is a restriction enforced on attributes of a sealed type whose keys the reader's broker must not have?

A grant may show `value` of the events of two wards, and not the ward. Then the reader's broker cannot ask
the restriction itself. A broker that seals an event knows all of it, so it answers: the frame has one more
sealed column, the *answer*, which is true where the restriction admits the row and null elsewhere. It has a
key group like any attribute, of those who may read all that the restriction asks about, and of those that
are restricted by it (docs/decisions/hidden-restrictions.md).

Here is what everyone has to agree on: which restriction needs an answer, and what becomes of a View whose
restriction is answered. Nobody asks for what it may not read by restricting a right that it passes on: a
restriction is about what its issuer is shown (`credentials/authority.py::composed`, A104).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.events import AttributeUid, Frame
from maia.policy.grants import conjoined
from maia.policy.view import View, Window
from maia.predicates import (
    AllOf,
    AnyOf,
    Exists,
    Not,
    Predicate,
    attributes_of,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.predicates.meaning import admitted_rows
from maia.predicates.syntax import DEPTH_MAX, conjuncts

ANSWER_PREFIX: Final = "answer-"
"""Begins the uid of an answer; the rest is a hash that only the key server of the type can make."""
ANSWERS_MAX: Final = 64
"""Restrictions of one type that are answered."""
RESTRICTION_BYTES_MAX: Final = 1 << 15
_LIMITS: Final = Limits(
    size_max=RESTRICTION_BYTES_MAX, depth_max=DEPTH_MAX + 3, atom_max=RESTRICTION_BYTES_MAX
)


Answers = Mapping[AttributeUid, Predicate]
"""The restrictions that are answered, by the uid of the answer."""


def hidden_restriction(window: Window, readable: Collection[AttributeUid]) -> Predicate | None:
    """Return what a window asks of attributes that its holder cannot read, in one form; None for nothing.

    Nor is there anything that could be answered if it is too long to be told to those who answer.
    """
    terms = _hidden(window, readable)
    if not terms or window.transformations:
        return None
    found = conjoined(sorted(terms, key=restriction_to_bytes))
    return found if len(restriction_to_bytes(found)) <= RESTRICTION_BYTES_MAX else None


def answered(view: View, answers: Answers, readable: Collection[AttributeUid]) -> View:
    """Return a View that asks answers in place of what cannot be read, where all of that is answered.

    A window shows no more by that: an answer takes the place of exactly the terms that it is about.
    """
    windows = tuple(_answered(window, answers, readable) for window in view.windows)
    return view if windows == view.windows else replace(view, windows=windows)


def _answered(window: Window, answers: Answers, readable: Collection[AttributeUid]) -> Window:
    hidden = _hidden(window, readable)
    if not hidden or window.transformations:
        return window
    terms = dict.fromkeys(conjuncts(window.admits))
    used = {
        uid: about
        for uid, said in answers.items()
        if (about := frozenset(conjuncts(said))) <= terms.keys() and not hidden.isdisjoint(about)
    }
    if not hidden <= frozenset().union(*used.values()):
        return window  # it asks what no broker answers, and shows nothing
    left = [term for term in terms if term not in hidden]
    return replace(window, admits=conjoined((*left, *map(Exists, sorted(used)))))


def _hidden(window: Window, readable: Collection[AttributeUid]) -> frozenset[Predicate]:
    return frozenset(
        term for term in conjuncts(window.admits) if not all(uid in readable for uid in attributes_of(term))
    )


def unanswered(view: View, answers: Answers, readable: Collection[AttributeUid]) -> frozenset[AttributeUid]:
    """Return hidden attributes because of which a window shows nothing."""
    asked = (attributes_of(window.admits) for window in answered(view, answers, readable).windows)
    return frozenset(uid for uids in asked for uid in uids if uid not in readable and uid not in answers)


def spelt_out(predicate: Predicate, answers: Answers) -> Predicate:
    """Return a filter with every answer in it replaced by the restriction that it is about."""
    match predicate:
        case Exists(uid) if uid in answers:
            return answers[uid]
        case Not(inner):
            return Not(spelt_out(inner, answers))
        case AllOf(parts):
            return AllOf(tuple(spelt_out(part, answers) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(spelt_out(part, answers) for part in parts))
        case atom:
            return atom


def asked_about(uids: Iterable[AttributeUid], answers: Answers) -> frozenset[AttributeUid]:
    """Return all attributes of which a frame with these columns says something: answers speak of several."""
    named = frozenset(uids)
    return named.union(*(attributes_of(answers[uid]) for uid in named if uid in answers))


def answers_to(frame: Frame, answers: Answers) -> dict[AttributeUid, tuple[bool | None, ...]]:
    """Return the column of each answer: true for the rows that its restriction admits."""
    admitted = {uid: frozenset(admitted_rows(said, frame)) for uid, said in sorted(answers.items())}
    return {
        uid: tuple([True if row in rows else None for row in range(frame.rows)])
        for uid, rows in admitted.items()
    }


def restriction_to_bytes(restriction: Predicate) -> bytes:
    """Write a restriction in its one form."""
    return write_canonical(predicate_to_expression(restriction))


def restriction_from_bytes(data: bytes) -> Predicate:
    """Read a restriction; whatever is not its one form is refused as bad input."""
    return predicate_from_expression(read_canonical(data, _LIMITS))
