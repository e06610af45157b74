"""Every statement has one form, and whatever is not exactly a statement is refused in our own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import (
    AuditHead,
    BadSignature,
    BadStatement,
    FactList,
    OneTimeAnswer,
    Revalidation,
    RevocationList,
    Validity,
    check_statement,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.errors import BrokenCredential
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.validity import Monitor
from support.statements import HOLDER, ISSUER, TESTER, moment

pytestmark = pytest.mark.laws

BY = st.just(TESTER.principal)
NUMBERS = st.integers(1, 2**63 - 1)
BYTES_32 = st.binary(min_size=32, max_size=32)
IDS = st.frozensets(BYTES_32, max_size=4)
PERIODS = st.builds(
    lambda start, length: Validity(Instant(start), Instant(start + length)),
    st.integers(INSTANT_MIN, INSTANT_MAX - 10**12),
    st.integers(0, 10**12),
)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    st.binary(max_size=8),
    st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant),
)
FACTS = st.dictionaries(
    st.tuples(
        st.sampled_from([None, HOLDER.principal, ISSUER.principal]),
        st.sampled_from(["on-duty", "grade", "0"]),
    ),
    VALUES,
    max_size=4,
)
STATEMENTS = st.one_of(
    st.builds(
        RevocationList,
        BY,
        NUMBERS,
        st.none() | PERIODS,
        IDS,
        st.none() | st.builds(AuditHead, st.integers(0, 2**63 - 1), BYTES_32),
    ),
    st.builds(Revalidation, BY, NUMBERS, PERIODS, IDS),
    st.builds(FactList, BY, NUMBERS, PERIODS, FACTS),
    st.builds(OneTimeAnswer, BY, BYTES_32, BYTES_32, BYTES_32),
)


@given(STATEMENTS)
def test_what_was_said_is_what_is_read(statement):
    signed = sign_statement(statement, TESTER)
    read = statement_from_bytes(statement_to_bytes(signed))
    check_statement(read)
    assert statement_to_bytes(read) == statement_to_bytes(signed)
    assert read == signed
    if isinstance(statement, FactList):
        assert {key: type(value) for key, value in read.statement.facts.items()} == {
            key: type(value) for key, value in statement.facts.items()
        }


@given(STATEMENTS, st.data())
def test_a_statement_with_a_byte_altered_is_no_statement(statement, data):
    whole = bytearray(statement_to_bytes(sign_statement(statement, TESTER)))
    at = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.sampled_from(["flip", "cut", "insert"]))
    if change == "flip":
        whole[at] ^= data.draw(st.integers(1, 255))
    elif change == "cut":
        del whole[at:]
    else:
        whole.insert(at, data.draw(st.integers(0, 255)))
    with pytest.raises(BrokenCredential):
        check_statement(statement_from_bytes(bytes(whole)))


@given(st.binary(max_size=300))
def test_noise_is_no_statement_and_no_record(noise):
    with pytest.raises(BadStatement):
        statement_from_bytes(noise)
    with pytest.raises(BadStatement):
        Monitor.reloaded([noise])


@given(STATEMENTS.filter(lambda one: not isinstance(one, OneTimeAnswer)), st.data())
def test_a_record_with_a_byte_altered_is_no_record_or_makes_nothing_last_longer(statement, data):
    """Damaged notes make a verifier stop, or at worst refuse earlier than it had to."""
    standing = Monitor()
    now = moment(0) if statement.period is None else statement.period.not_before
    standing.receive(sign_statement(statement, TESTER), now)
    (record,) = standing.exported()
    altered = bytearray(record)
    altered[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        again = Monitor.reloaded([bytes(altered)])
    except (BadStatement, BadSignature, BrokenCredential):
        return
    assert again.revoked_by(TESTER.principal) == standing.revoked_by(TESTER.principal)
    assert again.sequence_of(TESTER.principal) == standing.sequence_of(TESTER.principal)
    for at in (now, Instant(now + 1)):
        before, after = (one.fresh_until(TESTER.principal, at) for one in (standing, again))
        assert after is None or (before is not None and after <= before)
