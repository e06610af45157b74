"""Replicas: the rendezvous node's book in other hands."""

from __future__ import annotations

from maia.events import Instant
from maia.predicates import ALWAYS, parse_predicate
from maia.routing.table.hops import RouteEntry
from maia.routing.table.replicas import (
    ENTRIES_PER_REPLICA_MAX,
    Replica,
    ReplicaSender,
    ReplicaStore,
    ReplicaUpdate,
)
from maia.routing.table.routing_table import BookLimits, RoutingTable
from maia.testing.refusals import raises
from support.routing import entry_id, targets_of

TYPE = b"T" * 32
NOW = Instant(0)
LEASE_US = 60_000_000
FAST = RouteEntry(entry_id(1), parse_predicate("speed > 50"))


def rendezvous(parent: str | None = None) -> RoutingTable:
    book = RoutingTable(parent_of=lambda type_id: parent, limits=BookLimits(lease_us=LEASE_US))
    for hop in ("left", "right", "child"):
        book.hop_up(hop, NOW)
    book.receive_interest("child", TYPE, [FAST], [], NOW)
    book.local_subscribe(TYPE, entry_id(9), ALWAYS)
    return book


def sender(book: RoutingTable) -> ReplicaSender:
    return ReplicaSender(book, repeat_us=LEASE_US // 3)


def test_each_leaf_receives_of_each_neighbour_and_not_of_local_clients():
    updates = sender(rendezvous()).due(["left", "right"], NOW)
    replica = Replica(TYPE, "child", (FAST,), offers=False)
    assert updates == [ReplicaUpdate("left", replica), ReplicaUpdate("right", replica)]


def test_only_changes_are_sent_until_everything_is_due_again():
    book = rendezvous()
    replicas = sender(book)
    replicas.due(["left"], NOW)
    assert replicas.due(["left"], Instant(1)) == []
    book.receive_offer("child", TYPE, stands=True, baggage=None, now=NOW)
    assert replicas.due(["left"], Instant(2)) == [
        ReplicaUpdate("left", Replica(TYPE, "child", (FAST,), True))
    ]
    assert len(replicas.due(["left"], Instant(LEASE_US))) == 1


def test_what_is_gone_is_withdrawn():
    book = rendezvous()
    replicas = sender(book)
    replicas.due(["left"], NOW)
    book.hop_gone("child")
    assert replicas.due(["left"], Instant(1)) == [ReplicaUpdate("left", Replica(TYPE, "child", (), False))]


def test_a_broker_that_is_not_the_rendezvous_sends_no_replica():
    assert sender(rendezvous(parent="right")).due(["left"], NOW) == []


def test_a_leaf_receives_nothing_about_itself():
    assert sender(rendezvous()).due(["child"], NOW) == []


def test_a_neighbour_that_wants_very_much_is_said_to_want_everything():
    book = rendezvous()
    many = [
        RouteEntry(entry_id(n), parse_predicate(f"speed == {n}"))
        for n in range(100, 101 + ENTRIES_PER_REPLICA_MAX)
    ]
    book.receive_interest("child", TYPE, many, [FAST.id], NOW)
    (tell,) = sender(book).due(["left"], NOW)
    assert [entry.predicate for entry in tell.replica.entries] == [ALWAYS]


def test_the_follower_finds_whom_to_contact_and_what_they_want():
    store = ReplicaStore(lease_us=LEASE_US)
    replica = Replica(TYPE, "child", (FAST,), offers=True)
    store.heard("root", replica, NOW)
    assert store.promoted("somebody else", lambda type_id: True) == []
    assert store.promoted("root", lambda type_id: False) == []
    assert store.promoted("root", lambda type_id: True) == [replica]
    assert len(store) == 0


def test_replicas_end_unless_repeated():
    store = ReplicaStore(lease_us=LEASE_US)
    store.heard("root", Replica(TYPE, "child", (FAST,), offers=False), NOW)
    assert store.next_due() == LEASE_US + 1
    store.expire(Instant(LEASE_US + 1))
    assert store.promoted("root", lambda type_id: True) == []
    assert store.next_due() is None


def test_an_empty_replica_removes_the_last_one():
    store = ReplicaStore(lease_us=LEASE_US)
    store.heard("root", Replica(TYPE, "child", (FAST,), offers=False), NOW)
    store.heard("root", Replica(TYPE, "child", (), offers=False), NOW)
    store.heard("root", Replica(TYPE, "never seen", (), offers=False), NOW)
    assert len(store) == 0


def test_no_broker_sends_more_replicas_than_its_share_or_touches_anothers():
    store = ReplicaStore(lease_us=LEASE_US, per_sender_max=1)
    store.heard("root", Replica(TYPE, "child", (FAST,), offers=False), NOW)
    store.heard("root", Replica(TYPE, "child", (), offers=True), NOW)
    with raises("PROTOCOL-TOO-MANY-REPLICAS"):
        store.heard("root", Replica(TYPE, "another", (FAST,), offers=False), NOW)
    store.heard("liar", Replica(TYPE, "child", (), offers=False), NOW)
    assert len(store.promoted("root", lambda type_id: True)) == 1
    store.heard("root", Replica(TYPE, "another", (FAST,), offers=False), NOW)


def test_the_loss_of_the_rendezvous_loses_no_subscription():
    former, successor = rendezvous(), RoutingTable()
    store = ReplicaStore(lease_us=LEASE_US)
    for tell in sender(former).due(["successor"], NOW):
        store.heard("root", tell.replica, NOW)
    for replica in store.promoted("root", lambda type_id: True):
        successor.hop_up(replica.holder, NOW)
        successor.adopt(replica.holder, replica.type_id, replica.entries, replica.offers, NOW)
    assert targets_of(successor, TYPE, "publisher's side", {"speed": 60}) == {"child"}
