"""What does a join have to know about very many filters?

Bulk matching asks this of a table of subscriptions, once, and tasks work it out: what each class of equal
subscriptions is shown by which filter, into which boxes that filter falls, and by which key a box is found.
The driver learns what joins are written with: how many values are asked for, where buckets begin, which
pairs of attributes are keys. Classes with one filter that bounds express exactly are matched by the
join alone; all others by the join, a check where one is needed, and a gathering of what
their windows show together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from maia.canonical import read_canonical, write_canonical
from maia.credentials.authority import ALL_ATTRIBUTES
from maia.credentials.requirements import (
    NO_REQUIREMENT,
    Attributes,
    about_publisher,
    requirement_from_bytes,
    requirement_to_bytes,
)
from maia.errors import BadInput
from maia.events import PUBLISHER_PREFIX, AttributeUid, Instant, Kind, Kinds, kind_of
from maia.policy.view import View, Window, shows
from maia.predicates.encoding import (
    literal_from_bytes,
    literal_to_bytes,
    predicate_from_expression,
    predicate_to_expression,
)
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
from maia.spark.errors import told_to_spark
from maia.spark.matching.boxes import Bounds, Box, Buckets, FilterBoxes, KeyPart, Shape, boxes_of, key_of
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
"""Subscriptions of a list, which the driver holds; a table of them has no such limit."""

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


SUBSCRIPTIONS: Final = pa.schema(
    [
        ("subscription", pa.string()),
        ("event_type", pa.string()),
        ("view", pa.binary()),
        ("interest", pa.binary()),
        ("requires", pa.binary()),
        ("said", pa.binary()),
    ]
)
"""A subscription as a table has it; `subscription_rows` writes it."""


def subscription_rows(subscriptions: Iterable[Subscription]) -> pa.Table:
    """Return subscriptions as a table; raise where one cannot be matched in bulk."""
    columns: dict[str, list[object]] = {name: [] for name in SUBSCRIPTIONS.names}
    for count, one in enumerate(subscriptions, start=1):
        if count > SUBSCRIPTIONS_MAX:
            raise BadInput(
                "INPUT-BULK-SUBSCRIPTIONS",
                f"one list has at most {SUBSCRIPTIONS_MAX:,} subscriptions: hand more over as a table",
            )
        if transforms(one.view):
            raise _transformed()
        values = (
            one.id,
            one.event_type,
            _windows_to_bytes(one.view.windows),
            _filter_to_bytes(one.view.interest),
            requirement_to_bytes(one.requires),
            _said_to_bytes(one.attributes),
        )
        for name, value in zip(SUBSCRIPTIONS.names, values, strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=SUBSCRIPTIONS)


def _windows_to_bytes(windows: Iterable[Window]) -> bytes:
    return msgspec.msgpack.encode(
        [
            (
                _filter_to_bytes(one.admits),
                None if one.attributes is ALL_ATTRIBUTES else sorted(one.attributes),
            )
            for one in windows
        ]
    )


def _windows_from_bytes(data: bytes) -> tuple[Window, ...]:
    found = msgspec.msgpack.decode(data, type=list[tuple[bytes, list[str] | None]])
    return tuple(
        Window(
            filter_from_bytes(admits), ALL_ATTRIBUTES if uids is None else frozenset(map(AttributeUid, uids))
        )
        for admits, uids in found
    )


def _filter_to_bytes(predicate: Predicate) -> bytes:
    return b"" if predicate == ALWAYS else write_canonical(predicate_to_expression(predicate))


def filter_from_bytes(data: bytes) -> Predicate:
    """Read a filter of a table of subscriptions; it may ask about publishers."""
    return ALWAYS if not data else predicate_from_expression(read_canonical(data), AttributeUid)


def _said_to_bytes(attributes: Attributes) -> bytes:
    # Python takes 1 and True for equal, and a requirement does not.
    said = sorted((uid, kind_of(value).value, literal_to_bytes(value)) for uid, value in attributes.items())
    return msgspec.msgpack.encode(said)


def said_from_bytes(data: bytes) -> Attributes:
    """Read what an identity statement says."""
    said = msgspec.msgpack.decode(data, type=list[tuple[str, str, bytes]])
    return {AttributeUid(uid): literal_from_bytes(Kind(kind), value) for uid, kind, value in said}


def filters_of(view: bytes, interest: bytes, requires: bytes, stored: Kinds) -> OpenedBy:
    """Return the predicates over whole events of a row of a table of subscriptions, with what they show."""
    seen = opened_by(View(_windows_from_bytes(view), filter_from_bytes(interest)), stored)
    asked = requirement_from_bytes(requires)
    if asked == NO_REQUIREMENT:
        return seen
    of_publisher = about_publisher(asked)
    return {_both(condition, of_publisher): shown for condition, shown in seen.items()}


def _transformed() -> TransformedInBulk:
    return TransformedInBulk("a view that transforms events is applied by a broker or a governed table")


def opened_by(view: View, stored: Kinds) -> OpenedBy:
    """Return the predicates of a View over whole events, with the stored attributes that each one shows."""
    if transforms(checked_view(view)):
        raise _transformed()
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

PLAIN, OTHER, RESIDUAL = range(3)
"""How a filter is matched: by the join alone; by a join and what comes after; by asking of every event."""


# ------------------------------------------------------------ columns


def low(uid: AttributeUid) -> str:
    """Return the column with an attribute's lower bound. No uid holds an underscore; Spark dislikes dots."""
    return f"_low_{uid.replace('.', '_')}"


def beyond(uid: AttributeUid) -> str:
    """Return the column with the value that an attribute stays below."""
    return f"_beyond_{uid.replace('.', '_')}"


def presence(uid: AttributeUid) -> str:
    """Return the column that says whether an attribute has to be present, or missing."""
    return f"_present_{uid.replace('.', '_')}"


def shown_words(uids: Collection[AttributeUid], stored: Kinds) -> list[int]:
    """Return a set of stored attributes as bits of numbers."""
    bits = [uid in uids for uid in stored]
    return [
        sum(1 << at for at, is_set in enumerate(bits[start : start + WORD]) if is_set)
        for start in range(0, max(1, len(bits)), WORD)
    ]


def words_of(stored: Kinds) -> int:
    """Return how many numbers a set of stored attributes takes."""
    return len(shown_words((), stored))


def _bound_columns(uid: AttributeUid, bounds: Sequence[Bounds | None], stored: Kinds) -> dict[str, pa.Array]:
    kind = ARROW_TYPES[stored[uid]]
    return {
        low(uid): pa.array([None if one is None else one.low for one in bounds], kind),
        beyond(uid): pa.array([None if one is None else one.beyond for one in bounds], kind),
        # A bound asks for presence by itself.
        presence(uid): pa.array(
            [None if one is None or one.is_range else one.is_present for one in bounds], pa.bool_()
        ),
    }


def _word_columns(name: str, sets: Sequence[frozenset[AttributeUid]], stored: Kinds) -> dict[str, pa.Array]:
    known = {one: shown_words(one, stored) for one in set(sets)}
    return {
        f"_{name}_{at}": pa.array([known[one][at] for one in sets], pa.int64())
        for at in range(words_of(stored))
    }


# ------------------------------------------------------------ boxes and keys, in tasks


@dataclass(frozen=True, slots=True)
class BoxesTask:
    """Splits the filters of classes into boxes. Pickled into the job."""

    stored: Kinds

    @property
    def schema(self) -> pa.Schema:
        """Return a row for each box, or for a filter without a key; with the class, and what it is shown."""
        return self._batch([]).schema

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn classes into boxes."""
        with told_to_spark():
            known: dict[Predicate, FilterBoxes] = {}
            for batch in batches:
                rows: list[_BoxRow] = []
                for row in batch.to_pylist():
                    rows += self._of_class(row, known)
                    if len(known) > _REMEMBERED:
                        known.clear()
                yield self._batch(rows)

    def _of_class(self, row: Mapping[str, Any], known: dict[Predicate, FilterBoxes]) -> Iterator[_BoxRow]:
        seen = filters_of(row["view"], row["interest"], row["requires"], self.stored)
        for predicate in seen:
            if predicate not in known:
                known[predicate] = boxes_of(predicate, self.stored)
        found = {predicate: known[predicate] for predicate in seen}
        only = next(iter(found.values())) if len(found) == 1 else None
        is_plain = only is not None and only.is_exact and only.are_apart and _have_keys(only, self.stored)
        for predicate, boxes in found.items():
            way = PLAIN if is_plain else OTHER if _have_keys(boxes, self.stored) else RESIDUAL
            about = (
                row["rights_class"],
                row["event_type"],
                way,
                None if is_plain else _filter_to_bytes(predicate),
                boxes.is_exact,
                seen[predicate],
                frozenset(attributes_of(predicate)) if not is_plain and not boxes.is_exact else frozenset(),
            )
            yield from (_BoxRow(*about, box) for box in (boxes.boxes if way != RESIDUAL else ({},)))

    def _batch(self, rows: Sequence[_BoxRow]) -> pa.RecordBatch:
        stored = self.stored
        columns = {
            "_class": pa.array([one.of_class for one in rows], pa.int64()),
            "_of_type": pa.array([one.of_type for one in rows], pa.string()),
            "_way": pa.array([one.way for one in rows], pa.int32()),
            "_filter": pa.array([one.filter for one in rows], pa.binary()),
            "_exact": pa.array([one.is_exact for one in rows], pa.bool_()),
            **_word_columns("shown", [one.shown for one in rows], stored),
            **_word_columns("asks", [one.asks for one in rows], stored),
        }
        points = [
            frozenset(uid for uid, bounds in one.box.items() if bounds.is_point and uid in stored)
            for one in rows
        ]
        columns |= _word_columns("point", points, stored)
        for uid in stored:
            columns |= _bound_columns(uid, [one.box.get(uid) for one in rows], stored)
        return pa.RecordBatch.from_pydict(columns)


class _BoxRow(NamedTuple):
    of_class: int
    of_type: str
    way: int
    filter: bytes | None
    is_exact: bool
    shown: frozenset[AttributeUid]
    asks: frozenset[AttributeUid]
    box: Box


def _have_keys(found: FilterBoxes, stored: Kinds) -> bool:
    """Return whether an attribute tells each box of a filter from others."""
    return all(
        any(one.is_point or (one.is_range and stored[uid].is_ordered) for uid, one in box.items())
        for box in found.boxes
    )


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Chooses a key for each box, by what all of them ask for. Pickled into the job."""

    stored: Kinds
    points: Mapping[AttributeUid, int]
    buckets: Mapping[AttributeUid, Buckets]

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Add to boxes the shape of their keys, and the buckets that they touch."""
        with told_to_spark():
            for batch in batches:
                yield self._with_keys(batch)

    def _with_keys(self, batch: Any) -> Any:
        # A box without a key is none of those that come here.
        chosen = (key_of(box, self.points, self.buckets) for box in self._boxes(batch))
        found = [one for one in chosen if one is not None]
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns["_wanted"] = pa.array([shape_to_text(one.shape) for one in found], pa.string())
        for at in range(2):
            spans = [one.touched[at] if at < len(one.touched) else (0, 0) for one in found]
            columns[f"_first_{at}"] = pa.array([first for first, _ in spans], pa.int32())
            columns[f"_last_{at}"] = pa.array([last for _, last in spans], pa.int32())
        return pa.RecordBatch.from_pydict(columns)

    def _boxes(self, batch: Any) -> list[dict[AttributeUid, Bounds]]:
        boxes: list[dict[AttributeUid, Bounds]] = [{} for _ in range(batch.num_rows)]
        for uid, kind in self.stored.items():
            ends = []
            for name in (low(uid), beyond(uid)):
                at = batch.schema.get_field_index(name)
                column = batch.column(at) if at >= 0 else pa.nulls(batch.num_rows, ARROW_TYPES[kind])
                ends.append((column.cast(pa.int64()) if kind is Kind.TIMESTAMP else column).to_pylist())
            for box, first, end in zip(boxes, *ends, strict=True):
                if first is not None or end is not None:
                    wrap = Instant if kind is Kind.TIMESTAMP else _same
                    box[uid] = Bounds(
                        None if first is None else wrap(first), None if end is None else wrap(end)
                    )
        return boxes


def _same(value: Any) -> Any:
    return value


def shape_to_text(shape: Shape) -> str:
    """Return a shape as tables have it. No uid holds a comma."""
    return ",".join(f"{'b' if part.is_bucket else 'v'}{part.uid}" for part in shape)


def shape_from_text(text: str) -> Shape:
    """Read a shape."""
    return tuple(KeyPart(one.startswith("b"), AttributeUid(one[1:])) for one in text.split(","))


_REMEMBERED: Final = 4096
"""Filters whose boxes a task remembers."""
