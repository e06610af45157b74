"""Who was put out, or has not come in yet, reads and writes nothing outside its time."""

from __future__ import annotations

import pytest

from maia.events import Instant
from maia.sealing.keys.epochs import (
    EpochForked,
    EpochStatement,
    check_meant,
    commitment,
    epoch_from_bytes,
    epoch_to_bytes,
    sign_epoch,
)
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.sealing.keys.type_keys import KeysMissed, TypeKeys
from maia.testing.refusals import raises
from maia.wire.codec import decode
from maia.wire.messages import GroupKeys, GroupsEnded, Rekey
from support.key_groups import (
    MANAGER,
    NOON,
    PLATE,
    SECOND,
    SERVER,
    TERMS,
    WRITE,
    KeyNet,
    at,
    grant,
    key_of,
    random_from,
)


def later(moment: Instant, seconds: float) -> Instant:
    return Instant(moment + int(seconds * SECOND))


# ------------------------------------------------------------ A50: back-dated under an old key


@pytest.fixture
def after_an_eviction():
    """A group out of which a peer was put a hundred seconds after noon."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    mallory = net.member("mallory", grant(key_of("mallory"), actions=WRITE))
    stolen = net.ring(mallory).key(net.group(PLATE), 1).reveal()
    net.run_to(at(100))
    net.serve(net.server.evict(mallory.principal, net.now))
    return net, camera, stolen


def test_an_event_that_was_dated_back_is_believed_until_the_drift_is_over_and_no_longer(after_an_eviction):
    """A50: an evicted member seals under its old epoch and says that it did so before it was evicted."""
    net, camera, stolen = after_an_eviction
    ring = net.ring(camera)
    assert ring.key(net.group(PLATE), 1).reveal() == stolen  # for the events that are still on their way
    assert ring.opens(1, at(99), at(100 + TERMS.drift_s))
    assert not ring.opens(1, at(99), later(at(100 + TERMS.drift_s), 0.001))


def test_an_event_under_an_old_epoch_cannot_be_dated_after_its_end(after_an_eviction):
    """A50: nor does a moment after the eviction fit the epoch of before, beyond the bound on clocks."""
    net, camera, _ = after_an_eviction
    ring = net.ring(camera)
    assert ring.opens(1, at(100 + TERMS.back_dating_s), at(111))
    assert not ring.opens(1, at(100.001 + TERMS.back_dating_s), at(111))
    assert not ring.opens(2, at(100 - TERMS.back_dating_s - 1), at(111))


def test_an_event_from_the_future_fits_no_epoch(after_an_eviction):
    """A50: a key that is still good does not let its holder write ahead."""
    net, camera, _ = after_an_eviction
    assert not net.ring(camera).opens(2, at(111 + TERMS.back_dating_s), at(110))


def test_the_old_key_is_destroyed_everywhere_when_the_drift_is_over(after_an_eviction):
    """A50: then nothing opens with it any more, because no peer has it, on disk or in memory."""
    net, camera, _ = after_an_eviction
    old = net.ring(camera).secret(net.group(PLATE), 1)
    managers = net.server.groups_of(net.type_id)._groups.by_id[net.group(PLATE)].issued[0].secret
    net.run_to(at(101 + TERMS.drift_s))
    assert old.wiped
    assert managers.wiped
    assert not net.ring(camera).knows_epoch(1)
    assert not [name for name in net.kept if "/secret/" in name and name.endswith("/1")]


def test_old_keys_stay_with_the_manager_only_where_history_is_kept():
    """A50: a pipeline that reads the past asks the manager, who keeps old keys sealed and only then."""
    for keeps in (True, False):
        net = KeyNet(history=keeps)
        camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
        secret = net.ring(camera).secret(net.group(PLATE), 1).reveal()
        net.run_to(at(TERMS.refresh_s + TERMS.drift_s + 1))
        net.restart_server()
        found = net.server.groups_of(net.type_id).store.history(net.group(PLATE), 1)
        assert (found is not None and found.secret.reveal() == secret) is keeps
        assert not any(secret in data for data in net.kept.values())


# ------------------------------------------------------------ A54: before one's time, after it, and forks


def test_a_new_member_reads_no_earlier_epoch_and_a_leaver_no_later_one():
    """A54: neither from what it was handed, nor from everything that was ever sent to any peer."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    early = net.member("early", grant(key_of("early"), until=50))
    net.run_to(at(60))
    newcomer = net.member("newcomer", grant(key_of("newcomer"), since=55))
    assert net.epoch() == 3
    held = {number: net.ring(camera).key(net.group(PLATE), number) for number in (1, 2, 3)}
    assert [net.holds(newcomer, PLATE, number) for number in (1, 2, 3)] == [False, False, True]
    assert net.ring(newcomer).key(net.group(PLATE), 3) == held[3]
    assert not any(net.holds(early, PLATE, number) for number in (1, 2, 3))


def test_a_leaver_that_goes_on_listening_cannot_follow_into_the_next_epoch():
    """A54: it left with a valid right, kept everything, and overhears the message that goes to all."""
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    leaver = net.member("leaver", grant(key_of("leaver"), since=-1))
    net.run_to(at(TERMS.refresh_s))  # every peer has a place in the key trees
    keys = leaver.node._types[net.type_id]
    net.cut_off(leaver)
    net.run(5)
    net.member("guest", grant(key_of("guest"), since=TERMS.refresh_s + 1))
    overheard = [message for _, _, data in net.trace[-8:] if isinstance(message := decode(data), Rekey)]
    assert overheard
    assert leaver.principal not in net.server.groups_of(net.type_id).members(net.group(PLATE))
    with pytest.raises(KeysMissed):
        keys.follow(overheard[-1])
    assert keys.ring.key(net.group(PLATE), net.epoch()) is None


def test_a_member_refuses_an_epoch_that_does_not_follow_from_its_own():
    """A54: two managers with one key say different things; a member believes the one it has heard first."""
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    copied = dict(net.kept)
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    net.run_to(at(10))
    net.serve(net.server.evict(key_of("nobody").principal, net.now))
    net.member("one", grant(key_of("one"), since=5))  # epoch 2, here
    held = net.ring(reader).key(net.group(PLATE), 2)
    net.kill_server()
    net.run(5)
    net.start_server(copied)  # a second manager went on from epoch 1 ...
    other = net.member("other", grant(key_of("other"), since=12))
    net.run(120)
    assert net.ring(reader).key(net.group(PLATE), 2) == held  # ... and leads no peer astray
    # The second manager says so itself, as soon as it is shown what it has not signed.
    assert "UNAVAILABLE-GROUPS-FORKED" in {note.fields.get("code") for note in reader.notes}
    assert net.holds(other, PLATE, 2)


def test_a_manager_that_was_set_back_goes_on_from_where_its_members_are():
    """A54, A82: an old backup was restored; numbers do not go back, and no peer is stuck."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    backup = dict(net.kept)
    for number in range(3):
        net.run(10)
        net.member(f"guest {number}", grant(key_of(f"guest {number}"), since=10 * number + 5))
    assert net.epoch() == 4
    net.kill_server()
    net.brokers[SERVER].kept = dict(backup)
    net.start_server()
    net.run(130)
    assert net.epoch() > 4
    assert net.ring(reader).newest == net.ring(camera).newest == net.epoch()
    newest = net.epoch()
    assert net.ring(reader).key(net.group(PLATE), newest) == net.ring(camera).key(net.group(PLATE), newest)


def test_a_secret_that_the_manager_did_not_commit_itself_to_is_refused():
    """A54: a peer that sits on the link cannot hand a member a key of its own choice."""
    net = KeyNet()
    group = net.group(PLATE)
    meant, other = (Secret.fresh(random_from(seed)) for seed in (b"meant", b"other"))
    said = EpochStatement(net.type_id, 1, NOON, {group: commitment(meant, group, 1)}, None)
    check_meant(meant, group, said)
    with raises("PROTOCOL-SECRET-NOT-MEANT"):
        check_meant(other, group, said)
    with raises("PROTOCOL-SECRET-NOT-MEANT"):
        check_meant(meant, net.group(), said)


def test_an_epoch_by_any_peer_but_the_manager_is_refused():
    """A54: a member forges an epoch, or replays one of another type."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    head = net.server.groups_of(net.type_id).head
    forged = sign_epoch(EpochStatement(net.type_id, 2, at(1), {}, head.digest), key_of("mallory"))
    keys = TypeKeys(net.type_id, MANAGER.principal, epoch_to_bytes(head))
    with pytest.raises(Exception, match="does not run the key groups"):
        keys.follow(Rekey(net.type_id, epoch_to_bytes(forged), []))
    rival = sign_epoch(EpochStatement(net.type_id, 2, at(1), {}, bytes(32)), MANAGER)
    with pytest.raises(EpochForked):
        keys.follow(Rekey(net.type_id, epoch_to_bytes(rival), []))
    assert net.ring(camera).newest == 1


def test_keys_that_were_sealed_to_one_session_open_in_no_other():
    """A54: a delivery is replayed to the same member in its next session, and to another member."""
    net = KeyNet()
    reader = net.member("reader", grant(key_of("reader")))
    other = net.member("other", grant(key_of("other")))
    recorded = [
        data
        for name, way, data in net.trace
        if name == "reader" and way == "to member" and isinstance(decode(data), GroupKeys)
    ]
    net.restart_member(reader)
    for victim in (reader, other):
        known = len(victim.notes)
        net.say_to(victim, recorded[0])
        assert "PROTOCOL-KEY-DELIVERY" in {note.fields.get("code") for note in victim.notes[known:]}
        net.run(5)
        assert net.holds(victim, PLATE)


def test_a_member_that_was_put_out_and_never_received_of_it_finds_out():
    """A54: the message that shuts it out is lost; it compares epochs, asks, and destroys what it holds."""
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    reader = net.member("reader", grant(key_of("reader")))
    net.weather = lambda message, _name, _up: 0 if isinstance(message, GroupsEnded) else 1
    net.serve(net.server.evict(reader.principal, net.now))
    assert net.holds(reader, epoch=1)
    net.run(60)
    assert not net.holds(reader, epoch=1)


# ------------------------------------------------------------ A82: restarts


def test_a_restart_keeps_epochs_secrets_and_holders():
    """A82: the server is killed between any two messages and goes on with the same epoch and keys."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    reader = net.member("reader", grant(key_of("reader"), until=100))
    before = net.ring(camera).key(net.group(PLATE), 1)
    net.restart_server()
    net.run(5)
    assert net.epoch() == 1
    newcomer = net.member("newcomer", grant(key_of("newcomer"), since=-1))
    assert net.ring(newcomer).key(net.group(PLATE), 1) == before
    net.leave(reader)
    net.restart_server()
    net.run_to(at(101))
    assert net.epoch() == 2  # it remembered that a peer who left holds the key until then


def test_a_restart_keeps_evictions_and_revocations():
    """A82: who was put out is out after a restart, with the same certificates and with new ones."""
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    evicted = net.member("evicted", grant(key_of("evicted")))
    revoked = net.member("revoked", grant(key_of("revoked")))
    net.serve(net.server.evict(evicted.principal, net.now))
    net.serve(net.server.revoke([one.id for one in revoked.pool], net.now))
    net.restart_server()
    net.run(5)
    net.show(evicted, *evicted.pool, grant(key_of("evicted"), since=-5))
    net.restart_member(revoked)
    net.run(100)
    assert not net.holds(evicted)
    assert not net.holds(revoked)


def test_a_member_that_restarts_is_not_led_back_to_an_older_epoch():
    """A82: it has kept the newest epoch, so a manager's old answers are no news to it."""
    net = KeyNet()
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    reader = net.member("reader", grant(key_of("reader"), since=-1))
    (kept,) = reader.kept.values()
    assert epoch_from_bytes(kept).statement.number == 1
    net.run(2)
    net.member("guest", grant(key_of("guest"), since=1, until=20))
    net.run_to(at(30))
    assert epoch_from_bytes(next(iter(reader.kept.values()))).statement.number == net.epoch() == 3
    net.restart_member(reader)
    assert net.ring(reader).newest == 3


def test_a_restart_with_another_key_begins_new_secrets_in_a_later_epoch():
    """A82: what cannot be opened is not replaced by an older secret, and numbers go on."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    for name in [one for one in net.kept if "/secret/" in one]:
        net.kept[name] = bytes(len(net.kept[name]))
    net.restart_server()
    net.run(5)
    assert net.epoch() == 2
    assert net.holds(camera, PLATE)
    dropped = [note for note in net.notes if note.event == "kept-dropped"]
    assert dropped


def test_an_older_secret_does_not_take_the_place_of_one_that_cannot_be_read():
    """A82: only the newest records are damaged; what was good before an eviction must not come back."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    evicted = net.member("evicted", grant(key_of("evicted")))
    stolen = net.ring(evicted).secret(net.group(PLATE), 1).reveal()
    net.run(1)
    net.serve(net.server.evict(evicted.principal, net.now))
    for name in [one for one in net.kept if "/secret/" in one and one.endswith("/2")]:
        net.kept[name] = bytes(len(net.kept[name]))
    net.restart_server()
    net.run(5)
    assert net.epoch() == 3
    assert net.ring(camera).secret(net.group(PLATE), 3).reveal() != stolen


def test_a_right_that_ended_during_a_restart_is_noticed_whatever_became_of_its_group():
    """A82: records of a group are gone, a member of it comes and goes: the server lives on."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.member("reader", grant(key_of("reader"), [PLATE], until=50))
    for name in [one for one in net.kept if f"/secret/{PLATE}/" in one]:
        del net.kept[name]
    net.kill_server()
    net.start_server()
    net.run_to(at(60))
    assert net.holds(camera, PLATE)


def test_a_publisher_that_receives_nothing_of_its_manager_stops_sealing_when_a_refresh_is_overdue():
    """A82: a manager that is down for ever does not leave publishers sealing for readers of long ago."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.kill_server()
    net.run_to(at(TERMS.refresh_s + TERMS.overdue_s))
    assert net.ring(camera).sealing_epoch(net.now) == 1
    net.run(1)
    assert net.ring(camera).sealing_epoch(net.now) is None


def test_a_ring_knows_no_key_of_another_type():
    """A48: nothing of one type ends up on the ring of another."""
    net = KeyNet()
    ring = KeyRing(bytes(32))
    ring.learn(1, since=NOON)
    with pytest.raises(Exception, match="another type"):
        ring.hold(net.group(), 1, Secret.fresh(random_from(b"x")))
