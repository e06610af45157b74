"""What does a client say, when, and again when?"""

from __future__ import annotations

import pytest

from maia.client import (
    Accepted,
    Acknowledged,
    BrokerUnavailable,
    Connected,
    Delivered,
    Disconnected,
    Ended,
    RefusedByBroker,
    TypeReceived,
    Withdrawn,
)
from maia.client.requests import Requests
from maia.client.wallet import Wallet
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.predicates import ALWAYS
from maia.wire import (
    Advertise,
    Bye,
    Deliver,
    DialFailed,
    Failed,
    Hello,
    LinkId,
    LinkOpened,
    Ping,
    Pong,
    Publish,
    Published,
    Renew,
    RenewAll,
    Subscribe,
    Tick,
    TypeQuery,
    TypeReply,
    WakeAt,
    Withdraw,
    request_from_bytes,
)
from maia.wire.messages import Accepted as AcceptedMessage
from maia.wire.messages import Ended as EndedMessage
from maia.wire.requests import digest_of_request, digest_of_standing
from support.client_session import LEASE_S, NOW, STORY, Played


@pytest.fixture
def played() -> Played:
    made = Played()
    made.start()
    return made


def stands(played: Played):
    played.is_welcomed()
    entry = played.advertises()
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.notices()
    played.said(Hello)
    return entry


def test_a_request_made_before_the_welcome_is_sent_after_it(played):
    entry = played.advertises()
    assert played.said(Advertise) == []
    played.is_welcomed()
    (asked,) = played.said(Advertise)
    assert asked.id == entry.ref
    assert played.notices() == [Connected(STORY.principal("CCS"))]


def renewed_one_by_one(played):
    """Let half a lease pass, and let the broker say that something else stands there."""
    played.time_passes(LEASE_S / 2)
    (everything,) = played.said(RenewAll)
    played.broker_says(Failed(everything.id, "UNAVAILABLE-ENTRIES-DIFFER", "ask again"))


def test_all_that_stands_is_renewed_by_one_message(played):
    first = stands(played)
    second = played.advertises()
    played.broker_says(AcceptedMessage(second.ref, None))
    requests = {message.id: message.request for message in played.said(Advertise)}
    for _ in range(3):
        played.time_passes(LEASE_S / 2)
        (renewal,) = played.said(RenewAll)
        assert renewal.entries == 2
        played.broker_says(AcceptedMessage(renewal.id, None))
    standing = [(first.ref, first.asked), (second.ref, digest_of_request(requests[second.ref]))]
    assert renewal.digest == digest_of_standing(standing)
    assert played.notices() == [Accepted(second.ref, None)]


def test_nothing_is_renewed_where_nothing_stands(played):
    played.is_welcomed()
    entry = played.advertises()
    played.broker_says(Failed(entry.ref, "POLICY-DENIED", "no"))
    played.time_passes(LEASE_S / 2)
    assert played.said(RenewAll) == []


def test_a_quota_delays_a_renewal_and_multiplies_no_requests(played):
    stands(played)
    played.time_passes(LEASE_S / 2)
    (renewal,) = played.said(RenewAll)
    played.broker_says(Failed(renewal.id, "UNAVAILABLE-REQUEST-QUOTA", "slow down"))
    assert played.said(Advertise) == []
    played.time_passes(LEASE_S / 8)
    assert len(played.said(RenewAll)) == 1


def test_a_certificate_that_begins_or_ends_is_shown_with_a_request_of_its_own(played, monkeypatch):
    entry = stands(played)
    monkeypatch.setattr(Wallet, "steady_since", lambda _wallet, now: now)
    played.time_passes(LEASE_S / 2)
    (asked,) = played.said(Advertise)
    assert asked.id == entry.ref


def test_definitions_are_handed_over_once_for_each_link(played):
    entry = stands(played)
    renewed_one_by_one(played)
    (renewal,) = played.said(Advertise)
    assert (renewal.id, renewal.definitions) == (entry.ref, [])
    played.link_closes()
    played.time_passes(5)
    played.is_welcomed()
    assert played.said(Advertise)[0].definitions != []


def test_a_broker_that_has_forgotten_a_type_is_handed_it_again(played):
    entry = stands(played)
    renewed_one_by_one(played)
    played.said(Advertise)
    played.broker_says(Failed(entry.ref, "TYPE-UNKNOWN", "hand it over"))
    assert len(played.said(Advertise)[0].definitions) == 1
    assert played.notices() == []


def test_every_request_is_signed_anew_and_keeps_its_stream(played):
    entry = stands(played)
    asked = []
    for _ in range(3):
        renewed_one_by_one(played)
        (renewal,) = played.said(Advertise)
        asked.append(request_from_bytes(renewal.request).request)
        played.broker_says(AcceptedMessage(entry.ref, None))
    assert len({request.nonce for request in asked}) == 3
    assert {request.stream for request in asked} == {entry.stream}
    assert [request.at for request in asked] == sorted({request.at for request in asked})
    assert played.notices() == []


def test_the_runtime_is_asked_to_wake_the_client_before_the_lease_ends(played):
    stands(played)
    assert NOW < played.wakes_at() <= NOW + LEASE_S * 1_000_000 // 2


def test_frames_without_an_answer_go_out_again_under_their_numbers(played):
    entry = stands(played)
    for _ in range(3):
        played.publishes(entry)
    assert [frame.sequence for frame in played.said(Publish)] == [0, 1, 2]
    played.broker_says(Published(entry.ref, 0, 0))
    played.link_closes()
    played.publishes(entry)
    assert played.said(Publish) == []
    played.time_passes(5)
    played.is_welcomed()
    (again,) = played.said(Advertise)
    played.broker_says(AcceptedMessage(again.id, None))
    assert [frame.sequence for frame in played.said(Publish)] == [1, 2, 3]
    played.broker_says(Published(entry.ref, 3, 2))
    assert entry.under_way == {}
    assert played.session._requests.bytes_under_way == 0
    assert Acknowledged(entry.ref, 3, 2) in played.notices()


def test_only_so_much_is_under_way(played):
    entry = stands(played)
    for _ in range(4):
        assert played.session.has_room(entry)
        played.publishes(entry)
    assert not played.session.has_room(entry)
    played.broker_says(Published(entry.ref, 1, 0))
    assert played.session.has_room(entry)
    played.link_closes()
    assert not played.session.has_room(entry)


def test_a_frame_is_given_to_the_application_once():
    played = Played(who="billing office")
    played.start()
    played.is_welcomed()
    one, other = played.subscribes(), played.subscribes()
    played.broker_says(AcceptedMessage(one.ref, None), AcceptedMessage(other.ref, None))
    played.notices()

    def deliver(*refs: int, sequence: int) -> Deliver:
        return Deliver(
            list(refs), STORY.principal("CCS").key, b"s" * 16, bytes([sequence] * 16), sequence, 1, []
        )

    played.broker_says(deliver(one.ref, sequence=7), deliver(one.ref, sequence=7))
    played.broker_says(deliver(one.ref, other.ref, sequence=7), deliver(one.ref, sequence=6))
    given = [
        (notice.refs, int(notice.published_at))
        for notice in played.notices()
        if isinstance(notice, Delivered)
    ]
    assert given == [((one.ref,), 7), ((other.ref,), 7)]  # 6 was overtaken: order was promised, 6 was not
    # Across a reconnection too.
    played.link_closes()
    played.time_passes(5)
    played.is_welcomed()
    played.notices()
    played.broker_says(deliver(one.ref, sequence=7), deliver(one.ref, sequence=8))
    assert [int(notice.published_at) for notice in played.notices()] == [8]


def test_deliveries_for_strangers_are_dropped(played):
    played.is_welcomed()
    played.notices()
    played.broker_says(Deliver([99], STORY.principal("CCS").key, bytes(16), bytes(16), 5, 1, []))
    assert played.notices() == []


def test_a_refusal_reaches_the_application_with_the_brokers_code(played):
    played.is_welcomed()
    entry = played.advertises()
    played.notices()
    played.broker_says(Failed(entry.ref, "POLICY-SOMETHING", "no"))
    (gone,) = played.notices()
    assert isinstance(gone, Ended)
    assert isinstance(gone.problem, RefusedByBroker)
    assert (gone.problem.code, gone.problem.message) == ("POLICY-SOMETHING", "no")
    assert gone.problem.as_record() == {"code": "POLICY-SOMETHING", "message": "no"}


def test_a_busy_broker_is_asked_again_if_it_had_accepted_before(played):
    entry = stands(played)
    renewed_one_by_one(played)
    played.said(Advertise)
    played.broker_says(Failed(entry.ref, "UNAVAILABLE-REQUEST-QUOTA", "slow down"))
    assert played.notices() == []
    played.time_passes(LEASE_S / 4)
    assert len(played.said(Advertise)) == 1
    # A first request is refused instead: the application decides what to do.
    other = played.advertises()
    played.broker_says(Failed(other.ref, "UNAVAILABLE-REQUEST-QUOTA", "slow down"))
    (gone,) = played.notices()
    assert isinstance(gone.problem, BrokerUnavailable)


def test_a_refused_renewal_ends_what_stood(played):
    entry = stands(played)
    renewed_one_by_one(played)
    played.broker_says(Failed(entry.ref, "POLICY-EXPIRED", "too late"))
    (gone,) = played.notices()
    assert (gone.ref, gone.problem.code) == (entry.ref, "POLICY-EXPIRED")
    played.time_passes(LEASE_S)
    assert played.said(Advertise)[1:] == []  # only the renewal that was refused


def test_what_ended_with_its_lease_is_asked_for_again_once(played):
    entry = stands(played)
    for _ in range(3):
        played.publishes(entry)
    played.said(Publish)
    played.broker_says(EndedMessage([entry.ref], "UNAVAILABLE-LEASE-ENDED", "too late"))
    # The frames that were on their way find nothing standing.
    played.broker_says(*[EndedMessage([entry.ref], "INPUT-UNKNOWN-REF", "nothing here")] * 3)
    assert len(played.said(Advertise)) == 1
    played.broker_says(AcceptedMessage(entry.ref, None))
    assert [frame.sequence for frame in played.said(Publish)] == [0, 1, 2]


def test_what_ends_before_it_was_accepted_is_asked_for_again_later():
    """A122: a broker that lets a request wait for others ends it where a list of its issuer is late."""
    played = Played(who="billing office")
    played.start()
    played.is_welcomed()
    entry = played.subscribes()
    assert len(played.said(Subscribe)) == 1
    played.broker_says(EndedMessage([entry.ref], "POLICY-STALE", "no list for this moment"))
    played.time_passes(5)
    assert len(played.said(Subscribe)) == 1
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.time_passes(5)
    assert played.said(Subscribe) == []


def test_what_was_ended_for_good_is_not_asked_for_again(played):
    entry = stands(played)
    played.broker_says(EndedMessage([entry.ref], "POLICY-GRANT-EXPIRED", "it is over"))
    (gone,) = played.notices()
    assert gone.problem.code == "POLICY-GRANT-EXPIRED"
    played.link_closes()
    played.time_passes(5)
    played.is_welcomed()
    assert played.said(Advertise) == []


def test_a_withdrawal_ends_with_the_answer_or_with_the_link():
    played = Played(who="billing office")
    played.start()
    played.is_welcomed()
    one, other = played.subscribes(), played.subscribes()
    played.broker_says(AcceptedMessage(one.ref, None), AcceptedMessage(other.ref, None))
    played.notices()
    for entry in (one, other):
        played.effects += played.session.withdraw(entry, played.now)
    asked, _ = played.said(Withdraw)
    assert asked.ref == one.ref
    played.broker_says(AcceptedMessage(asked.id, None))
    assert played.notices() == [Withdrawn(one.ref)]
    played.link_closes()
    assert Withdrawn(other.ref) in played.notices()
    played.time_passes(5)
    played.is_welcomed()
    assert played.said(Subscribe) == []


def test_a_question_about_a_type_survives_a_reconnection(played):
    number, effects = played.session.ask_for_type(STORY.definition.definition.name, played.now)
    assert effects == []
    played.is_welcomed()
    assert [question.id for question in played.said(TypeQuery)] == [number]
    played.link_closes()
    played.time_passes(5)
    played.is_welcomed()
    assert [question.id for question in played.said(TypeQuery)] == [number]
    played.notices()
    played.broker_says(TypeReply(number, []), TypeReply(number, []))
    assert played.notices() == [TypeReceived(number, ())]


def test_addresses_take_turns_and_waiting_grows(played):
    played = Played(addresses=("127.0.0.1:1", "127.0.0.1:2"))
    played.start()
    waited = []
    for turn in range(6):
        assert played.dialled() == [played.addresses[turn % 2]]
        played.effects += played.session.handle(DialFailed(played.addresses[turn % 2]), played.now)
        waited.append((played.wakes_at() - played.now) / 1_000_000)
        played.time_passes(waited[-1])
    assert waited == sorted(waited)
    assert waited[-1] >= 16 * waited[0]


def test_a_broker_that_is_silent_for_a_lease_is_left(played):
    stands(played)
    played.time_passes(LEASE_S / 3)  # the answer to the request was heard since the welcome
    assert played.said(Ping) == []
    for pings in (0, 1, 1):
        assert not played.closed()
        played.time_passes(LEASE_S / 3)
        assert len(played.said(Ping)) == pings
    played.broker_says(Pong(0))
    for _ in range(4):
        played.time_passes(LEASE_S / 3)
        assert not played.closed()
    played.time_passes(LEASE_S / 3)
    assert played.closed()
    assert any(isinstance(notice, Disconnected) for notice in played.notices())


def test_a_client_that_was_stopped_for_long_reads_before_it_judges(played):
    stands(played)
    played.time_passes(100 * LEASE_S)
    assert not played.closed()
    assert len(played.said(Ping)) <= 1
    played.broker_says(Pong(0))
    played.time_passes(LEASE_S / 3)
    assert not played.closed()


def test_a_ping_is_answered(played):
    stands(played)
    played.broker_says(Ping(42))
    assert played.said(Pong) == [Pong(42)]


@pytest.mark.parametrize("message", [Renew(0, bytes(32)), Hello(1, b"", [], bytes(16), None), Ping(1)])
def test_what_brokers_say_to_each_other_is_not_said_to_a_client(played, message):
    if isinstance(message, Ping):
        played.link_opens()  # a ping is fine later, but this is before the greeting
    else:
        stands(played)
    played.broker_says(message)
    assert played.closed()


def test_a_goodbye_in_the_handshake_says_whether_to_try_again(played):
    played.link_opens()
    played.broker_says(Bye("POLICY-NO-CHAIN", "you may not connect"))
    (gone,) = played.notices()
    assert isinstance(gone, Disconnected)
    assert gone.is_final
    assert gone.problem.code == "POLICY-NO-CHAIN"
    played.time_passes(5)
    played.link_opens()
    played.broker_says(Bye("UNAVAILABLE-SHUTDOWN", "stopping"))
    (gone,) = played.notices()
    assert not gone.is_final


def test_links_that_nobody_asked_for_are_closed(played):
    stands(played)
    played.effects = []
    stranger = LinkOpened(LinkId(99), STORY.principal("Met"), None)
    played.effects += played.session.handle(stranger, played.now)
    assert played.closed()
    assert played.session.is_ready


def test_nothing_happens_after_closing(played):
    stands(played)
    played.effects += played.session.close(played.now)
    assert len(played.said(Bye)) == 1
    played.effects = []
    played.time_passes(1000)
    played.link_opens()
    assert played.effects == []


def test_a_request_that_no_credential_speaks_for_is_refused_before_it_is_sent(played):
    played.is_welcomed()
    with pytest.raises(PolicyRefusal) as refused:
        played.session.subscribe(played.known, ALWAYS, played.now)
    assert refused.value.code == "POLICY-NO-CHAIN"
    assert played.said(Subscribe) == []


def test_a_credential_that_expired_meanwhile_ends_what_it_spoke_for(played):
    entry = stands(played)
    played.link_closes()
    played.notices()
    played.now = Instant(played.now + 60 * 86_400_000_000)
    # The client's own right to connect has ended too, so that it cannot say hello; its requests are asked.
    requests: Requests = played.session._requests
    assert requests.ask_for_everything(LEASE_S, played.now) == []
    gone = next(notice for notice in played.notices() if isinstance(notice, Ended))
    assert (gone.ref, gone.problem.code) == (entry.ref, "POLICY-EXPIRED")


def test_stands_is_said_once_for_each_link(played):
    played.is_welcomed()
    entry = played.advertises()
    played.broker_says(AcceptedMessage(entry.ref, 12), AcceptedMessage(entry.ref, 12))
    assert [n for n in played.notices() if isinstance(n, Accepted)] == [Accepted(entry.ref, Instant(12))]


def test_a_moment_is_asked_for_again_when_the_runtime_has_woken_the_client_for_another(played):
    """An input may come when a moment has come, and before the runtime says so."""
    played.is_welcomed()
    played.effects.clear()
    first = played.now = Instant(played.now + LEASE_S * 1_000_000 // 3)
    played.broker_says(Pong(0))  # just in time: the alarm of this moment has not rung yet
    (asked,) = [effect.at for effect in played.effects if isinstance(effect, WakeAt)]
    assert asked > first
    played.effects.clear()
    played.effects += played.session.handle(Tick(), played.now)  # here it rings
    assert [effect.at for effect in played.effects if isinstance(effect, WakeAt)] == [asked]
