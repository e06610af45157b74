"""Interests of sealed types: who is told what, who opens what, and what happens when keys change."""

from __future__ import annotations

import pytest

from maia.broker.interests.rekeying import TASKS_PER_STEP
from maia.broker.turn import Turn
from maia.credentials import Action, TestKind, statement_to_bytes
from maia.events import Frame
from maia.predicates import ALWAYS, Comparison, Operator
from maia.testing import Issuer, NetBroker, NetClient
from maia.types import SealingLevel, definition_to_bytes
from maia.wire.codec import encode
from maia.wire.effects import Tick
from maia.wire.messages import (
    Interest,
    Offer,
    Replica,
    Resync,
    SealedDoubted,
    Show,
)
from support.numberplate import (
    EVERY_KEY,
    LOCATION,
    NUMBERPLATE,
    SUSPECT,
    TIMESTAMP,
    Net,
    SealedNet,
    sightings,
)
from support.sealed_messages import sealed_of

THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)
AT_VICTORIA = Comparison(LOCATION, Operator.EQ, "Victoria")
LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


def the_three(
    level: SealingLevel = SealingLevel.ATTRIBUTE,
) -> tuple[SealedNet, NetBroker, NetBroker, NetBroker]:
    """Start three brokers with a camera and a detective; the first and the last hold all keys."""
    net = SealedNet(level)
    ccs, third, met = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    camera, detective = net.client("camera at Victoria"), net.client("Detective Smith", "Met broker")
    assert camera.was_accepted(camera.advertise(ref=1))
    assert detective.was_accepted(detective.subscribe(AT_VICTORIA, ref=1))
    return net, ccs, third, met


def client_of(net: SealedNet, who: str) -> NetClient:
    return next(one for one in net.clients.values() if one.key == net.cast.keys[who])


def live(net: SealedNet, seconds: int) -> None:
    """Let time pass, and both clients renew."""
    camera, detective = client_of(net, "camera at Victoria"), client_of(net, "Detective Smith")
    net.live(seconds, lambda: camera.advertise(ref=1), lambda: detective.subscribe(AT_VICTORIA, ref=1))


def carried(net: Net, kind: type) -> list:
    return [message for _, _, message in net.carried if isinstance(message, kind)]


@pytest.mark.parametrize("level", LEVELS)
def test_an_interest_reaches_the_publisher_s_broker_through_one_that_cannot_read_it(level):
    net, ccs, third, met = the_three(level)
    assert net.known(third, of=met) == [ALWAYS]
    (opened,) = net.known(ccs, of=third)
    assert set(opened.parts) == {THE_SUSPECT, AT_VICTORIA}
    frame = sightings((SUSPECT, "Victoria"), ("LC04 ABC", "Victoria"), (SUSPECT, "Soho"))
    assert net.rows_for(ccs, of=third, frame=frame) == [0]
    assert net.rows_for(third, of=met, frame=Frame(3, {})) == [0, 1, 2]


@pytest.mark.parametrize("level", LEVELS)
def test_no_filter_certificate_or_name_of_a_sealed_type_leaves_a_broker_in_the_open(level):
    net, _, third, _ = the_three(level)
    for kind in (Interest, Offer):
        assert carried(net, kind)
        assert carried(net, kind) == sealed_of(carried(net, kind))
    heard = net.heard_by(third)
    certificates = [signed.signature for signed in net.cast.certificates[6:]]
    names = [net.cast.type_name.name.encode(), SUSPECT.encode(), b"Victoria"]
    keys = [net.cast.principal(who).key for who in ("Detective Smith", "camera at Victoria")]
    for secret in (*certificates, *names, *keys):
        assert secret not in heard


def test_nothing_is_told_before_there_is_a_key():
    net = SealedNet()
    ccs, third, met = net.three()
    camera, detective = net.client("camera at Victoria"), net.client("Detective Smith", "Met broker")
    camera.advertise()
    detective.subscribe()
    assert not carried(net, Interest) + carried(net, Offer)
    net.hold(met, *EVERY_KEY)
    net.hold(ccs, *EVERY_KEY)
    assert net.known(ccs, of=third) == [THE_SUSPECT]


def test_a_broker_filters_on_the_parts_that_it_can_open():
    net, ccs, third, met = the_three()
    net.hold(third, None, LOCATION)
    (entry,) = net.entries(third, of=met)
    assert entry.predicate == AT_VICTORIA
    assert len(entry.marks) == 1
    frame = sightings((SUSPECT, "Victoria"), (SUSPECT, "Soho"))
    assert net.rows_for(third, of=met, frame=frame) == [0]
    assert net.known(ccs, of=third)[0] != AT_VICTORIA  # what is passed on is what came


def test_a_column_that_did_not_open_is_not_taken_for_one_that_is_not_there():
    net, _, third, met = the_three()
    net.hold(third, None, LOCATION)
    frame = sightings((SUSPECT, "Victoria"), (SUSPECT, "Soho"))
    blind = Frame(2, {uid: column for uid, column in frame.columns.items() if uid != LOCATION})
    assert net.rows_for(third, of=met, frame=blind, missing={LOCATION}) == [0, 1]
    assert net.rows_for(third, of=met, frame=frame, missing={NUMBERPLATE, TIMESTAMP}) == [0]


def test_a_subscription_that_ends_is_taken_back_everywhere():
    net, ccs, third, met = the_three()
    client_of(net, "Detective Smith").withdraw(1)
    assert net.entries(third, of=met) == net.entries(ccs, of=third) == []
    assert not met.parts.key_events.rekeying.sealed.placed


def test_an_advertisement_that_ends_is_taken_back_everywhere():
    net, ccs, third, _ = the_three()
    client_of(net, "camera at Victoria").withdraw(1)
    assert net.entries(ccs, of=third) == []
    assert not ccs.parts.routes.offered


def test_neighbours_agree_on_what_was_told_whatever_each_of_them_knows():
    net, *_ = the_three()
    live(net, 200)
    assert not carried(net, Resync)


# ------------------------------------------------------------ epochs


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_new_epoch_leaves_no_moment_without_the_interest(order):
    """Every message of a change of keys is looked at: the rows are wanted before, during and after."""
    net, ccs, third, met = the_three()
    net.hold(third, None, LOCATION)
    frame = sightings((SUSPECT, "Victoria"))
    before = {entry.id for entry in net.entries(ccs, of=third)}

    def all_is_wanted():
        assert net.rows_for(ccs, of=third, frame=frame) == [0]
        assert net.rows_for(third, of=met, frame=frame) == [0]

    net.after_each = all_is_wanted
    groups = (EVERY_KEY, (None, LOCATION), EVERY_KEY)
    for number in order:
        net.hold((ccs, third, met)[number], *groups[number], epochs=(1, 2))
        all_is_wanted()
    after = net.entries(ccs, of=third)
    assert len(after) == 1
    assert not before & {entry.id for entry in after}
    assert after[0].baggage.sealed.epoch == 2
    live(net, 200)
    assert not carried(net, Resync)
    all_is_wanted()


def test_a_broker_that_hears_of_an_epoch_late_carries_what_it_cannot_open_yet():
    net, ccs, third, met = the_three()
    net.hold(met, *EVERY_KEY, epochs=(1, 2))
    assert net.known(ccs, of=third) == [ALWAYS]
    net.hold(ccs, *EVERY_KEY, epochs=(1, 2))
    assert set(net.known(ccs, of=third)[0].parts) == {THE_SUSPECT, AT_VICTORIA}


def test_an_offer_is_sealed_anew_and_passed_on():
    net, ccs, third, _ = the_three()
    told = len(sealed_of(carried(net, Offer)))
    net.hold(ccs, *EVERY_KEY, epochs=(1, 2))
    offers = sealed_of(carried(net, Offer))[told:]
    assert [offer.proof.epoch for offer in offers] == [2]
    book = third.parts.routes.book
    assert [book.offers(hop, net.key) for hop in book.hops(net.key)] == [False, True]


def test_who_did_not_seal_anew_in_time_is_heard_no_more():
    """An interest of an epoch whose keys are gone, by somebody who has been put out since."""
    net, ccs, third, _ = the_three()
    net.hold(ccs, *EVERY_KEY, epochs=(2,))
    assert net.known(ccs, of=third) == [ALWAYS]  # for as long as a lease, in case it is only late
    live(net, 80)
    assert net.known(ccs, of=third) == []
    live(net, 120)
    assert not carried(net, Resync)


def test_an_interest_under_keys_that_are_still_known_lasts_for_the_drift_and_no_longer():
    """Its sealer may not have heard of the new epoch; or was put out, and must not want things for ever."""
    net, ccs, third, _ = the_three()
    ring = net.hold(ccs, *EVERY_KEY, epochs=(1, 2))
    assert ring is not None
    live(net, ring.terms.drift_s - 20)
    assert set(net.known(ccs, of=third)[0].parts) == {THE_SUSPECT, AT_VICTORIA}
    live(net, 40)
    assert net.known(ccs, of=third) == []
    assert not carried(net, Resync)


def test_what_is_known_whole_is_not_opened_again_because_keys_have_changed(monkeypatch):
    net, ccs, third, _ = the_three()
    with monkeypatch.context() as patched:
        patched.setattr(
            "maia.broker.interests.received.ReceivedInterests.understood",
            lambda *_: pytest.fail("it is known already"),
        )
        ccs.parts.key_events.rekeying.keys_changed(net.type_id, Turn(net.now))
    net.hold(ccs, None, LOCATION)
    assert net.known(ccs, of=third) == [AT_VICTORIA]
    net.hold(ccs, LOCATION)
    assert net.known(ccs, of=third) == [ALWAYS]
    net.hold(ccs, *EVERY_KEY)
    assert set(net.known(ccs, of=third)[0].parts) == {THE_SUSPECT, AT_VICTORIA}


def test_sealing_anew_is_done_in_steps():
    net = SealedNet()
    (ccs, *_) = net.three()
    net.hold(ccs, *EVERY_KEY)
    billing = net.client("billing office")
    for number in range(150):
        billing.subscribe(Comparison(NUMBERPLATE, Operator.EQ, f"plate {number}"))
    state = ccs.parts
    old = {placed.entry_id for placed in state.key_events.rekeying.sealed.placed.values()}
    assert len(old) == 150
    held = net.ring(*EVERY_KEY, epochs=(1, 2))
    state.key_events.rekeying.sealed.ring_of = lambda asked: held
    state.key_events.rekeying.keys_changed(net.type_id, Turn(net.now))
    assert (
        sum(placed.epoch == 2 for placed in state.key_events.rekeying.sealed.placed.values())
        == TASKS_PER_STEP
    )
    assert len(state.routes.book.entries(next(iter(state.routes.book.hops(net.key))), net.key)) == 150
    net.happen(ccs, Tick())
    net.advance(1)
    assert {placed.epoch for placed in state.key_events.rekeying.sealed.placed.values()} == {2}
    assert not old & {placed.entry_id for placed in state.key_events.rekeying.sealed.placed.values()}


# ------------------------------------------------------------ the change from plain to sealed


def test_a_type_that_becomes_sealed_takes_its_interests_along():
    net = SealedNet()
    ccs, third, met = net.three()
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    plain = [definition_to_bytes(net.plain)]
    camera, detective = net.client("camera at Victoria"), net.client("Detective Smith", "Met broker")
    camera.advertise(definitions=plain)
    detective.subscribe(definitions=plain)
    assert carried(net, Interest)
    for running in (ccs, met):
        state = running.parts
        state.types._sealings[net.type_id] = net.cast.definition.definition.sealing
        net.hold(running, *EVERY_KEY)
    assert net.known(ccs, of=third) == [THE_SUSPECT]
    for running in (ccs, third, met):
        assert net.type_id not in running.parts.routes.book.types()


# ------------------------------------------------------------ replicas


def test_a_rendezvous_that_is_gone_is_followed_by_one_that_knows_what_it_knew():
    net, ccs, third, met = the_three()
    net.advance(5)
    assert sealed_of(carried(net, Replica))
    for replica in sealed_of(carried(net, Replica)):
        assert SUSPECT.encode() not in encode(replica)
    net.crash(third.name)
    frame = sightings((SUSPECT, "Victoria"), (SUSPECT, "Soho"))
    assert net.rows_for(ccs, of=met, frame=frame) == [0]


def test_many_interests_are_replicated_as_everything():
    net, *_ = the_three()
    from maia.routing.table import replicas

    before, replicas.ENTRIES_PER_REPLICA_MAX = replicas.ENTRIES_PER_REPLICA_MAX, 0
    try:
        net.advance(30)
    finally:
        replicas.ENTRIES_PER_REPLICA_MAX = before
    wanted = sealed_of(carried(net, Replica))[-1].wanted
    assert [(one.filter, one.proof.box) for one in wanted] == [([], b"")]


# ------------------------------------------------------------ certificates that count only at times


def test_an_interest_that_waits_for_a_statement_is_registered_when_the_statement_comes():
    """The publisher's broker knows an old list of the issuer, the subscriber's edge has the new one."""
    net = SealedNet()
    ccs, third, met = net.three()
    for running in (ccs, met):
        net.hold(running, *EVERY_KEY)
    to, seen = net.cast.principal("billing office"), frozenset({NUMBERPLATE, TIMESTAMP})
    right = net.cast.grant(
        "CCS", to, net.cast.definition, Action.SUBSCRIBE, attributes=seen, test=TestKind.TIMED_CRL
    )
    camera, issuer = net.client("camera at Victoria"), Issuer(net, "CCS", at="Met broker")
    assert camera.was_accepted(camera.advertise(ref=1))
    ccs.parts.revocation.receive_statement(issuer.says.list_for(net.now, 10), Turn(net.now))
    net.advance(20)
    connect = net.cast.issued("CCS to billing office", Action.CONNECT)
    pool = (*net.cast.without("CCS to billing office"), connect, right)
    office = net.client("billing office", "Met broker", credentials=pool)
    office.say(Show(900, [], [statement_to_bytes(issuer.says.list_for(net.now, 3600))]))
    assert office.was_accepted(office.subscribe(ref=1)), office.heard
    net.advance(1)
    assert carried(net, SealedDoubted), "the cameras' broker refuses it"
    assert (len(net.known(third, of=met)), net.known(ccs, of=third)) == (1, [])
    issuer.vouch(3600)
    net.advance(1)
    assert len(net.known(ccs, of=third)) == 1
