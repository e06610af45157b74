"""A signed request counts once, now, here, and for its signer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import Action, BadSignature, NetworkName, SignedKind
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.testing.refusals import raises
from maia.wire import ReplayMemory, request_from_bytes, request_to_bytes, verify_request
from support.wire import CLIENT, NETWORK, NOON, OTHER, OWNER, plate_is, signed

SECOND = 1_000_000
SKEW_S = 60
WINDOW = SKEW_S * SECOND


def make(request, memory, *, at=NOON, peer=None, network=NETWORK):
    """Make a request as the edge of a broker receives it: as bytes, over the link of `peer`."""
    heard = request_from_bytes(request_to_bytes(request))
    peer = request.signer if peer is None else peer
    return verify_request(heard, at=at, skew_s=SKEW_S, memory=memory, network=network, peer=peer)


def later(seconds: float) -> Instant:
    return Instant(NOON + int(seconds * SECOND))


@pytest.mark.parametrize("action", [Action.PUBLISH, Action.SUBSCRIBE])
@pytest.mark.parametrize("after_s", [0, 1, SKEW_S])
def test_a_replay_inside_the_window_is_refused(action, after_s):
    """A65: the same bytes again, at once or just before the window ends."""
    memory, request = ReplayMemory(), signed(action=action)
    make(request, memory)
    with raises("REQUEST-REPLAYED"):
        make(request, memory, at=later(after_s))


def test_a_replay_outside_the_window_is_refused_by_its_time_stamp():
    """A65: the memory may have forgotten it; the time stamp has not."""
    memory, request = ReplayMemory(), signed()
    make(request, memory)
    make(signed(at=later(200), nonce=b"m" * 16), memory, at=later(200))
    assert len(memory) == 1
    with raises("REQUEST-TOO-LATE"):
        make(request, memory, at=later(200))


@pytest.mark.parametrize("pages", [[None], range(64)], ids=["whole", "by page"])
def test_a_replay_after_a_restart_is_refused(pages):
    """A65: what was received before a restart is still known after it."""
    memory, request = ReplayMemory(), signed()
    make(request, memory)
    restarted = ReplayMemory.from_parts([memory.to_bytes(page) for page in pages])
    with raises("REQUEST-REPLAYED"):
        make(request, restarted, at=later(1))


def test_a_broker_that_lost_its_memory_accepts_nothing_from_before():
    """A65: without a memory the start of the broker is the horizon."""
    request = signed()
    with raises("REQUEST-STALE"):
        make(request, ReplayMemory(horizon=later(1)), at=later(1))
    make(signed(at=later(2)), ReplayMemory(horizon=later(1)), at=later(2))


def test_a_broker_cannot_replay_its_clients_request_at_another_broker():
    """A65: across brokers, the key that the link proved must be the one that signed."""
    request = signed()
    make(request, ReplayMemory())
    with raises("REQUEST-ANOTHER-PRINCIPAL"):
        make(request, ReplayMemory(), peer=OTHER.principal)


def test_a_request_cannot_be_replayed_in_another_network():
    """A65: the network is signed; a namesake of another owner is another network."""
    for network in (NetworkName(OTHER.principal, NETWORK.name), NetworkName(OWNER.principal, "uk.Fire")):
        with raises("REQUEST-ANOTHER-NETWORK"):
            make(signed(), ReplayMemory(), network=network)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"n" * 16, b"m" * 16),
        (b"%d" % NOON, b"%d" % (NOON + 1)),
        (b"9:subscribe", b"7:publish"),
        (b"s" * 16, b"t" * 16),
        (b"AE05", b"AE06"),
        (CLIENT.principal.key, OTHER.principal.key),
    ],
    ids=["nonce", "moment", "action", "stream", "filter", "signer"],
)
def test_a_replay_cannot_be_freshened(old, new):
    """A65: nonce, moment and everything else are signed, so none of them can be changed."""
    data = request_to_bytes(signed(wanted=plate_is("AE05 XYZ")))
    assert old in data
    changed = request_from_bytes(data.replace(old, new))
    memory = ReplayMemory()
    with pytest.raises(BadSignature):
        make(changed, memory)
    assert len(memory) == 0


def test_a_second_spelling_of_a_signature_is_no_second_request():
    """A65: the memory goes by principal and nonce, never by the bytes of the signature."""
    memory = ReplayMemory()
    make(signed(), memory)
    with raises("REQUEST-REPLAYED"):
        make(signed(wanted=plate_is("other")), memory)


def test_a_flood_of_requests_never_pushes_one_out():
    """A65: a full memory refuses what is new; an old request does not become new by it."""
    memory, request = ReplayMemory(entries_max=3), signed()
    make(request, memory)
    for number in range(2):
        make(signed(key=OTHER, nonce=bytes([number]) * 16), memory)
    with raises("UNAVAILABLE-REPLAY-MEMORY-FULL"):
        make(signed(key=OTHER, nonce=b"x" * 16), memory)
    with raises("REQUEST-REPLAYED"):
        make(request, memory)


def test_one_client_cannot_use_up_the_memory_of_all():
    """A65: the flood of one principal is refused to that principal alone."""
    memory = ReplayMemory(per_principal_max=2)
    for number in range(2):
        make(signed(nonce=bytes([number]) * 16), memory)
    with raises("REQUEST-TOO-MANY"):
        make(signed(nonce=b"x" * 16), memory)
    make(signed(key=OTHER), memory)


def test_no_peer_fills_the_memory_with_requests_that_they_did_not_sign():
    """A65: a forged request is forgotten, so it neither uses up room nor burns the victim's nonce."""
    memory, request = ReplayMemory(entries_max=1), signed()
    forged = replace(request, signature=OTHER.sign(SignedKind.REQUEST, request.body))
    for _ in range(5):
        with pytest.raises(BadSignature):
            make(forged, memory)
    make(request, memory)


@pytest.mark.parametrize("sign", [-1, 1], ids=["behind", "ahead"])
def test_the_edge_of_the_window_is_inside_and_a_microsecond_more_is_not(sign):
    """A78: a client's clock may differ by the skew, both ways, and by nothing more."""
    make(signed(at=Instant(NOON + sign * WINDOW)), ReplayMemory())
    with raises("REQUEST-TOO-LATE" if sign < 0 else "REQUEST-TOO-EARLY"):
        make(signed(at=Instant(NOON + sign * (WINDOW + 1))), ReplayMemory())


def test_a_request_from_the_future_is_remembered_until_it_is_past():
    """A78: dated at the far edge, it could be replayed for twice the skew, and is known all that time."""
    memory, request = ReplayMemory(), signed(at=later(SKEW_S))
    make(request, memory)
    for number, at in enumerate((1, SKEW_S, 2 * SKEW_S)):
        make(signed(key=OTHER, at=later(at), nonce=bytes([number]) * 16), memory, at=later(at))
        with raises("REQUEST-REPLAYED"):
            make(request, memory, at=later(at))
    with raises("REQUEST-TOO-LATE"):
        make(request, memory, at=Instant(later(2 * SKEW_S) + 1))


def test_a_clock_that_steps_back_brings_no_request_back():
    """A78: forgotten requests leave a horizon behind; their window never opens again."""
    memory, request = ReplayMemory(), signed()
    make(request, memory)
    make(signed(at=later(500), nonce=b"m" * 16), memory, at=later(500))
    assert memory.horizon == NOON
    with raises("REQUEST-STALE"):
        make(request, memory, at=NOON)
    restarted = ReplayMemory.from_parts([memory.to_bytes()])
    with raises("REQUEST-STALE"):
        make(request, restarted, at=NOON)


def test_a_clock_that_jumped_ahead_and_came_back_refuses_no_peer_for_long():
    """A78: the horizon follows the requests that were received, not the clock that was wrong."""
    memory = ReplayMemory()
    make(signed(), memory)
    year = later(365 * 86_400)
    with raises("REQUEST-TOO-LATE"):
        make(signed(nonce=b"m" * 16), memory, at=year)
    make(signed(key=OTHER, at=year), memory, at=year)
    make(signed(at=later(1), nonce=b"m" * 16), memory, at=later(1))


def test_two_brokers_whose_clocks_disagree_each_hold_their_own_window():
    """A78: a request that is fresh for one and too early for the other is decided by each clock."""
    request = signed(at=later(SKEW_S))
    make(request, ReplayMemory())
    with raises("REQUEST-TOO-EARLY"):
        make(request, ReplayMemory(), at=later(-1))


def test_a_leap_second_is_an_ordinary_second_of_skew():
    """A78: a clock that repeats a second accepts nothing twice and refuses no fresh request."""
    memory = ReplayMemory()
    make(signed(at=later(0.5)), memory, at=later(0.5))
    make(signed(at=later(0.5), nonce=b"m" * 16), memory, at=NOON)
    with raises("REQUEST-REPLAYED"):
        make(signed(at=later(0.5)), memory, at=NOON)


@pytest.mark.parametrize("end", [INSTANT_MIN, INSTANT_MAX])
def test_the_ends_of_time_are_moments_like_others(end):
    """A78: a window that would reach beyond the years 1 to 9999 ends there, without an error."""
    memory = ReplayMemory()
    make(signed(at=Instant(end)), memory, at=Instant(end))
    with raises("REQUEST-REPLAYED"):
        make(signed(at=Instant(end)), memory, at=Instant(end))


HOUR_S = 3600


def accepted_an_hour_ahead():
    """Accept a request by clocks that are an hour ahead for as long as it takes to forget it."""
    memory, wrong = ReplayMemory(), signed(at=later(HOUR_S))
    make(signed(nonce=b"a" * 16), memory)
    make(wrong, memory, at=later(HOUR_S))
    make(signed(at=later(HOUR_S + 300), nonce=b"b" * 16), memory, at=later(HOUR_S + 300))
    assert memory.horizon == later(HOUR_S)
    return memory, wrong


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_clock_that_was_an_hour_ahead_for_minutes_refuses_nobody_once_it_is_right(is_restarted):
    """A78: what was forgotten meanwhile closes that moment of the next hour, and not the time up to it."""
    memory, _ = accepted_an_hour_ahead()
    if is_restarted:
        memory = ReplayMemory.from_parts([memory.to_bytes()])
    make(signed(at=later(310), nonce=b"c" * 16), memory, at=later(310))
    make(signed(at=later(HOUR_S - 61), nonce=b"d" * 16), memory, at=later(HOUR_S - 61))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_accepted_and_forgotten_an_hour_ahead_is_refused_when_its_time_comes(is_restarted):
    """A65: its time stamp is good then, and it was accepted before."""
    memory, wrong = accepted_an_hour_ahead()
    if is_restarted:
        memory = ReplayMemory.from_parts([memory.to_bytes()])
    make(signed(at=later(310), nonce=b"c" * 16), memory, at=later(310))
    with raises("REQUEST-STALE"):
        make(wrong, memory, at=later(HOUR_S))
    with raises("REQUEST-STALE"):
        make(signed(nonce=b"a" * 16), memory, at=later(1))


def test_clocks_that_jump_for_ever_take_no_memory():
    """A65: of very many moments the oldest are closed together."""
    memory = ReplayMemory()
    for number in range(40):
        make(signed(at=later(1000 * number), nonce=bytes([number]) * 16), memory, at=later(1000 * number))
    assert len(memory.forgotten) <= 16
    assert len(memory.to_bytes()) < 1000
    for number in range(39):
        with raises("REQUEST-STALE"):
            make(signed(at=later(1000 * number), nonce=bytes([number]) * 16), memory, at=later(1000 * number))
