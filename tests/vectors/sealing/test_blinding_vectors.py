"""Fixed bytes: this year's blinded ids, envelopes and choices, which next year's brokers must make too."""

from __future__ import annotations

from dataclasses import replace

from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import Inside, blinded_ids, envelope
from maia.sealing.keys.key_ring import KeyRing
from maia.types import Cover, Sealing, SealingLevel, sign_definition
from support.sealing import NOON, PUBLISHER, STREAM, TYPE_ID, secret
from support.types import PITO, numberplate

IDS = {
    1: "3bf1dbf435933b91b90cc40ccbd58e0613485580f05294e41cf2352db60a0be6",
    2: "76aa892e3e871700999467dfc192cf771c252bdddbdb6a22af26cbfc5dd48fb7",
}


def test_the_ids_of_two_epochs():
    held = KeyRing(TYPE_ID)
    for number in IDS:
        held.learn(number, since=NOON)
        held.hold(GroupId(TYPE_ID), number, secret("group"))
    assert {number: one.hex() for number, one in blinded_ids(held).items()} == IDS


def test_the_bytes_of_an_envelope():
    said = envelope(Inside(PUBLISHER, STREAM, 7, NOON), rows=1, fill=2).values[0]
    assert said == (
        b"\x01" + PUBLISHER.key + STREAM + (7).to_bytes(8, "big") + int(NOON).to_bytes(8, "big") + bytes(2)
    )
    assert envelope(None, rows=1, fill=2).values[0] == bytes(67)


def test_the_bytes_of_a_choice():
    event = Sealing(SealingLevel.EVENT, PITO.principal, ("keys.example:7500",))
    chosen = replace(event, blinded=True, cover=Cover(250, 1024))
    before = sign_definition(replace(numberplate(), sealing=event), PITO).body
    after = sign_definition(replace(numberplate(), sealing=chosen), PITO).body
    at = b"(2:at17:keys.example:7500)"
    assert after == before.replace(at, at + b"(7:blinded)(5:cover3:2504:1024)")
