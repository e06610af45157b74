"""X4 (d): what a subscriber received live is what its SQL view shows of a table of the same events.

Random types, versions, rights that begin and end, and events, as where governed tables are compared
(`test_the_lake_agrees_with_the_stream.py`). The table has every recorded event beside its moment of
publication. A view asks for a right that holds now, so readers whose last right has ended have none.
`make agreement CASES=2000` tries many worlds; `MAIA_WORLD=48113` repeats one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from maia.events import Instant, Kind, Value
from maia.policy import PolicyRefusal
from maia.postgres.view_definitions import DeclaredTable, view_definition
from maia.postgres.views import written
from maia.predicates import ALWAYS
from maia.validity import Monitor
from maia.views import POSTGRES_TYPES
from maia.views.to_sql import quoted
from maia.wire.codec import decode_recorded
from maia.wire.columns import columns_to_frame
from support import agreement
from support.agreement import RandomReader, World, named

FIRST = 48_113
WORLDS = 5 * int(os.environ.get("MAIA_AGREEMENT", "5"))
"""Worlds with sub-types or with identities have no table here."""


def worlds() -> Iterator[World]:
    """Yield worlds whose events a database stores as they are."""
    one = os.environ.get("MAIA_WORLD")
    for seed in [int(one)] if one else range(FIRST, FIRST + WORLDS):
        world = World(seed)
        if not world.is_extended and world.identities.trust is None:
            world.live()
            yield world


def stored(session: psycopg.Connection, world: World) -> DeclaredTable:
    """Put every recorded event into a table with a column for each attribute of both versions."""
    kinds = {uid: kind for version in world.versions for uid, kind in version.kinds.items()}
    columns = ", ".join(f"{quoted(f'c {uid}')} {POSTGRES_TYPES[kind]}" for uid, kind in kinds.items())
    session.execute(f"CREATE TEMPORARY TABLE sightings ({columns}, published timestamptz)")
    with session.cursor().copy("COPY sightings FROM STDIN") as copy:
        for record in world.net.log(world.recorded_by).safe:
            frame = decode_recorded(record.data)
            moment = Instant(frame.published_at).to_datetime()
            for event in columns_to_frame(frame.columns, frame.rows, kinds).events():
                copy.write_row([*(_sent(event.get(uid)) for uid in kinds), moment])
    return DeclaredTable(
        "sightings",
        ("pg_temp", "sightings"),
        world.versions,
        columns={uid: f"c {uid}" for uid in kinds},
        published_at="published",
    )


def _sent(value: Value) -> object:
    return value.to_datetime() if isinstance(value, Instant) else value


def shown(session: psycopg.Connection, table: DeclaredTable, world: World, one: RandomReader) -> list[object]:
    """Return what the view of a reader shows; raise if it has none."""
    mine = DeclaredTable(
        table.name,
        table.table,
        (*(each for each in world.versions if each is not one.version), one.version),
        columns=table.columns,
        published_at=table.published_at,
    )
    found = view_definition(mine, world.reader_of(one), Monitor(), world.net.now)
    attributes = found.columns
    columns = ", ".join(
        f"(extract(epoch from {quoted(a.name)}) * 1000000)::bigint"
        if a.kind is Kind.TIMESTAMP
        else quoted(a.name)
        for a in attributes
    )
    text = f"SELECT {columns} FROM ({written(found.query, session)}) AS shown"
    rows = session.execute(text.encode()).fetchall()
    events = [{a.uid: _read(a.kind, value) for a, value in zip(attributes, row, strict=True)} for row in rows]
    return [named(event, one) for event in events]


def _read(kind: Kind, value: object) -> object:
    return Instant(value) if kind is Kind.TIMESTAMP and value is not None else value


def typed(rows: list[object]) -> list[str]:
    """Put values beside their classes, in an order of their own: a view has none."""
    return sorted(repr([(*v, type(v[-1]).__name__) for v in row]) for row in rows)


def test_a_view_shows_what_a_subscriber_received(postgres_server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agreement, "LEVELS", (None,))  # a database stores what was opened
    compared = rows = 0
    for world in worlds():
        with psycopg.connect(postgres_server) as session:
            table = stored(session, world)
            for one in world.readers:
                if one.filter != ALWAYS:
                    continue
                again = f"MAIA_WORLD={world.seed} .venv/bin/pytest {__file__}: {one}"
                try:
                    found = shown(session, table, world, one)
                except PolicyRefusal:
                    continue
                live = [row[-1] for row in world.received[one.number]]
                assert typed(found) == typed(live), again
                compared, rows = compared + 1, rows + len(found)
            session.rollback()
    assert (compared > 1 and rows > 10) or "MAIA_WORLD" in os.environ
