"""With a hundred thousand rights on record, every question still goes through an index."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from sqlalchemy import event

from maia.credentials import Action
from maia.domain.storage.tables import RightRow
from support.access_control import (
    JONES,
    NUMBERPLATE,
    SMITH,
    Station,
    court,
    engine_of,
    granted,
    later,
    met,
    order,
    told,
    until,
)

# Bounded by their own limits, and small.
SMALL = (
    *("domain_meta", "domain_policies", "domain_types", "domain_fence", "domain_heard", "domain_testers"),
    "domain_statements",
)


@contextmanager
def plans(station: Station):
    """Collect how SQLite means to answer each statement."""
    found: list[tuple[str, str]] = []
    engine = engine_of(station.store)
    busy = []

    def explain(connection, cursor, statement, parameters, _context, executemany):
        if busy or not statement.lstrip().upper().startswith(("SELECT", "DELETE", "UPDATE")):
            return
        busy.append(True)
        try:
            for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall():
                found.append((statement, row[-1]))
        finally:
            busy.clear()

    event.listen(engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", explain)


def scans(found) -> list[tuple[str, str]]:
    """Statements that look at a whole large table."""
    return [
        (statement, plan)
        for statement, plan in found
        if plan.startswith("SCAN") and not plan.split()[1].startswith(SMALL)
    ]


@pytest.fixture
def station() -> Station:
    courts, made = court(), met()
    told(made, courts)
    made.courts = courts
    made.login(SMITH.principal, [order(courts, SMITH, "42", "A")])
    made.assert_fact("case_assignment", [JONES.principal, "43"])
    return made


def shown(station, who=JONES, case="43"):
    return [order(station.courts, who, case, "B")]


ACTS = {
    "login": lambda station: station.login(JONES.principal, shown(station)),
    "retract": lambda station: station.retract_fact("detective", [SMITH.principal]),
    "assert": lambda station: station.assert_fact("case_assignment", [SMITH.principal, "again"]),
    "revoke": lambda station: station.revoke(
        [station.rights_of(SMITH.principal).rows[0].certificate.id], "mistake"
    ),
    "hear": lambda station: told(station, station.courts),
    "due": lambda station: station.access.due(later(28)),
    "who can": lambda station: station.who_can(Action.SUBSCRIBE, NUMBERPLATE.name, "location", later(0)),
    "rights of": lambda station: station.rights_of(SMITH.principal),
    "memberships of": lambda station: station.memberships_of(SMITH.principal, later(0)),
    "delegate": lambda station: station.register_delegation(
        granted(SMITH, JONES, "subscribe", attributes="timestamp", validity=until(60))
    ),
    "appointments": lambda station: station.appointments(holder=SMITH.principal),
    "once": lambda station: station.once("k", b"d", lambda: b"x"),
    "audit": lambda station: station.audit(after=2),
}


@pytest.mark.parametrize("act", ACTS)
def test_no_act_looks_through_a_large_table(station: Station, act: str) -> None:
    with plans(station) as found:
        ACTS[act](station)
    assert found
    assert scans(found) == []


def test_a_revocation_touches_what_it_takes_and_nothing_else(station: Station) -> None:
    """The same number of rows, whether there are ten rights on record or thousands."""
    few = touched(station)
    with station.store.transaction() as tables:
        (row, *_) = tables.find(RightRow, RightRow.c.kind == "issued", limit=1)
        copies = [
            type(row)(**{
                **{name: getattr(row, name) for name in row.__slots__},
                "id": number.to_bytes(32),
                "number": 1000 + number,
                "subject": number.to_bytes(32),
                "membership": b"other",
                "revoked_at": None,
            })
            for number in range(1, 3001)
        ]  # fmt: skip
        tables.put(*copies)
    assert touched(station) == few


def touched(station: Station) -> int:
    """How many rows one login and one revocation hand to Python."""
    read = 0
    engine = engine_of(station.store)

    def count(_connection, cursor, statement, parameters, _context, executemany):
        nonlocal read
        read += 1

    station.login(SMITH.principal, [])
    event.listen(engine, "after_cursor_execute", count)
    station.retract_fact("detective", [SMITH.principal])
    event.remove(engine, "after_cursor_execute", count)
    station.assert_fact("detective", [SMITH.principal])
    station.login(SMITH.principal, [])
    return read
