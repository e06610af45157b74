"""A member of key groups: what it asks for, whom it believes, and how long it waits."""

from __future__ import annotations

import pytest

from maia.credentials import certificate_to_bytes
from maia.sealing.member.settings import KeysChanged, KeysRefused, WriterReceived
from maia.wire.codec import decode, encode
from maia.wire.effects import Close, Dial, LinkId, LinkOpened, Note, Received, Send
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Bye,
    Greeting,
    GroupKeys,
    Hello,
    JoinGroups,
    KeysHeld,
    Ping,
    Pong,
    Rekey,
    TypeQuery,
    Writer,
)
from maia.wire.names import network_to_bytes
from support.key_groups import (
    ADDRESS,
    MANAGER,
    NETWORK,
    PLATE,
    SECOND,
    WRITE,
    KeyNet,
    at,
    connects,
    grant,
    key_of,
    sealed_type,
)


@pytest.fixture
def net():
    found = KeyNet()
    found.member("camera", grant(key_of("camera"), actions=WRITE))
    return found


def alone(net, name="alone", *pool):
    """A member without a network around it, which needs the type."""
    key = key_of(name)
    node = net.node_of(name, key, pool or (grant(key),), {}, 0)
    return node, node.need((net.event_type,), net.now)


def sent(effects):
    return [decode(effect.data) for effect in effects if isinstance(effect, Send)]


def lost(message):
    return isinstance(message, Rekey | GroupKeys)


def noted(effects):
    return {effect.fields.get("code") for effect in effects if isinstance(effect, Note)}


def greeting(*credentials, network=NETWORK):
    shown = [certificate_to_bytes(one) for one in credentials]
    return encode(Greeting(PROTOCOL_VERSION, network_to_bytes(network), shown, bytes(16)))


def test_certificates_are_shown_to_only_the_manager_that_the_owner_named(net):
    """A19: neither to a member that answers at its address, nor before it has shown its own right."""
    node, effects = alone(net)
    assert Dial(ADDRESS) in effects
    wrong = node.handle(LinkOpened(LinkId(1), key_of("mallory").principal, ADDRESS), net.now)
    assert any(isinstance(effect, Close) for effect in wrong)
    assert sent(wrong) == []
    assert "PROTOCOL-NOT-THE-MANAGER" in noted(wrong)
    for said in (greeting(), greeting(connects(MANAGER), network=type(NETWORK)(NETWORK.owner, "Other"))):
        node, _ = alone(net)
        node.handle(LinkOpened(LinkId(1), MANAGER.principal, ADDRESS), net.now)
        answered = node.handle(Received(LinkId(1), said), net.now)
        assert not any(isinstance(one, Hello) for one in sent(answered))
        assert noted(answered) & {"PROTOCOL-NOT-THE-MANAGER", "PROTOCOL-WRONG-NETWORK"}
    node, _ = alone(net)
    node.handle(LinkOpened(LinkId(1), MANAGER.principal, ADDRESS), net.now)
    assert isinstance(sent(node.handle(Received(LinkId(1), greeting(connects(MANAGER))), net.now))[0], Hello)


def test_what_a_manager_says_out_of_turn_ends_the_link(net):
    for said in (encode(Ping(1)), b"nonsense", encode(KeysHeld(net.type_id, 1, bytes(32)))):
        node, _ = alone(net)
        node.handle(LinkOpened(LinkId(1), MANAGER.principal, ADDRESS), net.now)
        ended = node.handle(Received(LinkId(1), said), net.now)
        assert isinstance(sent(ended)[0], Bye)
        assert not node.owns(LinkId(1))
    reader = net.member("reader", grant(key_of("reader")))
    net.say_to(reader, encode(TypeQuery(1, b"")))
    assert any(note.fields.get("code") == "PROTOCOL-MANAGER-MESSAGE" for note in reader.notes)
    assert net.holds(reader, PLATE)


def test_a_manager_that_cannot_be_reached_is_dialled_again_with_growing_waits(net):
    net.kill_server()
    reader = net.member("reader", grant(key_of("reader")))
    net.run(300)
    tried = [(moment - net.now) / SECOND + 300 for name, moment in net.dials if name == "reader"]
    growing = [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 25.5, 51.1]
    assert tried == pytest.approx([*growing, 102.3, 162.3, 222.3, 282.3])
    net.start_server()
    net.run(61)
    assert net.holds(reader, PLATE)


def test_a_member_that_is_refused_asks_again_at_once_and_then_with_growing_waits(net):
    """Its right may be on its way: a publisher would be refused meanwhile."""
    stranger = net.member("stranger")

    def asked() -> int:
        said = [decode(one[2]) for one in net.trace if one[:2] == ("stranger", "to server")]
        return sum(isinstance(one, JoinGroups) for one in said)

    net.run(1)
    assert asked() == 4, "after 0.1, 0.2 and 0.4 seconds"
    net.run(299)
    assert asked() <= 14
    net.show(stranger, grant(key_of("stranger")))
    net.run(61)
    assert net.holds(stranger, PLATE)


def test_an_answer_that_does_not_come_is_not_waited_for_without_end(net):
    net.weather = lambda message, _name, _up: 0 if isinstance(message, JoinGroups) else 1
    reader = net.member("reader", grant(key_of("reader")))
    net.run(11)
    assert any(note.fields.get("code") == "UNAVAILABLE-MANAGER-SILENT" for note in reader.notes)
    net.weather = lambda _message, _name, _up: 1
    net.run(20)
    assert net.holds(reader, PLATE)


def test_a_lost_rekey_is_noticed_and_asked_for(net):
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    net.weather = lambda message, name, _up: 0 if lost(message) and name == "reader" else 1
    net.run(2)
    net.member("guest", grant(key_of("guest"), since=1))
    assert net.ring(reader).newest == 1
    net.weather = lambda _message, _name, _up: 1
    net.run(25)
    assert net.ring(reader).newest == 2
    assert net.ring(reader).key(net.group(PLATE), 2) is not None


def test_a_frame_of_an_unknown_epoch_is_a_reason_to_ask_at_once(net):
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    net.weather = lambda message, name, _up: 0 if lost(message) and name == "reader" else 1
    net.run(2)
    net.member("guest", grant(key_of("guest"), since=1))
    net.weather = lambda _message, _name, _up: 1
    net.ask(reader, reader.node.missing(net.type_id, net.now))
    assert net.ring(reader).newest == 2
    questions = len(net.trace)
    for _ in range(5):
        net.perform(reader, reader.node.missing(net.type_id, net.now))
    assert len([one for one in net.trace[questions:] if one[1] == "to server"]) == 1  # one question at a time
    net.settle()


def test_new_certificates_are_shown_before_old_ones_end(net):
    reader = net.member("reader", grant(key_of("reader"), until=50))
    net.run_to(at(40))
    net.show(reader, grant(key_of("reader"), since=30, until=500))
    net.run_to(at(60))
    assert net.epoch() == 1  # its right was never interrupted
    assert net.holds(reader, PLATE)


def test_a_member_receives_what_has_become_of_its_keys(net):
    reader = net.member("reader", grant(key_of("reader"), until=50))
    assert KeysChanged(net.type_id) in reader.notices
    reader.notices.clear()
    net.run_to(at(51))
    assert [type(one) for one in reader.notices][-1] is KeysRefused
    stranger = net.member("stranger")
    (refused,) = [one for one in stranger.notices if isinstance(one, KeysRefused)]
    assert refused.code == "REFUSED-NO-KEY-GROUP"


def test_writers_are_asked_for_once_and_told_once(net):
    reader = net.member("reader", grant(key_of("reader")))
    camera, nobody = key_of("camera").principal, key_of("nobody").principal
    asked = reader.node.ask_writer(net.type_id, camera, net.now)
    assert not sent(reader.node.ask_writer(net.type_id, camera, net.now))
    net.ask(reader, asked)
    net.ask(reader, reader.node.ask_writer(net.type_id, nobody, net.now))
    net.run(1)
    mallory = key_of("mallory").principal
    for one in (camera, mallory):  # one was answered already, and the other was never asked about
        net.say_to(reader, encode(Writer(9, net.type_id, one.key, [])))
    told = [one for one in reader.notices if isinstance(one, WriterReceived)]
    assert [(one.principal, [shown.certificate.subject for shown in one.certificates]) for one in told] == [
        (camera, [camera]),
        (nobody, []),
    ]


def test_an_answer_about_a_writer_counts_for_one_link_and_questions_fill_no_memory(net, monkeypatch):
    monkeypatch.setattr("maia.sealing.member.member._WRITERS_ASKED_MAX", 2)
    net.weather = lambda message, _name, _up: 0 if isinstance(message, Writer) else 1
    reader = net.member("reader", grant(key_of("reader")))
    people = [key_of(name).principal for name in ("one", "two", "three")]
    for who in people:
        net.ask(reader, reader.node.ask_writer(net.type_id, who, net.now))
    assert [bool(sent(reader.node.ask_writer(net.type_id, who, net.now))) for who in people[1:]] == [
        False
    ] * 2
    assert sent(reader.node.ask_writer(net.type_id, people[0], net.now))  # forgotten, and asked again
    net.kill_server()
    net.start_server()
    net.run(5)
    net.say_to(reader, encode(Writer(9, net.type_id, people[2].key, [])))
    assert not [one for one in reader.notices if isinstance(one, WriterReceived)]


def test_a_member_answers_when_it_is_asked_whether_it_is_there(net):
    reader = net.member("reader", grant(key_of("reader")))
    net.say_to(reader, encode(Ping(5)))
    assert any(decode(data) == Pong(5) for _, way, data in net.trace if way == "to server")


def test_a_type_that_is_dropped_is_left_and_its_keys_destroyed(net):
    reader = net.member("reader", grant(key_of("reader")))
    secret = net.ring(reader).secret(net.group(PLATE), 1)
    net.leave(reader)
    assert secret.wiped
    assert reader.node.ring(net.type_id) is None
    assert not net.server.groups_of(net.type_id).is_in(net.group(), reader.principal)


def test_two_types_of_one_manager_share_a_link(net):
    other = sealed_type(name="uk.gov.Other")
    key = key_of("both")
    both = net.member("both", grant(key), grant(key, name="uk.gov.Other"))
    net.ask(both, both.node.need((other,), net.now))
    assert net.server.status(net.now)["members"] == 2
    assert both.node.ring(other.type_id).newest == 1
    assert len(both.kept) == 2


def test_a_right_that_ends_while_the_manager_is_away_takes_the_keys_with_it(net):
    reader = net.member("reader", grant(key_of("reader"), until=50))
    net.kill_server()
    net.run_to(at(50))
    assert net.holds(reader, PLATE, 1)
    net.run(0.001)
    assert not net.holds(reader, PLATE, 1)
