"""Fixed bytes: this year's sealed frames, which next year's code must still open, prove and write.

The events are `plates(n)` of `support.sealing`, and the keys grow from words
there, so that each vector is its name and its bytes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.sealing import Secret, cut_frame, open_frame
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Sealed
from support.sealing import ANOTHER_BROKER, BROKER, LEVELS, Publishing, content, keys, plates, read, sealer

VECTORS = json.loads((Path(__file__).parent / "frames.json").read_text())
BYTES = {vector["name"]: bytes.fromhex(vector["bytes"]) for vector in VECTORS}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_sealed_frame_is_opened_and_proved_as_ever(vector):
    message = decode(bytes.fromhex(vector["bytes"]))
    assert isinstance(message, Sealed)
    proved = read(message)
    assert proved.signer == BROKER.principal
    assert proved.opened.row_numbers == vector["left"]
    frame = plates(vector["rows"])
    assert content(proved.opened) == (frame.take(vector["left"]) if vector["left"] else frame)


@pytest.mark.parametrize("level", LEVELS)
def test_sealing_and_cutting_again_gives_the_same_bytes(level):
    publishing = Publishing(level=level)
    assert encode(publishing.seal(plates(1), block_rows=0)) == BYTES[f"{level.value}: one event"]
    many = publishing.seal(plates(600), block_rows=10)
    assert encode(many) == BYTES[f"{level.value}: six hundred events"]
    cutter = sealer(ANOTHER_BROKER, b"cutter")
    cut = cut_frame(open_frame(many, keys()), [599], sealer=cutter, keys=keys())
    assert encode(cut) == BYTES[f"{level.value}: cut to its last block"]
    cut = cut_frame(open_frame(many, keys()), [7, 100, 101, 340], sealer=cutter, keys=keys())
    assert encode(cut) == BYTES[f"{level.value}: cut to three blocks"]
    few = publishing.seal(plates(10), block_rows=1)
    cut = cut_frame(open_frame(few, keys()), [6], sealer=cutter, keys=keys())
    assert encode(cut) == BYTES[f"{level.value}: one event of ten"]
    coarse = publishing.seal(plates(20), block_rows=0)
    assert encode(coarse) == BYTES[f"{level.value}: twenty events as one block"]
    beside_plaintext = publishing.seal(plates(1), block_rows=1)
    assert encode(beside_plaintext) == BYTES[f"{level.value}: one event as one block"]


def test_frames_signed_together_give_the_same_bytes():
    publishing = Publishing()
    drafts = [
        publishing.by.draft(
            frame_to_columns(plates(1)), publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE
        )
        for _ in range(3)
    ]
    names = [f"attribute: {place} of three signed together" for place in ("first", "second", "third")]
    assert [encode(frame) for frame in publishing.by.sign(drafts)] == [BYTES[name] for name in names]


def test_keys_grow_as_ever():
    grown = Secret.from_bytes(bytes(range(32))).derive(b"maia/1/sealing-key", b"type", b"")
    assert grown.reveal().hex() == "812d1e80645d11eabfb9751e1877eb7ec9cb6f566524dc6b2e541a0e31eba4b7"
