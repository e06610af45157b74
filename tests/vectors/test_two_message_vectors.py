"""Fixed bytes: this year's statement links, which next year's nodes must still open."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from maia.sealing.two_message import Request
from support.two_message import ANNAS, BROKER, BROKERS, NOON, chance, responder

FILE = Path(__file__).parent / "links" / "two_message.json"
VECTOR = json.loads(FILE.read_text())


@pytest.fixture(name="request_made")
def _request_made() -> Request:
    return Request(ANNAS, BROKER.principal, NOON, chance("vector: requester"))


@pytest.fixture(name="answered")
def _answered():
    return responder().respond(BROKERS, bytes.fromhex(VECTOR["request"]), NOON, chance("vector: responder"))


def test_the_request_has_its_bytes(request_made):
    assert request_made.data.hex() == VECTOR["request"]
    assert len(request_made.data) == 3 + 32 + 8 + 64 + VECTOR["statement_bytes"]["requester"]


def test_the_response_has_its_bytes(answered):
    response, accepted = answered
    assert response.hex() == VECTOR["response"]
    assert accepted.peer.statement.identifier == "anna@norway"
    assert len(response) == 3 + 32 + 16 + 32 + 64 + VECTOR["statement_bytes"]["responder"]


def test_the_records_of_both_sides_have_their_bytes(request_made, answered):
    dialled, accepted = request_made.open(bytes.fromhex(VECTOR["response"]), NOON), answered[1]
    for side, records in ((dialled, VECTOR["of_requester"]), (accepted, VECTOR["of_responder"])):
        sealed = [side.seal(b"first"), side.seal(b"second"), side.seal_end()]
        assert [one.hex() for one in sealed] == records
    for side, records in ((accepted, VECTOR["of_requester"]), (dialled, VECTOR["of_responder"])):
        assert side.feed(bytes.fromhex("".join(records))) == b"firstsecond"
        assert side.has_ended


def test_a_long_text_is_cut_into_records_of_16_kib(request_made, answered):
    dialled = request_made.open(answered[0], NOON)
    sealed = dialled.seal(bytes(40_000))
    assert len(sealed) == 40_000 + 3 * 18
    assert sha256(sealed).hexdigest() == VECTOR["long_text_sha256"]
