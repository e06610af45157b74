"""Signed requests to a domain: one domain, one run, one call, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import BadSignature, SigningKey
from maia.errors import MaiaError
from maia.events import Instant
from maia.testing.refusals import raises
from maia.wire.api_requests import (
    API_REQUEST_BYTES_MAX,
    ApiCall,
    ApiRequest,
    BadApiRequest,
    SignedApiRequest,
    VerifiedApiRequest,
    api_request_from_bytes,
    api_request_to_bytes,
    sign_api_request,
    verify_api_request,
)
from maia.wire.replays import ReplayMemory

MET = SigningKey.from_seed(b"m" * 32)
COURT = SigningKey.from_seed(b"c" * 32)
SMITH = SigningKey.from_seed(b"s" * 32)
NOON = Instant.parse("2026-11-15T12:00:00Z")
RUN = b"r" * 16
CALL = ApiCall.of("POST", "/v1/login?x=1", body=b"{}", credentials=b"cert", once="key-1")
SECOND = 1_000_000


def request(**changes: object) -> ApiRequest:
    return replace(ApiRequest(MET.principal, RUN, CALL, NOON, b"n" * 16), **changes)  # type: ignore[arg-type]


def verified(
    signed: SignedApiRequest, memory: ReplayMemory | None = None, **changes: object
) -> VerifiedApiRequest:
    given: dict[str, object] = {
        "call": CALL,
        "audience": MET.principal,
        "instance": RUN,
        "at": NOON,
        "skew_s": 60,
    }
    memory = ReplayMemory() if memory is None else memory
    return verify_api_request(signed, memory=memory, **(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"audience": COURT.principal}, "REQUEST-ANOTHER-DOMAIN"),
        ({"instance": b"q" * 16}, "REQUEST-ANOTHER-RUN"),
        ({"call": replace(CALL, method="PUT")}, "REQUEST-ALTERED"),
        ({"call": replace(CALL, target="/v1/login?x=2")}, "REQUEST-ALTERED"),
        ({"call": replace(CALL, once="key-2")}, "REQUEST-ALTERED"),
        (
            {"call": ApiCall.of("POST", "/v1/login?x=1", body=b"{ }", credentials=b"cert", once="key-1")},
            "REQUEST-ALTERED",
        ),
        (
            {"call": ApiCall.of("POST", "/v1/login?x=1", body=b"{}", credentials=b"other", once="key-1")},
            "REQUEST-ALTERED",
        ),
        ({"at": Instant(NOON + 61 * SECOND)}, "REQUEST-TOO-LATE"),
        ({"at": Instant(NOON - 61 * SECOND)}, "REQUEST-TOO-EARLY"),
    ],
)
def test_another_domain_run_call_or_time_is_refused(
    changes: dict[str, object], refusal: type[MaiaError]
) -> None:
    """A18, A78: a request means one audience, one call and one moment."""
    with raises(refusal):
        verified(sign_api_request(request(), SMITH), **changes)


@pytest.mark.parametrize("seconds", [-60, 0, 60])
def test_just_inside_the_skew_is_accepted(seconds: int) -> None:
    assert verified(sign_api_request(request(), SMITH), at=Instant(NOON + seconds * SECOND))


def test_a_refused_request_leaves_no_trace() -> None:
    memory = ReplayMemory()
    forged = replace(sign_api_request(request(), SMITH), signature=b"x" * 64)
    with pytest.raises(BadSignature):
        verified(forged, memory)
    assert len(memory) == 0


def test_one_principal_cannot_ask_without_end() -> None:
    memory = ReplayMemory(per_principal_max=2)
    for number in range(2):
        verified(sign_api_request(request(nonce=bytes([number]) * 16), SMITH), memory)
    with raises("REQUEST-TOO-MANY"):
        verified(sign_api_request(request(nonce=b"z" * 16), SMITH), memory)
    assert verified(sign_api_request(request(nonce=b"z" * 16), COURT), memory), "others go on"


@pytest.mark.parametrize(
    "wrong",
    [
        {"instance": b""},
        {"nonce": b"short"},
        {"call": replace(CALL, method="PATCH")},
        {"call": replace(CALL, target="no-slash")},
        {"call": replace(CALL, target="/a b")},
        {"call": replace(CALL, target="/" + "x" * API_REQUEST_BYTES_MAX)},
        {"call": replace(CALL, once="k" * 129)},
        {"call": replace(CALL, once="ü")},
        {"call": replace(CALL, content=b"short")},
    ],
)
def test_what_no_domain_would_read_is_not_signed(wrong: dict[str, object]) -> None:
    with pytest.raises(BadApiRequest):
        sign_api_request(request(**wrong), SMITH)


def test_every_cut_and_every_changed_byte_is_refused() -> None:
    data = api_request_to_bytes(sign_api_request(request(), SMITH))
    for position in range(0, len(data), 3):
        with pytest.raises(MaiaError):
            verified(api_request_from_bytes(data[:position]))
        changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(MaiaError):
            verified(api_request_from_bytes(changed))
    with pytest.raises(BadApiRequest):
        api_request_from_bytes(data + b"x")


def test_nobody_else_makes_the_proof() -> None:
    with pytest.raises(TypeError):
        VerifiedApiRequest(request(), SMITH.principal, object())
