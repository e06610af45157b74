"""What does a join have to know about very many filters?

Bulk matching asks the driver for this, once for a set of subscriptions. The
answer is Arrow tables and a few predicates. Classes with one filter that
bounds express exactly are matched by the join alone; all others by the join, a
check where one is needed, and a gathering of what their windows show together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from maia.credentials.requirements import NO_REQUIREMENT, Attributes, about_publisher
from maia.errors import BadInput
from maia.events import PUBLISHER_PREFIX, AttributeUid, Kind, Kinds
from maia.policy.view import View, Window, shows
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
    is_true_formula,
    negated,
)
from maia.spark.matching.boxes import Bounds, Buckets, FilterBoxes, Keyed, Shape, boxes_of, buckets_of, keyed
from maia.views.arrow_executor import ARROW_TYPES
from maia.views.plan import ViewTooLarge, checked_view, transforms

# Filters over whole events, and the attributes that they open to rights classes.
#
# Bulk matching asks, once for all subscriptions. Subscriptions with one View of
# one type form a rights class, and everything else is worked out once for a
# class. Each window of a View becomes one predicate over whole events that is
# true exactly where the window is open and the subscriber's interest holds of
# what the View shows. So a class gets an event if one of its predicates is true,
# and the attributes of all windows whose predicates are: the answer of `see`.


SUBSCRIPTIONS_MAX: Final = 5_000_000
"""Subscriptions that one job takes: their classes are worked out in the driver's memory."""

OpenedBy: TypeAlias = Mapping[Predicate, frozenset[AttributeUid]]
"""Stored attributes that are shown where a predicate over whole events is true."""


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
            raise BadInput(
                "INPUT-BULK-SUBSCRIPTIONS", f"one job matches at most {SUBSCRIPTIONS_MAX:,} subscriptions"
            )
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
    # A predicate that is true of an event exactly if the interest is true of what the View shows.
    interest = view.interest
    if not all(shows(window, uid) for window in view.windows for uid in attributes_of(interest)):
        interest = _within_limits(_seen(is_true_formula(interest), view.windows, stored))
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


RESIDUAL_MAX: Final = 4096
"""Filters that no key tells apart, and which are asked about every event."""

WORD: Final = 63
"""Attributes to one number of Spark's, which has a sign."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Boxes with their keys, a row each, and the shapes that their keys have."""

    rows: pa.Table
    shapes: tuple[Shape, ...]
    bounded: tuple[AttributeUid, ...]
    """Attributes that some box asks about."""


@dataclass(frozen=True, slots=True)
class Filters:
    """All that a job knows of its subscriptions, who they are left out."""

    plain: Conditions
    """Numbered by class: exact, one box to an event, with what the class is shown."""
    others: Conditions
    """Numbered by filter."""
    doubtful: Mapping[int, Predicate]
    """Filters among the others whose candidates have to be asked."""
    residual: Mapping[int, tuple[str, Predicate]]
    """Filters that are asked about every event of a type."""
    opened: pa.Table
    """Which class is shown what where one of the other filters holds."""
    buckets: Mapping[AttributeUid, Buckets]


@dataclass(slots=True)
class _Draft:
    """Boxes, each with its number and its type, on the way to a table."""

    numbers: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    keyed: list[Keyed] = field(default_factory=list)
    shown: list[frozenset[AttributeUid]] = field(default_factory=list)

    def add(
        self,
        number: int,
        event_type: str,
        keyed: Iterable[Keyed],
        shown: frozenset[AttributeUid] = frozenset(),
    ) -> None:
        for one in keyed:
            self.numbers.append(number)
            self.types.append(event_type)
            self.keyed.append(one)
            self.shown.append(shown)


def tables(classes: Sequence[RightsClass], stored: Kinds) -> Filters:
    """Work out the tables of some rights classes over events with `stored` attributes."""
    found = _FilterKeys(classes, stored)
    plain, others = _Draft(), _Draft()
    numbers: dict[tuple[str, Predicate], int] = {}
    opened: list[tuple[int, int, frozenset[AttributeUid]]] = []
    for class_number, one in enumerate(classes):
        if (only := found.plain_boxes(one)) is not None:
            ((_, shown),) = one.opened_by.items()
            plain.add(class_number, one.event_type, only, shown)
            continue
        for predicate, shown in one.opened_by.items():
            number = numbers.setdefault((one.event_type, predicate), len(numbers))
            opened.append((number, class_number, shown))
    residual, doubtful = {}, {}
    for (event_type, predicate), number in numbers.items():
        if (keys := found.keys[predicate]) is None:
            residual[number] = (event_type, predicate)
            continue
        others.add(number, event_type, keys)
        if not found.boxes[predicate].is_exact:
            doubtful[number] = predicate
    if len(residual) > RESIDUAL_MAX:
        raise BadInput(
            "INPUT-BULK-IRREGULAR",
            f"{len(residual):,} different filters ask for no value and no range of an attribute, and a job "
            f"takes {RESIDUAL_MAX:,} of them: add one to each filter, or match them in several jobs",
        )
    return Filters(
        plain=_conditions(plain, stored),
        others=_conditions(others, stored),
        doubtful=doubtful,
        residual=residual,
        opened=pa.table(
            {
                "_number": pa.array([number for number, _, _ in opened], pa.int32()),
                "rights_class": pa.array([of_class for _, of_class, _ in opened], pa.int32()),
                **_shown_columns([shown for _, _, shown in opened], stored),
            }
        ),
        buckets=found.buckets,
    )


class _FilterKeys:
    """The boxes and keys of all filters, worked out once for each."""

    def __init__(self, classes: Iterable[RightsClass], stored: Kinds) -> None:
        self.boxes: dict[Predicate, FilterBoxes] = {}
        for one in classes:
            for predicate in one.opened_by:
                if predicate not in self.boxes:
                    self.boxes[predicate] = boxes_of(predicate, stored)
        every = [box for one in self.boxes.values() for box in one.boxes]
        self.buckets = buckets_of(every, stored)
        keys = iter(keyed(every, self.buckets))
        self.keys = {
            predicate: _whole([next(keys) for _ in one.boxes]) for predicate, one in self.boxes.items()
        }

    def plain_boxes(self, one: RightsClass) -> Sequence[Keyed] | None:
        """Return the keyed boxes of a class for which the join alone decides; None for another."""
        if len(one.opened_by) != 1:
            return None
        (predicate,) = one.opened_by
        boxes = self.boxes[predicate]
        return self.keys[predicate] if boxes.is_exact and boxes.are_apart else None


def _whole(keys: Sequence[Keyed | None]) -> list[Keyed] | None:
    """Return the keys of a filter if each of its boxes has one."""
    found = [one for one in keys if one is not None]
    return found if len(found) == len(keys) else None


# ------------------------------------------------------------ columns


def low(uid: AttributeUid) -> str:
    """Return the column with an attribute's lower bound. No uid holds an underscore."""
    return f"_low_{uid}"


def beyond(uid: AttributeUid) -> str:
    """Return the column with the value that an attribute stays below."""
    return f"_beyond_{uid}"


def presence(uid: AttributeUid) -> str:
    """Return the column that says whether an attribute has to be present, or missing."""
    return f"_present_{uid}"


def shown_words(uids: Collection[AttributeUid], stored: Kinds) -> list[int]:
    """Return a set of stored attributes as bits of numbers."""
    bits = [uid in uids for uid in stored]
    return [
        sum(1 << at for at, is_set in enumerate(bits[start : start + WORD]) if is_set)
        for start in range(0, max(1, len(bits)), WORD)
    ]


def _conditions(draft: _Draft, stored: Kinds) -> Conditions:
    shapes = sorted(dict.fromkeys(one.shape for one in draft.keyed))
    place = {shape: number for number, shape in enumerate(shapes)}
    bounded = [uid for uid in stored if any(uid in one.box for one in draft.keyed)]
    columns = {
        "_number": pa.array(draft.numbers, pa.int32()),
        "_of_type": pa.array(draft.types, pa.string()),
        "_shape": pa.array([place[one.shape] for one in draft.keyed], pa.int32()),
        **_shown_columns(draft.shown, stored),
    }
    for at in range(2):
        spans = [one.touched[at] if at < len(one.touched) else (0, 0) for one in draft.keyed]
        columns[f"_first_{at}"] = pa.array([first for first, _ in spans], pa.int32())
        columns[f"_last_{at}"] = pa.array([last for _, last in spans], pa.int32())
    for uid in bounded:
        columns |= _bound_columns(uid, [one.box.get(uid) for one in draft.keyed], stored)
    return Conditions(pa.table(columns), tuple(shapes), tuple(bounded))


def _bound_columns(uid: AttributeUid, bounds: Sequence[Bounds | None], stored: Kinds) -> dict[str, pa.Array]:
    """Return the columns of one attribute; one that would hold nothing is left out."""
    kind = ARROW_TYPES[stored[uid]]
    values = {
        low(uid): pa.array([None if one is None else one.low for one in bounds], kind),
        beyond(uid): pa.array([None if one is None else one.beyond for one in bounds], kind),
        # A bound asks for presence by itself.
        presence(uid): pa.array(
            [None if one is None or one.is_range else one.is_present for one in bounds], pa.bool_()
        ),
    }
    return {name: column for name, column in values.items() if column.null_count < len(column)}


def _shown_columns(shown: Sequence[frozenset[AttributeUid]], stored: Kinds) -> dict[str, pa.Array]:
    known = {one: shown_words(one, stored) for one in set(shown)}
    return {
        f"_shown_{at}": pa.array([known[one][at] for one in shown], pa.int64())
        for at in range(len(shown_words((), stored)))
    }


def table_of_members(classes: Sequence[RightsClass]) -> pa.Table:
    return pa.table(
        {
            "rights_class": pa.array([at for at, one in enumerate(classes) for _ in one.members], pa.int32()),
            "subscription": pa.array([member for one in classes for member in one.members], pa.string()),
        }
    )
