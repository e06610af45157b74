"""How is a client configured, and how much does it hold?"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.credentials import NetworkName, Principal, SignedCertificate, SignedStatement, VerifiedConstitution
from maia.credentials.identity import IdentityTrust, SignedIdentity
from maia.errors import BadInput


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """One client of one network: whom it dials, what it can show, how much it has under way."""

    network: NetworkName
    addresses: tuple[str, ...]
    """Brokers, in the order of preference; the next one is tried when one fails."""
    credentials: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    brokers: frozenset[Principal] | None = None
    """The only brokers to talk to; None for every broker of the network."""
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    statements: tuple[SignedStatement, ...] = field(default=(), repr=False)
    """Statements by which certificates that demand one are known to count still."""
    identity: SignedIdentity | None = field(default=None, repr=False)
    """The client's own identity statement, shown on every link."""
    trust: IdentityTrust | None = None
    """Whose identity statements are believed: of brokers on statement links, and of publishers."""
    brokers_of: frozenset[Principal] | None = None
    """The organisations whose brokers to talk to; None for those of every organisation."""
    handshake_s: int = 10
    dial_again_s: float = 0.25
    """About how long to wait after the first failure; each further one doubles it."""
    dial_again_most_s: float = 30.0
    frames_under_way: int = 32
    """Frames of one publisher that the broker has not answered for."""
    bytes_under_way: int = 8 << 20
    """Bytes in such frames, of all publishers of this client together; one frame may always be."""
    streams: int = 4096
    """Publishers' streams whose numbers each subscription remembers, to drop what comes twice."""

    def __post_init__(self) -> None:
        """Refuse settings that no client can keep."""
        if not self.addresses:
            raise BadInput("INPUT-CLIENT-SETTINGS", "a client needs the address of one broker at least")
        if self.handshake_s < 1 or self.frames_under_way < 1 or self.streams < 1:
            raise BadInput("INPUT-CLIENT-SETTINGS", "the limits of a client are positive numbers")
