"""In random trees of types, every reader sees what the plain reference says, before and after revocations."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from maia.credentials import Action, SignedCertificate, TestKind, TypeName, Validity
from maia.events import SECOND, Attribute, Instant, Kind, attribute_uid
from maia.testing import Issuer, NetClient
from maia.types import TypeDefinition, definition_to_bytes, sign_definition
from reference.inheritance import PlainType, consented, seen_as
from support.numberplate import NUMBERPLATE_ATTRIBUTES, NUMBERPLATE_KINDS, Net, sighting
from support.random_cases import usually

BROKERS = ("CCS broker", "PITO broker", "Met broker")
OWNERS = ("PITO", "CCS", "Met")
READER, WRITER = "Detective Smith", "camera at Victoria"
TYPES, STEPS = 5, 12


class Tree:
    """A tree of types below the story's, with a reader of each of them and a publisher of each below."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - test cases, not secrets
        self.net = Net(lease_s=3600, require_install=False)
        self.net.broker("PITO broker")
        self.net.broker("CCS broker", seeds=["PITO broker"])
        self.net.broker("Met broker", seeds=["CCS broker"])
        self.issuers = {who: Issuer(self.net, who, f"{who} broker") for who in OWNERS}
        for issuer in self.issuers.values():
            issuer.state(issuer.says.list_now())
        root = self.net.cast.definition
        shape = frozenset((one.name, str(one.uid), one.kind.value) for one in NUMBERPLATE_ATTRIBUTES)
        self.signed = [root]
        self.plain = [PlainType(("PITO", root.definition.name.name), shape)]
        self.consents: list[SignedCertificate | None] = [None]
        self.owners = ["PITO"]
        for number in range(1, TYPES):
            self._extend(number)
        self.revoked: set[int] = set()
        self.readers = [self._reader(number) for number in range(TYPES)]
        self.writers = [self._writer(number) for number in range(TYPES)]

    def _extend(self, number: int) -> None:
        above = self.random.randrange(number)
        owner = self.random.choice(OWNERS)
        story, signed, plain = self.net.cast, self.signed[above], self.plain[above]
        name = TypeName(story.principal(owner), f"tree.Type{number}", "0")
        consent = None
        credentials: list[SignedCertificate] = []
        if owner != self.owners[above]:
            extended = signed.definition.name
            # Two consents that say the same would be one certificate, and revoked together.
            granted = Validity(None, Instant(self.net.now + number * 86_400 * SECOND))
            consent = story.grant(
                self.owners[above], owner, extended, Action.EXTEND, test=TestKind.CRL, validity=granted
            )
            credentials.append(consent)
        own = Attribute(f"own{number}", attribute_uid(f"uid-{number}"), Kind.INT)
        definition = TypeDefinition(
            name, None, (*signed.definition.attributes, own), tuple(credentials), None, (signed,)
        )
        self.signed.append(sign_definition(definition, story.keys[owner]))
        shape = plain.attributes | {(own.name, str(own.uid), own.kind.value)}
        self.plain.append(PlainType((owner, name.name), shape, plain))
        self.consents.append(consent)
        self.owners.append(owner)

    def _client(self, who: str, number: int, action: Action) -> tuple[NetClient, int]:
        story, name = self.net.cast, self.signed[number].definition.name
        right = story.grant(self.owners[number], who, name, action)
        at = self.random.choice(BROKERS)
        connects = [one for one in story.certificates if Action.CONNECT in one.certificate.authority.actions]
        client = self.net.client(who, at, credentials=(*connects, right))
        client.stream = bytes([number]) * 16
        asked: dict[str, Any] = {
            "definitions": [definition_to_bytes(self.signed[number])],
            "event_type": name,
        }
        ref = client.subscribe(**asked) if action is Action.SUBSCRIBE else client.advertise(**asked)
        assert client.was_accepted(ref), client.heard
        return client, ref

    def _reader(self, number: int) -> tuple[NetClient, int]:
        return self._client(READER, number, Action.SUBSCRIBE)

    def _writer(self, number: int) -> tuple[NetClient, int]:
        return self._client(WRITER, number, Action.PUBLISH)

    def publish(self, number: int, serial: int) -> None:
        """Publish as one of the types, and compare what every reader was given."""
        client, ref = self.writers[number]
        kinds = {one.uid: one.kind for one in self.signed[number].definition.attributes}
        event = sighting(f"plate {serial}")
        event |= {uid: serial for uid in kinds if uid not in NUMBERPLATE_KINDS}
        for reader, _ in self.readers:
            reader.take_events()
        client.publish(ref, event, kinds=kinds)
        lost = frozenset(self.plain[one].name for one in self.revoked)
        expected = {seen.name: seen_as(event, seen) for seen in consented(self.plain[number], lost)}
        for plain, (reader, wanted) in zip(self.plain, self.readers, strict=True):
            rows = [expected[plain.name]] if plain.name in expected else []
            assert reader.events(wanted) == rows, (self.plain[number].name, plain.name, self.revoked)

    def revoke(self) -> None:
        """Let the owner of a super-type take its consent back."""
        there = [one for one in range(TYPES) if self.consents[one] is not None and one not in self.revoked]
        if not there:
            return
        number = self.random.choice(there)
        consent = self.consents[number]
        assert consent is not None
        self.revoked.add(number)
        above = next(who for who in OWNERS if self.net.cast.principal(who) == consent.certificate.issuer)
        self.issuers[above].revoke(consent)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(48_113, 48_113 + usually(8, laws=24)))
def test_every_reader_sees_what_the_reference_says(seed: int) -> None:
    tree = Tree(seed)
    for serial in range(STEPS):
        tree.publish(tree.random.randrange(TYPES), serial)
        if tree.random.random() < 0.25:
            tree.revoke()
    assert not any(client.bye for client, _ in (*tree.readers, *tree.writers))
