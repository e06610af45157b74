"""What holds of every appointment, and of every string of bytes that might be one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import Validity
from maia.credentials.appointments import (
    Appointment,
    AppointmentKind,
    appointment_from_bytes,
    appointment_to_bytes,
    argument_key,
    arguments_digest,
    issue_appointment,
    verify_appointment,
)
from maia.errors import MaiaError
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from support.expressions import nearly_canonical
from support.types import NOON, key

COURT, SMITH = key(2), key(9)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
ARGUMENTS = st.one_of(
    TEXTS,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
    st.booleans(),
    st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant),
    st.sampled_from((COURT.principal, SMITH.principal)),
)
ROWS = st.lists(ARGUMENTS, max_size=5).map(tuple)


def keyed(row):
    return tuple(argument_key(argument) for argument in row)


@pytest.mark.laws
@given(ROWS, st.sampled_from(AppointmentKind), st.binary(max_size=32))
def test_every_certificate_reads_back_as_it_was(parameters, kind, serial):
    validity = Validity(NOON, None)
    said = Appointment(COURT.principal, SMITH.principal, "x", parameters, validity, kind, serial)
    signed = issue_appointment(said, COURT)
    read = verify_appointment(appointment_from_bytes(appointment_to_bytes(signed)))
    assert keyed(read.certificate.parameters) == keyed(parameters)
    assert read.signed == signed


@pytest.mark.laws
@given(ROWS, ROWS)
@example((1,), (True,))
@example((1,), (1.0,))
@example((0,), (Instant(0),))
@example((str(COURT.principal),), (COURT.principal,))
@example(("a", "b"), ("ab",))
def test_two_facts_share_a_digest_only_if_they_are_the_same(one, other):
    same = keyed(one) == keyed(other)
    assert (arguments_digest(b"fact", "f", one) == arguments_digest(b"fact", "f", other)) == same
    assert arguments_digest(b"fact", "f", one) != arguments_digest(b"fact", "g", one)


@pytest.mark.laws
@given(st.one_of(nearly_canonical(), st.binary(max_size=60)))
def test_other_bytes_end_in_a_refusal_and_nothing_worse(data):
    with pytest.raises(MaiaError):
        appointment_from_bytes(data)


@pytest.mark.laws
@given(st.data())
def test_a_certificate_with_one_byte_changed_proves_nothing(data):
    said = Appointment(COURT.principal, SMITH.principal, "order", ("a", 1), Validity(NOON, None))
    octets = bytearray(appointment_to_bytes(issue_appointment(said, COURT)))
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MaiaError):
        verify_appointment(appointment_from_bytes(bytes(octets)))
