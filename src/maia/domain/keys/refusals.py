"""In which ways does a key server say no, beside those of the policy kernel and of the groups?

A `ProtocolViolation` closes the link that it came from; every other error
answers one request and leaves the link alone. Sentences are for the peer.
"""

from __future__ import annotations

from maia.errors import BadInput, Refusal, Unavailable

__all__ = [
    "BadDomainSettings",
    "BadJoin",
    "KeyServerFull",
    "NotAMember",
    "NotManagedHere",
]


class BadDomainSettings(BadInput):
    """A key server cannot run with these settings."""

    code = "INPUT-DOMAIN-SETTINGS"


class BadJoin(BadInput):
    """A request to join names no type, or several, or a version that was not handed over."""

    code = "INPUT-JOIN-GROUPS"


class NotManagedHere(Refusal):
    """The owner of the type has named another manager for its key groups, or none."""

    code = "REFUSED-NOT-MANAGED-HERE"


class NotAMember(Refusal):
    """Only members of a type's own group are told who publishes."""

    code = "REFUSED-NOT-A-MEMBER"


class KeyServerFull(Unavailable):
    """The key server has as many links, types or versions as it may."""

    code = "UNAVAILABLE-KEY-SERVER-FULL"
