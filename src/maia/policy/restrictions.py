"""Which values does a restriction force on a publisher, and can it be met at all?

A restriction that asks for equality leaves the publisher no choice, so the
broker writes the value (dissertation 5.2.2). Everything else in a restriction
is a test that the publisher's event must pass. `decide` asks here when it
builds a View for publishing; `shape` asks which part of a test has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.events import AttributeUid, Kind, Kinds, PresentValue
from maia.predicates.meaning import verdict
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    atoms,
    attributes_of,
)

__all__ = ["Unmeetable", "conjuncts", "forced_values", "mistyped", "unmeetable"]


@dataclass(frozen=True, slots=True)
class Unmeetable:
    """A part of a restriction that no event of this publisher can satisfy, and why."""

    attribute: AttributeUid | None
    why: str


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


def forced_values(restriction: Predicate) -> dict[AttributeUid, PresentValue]:
    """Return the value of each attribute that the restriction pins by an equality.

    Two equalities on one attribute keep the first; `unmeetable` reports their conflict.
    """
    forced: dict[AttributeUid, PresentValue] = {}
    for part in conjuncts(restriction):
        pinned = _pinned(part)
        if pinned is not None:
            forced.setdefault(*pinned)
    return forced


def unmeetable(restriction: Predicate, *, writable: AttributeSet, kinds: Kinds) -> Unmeetable | None:
    """Find a part of `restriction` that fails for every event this publisher can write.

    `writable` are the attributes of the publisher's version that it has a
    right to. An attribute that it cannot write is missing, one that is forced
    has its value, and a comparison with another kind than the version declares
    is unknown; each of the others may come out either way. A part that cannot
    come out true is reported. What is not found here is refused event by event.
    """
    forced = {uid: value for uid, value in forced_values(restriction).items() if _holds(writable, uid)}

    def outcomes(atom: Atom, kinds: Kinds) -> frozenset[bool]:
        if mistyped(atom, kinds) is not None:
            return _UNKNOWN
        if atom.uid in forced or not _holds(writable, atom.uid):
            answer = verdict(atom, forced)
            return _UNKNOWN if answer is None else frozenset((answer,))
        return _EITHER

    for part in conjuncts(restriction):
        if True in _outcomes(part, lambda atom: outcomes(atom, kinds)):
            continue
        misfit = mistyped(part, kinds)
        if misfit is not None and True in _outcomes(part, lambda atom: outcomes(atom, {})):
            return Unmeetable(misfit, "the restriction compares an attribute with another kind than declared")
        return _why(sorted(attributes_of(part)), writable)
    return None


_UNKNOWN: Final[frozenset[bool]] = frozenset()
_EITHER: Final = frozenset((True, False))


def _outcomes(predicate: Predicate, of_atom: Callable[[Atom], frozenset[bool]]) -> frozenset[bool]:
    """Return which of true and false a predicate may come to, by what its atoms may; never too few."""
    match predicate:
        case Not(inner):
            return frozenset(not answer for answer in _outcomes(inner, of_atom))
        case AllOf(parts) | AnyOf(parts):
            inside = [_outcomes(part, of_atom) for part in parts]
            # One part is enough to make `or` true, or `and` false; for the opposite, all are needed.
            by_one = isinstance(predicate, AnyOf)
            by_all = not by_one
            possible = (
                (by_one, any(by_one in one for one in inside)),
                (by_all, all(by_all in one for one in inside)),
            )
            return frozenset(answer for answer, is_possible in possible if is_possible)
        case _:
            return of_atom(predicate)


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


def _pinned(part: Predicate) -> tuple[AttributeUid, PresentValue] | None:
    match part:
        case Comparison(uid, Operator.EQ, literal):
            return uid, literal
        case Membership(uid, literals) if len(literals) == 1:
            return uid, next(iter(literals))
        case _:
            return None


def _why(spoken: list[AttributeUid], writable: AttributeSet) -> Unmeetable:
    hidden = [uid for uid in spoken if not _holds(writable, uid)]
    if hidden:
        return Unmeetable(hidden[0], "the restriction names an attribute that cannot be written here")
    return Unmeetable(next(iter(spoken), None), "the restriction contradicts itself")


def _holds(attributes: AttributeSet, uid: AttributeUid) -> bool:
    return attributes is ALL_ATTRIBUTES or uid in attributes
