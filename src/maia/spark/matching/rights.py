"""Which filter over whole events opens which attributes to which rights class?

Bulk matching asks, once for all subscriptions. Subscriptions with one View of
one type form a rights class, and everything else is worked out once for a
class. Each window of a View becomes one predicate over whole events that is
true exactly where the window is open and the subscriber's interest holds of
what the View shows. So a class gets an event if one of its predicates is true,
and the attributes of all windows whose predicates are: the answer of `see`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.credentials.requirements import NO_REQUIREMENT, Attributes, about_publisher
from maia.errors import BadInput
from maia.events import PUBLISHER_PREFIX, AttributeUid, Kind, Kinds
from maia.policy.view import View, Window, shows
from maia.predicates.covering.normal_form import is_true_formula, negated
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Predicate,
    PredicateTooLarge,
    TextMatch,
    attributes_of,
    checked_size,
)
from maia.views.plan import ViewTooLarge, checked_view, transforms

SUBSCRIPTIONS_MAX: Final = 5_000_000
"""Subscriptions that one job takes: their classes are worked out in the driver's memory."""

OpenedBy: TypeAlias = Mapping[Predicate, frozenset[AttributeUid]]
"""Stored attributes that are shown where a predicate over whole events is true."""


class TooManySubscriptions(BadInput):
    """One job of bulk matching was given more subscriptions than it takes."""

    code = "INPUT-BULK-SUBSCRIPTIONS"


class TransformedInBulk(BadInput):
    """A View was to be matched in bulk that shows something else than was published."""

    code = "INPUT-BULK-TRANSFORMED"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber's View of one event type; `event_type` is what the events' type column says."""

    id: str
    event_type: str
    view: View
    requires: Predicate = NO_REQUIREMENT
    """What publishers have to meet; the events' columns `publisher.…` say what they are."""
    attributes: Attributes = field(default_factory=dict)
    """What the subscriber's identity statement says, for what publishers require."""


@dataclass(frozen=True, slots=True)
class RightsClass:
    """All subscriptions that see the same of a type, and whose subscribers' statements say the same."""

    event_type: str
    opened_by: OpenedBy
    members: tuple[str, ...]
    attributes: Attributes = field(default_factory=dict)


def rights_classes(subscriptions: Iterable[Subscription], stored: Kinds) -> list[RightsClass]:
    """Group subscriptions by View, and work out each View's predicates over whole events."""
    members: dict[tuple[object, ...], list[Subscription]] = {}
    for count, one in enumerate(subscriptions, start=1):
        if count > SUBSCRIPTIONS_MAX:
            raise TooManySubscriptions(f"one job matches at most {SUBSCRIPTIONS_MAX:,} subscriptions")
        # Python takes 1 and True for equal, and a requirement does not.
        said = frozenset((uid, type(value), value) for uid, value in one.attributes.items())
        key = (one.event_type, one.view.windows, one.view.interest, one.requires, said)
        members.setdefault(key, []).append(one)
    return [_class_of(alike, stored) for alike in members.values()]


def _class_of(alike: Sequence[Subscription], stored: Kinds) -> RightsClass:
    one = alike[0]
    seen = opened_by(View(one.view.windows, one.view.interest), stored)
    if one.requires != NO_REQUIREMENT:
        asked = about_publisher(one.requires)
        seen = {_both(condition, asked): shown for condition, shown in seen.items()}
    return RightsClass(one.event_type, seen, tuple([each.id for each in alike]), one.attributes)


def opened_by(view: View, stored: Kinds) -> OpenedBy:
    """Return the predicates of a View over whole events, with the stored attributes that each one shows."""
    if transforms(checked_view(view)):
        raise TransformedInBulk("a view that transforms events is applied by a broker or a governed table")
    interest = _on_whole_events(view, stored)
    found: dict[Predicate, frozenset[AttributeUid]] = {}
    for window in view.windows:
        condition = _both(window.admits, interest)
        shown = frozenset(
            uid for uid in stored if shows(window, uid) and not uid.startswith(PUBLISHER_PREFIX)
        )
        found[condition] = found.get(condition, frozenset()) | shown
    return found


def _both(one: Predicate, other: Predicate) -> Predicate:
    if ALWAYS in (one, other):
        return other if one == ALWAYS else one
    parts = [part for side in (one, other) for part in (side.parts if isinstance(side, AllOf) else (side,))]
    return _within_limits(AllOf(tuple(parts)))


def _within_limits(predicate: Predicate) -> Predicate:
    try:
        return checked_size(predicate)
    except PredicateTooLarge as problem:
        raise ViewTooLarge(
            "written out over whole events, the view is too large to be matched in bulk"
        ) from problem


# ------------------------------------------------------------ an interest, asked of whole events


def _on_whole_events(view: View, stored: Kinds) -> Predicate:
    """Return a predicate that is true of an event exactly if the interest is true of what the View shows."""
    if all(all(shows(window, uid) for window in view.windows) for uid in attributes_of(view.interest)):
        return view.interest
    return _within_limits(_seen(is_true_formula(view.interest), view.windows, stored))


def _seen(formula: Predicate, windows: Sequence[Window], stored: Kinds) -> Predicate:
    # Recursive behind the depth that `checked_view` keeps. A formula has `not` before atoms only, so
    # "is true" of it is plain "and" and "or" of "is true" of its literals.
    match formula:
        case AllOf(parts):
            return AllOf(tuple([_seen(part, windows, stored) for part in parts]))
        case AnyOf(parts):
            return AnyOf(tuple([_seen(part, windows, stored) for part in parts]))
        case Not(Exists(uid)):
            hiding = [_not_true(is_true_formula(admits), stored) for admits in _showing(windows, uid)]
            return AnyOf((formula, AllOf(tuple(hiding))))
        case literal:
            opening = _showing(windows, _atom(literal).uid)
            return AllOf((literal, AnyOf(opening)))


def _showing(windows: Sequence[Window], uid: AttributeUid) -> tuple[Predicate, ...]:
    return tuple(window.admits for window in windows if shows(window, uid))


def _not_true(formula: Predicate, stored: Kinds) -> Predicate:
    """Return a predicate that is true where `formula` is false or unknown, of events with `stored` kinds."""
    match formula:
        case AllOf(parts):
            return AnyOf(tuple([_not_true(part, stored) for part in parts]))
        case AnyOf(parts):
            return AllOf(tuple([_not_true(part, stored) for part in parts]))
        case Not(Exists(uid)):
            return Exists(uid)
        case Exists():
            return Not(formula)
        case literal:
            atom = _atom(literal)
            if stored.get(atom.uid) is not _kind(atom):
                return ALWAYS  # a comparison across kinds is never true
            opposite = atom if isinstance(literal, Not) else negated(atom)
            return AnyOf((opposite, Not(Exists(atom.uid))))


def _atom(literal: Predicate) -> Atom:
    inner = literal.inner if isinstance(literal, Not) else literal
    assert isinstance(inner, Comparison | Membership | TextMatch | Exists)  # noqa: S101 - see `is_true_formula`
    return inner


def _kind(atom: Atom) -> Kind | None:
    match atom:
        case TextMatch():
            return Kind.STRING
        case Exists():
            return None
        case Comparison() | Membership():
            return atom.kind
