"""Which type does the application speak of, and may its definition be believed?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from maia.client.errors import UnknownToClient
from maia.credentials import TypeName, VerifiedConstitution
from maia.events import Instant
from maia.types import SignedDefinition, VerifiedType, definition_to_bytes, verify_definition

__all__ = ["KnownVersion", "histories", "known_version"]


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


def histories(definitions: Iterable[SignedDefinition]) -> list[tuple[SignedDefinition, ...]]:
    """Return each definition after those among the given ones that it was made from, oldest first."""
    by_name = {signed.definition.name: signed for signed in definitions}
    return [_history(signed, by_name) for signed in by_name.values()]


def _history(
    signed: SignedDefinition, by_name: dict[TypeName, SignedDefinition]
) -> tuple[SignedDefinition, ...]:
    found = [signed]
    while len(found) <= len(by_name):  # definitions may name each other in a circle
        name, before = found[0].definition.name, found[0].definition.previous
        previous = None if before is None else by_name.get(TypeName(name.owner, name.name, before))
        if previous is None:
            break
        found.insert(0, previous)
    return tuple(found)
