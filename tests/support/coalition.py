"""A network of brokers that believe one identity provider, and clients with statements of it.

Brokers and clients are those of `support.broker`: real ones in memory, time by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random
from typing import Any

from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SigningKey,
    TypePattern,
    exact_name,
    issue,
)
from maia.credentials.appointments import Argument
from maia.credentials.identity import Identity, IdentityTrust, SignedIdentity, issue_identity, pack_identity
from maia.credentials.requirements import parse_requirement, requirement_to_bytes
from maia.events import Instant, attribute_uid, frame_of
from maia.predicates import Predicate
from maia.types import type_id
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.effects import LinkId, Received
from maia.wire.messages import Deliver, DeliverLogged, Identify, Message, Publish
from reference import requirements as reference
from support.broker import NOW, SECOND, Client, Net, connect_right
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS

COMMUNITY = "coalition.north"
PROVIDER = SigningKey.from_seed(b"provider of the coalition".ljust(32, b"."))
TRUST = IdentityTrust(COMMUNITY, frozenset({PROVIDER.principal}))
LIFE_S = 900


def random_attributes(random: Random) -> dict[str, Argument]:
    """Return what a provider may say of somebody; an attribute may be missing, or of another kind."""
    pool: dict[str, tuple[Argument, ...]] = {
        "nationality": ("uk", "no", "us"),
        "clearance": (0, 1, 2, 3, 4, "3"),
        "on-duty": (True, False),
    }
    return {name: random.choice(values) for name, values in pool.items() if random.random() < 0.8}


def random_rule(random: Random, depth: int = 2) -> reference.Requirement:
    """Return a requirement as the reference writes it; about half of all people meet it."""
    choice = random.random()
    if depth and choice < 0.45:
        parts = tuple(random_rule(random, depth - 1) for _ in range(2))
        return ("not", parts[0]) if choice < 0.1 else ("and" if choice < 0.2 else "or", *parts)
    return random.choice(
        [
            ("nationality", random.choice(("==", "!=")), random.choice(("uk", "no"))),
            ("clearance", random.choice((">=", "<")), random.choice((1, 2, 3))),
            ("on-duty", "==", True),
        ]
    )


def random_requirement(random: Random) -> Predicate:
    """Return the same in the system's own form."""
    return parse_requirement(reference.written(random_rule(random)))


class TamperingNet(Net):
    """A network in which a router on the way may change what brokers say to each other."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.tamper: Callable[[Message], Message] = lambda message: message
        name = self.story.definition.definition.name
        self.type_id = type_id(name.owner, name.name)

    def _send(self, name: str, link: LinkId, data: bytes) -> None:
        if (name, link) in self.wires:
            data = encode(self.tamper(decode(data)))
        super()._send(name, link, data)

    def repeat(self, sender: str, receiver: str, message: Message) -> None:
        """Let one broker say something to another."""
        link = next(
            there for (name, _), (at, there) in self.wires.items() if (name, at) == (sender, receiver)
        )
        self._input(self.brokers[receiver], Received(link, encode(message)))
        self.settle()


def statement(
    key: SigningKey,
    attributes: Mapping[str, Argument],
    *,
    since: Instant = NOW,
    life_s: int = LIFE_S,
    provider: SigningKey = PROVIDER,
) -> SignedIdentity:
    """Return what the provider says of the holder of a key for a while, in whole seconds."""
    begins = since - since % SECOND
    said = Identity(
        provider.principal,
        COMMUNITY,
        key.principal,
        f"{key.principal!s}"[:16],
        {attribute_uid(name): value for name, value in attributes.items()},
        Instant(begins),
        Instant(begins + life_s * SECOND),
        provider.principal,
    )
    return issue_identity(said, provider)


def show(client: Client, **attributes: Argument) -> SignedIdentity:
    """Let a client show a statement with these attributes, in place of the one before."""
    made = statement(client.key, attributes, since=client.net.now)
    client.say(Identify(900, pack_identity(made)))
    return made


def member(net: Net, who: str, at: str, action: Action, **attributes: Argument) -> Client:
    """Connect somebody with the right to read or to write all of the type, and with a statement if any."""
    key = SigningKey.from_seed(sha256(who.encode()).digest())
    name = net.story.definition.definition.name
    authority = Authority(TypePattern(name.owner, exact_name(name.name), None), frozenset({action}))
    owner = net.story.keys["PITO"]
    right = AuthorisationCertificate(owner.principal, key.principal, False, authority, UNBOUNDED)
    wallet = (connect_right(net.story, key.principal), issue(right, owner))
    client = net.client(who, at, key=key, credentials=wallet)
    if attributes:
        show(client, **attributes)
    return client


def publish(client: Client, ref: int, plate: str, requires: str | None = None) -> None:
    """Publish one event, named by its plate, under the advertisement's requirement or another one."""
    frame = frame_of([{NUMBERPLATE: plate, LOCATION: "Soho"}], NUMBERPLATE_KINDS)
    sequence, client.next_sequence = client.next_sequence, client.next_sequence + 1
    said = (ref, sequence, int(client.net.now), frame.rows, frame_to_columns(frame))
    if requires is None:
        client.say(Publish(*said))
    else:
        client.say(Publish(*said, requirement_to_bytes(parse_requirement(requires))))


def plates(client: Client) -> list[str]:
    """Return the events that a client has received, by their plates, and forget them."""
    found = [message for message in client.heard if isinstance(message, Deliver | DeliverLogged)]
    client.heard = [message for message in client.heard if message not in found]
    return [
        str(event[NUMBERPLATE])
        for message in found
        for event in columns_to_frame(message.columns, message.rows).events()
    ]
