"""Brokers that seal, carry and open publications, with rights and key rings that a test hands them.

Each broker has certificates of its own, which say what it may publish and
read. A test fills the rings, or lets a key server of `sealed_domain` do it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from maia.broker import Broker, BrokerSettings
from maia.broker.rights.known_types import KEPT_TYPE
from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    AuthorisationCertificate,
    Authority,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    Validity,
    exact_name,
    issue,
)
from maia.events import AttributeUid
from maia.sealing.keys.key_ring import KeyRing
from maia.types import SealingLevel, definition_to_bytes
from maia.wire.codec import decode, encode
from maia.wire.effects import LinkId
from maia.wire.messages import Carried, Message, Sealed, SealedWithPlaintext
from support.broker import Client, Running
from support.sealed_net import EVERYTHING, SealedNet, state_of

READ, WRITE = Action.SUBSCRIBE, Action.PUBLISH


class PublishingNet(SealedNet):
    """A sealed type, brokers with rights to it, and whoever publishes and reads it."""

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE, **settings: Any) -> None:
        super().__init__(level, **settings)
        self.rights: dict[str, tuple[SignedCertificate, ...]] = {}
        self.tamper: Callable[[Message], Message] = lambda message: message
        """What somebody on the way makes of what brokers say to each other."""

    def _send(self, name: str, link: LinkId, data: bytes) -> None:
        if (name, link) in self.wires:
            data = encode(self.tamper(decode(data)))
        super()._send(name, link, data)

    def grant(
        self,
        to: Principal,
        *actions: Action,
        attributes: AttributeSet = ALL_ATTRIBUTES,
        validity: Validity | None = None,
        **more: Any,
    ) -> SignedCertificate:
        """Let PITO grant somebody a right to the type."""
        name = self.story.definition.definition.name
        certificate = AuthorisationCertificate(
            self.story.principal("PITO"),
            to,
            may_delegate=False,
            authority=Authority(
                TypePattern(name.owner, exact_name(name.name), None), frozenset(actions), attributes, **more
            ),
            validity=validity or self.story.certificates[0].certificate.validity,
        )
        return issue(certificate, self.story.keys["PITO"])

    def entitle(self, name: str, *actions: Action, **limits: Any) -> None:
        """Give a broker that has not started a right to the type."""
        key, _ = self._identity(name)
        self.rights[name] = (*self.rights.get(name, ()), self.grant(key.principal, *actions, **limits))

    def broker(self, name: str = "CCS broker", **changes: Any) -> Running:
        _, credentials = self._identity(name)
        return super().broker(name, credentials=(*credentials, *self.rights.get(name, ())), **changes)

    def _new_broker(self, key: SigningKey, settings: BrokerSettings, kept: Mapping[str, bytes]) -> Broker:
        """Let brokers with a right know the type from the start, as from a folder of types."""
        definition = self.story.definition
        known = {f"{KEPT_TYPE}{definition.id.hex()}": definition_to_bytes(definition)}
        entitled = {self._identity(name)[0].principal for name in self.rights}
        return super()._new_broker(key, settings, known | dict(kept) if key.principal in entitled else kept)

    def hold(
        self, running: Running, *groups: AttributeUid | None, epochs: Collection[int] = (1,)
    ) -> KeyRing | None:
        """Let a broker hold keys; frames that waited for them are taken on."""
        state = state_of(running)
        held = super().hold(running, *groups, epochs=epochs)
        self.use(running, held)
        for name, certificates in self.rights.items():
            signer = self._identity(name)[0].principal
            pool = (*self._identity(name)[1], *certificates)
            state.writers.learn(self.type_id, signer, pool)
        return held

    def use(self, running: Running, ring: KeyRing | None) -> None:
        """Let a broker have another ring, and look at what waited for it."""
        state = state_of(running)
        state.seals.ring_of = state.key_events.rekeying.sealed.ring_of = lambda asked: (
            ring if asked == self.type_id else None
        )
        effects = running.broker._do(partial(state.key_events.apply_new_keys, self.type_id), self.now)
        self._perform(running, effects)
        self.settle()

    # ---- what was said

    def frames(self, *, to: Running | None = None) -> list[Message]:
        """Return the publications that brokers sent each other."""
        kinds = (Carried, Sealed, SealedWithPlaintext)
        return [
            message
            for _, receiver, message in self.carried
            if isinstance(message, kinds) and (to is None or receiver == to.name)
        ]


def the_three(
    level: SealingLevel = SealingLevel.ATTRIBUTE,
    *,
    met: Iterable[AttributeUid | None] = EVERYTHING,
    **settings: Any,
) -> tuple[PublishingNet, Running, Running, Running]:
    """Start the cameras' broker, one without rights in the middle, and one that reads."""
    net = PublishingNet(level, **settings)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    ccs, middle, last = net.three()
    net.hold(ccs, *EVERYTHING)
    net.hold(last, *met)
    return net, ccs, middle, last


def camera_and_reader(net: PublishingNet, who: str = "CCS", **reader: Any) -> tuple[Client, Client]:
    """Let the camera advertise at the first broker, and somebody subscribe at the last."""
    camera, office = net.client("camera at Victoria"), net.client(who, "Met broker")
    assert camera.was_accepted(camera.advertise(ref=1))
    assert office.was_accepted(office.subscribe(ref=1, **reader))
    return camera, office
