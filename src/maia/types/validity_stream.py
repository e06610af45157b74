"""On which stream does an issuer publish its statements on validity?

Every issuer has one, and its name follows from the key: verifiers subscribe
to it before they have met a definition of it (dissertation 6.3.3: one topic
for as many certificates as possible). Each event has one attribute, the bytes
of one signed statement, which prove themselves. The stream is plaintext and
public: `maia.policy` lets every principal that may connect subscribe to it.
"""

from __future__ import annotations

from typing import Final

from maia.credentials.certificate import SignedCertificate
from maia.credentials.keys import Principal, SigningKey
from maia.credentials.names import FIRST_VERSION, TypeName
from maia.credentials.validity.statements import SignedStatement, statement_from_bytes, statement_to_bytes
from maia.events import Attribute, AttributeUid, Event, Kind
from maia.types.definition import SignedDefinition, TypeDefinition, type_id
from maia.types.encoding import sign_definition
from maia.types.verified import VerifiedType

VALIDITY_TYPE: Final = "maia.validity"
STATEMENT: Final = Attribute("statement", AttributeUid("statement"), Kind.BYTES)


def validity_type_name(issuer: Principal) -> TypeName:
    """Return the name of the stream on which `issuer` makes its statements."""
    return TypeName(issuer, VALIDITY_TYPE, FIRST_VERSION)


def validity_type_id(issuer: Principal) -> bytes:
    """Return the digest by which that stream is routed; no definition is needed for it."""
    return type_id(issuer, VALIDITY_TYPE)


def validity_definition(key: SigningKey, credentials: tuple[SignedCertificate, ...] = ()) -> SignedDefinition:
    """Return the definition of `key`'s stream; `credentials` let it be installed, where needed."""
    name = validity_type_name(key.principal)
    return sign_definition(TypeDefinition(name, None, (STATEMENT,), credentials), key)


def is_validity_stream(event_type: VerifiedType) -> bool:
    """Say whether this is exactly the standard type: its name, its one attribute, in plaintext.

    Such a type is public, so nothing that could hide more is one.
    """
    name = event_type.name
    return (
        name.name == VALIDITY_TYPE
        and name.version == FIRST_VERSION
        and isinstance(name.owner, Principal)
        and event_type.attributes == (STATEMENT,)
        and event_type.sealing is None
    )


def statement_to_event(signed: SignedStatement) -> Event:
    """Return the event that carries a statement."""
    return {STATEMENT.uid: statement_to_bytes(signed)}


def statement_in(event: Event) -> SignedStatement | None:
    """Read the statement that an event of a validity stream carries; None if it carries none.

    Its form is checked strictly, and its signature not at all.
    """
    data = event.get(STATEMENT.uid)
    return statement_from_bytes(data) if isinstance(data, bytes) else None
