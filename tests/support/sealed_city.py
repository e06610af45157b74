"""The city of the simulation with a sealed type: a key server, brokers with rights, and one without.

Every delivery is checked against the certificates as in the plain city. All
bytes that reach a broker without rights are recorded.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from maia.credentials import (
    Action,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    TypePattern,
    parse_name_pattern,
)
from maia.domain import DomainSettings
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.sealing.keys.key_ring import KeyTerms
from maia.testing import Cast
from maia.testing.simulation import Host
from maia.types import Cover, Sealing, SealingLevel, sign_definition, type_id
from maia.wire.effects import Received
from support.simulated_city import City, tell_city_story
from support.sub_types import CHARGE

KEYS = "key server"
ADDRESS = "10.0.0.200:7500"
TERMS = KeyTerms(refresh_s=60, overdue_s=3600, drift_s=30, back_dating_s=20)


def rendezvous_of(seed: int, *, brokers: int) -> int:
    """Return the number of the broker at which the type's interests and offers will meet in a city."""
    name = tell_city_story(seed).definition.definition.name
    point = node_id_of_type(type_id(name.owner, name.name))
    keys = [
        SigningKey.from_seed(sha256(b"%d/broker %d" % (seed, number)).digest()) for number in range(brokers)
    ]
    return min(range(brokers), key=lambda one: closeness(node_id_of_key(keys[one].principal.key), point))


class SealedCity(City):
    """Brokers that seal and open; those in `outsiders` have no right to the type."""

    def __init__(
        self,
        seed: int,
        *,
        level: SealingLevel = SealingLevel.ATTRIBUTE,
        outsiders: frozenset[int] = frozenset(),
        terms: KeyTerms = TERMS,
        keeps_history: bool = False,
        blinded: bool = False,
        cover: Cover | None = None,
        **settings: object,
    ) -> None:
        self.level, self.outsiders = level, outsiders
        self.blinded, self.cover = blinded, cover
        self.overheard: dict[str, list[bytes]] = {}
        super().__init__(seed, **{"share_plaintext": True, **settings})
        pattern = NetworkPattern(self.cast.network.owner, parse_name_pattern(self.cast.network.name))
        connects = self._certificate("PITO", self.key(KEYS).principal, pattern, Action.CONNECT)
        kept = frozenset({self.known.event_type.type_id}) if keeps_history else frozenset()
        domain = DomainSettings(
            self.cast.network, ADDRESS, (connects,), terms=terms, lease_s=12, history=kept
        )
        self.keys: Host = self.network.add_key_server(KEYS, self.key(KEYS), domain)
        for number in outsiders:
            self._listen_in(self.network.host(self.brokers[number]))

    def tell(self, seed: int) -> Cast:
        """Tell the story of a type whose owner wants it sealed."""
        self._keys = {}
        story = tell_city_story(seed)
        sealing = Sealing(self.level, self.key(KEYS).principal, (ADDRESS,), self.blinded, self.cover)
        sealed = replace(story.definition.definition, sealing=sealing)
        return replace(story, definition=sign_definition(sealed, story.keys["PITO"]))

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        """Let PITO grant every broker but the outsiders to write and read the type, and CCS its sub-type."""
        if number in self.outsiders:
            return ()
        name = self.cast.type_name
        above = TypePattern(name.owner, parse_name_pattern(name.name), None)
        below = TypePattern(self.cast.principal("CCS"), parse_name_pattern(CHARGE), None)
        principal = self.key(self.brokers[number]).principal
        return tuple(
            self._certificate(issuer, principal, pattern, action)
            for issuer, pattern in (("PITO", above), ("CCS", below))
            for action in (Action.PUBLISH, Action.SUBSCRIBE)
        )

    def _listen_in(self, host: Host) -> None:
        """Record every message that reaches a host, in this life and the next ones."""
        heard = self.overheard.setdefault(host.name, [])
        build = host.build

        def recording(kept, random):
            node = build(kept, random)
            return _Recorder(node, heard)

        host.build = recording
        host.node = None if host.node is None else _Recorder(host.node, heard)

    def epoch(self, number: int) -> int | None:
        """Return the newest epoch that a broker knows."""
        node = self.network.host(self.brokers[number]).node
        ring = node.parts.keys.member.ring(self.known.event_type.type_id)
        return None if ring is None else ring.newest


class _Recorder:
    """A node whose every message is written down before it hears it."""

    def __init__(self, node, heard: list[bytes]) -> None:
        self._node, self._heard = node, heard

    def handle(self, happened, now):
        if isinstance(happened, Received):
            self._heard.append(happened.data)
        return self._node.handle(happened, now)

    def __getattr__(self, name: str):
        return getattr(self._node, name)
