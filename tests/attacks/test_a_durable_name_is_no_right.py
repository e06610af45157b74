"""Who was away gets what they may see today, under their own name, and no other peer's."""

from __future__ import annotations

from maia.broker import BrokerLimits
from maia.credentials import Action, Validity
from maia.events import SECOND, Instant
from maia.predicates import ALWAYS, Comparison, Operator
from maia.sealing.member.past import PastReading
from maia.testing import NetClient, key_of, shown
from maia.wire.messages import Deliver, DeliverLogged, Missed, Seen, Subscribe, SubscribePart, Warned
from support.numberplate import (
    EVERY_KEY,
    LOCATION,
    NOW,
    NUMBERPLATE,
    READ,
    RECORDING,
    WRITE,
    Net,
    SealedNet,
    sighting,
)

DAY = 86_400 * SECOND


def recording_net(**limits: int) -> Net:
    net = Net()
    net.broker(recording=RECORDING, limits=BrokerLimits(**limits))
    return net


def publish(net: Net, *plates: str) -> NetClient:
    camera = net.client("camera at Victoria")
    camera.advertise()
    for plate in plates:
        camera.publish(1, sighting(plate))
    return camera


def until(moment: int) -> Validity:
    return Validity(Instant(NOW - DAY), Instant(moment))


def test_a_right_that_ended_while_its_holder_was_away_delivers_nothing() -> None:
    """A36: what was recorded while the subscriber was offline is not delivered on yesterday's right."""
    net = recording_net()
    right = net.cast.right(key_of("archive").principal, Action.SUBSCRIBE, validity=until(NOW + 100 * SECOND))
    archive = net.guest("archive", right)
    assert archive.was_accepted(archive.durable())
    archive.hang_up()
    publish(net, "A1")
    net.advance(200)
    back = net.guest("archive", right)
    ref = back.durable()
    assert back.code_of(ref) is not None
    assert not back.all_heard(DeliverLogged)
    assert not back.all_heard(Missed)


def test_a_right_that_ends_in_the_middle_of_catching_up_delivers_no_more() -> None:
    """A36: the right is asked about at delivery, not only when the subscription was made."""
    net = recording_net(durable_frames_under_way=1)
    right = net.cast.right(key_of("archive").principal, Action.SUBSCRIBE, validity=until(NOW + 30 * SECOND))
    archive = net.guest("archive", right)
    ref = archive.durable()
    publish(net, "A1", "B2", "C3")
    assert archive.positions() == [1]
    net.advance(31)
    archive.acknowledge(ref, 1)
    assert archive.positions() == [1]
    assert archive.ended_with(ref) is not None


def test_evidence_against_the_holder_ends_the_catching_up() -> None:
    """A36: when the broker learns that evidence has changed, what stands is decided anew first."""
    net = recording_net(durable_frames_under_way=1)
    right = net.cast.right(key_of("archive").principal, Action.SUBSCRIBE, validity=until(NOW + 30 * SECOND))
    archive = net.guest("archive", right)
    ref = archive.durable()
    publish(net, "A1", "B2")
    running = net.brokers["CCS broker"]
    net.now = Instant(NOW + 40 * SECOND)
    net.perform(running, running.broker.evidence_changed(net.now))
    net.settle()
    archive.acknowledge(ref, 1)
    assert archive.positions() == [1]
    assert archive.ended_with(ref) is not None


def test_a_peer_that_comes_back_with_less_sees_less_of_what_was_recorded_before() -> None:
    """A37: the View of today decides about events of yesterday; the wider one is gone."""
    net = recording_net()
    principal = key_of("archive").principal
    archive = net.guest("archive", net.cast.right(principal, Action.SUBSCRIBE))
    archive.durable()
    archive.hang_up()
    publish(net, "A1", "B2")
    narrow = net.cast.right(
        principal,
        Action.SUBSCRIBE,
        attributes=frozenset({NUMBERPLATE}),
        restriction=Comparison(NUMBERPLATE, Operator.EQ, "B2"),
    )
    back = net.guest("archive", narrow)
    back.durable()
    assert back.logged_events() == [{NUMBERPLATE: "B2"}]


def test_a_range_is_read_by_the_owner_of_its_name_under_its_right_of_now() -> None:
    """A69, A36: no other principal reads between another's positions, and the owner not beyond its right."""
    net = recording_net()
    right = net.cast.right(key_of("archive").principal, Action.SUBSCRIBE, validity=until(NOW + 100 * SECOND))
    archive = net.guest("archive", right)
    archive.durable(upto=0)
    publish(net, "A1", "B2")
    sent = [one.position for one in archive.all_heard(DeliverLogged)]
    thief = net.guest("thief", net.cast.right(key_of("thief").principal, Action.SUBSCRIBE))
    for name in ("mine", "other"):
        # With a name of its own, and with none, positions of another's cursor open nothing.
        asked = thief._ask(SubscribePart, Action.SUBSCRIBE, ALWAYS, {}, name, sent[0], sent[1])
        assert thief.code_of(asked) == "REFUSED-DURABLE-OTHER-LOG"
        thief.durable(name)
    assert not thief.all_heard(DeliverLogged)
    beyond = archive._ask(SubscribePart, Action.SUBSCRIBE, ALWAYS, {}, "mine", None, bytes(24))
    assert archive.code_of(beyond) == "REFUSED-DURABLE-OTHER-LOG"
    net.advance(200)
    back = net.guest("archive", right)
    assert (
        back.code_of(back._ask(SubscribePart, Action.SUBSCRIBE, ALWAYS, {}, "mine", None, sent[1]))
        is not None
    )
    assert not back.all_heard(DeliverLogged)


def test_what_was_published_under_a_right_stays_said_when_the_right_is_over() -> None:
    """A37: a publisher's right is judged when its frame is taken on; that moment is not changed later."""
    net = recording_net()
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    camera = publish(net, "A1")
    camera.withdraw(1)
    camera.hang_up()
    back = net.client("billing office")
    back.durable()
    assert [event[NUMBERPLATE] for event in back.logged_events()] == ["A1"]


def sealed_log(signer_until: int | None = None) -> tuple[SealedNet, NetClient]:
    """Record one sealed frame of a broker whose right to publish ends, while its reader is away."""
    net = SealedNet(recording=RECORDING)
    net.entitle("CCS broker", READ)
    net.entitle("CCS broker", WRITE, validity=None if signer_until is None else until(signer_until))
    net.hold(net.broker(), *EVERY_KEY)
    office = net.client("billing office")
    assert office.was_accepted(office.durable())
    office.hang_up()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    return net, office


def test_a_sealed_frame_is_judged_by_its_signer_s_right_when_it_was_recorded() -> None:
    """A37: the signer's right was there when the frame was recorded, and is over when it is delivered."""
    net, _ = sealed_log(signer_until=NOW + 50 * SECOND)
    net.advance(100)
    back = net.client("billing office")
    back.durable()
    assert [event[NUMBERPLATE] for event in back.logged_events()] == ["LC04 ABC"]


def test_a_sealed_frame_whose_signer_never_had_the_right_is_not_delivered_from_the_log_either() -> None:
    """A37, A49: recording proves nothing; the signer is asked about again, for the moment of recording."""
    net, _ = sealed_log(signer_until=NOW + 50 * SECOND)
    log = net.log()
    log.safe = [type(one)(one.position, Instant(NOW + 60 * SECOND), one.data) for one in log.safe]
    net.advance(100)
    net.restart("CCS broker")
    net.hold(net.brokers["CCS broker"], *EVERY_KEY)
    back = net.client("billing office")
    back.durable()
    assert not back.logged_events()
    assert back.last(Missed).code == "SEALING-SIGNER-NOT-ENTITLED"


def test_a_sealed_frame_whose_keys_are_gone_is_told_as_missed() -> None:
    """A37: keys that the owner let go of open nothing more, a peer that asks for it."""
    net, _ = sealed_log()
    net.restart("CCS broker")
    net.hold(net.brokers["CCS broker"], *EVERY_KEY, epochs=(2,))
    back = net.client("billing office")
    back.durable()
    for _ in range(60):
        net.advance(0.5)
    assert not back.all_heard(Missed)  # the manager might still answer
    assert back.last(Warned).code == "UNAVAILABLE-KEYS-AWAITED"
    past = net.brokers["CCS broker"].parts.keys.member.past
    past.learn(PastReading(net.type_id, epoch=1, after=0))  # it has, with nothing
    net.advance(1)
    assert not back.logged_events()
    assert back.last(Missed).code == "UNAVAILABLE-LOG-KEYS-GONE"
    assert back.last(Warned).code is None


def test_another_peers_name_is_another_cursor() -> None:
    """A69: a name without its owner's key finds nothing, moves nothing and learns nothing."""
    net = recording_net()
    office = net.client("billing office")
    ref = office.durable("nightly")
    publish(net, "A1")
    office.hang_up()
    thief = net.client("statistics office")
    theirs = thief.durable("nightly")
    assert thief.was_accepted(theirs)
    assert not thief.positions()
    thief.acknowledge(theirs, 1)
    thief.withdraw(theirs)
    back = net.client("billing office")
    back.durable("nightly", ref=ref)
    assert [event[NUMBERPLATE] for event in back.logged_events()] == ["A1"]


def test_a_reference_or_position_of_another_link_moves_nothing() -> None:
    """A69: references mean nothing on another link, and acknowledgements move their sender's cursor alone."""
    net = recording_net()
    office = net.client("billing office")
    ref = office.durable("nightly")
    publish(net, "A1", "B2")
    thief = net.client("statistics office")
    position = office.last(DeliverLogged).position
    thief.say(Seen(ref, position))
    plain, own = thief.subscribe(), thief.durable("nightly")
    thief.say(Seen(plain, position))
    thief.say(Seen(own, position))
    assert not thief.closed
    office.hang_up()
    back = net.client("billing office")
    back.durable("nightly")
    assert back.positions() == [1, 2]


def test_a_claim_of_having_seen_something_shows_nothing_of_the_log() -> None:
    """A69: a position is no key; it takes away from what its sender may see, and adds nothing."""
    net = recording_net()
    publish(net, "A1", "B2")
    office = net.client("billing office")
    office.durable(seen=0)
    assert not office.positions()


def test_a_request_signed_by_another_peer_names_no_cursor() -> None:
    """A69, A14: the owner of a cursor is who has proved a key on this link, not who signed a request."""
    net = recording_net()
    office = net.client("billing office")
    office.durable("nightly")
    publish(net, "A1")
    request = office.request(Action.SUBSCRIBE)
    office.hang_up()
    thief = net.client("statistics office")
    thief.say(Subscribe(1, request, shown(thief.credentials), [], "nightly", None))
    assert not thief.all_heard(DeliverLogged)
    assert thief.code_of(1) is not None or thief.bye is not None


def test_a_durable_filter_sees_through_no_restriction() -> None:
    """A69: what is read from the log goes through the same View as what is delivered at once."""
    net = recording_net()
    statistics = net.client("statistics office")
    plain = statistics.subscribe()
    statistics.durable()
    publish(net, "A1")
    assert statistics.logged_events() == statistics.events(plain)
    assert statistics.all_heard(Deliver)
    assert LOCATION in statistics.logged_events()[0]
    assert NUMBERPLATE not in statistics.logged_events()[0]
