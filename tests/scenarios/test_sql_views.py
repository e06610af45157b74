"""Row X4 (d): one policy holds in PostgreSQL too. The views of a database show what the kernel shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.credentials import AuthorisationCertificate, SignedCertificate, SigningKey, Validity, issue
from maia.events import SECOND, AttributeUid, Instant
from maia.ledger.files import LedgerFiles, read_ledger
from maia.ledger.records import LedgerReader, StandingDisclosure
from maia.policy import see
from maia.postgres.view_definitions import ViewLedger
from maia.predicates import Comparison, Operator
from maia.types import from_transit, sign_definition, to_transit, verify_definition
from support.homecare import AUDITOR, CARER, HOSPITAL, PHARMACY, PRESCRIBE, right_of
from support.sql_views import ROWS, Hospital, hospital, open_plans


@pytest.fixture(scope="module")
def database(postgres_server: str) -> Iterator[Hospital]:
    with hospital(postgres_server) as found:
        yield found


def during(right: SignedCertificate, since: Instant | None, until: Instant | None) -> SignedCertificate:
    """Issue the same right again, for a period."""
    assert isinstance(right.certificate, AuthorisationCertificate)
    return issue(replace(right.certificate, validity=Validity(since, until)), HOSPITAL)


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize(("role", "who"), [("carer", CARER), ("pharmacist", PHARMACY)])
def test_a_view_shows_what_the_kernel_shows(database: Hospital, role: str, who: SigningKey, opens: bool):
    """Hidden attributes and transformations, with conditions that are true, false and unknown."""
    table = open_plans(database.table) if opens else database.table
    (made,) = database.renew((who, [right_of(role, who)]), table=table)
    assert made.definition is not None, made.problem
    version = verify_definition(PRESCRIBE, at=system_now())
    seen = [see(made.definition.view, to_transit(row, version)) for row in ROWS]
    expected = [tuple(from_transit(one, version).values()) for one in seen if one is not None]
    assert sorted(database.shown(), key=repr) == sorted(expected, key=repr)
    assert len(expected) == len(ROWS)


def test_a_view_with_pseudonyms_is_refused(database: Hospital):
    database.renew()
    (outcome,) = database.renew((AUDITOR, [right_of("auditor", AUDITOR)]))
    assert outcome.problem is not None
    assert (outcome.what, outcome.problem.code) == ("none", "VIEW-NEEDS-KEY")


def test_a_view_that_asks_about_publishers_is_refused(database: Hospital):
    carer = right_of("carer", CARER).certificate
    (step,) = carer.authority.transformations
    asked = Comparison(AttributeUid("publisher.clearance"), Operator.GE, 3)
    steps = (replace(step, rules=(replace(step.rules[0], condition=asked), *step.rules[1:])),)
    right = issue(replace(carer, authority=replace(carer.authority, transformations=steps)), HOSPITAL)
    (outcome,) = database.renew((CARER, [right]))
    assert (outcome.what, outcome.problem.code) == ("none", "VIEW-NEEDS-PUBLISHER")


def test_a_right_that_converts_shows_the_other_type(database: Hospital):
    """What needs no secret is converted: the auditor without the reference."""
    right = right_of("auditor", AUDITOR)
    assert isinstance(right.certificate, AuthorisationCertificate)
    authority = right.certificate.authority
    (step,) = authority.transformations
    rules = tuple(rule for rule in step.rules if rule.uid != "2")
    plain = replace(authority, transformations=(replace(step, rules=rules),))
    (made,) = database.renew((AUDITOR, [issue(replace(right.certificate, authority=plain), HOSPITAL)]))
    assert made.shows, made.problem
    assert sorted(database.shown()) == [("CODEINE", None, None), ("MORPHINE", None, None)]


def test_views_follow_rights_and_readers(database: Hospital):
    """A view is renewed while its text stays, replaced with another right, removed with its reader."""
    carer, pharmacist = right_of("carer", CARER), right_of("pharmacist", PHARMACY)
    both = [(CARER, [carer]), (PHARMACY, [pharmacist])]
    database.renew()
    assert [one.what for one in database.renew(*both)] == ["made", "made"]
    assert [one.what for one in database.renew(*both)] == ["renewed", "renewed"]
    assert [one.what for one in database.renew((CARER, [pharmacist]), both[1])] == ["removed", "renewed"]
    assert [one.what for one in database.renew(both[0])] == ["made", "removed"]
    assert [one.principal for one in database.views.entries()] == [str(CARER.principal)]
    allowed = "SELECT has_schema_privilege(%s, 'shown', 'USAGE')"
    found = [database.owner.execute(allowed, (role,)).fetchone() for role in database.roles[:2]]
    assert found == [(True,), (False,)]


def test_a_right_that_returns_while_its_view_is_still_being_read_gets_a_new_one(database: Hospital):
    carer = (CARER, [right_of("carer", CARER)])
    database.renew(carer)
    with database.role() as reader:
        reader.execute("BEGIN")
        assert len(reader.execute(f"SELECT * FROM {database.view()}").fetchall()) == len(ROWS)
        assert [one.what for one in database.renew((CARER, []))] == ["ended"]
        (waiting,) = database.renew(carer)
        assert (waiting.what, waiting.shows) == ("ended", False)
    (again,) = database.renew(carer)
    assert again.what == "made"
    assert len(database.shown()) == len(ROWS)


def test_rows_are_shown_by_the_right_of_their_moment(database: Hospital):
    """Where a table says when a row was published, the view shows what a live subscriber received."""
    now = Instant(system_now() // SECOND * SECOND)
    hour = 3600 * SECOND
    rights = [
        during(right_of("carer", CARER), Instant(now - 10 * hour), Instant(now - 8 * hour)),
        during(right_of("pharmacist", CARER), Instant(now - 4 * hour), Instant(now + 4 * hour)),
    ]
    with database.owner.transaction(force_rollback=False):
        for hours in (11, 9, 6, 2):
            database.owner.execute(
                "INSERT INTO public.prescriptions (patient, drug, place, emergency, published_at) "
                "VALUES (%s, 'codeine', 'CB3 0FD', true, %s)",
                (f"{hours} hours ago", Instant(now - hours * hour).to_datetime()),
            )
    dated = replace(database.table, published_at="published_at")
    (made,) = database.renew((CARER, rights), table=dated)
    assert made.until == now + 4 * hour
    found = database.shown(columns="patient, drug, place")
    assert sorted(found) == [("2 hours ago", "codeine", None), ("9 hours ago", None, "CB3 0FD")]


def test_a_lease_ends_a_view_that_is_not_renewed(postgres_server: str):
    with hospital(postgres_server, lease_s=30) as database:
        right = [right_of("carer", CARER)]
        database.renew((CARER, right), now=Instant(system_now() - 60 * SECOND))
        assert database.shown() == []
        database.renew((CARER, right))
        assert len(database.shown()) == len(ROWS)
        assert [one.what for one in database.views.remove(system_now())] == ["removed"]
        gone = database.owner.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'shown'").fetchone()
        assert gone == (0,)


def test_a_table_of_other_kinds_is_refused(database: Hospital):
    database.owner.execute("CREATE TABLE public.odd (LIKE public.prescriptions)")
    database.owner.execute("ALTER TABLE public.odd ALTER dose TYPE numeric")
    odd = replace(database.table, name="odd", table=("public", "odd"))
    (outcome,) = [
        one for one in database.renew((CARER, [right_of("carer", CARER)]), table=odd) if one.problem
    ]
    assert outcome.problem is not None
    assert outcome.problem.code == "INPUT-STORED-COLUMNS"


def test_a_view_is_on_record_before_it_is_there(postgres_server: str, tmp_path: Path):
    """A95: opened, with other grounds, closed; a type whose owner demands a ledger is not shown without."""
    right = right_of("carer", CARER)
    other = during(right, None, Instant((system_now() // SECOND + 3600) * SECOND))
    with hospital(postgres_server) as database, LedgerFiles(tmp_path / "ledger") as files:
        ledger = ViewLedger(files, HOSPITAL.principal)
        database.renew((CARER, [right]), ledger=ledger)
        database.renew((CARER, [right]), ledger=ledger)
        database.renew((CARER, [other]), ledger=ledger)
        database.renew(ledger=ledger)
        first, second = standing_in(tmp_path / "ledger")
        assert [set(one.certificates) for one in (first, second)] == [{right.id}, {other.id}]
        assert {one.recipient for one in (first, second)} == {CARER.principal.key}
        assert set(first.attributes) == {"1", "4", "5"}
        assert first.source == f"public.prescriptions as {database.roles[0]}"
        assert first.until == second.since
        assert second.until is not None
        assert second.until < other.certificate.validity.not_after

        demanding = sign_definition(replace(PRESCRIBE.definition, ledger=True), HOSPITAL)
        version = verify_definition(demanding, at=system_now())
        table = replace(database.table, versions=(version,))
        (outcome,) = database.renew((CARER, [right]), table=table)
        assert outcome.problem is not None
        assert (outcome.what, outcome.problem.code) == ("none", "REFUSED-LEDGER-REQUIRED")
        (tmp_path / "ledger").rename(tmp_path / "gone")
        (outcome,) = database.renew((CARER, [right]), table=table, ledger=ledger)
        assert outcome.problem is not None
        assert (outcome.what, outcome.problem.code) == ("failed", "UNAVAILABLE-LEDGER")
        assert database.views.entries() == [], "no view without its record"


def standing_in(folder: Path) -> list[StandingDisclosure]:
    reader = LedgerReader()
    assert list(read_ledger(folder, reader)) == []
    return reader.standing
