"""A broker that lacks the right to a type gets nothing of it from a client, whatever it shows (A107, C16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from maia.client import Ended
from maia.credentials import Action, AttributeSet, SignedCertificate, Transformation, certificate_to_bytes
from maia.credentials.authority import ALL_ATTRIBUTES
from maia.credentials.brokers import AS_BROKER
from maia.events import AttributeUid
from maia.expressions.syntax import Constant, Rule
from maia.testing import NetClient
from maia.wire import PROTOCOL_VERSION, Advertise, Failed, Greeting, Message, Publish, Subscribe, Welcome
from maia.wire.messages import AskRight, RightShown
from maia.wire.names import network_to_bytes, type_to_bytes
from support.client_session import LEASE_S, STORY, Played
from support.numberplate import NUMBERPLATE, Net

CCS = STORY.principal("CCS")


def met_at_a_closed_broker(*connect: Action) -> Played:
    """Let a camera be welcomed by a broker of CCS that shows a right to connect, and these others."""
    shown = [STORY.grant("PITO", "CCS", STORY.network, *AS_BROKER, *connect)]
    played = Played()
    played.start()
    played.link_opens()
    greeting = [certificate_to_bytes(one) for one in shown]
    played.broker_says(Greeting(PROTOCOL_VERSION, network_to_bytes(STORY.network), greeting, bytes(16)))
    played.broker_says(Welcome(LEASE_S))
    return played


def handed_over(played: Played) -> list[Message]:
    """Return all that the client has said but the question for the broker's right."""
    return played.said(Advertise | Subscribe | Publish)


def others(*actions: Action) -> list[SignedCertificate]:
    return [STORY.grant("PITO", "Met", STORY.definition, *actions, may_delegate=True)]


FORGERIES: dict[str, Sequence[SignedCertificate]] = {
    "nothing": (),
    "another's right": others(Action.PUBLISH),
    "the client's own right": STORY.certificates[-4:],
    "another action": (STORY.grant("PITO", "CCS", STORY.definition, Action.SUBSCRIBE),),
    "signed by itself": (STORY.grant("CCS", "CCS", STORY.definition, Action.PUBLISH),),
}


@pytest.mark.parametrize("shown", FORGERIES)
def test_a_client_hands_nothing_over_to_a_broker_without_the_right(shown: str) -> None:
    """A107: no filter, certificate, definition or event leaves before the broker has shown its own right."""
    played = met_at_a_closed_broker()
    entry = played.advertises()
    played.publishes(entry)
    for _ in range(4):  # a right may be on its way to the broker
        (question,) = asked = played.said(AskRight | Advertise | Subscribe | Publish)
        assert (len(asked), question.action) == (1, "publish")
        played.broker_says(RightShown(question.id, [certificate_to_bytes(one) for one in FORGERIES[shown]]))
        played.time_passes(3)
    assert handed_over(played) == []
    (ended,) = [one for one in played.notices() if isinstance(one, Ended)]
    assert ended.problem.code == "BROKER-HAS-NO-RIGHT"
    assert str(CCS) in ended.problem.message
    assert "maia cert issue" in ended.problem.message


def test_a_broker_that_does_not_answer_the_question_gets_nothing() -> None:
    """A107: silence, and an answer to another question."""
    played = met_at_a_closed_broker()
    played.advertises()
    (question,) = played.said(AskRight)
    right = [
        certificate_to_bytes(one) for one in (STORY.grant("PITO", "CCS", STORY.definition, Action.PUBLISH),)
    ]
    played.broker_says(RightShown(question.id + 100, right))
    played.time_passes(LEASE_S / 2)
    assert handed_over(played) == []


@pytest.mark.parametrize("how", ["right", "open"])
def test_a_broker_with_the_right_or_of_an_open_network_is_asked_once_and_served_by(how: str) -> None:
    """The control."""
    played = met_at_a_closed_broker(*([Action.SERVE] if how == "open" else []))
    played.advertises()
    played.advertises()
    if how == "right":
        (question,) = played.said(AskRight)
        right = STORY.grant("PITO", "CCS", STORY.definition, Action.PUBLISH)
        played.broker_says(RightShown(question.id, [certificate_to_bytes(right)]))
    assert len(played.said(Advertise)) == 2


SOME = frozenset({NUMBERPLATE})
EVERY = frozenset(one.uid for one in STORY.definition.definition.attributes)


@pytest.mark.parametrize(("attributes", "is_served"), [(SOME, False), (EVERY, True)])
def test_a_right_to_fewer_attributes_than_the_clients_is_not_enough(
    attributes: frozenset[AttributeUid], *, is_served: bool
) -> None:
    """MAIA 5.1.3: the same set of attributes."""
    played = met_at_a_closed_broker()
    played.advertises()
    right = STORY.grant("PITO", "CCS", STORY.definition, Action.PUBLISH, attributes=attributes)
    for question in played.said(AskRight):
        played.broker_says(RightShown(question.id, [certificate_to_bytes(right)]))
    assert len(handed_over(played)) == is_served


def closed_broker(*actions: Action, **terms: Any) -> tuple[Net, NetClient]:
    """Run an honest broker that may connect, and do these things with the type."""
    net = Net()
    key, _ = net.cast.identity(net.first)
    mine = [net.cast.grant("PITO", key, net.cast.network, Action.CONNECT)]
    mine += [net.cast.grant("PITO", key, net.cast.definition, one, **terms) for one in actions]
    net.broker(credentials=tuple(mine))
    return net, net.client("camera at Victoria")


def test_an_honest_broker_says_that_it_has_no_right_also_to_clients_that_do_not_ask() -> None:
    _, camera = closed_broker(Action.SUBSCRIBE)
    assert camera.code_of(camera.advertise()) == "BROKER-HAS-NO-RIGHT"


def test_an_honest_broker_serves_nobody_whose_right_is_about_more_attributes() -> None:
    _, camera = closed_broker(Action.PUBLISH, attributes=SOME)
    assert camera.code_of(camera.advertise()) == "BROKER-HAS-NO-RIGHT"
    _, camera = closed_broker(Action.PUBLISH, attributes=EVERY)
    assert camera.was_accepted(camera.advertise())


@pytest.mark.parametrize("action", [Action.PUBLISH, Action.SUBSCRIBE], ids=lambda one: one.value)
@pytest.mark.parametrize("attributes", [frozenset({NUMBERPLATE}), ALL_ATTRIBUTES], ids=["some", "all"])
def test_a_broker_with_the_right_of_its_client_serves_it_also_where_that_transforms(
    action: Action, attributes: AttributeSet
) -> None:
    net = Net()
    rule = Rule(NUMBERPLATE, Constant("hidden"))
    terms = {
        "attributes": attributes,
        "transformations": (Transformation(net.cast.owner.principal, (rule,)),),
    }
    keys = net.cast.identity(net.first)[0], net.cast.keys["camera at Victoria"]
    held = [
        (net.cast.grant("PITO", one, net.cast.network, Action.CONNECT), net.cast.right(one, action, **terms))
        for one in keys
    ]
    net.broker(credentials=held[0])
    camera = net.client("camera at Victoria", credentials=held[1])
    asked = camera.advertise() if action is Action.PUBLISH else camera.subscribe()
    assert camera.was_accepted(asked)


def test_an_honest_broker_shows_its_right_to_this_type_and_no_other() -> None:
    net, camera = closed_broker(Action.PUBLISH)
    assert camera.was_accepted(camera.advertise())
    camera.say(AskRight(70, "publish", type_to_bytes(net.cast.type_name)))
    camera.say(AskRight(71, "subscribe", type_to_bytes(net.cast.type_name)))
    may, may_not = camera.all_heard(RightShown)
    assert (len(may.credentials), may_not.credentials) == (1, [])
    assert camera.all_heard(Failed) == []
