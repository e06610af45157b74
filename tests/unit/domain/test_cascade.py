"""What rights and memberships rest on, row by row, and what falls with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maia.credentials import certificate_to_bytes
from maia.domain.access.cascade import end_dependents, revoke_rights
from maia.domain.access.memberships import RIGHT, keep_dependencies
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage import store
from maia.domain.storage.store import memory_store
from maia.domain.storage.tables import FOR_EVER, RevokedRow, RightRow, SupportRow
from maia.roles import Ground, fact_support
from support.access_control import MET, PITO, SMITH, granted, later

ON_CASE, ON_DUTY = (fact_support(name, [SMITH.principal]) for name in ("on_case", "on_duty"))
SIGNED = certificate_to_bytes(granted(PITO, MET, "subscribe"))


@pytest.fixture
def turn() -> Iterator[UnitOfWork]:
    with memory_store().transaction() as tables:
        yield UnitOfWork(tables, MET.principal, later(0))


def right(turn: UnitOfWork, number: int, *grounds: Ground) -> bytes:
    """Put a right on record, and what it rests on."""
    identifier = bytes([number]) * 32
    row = RightRow(
        identifier, number, "issued", MET.principal.key, SMITH.principal.key, "", FOR_EVER, SIGNED,
        MET.principal.key, 0, rule="rule",
    )  # fmt: skip
    turn.tables.put(row)
    keep_dependencies(turn.tables, identifier, RIGHT, grounds)
    return identifier


def ids_of_supports(turn: UnitOfWork) -> set[bytes]:
    return {row.dependent for row in turn.tables.find(SupportRow, limit=100)}


@pytest.mark.parametrize("watched", [(True, False), (False, True)])
def test_what_two_premises_rest_on_is_watched_if_one_of_them_watches_it(turn, watched):
    """A40: a fact that one premise asked for once, and another watches, takes the right with it."""
    held = right(turn, 1, *(Ground(number, ON_CASE, one) for number, one in enumerate(watched)))
    end_dependents(turn, [ON_CASE], "reassigned")
    assert turn.ids == [held]


def test_what_is_only_asked_for_once_takes_nothing_with_it(turn):
    right(turn, 1, Ground(0, ON_CASE, is_watched=False))
    end_dependents(turn, [ON_CASE], "reassigned")
    assert turn.ids == []


def test_what_rests_on_something_else_now_does_not_fall_with_what_it_rested_on(turn):
    held = right(turn, 1, Ground(0, ON_CASE, is_watched=True))
    keep_dependencies(turn.tables, held, RIGHT, [Ground(0, ON_DUTY, is_watched=True)])
    end_dependents(turn, [ON_CASE], "reassigned")
    assert turn.ids == []
    end_dependents(turn, [ON_DUTY], "off duty")
    assert turn.ids == [held]


def test_everything_that_watches_falls_however_many_rows_there_are(turn, monkeypatch):
    """A40: a fall that is longer than one page is a whole one."""
    monkeypatch.setattr(store, "AT_ONCE", 2)
    held = {right(turn, number, Ground(0, ON_CASE, is_watched=True)) for number in range(1, 8)}
    other = right(turn, 9, Ground(0, ON_DUTY, is_watched=True))
    end_dependents(turn, [ON_CASE], "reassigned")
    assert sorted(turn.ids) == sorted(held)
    assert ids_of_supports(turn) == {other}, "who fell rests on nothing any more"


def test_a_right_is_taken_back_once_and_its_reason_is_bounded(turn):
    held = right(turn, 1, Ground(0, ON_CASE, is_watched=True))
    revoke_rights(turn, [held, held], "x" * 5000)
    revoke_rights(turn, [held], "again")
    assert turn.ids == [held]
    row = turn.tables.get(RightRow, held)
    assert row is not None
    assert (row.revoked_at, row.reason) == (later(0), "x" * 200)
    assert turn.tables.get(RevokedRow, held) is not None
    assert not ids_of_supports(turn)
