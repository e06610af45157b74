"""Maia: publish/subscribe for organisations that share event streams without trusting each other fully.

import maia

with maia.connect("dashboard.maia") as dashboard:
    for event in dashboard.subscribe("LabResult", "value > 100"):
        print(event["ward"], event["value"], event.published_at)

maia.open_log(profile="dashboard.maia").table("LabResult").to_pandas()

The names here are what applications use; each is loaded when it is first asked for. The
packages below (`maia.credentials`, `maia.policy`, `maia.client.api` …) are the exact layers.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maia import spark
    from maia.client.api.blocking_client import BlockingClient, connect_blocking
    from maia.client.api.client import Client
    from maia.client.api.connection import Connection, connect
    from maia.client.api.publisher import Publisher
    from maia.client.api.subscription import ReceivedEvent, Subscription
    from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
    from maia.organisation import Grant, Organisation
    from maia.profile import Profile
    from maia.spark.open_log import RecordedLog, RecordedTable, open_log
    from maia.spark.source.data_source import register_spark

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "BlockingClient",
    "BrokenCredential",
    "Client",
    "Connection",
    "Grant",
    "MaiaError",
    "Organisation",
    "Profile",
    "ProtocolViolation",
    "Publisher",
    "ReceivedEvent",
    "RecordedLog",
    "RecordedTable",
    "Refusal",
    "Subscription",
    "Unavailable",
    "__version__",
    "connect",
    "connect_blocking",
    "open_log",
    "register_spark",
    "spark",
]

# Imported when first asked for, so that `import maia` and a short command stay fast.
_HOMES = {
    "BadInput": "maia.errors",
    "BlockingClient": "maia.client.api.blocking_client",
    "BrokenCredential": "maia.errors",
    "Client": "maia.client.api.client",
    "Connection": "maia.client.api.connection",
    "Grant": "maia.organisation",
    "MaiaError": "maia.errors",
    "Organisation": "maia.organisation",
    "Profile": "maia.profile",
    "ProtocolViolation": "maia.errors",
    "Publisher": "maia.client.api.publisher",
    "ReceivedEvent": "maia.client.api.subscription",
    "RecordedLog": "maia.spark.open_log",
    "RecordedTable": "maia.spark.open_log",
    "Refusal": "maia.errors",
    "Subscription": "maia.client.api.subscription",
    "Unavailable": "maia.errors",
    "connect": "maia.client.api.connection",
    "connect_blocking": "maia.client.api.blocking_client",
    "open_log": "maia.spark.open_log",
    "register_spark": "maia.spark.source.data_source",
}


def __dir__() -> list[str]:
    """Return the names that are here for everybody, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Return one of the names above from its home."""
    if name == "spark":
        return import_module("maia.spark")
    if name not in _HOMES:
        raise AttributeError(f"module `maia` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
