"""Fixed bytes: this year's epochs, content keys and key parcels, which next year's code must still read."""

from __future__ import annotations

import json
from pathlib import Path

from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.delivery import SessionKey, seal_to
from maia.sealing.keys.epochs import (
    EpochStatement,
    commitment,
    epoch_from_bytes,
    epoch_to_bytes,
    sign_epoch,
    verify_epoch,
)
from maia.sealing.keys.key_ring import content_key
from maia.sealing.keys.parcels import GroupWelcome, Handed, HeldPath, pack, parcel_info, unpack
from maia.sealing.keys.secrets import Secret
from support.key_groups import MANAGER, NOON, PLATE, key_of, random_from

VECTORS = {
    name: bytes.fromhex(data)
    for name, data in json.loads((Path(__file__).parent / "key-groups.json").read_text()).items()
}
TYPE = bytes(range(32))
GROUP, PLATES = GroupId(TYPE), GroupId(TYPE, PLATE)
SECRET = Secret.from_bytes(bytes(range(64, 96)))
MEMBER = key_of("member").principal


def epoch():
    made = {group: commitment(SECRET, group, 7) for group in (GROUP, PLATES)}
    return sign_epoch(EpochStatement(TYPE, 7, NOON, made, bytes(range(100, 132))), MANAGER)


def parcel():
    secrets = [Handed(None, 5, 7, SECRET), Handed(PLATES.uid, 7, None, SECRET)]
    return GroupWelcome([None, PLATES.uid], secrets, [HeldPath(PLATES.uid, b"path")])


def made() -> dict[str, bytes]:
    """Return every vector as today's code writes it."""
    session = SessionKey(random_from(b"session"))
    info = parcel_info(TYPE, manager=MANAGER.principal, member=MEMBER)
    return {
        "epoch": epoch_to_bytes(epoch()),
        "content key of the type": content_key(SECRET, GROUP, 7).reveal(),
        "content key of an attribute": content_key(SECRET, PLATES, 7).reveal(),
        "parcel": pack(parcel()),
        "sealed parcel": seal_to(session.public, pack(parcel()), info, random_from(b"chance")),
        "signed session key": session.signed(
            key_of("member"), manager=MANAGER.principal, session=bytes(16)
        ).signature,
    }


def test_everything_is_written_as_ever():
    assert made() == VECTORS


def test_an_epoch_is_read_as_ever():
    signed = epoch_from_bytes(VECTORS["epoch"])
    assert verify_epoch(signed, MANAGER.principal) == epoch().statement


def test_a_parcel_is_opened_as_ever():
    session = SessionKey(random_from(b"session"))
    info = parcel_info(TYPE, manager=MANAGER.principal, member=MEMBER)
    assert unpack(session.open(VECTORS["sealed parcel"], info)) == parcel()
