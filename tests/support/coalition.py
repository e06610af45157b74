"""A network of brokers that believe one identity provider, and clients with statements of it.

They meet in `maia.testing.Net`: real ones in memory, time by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from maia.credentials import (
    UNBOUNDED,
    Action,
    SigningKey,
)
from maia.credentials.appointments import Argument
from maia.credentials.identity import Identity, IdentityTrust, SignedIdentity, issue_identity, pack_identity
from maia.credentials.requirements import parse_requirement
from maia.events import SECOND, Instant, attribute_uid
from maia.predicates import Predicate
from maia.testing import NetClient, key_of
from maia.wire.messages import Identify
from reference import requirements as reference
from support.numberplate import LOCATION, NOW, NUMBERPLATE, Net

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


def show(client: NetClient, **attributes: Argument) -> SignedIdentity:
    """Let a client show a statement with these attributes, in place of the one before."""
    made = statement(client.key, attributes, since=client.net.now)
    client.say(Identify(900, pack_identity(made)))
    return made


def member(net: Net, who: str, at: str, action: Action, **attributes: Argument) -> NetClient:
    """Connect a guest with the right to read or to write all of the type, and with a statement if any."""
    client = net.guest(who, net.cast.right(key_of(who), action, validity=UNBOUNDED), at=at)
    if attributes:
        show(client, **attributes)
    return client


def publish(client: NetClient, ref: int, plate: str, requires: str | None = None) -> None:
    """Publish one event, named by its plate, under the advertisement's requirement or another one."""
    required = None if requires is None else parse_requirement(requires)
    client.publish(ref, {NUMBERPLATE: plate, LOCATION: "Soho"}, requires=required)


def plates(client: NetClient) -> list[str]:
    """Return the events that a client has received, by their plates, and forget them."""
    return [str(event[NUMBERPLATE]) for event in client.take_events()]
