"""Which type does the application speak of, and may its definition be believed?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maia.client.problems import UnknownToClient
from maia.credentials import VerifiedConstitution
from maia.events import Instant
from maia.types import SignedDefinition, VerifiedType, definition_to_bytes, verify_definition

__all__ = ["KnownVersion", "known_version"]


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A verified version of a type, and the definitions to hand to a broker that does not know it."""

    event_type: VerifiedType
    definitions: tuple[bytes, ...] = field(repr=False)


def known_version(
    history: Sequence[SignedDefinition],
    *,
    at: Instant,
    constitutions: tuple[VerifiedConstitution, ...] = (),
) -> KnownVersion:
    """Verify a version and those it was made from, oldest first; the last one is what is meant."""
    verified: VerifiedType | None = None
    for signed in history:
        verified = verify_definition(signed, at=at, previous=verified, constitutions=constitutions)
    if verified is None:
        raise UnknownToClient("no definition of the type is at hand")
    return KnownVersion(verified, tuple(definition_to_bytes(signed) for signed in history))
