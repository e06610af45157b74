"""What does a join have to know about very many filters?

Bulk matching asks the driver for this, once for a set of subscriptions. The
answer is Arrow tables and a few predicates. Classes with one filter that
bounds express exactly are matched by the join alone; all others by the join, a
check where one is needed, and a gathering of what their windows show together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from maia.errors import BadInput
from maia.events import AttributeUid, Kinds
from maia.predicates.syntax import Predicate
from maia.spark.matching.boxes import Bounds, Boxes, Buckets, Keyed, Shape, boxes_of, buckets_of, keyed
from maia.spark.matching.rights import RightsClass
from maia.views.arrow_executor import ARROW_TYPES

RESIDUAL_MAX: Final = 4096
"""Filters that no key tells apart, and which are asked about every event."""

WORD: Final = 63
"""Attributes to one number of Spark's, which has a sign."""


class TooIrregular(BadInput):
    """Too many filters ask nothing that a join could look for."""

    code = "INPUT-BULK-IRREGULAR"


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
    found = _Found(classes, stored)
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
    _check_residual(len(residual))
    return Filters(
        plain=_conditions(plain, stored),
        others=_conditions(others, stored),
        doubtful=doubtful,
        residual=residual,
        opened=_table_of_opened(opened, stored),
        buckets=found.buckets,
    )


class _Found:
    """The boxes and keys of all filters, worked out once for each."""

    def __init__(self, classes: Iterable[RightsClass], stored: Kinds) -> None:
        self.boxes: dict[Predicate, Boxes] = {}
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


def _check_residual(count: int) -> None:
    if count > RESIDUAL_MAX:
        raise TooIrregular(
            f"{count:,} different filters ask for no value and no range of an attribute, and a job takes "
            f"{RESIDUAL_MAX:,} of them: add one to each filter, or match them in several jobs"
        )


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
        **_touched_columns(draft.keyed),
        **_shown_columns(draft.shown, stored),
    }
    for uid in bounded:
        columns |= _bound_columns(uid, [one.box.get(uid) for one in draft.keyed], stored)
    return Conditions(pa.table(columns), tuple(shapes), tuple(bounded))


def _touched_columns(boxes: Sequence[Keyed]) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for at in range(2):
        spans = [one.touched[at] if at < len(one.touched) else (0, 0) for one in boxes]
        columns[f"_first_{at}"] = pa.array([first for first, _ in spans], pa.int32())
        columns[f"_last_{at}"] = pa.array([last for _, last in spans], pa.int32())
    return columns


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


def _table_of_opened(opened: Sequence[tuple[int, int, frozenset[AttributeUid]]], stored: Kinds) -> pa.Table:
    return pa.table(
        {
            "_number": pa.array([number for number, _, _ in opened], pa.int32()),
            "rights_class": pa.array([of_class for _, of_class, _ in opened], pa.int32()),
            **_shown_columns([shown for _, _, shown in opened], stored),
        }
    )


def table_of_members(classes: Sequence[RightsClass]) -> pa.Table:
    """Return who belongs to which class."""
    return pa.table(
        {
            "rights_class": pa.array([at for at, one in enumerate(classes) for _ in one.members], pa.int32()),
            "subscription": pa.array([member for one in classes for member in one.members], pa.string()),
        }
    )
