"""Signed requests are kept in little memory, and come back as they were."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import FIRST_VERSION, Action, NetworkName, SigningKey, TypeName
from maia.events import Instant, attribute_uid
from maia.predicates import Comparison, Operator
from maia.wire.requests import EdgeRequest, framed_request, request_to_bytes, sign_request

KEY = SigningKey.from_seed(b"k" * 32)
OTHER_KEY = SigningKey.from_seed(b"o" * 32)
NOW = Instant.parse("2026-11-15T12:00:00Z")


def request(speed: int, *, key: SigningKey = KEY, at: Instant = NOW) -> bytes:
    asked = EdgeRequest(
        Action.SUBSCRIBE,
        NetworkName(KEY.principal, "the network"),
        TypeName(KEY.principal, "uk.gov.pito.Sighting", FIRST_VERSION),
        Comparison(attribute_uid("9007"), Operator.GT, speed),
        b"s" * 16,
        at,
        speed.to_bytes(16, "big"),
    )
    return request_to_bytes(sign_request(asked, key))


def test_requests_of_one_client_share_all_but_their_filters_moments_nonces_and_signatures() -> None:
    one, two = request(1), request(22_000, at=Instant(NOW + 5))
    (frame, own), (same, other) = framed_request(one), framed_request(two)
    assert same is frame
    assert (frame.whole(own), frame.whole(other)) == (one, two)
    assert len(own) < len(one) / 3


def test_requests_of_two_clients_share_no_frame() -> None:
    assert framed_request(request(1))[0] != framed_request(request(1, key=OTHER_KEY))[0]


@given(st.binary(max_size=400), st.binary(max_size=400))
@example(b"", b"")
@example(b"(6:filter", b"")
@example(b"", b"(6:filter")
def test_whatever_the_bytes_are_the_same_come_back(before: bytes, after: bytes) -> None:
    for data in (before + after, before + b"(6:filter" + after):
        frame, own = framed_request(data)
        assert frame.whole(own) == data


def test_a_moment_of_another_length_comes_back_too() -> None:
    early = request(1, at=Instant(5))
    frame, own = framed_request(early)
    assert frame.whole(own) == early
