"""What does a member believe of those who publish, and how much of it does it remember?"""

from __future__ import annotations

import pytest

from maia.credentials import certificate_to_bytes
from maia.sealing.member import past_keys as member_writers
from maia.sealing.member.past_keys import MemberWriters
from maia.wire.messages import Writer
from support.key_groups import WRITE, grant, key_of

TYPE = bytes(32)
CAMERA, MALLORY = key_of("camera"), key_of("mallory")


def told(who, *shown) -> Writer:
    return Writer(1, TYPE, who.principal.key, [certificate_to_bytes(one) for one in shown])


def test_an_answer_is_remembered_once_a_member_has_asked():
    writers, shown = MemberWriters(8), grant(CAMERA, actions=WRITE)
    assert not writers.tell(told(MALLORY, shown))
    assert writers.get(TYPE, MALLORY.principal) is None
    writers.ask(TYPE, CAMERA.principal)
    assert writers.is_asking(TYPE, CAMERA.principal)
    assert writers.tell(told(CAMERA, shown))
    assert not writers.is_asking(TYPE, CAMERA.principal)
    assert writers.get(TYPE, CAMERA.principal) == (shown,)
    assert writers.get(bytes(31) + b"1", CAMERA.principal) is None


def test_that_a_member_shows_nothing_is_an_answer_too():
    writers = MemberWriters(8)
    writers.ask(TYPE, CAMERA.principal)
    assert writers.tell(told(CAMERA))
    assert writers.get(TYPE, CAMERA.principal) == ()


def test_an_answer_counts_once_and_none_counts_after_the_link_is_lost():
    writers = MemberWriters(8)
    writers.ask(TYPE, CAMERA.principal)
    assert writers.tell(told(CAMERA))
    assert not writers.tell(told(CAMERA))
    writers.ask(TYPE, MALLORY.principal)
    writers.link_lost()
    assert not writers.tell(told(MALLORY))


def test_the_oldest_answers_are_forgotten_first():
    writers, people = MemberWriters(2), [key_of(name) for name in ("one", "two", "three")]
    for who in people:
        writers.ask(TYPE, who.principal)
        writers.tell(told(who))
    assert [writers.get(TYPE, who.principal) for who in people] == [None, (), ()]


def test_questions_that_are_never_answered_fill_no_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(member_writers, "_ASKED_MAX", 2)
    writers, people = MemberWriters(8), [key_of(name) for name in ("one", "two", "three")]
    for who in people:
        writers.ask(TYPE, who.principal)
    assert [writers.is_asking(TYPE, who.principal) for who in people] == [False, True, True]
