"""Fixed bytes: this year's appointments and role memberships, which next year's code must still read."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from maia.credentials import SigningKey
from maia.credentials.appointments import (
    appointment_from_bytes,
    appointment_from_text,
    appointment_to_bytes,
    appointment_to_text,
    issue_appointment,
    verify_appointment,
)

VECTORS = json.loads((Path(__file__).parent / "appointments" / "appointments.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_an_appointment_is_read_written_and_verified_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    signed = appointment_from_bytes(data)
    assert appointment_to_bytes(signed) == data
    assert signed.id.hex() == vector["id"] == sha256(signed.body).hexdigest()
    assert verify_appointment(signed).id == signed.id


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_its_file_for_people_says_the_same(vector):
    signed = appointment_from_text(vector["text"])
    assert appointment_to_bytes(signed).hex() == vector["bytes"]
    assert appointment_to_text(signed) == vector["text"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_issuing_it_again_gives_the_same_bytes(vector):
    signed = appointment_from_bytes(bytes.fromhex(vector["bytes"]))
    key = SigningKey.from_seed(bytes.fromhex(vector["issuer_seed"]))
    assert appointment_to_bytes(issue_appointment(signed.certificate, key)).hex() == vector["bytes"]
