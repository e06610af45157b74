"""Which values does a restriction force on a publisher, and can it be met at all?

A restriction that asks for equality leaves the publisher no choice, so the
broker writes the value (dissertation 5.2.2). Everything else in a restriction
is a test that the publisher's event must pass. `decide` asks here when it
builds a View for publishing; `shape` asks which part of a test has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from maia.credentials.authority import AttributeSet
from maia.events import AttributeUid, Kind, Kinds, PresentValue
from maia.policy.view import is_among
from maia.predicates.meaning import verdict
from maia.predicates.path_patterns import (
    LEVELS_MAX,
    BadPathPattern,
    PathPattern,
    levels_below,
    parse_path_pattern,
)
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    attributes_of,
    checked_size,
    conjuncts,
    mistyped,
)


@dataclass(frozen=True, slots=True)
class Unmeetable:
    """A part of a restriction that no event of this publisher can satisfy, and why."""

    attribute: AttributeUid | None
    why: str


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
    forced = {uid: value for uid, value in forced_values(restriction).items() if is_among(uid, writable)}

    def outcomes(atom: Atom, kinds: Kinds) -> frozenset[bool]:
        if mistyped(atom, kinds) is not None:
            return _UNKNOWN
        if atom.uid in forced or not is_among(atom.uid, writable):
            answer = verdict(atom, forced)
            return _UNKNOWN if answer is None else frozenset((answer,))
        return _EITHER

    for part in conjuncts(restriction):
        if True in possible_outcomes(part, lambda atom: outcomes(atom, kinds)):
            continue
        misfit = mistyped(part, kinds)
        if misfit is not None and True in possible_outcomes(part, lambda atom: outcomes(atom, {})):
            return Unmeetable(misfit, "the restriction compares an attribute with another kind than declared")
        return _why(sorted(attributes_of(part)), writable)
    return None


_UNKNOWN: Final[frozenset[bool]] = frozenset()
_EITHER: Final = frozenset((True, False))


def possible_outcomes(predicate: Predicate, of_atom: Callable[[Atom], frozenset[bool]]) -> frozenset[bool]:
    """Return which of true and false a predicate may come to, by what its atoms may; never too few."""
    match predicate:
        case Not(inner):
            return frozenset(not answer for answer in possible_outcomes(inner, of_atom))
        case AllOf(parts) | AnyOf(parts):
            inside = [possible_outcomes(part, of_atom) for part in parts]
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


def _pinned(part: Predicate) -> tuple[AttributeUid, PresentValue] | None:
    match part:
        case Comparison(uid, Operator.EQ, literal):
            return uid, literal
        case Membership(uid, literals) if len(literals) == 1:
            return uid, next(iter(literals))
        case _:
            return None


def _why(spoken: list[AttributeUid], writable: AttributeSet) -> Unmeetable:
    hidden = [uid for uid in spoken if not is_among(uid, writable)]
    if hidden:
        return Unmeetable(hidden[0], "the restriction names an attribute that cannot be written here")
    return Unmeetable(next(iter(spoken), None), "the restriction contradicts itself")


# Topics: a publisher needs the right on each one above its own.
#
# An event on `/news/uk` reaches the subscribers of `/news`, so its publisher
# needs the right to publish there too (dissertation 5.5). The kernel asks here
# when it makes the View of a publisher of topics: the answer is a predicate
# about the topic alone, so that whatever applies the View applies the rule.


_UNCLEAR: Final = None
"""What a test of a topic says of its super-topics, where that cannot be said of the topic itself."""


def with_super_topics(admits: Predicate, topic: AttributeUid, root: str) -> Predicate:
    """Return what holds of an event on a topic of `root` exactly if `admits` holds on every level of it.

    A restriction that asks for a suffix, an infix, a word or an order of the topic admits nothing: what
    it says of a topic says nothing of those above. So does one that grows too large on the way.
    """
    inside = _on(topic, PathPattern((root[1:],), has_rest=True))
    if topic not in attributes_of(admits):
        return inside if admits == ALWAYS else AllOf((inside, admits))
    demands: list[Predicate] = [inside]
    seen: set[Predicate] = set()
    for depth in range(1, LEVELS_MAX + 1):
        demand = _at_depth(admits, topic, depth) or NEVER
        if demand in seen:
            continue  # it is asked of shorter topics already
        seen.add(demand)
        is_shallower = Not(_on(topic, levels_below(depth)))
        demands.append(demand if depth == 1 else AnyOf((is_shallower, demand)))
    try:
        return checked_size(AllOf(tuple(dict.fromkeys(demands))))
    except PredicateTooLarge:
        return NEVER


def _at_depth(predicate: Predicate, topic: AttributeUid, depth: int) -> Predicate | None:
    """Rewrite a predicate: of a topic with at least `depth` levels it says what was said of those levels."""
    match predicate:
        case AllOf(parts) | AnyOf(parts):
            rewritten = [_at_depth(part, topic, depth) for part in parts]
            if isinstance(predicate, AllOf):
                return AllOf(tuple(NEVER if part is _UNCLEAR else part for part in rewritten))
            return AnyOf(tuple(part for part in rewritten if part is not _UNCLEAR and part != NEVER))
        case Not(inner):
            # Everything inside has to be clear: what is left out of a negation would grant more.
            clear = _at_depth(inner, topic, depth) if _is_clear(inner, topic) else _UNCLEAR
            return _UNCLEAR if clear is _UNCLEAR else Not(clear)
        case atom if atom.uid != topic or isinstance(atom, Exists):
            return atom
        case TextMatch(_, TextTest.LEVELS, text):
            return _below(topic, parse_path_pattern(text), depth)
        case TextMatch(_, TextTest.PREFIX, text):
            return NEVER if text.count("/") > depth else predicate
        case Comparison(_, Operator.EQ, str() as path):
            return _below_path(topic, path, depth)
        case Comparison(_, Operator.NE, str() as path):
            return Not(_below_path(topic, path, depth))
        case Membership(_, literals) if predicate.kind is Kind.STRING:
            return AnyOf(tuple(_below_path(topic, one, depth) for one in sorted(map(str, literals))))
        case _:
            return _UNCLEAR


def _is_clear(predicate: Predicate, topic: AttributeUid) -> bool:
    pending = [predicate]
    while pending:
        match pending.pop():
            case Not(inner):
                pending.append(inner)
            case AllOf(parts) | AnyOf(parts):
                pending.extend(parts)
            case TextMatch(uid, TextTest.SUFFIX | TextTest.CONTAINS | TextTest.TOKEN, _) if uid == topic:
                return False
            case Comparison(uid, operator, literal) if uid == topic:
                if operator not in (Operator.EQ, Operator.NE) or not isinstance(literal, str):
                    return False
            case Membership(uid) as several if uid == topic and several.kind is not Kind.STRING:
                return False
            case _:
                pass
    return True


def _below_path(topic: AttributeUid, path: str, depth: int) -> Predicate:
    try:
        pattern = parse_path_pattern(path)
    except BadPathPattern:
        return NEVER  # no topic is called so
    return _below(topic, pattern, depth) if str(pattern) == pattern.literal else NEVER


def _below(topic: AttributeUid, pattern: PathPattern, depth: int) -> Predicate:
    below = pattern.super_topic(depth)
    return NEVER if below is None else _on(topic, below)


def _on(topic: AttributeUid, pattern: PathPattern) -> Predicate:
    return TextMatch(topic, TextTest.LEVELS, str(pattern))
