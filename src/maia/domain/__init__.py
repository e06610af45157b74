"""What one organisation runs: who gets which right, and who runs the key groups; no sockets, no disk."""

from maia.domain.access.service import AccessControl
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.keys.server import KeyServer
from maia.domain.keys.settings import DomainLimits, DomainSettings
from maia.domain.storage.store import DomainStore

__all__ = [
    "AccessControl",
    "AccessLimits",
    "AccessSettings",
    "DomainLimits",
    "DomainSettings",
    "DomainStore",
    "KeyServer",
]
