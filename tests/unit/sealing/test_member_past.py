"""Keys of the past in a member's hands: asked for once, good for their own time, and gone when done with."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.errors import ProtocolViolation
from maia.events import AttributeUid
from maia.sealing.keys.delivery import EncryptionKey
from maia.sealing.keys.history import EpochSpan, PastAnswer, PastEpoch
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.past_keys import MemberPast
from maia.wire.messages import HistoryKeysReply, KeyTermsRecord
from support.key_groups import at, sealed_type

TYPE = sealed_type()
TERMS = KeyTermsRecord(1000, 3600, 30, 10)
SHOWN = EncryptionKey(bytes(32), bytes(64))
PLATE = AttributeUid("plate")


def epoch(number: int) -> PastEpoch:
    span = EpochSpan(number, at(1000 * number), at(1000 * number + 1000))
    return PastEpoch(span, {PLATE: Secret.from_bytes(sha256(b"%d" % number).digest())})


def reply(number: int, type_id: bytes = TYPE.type_id) -> HistoryKeysReply:
    return HistoryKeysReply(number, type_id, TERMS, b"", None)


@pytest.fixture
def past() -> MemberPast:
    """Epochs 2 and 3 were handed out; of 1 there is nothing."""
    made = MemberPast()
    question = made.ask(7, 1, [TYPE], (), SHOWN)
    assert (question.id, question.after) == (7, 0)
    assert made.is_asking(TYPE.type_id)
    made.receive(reply(7), PastAnswer((epoch(2), epoch(3))))
    assert not made.is_asking(TYPE.type_id)
    return made


def test_what_a_manager_has_not_is_remembered_too(past):
    assert past.is_answered(TYPE.type_id, 1)
    assert past.opening(TYPE.type_id, 1) is None
    assert past.opening(TYPE.type_id, 2) is not None
    assert not past.is_answered(TYPE.type_id, 4)
    past.ask(8, 4, [TYPE], (), SHOWN)
    assert past.refused(8)
    assert not past.refused(8)
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


def test_an_answer_to_no_question_is_refused(past):
    with pytest.raises(ProtocolViolation):
        past.receive(reply(7), PastAnswer(()))
    past.ask(9, 4, [TYPE], (), SHOWN)
    with pytest.raises(ProtocolViolation):
        past.receive(reply(9, bytes(32)), PastAnswer(()))
