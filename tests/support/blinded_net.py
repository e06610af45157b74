"""The numberplate network with a blinded type, and brokers whose epochs a test brings by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

from maia.credentials import Action, SigningKey
from maia.events import Instant
from maia.routing.overlay.table import distance, node_id_of_key, node_id_of_type
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import blinded_ids
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.types import Cover, Sealing, SealingLevel, sign_definition
from maia.wire.messages import Message, Sealed
from support.broker import SEED, Running
from support.recording import RecordingNet
from support.sealed_net import state_of
from support.sealed_publications import READ, WRITE, PublishingNet

BEFORE_S = 3600
"""How long before the beginning of a test its first epoch began."""


class BlindedNet(PublishingNet, RecordingNet):
    """A blinded type between the cameras' broker and the detectives', with one without keys in the middle."""

    def __init__(
        self,
        *,
        cover: Cover | None = None,
        met: tuple[Action, ...] = (READ,),
        middle: tuple[Action, ...] = (),
        **settings: Any,
    ) -> None:
        super().__init__(SealingLevel.EVENT, **settings)
        plain, pito = self.plain.definition, self.story.keys["PITO"]
        sealing = Sealing(SealingLevel.EVENT, pito.principal, blinded=True, cover=cover)
        self.story = replace(self.story, definition=sign_definition(replace(plain, sealing=sealing), pito))
        self.since: dict[int, Instant] = {1: Instant(self.now - BEFORE_S * 1_000_000)}
        self.entitle("CCS broker", READ, WRITE)
        self.entitle("Met broker", *met)
        third = self._name_near(self.id_of(1))
        if middle:
            self.entitle(third, *middle)
        self.ccs = self.broker("CCS broker")
        self.middle = self.broker(third, seeds=["CCS broker"])
        self.met = self.broker("Met broker", seeds=["CCS broker", third])
        for running in (self.ccs, self.met, *([self.middle] if middle else [])):
            self.bring(running, 1)

    def bring(self, running: Running, *epochs: int) -> KeyRing:
        """Let a broker hold the keys of these epochs; one begins when it is first brought to a broker."""
        held, state = self.ring_of(*epochs), state_of(running)
        state.streams.blinded.held = lambda asked: held if asked == self.type_id else None
        for name, certificates in self.rights.items():
            pool = (*self._identity(name)[1], *certificates)
            state.writers.learn(self.type_id, self._identity(name)[0].principal, pool)
        came = running.broker._do(partial(state.key_events.apply_new_keys, self.type_id), self.now)
        self._perform(running, came)
        self.settle()
        return held

    def ring_of(self, *epochs: int) -> KeyRing:
        """Return a member's ring; it is the same for all members."""
        held = KeyRing(self.type_id)
        for epoch in epochs:
            held.learn(epoch, since=self.since.setdefault(epoch, self.now))
            secret = Secret.from_bytes(sha256(b"%b/%d" % (SEED, epoch)).digest())
            held.hold(GroupId(self.type_id), epoch, secret)
        return held

    def id_of(self, epoch: int) -> bytes:
        """Return the blinded id of an epoch."""
        since = dict(self.since)
        found = blinded_ids(self.ring_of(epoch))[epoch]
        self.since = since
        return found

    def sealed_frames(self, *, to: Running) -> list[Sealed]:
        """Return the sealed frames that reached a broker."""
        return [one for one in self.frames(to=to) if isinstance(one, Sealed)]

    def heard(self, running: Running) -> list[Message]:
        """Return all that other brokers said to a broker."""
        return [message for _, to, message in self.carried if to == running.name]

    def _name_near(self, point_of: bytes) -> str:
        point = node_id_of_type(point_of)
        others = [self._identity(one)[0].principal.key for one in ("CCS broker", "Met broker")]
        nearest = min(distance(node_id_of_key(key), point) for key in others)
        is_nearer: Callable[[str], bool] = lambda name: (  # noqa: E731
            distance(node_id_of_key(SigningKey.from_seed(_seed(name)).principal.key), point) < nearest
        )
        return next(name for number in count() if is_nearer(name := f"third domain {number}"))


def _seed(name: str) -> bytes:
    return sha256(SEED + name.encode()).digest()
