"""By column, by class and by cut: the edge delivers what `see` shows and sends what `shape` lets through."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.audiences.local_subscribers import LocalSubscribers, class_key, routed_filter
from maia.broker.links.authors import AttachedStatements
from maia.broker.links.transit import StreamOrder, Transit, from_carried
from maia.broker.rights.publisher_view import shaper_of
from maia.broker.streams.disclosures import DeliveryTally
from maia.broker.streams.run import Run
from maia.broker.streams.sending import Deliveries
from maia.broker.turn import Turn
from maia.credentials import ALL_ATTRIBUTES
from maia.events import AttributeUid, Instant, PresentValue, frame_of
from maia.policy import PublicationRefused, View, Window, see, shape
from maia.predicates import AllOf, Comparison, Operator, admits
from maia.wire.codec import decode
from maia.wire.columns import columns_to_frame
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import Deliver, Publish
from support.policy import PITO, defined
from support.view_cases import (
    DELIVERED,
    KEYS,
    ROW,
    STORED,
    Answer,
    Batch,
    assert_agrees,
    random_batch,
    random_predicate,
    random_transformation,
    random_value,
    translated,
    typed,
)

EVENT_TYPE = defined(PITO, "edge.Sighting", DELIVERED)
SEEDS = st.integers(min_value=0, max_value=10**9)


def transit_of(events: tuple[dict[AttributeUid, PresentValue], ...]) -> Transit:
    return Transit(EVENT_TYPE.type_id, PITO.principal, b"s" * 16, 1, 0, frame_of(events, STORED))


def delivered(audience: LocalSubscribers, transit: Transit) -> list[Effect]:
    """Return what the stage that delivers sends of a frame."""
    type_id = EVENT_TYPE.type_id
    others = {}, LinkIdentities(), AttachedStatements(None), DeliveryTally()
    deliveries = Deliveries({type_id: audience}, StreamOrder(8), lambda _: (None, None), *others)
    turn, run = Turn(Instant(0)), Run(None, (Publish(1, 1, 0, transit.frame.rows, []),))
    run.whole, run.columns = transit, (transit.columns(),)
    deliveries.of(type_id)(run, turn)
    return turn.effects


class EdgeExecutor:
    """One audience for all views of a batch, each with its own link."""

    def answers(self, batch: Batch) -> list[Answer]:
        audience = LocalSubscribers(batch.keys)
        for number, view in enumerate(batch.views):
            audience.join(class_key(view, EVENT_TYPE), view, EVENT_TYPE, (LinkId(number), number))
        found: list[Answer] = [{} for _ in batch.views]
        for effect in delivered(audience, transit_of(batch.events)):
            assert isinstance(effect, Send)
            message = decode(effect.data)
            assert isinstance(message, Deliver)
            for event in columns_to_frame(message.columns, message.rows, EVENT_TYPE.kinds).events():
                row = event[ROW]
                assert isinstance(row, int)
                for ref in message.refs:
                    assert row not in found[ref]
                    found[ref][row] = translated(event, batch.delivered)
        return found


@pytest.mark.laws
@given(SEEDS)
def test_a_class_of_subscribers_sees_what_its_view_shows(seed: int) -> None:
    assert_agrees(EdgeExecutor(), random_batch(seed, views=6, events=20))


@pytest.mark.laws
@given(SEEDS)
def test_what_is_told_to_other_brokers_admits_whatever_a_view_shows(seed: int) -> None:
    batch = random_batch(seed, views=6, events=20)
    for view in batch.views:
        routed = routed_filter(view)
        for event in batch.events:
            assert see(view, event, batch.keys) is None or admits(routed, event)


@pytest.mark.laws
@given(SEEDS)
def test_two_views_share_a_class_only_if_they_see_the_same(seed: int) -> None:
    batch = random_batch(seed, views=12, events=20)
    classes: dict[bytes, View] = {}
    for view in batch.views:
        other = classes.setdefault(class_key(view, EVENT_TYPE), view)
        for event in batch.events:
            assert see(view, event, batch.keys) == see(other, event, batch.keys)


@pytest.mark.laws
@given(SEEDS)
def test_a_frame_is_shaped_as_its_events_are(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    batch = random_batch(seed, views=0, events=20)
    shown = (
        ALL_ATTRIBUTES if random.random() < 0.3 else frozenset(uid for uid in STORED if random.random() < 0.7)
    )
    uids = [uid for uid in STORED if uid != ROW]
    forced = {
        uid: random_value(random, STORED[uid]) for uid in random.sample(uids, random.choice((0, 0, 1, 2)))
    }
    equal = tuple(Comparison(uid, Operator.EQ, value) for uid, value in forced.items())
    rest = (random_predicate(random, depth=2),) if random.random() < 0.6 else ()
    steps = tuple(random_transformation(random) for _ in range(random.choice((0, 0, 1, 2))))
    window = Window(AllOf((*equal, *rest)), shown)
    view = View((window,), forced=forced, recipient=b"p" * 32, on_publication=steps)
    expected = []
    refused = 0
    for event in batch.events:
        try:
            expected.append(shape(view, event, KEYS))
        except PublicationRefused:
            refused += 1
    shaped = shaper_of(view, keys=KEYS).shape(frame_of(batch.events, STORED))
    assert shaped.refused == refused
    assert len(shaped.rows) == shaped.frame.rows == len(expected)
    found = [{uid: typed(value) for uid, value in event.items()} for event in shaped.frame.events()]
    assert found == [{uid: typed(value) for uid, value in event.items()} for event in expected]


@pytest.mark.laws
@given(SEEDS)
def test_a_cut_frame_survives_the_way_with_its_row_numbers(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    whole = transit_of(random_batch(seed, views=0, events=12).events)
    kept = sorted(random.sample(range(12), random.randint(1, 12)))
    again = sorted(random.sample(range(len(kept)), random.randint(1, len(kept))))
    arrived = from_carried(whole.cut(kept).cut(again).as_carried(), STORED)
    numbers = [kept[row] for row in again]
    assert list(arrived.kept or range(12)) == numbers
    assert [event[ROW] for event in arrived.frame.events()] == numbers
