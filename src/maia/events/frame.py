"""What travels: one or many events of one type, stored by column.

A frame has one event type and one publisher. Each attribute is a column, so
that screening drops a column, sealing calls the cipher once per column, and
the log and Spark read what travelled without turning it around.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from maia.errors import BadInput
from maia.events.values import (
    ATTRIBUTES_MAX,
    AttributeUid,
    BadValue,
    Kind,
    PresentValue,
    Value,
    checked_value,
)

# What is an event, once it has left its publisher's version behind?


Event: TypeAlias = Mapping[AttributeUid, Value]

Kinds: TypeAlias = Mapping[AttributeUid, Kind]
"""What is known of the attributes of a stream, a table or a frame: the kind of each uid."""


def checked_event(values: Mapping[AttributeUid, object], kinds: Kinds) -> dict[AttributeUid, PresentValue]:
    """Return the present values of an event, each checked against its declared kind."""
    event: dict[AttributeUid, PresentValue] = {}
    for uid, given in values.items():
        kind = kinds.get(uid)
        if kind is None:
            raise BadValue("INPUT-UNKNOWN-ATTRIBUTE", f"attribute `{ascii(uid[:64])[1:-1]}` is not declared")
        try:
            value = checked_value(given, kind)
        except BadValue as problem:
            raise BadValue(f"attribute `{uid}`: {problem.message}") from problem
        if value is not None:
            event[uid] = value
    return event


ROWS_MAX: Final = 65_536


class BadFrame(BadInput):
    """A frame's columns do not fit together."""

    code = "INPUT-FRAME"


# Structs: a broker makes a dozen for each event, and a frozen dataclass takes five times as long.
class Column(msgspec.Struct, frozen=True, gc=False):
    """The values of one attribute in the order of the rows; null where a row has none."""

    kind: Kind
    values: tuple[Value, ...]


class Frame(msgspec.Struct, frozen=True):
    """Some events of one type, by column."""

    rows: int
    columns: Mapping[AttributeUid, Column]

    def __post_init__(self) -> None:
        """Refuse a frame whose columns are too many or disagree on the number of rows."""
        rows, columns = self.rows, self.columns
        if len(columns) > ATTRIBUTES_MAX:
            raise BadFrame(f"a frame has at most {ATTRIBUTES_MAX} columns")
        if not 0 <= rows <= ROWS_MAX:
            raise BadFrame(f"a frame of {rows} rows is outside 0 to {ROWS_MAX}")
        for column in columns.values():
            if len(column.values) != rows:
                uid = next(uid for uid, one in columns.items() if one is column)
                raise BadFrame(f"column `{uid}` has {len(column.values)} rows where the frame has {rows}")

    @property
    def kinds(self) -> dict[AttributeUid, Kind]:
        """Return the kind of each column."""
        return {uid: column.kind for uid, column in self.columns.items()}

    def events(self) -> Iterator[dict[AttributeUid, PresentValue]]:
        """Yield the rows as events, nulls left out."""
        pairs = [(uid, column.values) for uid, column in self.columns.items()]
        for row in range(self.rows):
            yield {uid: value for uid, values in pairs if (value := values[row]) is not None}

    def only(self, attributes: Iterable[AttributeUid]) -> Frame:
        """Return the frame without the columns outside `attributes`."""
        kept = set(attributes)
        return Frame(self.rows, {uid: column for uid, column in self.columns.items() if uid in kept})

    def take(self, rows: Sequence[int]) -> Frame:
        """Return the frame cut to the given rows, in the given order."""
        if rows and not 0 <= min(rows) <= max(rows) < self.rows:
            raise BadFrame(f"a row to take is outside the {self.rows} rows of the frame")
        # Of one row alone, a getter makes no tuple.
        chosen = itemgetter(*rows) if len(rows) > 1 else lambda values: tuple(values[row] for row in rows)
        cut = {uid: Column(one.kind, chosen(one.values)) for uid, one in self.columns.items()}
        return Frame(len(rows), cut)


def frame_of(events: Iterable[Mapping[AttributeUid, object]], kinds: Kinds) -> Frame:
    """Check events against `kinds` and store them by column."""
    # One row more than allowed is enough to be refused; the rest is never read.
    checked = [checked_event(event, kinds) for event in islice(events, ROWS_MAX + 1)]
    columns = {uid: Column(kind, tuple(event.get(uid) for event in checked)) for uid, kind in kinds.items()}
    return Frame(len(checked), columns)
