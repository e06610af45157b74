"""Who gets the keys of the past: decided from certificates, as of the time of publication."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from maia.errors import ProtocolViolation
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.keys.delivery import BadDelivery
from maia.sealing.keys.key_ring import content_key
from maia.sealing.keys.parcels import CERTIFICATES_MAX, unpack_past
from maia.sealing.keys.secrets import AtRest, Secret
from maia.sealing.member.member import KeyMember
from maia.sealing.member.past import PastReading
from maia.sealing.member.settings import MemberSettings
from maia.sessions.challenges import Challenged
from maia.spark.keys.content_keys import HeldKeys
from maia.spark.keys.reading_keys import fetch_reading_keys
from maia.testing.refusals import error_code, raises
from maia.types import SealingLevel
from maia.validity import answer_question
from maia.wire.codec import decode, encode
from maia.wire.effects import Dial, LinkClosed, LinkId, LinkOpened, Received, Send
from maia.wire.messages import HistoryKeysReply
from support.key_groups import (
    MANAGER,
    NETWORK,
    PLACE,
    PLATE,
    TERMS,
    TIME,
    WRITE,
    KeyNet,
    at,
    connects,
    grant,
    key_of,
    random_from,
)
from support.one_time_keys import TESTER, asked_each_time, revoked

LINK = LinkId(5000)


def ask(net, name, *pool, since=None, until=None, change=lambda data: data, by=TESTER):
    """Let somebody ask the server for the past; messages to it may be changed on the way.

    What has to be vouched for is vouched for by the holder of the key `by`.
    """
    key = key_of(name)
    member = KeyMember(
        key, MemberSettings(NETWORK, (connects(key), *pool)), random=random_from(name.encode())
    )
    reading = PastReading(net.event_type.type_id)
    reading.since, reading.until = since or reading.since, until or reading.until
    queue, is_asked = deque(member.need([net.event_type], net.now)), False
    while queue and not reading.is_done:
        match queue.popleft():
            case Dial(address=address):
                queue.extend(member.handle(LinkOpened(LINK, MANAGER.principal, address), net.now))
                served = net.server.handle(LinkOpened(LINK, key.principal, None), net.now)
                answer(member, queue, served, net, change)
            case Send(data=data):
                answer(member, queue, net.server.handle(Received(LINK, data), net.now), net, change)
        for notice in member.take_notices():
            if isinstance(notice, Challenged):
                answers = [answer_question(one, by) for one, _ in notice.questions if by is not None]
                why_not = None if by else ProtocolViolation("PROTOCOL-PAST-KEYS", "the tester says no")
                queue.extend(member.vouch(notice.id, answers, why_not))
            elif not is_asked:
                queue.extend(member.read_past(reading, net.now))
                is_asked = True
    net.server.handle(LinkClosed(LINK), net.now)
    return reading


def answer(member, queue, effects, net, change):
    for effect in effects:
        if isinstance(effect, Send) and effect.link == LINK:
            queue.extend(member.handle(Received(LINK, change(effect.data)), net.now))


def got(asker):
    assert asker.problem is None
    return {one.number: set(one.keys) for one in asker.epochs}


@pytest.fixture
def net():
    """Epoch 1 from noon, epoch 2 from 1000 s, epoch 3 from 2000 s, and so on, by the timer."""
    made = KeyNet(history=True)
    made.member("broker", grant(key_of("broker")), grant(key_of("broker"), actions=WRITE))
    return made


def test_a_reader_gets_the_content_keys_of_epochs_that_are_over(net):
    member = net.members["broker"]
    first = net.ring(member).secret(net.group(PLATE), 1)
    wanted = content_key(first, net.group(PLATE), 1)
    net.run_to(at(3500))
    asker = ask(net, "reader", grant(key_of("reader")))
    assert got(asker) == {
        1: {None, PLATE, TIME, PLACE},
        2: {None, PLATE, TIME, PLACE},
        3: {None, PLATE, TIME, PLACE},
    }
    assert asker.epochs[0].keys[PLATE].reveal() == wanted.reveal()
    assert asker.epochs[0].since == at(0)
    assert asker.epochs[0].ends == at(1000)
    assert asker.terms == TERMS
    assert wanted.reveal().hex() not in repr(asker.epochs)


def test_the_present_epoch_is_no_history(net):
    net.run_to(at(500))
    assert got(ask(net, "reader", grant(key_of("reader")))) == {}


def test_the_right_must_cover_the_whole_epoch_and_the_attribute(net):
    net.run_to(at(4500))
    reader = key_of("reader")
    assert got(ask(net, "reader", grant(reader, [PLATE], since=900, until=3000))) == {
        2: {None, PLATE},
        3: {None, PLATE},
    }
    joined = (grant(reader, [PLATE], until=1500), grant(reader, [PLATE, TIME], since=1500))
    assert got(ask(net, "reader", *joined)) == {
        1: {None, PLATE},
        2: {None, PLATE},
        3: {None, PLATE, TIME},
        4: {None, PLATE, TIME},
    }
    gap = (grant(reader, until=1500), grant(reader, since=1502))
    assert set(got(ask(net, "reader", *gap))) == {1, 3, 4}


def test_a_period_can_be_asked_for_and_long_histories_come_in_pages(net, monkeypatch):
    net.run_to(at(5500))
    assert set(got(ask(net, "reader", grant(key_of("reader")), since=at(1500), until=at(3000)))) == {2, 3, 4}
    monkeypatch.setattr("maia.sealing.groups.manager.PAGE_EPOCHS", 2)
    assert set(got(ask(net, "reader", grant(key_of("reader"))))) == {1, 2, 3, 4, 5}


def test_the_past_survives_a_restart_and_old_epochs_are_not_pruned(net):
    net.run_to(at(2500))
    before = ask(net, "reader", grant(key_of("reader"))).epochs
    net.restart_server()
    after = ask(net, "reader", grant(key_of("reader"))).epochs
    assert [(one.number, one.since, one.ends) for one in after] == [
        (one.number, one.since, one.ends) for one in before
    ]
    assert [one.keys[PLATE].reveal() for one in after] == [one.keys[PLATE].reveal() for one in before]


def test_a_manager_that_is_away_is_asked_when_it_is_back_and_the_link_may_be_lost_meanwhile(net):
    reader = net.member("reader", grant(key_of("reader")))
    net.run_to(at(2500))
    net.kill_server()
    away, lost = PastReading(net.type_id), PastReading(net.type_id)
    net.ask(reader, reader.node.read_past(away, net.now))
    assert not away.is_done
    net.start_server()
    net.run(61)
    assert set(got(away)) == {1, 2}
    net.weather = lambda message, _name, _up: 0 if isinstance(message, HistoryKeysReply) else 1
    net.ask(reader, reader.node.read_past(lost, net.now))
    net.weather = lambda _message, _name, _up: 1
    net.restart_server()
    net.run(61)
    assert set(got(lost)) == {1, 2}


def test_refusals(net):
    net.run_to(at(2500))
    reader = key_of("reader")
    assert got(ask(net, "reader")) == {}
    assert got(ask(net, "reader", grant(key_of("another")))) == {}
    plain = KeyNet()
    plain.member("broker", grant(key_of("broker")))
    plain.run_to(at(2500))
    refused = ask(plain, "reader", grant(reader)).problem
    assert error_code(refused) == "REFUSED-HISTORY-KEYS"
    assert "REFUSED-NO-HISTORY" in refused.message


def test_whoever_was_put_out_gets_nothing_of_the_past(net):
    """A44: eviction, revocation and a later return all count for the past."""
    net.run_to(at(2500))
    reader, right = key_of("reader"), grant(key_of("reader"))
    net.serve(net.server.revoke([right.id], net.now))
    assert got(ask(net, "reader", right)) == {}
    assert set(got(ask(net, "reader", grant(reader, until=9000)))) == {1, 2}
    net.serve(net.server.evict(reader.principal, net.now))
    assert error_code(ask(net, "reader", grant(reader, until=9000)).problem) == "REFUSED-HISTORY-KEYS"
    net.serve(net.server.readmit(reader.principal, net.now))
    assert got(ask(net, "reader", grant(reader, until=9000))) == {}
    net.run_to(at(4500))
    # The epoch in which it was let in again began before that.
    assert set(got(ask(net, "reader", grant(reader, until=9000)))) <= {4, 5}


def test_an_answer_is_for_one_session_and_one_reader(net):
    """A48: the parcel of one reader opens for nobody else, and a changed one for nobody at all."""
    net.run_to(at(2500))
    replies = []

    def listen(data):
        if isinstance(decode(data), HistoryKeysReply):
            replies.append(data)
        return data

    ask(net, "reader", grant(key_of("reader")), change=listen)
    (recorded,) = replies

    def instead(data):
        return recorded if isinstance(decode(data), HistoryKeysReply) else data

    assert isinstance(ask(net, "thief", change=instead).problem, BadDelivery)

    def flipped(data):
        found = decode(data)
        if not isinstance(found, HistoryKeysReply):
            return data
        sealed = found.sealed[:-1] + bytes([found.sealed[-1] ^ 1])
        return encode(HistoryKeysReply(found.id, found.type_id, found.terms, sealed, found.after))

    assert isinstance(ask(net, "reader", grant(key_of("reader")), change=flipped).problem, BadDelivery)


def test_a_reader_is_told_who_published_and_with_what(net):
    """Also of a broker that is gone, after a restart, and of certificates that were renewed since."""
    gone = key_of("gone")
    first, renewed = (grant(gone, actions=WRITE, until=until) for until in (4000, 9000))
    member = net.member("gone", first)
    net.run_to(at(500))
    net.show(member, first, renewed)
    net.run_to(at(1500))
    net.leave(member)
    net.run_to(at(9500))
    net.restart_server()
    asker = ask(net, "reader", grant(key_of("reader")))
    assert set(asker.writers) == {key_of("broker").principal, gone.principal}
    assert {one.id for one in asker.writers[gone.principal]} == {first.id, renewed.id}
    assert ask(net, "stranger").writers == {}
    net.serve(net.server.revoke([first.id], net.now))
    told = ask(net, "reader", grant(key_of("reader"))).writers
    assert {one.id for one in told[gone.principal]} == {renewed.id}
    net.serve(net.server.evict(gone.principal, net.now))
    assert set(ask(net, "reader", grant(key_of("reader"))).writers) == {key_of("broker").principal}


def test_who_published_is_forgotten_where_no_history_is_kept():
    plain = KeyNet()
    plain.member("broker", grant(key_of("broker"), actions=WRITE))
    assert not any("/writer/" in name for name in plain.kept)


def test_certificates_that_ended_first_are_forgotten_first():
    store, who = (
        ManagerStore(bytes(32), AtRest(Secret.fresh(random_from(b"r")), random_from(b"n"))),
        key_of("broker"),
    )
    shown = [grant(who, actions=WRITE, until=1000 + number) for number in range(CERTIFICATES_MAX + 3)]
    store.keep_writer(who.principal, shown)
    assert store.take_changes()
    store.keep_writer(who.principal, shown[-1:])
    assert not store.take_changes()
    assert list(store.writers[who.principal]) == [one.id for one in shown[3:]]


def test_bytes_that_are_no_past_keys_are_refused():
    for data in (b"", b"\xc0", b"\x91\x94\x01\x00\x00\x91\x92\xc0\xc4\x20" + bytes(32)):
        with raises("PROTOCOL-PAST-KEYS"):
            unpack_past(data)


def test_past_keys_serve_a_governed_table(net):
    net.run_to(at(2500))
    asker = ask(net, "reader", grant(key_of("reader"), [PLATE]))
    keys = HeldKeys.of_past(asker.epochs, asker.terms)
    held = keys.held(1, frozenset({None, PLATE, PLACE}))
    assert set(held.keys) == {None, PLATE}
    assert (held.first, held.last) == (at(-10), at(1010))
    assert keys.held(3, frozenset({None})) is None
    assert repr(keys) == "HeldKeys(epochs=[1, 2])"


def test_only_sealed_types_have_keys():
    from support.governed import typed

    key = key_of("reader")
    assert KeyMember(key, MemberSettings(NETWORK, ()), random=random_from(b"x")).need([typed()], at(0)) == []
    with raises("INPUT-NOT-SEALED"):
        asyncio.run(fetch_reading_keys(key, MemberSettings(NETWORK, ()), [typed()]))


def test_event_level_types_have_one_key():
    whole = KeyNet(SealingLevel.EVENT, history=True)
    whole.member("broker", grant(key_of("broker")))
    whole.run_to(at(1500))
    assert got(ask(whole, "reader", grant(key_of("reader"), [PLATE]))) == {1: {None}}


# ------------------------------------------------------------ rights that are vouched for each time


def test_keys_of_the_past_are_vouched_for_when_they_are_asked_for(net):
    """A30: whoever reads the past with such a right is asked about, once for all pages."""
    net.run_to(at(3500))
    asker = ask(net, "reader", asked_each_time(grant(key_of("reader"), [PLATE])))
    assert got(asker) == {number: {None, PLATE} for number in (1, 2, 3)}


def test_every_page_of_the_past_rests_on_one_answer(net, monkeypatch):
    monkeypatch.setattr("maia.sealing.groups.manager.PAGE_EPOCHS", 1)
    net.run_to(at(3500))
    asked = net.server.status(net.now)["counters"].get("maia_challenges_total", 0)
    asker = ask(net, "reader", asked_each_time(grant(key_of("reader"), [PLATE])))
    assert set(got(asker)) == {1, 2, 3}
    assert net.server.status(net.now)["counters"]["maia_challenges_total"] == asked + 2  # with this hour's


def test_nobody_reads_the_past_whom_the_tester_does_not_vouch_for(net):
    """A30: the reader is told the tester's own reason."""
    net.run_to(at(3500))
    asker = ask(net, "reader", asked_each_time(grant(key_of("reader"))), by=None)
    assert asker.epochs == []
    assert error_code(asker.problem) == "PROTOCOL-PAST-KEYS"


def test_a_revoked_right_is_not_even_asked_about(net):
    right = asked_each_time(grant(key_of("reader")))
    net.run_to(at(3500))
    net.serve(net.server.hear(revoked(1, right), net.now))
    assert got(ask(net, "reader", right)) == {}
    assert "maia_challenges_total" not in net.server.status(net.now)["counters"]


def test_a_right_that_was_made_known_in_the_middle_of_an_epoch_opens_what_follows():
    """X8: a member that comes later reads all that was published since it was added."""
    net = KeyNet(history=True)
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    right = grant(key_of("reader"), [PLATE], since=500)
    net.run_to(at(500))
    net.expect("reader", right)
    net.run_to(at(700))
    late = grant(key_of("late"), [PLATE], since=700)
    net.run_to(at(2600))
    assert got(ask(net, "reader", right)) == {number: {None, PLATE} for number in range(2, 6)}
    assert min(got(ask(net, "late", late))) == 3, "what began before a right does not open by it"
