"""In which ways does a key server say no, beside those of the policy kernel and of the groups?

A `ProtocolViolation` closes the link that it came from; every other error
answers one request and leaves the link alone. Sentences are for the peer.
"""

from __future__ import annotations

from maia.errors import BadInput, ProtocolViolation, Refusal, Unavailable

__all__ = [
    "BadDomainSettings",
    "BadJoin",
    "BadStatementRecord",
    "HandshakeOverdue",
    "KeyServerFull",
    "KeyServerStopped",
    "MemberSilent",
    "NotAMember",
    "NotExpected",
    "NotManagedHere",
    "OtherNetwork",
    "TooManyJoins",
]


class BadDomainSettings(BadInput):
    """A key server cannot run with these settings."""

    code = "INPUT-DOMAIN-SETTINGS"


class BadStatementRecord(BadInput):
    """What a key server kept of statements cannot be read: without it, it would forget revocations."""

    code = "INPUT-KEY-SERVER-STATEMENTS"


class NotExpected(ProtocolViolation):
    """A message came that means nothing to a key server at this point."""

    code = "PROTOCOL-NOT-EXPECTED"


class OtherNetwork(ProtocolViolation):
    """The peer is one of another network, or speaks another version of the protocol."""

    code = "PROTOCOL-OTHER-NETWORK"


class BadJoin(BadInput):
    """A request to join names no type, or several, or a version that was not handed over."""

    code = "INPUT-JOIN-GROUPS"


class NotManagedHere(Refusal):
    """The owner of the type has named another manager for its key groups, or none."""

    code = "REFUSED-NOT-MANAGED-HERE"


class NotAMember(Refusal):
    """Only members of a type's own group are told who publishes."""

    code = "REFUSED-NOT-A-MEMBER"


class TooManyJoins(Unavailable):
    """A principal asks more often than its quota."""

    code = "UNAVAILABLE-JOIN-QUOTA"


class KeyServerFull(Unavailable):
    """The key server has as many links, types or versions as it may."""

    code = "UNAVAILABLE-KEY-SERVER-FULL"


class HandshakeOverdue(Unavailable):
    """The peer did not prove its right to connect in time."""

    code = "UNAVAILABLE-HANDSHAKE-OVERDUE"


class MemberSilent(Unavailable):
    """Nothing was heard from the peer for a whole lease."""

    code = "UNAVAILABLE-MEMBER-SILENT"


class KeyServerStopped(Unavailable):
    """The key server is being stopped; members go on with the keys they have."""

    code = "UNAVAILABLE-KEY-SERVER-STOPPED"
