"""A request is read in the same way, whether or not one with the same beginning was read before."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.predicates import ALWAYS
from maia.wire import requests
from maia.wire.requests import BadRequestEncoding, SignedRequest, request_from_bytes, request_to_bytes
from support.wire import CLIENT, mutated, plate_is, signed

NONCES = st.binary(min_size=16, max_size=16)
# What a request looks like around the place where remembering begins, to be found in odd places.
SPLICES = (b"(2:at16:1000000000000000)", b"(2:at", b"(5:nonce16:", b"))(6:signer(7:ed2551932:", b"16:", b")")


def outcome(read, data: bytes) -> SignedRequest | type:
    try:
        return read(data)
    except BadRequestEncoding:
        return BadRequestEncoding


@given(st.data())
def test_altered_requests_are_read_the_same_by_memory_and_without(data):
    original = request_to_bytes(signed(wanted=plate_is(data.draw(st.sampled_from(["AE05 XYZ", *"(2)"])))))
    outcome(request_from_bytes, original)
    altered = data.draw(mutated(original))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(altered)))
        altered = altered[:at] + data.draw(st.sampled_from(SPLICES)) + altered[at:]
    assert outcome(request_from_bytes, altered) == outcome(requests.REQUEST.read_in_full, altered)


@given(st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant), NONCES)
@example(Instant(0), b"n" * 16)
@example(Instant(999_999_999_999_999), b"(2:at16:10000000")
@example(Instant(1_000_000_000_000_000), b"(2:at16:10000000")
@example(Instant(-1_000_000_000_000_000), b"n" * 16)
def test_a_renewal_is_read_as_it_was_signed_whatever_was_read_before(at, nonce):
    for wanted in (ALWAYS, plate_is("AE05 XYZ"), plate_is("(2:at16:1000000000000000)(5:nonce16:")):
        renewed = signed(wanted=wanted, at=at, nonce=nonce, key=CLIENT)
        data = request_to_bytes(renewed)
        assert request_from_bytes(data) == requests.REQUEST.read_in_full(data) == renewed


def test_a_long_request_is_read_and_not_remembered():
    before = requests._read_head.cache_info().currsize
    long = signed(wanted=plate_is("A" * (requests._HEAD_MAX + 1)))
    assert request_from_bytes(request_to_bytes(long)) == long
    assert requests._read_head.cache_info().currsize == before
