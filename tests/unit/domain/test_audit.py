"""Records of an audit, read with suspicion: what they say, how long they are, what they lead through."""

from __future__ import annotations

from dataclasses import replace

from maia.credentials.statements import AuditHead
from maia.domain.access.audit import AUDIT_START, check_against, check_linked, record_from_bytes, record_of
from maia.testing.refusals import raises
from support.access_control import SMITH, later


def written(*details: tuple[str, str], after: AuditHead = AUDIT_START):
    return record_of(after, at=later(1), actor=SMITH.principal, act="right.revoke", details=details)


def test_a_record_that_says_something_else_than_its_bytes_is_noticed():
    """A84: the digest is right, and the fields that people read are not those that it covers."""
    record = written(("reason", "appeal"))
    for changed in (
        replace(record, act="right.issue"),
        replace(record, details=()),
        replace(record, at=later(2)),
    ):
        with raises("CREDENTIAL-AUDIT-BROKEN"):
            check_linked([changed])
    assert check_linked([record]) == record.head


def test_an_audit_begins_with_nothing():
    """A84: a domain that states an empty audit with some other digest has stated another audit."""
    check_against([written()], [AUDIT_START])
    with raises("CREDENTIAL-AUDIT-FORKED"):
        check_against([written()], [AuditHead(0, b"x" * 32)])


def test_a_record_is_bounded_says_where_it_was_cut_and_can_be_read_again():
    """A74: whatever somebody gives as a reason, the audit stays readable."""
    record = written(*((f"detail {number}", "é" * 5000) for number in range(100)))
    assert len(record.details) == 32
    assert {len(text) for _, text in record.details} == {400}
    assert all(text.endswith("…") for _, text in record.details)
    assert record_from_bytes(record.body, AUDIT_START.digest) == record


def test_a_detail_of_just_the_length_that_is_kept_is_kept():
    (detail,) = written(("reason", "x" * 400)).details
    assert detail == ("reason", "x" * 400)
