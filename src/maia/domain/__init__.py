"""What one organisation runs: who gets which right, and who runs the key groups; no sockets, no disk."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maia.domain.keys.server import KeyServer
from maia.domain.keys.settings import DomainLimits, DomainSettings

if TYPE_CHECKING:
    from maia.domain.access.service import AccessControl
    from maia.domain.access.settings import AccessLimits, AccessSettings
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

# Imported when first asked for: a server of keys alone does not load SQLAlchemy.
_HOMES = {
    "AccessControl": "maia.domain.access.service",
    "AccessLimits": "maia.domain.access.settings",
    "AccessSettings": "maia.domain.access.settings",
    "DomainStore": "maia.domain.storage.store",
}


def __getattr__(name: str) -> object:
    """Return one of the names above from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module `maia.domain` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
