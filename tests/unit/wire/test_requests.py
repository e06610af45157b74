"""A request says what was asked, by whom, when and in which network, in one form."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.credentials import Action, BadSignature, NetworkName, SignedKind
from maia.errors import ProtocolViolation
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.predicates import ALWAYS, AnyOf
from maia.testing.refusals import raises
from maia.wire import (
    BadRequestEncoding,
    EdgeRequest,
    ReplayMemory,
    VerifiedRequest,
    request_from_bytes,
    request_to_bytes,
    sign_request,
    verify_proof,
    verify_request,
)
from support.wire import CLIENT, NETWORK, NOON, OTHER, PLATE, plate_is, signed

SECOND = 1_000_000


def verified(request, *, at=NOON, memory=None, network=NETWORK, peer=CLIENT.principal):
    memory = ReplayMemory() if memory is None else memory
    return verify_request(request, at=at, skew_s=60, memory=memory, network=network, peer=peer)


def test_nobody_but_the_verifiers_makes_a_verified_request():
    proof = verified(signed())
    with pytest.raises(TypeError):
        VerifiedRequest(proof.signed, object())
    with pytest.raises(TypeError):
        dataclasses.replace(proof, signed=signed(key=OTHER), seal=None)
    with pytest.raises(TypeError):
        pickle.dumps(proof)
    assert copy.copy(proof) is proof, "a proof cannot change, so a copy is the same one"
    with pytest.raises(TypeError, match="has no sub-classes"):
        type("Lax", (VerifiedRequest,), {})


@pytest.mark.parametrize(
    ("kept", "changed"),
    [
        (b"(7:version1:1)", b"(7:version1:2)"),
        (b"(7:version1:1)", b""),
        (b"(7:version1:1)", b"(7:version1:1)(7:version1:1)"),
        (b"(7:version1:1)", b"(7:version2:01)"),
        (b"9:subscribe", b"7:connect"),
        (b"9:subscribe", b"9:SUBSCRIBE"),
        (b"9:subscribe", b"9:subscribe7:publish"),
        (b"(6:filter(3:and))", b""),
        (b"(6:filter(3:and))", b"(6:filter)"),
        (b"(6:filter(3:and))", b"(6:filter(3:and)(3:and))"),
        (b"16:nnnnnnnnnnnnnnnn", b"15:nnnnnnnnnnnnnnn"),
        (b"16:nnnnnnnnnnnnnnnn", b"17:nnnnnnnnnnnnnnnnn"),
        (b"16:nnnnnnnnnnnnnnnn", b"[1:x]16:nnnnnnnnnnnnnnnn"),
        (b"16:ssssssssssssssss", b"0:"),
        (b"(4:name9:uk.Police)", b"(4:name3:uk*)"),
        (b"(4:name9:uk.Police)", b"(4:name1:*)"),
        (b"(7:version1:0)", b"(7:version1:*)"),
        (b"7:request", b"7:bequest"),
        (b"7:ed2551964:", b"7:ed2551864:"),
    ],
)
def test_a_field_that_is_missing_repeated_unknown_or_odd_is_refused(kept, changed):
    data = request_to_bytes(signed())
    assert kept in data
    with pytest.raises(ProtocolViolation):
        request_from_bytes(data.replace(kept, changed, 1))


@pytest.mark.parametrize(
    "number", [b"", b"01", b"-0", b"+1", b"1.0", b" 1", b"99999999999999999999", b"\xd9\xa1"]
)
def test_the_moment_is_written_in_one_way(number):
    body = list(read_canonical(signed().body))
    body[7] = (b"at", number)
    with pytest.raises(BadRequestEncoding):
        request_from_bytes(_with_body(write_canonical(tuple(body))))


def test_a_moment_outside_the_years_is_refused():
    body = list(read_canonical(signed().body))
    for number in (INSTANT_MIN - 1, INSTANT_MAX + 1):
        body[7] = (b"at", b"%d" % number)
        with pytest.raises(BadRequestEncoding):
            request_from_bytes(_with_body(write_canonical(tuple(body))))


def test_the_owner_of_a_network_is_one_owner():
    body = list(read_canonical(signed().body))
    body[3] = (b"network", (b"owner", b"*"), (b"name", b"uk.Police"))
    with pytest.raises(ProtocolViolation):
        request_from_bytes(_with_body(write_canonical(tuple(body))))


def _with_body(body: bytes) -> bytes:
    signature = CLIENT.sign(SignedKind.REQUEST, body)
    parts = (body, CLIENT.principal.key, signature)
    return b"(6:signed%b(6:signer(7:ed2551932:%b))(9:signature7:ed2551964:%b))" % parts


def test_a_proof_counts_for_its_age_and_as_often_as_it_comes():
    def proved(at: int) -> VerifiedRequest:
        return verify_proof(signed(), at=Instant(NOON + at), skew_s=60, age_max_s=300, network=NETWORK)

    for at in (-60 * SECOND, 0, 0, 360 * SECOND):
        assert proved(at).signer == CLIENT.principal
    with raises("REQUEST-TOO-LATE"):
        proved(360 * SECOND + 1)
    with raises("REQUEST-TOO-EARLY"):
        proved(-60 * SECOND - 1)


def test_a_forged_proof_is_refused():
    forged = dataclasses.replace(signed(), signature=OTHER.sign(SignedKind.REQUEST, signed().body))
    with pytest.raises(BadSignature):
        verify_proof(forged, at=NOON, skew_s=60, age_max_s=300, network=NETWORK)
    other = NetworkName(OTHER.principal, "uk.Police")
    with raises("REQUEST-ANOTHER-NETWORK"):
        verify_proof(signed(), at=NOON, skew_s=60, age_max_s=300, network=other)


@pytest.mark.parametrize(
    "request_",
    [
        EdgeRequest(Action.CONNECT, NETWORK, PLATE, ALWAYS, b"s" * 16, NOON, b"n" * 16),
        EdgeRequest(Action.PUBLISH, NETWORK, PLATE, ALWAYS, b"s" * 15, NOON, b"n" * 16),
        EdgeRequest(Action.PUBLISH, NETWORK, PLATE, ALWAYS, b"s" * 16, NOON, b""),
        EdgeRequest(Action.PUBLISH, NETWORK, PLATE, plate_is("x" * 70_000), b"s" * 16, NOON, b"n" * 16),
        EdgeRequest(
            Action.PUBLISH,
            NETWORK,
            PLATE,
            AnyOf(tuple(plate_is(str(number)) for number in range(5000))),
            b"s" * 16,
            NOON,
            b"n" * 16,
        ),
    ],
    ids=["action", "stream", "nonce", "long filter", "wide filter"],
)
def test_what_no_broker_would_read_is_not_signed(request_):
    with raises("INPUT-UNSIGNABLE-REQUEST"):
        sign_request(request_, CLIENT)


def test_a_negative_skew_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="negative"):
        verify_request(
            signed(), at=NOON, skew_s=-1, memory=ReplayMemory(), network=NETWORK, peer=CLIENT.principal
        )
