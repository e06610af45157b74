"""A84: whoever rewrites the audit of a domain, with its key in hand, is caught by what others have kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials.statements import AuditHead, RevocationList, statement_from_bytes
from maia.domain.access.audit import (
    AUDIT_START,
    AuditRecord,
    check_against,
    check_linked,
    record_from_bytes,
    record_of,
)
from maia.testing.refusals import raises
from support.access_control import MET, SMITH, Station, court, later, met, order, told


def told_another_domain(courts: Station, station: Station) -> list[AuditHead]:
    """What the courts keep of the Met's statements, every one of which they received."""
    heard = []
    for signed in map(statement_from_bytes, station.stored_statements(limit=500).rows):
        assert isinstance(signed.statement, RevocationList)
        heard.append(signed.statement.audit)
    return heard


@pytest.fixture(scope="module")
def story() -> tuple[list[AuditRecord], list[AuditHead]]:
    """The audit of some busy minutes at the Met, and the heads that others have seen in between."""
    courts, station = court(), met()
    told(station, courts)
    for number in range(6):
        station.now = later(40 * number)
        told(station, courts)
        station.beat()
        station.assert_fact("case_assignment", [SMITH.principal, str(number)])
        station.login(SMITH.principal, [order(courts, SMITH, str(number), f"PLATE {number}")])
        station.retract_fact("case_assignment", [SMITH.principal, str(number)])
    return list(station.audit(limit=500).rows), told_another_domain(courts, station)


def rewritten(records: list[AuditRecord]) -> list[AuditRecord]:
    """The same story told again from the first record, with fitting numbers and digests: the key helps."""
    head, told_again = AUDIT_START, []
    for record in records:
        again = record_of(head, at=record.at, actor=record.actor, act=record.act, details=record.details)
        told_again.append(again)
        head = again.head
    return told_again


def test_an_honest_audit_leads_through_every_head_that_was_seen(story):
    """A84: the control case."""
    records, witnessed = story
    assert len(set(witnessed)) > 5
    assert check_against(records, witnessed) == records[-1].head
    assert check_against(rewritten(records), witnessed) == records[-1].head


def test_a_deleted_record_is_noticed(story):
    """A84: delete."""
    records, _ = story
    for number in range(len(records) - 1):
        without = records[:number] + records[number + 1 :]
        with raises("CREDENTIAL-AUDIT-BROKEN"):
            check_linked(without)


def test_a_record_deleted_from_a_story_that_was_told_again_is_noticed(story):
    """A84: delete, and re-sign with the key."""
    records, witnessed = story
    last_seen = max(head.length for head in witnessed)
    for number in range(last_seen):
        with raises("CREDENTIAL-AUDIT-FORKED", "CREDENTIAL-AUDIT-TRUNCATED"):
            check_against(rewritten(records[:number] + records[number + 1 :]), witnessed)


def test_an_edited_record_is_noticed(story):
    """A84: edit, with and without the key."""
    records, witnessed = story
    for number in (0, 3, max(head.length for head in witnessed) - 1):
        edited = list(records)
        edited[number] = replace(records[number], actor=SMITH.principal)
        with raises("CREDENTIAL-AUDIT-BROKEN"):
            check_linked(edited)
        with raises("CREDENTIAL-AUDIT-FORKED"):
            check_against(rewritten(edited), witnessed)


def test_a_record_with_another_body_under_the_same_fields_is_noticed(story):
    """A84: what is read and what was written are compared."""
    records, _ = story
    forged = replace(records[2], body=records[1].body)
    with raises("CREDENTIAL-AUDIT-BROKEN"):
        check_linked([*records[:2], forged, *records[3:]])


def test_a_tail_that_was_cut_off_is_noticed(story):
    """A84: truncate the tail."""
    records, witnessed = story
    last_seen = max(head.length for head in witnessed)
    for length in range(last_seen):
        with raises("CREDENTIAL-AUDIT-TRUNCATED"):
            check_against(records[:length], witnessed)


def test_records_in_another_order_are_noticed(story):
    """A84: reorder."""
    records, _ = story
    with raises("CREDENTIAL-AUDIT-BROKEN"):
        check_linked([records[1], records[0], *records[2:]])


def test_what_no_other_domain_has_seen_yet_can_be_cut_off(story):
    """A84: the limit of the promise: only what was stated is witnessed, which is one period of time."""
    records, witnessed = story
    last_seen = max(head.length for head in witnessed)
    assert check_against(records[:last_seen], witnessed).length == last_seen


def test_the_head_of_a_domain_that_starts_afresh_contradicts_what_it_once_stated(story):
    """A84: a new audit under the same key."""
    _, witnessed = story
    afresh = Station(MET)
    afresh.assert_fact("detective", [SMITH.principal])
    with raises("CREDENTIAL-AUDIT-FORKED", "CREDENTIAL-AUDIT-TRUNCATED"):
        check_against(list(afresh.audit().rows), witnessed)


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"()", b"(12:audit-record)", b"(12:audit-record1:x1:0" + b"32:" + bytes(32) + b"1:a())"],
)
def test_bytes_that_are_no_record_are_refused(body):
    """A84: whatever stands in a file."""
    with raises("INPUT-AUDIT-RECORD"):
        record_from_bytes(body, bytes(32))


def test_long_details_are_cut_and_say_so():
    """Everything has a limit."""
    details = [("reason", "x" * 10_000)] * 100
    record = record_of(AUDIT_START, at=later(0), actor=MET.principal, act="revoke", details=details)
    assert len(record.details) == 32
    assert record.details[0][1].endswith("…")
    assert record_from_bytes(record.body, AUDIT_START.digest) == record


# ---------------------------------------------------------------- another domain as the witness


def witness() -> tuple[Station, Station]:
    """The Met, and a domain whose policy depends on what the Met says."""
    text = f"""policy "Courts"
key met = {MET.principal}
appointment detective(number: int) by met
role witness(number: int)
rule witness(number)
    while detective(number)
    until detective ends
end
"""
    other = court()
    other.load_policy(text)
    return met(), other


def all_heads(other: Station) -> list[AuditHead]:
    """Every head that a domain has kept of the Met's, from pages of two."""
    heads, page = [], other.witnessed(MET.principal, limit=2)
    while page.after is not None:
        heads += page.rows
        page = other.witnessed(MET.principal, after=page.after, limit=2)
    return [*heads, *page.rows]


def test_another_domain_keeps_every_head_that_it_receives_also_over_a_restart():
    """A84: the witness."""
    station, other = witness()
    for number in range(5):
        station.now = other.now = later(40 * number)
        station.assert_fact("case_assignment", [SMITH.principal, str(number)])
        told(other, station)
    kept = all_heads(other.restarted())
    assert len(kept) == 5
    records = list(station.audit(limit=500).rows)
    assert check_against(records, kept) == records[-1].head
    with raises("CREDENTIAL-AUDIT-FORKED"):
        check_against(rewritten([*records[:3], *records[4:], records[3]]), kept)


def test_a_domain_that_states_another_audit_is_noticed_as_it_speaks():
    """A84: restored from an old copy, with the key and a higher number: the witness writes it down."""
    station, other = witness()
    for number in range(3):
        station.now = other.now = later(40 * number)
        station.assert_fact("case_assignment", [SMITH.principal, str(number)])
        told(other, station)
    forged = Station(MET)
    for number in range(40):
        forged.access.due(later(1000 + 31 * number))
    forged.now = other.now = later(1000 + 31 * 40)
    told(other, forged)
    last = other.audit(limit=500).rows[-1]
    assert last.act == "statement.receive"
    assert dict(last.details)["problem"] == "CREDENTIAL-AUDIT-TRUNCATED"
    with raises("CREDENTIAL-AUDIT-TRUNCATED"):
        check_against(list(forged.audit().rows), all_heads(other))
