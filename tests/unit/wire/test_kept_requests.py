"""Signed requests are kept in little memory, and come back as they were."""

from __future__ import annotations

from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import FIRST_VERSION, Action, NetworkName, SigningKey, TypeName
from maia.events import Instant, attribute_uid
from maia.predicates import Comparison, Operator
from maia.wire.requests import (
    EdgeRequest,
    framed_request,
    request_to_bytes,
    sign_request,
    with_filter,
    without_filter,
)

KEY = SigningKey.from_seed(b"k" * 32)
OTHER_KEY = SigningKey.from_seed(b"o" * 32)
NOW = Instant.parse("2026-11-15T12:00:00Z")
SPEED_ABOVE = partial(Comparison, attribute_uid("9007"), Operator.GT)


def request(speed: int, *, key: SigningKey = KEY, at: Instant = NOW) -> bytes:
    asked = EdgeRequest(
        Action.SUBSCRIBE,
        NetworkName(KEY.principal, "the network"),
        TypeName(KEY.principal, "uk.gov.pito.Sighting", FIRST_VERSION),
        SPEED_ABOVE(speed),
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


@given(st.integers(0, 10**17), st.integers(0, 10**17))
@example(1, 5)
def test_beside_its_filter_a_request_is_kept_in_less_and_comes_back_whatever_its_moment(speed, at) -> None:
    data, filter_ = request(speed, at=Instant(at)), SPEED_ABOVE(speed)
    frame, own = without_filter(data, filter_)
    assert frame.whole(with_filter(frame, own, filter_)) == data
    assert len(own) == 96 or len(str(at)) != 16
    other, whole = without_filter(data, SPEED_ABOVE(speed + 1))
    assert other.whole(with_filter(other, whole, SPEED_ABOVE(speed + 1))) == data
