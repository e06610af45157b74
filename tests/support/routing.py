"""A network of routing books in memory: links that keep their order, and nothing else that is kind.

Messages wait in a queue per direction and are delivered in any order between
queues. Parents are chosen freely among the brokers that stand higher in the
order of the type, which is all that the overlay promises. `check` compares
the whole network with global knowledge once nothing is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from random import Random

from maia.events import Event, Instant, frame_of, kind_of
from maia.predicates import Predicate, admits, covers, provably_empty
from maia.routing.table.hops import (
    LOCAL,
    Hop,
    InterestUpdate,
    OfferUpdate,
    Renewal,
    ResyncRequest,
    RouteEntry,
    RouteUpdate,
)
from maia.routing.table.routing_table import BookLimits, RoutingTable

LEASE_US = 60_000_000
TYPES = (b"A" * 32, b"B" * 32)


def entry_id(number: int) -> bytes:
    """Return an id that says its number."""
    return number.to_bytes(16, "big")


class SimulatedNetwork:
    """Brokers that are no more than their routing books."""

    def __init__(self, brokers: int, random: Random) -> None:
        self.random = random
        self.now = Instant(0)
        self.books: dict[int, RoutingTable] = {}
        self.queues: dict[tuple[int, int], deque[RouteUpdate]] = {}
        self.parents: dict[tuple[int, bytes], int | None] = {}
        self.subscriptions: dict[tuple[int, bytes, bytes], Predicate] = {}
        self.publishers: dict[tuple[int, bytes], set[int]] = {}
        # The order of brokers, type by type: the highest that is up is the rendezvous node.
        self.rank = {type_id: random.sample(range(brokers), brokers) for type_id in TYPES}
        self.delivered_tells = 0
        for broker in range(brokers):
            self.start(broker)

    # ------------------------------------------------------------ what happens

    def start(self, broker: int) -> None:
        """Start a broker with an empty book, and connect it with all others."""
        self.books[broker] = RoutingTable(
            parent_of=lambda type_id: self.parents.get((broker, type_id)),
            limits=BookLimits(lease_us=LEASE_US),
        )
        for other in [other for other in self.books if other != broker]:
            self.connect(broker, other)
        self.choose_parents()

    def change_keys(self, broker: int) -> None:
        """Let a broker learn some keys and forget others; these filters are not sealed."""

    def crash(self, broker: int) -> None:
        """Stop a broker, its clients and its links."""
        for other in [other for other in self.books if other != broker]:
            self.cut(broker, other)
        del self.books[broker]
        self.subscriptions = {key: one for key, one in self.subscriptions.items() if key[0] != broker}
        self.publishers = {key: one for key, one in self.publishers.items() if key[0] != broker}
        self.choose_parents()

    def connect(self, one: int, other: int) -> None:
        """Bring a link up; each side hears of it when it hears of it, but before anything said on it."""
        self.queues[(one, other)], self.queues[(other, one)] = deque(), deque()
        self._send(one, self.books[one].hop_up(other, self.now))
        self._send(other, self.books[other].hop_up(one, self.now))

    def cut(self, one: int, other: int) -> None:
        """Cut a link, with all that is under way on it."""
        del self.queues[(one, other)], self.queues[(other, one)]
        self._send(one, self.books[one].hop_gone(other))
        self._send(other, self.books[other].hop_gone(one))

    def subscribe(self, broker: int, type_id: bytes, number: int, predicate: Predicate) -> None:
        self.subscriptions[(broker, type_id, entry_id(number))] = predicate
        self._send(broker, self.books[broker].local_subscribe(type_id, entry_id(number), predicate))

    def unsubscribe(self, broker: int, type_id: bytes, number: int) -> None:
        self.subscriptions.pop((broker, type_id, entry_id(number)), None)
        self._send(broker, self.books[broker].local_unsubscribe(type_id, entry_id(number)))

    def advertise(self, broker: int, type_id: bytes, number: int) -> None:
        self.publishers.setdefault((broker, type_id), set()).add(number)
        self._send(broker, self.books[broker].local_advertise(type_id, number))

    def unadvertise(self, broker: int, type_id: bytes, number: int) -> None:
        self.publishers.get((broker, type_id), set()).discard(number)
        self._send(broker, self.books[broker].local_unadvertise(type_id, number))

    def choose_parents(self) -> None:
        """Let every broker choose some parent that stands higher, for every type."""
        for broker, book in self.books.items():
            for type_id in TYPES:
                higher = self.higher(broker, type_id)
                self.parents[(broker, type_id)] = self.random.choice(higher) if higher else None
            self._send(broker, book.parents_changed())

    def higher(self, broker: int, type_id: bytes) -> list[int]:
        order = self.rank[type_id]
        linked = [one for one in self.books if (broker, one) in self.queues]
        return sorted(one for one in linked if order.index(one) > order.index(broker))

    def partition(self, side: set[int]) -> None:
        """Cut every link between one side and the other; each chooses a rendezvous node of its own."""
        for one, other in sorted(self.queues):
            if one in side and other not in side:
                self.cut(one, other)
        self.choose_parents()

    def heal(self) -> None:
        """Connect everybody with everybody again."""
        for one in sorted(self.books):
            for other in sorted(self.books):
                if one < other and (one, other) not in self.queues:
                    self.connect(one, other)
        self.choose_parents()

    def lose_one_tell(self) -> None:
        """Lose something that a link should have kept: a bug of ours, which renewals must find."""
        waiting = [queue for queue in self.queues.values() if queue]
        if waiting:
            self.random.choice(waiting).popleft()

    def tick(self, seconds: int) -> None:
        """Let time pass, and everybody do what is due."""
        self.now = Instant(self.now + seconds * 1_000_000)
        for broker, book in self.books.items():
            self._send(broker, book.renew_due(self.now))
            self._send(broker, book.expire(self.now))

    # ------------------------------------------------------------ delivery

    def deliver(self, steps: int | None = None) -> None:
        """Deliver that many tells, or all, from any queue at any time."""
        done = 0
        while steps is None or done < steps:
            waiting = sorted(pair for pair, queue in self.queues.items() if queue)
            if not waiting:
                return
            sender, receiver = self.random.choice(waiting)
            tell = self.queues[(sender, receiver)].popleft()
            self._send(receiver, self.hear(self.books[receiver], sender, tell))
            done += 1
            self.delivered_tells += 1
            assert done < 20_000, "the network does not come to rest"

    def hear(self, book: RoutingTable, sender: int, tell: RouteUpdate) -> list[RouteUpdate]:
        match tell:
            case InterestUpdate(_, type_id, add, remove):
                return book.receive_interest(sender, type_id, add, remove, self.now)
            case OfferUpdate(_, type_id, stands, baggage):
                return book.receive_offer(sender, type_id, stands, baggage, self.now)
            case Renewal(_, entries, digest):
                return book.receive_renewal(sender, entries, digest, self.now)
            case ResyncRequest():
                return book.receive_resync(sender, self.now)

    def _send(self, sender: int, updates: Iterable[RouteUpdate]) -> None:
        for tell in updates:
            assert isinstance(tell.hop, int)
            self.queues[(sender, tell.hop)].append(tell)

    # ------------------------------------------------------------ what must hold at rest

    def check(self, events: Iterable[Event]) -> None:
        """Compare the network, once it is at rest, with what somebody who knows everything would say."""
        self.deliver()
        for event in events:
            for (broker, type_id), advertisements in self.publishers.items():
                if advertisements:
                    self.check_publication(broker, type_id, event)
        for one, other in self.queues:
            self.check_link(one, other)

    def check_publication(self, origin: int, type_id: bytes, event: Event) -> None:
        """Claim: it comes to every broker with a matching client, once, and nowhere without a reason."""
        reached, useless = self.spread(origin, type_id, event)
        wanting = {
            broker
            for (broker, wanted, _), predicate in self.subscriptions.items()
            if wanted == type_id and admits(predicate, event) and self.can_reach(origin, broker)
        }
        assert reached == wanting
        assert not useless, "a publication was carried to a broker behind which nobody wants it"

    def can_reach(self, one: int, other: int) -> bool:
        """Return whether two brokers are on the same side of a partition, whose sides are fully linked."""
        return one == other or (one, other) in self.queues

    def spread(self, origin: int, type_id: bytes, event: Event) -> tuple[set[int], set[int]]:
        """Carry an event; return who has clients for it, and who got it for nothing. Refuse a second copy."""
        reached: set[int] = set()
        useless: set[int] = set()
        seen: set[int] = set()
        under_way: deque[tuple[Hop, int]] = deque([(LOCAL, origin)])
        while under_way:
            from_hop, broker = under_way.popleft()
            assert broker not in seen, "a publication came to a broker twice"
            seen.add(broker)
            targets = targets_of(self.books[broker], type_id, from_hop, event)
            if LOCAL in targets:
                reached.add(broker)
            if not targets and from_hop != LOCAL:
                useless.add(broker)
            under_way.extend((broker, hop) for hop in targets if isinstance(hop, int))
        return reached, useless

    def check_link(self, sender: int, receiver: int) -> None:
        """Claim: both ends agree, and what was told is as little as covering allows."""
        told, heard = self.books[sender].link(receiver).sent, self.books[receiver].link(sender).received
        assert (told.count, told.digest) == (heard.count, heard.digest)
        assert not self.books[receiver].link(sender).has_stale
        for type_id in TYPES:
            entries, offer = self.books[sender].sent_to(receiver, type_id)
            assert sorted(_facts(entries)) == sorted(_facts(self.books[receiver].entries(sender, type_id)))
            assert offer == self.books[receiver].offers(sender, type_id)
            self.check_told(sender, receiver, type_id, entries)

    def check_told(self, sender: int, receiver: int, type_id: bytes, told: tuple[RouteEntry, ...]) -> None:
        book = self.books[sender]
        hops = [hop for hop in book.hops(type_id) if hop != receiver]
        others = [entry.predicate for hop in hops for entry in book.entries(hop, type_id)]
        is_audience = book.hops(type_id) and (
            self.parents[(sender, type_id)] == receiver or book.offers(receiver, type_id)
        )
        check_is_minimal([entry.predicate for entry in told], others if is_audience else [])
        any_offer = any(book.offers(hop, type_id) for hop in hops)
        assert book.sent_to(receiver, type_id)[1] == (
            any_offer and self.parents[(sender, type_id)] == receiver
        )


def targets_of(book: RoutingTable, type_id: bytes, from_hop: Hop, event: Event) -> set[Hop]:
    """Return the neighbours that want an event, and `LOCAL` if a client of the broker does."""
    kinds = {uid: kind_of(value) for uid, value in event.items() if value is not None}
    local = {LOCAL for one in book.entries(LOCAL, type_id) if admits(one.predicate, event)}
    return local | book.targets_of_frame(type_id, from_hop, frame_of([event], kinds)).keys()


def check_is_minimal(told: list[Predicate], wanted: list[Predicate]) -> None:
    """Claim: what was told stands for all that is wanted, and none of it stands for another part of it."""
    for predicate in wanted:
        assert provably_empty(predicate) or any(covers(wide=wide, narrow=predicate) for wide in told)
    for at, narrow in enumerate(told):
        assert not any(covers(wide=wide, narrow=narrow) for wide in told[:at] + told[at + 1 :])
        assert any(covers(wide=narrow, narrow=one) and covers(wide=one, narrow=narrow) for one in wanted)


def _facts(entries: Iterable[RouteEntry]) -> list[tuple[bytes, str]]:
    return [(entry.id, repr(entry.predicate)) for entry in entries]


def filters_of(book: RoutingTable, hop: Hop, type_id: bytes) -> Mapping[bytes, Predicate]:
    """Return what a neighbour was told, by id."""
    return {entry.id: entry.predicate for entry in book.sent_to(hop, type_id)[0]}
