"""Which settings does a member of key groups have, and how long does it wait?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from maia.credentials import NetworkName, Principal, SignedCertificate, VerifiedConstitution
from maia.errors import BadInput
from maia.policy import BoundRule
from maia.sessions.challenges import Challenged


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """One member of one network; each wait has an end."""

    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    """What it shows to managers: its right to connect, and its rights to publish and subscribe."""
    addresses: tuple[str, ...] = ()
    """Where managers may be found, beside the addresses that definitions name."""
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    handshake_s: int = 10
    """How long a manager may take to welcome this member."""
    answer_s: int = 10
    """How long a manager may take to answer."""
    check_s: int = 20
    """How often the member compares its newest epoch with the manager's."""
    dial_again_s: float = 0.1
    """How long to wait before dialling again; doubled after each failure."""
    again_s: float = 0.1
    """How long to wait before asking again; doubled after each refusal."""
    again_max_s: int = 60
    types_max: int = 4096

    def __post_init__(self) -> None:
        """Refuse waits without an end."""
        if min(self.handshake_s, self.answer_s, self.check_s) < 1:
            raise BadInput("INPUT-MEMBER-SETTINGS", "a member waits at least one second for any answer")
        first = self.dial_again_s, self.again_s
        if min(first) <= 0 or max(first) > self.again_max_s:
            raise BadInput("INPUT-MEMBER-SETTINGS", "the longest wait is not shorter than the first")


# The notices that a key member gives its broker.


@dataclass(frozen=True, slots=True)
class KeysChanged:
    """The ring of a type has other keys than before: what waited for them may be tried again."""

    type_id: bytes


@dataclass(frozen=True, slots=True)
class KeysRefused:
    """The manager lets this member into no group of the type, and says why."""

    type_id: bytes
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class WriterReceived:
    """A publisher's certificates, from the manager; none if it does not know."""

    type_id: bytes
    principal: Principal
    certificates: tuple[SignedCertificate, ...] = field(repr=False)


Notice: TypeAlias = Challenged | KeysChanged | KeysRefused | WriterReceived
