"""Appointment and role membership certificates: one form, strictly read, signed for one purpose."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.credentials import (
    BadSignature,
    Principal,
    SignedKind,
    Validity,
    certificate_from_bytes,
)
from maia.credentials.appointments import (
    PARAMETERS_MAX,
    SERIAL_BYTES_MAX,
    Appointment,
    AppointmentKind,
    BadAppointment,
    SignedAppointment,
    VerifiedAppointment,
    appointment_from_bytes,
    appointment_to_bytes,
    issue_appointment,
    verify_appointment,
)
from maia.credentials.authority import ALL_ACTIONS, AnyResource
from maia.errors import BrokenCredential, MaiaError
from maia.events import Instant
from maia.testing import grant
from maia.testing.refusals import raises
from support.types import NOON, key

COURT, SMITH = key(2), key(9)
TEN_DAYS = Validity(NOON, Instant(NOON + 864_000_000_000))
ORDER = Appointment(
    COURT.principal, SMITH.principal, "court_order", ("case 17", "AE05 XYZ"), TEN_DAYS, serial=b"\x01"
)


def signed(said: Appointment = ORDER) -> SignedAppointment:
    return issue_appointment(said, COURT)


def test_a_membership_is_never_taken_for_an_appointment():
    membership = signed(replace(ORDER, kind=AppointmentKind.ROLE_MEMBERSHIP))
    assert membership.id != signed().id
    assert membership.certificate.kind is AppointmentKind.ROLE_MEMBERSHIP
    relabelled = replace(signed(), body=membership.body)
    with pytest.raises(BrokenCredential):
        verify_appointment(relabelled)


def test_a_certificate_that_is_made_again_is_another_one():
    assert signed(replace(ORDER, serial=b"\x02")).id != signed().id


def test_only_the_issuer_signs():
    with raises("INPUT-NOT-THE-ISSUER"):
        issue_appointment(ORDER, SMITH)


def test_a_signature_for_another_purpose_is_refused():
    """A32: what was signed as something else is not an appointment, and the other way round."""
    as_request = COURT.sign(SignedKind.REQUEST, signed().body)
    with pytest.raises(BadSignature):
        verify_appointment(replace(signed(), signature=as_request))
    with pytest.raises(BadAppointment):
        appointment_from_bytes(
            b"(6:signed%b" % grant(COURT, SMITH, AnyResource(), *ALL_ACTIONS, validity=TEN_DAYS).body
            + b"(9:signature7:ed2551964:"
            + b"x" * 64
            + b"))"
        )
    with pytest.raises(BrokenCredential):
        certificate_from_bytes(appointment_to_bytes(signed()))


def test_only_the_verifier_makes_a_verified_one():
    with pytest.raises(TypeError):
        VerifiedAppointment(signed(), object())
    verified = verify_appointment(signed())
    with pytest.raises(TypeError):
        pickle.dumps(verified)
    with pytest.raises((TypeError, ValueError)):
        replace(verified, signed=signed(replace(ORDER, name="judge")))
    assert copy.deepcopy(verified) is verified, "a proof cannot change, so a copy is the same one"


FIELDS = read_canonical(appointment_to_bytes(signed()))


def changed(**fields: object) -> bytes:
    """Return the certificate with fields of its body exchanged, or left out where None is given."""
    body = [
        fields.get(part[0].decode(), part) if isinstance(part, tuple) else part
        for part in FIELDS[1]
        if not isinstance(part, tuple) or fields.get(part[0].decode(), part) is not None
    ]
    return write_canonical((FIELDS[0], (*body, *fields.get("more", ())), FIELDS[2]))


HOSTILE = {
    "no version": changed(version=None),
    "another version": changed(version=(b"version", b"2")),
    "no issuer": changed(issuer=None),
    "no holder": changed(holder=None),
    "a holder that is no key": changed(holder=(b"holder", (b"ed25519", b"short"))),
    "a holder of small order": changed(holder=(b"holder", (b"ed25519", bytes(32)))),
    "a group as holder": changed(holder=(b"holder", (b"name", (b"ed25519", SMITH.principal.key), b"team"))),
    "no name": changed(name=None),
    "an empty name": changed(name=(b"name", b"")),
    "a name outside ASCII": changed(name=(b"name", "cоurt".encode())),
    "no parameters": changed(parameters=None),
    "too many parameters": changed(parameters=(b"parameters", *[(b"int", b"1")] * (PARAMETERS_MAX + 1))),
    "an unknown kind": changed(parameters=(b"parameters", (b"money", b"1"))),
    "bytes": changed(parameters=(b"parameters", (b"bytes", b"1"))),
    "a parameter without a kind": changed(parameters=(b"parameters", b"1")),
    "another spelling of a number": changed(parameters=(b"parameters", (b"int", b"01"))),
    "not a number": changed(parameters=(b"parameters", (b"float", b"nan"))),
    "minus zero": changed(parameters=(b"parameters", (b"float", b"-0.0"))),
    "neither true nor false": changed(parameters=(b"parameters", (b"bool", b"1"))),
    "no UTF-8": changed(parameters=(b"parameters", (b"string", b"\xff"))),
    "a null character": changed(parameters=(b"parameters", (b"string", b"a\x00b"))),
    "a moment beyond the calendar": changed(parameters=(b"parameters", (b"timestamp", b"9" * 18))),
    "a long parameter": changed(parameters=(b"parameters", (b"string", b"x" * 1025))),
    "no serial": changed(serial=None),
    "a long serial": changed(serial=(b"serial", b"x" * (SERIAL_BYTES_MAX + 1))),
    "no validity": changed(valid=None),
    "no end": changed(valid=(b"valid", (b"not-before", b"unbounded"))),
    "an end before the beginning": changed(
        valid=(b"valid", (b"not-before", b"2026-11-15_12:00:00"), (b"not-after", b"2026-11-15_11:00:00"))
    ),
    "a field more": changed(more=((b"comment", b"hello"),)),
    "the same field twice": changed(more=(FIELDS[1][-1],)),
    "bytes behind the end": appointment_to_bytes(signed()) + b" ",
    "cut off": appointment_to_bytes(signed())[:-1],
    "nothing": b"",
    "too large": b"(" * (1 << 14) + b")" * (1 << 14),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_exactly_a_certificate_is_refused(data):
    """A27: a missing bound, a wrong order of bounds, a field too few or too many."""
    with pytest.raises(BrokenCredential):
        appointment_from_bytes(data)


@pytest.mark.parametrize(
    "said",
    [
        replace(ORDER, name="a..b"),
        replace(ORDER, parameters=(b"bytes",)),
        replace(ORDER, parameters=(None,)),
        replace(ORDER, parameters=(float("nan"),)),
        replace(ORDER, parameters=(2**63,)),
        replace(ORDER, parameters=("x" * 2000,)),
        replace(ORDER, parameters=("\ud800",)),
        replace(ORDER, parameters=(1,) * 17),
        replace(ORDER, serial=bytes(33)),
        replace(ORDER, validity=Validity(Instant(NOON + 1), None)),
        replace(ORDER, holder=Principal(b"short")),
    ],
    ids=lambda said: "",
)
def test_what_could_not_be_read_back_is_not_signed(said):
    with pytest.raises(MaiaError):
        signed(said)


def test_minus_zero_is_not_signed_as_zero():
    with_zero = signed(replace(ORDER, parameters=(0.0,)))
    assert signed(replace(ORDER, parameters=(-0.0,))).id == with_zero.id
