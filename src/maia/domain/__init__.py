"""What one organisation runs: who gets which right, and who runs the key groups; no sockets, no disk."""

from maia.domain.access_control import AccessControl
from maia.domain.access_settings import AccessLimits, AccessSettings
from maia.domain.access_store import DomainStore
from maia.domain.key_server import KeyServer
from maia.domain.settings import DomainLimits, DomainSettings

__all__ = [
    "AccessControl",
    "AccessLimits",
    "AccessSettings",
    "DomainLimits",
    "DomainSettings",
    "DomainStore",
    "KeyServer",
]
