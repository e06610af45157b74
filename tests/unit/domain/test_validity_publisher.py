"""Lists follow each other without gap or overlap, whatever the clock and the process do."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maia.credentials.chains.reduction import BrokenChain
from maia.credentials.statements import (
    OneTimeAnswer,
    Revalidation,
    RevocationList,
    check_statement,
    statement_from_bytes,
)
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.storage.fenced_store import FencedStore
from maia.domain.storage.store import sqlite_store
from maia.events import Instant
from maia.testing.refusals import raises
from maia.validity import Monitor
from support.access_control import (
    DAY,
    MET,
    NOON,
    POLICY,
    SECOND,
    SMITH,
    Station,
    broker,
    court,
    later,
    listed,
    met,
    order,
    told,
    until,
)
from support.random_cases import usually

PERIOD = 30 * SECOND


def lists(station: Station):
    """Every list that is kept, in the order of signing."""
    kept = [statement_from_bytes(one).statement for one in station.stored_statements(limit=500).rows]
    return [said for said in kept if isinstance(said, RevocationList)]


def test_lists_follow_each_other_without_gap_or_overlap():
    station = Station(MET)
    now = NOON
    for _ in range(20):
        assert station.access.next_due(now) >= now
        now = station.access.next_due(now)
        station.access.due(now)
    found = lists(station)
    assert [said.sequence for said in found] == list(range(1, 21))
    for one, after in pairwise(found):
        assert after.period.not_before == one.period.not_after + 1
    assert found[0].period.not_before == NOON
    assert all(said.period.not_after - said.period.not_before == PERIOD - 1 for said in found)


def test_the_next_list_comes_before_the_present_one_ends_and_not_much_before():
    station = Station(MET)
    (first,) = station.access.due(NOON)
    assert station.access.due(later(19)) == []
    assert station.access.next_due(later(1)) == later(20)
    (second,) = station.access.due(later(20))
    assert second.statement.period.not_before == first.statement.period.not_after + 1
    assert station.access.due(later(20)) == []


def test_the_folder_of_an_idle_domain_stays_small(tmp_path: Path):
    """In the hours in which nothing happens but lists, neither the tables nor their journals grow."""
    with (
        closing(sqlite_store(tmp_path / "domain.sqlite")) as store,
        closing(FencedStore(tmp_path / "groups.sqlite")) as groups,
    ):
        station, now = Station(MET, store), NOON
        for _ in range(400):
            now = station.access.next_due(now)
            station.access.due(now)
            groups.keep({"statements": bytes(1024)})
        assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 1 << 20


def test_every_statement_is_signed_by_the_domain_and_carries_the_head_of_the_audit():
    station = met()
    (signed,) = station.beat()
    check_statement(signed)
    assert signed.statement.by == MET.principal
    assert signed.statement.audit == station.audit_head()


def test_a_restart_goes_on_where_the_process_stood():
    station = Station(MET)
    station.access.due(NOON)
    again = station.restarted()
    assert again.access.due(later(3)) == []
    (second,) = again.access.due(later(28))
    assert second.statement.sequence == 2
    assert second.statement.period.not_before == later(30)


def test_after_a_long_pause_the_next_list_begins_now():
    station = Station(MET)
    station.access.due(NOON)
    (second,) = station.access.due(later(500))
    assert second.statement.period.not_before == later(500)


def test_a_clock_set_forward_and_back_again_leaves_no_overlap_and_no_silence():
    station = Station(MET)
    station.access.due(NOON)
    (future,) = station.access.due(later(3600))
    (second,) = station.access.due(later(30))
    assert second.statement.period.not_before == later(30)
    (last,) = station.access.due(later(3590))
    assert last.statement.period.not_after + 1 == future.statement.period.not_before
    (beyond,) = station.access.due(later(3626))
    assert beyond.statement.period.not_before == future.statement.period.not_after + 1
    assert [said.sequence for said in lists(station)] == [1, 2, 3, 4, 5]


@given(st.lists(st.tuples(st.integers(-200, 200), st.booleans()), max_size=40))
@settings(max_examples=usually(10, laws=25))
@pytest.mark.laws
def test_no_two_periods_ever_overlap_and_a_present_one_is_always_there(steps):
    """A78: steps of the clock in both directions, restarts between."""
    station = Station(MET, settings=AccessSettings(limits=AccessLimits(statements_kept=500)))
    now = later(10_000)
    taken: list[tuple[int, int]] = []
    for step, is_restarted in steps:
        now = Instant(now + step * SECOND // 3)
        station = station.restarted() if is_restarted else station
        for signed in station.access.due(now):
            period = signed.statement.period
            start, end = period.not_before, period.not_after
            assert all(last < start or end < first for first, last in taken)
            taken.append((start, end))
        assert any(first <= now <= last for first, last in taken)
    numbers = [said.sequence for said in lists(station)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_very_many_pauses_are_remembered_in_bounded_space():
    station = Station(MET)
    for number in range(90):
        station.access.due(later(100 * number))
    assert station.access.due(later(100 * 89 + 1)) == []
    # Long past, also in a pause whose ends are no longer known one by one.
    assert station.access.due(later(100 * 2 + 50)) == []


# ---------------------------------------------------------------- what a list says


def test_a_revocation_is_stated_at_once_and_again_in_every_list_until_the_certificate_ends():
    station = met()
    station.beat()
    appointed = station.appoint(SMITH.principal, "medal", [], until(100))
    gone = station.revoke_appointment(appointed.id, "stolen")
    assert gone.statement.statement.period is None
    assert listed(gone.statement) == {appointed.id}
    assert gone.statement.statement.sequence == 2
    station.now = later(30)
    assert listed(station.beat()[0]) == {appointed.id}
    station.now = later(101)
    assert listed(station.beat()[0]) == frozenset()


def test_an_id_that_was_left_out_comes_back_when_the_clock_goes_back():
    """A78: an id is forgotten only when no clock can still take its certificate for valid."""
    station = met()
    appointed = station.appoint(SMITH.principal, "medal", [], until(100))
    station.revoke_appointment(appointed.id, "stolen")
    station.now = later(1000)
    assert listed(station.beat()[0]) == frozenset()
    station.now = later(50)
    assert listed(station.beat()[0]) == {appointed.id}


def test_a_domain_that_revoked_more_than_a_list_can_name_falls_silent():
    station = met(settings=AccessSettings(limits=AccessLimits(revoked_in_a_list=2)))
    station.beat()
    medals = [station.appoint(SMITH.principal, "medal", [], until(100)) for _ in range(3)]
    for medal in medals[:2]:
        assert station.revoke_appointment(medal.id, "").statement is not None
    gone = station.revoke_appointment(medals[2].id, "")
    assert gone.ids == (medals[2].id,)
    assert gone.statement is None
    assert gone.is_silent
    assert station.access.is_silent(station.now)
    station.now = later(29)
    assert station.beat() == []
    assert station.access.next_due(station.now) > station.now
    station.now = later(101)
    assert listed(station.beat()[0]) == frozenset()


def test_the_silence_of_a_domain_makes_all_its_rights_stale():
    courts = court()
    station = met(settings=AccessSettings(limits=AccessLimits(revoked_in_a_list=1)))
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")])
    standing = broker(station.now, station)
    right = wallet.issued[0].certificate
    assert standing.check(right, later(29)) is None
    station.retract_fact("case_assignment", [SMITH.principal, "42"])
    station.now = later(29)
    assert station.beat() == []
    assert isinstance(standing.check(right, later(30)), BrokenChain)


def test_newcomers_get_the_present_list_and_the_newest_word():
    station = met()
    station.beat()
    appointed = station.appoint(SMITH.principal, "medal", [], until(100))
    station.revoke_appointment(appointed.id, "stolen")
    standing = Monitor()
    for signed in station.access.current_statements(station.now):
        standing.receive(signed, station.now)
    assert standing.revoked_by(MET.principal) == {appointed.id}
    assert standing.fresh_until(MET.principal, station.now) == later(30) - 1


def test_old_statements_are_forgotten_and_the_present_ones_never():
    station = Station(MET, settings=AccessSettings(limits=AccessLimits(statements_kept=3)))
    for number in range(12):
        station.access.due(later(30 * number))
    assert len(station.stored_statements().rows) <= 4
    assert station.access.current_statements(later(335))[-1].statement.sequence == 12


# ---------------------------------------------------------------- revalidation


REVALIDATED = POLICY.replace(
    "where numberplate == $plate\n\ngrant",
    "where numberplate == $plate\n    checked by revalidation\n\ngrant",
)


def test_rights_that_must_be_named_as_valid_are_named_until_they_are_revoked():
    courts, station = court(), met(policy=REVALIDATED)
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")])
    positive = {
        right.id
        for right in wallet.issued
        if any(test.kind.value == "revalidation" for test in right.certificate.certificate.validity.tests)
    }
    assert len(positive) == 1
    _, named = station.beat()
    assert isinstance(named.statement, Revalidation)
    assert named.statement.valid == positive
    station.retract_fact("detective", [SMITH.principal])
    station.now = later(28)
    assert [type(one.statement) for one in station.beat()] == [RevocationList]


def test_a_certificate_is_vouched_for_once_to_whoever_asks():
    courts, station = court(), met()
    told(station, courts)
    right = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")]).issued[0]
    request, nonce = b"r" * 32, b"n" * 32
    answer = station.access.revalidate_once(right.id, request, nonce, now=station.now)
    check_statement(answer)
    assert answer.statement == OneTimeAnswer(MET.principal, right.id, request, nonce)
    with raises("INPUT-UNKNOWN-CERTIFICATE"):
        station.access.revalidate_once(bytes(32), request, nonce, now=station.now)
    with raises("REFUSED-NOT-OURS"):
        station.access.revalidate_once(station.held(station.now)[0].id, request, nonce, now=station.now)
    with raises("REFUSED-NOT-OURS"):
        station.access.revalidate_once(right.id, request, nonce, now=later(2 * DAY))
    station.retract_fact("detective", [SMITH.principal])
    with pytest.raises(BrokenChain):
        station.access.revalidate_once(right.id, request, nonce, now=station.now)


@pytest.mark.parametrize(
    "changes", [{"period_s": 0}, {"lead_s": 30}, {"lead_s": -1}, {"right_s": 0}, {"period_s": 86_401}]
)
def test_settings_that_nobody_can_keep_are_refused(changes):
    with raises("INPUT-DOMAIN-SETTINGS"):
        AccessSettings(**changes)
