"""Which values does a restriction force on a publisher, and can it be met at all?

A restriction that asks for equality leaves the publisher no choice, so the
broker writes the value (dissertation 5.2.2). Everything else in a restriction
is a test that the publisher's event must pass. `decide` asks here when it
builds a View for publishing; `shape` asks which part of a test has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.events import AttributeUid, Kind, Kinds, PresentValue
from maia.predicates.meaning import admits
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
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
    right to. Found are parts that speak only of attributes it cannot write,
    parts that forced values contradict, and literals of a kind that the version
    does not declare. What is not found here is refused event by event.
    """
    forced = {uid: value for uid, value in forced_values(restriction).items() if _holds(writable, uid)}
    for part in conjuncts(restriction):
        spoken = sorted(attributes_of(part))
        settled = all(uid in forced or not _holds(writable, uid) for uid in spoken)
        if settled and not admits(part, forced):
            return _why(spoken, writable)
    misfit = mistyped(restriction, kinds)
    return None if misfit is None else Unmeetable(misfit, "the type declares another kind of value")


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
        return Unmeetable(hidden[0], "the restriction speaks of an attribute that cannot be written here")
    return Unmeetable(next(iter(spoken), None), "the restriction contradicts itself")


def _holds(attributes: AttributeSet, uid: AttributeUid) -> bool:
    return attributes is ALL_ATTRIBUTES or uid in attributes
