"""A domain's store is put back from an old copy: what it revoked stays revoked, what it revokes is heard."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from maia.credentials import BadSignature, Standing, statement_from_bytes, statement_to_bytes
from maia.policy import Permit
from maia.runtime.domain_store import sqlite_store
from support.access_control import JONES, MET, SMITH, Station, court, later, listed, met, order, told, verdict


def may(who, wallet, verifier: Standing, now) -> bool:
    return isinstance(verdict(who.principal, wallet.chains, verifier, now), Permit)


def test_after_an_old_copy_was_put_back_nothing_revoked_comes_back_and_new_revocations_count(tmp_path: Path):
    """A39, A82: the sequence never goes back, once the domain has heard one statement of its own."""
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
    verifier = Standing()
    for signed in station.current_statements(station.now):
        verifier.hear(signed, station.now)
    assert may(SMITH, smith, verifier, station.now)
    for right in smith.issued:
        last = station.revoke([right.id], "appeal").statement
        verifier.hear(last, station.now)
    assert not may(SMITH, smith, verifier, station.now)
    station.store.close()

    again = Station(MET, sqlite_store(old / "domain.sqlite"))
    again.now = later(1)
    gone = again.hear_statement(statement_from_bytes(statement_to_bytes(last)))
    assert set(gone.ids) == {one.id for one in smith.issued}
    assert gone.statement.statement.sequence > last.statement.sequence
    verifier.hear(gone.statement, again.now)
    taken = again.revoke([one.id for one in jones.issued], "appeal").statement
    assert verifier.hear(taken, again.now).is_news
    assert listed(taken) >= {one.id for one in (*smith.issued, *jones.issued)}
    for seconds in (28, 56, 84):
        again.now = later(seconds)
        for signed in again.beat():
            assert verifier.hear(signed, again.now).problem is None
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
    assert again.hear_statement(last).ids
    assert right.id in listed(
        again.revoke_appointment(
            again.appoint(SMITH.principal, "x", [], right.certificate.certificate.validity).id, ""
        ).statement
    )
    assert again.hear_statement(last).statement is None


def test_nobody_else_moves_a_domain_ahead():
    """A39: a statement in our name that we have not signed changes nothing."""
    station = met()
    (mine, *_) = station.beat()
    data = statement_to_bytes(mine)
    forged = data.replace(b"(8:sequence1:%d)" % mine.statement.sequence, b"(8:sequence1:9)")
    with pytest.raises(BadSignature):
        station.hear_statement(statement_from_bytes(forged))
    assert station.access.audit_head().length == met().access.audit_head().length
