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
    from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
    from maia.runtime.blocking_api import BlockingClient, connect_blocking
    from maia.runtime.client_api import Client, connect
    from maia.runtime.publisher import Publisher
    from maia.runtime.spark_source import register_spark
    from maia.runtime.subscription import ReceivedEvent, Subscription

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
    "BlockingClient": "maia.runtime.blocking_api",
    "BrokenCredential": "maia.errors",
    "Client": "maia.runtime.client_api",
    "MaiaError": "maia.errors",
    "ProtocolViolation": "maia.errors",
    "Publisher": "maia.runtime.publisher",
    "ReceivedEvent": "maia.runtime.subscription",
    "Refusal": "maia.errors",
    "Subscription": "maia.runtime.subscription",
    "Unavailable": "maia.errors",
    "connect": "maia.runtime.client_api",
    "connect_blocking": "maia.runtime.blocking_api",
    "register_spark": "maia.runtime.spark_source",
}


def __dir__() -> list[str]:
    """Return the names that are here for everybody, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Return one of the names above from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module `maia` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
