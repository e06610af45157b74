"""Who is this broker, and how is it set up at this moment?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from maia.broker.settings import BrokerSettings
from maia.credentials import (
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    certificate_to_bytes,
)
from maia.errors import Unavailable


@dataclass(slots=True, eq=False)
class Own:
    """A broker's key, what it shows of itself, and the settings that count now."""

    key: SigningKey = field(repr=False)
    settings: BrokerSettings
    random: Callable[[int], bytes]
    instance: bytes
    shown: list[bytes] = field(repr=False)
    """What is shown in the handshake: the right to connect. Rights to types: `interests/rekeying.py`."""
    identity: bytes = field(default=b"", repr=False)
    """The short form of its own identity statement, if it has one."""
    is_draining: bool = False
    unkept: str = ""
    """Why nothing can be kept at this moment, if that is so."""

    @property
    def principal(self) -> Principal:
        """Return who this broker is."""
        return self.key.principal

    def refuse_unkept(self) -> None:
        """Refuse what a peer could rely on after a restart, while nothing can be kept."""
        if self.unkept:
            raise Unavailable(
                "UNAVAILABLE-STORE",
                "this broker cannot write its data folder at this moment, and takes no new request on "
                "until it can; what it has accepted goes on: ask again later",
            )


def shown_to_every_peer(certificates: Iterable[SignedCertificate]) -> list[bytes]:
    """Return what this broker shows to every peer, as bytes."""
    # Certificates for types do not help to connect, and say more than every peer may know.
    return [
        certificate_to_bytes(one)
        for one in certificates
        if not isinstance(one.certificate, AuthorisationCertificate)
        or not isinstance(one.certificate.authority.resources, TypePattern)
    ]
