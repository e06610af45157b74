"""A client's side of a durable subscription: what it asks for, hands out once, and acknowledges."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.client import Delivered, GapDetected
from maia.client.entries import Subscribed
from maia.client.errors import BadDurableName
from maia.credentials import SigningKey
from maia.predicates import ALWAYS
from maia.wire import Accepted
from maia.wire.messages import DeliverLogged, Seen, Subscribe, Withdraw
from maia.wire.messages import Missed as MissedMessage
from support.client_session import NOW, STORY, Played

CAMERA = STORY.principal("camera at Victoria").key


@pytest.fixture
def played() -> Played:
    played = Played(who="billing office")
    played.start()
    played.is_welcomed()
    played.notices()
    return played


def subscribes(played: Played, name: str = "nightly") -> Subscribed:
    entry, effects = played.session.subscribe(played.known, ALWAYS, played.now, durable=name)
    played.effects += effects
    return entry


def stands(played: Played) -> Subscribed:
    entry = subscribes(played)
    played.broker_says(Accepted(entry.ref, None))
    played.notices()
    return entry


def at(position: int) -> bytes:
    """Return a position as a client gets it: 24 bytes that mean nothing to it."""
    return sha256(position.to_bytes(8)).digest()[:24]


def logged(entry: Subscribed, position: int, label: int | None = None) -> DeliverLogged:
    number = position if label is None else label
    return DeliverLogged(entry.ref, at(position), CAMERA, bytes(16), number.to_bytes(16), int(NOW), 1, [])


def handed_out(played: Played) -> list[bytes | None]:
    return [notice.position for notice in played.notices() if isinstance(notice, Delivered)]


def test_it_asks_under_its_name_and_has_seen_nothing(played: Played) -> None:
    entry = subscribes(played)
    (asked,) = played.said(Subscribe)
    assert (asked.id, asked.name, asked.seen) == (entry.ref, "nightly", None)


def test_an_application_that_keeps_the_position_goes_on_behind_it(played: Played) -> None:
    played.effects += played.session.subscribe(
        played.known, ALWAYS, played.now, durable="nightly", after=at(7)
    )[1]
    assert played.said(Subscribe)[-1].seen == at(7)


@pytest.mark.parametrize("name", ["", "two words", "n" * 129, "naïve", "line\nbreak"])
def test_a_name_that_no_broker_would_read_is_refused_at_once(played: Played, name: str) -> None:
    with pytest.raises(BadDurableName):
        subscribes(played, name)


def test_each_position_is_handed_out_once_also_after_a_reconnection(played: Played) -> None:
    entry = stands(played)
    played.broker_says(logged(entry, 4))
    played.broker_says(logged(entry, 4))
    played.broker_says(logged(entry, 7))
    assert handed_out(played) == [at(4), at(7)]
    played.link_closes()
    played.time_passes(60)
    played.is_welcomed()
    asked = played.said(Subscribe)[-1]
    assert asked.seen == at(7)
    played.broker_says(Accepted(entry.ref, None))
    played.broker_says(logged(entry, 7))
    played.broker_says(logged(entry, 8))
    assert handed_out(played) == [at(8)]


def test_frames_of_one_label_in_two_parts_are_both_handed_out(played: Played) -> None:
    entry = stands(played)
    played.broker_says(logged(entry, 4, label=1))
    played.broker_says(logged(entry, 5, label=1))
    assert handed_out(played) == [at(4), at(5)]


def test_an_acknowledgement_is_said_once_and_again_where_it_may_have_been_lost(played: Played) -> None:
    entry = stands(played)
    played.broker_says(logged(entry, 4))
    played.effects += played.session.acknowledge(entry, at(4))
    played.effects += played.session.acknowledge(entry, at(4))
    assert played.said(Seen) == [Seen(entry.ref, at(4))]
    played.link_closes()
    played.effects += played.session.acknowledge(entry, at(5))
    played.time_passes(60)
    played.is_welcomed()
    assert played.said(Seen) == []
    played.broker_says(Accepted(entry.ref, None))
    assert played.said(Seen) == [Seen(entry.ref, at(5))]


def test_what_is_missed_is_told_and_not_waited_for(played: Played) -> None:
    entry = stands(played)
    played.broker_says(MissedMessage(entry.ref, at(9), "UNAVAILABLE-LOG-REMOVED", "too long ago"))
    (missed,) = [notice for notice in played.notices() if isinstance(notice, GapDetected)]
    assert (missed.position, missed.problem.code) == (at(9), "UNAVAILABLE-LOG-REMOVED")
    assert entry.arrived == at(9)


@pytest.mark.parametrize("forget", [True, False])
def test_to_end_and_to_forget_are_two_things(played: Played, forget: bool) -> None:
    entry = stands(played)
    played.effects += played.session.withdraw(entry, played.now, forget=forget)
    (said,) = played.said(Withdraw)
    assert (said.ref, said.forget) == (entry.ref, forget)


def test_nothing_is_acknowledged_of_a_subscription_without_a_name(played: Played) -> None:
    entry = played.subscribes()
    played.broker_says(Accepted(entry.ref, None))
    assert played.session.acknowledge(entry, at(4)) == []


def test_positions_of_one_broker_mean_nothing_to_another() -> None:
    played = Played(who="billing office", addresses=("127.0.0.1:1", "127.0.0.1:2"))
    played.start()
    played.is_welcomed()
    entry = stands(played)
    played.broker_says(logged(entry, 400))
    played.effects += played.session.acknowledge(entry, at(400))
    played.session._connection._last_broker = SigningKey.from_seed(bytes(32)).principal  # it was another one
    played.link_closes()
    played.time_passes(60)
    played.is_welcomed()
    assert played.said(Subscribe)[-1].seen is None
    played.said(Seen)
    played.broker_says(Accepted(entry.ref, None))
    played.broker_says(logged(entry, 3))
    assert handed_out(played) == [at(400), at(3)]
    assert played.said(Seen) == []
