"""The numberplate network with a sealed type, and brokers whose key rings a test fills by hand.

The rendezvous of the type is a broker of a third domain, which carries
everything between the cameras' broker and the detectives'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

from maia.broker import Broker, BrokerSettings
from maia.broker.keys.keys import KeyRequests
from maia.broker.parts import Parts
from maia.credentials import SigningKey
from maia.events import AttributeUid, Frame, frame_of
from maia.predicates import Predicate
from maia.routing.overlay.table import distance, node_id_of_key, node_id_of_type
from maia.routing.table.hops import SealedEntry, book_key_of_sealed
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.types import Sealing, SealingLevel, sign_definition, type_id
from maia.wire.codec import encode
from maia.wire.effects import Input
from support.broker import SEED, Net, Running
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP

EVERYTHING: tuple[AttributeUid | None, ...] = (None, NUMBERPLATE, TIMESTAMP, LOCATION)


class KeysByHand(KeyRequests):
    """A desk to which a test brings the keys, so that they may come at any moment."""

    __slots__ = ()

    def opens_any(self, type_id: bytes) -> bool | None:
        return None

    def opens(self, type_id: bytes, uid: AttributeUid) -> bool:
        return False


class SealedNet(Net):
    """Brokers that route a sealed type."""

    keys_by_hand = True

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings: Any) -> None:
        super().__init__(**{"share_plaintext": True, **settings})
        plain, pito = self.story.definition.definition, self.story.keys["PITO"]
        self.plain = self.story.definition
        sealing = Sealing(level, pito.principal)
        self.story = replace(self.story, definition=sign_definition(replace(plain, sealing=sealing), pito))
        self.type_id = type_id(plain.name.owner, plain.name.name)
        self.key = book_key_of_sealed(self.type_id)
        self.after_each: Callable[[], None] = lambda: None
        """Called after everything that happens to a broker."""

    def _new_broker(self, key: SigningKey, settings: BrokerSettings, kept: Mapping[str, bytes]) -> Broker:
        made = super()._new_broker(key, settings, kept)
        if self.keys_by_hand:
            made._parts.keys.__class__ = KeysByHand
        return made

    def name_near_the_type(self, *others: str) -> str:
        """Return a name whose broker is nearer to the type's point of the ring than these."""
        point = node_id_of_type(self.type_id)
        nearest = min(distance(node_id_of_key(self._identity(one)[0].principal.key), point) for one in others)
        for number in count():
            name = f"third domain {number}"
            key = SigningKey.from_seed(sha256(SEED + name.encode()).digest())
            if distance(node_id_of_key(key.principal.key), point) < nearest:
                return name
        raise AssertionError

    def three(self) -> tuple[Running, Running, Running]:
        """Start the cameras' broker, one of a third domain that is the rendezvous, and the detectives'."""
        third = self.name_near_the_type("CCS broker", "Met broker")
        ccs = self.broker("CCS broker")
        middle = self.broker(third, seeds=["CCS broker"])
        met = self.broker("Met broker", seeds=["CCS broker", third])
        return ccs, middle, met

    def hold(
        self, running: Running, *groups: AttributeUid | None, epochs: Collection[int] = (1,)
    ) -> KeyRing | None:
        """Let a broker hold the keys of these groups in these epochs; of nothing, no ring at all."""
        held = self.ring(*groups, epochs=epochs) if groups else None
        state = state_of(running)
        state.key_events.rekeying.sealed.ring_of = lambda asked: held if asked == self.type_id else None
        self._perform(
            running,
            running.broker._do(partial(state.key_events.rekeying.keys_changed, self.type_id), self.now),
        )
        self.settle()
        return held

    def ring(self, *groups: AttributeUid | None, epochs: Collection[int] = (1,)) -> KeyRing:
        """Return a ring; equal groups have equal secrets on all rings."""
        held = KeyRing(self.type_id)
        for epoch in epochs:
            held.learn(epoch, since=self.now)
            for uid in groups:
                secret = sha256(b"%b/%b/%d" % (SEED, (uid or "*").encode(), epoch)).digest()
                held.hold(GroupId(self.type_id, uid), epoch, Secret.from_bytes(secret))
        return held

    def _input(self, running: Running, happened: Input) -> None:
        super()._input(running, happened)
        self.after_each()

    def live(self, seconds: int, *renew: Callable[[], object]) -> None:
        """Let time pass while clients renew what they asked for."""
        for _ in range(0, seconds, 20):
            self.advance(20)
            for one in renew:
                one()

    # ---- what a broker knows

    def entries(self, at: Running, *, of: Running) -> list[SealedEntry]:
        """Return the sealed entries that a broker has from another one."""
        book = state_of(at).routes.book
        found = book.entries(node_id_of_key(of.key.principal.key), self.key)
        return [entry for entry in found if isinstance(entry, SealedEntry)]

    def known(self, at: Running, *, of: Running) -> list[Predicate]:
        """Return what a broker matches by for another one."""
        return [entry.predicate for entry in self.entries(at, of=of)]

    def rows_for(
        self, at: Running, *, of: Running, frame: Frame, missing: Collection[AttributeUid] = ()
    ) -> list[int]:
        """Return the rows of a frame that a broker would send to another one."""
        book = state_of(at).routes.book
        targets = book.targets_of_frame(self.key, "nobody", frame, missing)
        return list(targets.get(node_id_of_key(of.key.principal.key), ()))

    def heard_by(self, running: Running) -> bytes:
        """Return all bytes that other brokers sent to a broker."""
        return b"".join(encode(message) for _, to, message in self.carried if to == running.name)


def state_of(running: Running) -> Parts:
    """Look inside a broker; only tests do."""
    return running.broker._parts


def sightings(*rows: tuple[str, str]) -> Frame:
    """Return a frame of plates and places."""
    return frame_of([{NUMBERPLATE: plate, LOCATION: place} for plate, place in rows], NUMBERPLATE_KINDS)
