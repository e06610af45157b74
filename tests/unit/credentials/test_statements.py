"""What statements on validity are, byte for byte, and what is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.credentials import (
    AuditHead,
    BadSignature,
    BadStatement,
    FactList,
    OneTimeAnswer,
    Revalidation,
    RevocationList,
    SignedKind,
    Validity,
    check_statement,
    period_from,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.credentials.statements import FACTS_MAX, IDS_MAX, PERIOD_MAX, SEQUENCE_MAX
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.testing.refusals import raises
from support.statements import HOLDER, ISSUER, NOON, TESTER

BY = TESTER.principal
PERIOD = period_from(NOON, microseconds=30_000_000)
IDS = frozenset((b"a" * 32, b"b" * 32, b"c" * 32))
FACTS = {
    (HOLDER.principal, "on-duty"): True,
    (HOLDER.principal, "grade"): 1,
    (HOLDER.principal, "share"): 1.0,
    (ISSUER.principal, "since"): NOON,
    (ISSUER.principal, "ward"): "Å 3",
    (ISSUER.principal, "badge"): b"\x00\xff",
}
STATEMENTS = [
    RevocationList(BY, 1, None, frozenset()),
    RevocationList(BY, SEQUENCE_MAX, PERIOD, IDS, AuditHead(17, b"d" * 32)),
    RevocationList(BY, 2, Validity(NOON, NOON), IDS),
    RevocationList(BY, 2, Validity(Instant(INSTANT_MIN), Instant(INSTANT_MIN)), IDS),
    RevocationList(BY, 2, Validity(Instant(INSTANT_MAX), Instant(INSTANT_MAX)), IDS),
    Revalidation(BY, 3, PERIOD, IDS),
    FactList(BY, 4, PERIOD, FACTS),
    FactList(BY, 4, PERIOD, {}),
    OneTimeAnswer(BY, b"c" * 32, b"r" * 32, b"n" * 32),
]


def test_facts_cannot_be_changed_after_the_fact():
    given = dict(FACTS)
    statement = FactList(BY, 4, PERIOD, given)
    given[HOLDER.principal, "on-duty"] = False
    assert statement.facts[HOLDER.principal, "on-duty"] is True
    with pytest.raises(TypeError):
        statement.facts[HOLDER.principal, "on-duty"] = False  # type: ignore[index] - that is the point


def test_periods_follow_each_other_without_a_moment_between_or_in_both():
    after = period_from(Instant(NOON + 30_000_000), microseconds=30_000_000)
    assert PERIOD.not_after is not None
    assert after.not_before == PERIOD.not_after + 1


def test_only_the_one_named_signs():
    with raises("INPUT-NOT-THE-ISSUER"):
        sign_statement(STATEMENTS[0], ISSUER)


@pytest.mark.parametrize(
    "made",
    [
        lambda: RevocationList(BY, 0, None, IDS),
        lambda: RevocationList(BY, -1, None, IDS),
        lambda: RevocationList(BY, SEQUENCE_MAX + 1, None, IDS),
        lambda: RevocationList(BY, 1, Validity(NOON, Instant(NOON - 1)), IDS),
        lambda: RevocationList(BY, 1, Validity(None, NOON), IDS),
        lambda: RevocationList(BY, 1, Validity(NOON, None), IDS),
        lambda: RevocationList(BY, 1, period_from(NOON, microseconds=PERIOD_MAX + 1), IDS),
        lambda: RevocationList(BY, 1, None, frozenset((b"short",))),
        lambda: RevocationList(BY, 1, None, frozenset(n.to_bytes(32, "big") for n in range(IDS_MAX + 1))),
        lambda: Revalidation(BY, 1, Validity(NOON, None), IDS),
        lambda: Revalidation(BY, 1, PERIOD, frozenset((b"",))),
        lambda: FactList(BY, 1, PERIOD, {(HOLDER.principal, "On Duty"): True}),
        lambda: FactList(BY, 1, PERIOD, {(HOLDER.principal, "on-duty"): float("nan")}),
        lambda: FactList(BY, 1, PERIOD, {(HOLDER.principal, "on-duty"): None}),
        lambda: FactList(BY, 1, PERIOD, {(HOLDER.principal, f"f{n}"): n for n in range(FACTS_MAX + 1)}),
        lambda: OneTimeAnswer(BY, b"c" * 31, b"r" * 32, b"n" * 32),
        lambda: OneTimeAnswer(BY, b"c" * 32, b"r" * 33, b"n" * 32),
        lambda: OneTimeAnswer(BY, b"c" * 32, b"r" * 32, b""),
        lambda: AuditHead(-1, b"d" * 32),
        lambda: AuditHead(1, b"d"),
    ],
)
def test_a_statement_that_no_verifier_could_use_does_not_exist(made):
    with pytest.raises(BadStatement):
        made()


def test_the_largest_list_still_fits():
    ids = frozenset(n.to_bytes(32, "big") for n in range(IDS_MAX))
    signed = sign_statement(RevocationList(BY, 1, PERIOD, ids, AuditHead(1, b"d" * 32)), TESTER)
    assert statement_from_bytes(statement_to_bytes(signed)).statement.revoked == ids


def test_facts_that_do_not_fit_are_refused_when_they_are_signed():
    facts = {(HOLDER.principal, f"f{n}"): "x" * 300 for n in range(FACTS_MAX)}
    with pytest.raises(BadStatement, match="bytes"):
        sign_statement(FactList(BY, 1, PERIOD, facts), TESTER)


def _sealed(body: bytes) -> bytes:
    signature = TESTER.sign(SignedKind.VALIDITY_STATEMENT, body)
    return b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, signature)


@pytest.mark.parametrize("statement", STATEMENTS[1:7], ids=lambda one: type(one).__name__)
def test_whatever_is_missing_repeated_or_added_is_refused_even_if_it_is_signed(statement):
    body = read_canonical(sign_statement(statement, TESTER).body)
    for at in range(1, len(body)):
        without = (*body[:at], *body[at + 1 :])
        twice = (*body[:at], body[at], *body[at:])
        extra = (*body[:at], (b"extra", b"1"), *body[at:])
        for changed in (without, twice, extra):
            if (
                changed == without
                and body[at][0] in (b"period", b"audit", b"fact")
                and _is_optional(body, at)
            ):
                continue
            with pytest.raises(BadStatement):
                statement_from_bytes(_sealed(write_canonical(changed)))


def _is_optional(body, at):
    return body[0] in (b"revocation-list", b"fact-list") and (body[0], body[at][0]) != (
        b"fact-list",
        b"period",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(7:version1:1)", b"(7:version1:2)"),
        (b"(8:sequence1:3)", b"(8:sequence2:03)"),
        (b"(8:sequence1:3)", b"(8:sequence1:0)"),
        (b"(8:sequence1:3)", b"(8:sequence2:-3)"),
        (b"(8:sequence1:3)", b"(8:sequence20:99999999999999999999)"),
        (b"(8:sequence1:3)", b"(8:sequence19:9999999999999999999)"),
        (b"12:00:00.000000", b"12:00:60.000000"),
        (b"12:00:00.000000", b"24:00:00.000000"),
        (b"2026-11-15_12:00:00.000000", b"2026-02-30_12:00:00.000000"),
        (b"2026-11-15_12:00:00.000000", b"2026-11-15T12:00:00.000000"),
        (b"26:2026-11-15_12:00:00.000000", b"19:2026-11-15_12:00:00"),
        (b"26:2026-11-15_12:00:00.000000", b"9:unbounded"),
        (b"2026-11-15_12:00:00.000000", b"0000-11-15_12:00:00.000000"),
        (b"12:00:00.000000", b"12:00:59.000000"),
        (b"a" * 32 + b"b" * 32, b"b" * 32 + b"a" * 32),
        (b"a" * 32 + b"b" * 32, b"a" * 32 + b"a" * 32),
        (b"(12:revalidation", b"(12:revalidatiom"),
    ],
)
def test_another_spelling_is_refused_even_if_it_is_signed(old, new):
    body = sign_statement(Revalidation(BY, 3, PERIOD, IDS), TESTER).body
    assert old in body
    with pytest.raises(BadStatement):
        statement_from_bytes(_sealed(body.replace(old, new)))


def test_a_statement_is_believed_only_as_it_was_signed():
    signed = sign_statement(RevocationList(BY, 1, None, IDS), TESTER)
    altered = replace(signed, statement=RevocationList(BY, 1, None, frozenset()))
    with pytest.raises(BadSignature):
        check_statement(altered)
    check_statement(replace(signed))
    with pytest.raises(BadSignature):
        check_statement(replace(signed, signature=bytes(64)))
