"""Fixed bytes: this year's messages, columns and requests, which next year's code must still read."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from maia.events import Instant, Kind
from maia.wire import (
    Message,
    ReplayMemory,
    decode,
    decode_column,
    encode,
    encode_column,
    request_from_bytes,
    request_to_bytes,
    sign_request,
    verify_proof,
)
from support.wire import CLIENT, MESSAGE_CLASSES, NETWORK

HERE = Path(__file__).parent


def vectors(name: str) -> list[dict[str, object]]:
    return json.loads((HERE / f"{name}.json").read_text())


def named(vector: dict[str, object]) -> str:
    return str(vector["name"])


@pytest.mark.parametrize("vector", vectors("messages"), ids=named)
def test_a_message_is_read_and_written_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    message = decode(data)
    assert type(message).__name__ == vector["name"]
    assert json.loads(msgspec.json.encode(message)) == vector["says"]
    assert encode(msgspec.convert(vector["says"], Message, builtin_types=())) == data


def test_every_message_has_a_vector():
    assert {vector["name"] for vector in vectors("messages")} == {kind.__name__ for kind in MESSAGE_CLASSES}


@pytest.mark.parametrize("vector", vectors("refused-messages"), ids=named)
def test_what_was_refused_is_refused_with_the_same_code(vector):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the code is what is compared
        decode(bytes.fromhex(vector["bytes"]))
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", vectors("columns"), ids=named)
def test_a_column_is_read_and_written_as_ever(vector):
    kind, data = Kind(vector["name"]), bytes.fromhex(vector["bytes"])
    values = tuple(_value(kind, text) for text in vector["values"])
    assert decode_column(kind, data, len(values)) == values
    assert encode_column(kind, values) == data


def _value(kind, text):
    if text is None:
        return None
    readers = {Kind.BYTES: bytes.fromhex, Kind.TIMESTAMP: Instant, Kind.FLOAT: float.fromhex}
    return readers[kind](text) if kind in readers else text


@pytest.mark.parametrize("vector", vectors("requests"), ids=named)
def test_a_request_is_read_written_signed_and_verified_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    signed = request_from_bytes(data)
    assert request_to_bytes(signed) == data
    assert request_to_bytes(sign_request(signed.request, CLIENT)) == data
    proof = verify_proof(signed, at=signed.request.at, skew_s=0, age_max_s=0, network=NETWORK)
    assert proof.request.action.value == vector["action"]
    assert proof.request.at == vector["at"]


@pytest.mark.parametrize("vector", vectors("replay-memories"), ids=named)
def test_a_kept_memory_is_read_and_written_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    memory = ReplayMemory.from_parts([data])
    assert (len(memory), memory.horizon) == (vector["entries"], vector["horizon"])
    assert memory.to_bytes() == data
