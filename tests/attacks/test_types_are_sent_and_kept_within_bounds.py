"""Questions about types cost the asker, and many types keep no new one out (A77, A89)."""

from __future__ import annotations

import os
from itertools import count
from uuid import UUID

from maia.broker import BrokerLimits
from maia.client.api.client import connect, fetch_definitions
from maia.clock import system_now
from maia.credentials import FIRST_VERSION, Action, SigningKey, TypeName
from maia.predicates import ALWAYS
from maia.testing import NetClient, in_a_loop, soon
from maia.types import SignedDefinition, TypeDefinition, definition_to_bytes, sign_definition
from maia.wire import Accepted, EdgeRequest, Subscribe, request_to_bytes, sign_request
from maia.wire.messages import Failed, TypeQuery, TypeReply, VersionsQuery
from maia.wire.names import type_to_bytes
from support.live import STORY, broker, stranger
from support.numberplate import NUMBERPLATE_ATTRIBUTES, Net

OWNER = "PITO"
"""The owner of the network, which may do everything with types of its own."""


_NUMBERS = count(5000)


def lineage(story, name: str, versions: int) -> list[SignedDefinition]:
    """Return so many versions of a type, each made from the one before."""
    owner, found, before = story.keys[OWNER], list[SignedDefinition](), None
    for number in range(versions):
        version = FIRST_VERSION if before is None else str(UUID(int=number))
        named = TypeName(owner.principal, name, version)
        found.append(sign_definition(TypeDefinition(named, before, NUMBERPLATE_ATTRIBUTES), owner))
        before = version
    return found


def subscribed(client: NetClient, *history: SignedDefinition) -> int:
    """Ask for the last of these versions, handing all of them over."""
    asked = client.request(Action.SUBSCRIBE, event_type=history[-1].definition.name)
    return client.subscribe(request=asked, definitions=[definition_to_bytes(one) for one in history])


def told_of(client: NetClient, definition: SignedDefinition) -> list[bytes]:
    """Ask what the broker knows of a version."""
    number = next(_NUMBERS)
    client.say(TypeQuery(number, type_to_bytes(definition.definition.name)))
    reply = client.last(TypeReply)
    assert reply.id == number
    return reply.definitions


# ------------------------------------------------------------ questions


def test_more_versions_than_one_answer_holds_are_told_in_several() -> None:
    """A89: an answer never has more than its reader takes, whatever the broker knows."""
    net = Net()
    net.broker()
    owner = net.client(OWNER)
    versions = lineage(net.cast, "uk.test.Long", 300)
    for part in (versions[:200], versions[200:]):
        assert owner.was_accepted(subscribed(owner, *part))
    told = told_of(owner, versions[-1])
    assert told == [definition_to_bytes(one) for one in versions[-256:]]
    assert told_of(owner, versions[-257]) == [definition_to_bytes(one) for one in versions[:-256]]
    assert not owner.closed


@in_a_loop
async def test_a_principal_that_asks_over_a_socket_has_the_whole_lineage():
    """A89: what needs several answers is asked for in several questions, over one link that stays open."""
    key, versions = STORY.keys[OWNER], lineage(STORY, "uk.test.Long", 300)
    async with broker() as running, stranger(key, running.address) as owner:
        await owner.introduce(OWNER)
        for ref, part in enumerate((versions[:200], versions[200:]), 1):
            name, nonce = part[-1].definition.name, os.urandom(16)
            asked = EdgeRequest(
                Action.SUBSCRIBE, STORY.network, name, ALWAYS, os.urandom(16), system_now(), nonce
            )
            request = request_to_bytes(sign_request(asked, key))
            owner.say(Subscribe(ref, request, [], [definition_to_bytes(one) for one in part]))
            assert isinstance(await soon(owner.hear()), Accepted)
        billing, shown = STORY.keys["billing office"], STORY.certificates
        async with connect(running.address, key=billing, network=STORY.network, credentials=shown) as client:
            found = await soon(fetch_definitions(client, versions[-1].definition.name, timeout_s=120))
    assert list(found) == versions


def test_questions_about_types_have_a_quota_by_the_length_of_the_answer() -> None:
    """A77: a hundred bytes are not answered with megabytes for ever; the link stays, and so do others'."""
    net = Net(limits=BrokerLimits(requests_per_minute=100))
    running = net.broker()
    owner = net.client(OWNER)
    versions = lineage(net.cast, "uk.test.Long", 200)
    subscribed(owner, *versions)
    size = sum(len(definition_to_bytes(one)) for one in versions)
    billing = net.client("billing office")
    asked = TypeQuery(1, type_to_bytes(versions[-1].definition.name))
    for _ in range(100):
        billing.say(asked)
    answered = len(billing.all_heard(TypeReply))
    assert answered == 100 // (1 + size // (16 << 10))
    assert {one.code for one in billing.all_heard(Failed)} == {"UNAVAILABLE-REQUEST-QUOTA"}
    assert len(running.noted("refused")) == 1
    assert not billing.closed
    assert told_of(net.client("camera at Victoria"), versions[0]) != []


def versions_told(client: NetClient, definition: SignedDefinition) -> list[bytes]:
    """Ask which versions of a type there are, and return what was told by now."""
    client.say(VersionsQuery(next(_NUMBERS), type_to_bytes(definition.definition.name)))
    return [one for reply in client.all_heard(TypeReply)[-1:] for one in reply.definitions]


def test_versions_that_other_brokers_know_are_told_whichever_is_asked() -> None:
    """N11: by a broker that knows an old version, and by one that knows none; each version once."""
    net = Net()
    near, third, far = net.three()
    versions = lineage(net.cast, "uk.test.Long", 4)
    for running, some in ((near, versions), (far, versions[:2])):
        owner = net.client(OWNER, running.name)
        assert owner.was_accepted(subscribed(owner, *some))
    billing = net.client("billing office", far.name)
    told = versions_told(billing, versions[0])
    assert (set(told), len(told)) == ({definition_to_bytes(one) for one in versions}, 4)
    elsewhere = net.client("camera at Victoria", third.name)
    assert told_of(elsewhere, versions[2]) == [definition_to_bytes(one) for one in versions[:3]]
    assert not any(one.parts.dispatch.type_queries.questions for one in net.brokers.values())


def test_a_neighbour_that_lies_or_is_silent_prevents_no_answer() -> None:
    """N11: what is about another type goes nowhere, and a late answer is not waited for."""
    net = Net()
    running = net.broker()
    versions, others = lineage(net.cast, "uk.test.Long", 2), lineage(net.cast, "uk.test.Other", 1)
    subscribed(net.client(OWNER), *versions)
    key = SigningKey.from_seed(b"n" * 32)
    right = (net.cast.broker_right(key),)
    neighbour = net.client("a neighbour", key=key, credentials=right, address="near:1")
    billing = net.client("billing office")
    assert versions_told(billing, versions[0]) == []
    (asked,) = neighbour.all_heard(VersionsQuery)
    neighbour.say(TypeReply(asked.id, [b"no definition", definition_to_bytes(others[0])]))
    assert billing.last(TypeReply).definitions == [definition_to_bytes(one) for one in versions]
    versions_told(billing, versions[0])
    net.advance(3)
    assert [len(one.definitions) for one in billing.all_heard(TypeReply)] == [2, 2]
    neighbour.say(TypeReply(neighbour.last(VersionsQuery).id, []))
    assert not running.parts.dispatch.type_queries.questions
    assert not neighbour.closed


# ------------------------------------------------------------ how many there are


def test_types_of_which_nothing_stands_make_room_for_new_ones() -> None:
    """A77: the table does not fill up for good; what goes is forgotten on disk too."""
    net = Net(limits=BrokerLimits(types=8))
    running = net.broker()
    owner = net.client(OWNER)
    types = [lineage(net.cast, f"uk.test.T{number}", 1)[0] for number in range(30)]
    staying = subscribed(owner, types[0])
    for definition in types[1:]:
        ref = subscribed(owner, definition)
        assert owner.was_accepted(ref)
        owner.withdraw(ref)
    assert owner.was_accepted(staying)
    assert told_of(owner, types[0]) != [], "it is in use"
    assert told_of(owner, types[-1]) != []
    assert told_of(owner, types[1]) == [], "the least recently accepted went first"
    owner.withdraw(subscribed(owner, types[23]))
    owner.withdraw(subscribed(owner, types[1]))
    assert told_of(owner, types[23]) != [], "it was accepted once more"
    assert told_of(owner, types[24]) == []
    kept = [name for name in running.kept if name.startswith("type/")]
    assert len(kept) <= 8
    net.restart(running.name)
    assert len(running.parts.types) == len(kept)


def test_types_that_are_in_use_are_not_pushed_out() -> None:
    """A29 A77: where everything is in use, one more is refused, and all others stay."""
    net = Net(limits=BrokerLimits(types=4))
    net.broker()
    owner = net.client(OWNER)
    types = [lineage(net.cast, f"uk.test.T{number}", 1)[0] for number in range(5)]
    refs = [subscribed(owner, one) for one in types]
    assert [owner.was_accepted(ref) for ref in refs] == [True] * 4 + [False]
    assert owner.code_of(refs[-1]) == "UNAVAILABLE-TYPES-FULL"
    assert all(told_of(owner, one) for one in types[:4])
    owner.withdraw(refs[0])
    assert owner.was_accepted(subscribed(owner, types[4]))
    assert told_of(owner, types[0]) == []
