"""Fixed bytes: this year's signed frames in the clear, which next year's code must still prove and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.sealing import SignatureChecks
from maia.sealing.frames.signed import draft_signed, root_of_signed, signer_of_run
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Author, Carried, CarriedSigned, CarriedWithAuthor
from support.sealing import BROKER, NOON, PUBLISHER, STREAM, TYPE_ID, plates, sealer

VECTORS = json.loads((Path(__file__).parent / "signed-frames.json").read_text())
RIGHT = bytes(range(32))
AUTHOR = Author(b"statement", b"proof", b"")


def carried(rows: int, kept: list[int], number: int = 7) -> Carried:
    columns = frame_to_columns(plates(rows))
    return Carried(TYPE_ID, PUBLISHER.key, STREAM, number, int(NOON), rows, kept, columns)


def signed_again() -> dict[str, CarriedSigned]:
    """Sign the frames of the vectors: one by itself, a part with what is said of its publisher, three."""
    part = carried(3, [1, 5, 300])
    said = CarriedWithAuthor(*[getattr(part, name) for name in part.__struct_fields__], AUTHOR)
    batches = {
        "one event": [carried(1, [])],
        "three rows of a frame, and its author": [said],
        "of three signed together": [carried(1, [], number) for number in (1, 2, 3)],
    }
    made: dict[str, CarriedSigned] = {}
    for name, frames in batches.items():
        drafts = [draft_signed(one, BROKER.principal, right=RIGHT, at=NOON + 1) for one in frames]
        for place, signed in enumerate(sealer().sign(drafts)):
            assert isinstance(signed, CarriedSigned)
            made[f"{place}: {name}"] = signed
    return made


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_signed_frame_is_proved_as_ever(vector):
    frame = decode(bytes.fromhex(vector["bytes"]))
    assert isinstance(frame, CarriedSigned)
    assert root_of_signed(frame).hex() == vector["root"]
    assert signer_of_run([frame], SignatureChecks()) == BROKER.principal


def test_signing_again_gives_the_same_bytes():
    found = {name: encode(frame).hex() for name, frame in signed_again().items()}
    assert found == {vector["name"]: vector["bytes"] for vector in VECTORS}
