"""Fixed bytes: this year's sealed frames, which next year's code must still open, prove and write.

The events are `plates(n)` of `support.sealing`, and the keys grow from words
there, so that each vector is its name and its bytes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.sealing import Secret
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.messages import Sealed
from support.sealing import BROKER, LEVELS, PART, Publishing, content, keys, plates, read, with_part

VECTORS = json.loads((Path(__file__).parent / "frames.json").read_text())
BYTES = {vector["name"]: bytes.fromhex(vector["bytes"]) for vector in VECTORS}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_sealed_frame_is_opened_and_proved_as_ever(vector):
    message = decode(bytes.fromhex(vector["bytes"]))
    assert isinstance(message, Sealed)
    proved = read(message)
    assert proved.signer == BROKER.principal
    assert message.kept == vector["kept"]
    assert content(proved) == plates(vector["rows"])


@pytest.mark.parametrize("level", LEVELS)
def test_sealing_again_gives_the_same_bytes(level):
    publishing = Publishing(level=level)
    assert encode(publishing.seal(plates(1))) == BYTES[f"{level.value}: one event"]
    assert encode(publishing.seal(plates(600))) == BYTES[f"{level.value}: six hundred events"]
    assert encode(publishing.seal(plates(3), [1, 5, 300])) == BYTES[f"{level.value}: three rows of a frame"]
    beside_plaintext = publishing.seal(plates(1), is_shared=True)
    assert encode(beside_plaintext) == BYTES[f"{level.value}: one event beside its plaintext"]


def test_a_part_beside_a_whole_event_is_sealed_opened_and_proved_as_ever():
    written = BYTES["event: three events with a part"]
    assert encode(Publishing(level=SealingLevel.EVENT).seal(with_part(plates(3)))) == written
    message = decode(written)
    assert isinstance(message, Sealed)
    part = with_part(plates(3)).only([PART, f"{PART}-0", f"{PART}-1"])
    assert content(read(message, keys(only=[PART]))) == part


def test_frames_signed_together_give_the_same_bytes():
    publishing = Publishing()
    signed = publishing.by.sign([publishing.draft(plates(1)) for _ in range(3)])
    names = [f"attribute: {place} of three signed together" for place in ("first", "second", "third")]
    assert [encode(frame) for frame in signed] == [BYTES[name] for name in names]


def test_keys_grow_as_ever():
    grown = Secret.from_bytes(bytes(range(32))).derive(b"maia/1/sealing-key", b"type", b"")
    assert grown.reveal().hex() == "812d1e80645d11eabfb9751e1877eb7ec9cb6f566524dc6b2e541a0e31eba4b7"
