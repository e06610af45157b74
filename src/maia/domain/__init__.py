"""Who runs the key groups of a domain's types? A server as a value: no sockets, no clock, no disk."""

from maia.domain.key_server import KeyServer
from maia.domain.settings import DomainLimits, DomainSettings

__all__ = ["DomainLimits", "DomainSettings", "KeyServer"]
