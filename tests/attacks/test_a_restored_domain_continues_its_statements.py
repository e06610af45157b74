"""A domain's store is put back from an old copy: what it revoked stays revoked, what it revokes is heard."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from maia.credentials import BadSignature, statement_from_bytes, statement_to_bytes
from maia.domain.storage.store import sqlite_store
from maia.policy import Permit
from maia.validity import Monitor
from support.access_control import JONES, MET, SMITH, Station, court, later, listed, met, order, told, verdict


def may(who, wallet, verifier: Monitor, now) -> bool:
    return isinstance(verdict(who.principal, wallet.chains, verifier, now), Permit)


def test_after_an_old_copy_was_put_back_nothing_revoked_comes_back_and_new_revocations_count(tmp_path: Path):
    """A39, A82: the sequence never goes back, once the domain has received one statement of its own."""
    data, old = tmp_path / "now", tmp_path / "old"
    data.mkdir()
    courts, station = court(), met(sqlite_store(data / "domain.sqlite"))
    station.assert_fact("case_assignment", [JONES.principal, "42"])
    told(station, courts)
    station.beat()
    smith = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")])
    jones = station.login(JONES.principal, [order(courts, JONES, "42", "A")])
    station.store.close()
    copytree(data, old)

    station = Station(MET, sqlite_store(data / "domain.sqlite"))
    verifier = Monitor()
    for signed in station.current_statements(station.now):
        verifier.receive(signed, station.now)
    assert may(SMITH, smith, verifier, station.now)
    for right in smith.issued:
        last = station.revoke([right.id], "appeal").statement
        verifier.receive(last, station.now)
    assert not may(SMITH, smith, verifier, station.now)
    station.store.close()

    again = Station(MET, sqlite_store(old / "domain.sqlite"))
    again.now = later(1)
    gone = again.receive_statement(statement_from_bytes(statement_to_bytes(last)))
    assert set(gone.ids) == {one.id for one in smith.issued}
    assert gone.statement.statement.sequence > last.statement.sequence
    verifier.receive(gone.statement, again.now)
    taken = again.revoke([one.id for one in jones.issued], "appeal").statement
    assert verifier.receive(taken, again.now).is_news
    assert listed(taken) >= {one.id for one in (*smith.issued, *jones.issued)}
    for seconds in (28, 56, 84):
        again.now = later(seconds)
        for signed in again.beat():
            assert verifier.receive(signed, again.now).problem is None
        assert not may(SMITH, smith, verifier, again.now)
        assert not may(JONES, jones, verifier, again.now)
    again.store.close()


def test_what_was_issued_after_the_copy_stays_revoked_too(tmp_path: Path):
    """A82: the register has forgotten the certificate, and every list still names it."""
    courts, station = court(), met()
    told(station, courts)
    right = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")]).issued[0]
    last = station.revoke([right.id], "appeal").statement
    again = met()
    assert again.receive_statement(last).ids
    assert right.id in listed(
        again.revoke_appointment(
            again.appoint(SMITH.principal, "medal", [], right.certificate.certificate.validity).id, ""
        ).statement
    )
    assert again.receive_statement(last).statement is None


@pytest.mark.parametrize("lists_since", [1, 2, 3])
def test_a_store_that_has_signed_lists_of_its_own_before_it_receives_what_it_said_takes_it_back_all_the_same(
    lists_since,
):
    """A39, A82: the numbers have met, and a revocation under one of them still counts."""
    courts = court()
    station, copy = met(), met()  # the same start: the second represents a copy of the first
    told(station, courts)
    right = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")]).issued[0]
    lost = station.revoke([right.id], "appeal").statement
    verifier = Monitor()
    verifier.receive(lost, station.now)
    for number in range(lists_since):
        copy.now = later(28 * (number + 1))
        copy.beat()
    gone = copy.receive_statement(lost)
    assert right.id in gone.ids
    assert right.id in listed(gone.statement)
    verifier.receive(gone.statement, copy.now)
    assert right.id in verifier.revoked_by(MET.principal)
    audit = copy.access.audit_head()
    assert copy.receive_statement(lost).statement is None, "it is known now"
    assert copy.access.audit_head() == audit


def test_a_domain_that_receives_its_own_lists_again_does_nothing():
    """A39: a peer that replays what a domain has said itself fills no audit and no list."""
    courts, station = court(), met()
    told(station, courts)
    right = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")]).issued[0]
    said = [*station.beat(), station.revoke([right.id], "appeal").statement, *station.beat()]
    audit = station.access.audit_head()
    assert [station.receive_statement(one).ids for one in said] == [()] * len(said)
    assert station.access.audit_head() == audit


def test_no_other_peer_moves_a_domain_ahead():
    """A39: a statement in our name that we have not signed changes nothing."""
    station = met()
    (mine, *_) = station.beat()
    data = statement_to_bytes(mine)
    forged = data.replace(b"(8:sequence1:%d)" % mine.statement.sequence, b"(8:sequence1:9)")
    with pytest.raises(BadSignature):
        station.receive_statement(statement_from_bytes(forged))
    assert station.access.audit_head().length == met().access.audit_head().length
