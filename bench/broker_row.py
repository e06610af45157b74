"""Real brokers in a row, in one process: a publisher at the first, a subscriber at the last.

The brokers are those that `maia broker` runs, without sockets: whatever one of
them sends is handed to the next as bytes. Handshake, credentials, interests
and keys are as on a network, but for the key server: rings are filled by hand.
Nothing of that is in the clock; `carry` is what is measured.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from live_network import World, new_world
from maia.broker import Broker, BrokerSettings
from maia.broker.rights.known_types import KEPT_TYPE
from maia.broker.settings import RecordingSettings
from maia.clock import system_now
from maia.credentials import Action, SignedCertificate, SigningKey, certificate_to_bytes
from maia.credentials.identity import IdentityTrust
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.net.process import keep_free_memory, process_id
from maia.predicates import ALWAYS, Predicate
from maia.sealing import Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.types import (
    Sealing,
    SealingLevel,
    TypeDefinition,
    definition_to_bytes,
    sign_definition,
    verify_definition,
)
from maia.wire.codec import decode, encode
from maia.wire.effects import Dial, Effect, LinkId, LinkOpened, Received, Send
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Failed,
    Greeting,
    Hello,
    Message,
    Subscribe,
)
from maia.wire.names import network_to_bytes
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

STREAM = b"stream of events"
REF = 1


def world_of(attributes: int, level: SealingLevel | None, *, signed: bool = False) -> World:
    """Return a world whose type has so many texts, sealed at a level, signed, or neither."""
    plain = new_world()
    fields = tuple(
        Attribute(f"attribute{number}", AttributeUid(f"attribute-{number}"), Kind.STRING)
        for number in range(attributes)
    )
    sealing = None if level is None else Sealing(level, plain.owner.principal)
    definition = TypeDefinition(plain.event_type.name, None, fields, sealing=sealing, signed=signed)
    written = sign_definition(definition, plain.owner)
    event_type = verify_definition(written, at=system_now())
    return replace(plain, event_type=event_type, definition=definition_to_bytes(written))


class Row:
    """Brokers that are connected in a row, and the two clients at its ends."""

    def __init__(
        self,
        world: World,
        *,
        brokers: int = 2,
        filter: Predicate = ALWAYS,  # noqa: A002 - the word of the protocol
        share_plaintext: bool = False,
        trust: IdentityTrust | None = None,
        recording: RecordingSettings | None = None,
    ) -> None:
        """Connect everybody, and let interests and offers find each other."""
        keep_free_memory()  # as the process of a broker does
        self.world, self.now = world, system_now()
        self._trust, self._recording = trust, recording
        self._ring = _ring(world, self.now)
        self._wires: dict[tuple[int, LinkId], tuple[int, LinkId]] = {}
        self._addresses = [f"127.0.0.1:{7400 + number}" for number in range(brokers)]
        self._links = [0] * brokers
        self._clients: dict[tuple[int, LinkId], Callable[[bytes], None]] = {}
        self._queue: deque[Callable[[], None]] = deque()
        self._keys = [world.key(address) for address in self._addresses]
        self.brokers: list[Broker] = []
        for number in range(brokers):
            self._start(number, share_plaintext=share_plaintext)
        self.publisher_link = self._client(0, "publisher", Action.PUBLISH, ALWAYS)
        self.subscriber_link = self._client(brokers - 1, "subscriber", Action.SUBSCRIBE, filter)
        self.hop_links = [self._link_between(one, other) for one, other in pairwise(range(brokers))]
        self.back_links = [self._wires[at, link][1] for at, link in enumerate(self.hop_links)]

    # ------------------------------------------------------------ what is measured

    def at_first(self, published: Sequence[bytes], *, together: bool = True) -> list[bytes]:
        """Hand the first broker what a read of the publisher brought; return what goes to the next."""
        return self._turn(0, self.publisher_link, published, self.hop_links[0], together=together)

    def at_hop(self, number: int, arrived: Sequence[bytes]) -> list[bytes]:
        """Hand a broker in the middle what its neighbour sent; return what goes to the next."""
        return self._turn(number, self.back_links[number - 1], arrived, self.hop_links[number])

    def at_last(self, arrived: Sequence[bytes]) -> list[bytes]:
        """Hand the last broker what its neighbour sent; return what the subscriber gets."""
        return self._turn(len(self.brokers) - 1, self.back_links[-1], arrived, self.subscriber_link)

    def _turn(
        self, number: int, link: LinkId, messages: Sequence[bytes], to: LinkId, *, together: bool = True
    ) -> list[bytes]:
        broker, now = self.brokers[number], self.now
        effects: list[Effect] = []
        if together:
            turn = broker.turn(now)
            turn.take([Received(link, data) for data in messages])
            effects = turn.all()
        else:
            for data in messages:
                effects += broker.handle(Received(link, data), now)
        return [effect.data for effect in effects if type(effect) is Send and effect.link == to]

    # ------------------------------------------------------------ getting there

    def _start(self, number: int, *, share_plaintext: bool) -> None:
        world, key = self.world, self._keys[number]
        settings = BrokerSettings(
            network=world.network,
            address=self._addresses[number],
            credentials=(
                world.broker_right(key.principal),
                *self._rights(key, Action.PUBLISH, Action.SUBSCRIBE),
            ),
            seeds=(self._addresses[number - 1],) if number else (),
            lease_s=86_400,
            share_plaintext=share_plaintext,
            identity=self._trust,
            recording=self._recording,
        )
        kept = {f"{KEPT_TYPE}{world.event_type.id.hex()}": world.definition}
        broker = Broker(key, settings, random=os.urandom, kept=kept, process_id=process_id)
        self.brokers.append(broker)
        self._perform(number, broker.start(self.now))
        self._settle()
        if self._ring is not None:
            self._hand_keys(number, self._ring)

    def _hand_keys(self, number: int, ring: KeyRing) -> None:
        type_id, state = self.world.event_type.type_id, self.brokers[number]._parts
        state.seals.ring_of = state.key_events.rekeying.sealed.ring_of = lambda asked: (
            ring if asked == type_id else None
        )
        for key in self._keys:
            state.writers.learn(type_id, key.principal, self._rights(key, Action.PUBLISH, Action.SUBSCRIBE))
        self._perform(
            number, self.brokers[number]._do(partial(state.key_events.apply_new_keys, type_id), self.now)
        )
        self._settle()

    def _rights(self, key: SigningKey, *actions: Action) -> tuple[SignedCertificate, ...]:
        world, subject = self.world, key.principal
        return (world.connect_right(subject), *(world.type_right(subject, action) for action in actions))

    def _client(
        self,
        number: int,
        name: str,
        action: Action,
        filter: Predicate,  # noqa: A002 - the word of the protocol
        requires: Predicate = NO_REQUIREMENT,
    ) -> LinkId:
        """Connect a client and let it ask for its one right; it has to be granted."""
        world, key, link = self.world, self.world.key(name), self._new_link(number)
        rights = [certificate_to_bytes(one) for one in self._rights(key, action)]
        heard: list[Message] = []

        def hears(data: bytes) -> None:
            heard.append(decode(data))
            if isinstance(heard[-1], Greeting):
                network = network_to_bytes(world.network)
                self._say(number, link, Hello(PROTOCOL_VERSION, network, rights, os.urandom(16), None))

        self._clients[number, link] = hears
        self._perform(number, self.brokers[number].handle(LinkOpened(link, key.principal, None), self.now))
        self._settle()
        request = EdgeRequest(
            action=action,
            network=world.network,
            event_type=world.event_type.name,
            stream=STREAM,
            at=self.now,
            nonce=os.urandom(16),
            filter=filter,
            requires=requires,
        )
        kind = Advertise if action is Action.PUBLISH else Subscribe
        asked = request_to_bytes(sign_request(request, key))
        self._say(number, link, kind(REF, asked, rights, [world.definition]))
        self._settle()
        assert any(isinstance(one, Accepted) for one in heard), [
            one for one in heard if isinstance(one, Failed)
        ]
        return link

    def _link_between(self, one: int, other: int) -> LinkId:
        return next(link for (at, link), (to, _) in self._wires.items() if (at, to) == (one, other))

    def _new_link(self, number: int) -> LinkId:
        self._links[number] += 1
        return LinkId(self._links[number])

    def _say(self, number: int, link: LinkId, message: Message) -> None:
        data = encode(message)
        self._queue.append(
            lambda: self._perform(number, self.brokers[number].handle(Received(link, data), self.now))
        )

    def _perform(self, number: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._queue.append(lambda effect=effect: self._arrives(number, effect))
            elif isinstance(effect, Dial):
                self._queue.append(lambda effect=effect: self._dial(number, effect.address))

    def _arrives(self, number: int, sent: Send) -> None:
        client = self._clients.get((number, sent.link))
        if client is not None:
            client(sent.data)
            return
        other, link = self._wires[number, sent.link]
        self._perform(other, self.brokers[other].handle(Received(link, sent.data), self.now))

    def _dial(self, number: int, address: str) -> None:
        other = self._addresses.index(address)
        if abs(other - number) != 1:
            return  # brokers in a row know their neighbours alone
        here, there = self._new_link(number), self._new_link(other)
        self._wires[number, here], self._wires[other, there] = (other, there), (number, here)
        dialled, found = self._keys[number].principal, self._keys[other].principal
        self._perform(number, self.brokers[number].handle(LinkOpened(here, found, address), self.now))
        self._perform(other, self.brokers[other].handle(LinkOpened(there, dialled, None), self.now))

    def _settle(self) -> None:
        while self._queue:
            self._queue.popleft()()


def _ring(world: World, now: Instant) -> KeyRing | None:
    if world.event_type.definition.sealing is None:
        return None
    type_id = world.event_type.type_id
    ring = KeyRing(type_id)
    ring.learn(1, since=now)
    for uid in (None, *world.event_type.kinds):
        ring.hold(GroupId(type_id, uid), 1, Secret.fresh(os.urandom))
    return ring
