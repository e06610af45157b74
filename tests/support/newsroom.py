"""A newsroom over real sockets: one owner's topics, two brokers, and people with rights by pattern."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from hashlib import sha256

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkName,
    SignedCertificate,
    SigningKey,
    TypePattern,
    Validity,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.predicates.path_patterns import parse_path_pattern
from maia.testing import grant
from maia.types import Sealing, SignedDefinition, TypeDefinition, sign_definition
from maia.types.definition import PUBLICATION, on_topics, plain_attributes, topic_attributes, tree_name

NETWORK = "City Network"
PUBLISH, SUBSCRIBE = Action.PUBLISH, Action.SUBSCRIBE


def key(name: str) -> SigningKey:
    """Return the key of somebody in the newsroom."""
    return SigningKey.from_seed(sha256(b"newsroom" + name.encode()).digest())


CITY = key("city")
_SECOND = 1_000_000
_NOW = system_now() // _SECOND * _SECOND
LASTING = Validity(Instant(_NOW - _SECOND), Instant(_NOW + 3600 * _SECOND))


def declared(
    root: str = "/news",
    owner: SigningKey = CITY,
    *,
    credentials: tuple[SignedCertificate, ...] = (),
    sealing: Sealing | None = None,
    several: bool = False,
) -> SignedDefinition:
    """Return the declaration of plain topics."""
    shape = plain_attributes([Attribute("headline", AttributeUid("headline"), Kind.STRING)])
    shape += (PUBLICATION,) if several else ()
    name = tree_name(owner.principal, root)
    return sign_definition(TypeDefinition(name, None, shape, credentials, sealing), owner)


def declared_typed(root: str = "/prices", owner: SigningKey = CITY) -> SignedDefinition:
    """Return the declaration of typed topics."""
    shape = topic_attributes([Attribute("price", AttributeUid("price"), Kind.FLOAT)])
    return sign_definition(TypeDefinition(tree_name(owner.principal, root), None, shape), owner)


NEWS = declared()


def granted(
    who: str,
    action: Action,
    *patterns: str,
    issuer: SigningKey = CITY,
    owner: SigningKey = CITY,
    type_name: str | None = None,
    **terms: object,
) -> SignedCertificate:
    """Return a certificate over topics by pattern, as `maia cert issue --topic` makes it."""
    tree = type_name or f"topic.{patterns[0].split('/')[1]}"
    resources = TypePattern(owner.principal, parse_name_pattern(tree), None)
    restriction = on_topics(map(parse_path_pattern, patterns))
    how = {"validity": LASTING, "restriction": restriction, **terms}
    return grant(issuer, key(who), resources, action, **how)


def connecting(who: str, *more: Action) -> SignedCertificate:
    """Return the right to connect, and to install types; of a broker with one action more."""
    actions = (Action.CONNECT, Action.SERVE, Action.INSTALL, *more)
    return grant(CITY, key(who), NetworkName(CITY.principal, NETWORK), *actions, validity=LASTING)


@asynccontextmanager
async def brokers(*names: str, **changes: object) -> AsyncIterator[list[RunningBroker]]:
    """Run brokers; each joins the first."""
    running: list[RunningBroker] = []
    network, more = NetworkName(CITY.principal, NETWORK), changes.pop("credentials", ())
    async with AsyncExitStack() as stack:
        for name in names:
            seeds = tuple(one.address for one in running[:1])
            shown = (connecting(name, Action.BROKER), *more)
            settings = BrokerSettings(network, "127.0.0.1:0", shown, seeds=seeds, **changes)
            running.append(await stack.enter_async_context(run_broker(key(name), settings)))
        yield running


def client(
    who: str,
    broker: RunningBroker,
    *certificates: SignedCertificate,
    types: Iterable[SignedDefinition] = (NEWS,),
    **named: object,
) -> AbstractAsyncContextManager[Client]:
    """Connect somebody with these certificates."""
    return maia.connect(
        broker.address,
        key=CITY if who == "city" else key(who),
        network=NetworkName(CITY.principal, NETWORK),
        credentials=(connecting(who), *certificates),
        types=types,
        dial_again_s=0.05,
        **named,
    )


async def received(subscription, publish, marker: str) -> list[str]:
    """Publish a marker again and again until it arrives; return the topics of everything before it."""
    found: list[str] = []
    while True:
        await publish(marker)
        for event in await subscription.some(64, timeout_s=0.2):
            if event["topic"] == marker:
                return found
            found.append(event["topic"])
