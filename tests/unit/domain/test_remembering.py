"""Answers that are given twice, requests that are heard once, and how long either is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.access.unit_of_work import answered_once, forget_old
from maia.domain.storage.store import Tables, memory_store
from maia.events import Instant
from maia.testing.refusals import raises
from support.access_control import JONES, SMITH, later

KEPT_S = 60
SETTINGS = replace(AccessSettings(), answers_kept_s=KEPT_S)


@pytest.fixture
def tables() -> Iterator[Tables]:
    with memory_store().transaction() as found:
        yield found


class Desk:
    """Somebody who acts once for each request that was not answered yet."""

    def __init__(self, tables: Tables, **limits: int) -> None:
        self.tables, self.acts = tables, 0
        self.settings = replace(SETTINGS, limits=replace(AccessLimits(), **limits))

    def ask(
        self,
        key: str,
        at: float = 0,
        *,
        who=SMITH,
        request: bytes = b"r",
        size: int = 8,
        now: Instant | None = None,
    ) -> bytes:
        def act() -> bytes:
            self.acts += 1
            return self.acts.to_bytes(size)

        moment = later(at) if now is None else now
        return answered_once(
            self.tables, key, request, act, actor=who.principal, now=moment, settings=self.settings
        )


def test_an_answer_is_the_same_up_to_the_last_moment_of_its_time(tables):
    desk = Desk(tables)
    first = desk.ask("k")
    assert desk.ask("k", KEPT_S) == first
    forget_old(tables, later(KEPT_S))
    assert desk.ask("k", KEPT_S) == first
    assert desk.ask("k", now=Instant(later(KEPT_S) + 1)) != first


def test_keys_of_two_callers_are_two_keys(tables):
    desk = Desk(tables)
    assert desk.ask("k") != desk.ask("k", who=JONES)


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_has_some_characters_and_not_too_many(tables, key):
    with raises("INPUT-IDEMPOTENCY-KEY"):
        Desk(tables).ask(key)


def test_a_key_belongs_to_the_request_that_it_was_made_for(tables):
    desk = Desk(tables)
    desk.ask("k", request=b"one")
    with raises("INPUT-IDEMPOTENCY-KEY"):
        desk.ask("k", request=b"another")


def test_one_caller_is_remembered_so_often_and_others_have_their_own_room(tables):
    desk = Desk(tables, answers_each=2)
    for key in ("a", "b"):
        desk.ask(key)
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        desk.ask("c")
    assert desk.acts == 2, "nothing was done that could not be answered again"
    desk.ask("c", who=JONES)
    assert desk.ask("a"), "what is remembered is answered though there is no room for more"


def test_what_is_forgotten_makes_room_and_what_is_renewed_takes_none(tables):
    """A74: the count of what is remembered goes down again, and up only for what is new."""
    desk = Desk(tables, remembered_answers=2, answers_each=9)
    desk.ask("a")
    for round_ in range(1, 5):  # the same key, each time after its answer has expired
        desk.ask("a", 2 * KEPT_S * round_)
    desk.ask("b", 8 * KEPT_S)
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        desk.ask("c", 8 * KEPT_S)


def test_room_comes_back_when_answers_have_expired(tables):
    desk = Desk(tables, remembered_answers=1)
    for number in range(4):
        at = 2 * KEPT_S * number
        forget_old(tables, later(at))
        desk.ask(f"key {number}", at)


def test_an_answer_that_is_too_long_to_remember_is_not_given(tables):
    desk = Desk(tables, answer_bytes=8)
    desk.ask("short", size=8)
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        desk.ask("long", size=9)
