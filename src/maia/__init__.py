"""Maia: publish/subscribe for organisations that share event streams without trusting each other fully.

import maia

async with maia.connect("127.0.0.1:7400", key=key, credentials=wallet, network=network) as client:
    subscription = await client.subscribe(definition, 'numberplate == "AE05 XYZ"')
    async for event in subscription:
        print(event)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maia.client.api.blocking import BlockingClient, connect_blocking
    from maia.client.api.client import Client, connect
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import ReceivedEvent, Subscription
    from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
    from maia.spark.source.data_source import register_spark

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "BlockingClient",
    "BrokenCredential",
    "Client",
    "MaiaError",
    "ProtocolViolation",
    "Publisher",
    "ReceivedEvent",
    "Refusal",
    "Subscription",
    "Unavailable",
    "__version__",
    "connect",
    "connect_blocking",
    "register_spark",
]

# Imported when first asked for, so that `import maia` and a short command stay fast.
_HOMES = {
    "BadInput": "maia.errors",
    "BlockingClient": "maia.client.api.blocking",
    "BrokenCredential": "maia.errors",
    "Client": "maia.client.api.client",
    "MaiaError": "maia.errors",
    "ProtocolViolation": "maia.errors",
    "Publisher": "maia.client.api.publisher",
    "ReceivedEvent": "maia.client.api.subscription",
    "Refusal": "maia.errors",
    "Subscription": "maia.client.api.subscription",
    "Unavailable": "maia.errors",
    "connect": "maia.client.api.client",
    "connect_blocking": "maia.client.api.blocking",
    "register_spark": "maia.spark.source.data_source",
}


def __dir__() -> list[str]:
    """Return the names that are here for everybody, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Return one of the names above from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module `maia` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
