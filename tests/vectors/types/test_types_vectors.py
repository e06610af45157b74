"""Fixed bytes of type definitions: next year's code still reads, and still refuses, this year's messages."""

import json
from pathlib import Path

import pytest

from maia.errors import MaiaError
from maia.types import (
    VerifiedType,
    definition_from_bytes,
    definition_from_text,
    definition_to_bytes,
    definition_to_text,
    verify_definition,
)
from support.types import NOON

HERE = Path(__file__).parent
ACCEPTED = json.loads((HERE / "accepted.json").read_text())
REFUSED = json.loads((HERE / "refused.json").read_text())


def stored_bytes(name: str) -> bytes:
    return bytes.fromhex((HERE / f"{name}.hex").read_text())


def verified(name: str) -> VerifiedType:
    previous = ACCEPTED[name]["previous"]
    signed = definition_from_bytes(stored_bytes(name))
    return verify_definition(signed, at=NOON, previous=None if previous is None else verified(previous))


def sealing_of(proof: VerifiedType) -> dict[str, object] | None:
    sealing = proof.sealing
    if sealing is None:
        return None
    return {
        "level": sealing.level.value,
        "manager": str(sealing.manager),
        "addresses": list(sealing.addresses),
    }


@pytest.mark.parametrize("name", ACCEPTED)
def test_stored_definitions_are_verified_with_the_same_ids(name):
    proof, expected = verified(name), ACCEPTED[name]
    assert proof.id.hex() == expected["id"]
    assert proof.type_id.hex() == expected["type_id"]
    assert str(proof.signer) == expected["signer"]
    assert [[one.name, one.uid, one.kind.value] for one in proof.attributes] == expected["attributes"]
    assert sealing_of(proof) == expected.get("sealing")
    level = expected.get("sealing", {}).get("level", "none")
    assert proof.protection.value == expected.get("protection", level)


@pytest.mark.parametrize("name", ACCEPTED)
def test_stored_definitions_are_written_as_they_were_read(name):
    signed = definition_from_bytes(stored_bytes(name))
    text = (HERE / f"{name}.txt").read_text()
    assert definition_to_bytes(signed) == stored_bytes(name)
    assert definition_from_text(text) == signed
    assert definition_to_text(signed) == text


@pytest.mark.parametrize("name", REFUSED)
def test_stored_forgeries_are_refused_with_the_same_code(name):
    with pytest.raises(MaiaError) as refused:
        verify_definition(definition_from_bytes(bytes.fromhex(REFUSED[name]["bytes"])), at=NOON)
    assert refused.value.code == REFUSED[name]["code"]
