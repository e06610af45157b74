"""Who published an event, with which attributes, and what of that has this client verified itself?

    event.publisher.identifier, event.publisher.attributes["clearance"], event.publisher.is_signed

A delivery brings the identity statement that the publisher's broker attached and that the subscriber's
own broker has verified. A client that trusts providers itself verifies it again, and shows nothing
of one that does not hold. The publisher's own signature over these values, where it signs, needs no
router: whoever has changed, added or invented an event has not made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal
from maia.credentials.identity import Identity, IdentityTrust, unpack_identity
from maia.errors import MaiaError
from maia.events import SECOND, AttributeUid, Frame, PresentValue
from maia.sealing.frames.authorship import AuthorProof, Publishing
from maia.wire.messages import Author

_STATEMENTS_REMEMBERED: Final = 1024
_SKEW_S: Final = 60
"""How far the publisher's clock may be from its provider's."""
_NOTHING: Final[Mapping[AttributeUid, PresentValue | Principal]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PublishedBy:
    """The publisher of an event: its key, and what is known about the holder of that key."""

    principal: Principal
    identity: Identity | None = None
    """What the publisher's identity provider says; None if no statement came with the event."""
    is_identity_verified: bool = False
    """Whether this client has verified the statement itself, and not its broker alone."""
    is_signed: bool = False
    """Whether the publisher's own signature covers these values, as this client has verified."""

    @property
    def identifier(self) -> str | None:
        """Return what the publisher is called, such as anna@norway."""
        return None if self.identity is None else self.identity.identifier

    @property
    def attributes(self) -> Mapping[AttributeUid, PresentValue | Principal]:
        """Return the publisher's attributes, such as a clearance; none without a statement."""
        return _NOTHING if self.identity is None else self.identity.attributes

    @property
    def is_verified(self) -> bool:
        """Whether this client has verified author, content and statement, without trust in a router."""
        return self.is_signed and (self.identity is None or self.is_identity_verified)

    def __str__(self) -> str:
        """Return the publisher's key."""
        return str(self.principal)


class AuthorReader:
    """Reads what comes with deliveries; a statement is verified once, however often it comes."""

    __slots__ = ("_known", "_trust")

    def __init__(self, trust: IdentityTrust | None) -> None:
        """Verify statements by these providers; without any, the broker's word is taken for them."""
        self._trust = trust
        self._known: BoundedMap[bytes, tuple[Identity | None]] = BoundedMap(_STATEMENTS_REMEMBERED)

    def read(self, publisher: Principal, author: Author, about: Publishing, frame: Frame) -> PublishedBy:
        """Return what holds of a publisher; what does not is left out."""
        identity = self._identity(author.statement) if author.statement else None
        if identity is not None:
            moment, skew = about.published_at, _SKEW_S * SECOND
            is_of_its_time = identity.not_before - skew <= moment <= identity.not_after + skew
            identity = identity if identity.subject == publisher and is_of_its_time else None
        is_verified = identity is not None and self._trust is not None
        return PublishedBy(publisher, identity, is_verified, _is_signed(publisher, author, about, frame))

    def _identity(self, statement: bytes) -> Identity | None:
        known = self._known.use(statement)
        if known is None:
            known = (self._read_anew(statement),)
            self._known.put(statement, known)
        return known[0]

    def _read_anew(self, statement: bytes) -> Identity | None:
        try:
            said = unpack_identity(statement).statement
            if self._trust is None:
                return said
            return self._trust.verified(statement, said.subject, said.not_before).statement
        except MaiaError:
            return None


def _is_signed(publisher: Principal, author: Author, about: Publishing, frame: Frame) -> bool:
    if not author.proof:
        return False
    try:
        AuthorProof.from_bytes(author.proof).check(publisher, about, frame)
    except MaiaError:
        return False
    return True
