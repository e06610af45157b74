"""Hundreds of real brokers in one process: how many messages and signature checks does one act cost?

The brokers are those that run in production, in the simulator: they find each
other through two seeds, and verify, route and renew as on a network. What is
counted is exact, whatever else the machine does: frames between brokers by
type, and signatures that a broker checks because it has not checked them
before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from maia.broker import Broker
from maia.client import KnownVersion, known_version
from maia.client.entries import Advertised, EntryStage, Subscribed
from maia.credentials import Action, SignedCertificate, SigningKey, TypeName, TypePattern, parse_name_pattern
from maia.credentials import keys as signature_keys
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.routing.overlay.table import node_id_of_key
from maia.testing import Cast, key_of
from maia.testing.simulation import BEGINNING, Host, SimulatedClient, Simulation
from maia.types import TypeDefinition, sign_definition
from maia.wire.codec import decode
from maia.wire.effects import Effect, Input, Send
from maia.wire.messages import Carried

LEASE_S = 600
"""Long, so that renewals do not fall among what is counted."""
_VALUE = AttributeUid("value")
_JOIN_MAX_S = 600
_CARRIED = (30, 33)
"""The tags of frames: most messages need not be decoded."""


class Tally:
    """What was counted since it was last cleared."""

    def __init__(self) -> None:
        self.at = ""
        """The broker whose turn it is."""
        self.checks: Counter[str] = Counter()
        self.frames: Counter[bytes] = Counter()
        self.messages = 0

    def clear(self) -> None:
        """Count anew."""
        self.checks.clear()
        self.frames.clear()
        self.messages = 0


class _CountedBroker(Broker):
    def __init__(self, tally: Tally, name: str, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._tally, self._name = tally, name

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        self._tally.at = self._name
        try:
            return super().handle(happened, now)
        finally:
            self._tally.at = ""


class RealBrokers:
    """So many brokers that have found each other, and clients with one value to publish."""

    def __init__(self, brokers: int, seed: int = 1) -> None:
        """Start them all at once, and wait until each has found its place."""
        self.cast = Cast.of("owner", seed=b"brokers %d" % seed, value="int")
        self.owner = self.cast.owner
        self.network = Simulation(seed, cast=self.cast, steps_kept=1)
        self.tally, self.chance = Tally(), Random(f"brokers/{seed}")
        self._clients = 0
        self._types = 0
        self.names = [f"broker {number}" for number in range(brokers)]
        every = TypePattern(self.owner.principal, parse_name_pattern("figure.*"), None)
        for name in self.names:
            key, connects = self.cast.identity(name)
            right = self.cast.grant(self.owner, key, every, Action.PUBLISH, Action.SUBSCRIBE)
            seeds = [one for one in self.names[:2] if one != name]
            made = partial(_CountedBroker, self.tally, name)
            how = {"credentials": (*connects, right), "lease_s": LEASE_S, "make": made}
            self.network.broker(name, seeds=seeds, **how)
        self.network.on_effects = self._count
        joined = [self.network.node(name).parts.routes.membership for name in self.names]
        while not all(one.is_joined for one in joined):
            self.network.run_for(1)
            assert self.seconds < _JOIN_MAX_S
        self.settled_s = self.seconds
        self.messages_to_settle = self.tally.messages
        self.links = sum(len(one.overlay) for one in joined) / brokers

    @property
    def seconds(self) -> float:
        """Return how many simulated seconds have passed."""
        return (self.network.now - BEGINNING) / 1e6

    def node_ids(self) -> list[int]:
        """Return where each broker is on the ring."""
        return [node_id_of_key(self.cast.identity(name)[0].principal.key) for name in self.names]

    def kept(self) -> list[list[int]]:
        """Return which others each broker keeps in its leaf set and table, by their numbers."""
        number = {node: place for place, node in enumerate(self.node_ids())}
        overlays = (self.network.node(name).parts.routes.membership.overlay for name in self.names)
        return [[number[node] for node in overlay.nodes] for overlay in overlays]

    def _count(self, host: Host, effects: Sequence[Effect]) -> None:
        if host.address is None:
            return
        for effect in effects:
            if isinstance(effect, Send):
                self.tally.messages += 1
                if effect.data[1] in _CARRIED and isinstance(said := decode(effect.data), Carried):
                    self.tally.frames[said.type_id] += 1

    # ------------------------------------------------------------ clients

    def new_type(self) -> KnownVersion:
        """Return one more type of the owner."""
        self._types += 1
        name = TypeName(self.owner.principal, f"figure.{self._types}", "0")
        definition = TypeDefinition(name, None, (Attribute("value", _VALUE, Kind.INT),))
        return known_version([sign_definition(definition, self.owner)], at=BEGINNING)

    def client(
        self, at: str, types: Sequence[KnownVersion], action: Action, links: int = 1
    ) -> SimulatedClient:
        """Connect a client whose right is `links` certificates away from the owner."""
        self._clients += 1
        own = key_of(f"client {self._clients}", self.cast.seed)
        held = [self.cast.connect_right(own)]
        for known in types:
            held += self._chain(own, known, action, links)
        return self.network.client(f"client {self._clients}", at, key=own, credentials=tuple(held))

    def _chain(
        self, own: SigningKey, known: KnownVersion, action: Action, links: int
    ) -> Iterator[SignedCertificate]:
        issuer = self.owner
        for number in range(links - 1, -1, -1):
            holder = own if not number else key_of(f"{number} above client {self._clients}", self.cast.seed)
            about = known.event_type.name
            yield self.cast.grant(issuer, holder, about, action, may_delegate=bool(number))
            issuer = holder

    def settle(self, entries: Sequence[Advertised | Subscribed]) -> None:
        """Wait until all that was asked for stands, and brokers have told each other."""
        for _ in range(120):
            self.network.run_for(1)
            if all(one.stage is EntryStage.ACCEPTED for one in entries):
                self.network.run_for(2)
                return
        raise AssertionError("a request was not accepted")

    def publish(self, client: SimulatedClient, entry: Advertised) -> None:
        """Publish one event."""
        assert client.publish(entry, [{_VALUE: 1}])

    @contextmanager
    def counting_checks(self) -> Iterator[Counter[str]]:
        """Count the signatures that each broker checks."""
        usual = signature_keys._verifier

        def counted(key: bytes) -> Any:
            self.tally.checks[self.tally.at] += 1
            return usual(key)

        self.tally.clear()
        signature_keys._verifier = counted
        try:
            yield self.tally.checks
        finally:
            signature_keys._verifier = usual
