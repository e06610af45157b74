"""Fixed bytes: this year's signed calls of a domain, which next year's code must still read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.credentials import SignedKind, verify_signature
from maia.wire.api_requests import api_request_from_bytes, api_request_to_bytes

VECTORS = json.loads((Path(__file__).parent / "wire" / "api_requests.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_signed_call_is_read_written_and_verified_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    signed = api_request_from_bytes(data)
    assert api_request_to_bytes(signed) == data
    call = signed.request.call
    assert (call.method, call.target, call.once) == (vector["method"], vector["target"], vector["once"])
    assert (str(signed.request.audience), str(signed.signer)) == (vector["audience"], vector["signer"])
    assert str(signed.request.at) == vector["at"]
    verify_signature(signed.signer, SignedKind.API_REQUEST, signed.body, signed.signature)
