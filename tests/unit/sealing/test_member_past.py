"""Keys of the past in a member's hands: asked for once, good for their own time, and gone when done with."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.errors import Refusal
from maia.events import AttributeUid
from maia.sealing.keys.parcels import PastAnswer, PastEpoch
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.past import MemberPast, PastReading
from maia.wire.messages import HistoryKeysReply, KeyTermsRecord
from support.key_groups import at, sealed_type

TYPE = sealed_type()
TERMS = KeyTermsRecord(1000, 3600, 30, 10)
PLATE = AttributeUid("plate")


def epoch(number: int) -> PastEpoch:
    key = Secret.from_bytes(sha256(b"%d" % number).digest())
    return PastEpoch(number, at(1000 * number), at(1000 * number + 1000), [(PLATE, key)])


@pytest.fixture
def past() -> MemberPast:
    """Epochs 2 and 3 were handed out; of 1 there is nothing."""
    made, reading = MemberPast(), PastReading(TYPE.type_id, epoch=1)
    reading.receive(HistoryKeysReply(7, TYPE.type_id, TERMS, b"", 3), PastAnswer([epoch(2), epoch(3)]))
    assert reading.is_done  # one page is enough
    made.learn(reading)
    return made


def test_what_a_manager_has_not_is_remembered_too(past):
    assert past.is_answered(TYPE.type_id, 1)
    assert past.opening(TYPE.type_id, 1) is None
    assert past.opening(TYPE.type_id, 2) is not None
    assert not past.is_answered(TYPE.type_id, 4)
    past.learn(PastReading(TYPE.type_id, epoch=4, problem=Refusal("REFUSED-HISTORY-KEYS", "no")))
    assert past.is_answered(TYPE.type_id, 4)
    past.link_lost()
    assert not past.is_answered(TYPE.type_id, 4)
    assert past.is_answered(TYPE.type_id, 2)


def test_an_old_key_opens_nothing_new(past):
    """A50: neither what claims another time, nor what was recorded long after its own."""
    opening = past.opening(TYPE.type_id, 2)
    for published, recorded, fits in (
        (2500, 2500, True),
        (1990, 2000, True),
        (1989, 2000, False),
        (3010, 3010, True),
        (3011, 3011, False),
        (2500, 3030, True),
        (2500, 3031, False),
    ):
        found = opening.is_of_its_time(published_at=int(at(published)), recorded_at=int(at(recorded)))
        assert found is fits, (published, recorded)


def test_keys_are_destroyed_when_no_member_needs_them(past):
    keys = [past.opening(TYPE.type_id, number)._epoch.keys[PLATE] for number in (2, 3)]
    past.forget(TYPE.type_id)
    assert all(key.wiped for key in keys)
    assert past.opening(TYPE.type_id, 2) is None
    assert not past.is_answered(TYPE.type_id, 2)
