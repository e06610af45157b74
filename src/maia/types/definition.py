"""What does one version of an event type say?

A definition is a value: the name, the version it was made from, the
attributes, whether its events travel sealed, and the credentials of whoever
signs it (dissertation, tables 4.2 to 4.4). Its bytes are in `encoding.py`;
whether to believe it is answered in `verification.py`. A definition that
exists is well formed: names and uids are unique, and every count is bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from maia.credentials.certificate import SignedCertificate
from maia.credentials.names import FIRST_VERSION, TypeName, Version, checked_version
from maia.credentials.principals import Owner, Principal
from maia.errors import BadInput
from maia.events import Attribute, AttributeUid, BadAttribute, Kind, vocabulary_of
from maia.types.sealing import ENVELOPE_UID, Sealing

__all__ = [
    "CREDENTIALS_MAX",
    "BadDefinition",
    "SignedDefinition",
    "TypeDefinition",
    "TypeShape",
    "type_id",
]

CREDENTIALS_MAX: Final = 64
"""How many certificates one definition may carry."""

_ROUTING_DOMAIN: Final = b"maia/1/type-id\x00"


class BadDefinition(BadInput):
    """A type definition contradicts itself or leaves something out."""

    code = "TYPE-DEFINITION"


class TypeShape(Protocol):
    """The attributes of one version, indexed both ways: all that translation and checks need."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes in the order of the definition."""

    @property
    def vocabulary(self) -> Mapping[str, Attribute]:
        """Return the attributes by name."""

    @property
    def kinds(self) -> Mapping[AttributeUid, Kind]:
        """Return the kind of each attribute by uid."""


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """One version of an event type, as its author wrote it and nobody has checked it."""

    name: TypeName
    previous: Version | None
    attributes: tuple[Attribute, ...]
    credentials: tuple[SignedCertificate, ...] = ()
    sealing: Sealing | None = None
    """How events travel between brokers; None for plaintext."""
    vocabulary: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)
    kinds: Mapping[AttributeUid, Kind] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a definition that no verifier could accept."""
        _check_previous(self.name.version, self.previous)
        _check_credentials(self.credentials)
        vocabulary = _vocabulary(self.attributes)
        object.__setattr__(self, "vocabulary", MappingProxyType(vocabulary))
        kinds = {attribute.uid: attribute.kind for attribute in self.attributes}
        if self.sealing is not None and self.sealing.blinded and ENVELOPE_UID in kinds:
            raise BadDefinition(f"no attribute of a blinded type has the uid `{ENVELOPE_UID}`")
        object.__setattr__(self, "kinds", MappingProxyType(kinds))


@dataclass(frozen=True, slots=True)
class SignedDefinition:
    """A definition, who signed it, and the exact bytes that were signed.

    `id` is SHA-256 over the signed bytes and never over the signature. Nothing
    here says that the signature holds: only a `VerifiedType` does.
    """

    definition: TypeDefinition
    signer: Principal
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes


def type_id(owner: Owner, name: str) -> bytes:
    """Return the digest by which every version of a type is routed.

    The version is left out on purpose, so that all versions of a type share
    one rendezvous node (dissertation, section 4.4.3).
    """
    # The text form of an owner has one length per kind of owner, so no two pairs share these bytes.
    return hashlib.sha256(_ROUTING_DOMAIN + f"{owner}\x00{name}".encode()).digest()


def _check_previous(version: Version, previous: Version | None) -> None:
    if version == FIRST_VERSION:
        if previous is not None:
            raise BadDefinition("version `0` is the first: it has no previous version")
        return
    if previous is None:
        raise BadDefinition(f"version `{version}` must name the version it was made from")
    checked_version(previous)
    if previous == version:
        raise BadDefinition(f"version `{version}` names itself as its previous version")


def _check_credentials(credentials: tuple[SignedCertificate, ...]) -> None:
    if len(credentials) > CREDENTIALS_MAX:
        raise BadDefinition(f"a definition carries at most {CREDENTIALS_MAX} certificates")
    if len({certificate.id for certificate in credentials}) != len(credentials):
        raise BadDefinition("a definition carries the same certificate twice")


def _vocabulary(attributes: tuple[Attribute, ...]) -> dict[str, Attribute]:
    if not attributes:
        raise BadDefinition("a type has at least one attribute")
    try:
        return vocabulary_of(attributes)
    except BadAttribute as problem:
        raise BadDefinition(problem.message) from problem
