"""A network of brokers that believe one identity provider, and clients with statements of it.

Brokers and clients are those of `support.broker`: real ones in memory, time by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

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
from maia.demo.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS
from maia.events import Instant, attribute_uid, frame_of
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Deliver, DeliverLogged, Identify, Publish, PublishTo
from support.broker import NOW, SECOND, Client, Net, connect_right

COMMUNITY = "coalition.north"
PROVIDER = SigningKey.from_seed(b"provider of the coalition".ljust(32, b"."))
TRUST = IdentityTrust(COMMUNITY, frozenset({PROVIDER.principal}))
LIFE_S = 900


def statement(
    key: SigningKey,
    attributes: Mapping[str, Argument],
    *,
    since: Instant = NOW,
    life_s: float = LIFE_S,
    provider: SigningKey = PROVIDER,
) -> SignedIdentity:
    """Return what the provider says of the holder of a key for a while."""
    said = Identity(
        provider.principal,
        COMMUNITY,
        key.principal,
        f"{key.principal!s}"[:16],
        {attribute_uid(name): value for name, value in attributes.items()},
        since,
        Instant(since + int(life_s * SECOND)),
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
        client.say(PublishTo(*said, requirement_to_bytes(parse_requirement(requires))))


def plates(client: Client) -> list[str]:
    """Return the events that a client has received, by their plates, and forget them."""
    found = [message for message in client.heard if isinstance(message, Deliver | DeliverLogged)]
    client.heard = [message for message in client.heard if message not in found]
    return [
        str(event[NUMBERPLATE])
        for message in found
        for event in columns_to_frame(message.columns, message.rows).events()
    ]
