"""Statement links: one request, one response, then records with numbers."""

from __future__ import annotations

import pytest

from maia.credentials.identity import IDENTITY_BYTES_MAX, guest_statement, verify_identity
from maia.sealing.two_message import (
    REQUEST_WINDOW_S,
    Records,
    Request,
    Responder,
    message_length,
)
from maia.testing.refusals import raises
from maia.wire.replays import ReplayMemory
from support.two_message import (
    ANNA,
    ANNAS,
    BROKER,
    BROKERS,
    COMMUNITY,
    EVE,
    NOON,
    NORWAY,
    OTHER_BROKER,
    UK,
    chance,
    link_identity,
    open_links,
    responder,
    seconds,
    statement,
)


def asked(identity=ANNAS, *, to=BROKER, now=NOON, seed="Anna"):
    return Request(identity, to.principal, now, chance(seed))


def answered(request, *, by=None, identity=BROKERS, now=NOON):
    return (by or responder()).respond(identity, request, now, chance("broker"))


def test_the_secret_is_in_no_representation():
    dialled, _ = open_links()
    assert "AESGCM" not in repr(dialled)
    assert "held" not in repr(dialled)


# ------------------------------------------------------------ the request


def test_a_replayed_request_is_refused_within_the_window_and_after_it():
    """A65: the memory refuses first, then the time stamp."""
    one, request = responder(), asked().data
    answered(request, by=one)
    with raises("REQUEST-REPLAYED"):
        answered(request, by=one, now=seconds(REQUEST_WINDOW_S))
    with raises("PROTOCOL-LINK-REQUEST-TIME"):
        answered(request, by=one, now=seconds(REQUEST_WINDOW_S + 1))


def test_a_clock_that_steps_back_brings_no_request_back_to_life():
    """A78"""
    one, request = responder(), asked().data
    answered(request, by=one)
    later = seconds(REQUEST_WINDOW_S + 1)
    answered(asked(now=later, seed="later").data, by=one, now=later)
    with raises("REQUEST-STALE"):
        answered(request, by=one)


def test_a_responder_that_was_restarted_refuses_what_was_signed_before():
    """A65: across a restart."""
    request = asked().data
    with raises("REQUEST-STALE"):
        answered(request, by=Responder(NOON), now=seconds(1))


@pytest.mark.parametrize("drift_s", [-REQUEST_WINDOW_S, REQUEST_WINDOW_S])
def test_clocks_may_differ_by_the_window_and_no_more(drift_s):
    """A78: just inside and just outside, to both sides."""
    identity = link_identity(start=seconds(-600))
    answered(asked(identity, now=seconds(drift_s)).data, identity=link_identity(BROKER, start=seconds(-600)))
    with raises("PROTOCOL-LINK-REQUEST-TIME"):
        answered(asked(identity, now=seconds(drift_s * 1.001)).data)


def test_a_request_is_for_one_responder_alone():
    """A96: replayed on another link."""
    other = link_identity(OTHER_BROKER, "broker-2@norway")
    with raises("CREDENTIAL-LINK-NOT-PROVED"):
        answered(asked().data, identity=other)


def test_a_request_that_comes_back_to_its_sender_is_refused():
    with raises("CREDENTIAL-LINK-NOT-PROVED", match="reflection"):
        answered(asked(to=ANNA).data, identity=ANNAS)


def test_a_statement_about_another_key_opens_nothing():
    """A96: a borrowed statement."""
    borrowed = link_identity(EVE, own=ANNAS.own)
    with raises("CREDENTIAL-LINK-NOT-PROVED"):
        answered(asked(borrowed).data)


def test_an_expired_statement_opens_nothing():
    """A96: after expiry; and before its beginning."""
    brief = link_identity(own=statement(until=seconds(5)))
    answered(asked(brief, now=seconds(5)).data, now=seconds(5))
    with raises("CREDENTIAL-IDENTITY-EXPIRED"):
        answered(asked(brief, now=seconds(6)).data, now=seconds(6))
    with raises("CREDENTIAL-IDENTITY-EXPIRED"):
        answered(asked(now=seconds(-1)).data, now=seconds(-1))


def test_a_statement_for_another_community_or_of_another_provider_opens_nothing():
    """A96, A12"""
    with raises("CREDENTIAL-IDENTITY-COMMUNITY"):
        answered(asked(link_identity(own=statement(community="coalition.south"))).data)
    with raises("CREDENTIAL-IDENTITY-PROVIDER"):
        answered(asked(link_identity(own=statement(by=UK))).data)


def test_a_guest_connects_with_the_statement_of_the_provider_that_is_trusted_here():
    """Figure 4: Xa shows the guest statement of domain b to a server of domain b."""
    home = verify_identity(
        ANNAS.own, subject=ANNA.principal, community=COMMUNITY, providers=[NORWAY.principal], now=NOON
    )
    guest = link_identity(own=guest_statement(home, UK, not_after=seconds(60)), providers=(UK,))
    in_uk = link_identity(BROKER, own=statement(BROKER, "broker@uk", by=UK), providers=(UK,))
    request = asked(guest)
    response, accepted = answered(request.data, identity=in_uk)
    assert accepted.peer.statement.home == NORWAY.principal
    assert accepted.peer.statement.not_after == seconds(60)
    assert request.open(response, NOON).principal == BROKER.principal


def test_a_missing_or_unsigned_request_is_refused():
    """A10, A11"""
    request = asked().data
    with raises("PROTOCOL-LINK-MESSAGE"):
        answered(b"")
    with raises("CREDENTIAL-LINK-NOT-PROVED"):
        answered(request[:43] + bytes(64) + request[107:])


def test_an_ephemeral_key_of_small_order_is_refused():
    identity = ANNAS

    class Zero:
        public = bytes(32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maia.sealing.two_message.SessionKey", lambda _random: Zero())
        request = asked(identity)
    with raises("PROTOCOL-LINK-MESSAGE", match="secret"):
        answered(request.data)


def test_the_memory_of_requests_is_bounded_by_signer_and_in_all():
    """A77: a full memory refuses what is new; it forgets nothing within the window."""
    one = Responder(seconds(-60), ReplayMemory(entries_max=3, per_principal_max=2))
    first = asked(seed="1").data
    for request in (first, asked(seed="2").data):
        answered(request, by=one)
    with raises("REQUEST-TOO-MANY"):
        answered(asked(seed="3").data, by=one)
    with raises("REQUEST-REPLAYED"):
        answered(first, by=one)
    eve = link_identity(EVE, "eve@norway")
    answered(asked(eve, seed="4").data, by=one)
    carol = link_identity(OTHER_BROKER, "carol@norway")
    with raises("UNAVAILABLE-REPLAY-MEMORY-FULL"):
        answered(asked(carol, seed="5").data, by=one)
    later = seconds(REQUEST_WINDOW_S + 1)
    answered(asked(carol, seed="6", now=later).data, by=one, now=later)


def test_what_is_refused_is_not_remembered():
    """A stranger that copies the head of a request takes its sender no room."""
    one, request = responder(), asked().data
    forged = request[:43] + bytes(64) + request[107:]
    with raises("CREDENTIAL-LINK-NOT-PROVED"):
        answered(forged, by=one)
    answered(request, by=one)


# ------------------------------------------------------------ the response


def test_a_request_takes_one_response():
    request = asked()
    response, _ = answered(request.data)
    request.open(response, NOON)
    with raises("PROTOCOL-LINK-MESSAGE"):
        request.open(response, NOON)


def test_a_responder_whose_statement_has_expired_is_refused():
    request = asked(link_identity(own=statement(until=seconds(7200))))
    response, _ = answered(request.data)
    with raises("CREDENTIAL-IDENTITY-EXPIRED"):
        request.open(response, seconds(3601))


# ------------------------------------------------------------ lengths and records


@pytest.mark.parametrize(
    ("head", "fits"),
    [
        (b"\xa1" + (104 + 1).to_bytes(2, "big"), True),
        (b"\xa1" + (104).to_bytes(2, "big"), False),
        (b"\xa1" + (104 + IDENTITY_BYTES_MAX).to_bytes(2, "big"), True),
        (b"\xa1" + (105 + IDENTITY_BYTES_MAX).to_bytes(2, "big"), False),
        (b"\xa2" + (144 + IDENTITY_BYTES_MAX).to_bytes(2, "big"), True),
        (b"\xa2" + (145 + IDENTITY_BYTES_MAX).to_bytes(2, "big"), False),
        (b"\x16\x03\x01", False),
        (b"", False),
    ],
)
def test_a_head_announces_no_more_than_a_statement_takes(head, fits):
    if fits:
        assert message_length(head) == int.from_bytes(head[1:], "big")
    else:
        with raises("PROTOCOL-LINK-MESSAGE"):
            message_length(head)


def test_a_key_protects_so_many_records_and_no_more():
    sending, receiving = Records(bytes(32), records_max=2), Records(bytes(32), records_max=2)
    for text in (b"one", b"two"):
        sealed = sending.seal(text)
        assert receiving.open(sealed[:2], sealed[2:]) == text
    with raises("UNAVAILABLE-LINK-RECORDS"):
        sending.seal(b"three")
    with raises("UNAVAILABLE-LINK-RECORDS"):
        receiving.open(sealed[:2], sealed[2:])


def test_nothing_follows_the_end():
    dialled, accepted = open_links()
    assert accepted.feed(dialled.seal(b"last") + dialled.seal_end()) == b"last"
    assert accepted.has_ended
    dialled, accepted = open_links()
    with raises("PROTOCOL-LINK-RECORD"):
        accepted.feed(dialled.seal_end() + dialled.seal(b"more"))
