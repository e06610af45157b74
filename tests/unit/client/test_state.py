"""A client asks for the present state whenever its subscription stands anew, and hears when it is told."""

from __future__ import annotations

import pytest

from maia.client import Delivered, StateKnown
from maia.client.entries import Subscribed
from maia.predicates import ALWAYS
from maia.wire import Accepted, Deliver, Failed
from maia.wire.messages import AskState, StateTold
from support.client_session import NOW, STORY, Played

CAMERA = STORY.principal("camera at Victoria").key


@pytest.fixture
def played() -> Played:
    played = Played(who="billing office")
    played.start()
    played.is_welcomed()
    played.notices()
    return played


def subscribes(played: Played, *, state: bool = True) -> Subscribed:
    entry, effects = played.session.subscribe(played.known, ALWAYS, played.now, state=state)
    played.effects += effects
    played.broker_says(Accepted(entry.ref, None))
    return entry


def last_word(entry: Subscribed) -> Deliver:
    return Deliver([entry.ref], CAMERA, bytes(16), bytes(16), int(NOW), 1, [])


def told(played: Played) -> list[StateKnown]:
    return [notice for notice in played.notices() if isinstance(notice, StateKnown)]


def test_it_asks_once_its_subscription_stands(played: Played) -> None:
    entry = subscribes(played)
    (asked,) = played.said(AskState)
    assert asked.ref == entry.ref
    played.broker_says(last_word(entry), StateTold(asked.id, is_whole=True))
    assert told(played) == [StateKnown(entry.ref, is_whole=True)]


def test_whoever_does_not_want_the_state_does_not_ask(played: Played) -> None:
    subscribes(played, state=False)
    assert played.said(AskState) == []


def test_after_a_reconnection_it_asks_again_and_hands_nothing_out_twice(played: Played) -> None:
    entry = subscribes(played)
    (first,) = played.said(AskState)
    played.broker_says(last_word(entry), StateTold(first.id, is_whole=True))
    played.notices()
    played.link_closes()
    played.time_passes(60)
    played.is_welcomed()
    played.broker_says(Accepted(entry.ref, None))
    (second,) = played.said(AskState)
    assert second.id != first.id
    played.broker_says(last_word(entry), StateTold(second.id, is_whole=True))
    notices = played.notices()
    assert not any(isinstance(notice, Delivered) for notice in notices)
    assert StateKnown(entry.ref, is_whole=True) in notices


def test_a_broker_that_cannot_tell_is_heard_as_not_whole(played: Played) -> None:
    entry = subscribes(played)
    (asked,) = played.said(AskState)
    played.broker_says(Failed(asked.id, "UNAVAILABLE-REQUEST-QUOTA", "slow down"))
    assert told(played) == [StateKnown(entry.ref, is_whole=False)]


def test_an_answer_that_nobody_waits_for_says_nothing(played: Played) -> None:
    subscribes(played)
    played.broker_says(StateTold(999, is_whole=True))
    assert told(played) == []
