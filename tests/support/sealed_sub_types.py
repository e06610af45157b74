"""The three brokers of the sealed network, with keys of a sealed type and of a sealed sub-type of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from maia.credentials import SignedCertificate, issue
from maia.events import AttributeUid
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret
from maia.types import Sealing, SealingLevel, type_id
from support.broker import SEED, Running
from support.numberplate import NUMBERPLATE_KINDS
from support.sealed_net import state_of
from support.sealed_publications import READ, WRITE, PublishingNet
from support.sub_types import CHARGE_KINDS, grant, rights_without, tell_of_sub_types

VICTORIA = "camera at Victoria"
ABOVE: tuple[AttributeUid | None, ...] = (None, *NUMBERPLATE_KINDS)
BELOW: tuple[AttributeUid | None, ...] = (None, *CHARGE_KINDS)


class Town(PublishingNet):
    """The three brokers with keys of two types, which a test brings."""

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings: Any) -> None:
        super().__init__(level, **settings)
        sealing = Sealing(level, self.story.principal("PITO"))
        self.world = tell_of_sub_types(self.story, sealing=sealing)
        name = self.world.charge.definition.name
        self.below = type_id(name.owner, name.name)
        for broker in ("CCS broker", "Met broker"):
            self.entitle(broker, READ, WRITE)
        self.ccs, self.middle, self.met = self.three()
        self.rings: dict[str, dict[bytes, KeyRing]] = {}

    def broker(self, name: str = "CCS broker", **changes: Any) -> Running:
        key, _ = self._identity(name)
        if name in self.rights:
            right = grant(self.story, "CCS", "CCS", self.world.charge.definition.name, READ, WRITE)
            certificate = replace(right.certificate, subject=key.principal)
            self.rights[name] = (*self.rights[name], issue(certificate, self.story.keys["CCS"]))
        return super().broker(name, **changes)

    def bring(self, running: Running, kind: bytes, *groups: AttributeUid | None) -> None:
        """Bring a broker keys of a type, which may have been awaited."""
        ring = KeyRing(kind)
        ring.learn(1, since=self.now)
        for uid in groups:
            secret = sha256(b"%b/%b/%b" % (SEED, kind, (uid or "*").encode())).digest()
            ring.hold(GroupId(kind, uid), 1, Secret.from_bytes(secret))
        rings = self.rings.setdefault(running.name, {})
        rings[kind] = ring
        state = state_of(running)
        state.seals.ring_of = state.key_events.rekeying.sealed.ring_of = rings.get
        for name, certificates in self.rights.items():
            identity, shown = self._identity(name)
            state.writers.learn(kind, identity.principal, (*shown, *certificates))
        effects = running.broker._do(partial(state.key_events.apply_new_keys, kind), self.now)
        self._perform(running, effects)
        self.settle()

    def person(self, who: str, at: str, *more: SignedCertificate) -> Any:
        return self.client(who, at, credentials=(*self.world.certificates, *more))

    def camera(self, *more: SignedCertificate) -> Any:
        name = self.story.definition.definition.name.name
        return self.client(VICTORIA, credentials=(*rights_without(self.world, VICTORIA, name), *more))


def whole(level: SealingLevel) -> Town:
    """Return a town in which both brokers hold all keys of both types."""
    town = Town(level)
    for running in (town.ccs, town.met):
        town.bring(running, town.type_id, *ABOVE)
        town.bring(running, town.below, *BELOW)
    return town
