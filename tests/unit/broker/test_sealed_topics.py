"""Topics travel sealed: the path is an attribute, and is sealed, matched and retained as one."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.broker.settings import RecordingSettings
from maia.credentials import (
    SigningKey,
    TypePattern,
    exact_name,
)
from maia.predicates.path_patterns import parse_path_pattern
from maia.testing import grant
from maia.types import SealingLevel, TypeDefinition, verify_definition
from maia.types.definition import CONTENT_TYPE, PAYLOAD, TOPIC, on_topics, plain_attributes, tree_name
from maia.wire.columns import columns_to_frame
from maia.wire.messages import Deliver
from support.agreement import HERE, THERE, AgreeingNet
from support.numberplate import NOW, READ, SEED, WRITE, tell_numberplate_story

PITO = tell_numberplate_story(SEED, now=NOW).keys["PITO"]
UIDS = (TOPIC.uid, PAYLOAD.uid, CONTENT_TYPE.uid)


def key(who: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"sealed topics" + who.encode()).digest())


def on(*patterns: str):
    return on_topics(map(parse_path_pattern, patterns))


class SealedNews:
    """Two brokers that hold the keys of sealed topics; the second records what arrives."""

    def __init__(self, level: SealingLevel) -> None:
        name = tree_name(PITO.principal, "/news")
        self.net = net = AgreeingNet(TypeDefinition(name, None, plain_attributes()), level)
        self.version = verify_definition(net.cast.definition, at=NOW)
        net.entitle(HERE, READ, WRITE)
        net.entitle(THERE, READ)
        here = net.broker(HERE)
        there = net.broker(THERE, seeds=[HERE], recording=RecordingSettings())
        for one in (here, there):
            net.hold(one, None, *UIDS)

    def client(self, who: str, at: str, action, *patterns: str):
        subject = key(who).principal
        wallet = (
            self.net.cast.connect_right(subject),
            grant(
                PITO,
                subject,
                TypePattern(PITO.principal, exact_name("topic.news"), None),
                action,
                restriction=on(*patterns),
            ),
        )
        return self.net.client(who, at, key=key(who), credentials=wallet)

    def seen(self, reader) -> list[str]:
        frames = [
            columns_to_frame(one.columns, one.rows, self.version.kinds) for one in reader.all_heard(Deliver)
        ]
        return [str(event[TOPIC.uid]) for frame in frames for event in frame.events()]


@pytest.mark.parametrize("level", list(SealingLevel))
def test_a_reader_gets_its_topics_and_nothing_that_travels_shows_a_path(level):
    news = SealedNews(level)
    desk = news.client("desk", HERE, WRITE, "/news/#")
    reader = news.client("reader", THERE, READ, "/news/uk/#")
    reader.subscribe(on("/news/+/sport/#"), event_type=news.version.name, ref=1)
    desk.advertise(event_type=news.version.name, ref=1)
    paths = ["/news", "/news/uk/sport", "/news/fr/sport", "/news/uk/sport/cricket"]
    events = [{TOPIC.uid: path, PAYLOAD.uid: path.encode()} for path in paths]
    desk.publish(1, *events, kinds=news.version.kinds)
    assert news.seen(reader) == ["/news/uk/sport", "/news/uk/sport/cricket"]
    recorded = news.net.log(THERE).safe
    assert recorded
    assert not any(b"sport" in one.data or b"/news" in one.data for one in recorded)


@pytest.mark.parametrize("level", list(SealingLevel))
def test_the_super_topics_of_a_sealed_topic_are_needed_as_well(level):
    news = SealedNews(level)
    desk = news.client("desk", HERE, WRITE, "/news", "/news/uk", "/news/uk/sport/#", "/news/fr/sport")
    reader = news.client("reader", THERE, READ, "/news/#")
    reader.subscribe(on("/news/#"), event_type=news.version.name, ref=1)
    desk.advertise(event_type=news.version.name, ref=1)
    for path in ("/news/fr/sport", "/news/uk", "/news/uk/sport/cricket", "/news/fr", "/news"):
        desk.publish(1, {TOPIC.uid: path}, kinds=news.version.kinds)
    assert news.seen(reader) == ["/news/uk", "/news/uk/sport/cricket", "/news"]
