"""How a broker comes by keys, what it does when they come, and when they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.keys.keys import KeyRequests
from maia.broker.turn import Turn
from maia.credentials import (
    OnlineTest,
    RevocationList,
    SigningKey,
    TestKind,
    Validity,
    period_from,
    sign_statement,
)
from maia.domain import DomainLimits
from maia.domain.keys.links import KeyServerValidity
from maia.events import SECOND, Instant
from maia.predicates import AllOf, AnyOf, Comparison, Operator
from maia.testing import NetBroker
from maia.types import Sealing, SealingLevel, sign_definition
from maia.wire.effects import DialFailed
from maia.wire.messages import Ended, Failed, JoinGroups, Published, SealedRights, Warned
from support.numberplate import (
    LOCATION,
    NOW,
    NUMBERPLATE,
    READ,
    TIMESTAMP,
    WRITE,
    SealedNet,
    camera_and_reader,
    sighting,
)

KEYS = "key server"


class DomainNet(SealedNet):
    """Brokers that get their keys from a key server."""

    keys_by_hand = False

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings) -> None:
        super().__init__(level, manager=KEYS, keys_at=("key-server:7400",), **settings)
        self.level, self.manager = level, self.cast.identity(KEYS)[0].principal

    hung: list[NetBroker] | None = None
    """Who dials the key server without an answer of any kind, if that is so."""

    def dial(self, running: NetBroker, address: str) -> None:
        if self.hung is not None and address == "key-server:7400":
            self.hung.append(running)
        else:
            super().dial(running, address)

    def two(self, **reads) -> tuple[NetBroker, NetBroker]:
        self.entitle("CCS broker", READ, WRITE)
        self.entitle("Met broker", READ, **reads)
        return self.broker(), self.broker("Met broker", seeds=["CCS broker"])

    def epoch(self, running: NetBroker) -> int | None:
        ring = running.parts.seals.ring_of(self.type_id)
        return None if ring is None else ring.newest


def test_brokers_get_keys_from_the_manager_and_events_flow():
    net = DomainNet()
    net.key_server()
    ccs, met = net.two()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert net.epoch(ccs) == net.epoch(met) is not None
    assert ccs.broker.status(net.now)["keys"]["types"][net.type_id.hex()]["groups"] == 4


def test_a_list_that_is_late_at_the_key_server_suspends_a_broker_until_it_comes(monkeypatch):
    net, tester = DomainNet(), SigningKey.from_seed(bytes(32))

    def tell(running: NetBroker, number: int) -> None:
        period = period_from(Instant(NOW + 30 * (number - 1) * SECOND), microseconds=30 * SECOND)
        said = sign_statement(RevocationList(tester.principal, number, period, frozenset()), tester)
        heard = running.broker.hear(said if running is keys else [said], net.now)
        net.perform(running, heard)
        net.settle()

    keys = net.key_server()
    tell(keys, 1)
    tested = Validity(None, None).with_tests(OnlineTest(TestKind.TIMED_CRL, tester.principal))
    ccs, met = net.two(validity=tested)
    tell(ccs, 1)
    tell(met, 1)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert len(office.events()) == 1
    before = net.epoch(met)
    monkeypatch.setattr(KeyServerValidity, "hear_known", lambda *_: None)  # what its members bring is lost
    tell(ccs, 2)
    tell(met, 2)
    net.advance(32)
    camera.publish(1, sighting("AE05 XYZ"))
    assert net.epoch(ccs) == before + 1
    assert len(office.events()) == 1  # what is stale reads nothing more
    waiting = met.parts.keys
    assert waiting.awaits_past(net.type_id, before + 1)  # what was recorded meanwhile waits for its keys
    assert net.type_id not in waiting.refused
    tell(keys, 2)
    camera.publish(1, sighting("LN05 XXX"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC", "LN05 XXX"]
    assert not office.all_heard(Warned)


AWAY = (
    "the key server of `uk.gov.pito.Numberplate` at `key-server:7400` does not answer: start it, "
    "or correct its address (`keys` in the configuration of the broker)"
)


def test_a_publisher_is_refused_while_the_key_server_is_away_and_accepted_when_it_answers():
    net = DomainNet()
    net.two()
    camera, office = net.client("camera at Victoria"), net.client("billing office")
    office.subscribe()
    camera.advertise()
    assert camera.last(Failed) == Failed(1, "UNAVAILABLE-KEY-SERVER", AWAY)
    assert office.last(Warned) == Warned(1, "UNAVAILABLE-KEY-SERVER", AWAY)
    net.key_server()
    net.advance(8)
    assert office.last(Warned) == Warned(1, None, "it can be served again")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]


def test_a_publisher_finds_a_key_server_that_has_come_back_before_it_would_be_dialled_again():
    net = DomainNet()
    net.two()
    camera = net.client("camera at Victoria")
    net.advance(100)  # the wait between two attempts is a minute by now
    net.key_server()
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    assert camera.last(Published) == Published(1, 0, 0)


def test_frames_that_wait_for_a_key_server_are_refused_as_soon_as_it_is_not_found():
    net = DomainNet()
    net.two()
    camera = net.client("camera at Victoria")
    net.advance(20)
    net.hung = []
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    assert net.hung, "the key server is dialled for the new publisher"
    assert not camera.all_heard(Failed)
    assert not camera.all_heard(Ended)
    for running in net.hung:
        net.happen(running, DialFailed("key-server:7400"))
    net.settle()
    assert camera.ended_with(1) == "UNAVAILABLE-KEY-SERVER"
    assert not net.frames()


def test_a_subscriber_is_warned_as_soon_as_the_key_server_is_not_found():
    net = DomainNet()
    net.hung = []
    net.two()
    office = net.client("billing office")
    office.subscribe()
    assert not office.all_heard(Warned)
    for running in net.hung:
        net.happen(running, DialFailed("key-server:7400"))
    net.settle()
    assert office.last(Warned) == Warned(1, "UNAVAILABLE-KEY-SERVER", AWAY)


def test_a_node_that_is_no_key_server_is_told_by_what_was_wrong_with_it():
    net = DomainNet()
    net.broker(KEYS)  # the right key at the right address, and it hands out no keys
    net.two()
    camera = net.client("camera at Victoria")
    camera.advertise()
    assert camera.last(Failed).code == "UNAVAILABLE-KEY-SERVER"
    assert "at `key-server:7400` is of no use [PROTOCOL-" in camera.last(Failed).message


def test_a_type_whose_key_server_has_no_known_address_is_refused_with_what_to_configure():
    net = DomainNet()
    definition = replace(net.cast.definition.definition, sealing=Sealing(net.level, net.manager))
    net.cast = replace(net.cast, definition=sign_definition(definition, net.cast.keys["PITO"]))
    net.two()
    camera = net.client("camera at Victoria")
    camera.advertise()
    assert camera.last(Failed).code == "UNAVAILABLE-NO-KEYS"
    assert "name one as `keys` in the configuration" in camera.last(Failed).message


def test_a_key_server_that_refuses_is_told_with_its_code_and_without_its_words():
    net = DomainNet()
    net.key_server(limits=DomainLimits(types=0))
    _, met = net.two()
    office = net.client("billing office", at="Met broker")
    office.subscribe()
    net.advance(2)
    (refused,) = {note.fields["code"] for note in met.notes if note.event == "keys-not-granted"}
    assert office.last(Warned).code == "UNAVAILABLE-NO-KEYS"
    assert f"gives this broker no key [{refused}]" in office.last(Warned).message


def test_a_key_server_that_says_nothing_is_told_of_after_the_wait_and_not_again_and_again():
    net = DomainNet()
    net.hung = []
    ccs, _ = net.two()
    office = net.client("billing office", at="CCS broker")
    office.subscribe()
    assert not office.all_heard(Warned)
    net.advance(11)
    told = office.all_heard(Warned)
    assert [message.code for message in told] == ["UNAVAILABLE-KEYS-AWAITED"]
    net.advance(30)
    assert office.all_heard(Warned) == told
    assert [note.fields["code"] for note in ccs.notes if note.event == "impaired"] == [told[0].code]


def test_a_broker_without_a_right_asks_for_nothing():
    net = DomainNet()
    server = net.key_server()
    net.broker()
    camera = net.client("camera at Victoria")
    camera.advertise()
    assert not [
        message for _, to, message in net.carried if to == server.name and isinstance(message, JoinGroups)
    ]


def test_a_publisher_at_a_broker_without_a_right_is_told_so_and_nothing_leaves():
    net = DomainNet()
    net.key_server()
    ccs = net.broker()
    camera = net.client("camera at Victoria")
    camera.advertise()
    assert camera.last(Failed).code == "UNAVAILABLE-NO-KEYS"
    assert camera.last(Failed).message == (
        "this broker holds no key of `uk.gov.pito.Numberplate`: it has no certificate for it, or one that "
        f"transforms; issue one to `{ccs.key.principal}`, or connect to a broker that has one"
    )
    assert not net.frames()


def test_a_subscriber_whose_broker_holds_keys_of_other_attributes_alone_is_warned():
    net = DomainNet()
    net.key_server()
    net.entitle("CCS broker", READ, attributes=frozenset({LOCATION}))
    net.broker()
    office = net.client("billing office")  # it may see numberplates and moments
    office.subscribe()
    net.advance(1)
    assert office.last(Warned).code == "UNAVAILABLE-NO-KEYS"
    assert (
        "no key of any attribute of `uk.gov.pito.Numberplate` that you may see" in office.last(Warned).message
    )


def test_a_subscriber_whose_filter_asks_about_what_its_broker_cannot_read_is_warned():
    net = DomainNet()
    net.key_server()
    net.entitle("CCS broker", READ, attributes=frozenset({TIMESTAMP}))
    net.broker()
    office = net.client("billing office")
    office.subscribe()
    plate, long_ago = (
        Comparison(NUMBERPLATE, Operator.EQ, "AE05 XYZ"),
        Comparison(TIMESTAMP, Operator.GT, NOW),
    )
    office.subscribe(AllOf((plate, long_ago)))
    office.subscribe(AnyOf((plate, long_ago)))
    net.advance(1)
    (warned,) = office.all_heard(Warned)
    assert (warned.ref, warned.code) == (2, "UNAVAILABLE-NO-KEYS")
    assert "attributes of `uk.gov.pito.Numberplate` that your filter asks about" in warned.message


def test_a_broker_that_finds_one_of_its_seeds_is_not_cut_off():
    net = DomainNet()
    net.key_server()
    net.broker()
    met = net.broker("Met broker", seeds=["nobody", "CCS broker"])
    assert not [note for note in met.notes if note.event == "impaired"]


def test_a_broker_is_cut_off_when_the_last_neighbour_goes_and_its_seeds_are_silent():
    net = DomainNet()
    net.key_server()
    net.two()
    office = net.client("billing office", at="Met broker")
    office.subscribe()
    net.advance(5)
    assert not office.all_heard(Warned)
    net.crash("CCS broker")
    net.advance(20)
    assert [message.code for message in office.all_heard(Warned)] == ["UNAVAILABLE-CUT-OFF"]
    net.restart("CCS broker")
    net.advance(60)
    assert [message.code for message in office.all_heard(Warned)] == ["UNAVAILABLE-CUT-OFF", None]
    noted = [note for note in net.brokers["Met broker"].notes if note.event in {"impaired", "unimpaired"}]
    assert [note.fields.get("code") for note in noted] == ["UNAVAILABLE-CUT-OFF", None]


def test_a_broker_holds_the_keys_of_what_it_may_read_and_no_others():
    net = DomainNet()
    net.key_server()
    _, met = net.two(attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert [set(event) for event in office.events()] == [{NUMBERPLATE, TIMESTAMP}]
    groups = {group.uid for group in met.parts.keys.member.groups(net.type_id)}
    assert groups == {None, NUMBERPLATE, TIMESTAMP}
    assert b"Victoria" not in net.heard_by(met)


def test_a_right_that_ends_takes_the_keys_with_it():
    net = DomainNet()
    net.key_server()
    last = Instant(NOW + 30 * SECOND)
    _, met = net.two(validity=Validity(None, last))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("IN TIME"))
    net.advance(35)
    camera.publish(1, sighting("TOO LATE"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["IN TIME"]
    assert not met.parts.keys.member.groups(net.type_id)


def test_a_right_that_begins_brings_the_keys():
    net = DomainNet()
    net.key_server()
    first = Instant(NOW + 30 * SECOND)
    net.two(validity=Validity(first, None))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("TOO EARLY"))
    net.advance(35)
    camera.publish(1, sighting("IN TIME"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["IN TIME"]


def test_a_second_right_that_begins_brings_its_keys_too():
    net = DomainNet()
    net.key_server()
    first = Instant(NOW + 30 * SECOND)
    net.entitle("Met broker", READ, attributes=frozenset({LOCATION}), validity=Validity(first, None))
    net.two(attributes=frozenset({NUMBERPLATE, TIMESTAMP}))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting())
    net.advance(35)
    camera.publish(1, sighting())
    assert [LOCATION in event for event in office.events()] == [False, True]


def test_neighbours_show_each_other_their_rights_sealed():
    net = DomainNet()
    net.key_server()
    ccs, met = net.two()
    camera_and_reader(net)
    shown = [message for _, _, message in net.carried if isinstance(message, SealedRights)]
    assert shown
    (link,) = [one for one in ccs.parts.links.values() if one.peer == met.key.principal]
    assert link.rights[net.type_id]
    assert net.cast.type_name.name.encode() not in net.heard_by(met)


def test_a_drained_broker_says_goodbye_to_its_manager_and_forgets_its_keys():
    net = DomainNet()
    server = net.key_server()
    ccs, _ = net.two()
    camera_and_reader(net)
    ring = ccs.parts.seals.ring_of(net.type_id)
    net.drain("CCS broker")
    assert ring.newest is None
    assert not [link for link in net.wires if link[0] == "CCS broker" and net.wires[link][0] == server.name]


def test_a_broker_that_was_forked_seals_under_keys_of_its_own():
    """A45: the child of a process that sealed does not go on with its parent's counter."""
    net = DomainNet()
    net.key_server()
    ccs, _ = net.two()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting())
    ccs.parts.seals.sealer._process_id = lambda: 2
    camera.publish(1, sighting())
    marks = [getattr(frame, "frame", frame).mark for frame in net.frames()]
    assert len({mark.instance for mark in marks}) == len(marks) == 2
    assert len(office.events()) == 2


@pytest.mark.parametrize("later", [0, 10 * SECOND])
def test_looking_for_keys_again_costs_a_look_into_a_dictionary(later, monkeypatch):
    net = DomainNet()
    net.key_server()
    ccs, _ = net.two()
    desk: KeyRequests = ccs.parts.keys
    monkeypatch.setattr("maia.broker.keys.keys.standing", lambda *_: pytest.fail("worked out again"))
    turn = Turn(Instant(net.now + later))
    assert not desk.look_for(net.type_id, turn)
    assert not turn.effects
