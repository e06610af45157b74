"""Whoever may connect may act as a broker and send replicas; nobody gets or says anything by that alone."""

from __future__ import annotations

from itertools import count

import pytest

from maia.credentials import Action, SigningKey
from maia.events import frame_of
from maia.predicates import ALWAYS
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.testing import NetClient, shown
from maia.types import type_id
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Carried, NodeRecord, Ping, Renew, Replica, Wanted
from maia.wire.names import filter_to_bytes
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, Net, sighting

CAMERA, OFFICE = "camera at Victoria", "billing office"
LEASE_S = 60


class Town:
    """A broker that verifies everything, who sends it a replica, and the broker that this is about."""

    def __init__(self, *, is_sender_nearer: bool = True) -> None:
        self.net = Net(verify_in_transit=1.0, open_borders=True)
        self.broker = self.net.broker()
        self.office = self.net.client(OFFICE)
        assert self.office.was_accepted(self.office.subscribe())
        name = self.net.cast.type_name
        self.type_id = type_id(name.owner, name.name)
        self.sender = self._neighbour(self._key(is_nearer=is_sender_nearer, besides=0))
        self.key = self._key(is_nearer=False, besides=1)
        self.holder = self._neighbour(self.key)
        self.frames = 0

    def _key(self, *, is_nearer: bool, besides: int) -> SigningKey:
        far = self._distance(self.broker.key)
        keys = (SigningKey.from_seed(number.to_bytes(32)) for number in count(1))
        found = (key for key in keys if (self._distance(key) < far) is is_nearer)
        return [next(found) for _ in range(besides + 1)][-1]

    def _distance(self, key: SigningKey) -> int:
        return closeness(node_id_of_key(key.principal.key), node_id_of_type(self.type_id))[0]

    def _neighbour(self, key: SigningKey) -> NetClient:
        address = f"{key.principal.key.hex()[:8]}:1"
        right = (self.net.cast.broker_right(key),)
        return self.net.client(address, key=key, credentials=right, address=address)

    def takes_over(self, wanted: Wanted, *, offers: bool) -> None:
        """Let the sender say what the holder wants and offers, and be gone."""
        record = NodeRecord(self.key.principal.key, f"{self.key.principal.key.hex()[:8]}:1")
        self.sender.say(Replica(self.type_id, record, [wanted], offers))
        self.sender.hang_up()

    def gets(self) -> bool:
        """Let a camera of this broker publish, and say whether the holder got it."""
        camera = self.net.client(CAMERA)
        self.holder.heard.clear()
        camera.publish(camera.advertise(), sighting("seen"), sequence=0)
        return bool(self.holder.all_heard(Carried))

    def believes(self) -> bool:
        """Let the holder send a frame in a camera's name, and say whether the office got it."""
        self.frames += 1
        frame = frame_of([sighting(f"plate {self.frames}")], NUMBERPLATE_KINDS)
        publisher, columns = self.net.cast.principal(CAMERA).key, frame_to_columns(frame)
        now, stream = int(self.net.now), b"s" * 16
        self.holder.say(Carried(self.type_id, publisher, stream, self.frames, now, 1, [], columns))
        return f"plate {self.frames}" in [event[NUMBERPLATE] for event in self.office.events()]

    def live(self, seconds: int) -> None:
        """Let time pass, in which the office renews and the holder says again and again that all stands."""
        book, node = self.broker.parts.routes.book, node_id_of_key(self.key.principal.key)
        for _ in range(0, seconds, 10):
            self.net.advance(10)
            self.office.subscribe(ref=1)
            heard = book.link(node).received
            self.holder.say(Renew(heard.count, heard.digest))
            self.holder.say(Ping(1))


EVERYTHING = Wanted(b"x" * 16, filter_to_bytes(ALWAYS), None, [])


@pytest.mark.parametrize("is_sender_nearer", [True, False])
def test_an_interest_in_a_replica_that_nothing_proves_gets_nothing(is_sender_nearer: bool) -> None:
    """A67, A14: two brokers of a peer who may connect, and nothing else, say it of each other."""
    town = Town(is_sender_nearer=is_sender_nearer)
    town.takes_over(EVERYTHING, offers=False)
    assert not town.gets()


def test_an_interest_in_a_replica_is_served_as_far_as_it_is_proved() -> None:
    """B4: until its broker asks for it itself."""
    town = Town()
    office = NetClient(town.net, town.net.cast.keys[OFFICE], town.net.cast.certificates)
    proof = office.request(Action.SUBSCRIBE)
    proved = Wanted(b"x" * 16, EVERYTHING.filter, proof, shown(town.net.cast.certificates))
    town.takes_over(proved, offers=False)
    assert town.gets()


def test_an_offer_in_a_replica_makes_no_peer_believed_for_longer_than_a_lease() -> None:
    """A67: however often it is renewed; it was never proved."""
    town = Town()
    town.takes_over(EVERYTHING, offers=True)
    assert town.believes()
    town.live(LEASE_S + 10)
    assert not town.believes()


def test_who_never_led_to_a_type_hands_nothing_on() -> None:
    """A67: a broker that is further from the rendezvous than we are says that another one offers the type."""
    town = Town(is_sender_nearer=False)
    town.takes_over(EVERYTHING, offers=True)
    assert not town.believes()
