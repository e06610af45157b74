"""What are the bytes of a type definition, and which of them are signed?

One canonical S-expression holds every field, the name included, so that the
signature binds the name to the definition (dissertation, section 4.2.2):

    (signed
      (event-type (version 1) (name OWNER "uk.gov.pito.Numberplate" "0") (previous "0")?
        (extends DEFINITION ...)?
        (attributes (attribute "numberplate" "3265" string) ...)
        (sealing attribute (manager (ed25519 KEY)) (at "127.0.0.1:7500") ...
          (blinded)? (cover "250" "1024")?)?
        (protection signed)?
        (ledger required)?
        (credentials CERTIFICATE ...)?)
      (signer (ed25519 KEY))
      (signature ed25519 BYTES))

The signature covers the `event-type` list. Fields come in this order, each
once, and an unknown one is refused. A reader never says that a signature
holds; `verification.py` does.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Final

from maia.canonical import BadSExpression, Limits, SExpression
from maia.canonical.fields import (
    Part,
    alone,
    bare,
    each,
    fields,
    flag,
    many,
    number,
    one,
    record,
    run,
    tagged,
    word_of,
)
from maia.credentials.documents import KEY, OWNER, Document
from maia.credentials.encoding.certificates import CERTIFICATE
from maia.credentials.keys import BadCertificate, Principal, SignedKind, SigningKey
from maia.credentials.names import TypeName, text_from_atom
from maia.errors import BrokenCredential
from maia.events import ATTRIBUTES_MAX, Attribute, Kind, attribute_uid
from maia.types.definition import (
    ADDRESSES_MAX,
    CREDENTIALS_MAX,
    EMBEDDED_MAX,
    SUPER_TYPES_MAX,
    BadDefinition,
    Cover,
    Sealing,
    SealingLevel,
    SignedDefinition,
    TypeDefinition,
)

DEFINITION_BYTES_MAX: Final = 1 << 20
SUB_TYPE_BYTES_MAX: Final = 60 << 10
"""A definition with a super-type travels among certificates as evidence, and has to be as small as they."""


class BadDefinitionEncoding(BrokenCredential):
    """Bytes or text are not a type definition as Maia writes it."""

    code = "TYPE-ENCODING"


def _definition_to_expression(signed: SignedDefinition) -> SExpression:
    return DEFINITION.to_expression(signed)


def _definition_from_expression(expression: SExpression) -> SignedDefinition:
    return DEFINITION.from_expression(expression)


def _keep(definition: TypeDefinition, body: bytes, signature: bytes, signer: Principal) -> SignedDefinition:
    if definition.extends and len(body) > SUB_TYPE_BYTES_MAX:
        raise BadDefinition(f"a definition with a super-type has at most {SUB_TYPE_BYTES_MAX} bytes")
    return SignedDefinition(definition, signer, body, signature, sha256(body).digest())


_WRONG: Final = (
    BadDefinitionEncoding,
    "a field of the definition is missing, unknown, repeated or out of order",
)
_ATTRIBUTE: Final = (
    BadDefinitionEncoding,
    "an attribute must be written `(attribute NAME UID KIND)`, of a known kind",
)
_PLACE: Final = (BadDefinitionEncoding, "an address of a key manager must be written `(at ADDRESS)`")
_SEALING: Final = (
    BadDefinitionEncoding,
    "sealing must be written "
    "`(sealing LEVEL (manager KEY) (at ADDRESS)* (blinded)? (cover MILLISECONDS BYTES)?)`",
)

_TEXT: Final = Part(str.encode, text_from_atom)
_NUMBER: Final = number(
    1,
    10**9 - 1,
    (BadDefinitionEncoding, "a number in a definition has 1 to 9 digits, the first of them not 0"),
)
_ATTRIBUTES: Final = each(
    record(
        b"attribute",
        Attribute,
        _ATTRIBUTE,
        name=bare(_TEXT),
        uid=bare(Part(str.encode, lambda atom: attribute_uid(text_from_atom(atom)))),
        kind=bare(word_of(Kind, *_ATTRIBUTE)),
    ),
    ATTRIBUTES_MAX,
    (BadDefinitionEncoding, f"a type has at most {ATTRIBUTES_MAX} attributes"),
)
_ADDRESSES: Final = each(
    tagged(b"at", alone(_TEXT, _PLACE), _PLACE),
    ADDRESSES_MAX,
    (BadDefinitionEncoding, f"`sealing` names at most {ADDRESSES_MAX} addresses"),
)
# An embedded certificate or definition is the whole of it, with its signature. An empty list of them would
# be a second way to say that there are none.
_CERTIFICATES: Final = each(
    Part(CERTIFICATE.to_expression, CERTIFICATE.from_expression),
    CREDENTIALS_MAX,
    (BadDefinitionEncoding, f"`credentials` holds 1 to {CREDENTIALS_MAX} certificates"),
    least=1,
)
_DEFINITIONS: Final = each(
    Part(_definition_to_expression, _definition_from_expression),
    EMBEDDED_MAX,
    (BadDefinitionEncoding, f"`extends` holds 1 to {EMBEDDED_MAX} signed definitions"),
    least=1,
)
DEFINITION: Final[Document[TypeDefinition, SignedDefinition]] = Document(
    record(
        b"event-type",
        TypeDefinition,
        _WRONG,
        version_of="definition format",
        name=many(fields(TypeName, _WRONG, owner=bare(OWNER), name=bare(_TEXT), version=bare(_TEXT))),
        previous=one(_TEXT, left_out=None),
        extends=many(_DEFINITIONS, left_out=()),
        attributes=many(_ATTRIBUTES),
        sealing=many(
            fields(
                Sealing,
                _SEALING,
                level=bare(word_of(SealingLevel, *_SEALING)),
                manager=one(KEY),
                addresses=run(_ADDRESSES, b"at"),
                blinded=flag(),
                cover=many(
                    fields(Cover, _SEALING, every_ms=bare(_NUMBER), size_bytes=bare(_NUMBER)), left_out=None
                ),
            ),
            left_out=None,
        ),
        signed=one(Part(lambda _: b"signed", lambda atom: atom == b"signed"), b"protection", left_out=False),
        ledger=one(Part(lambda _: b"required", lambda atom: atom == b"required"), left_out=False),
        credentials=many(_CERTIFICATES, left_out=()),
    ),
    "type definition",
    BadDefinitionEncoding,
    # An embedded certificate lies two lists deeper than one that travels alone, and each super-type three.
    Limits(
        size_max=DEFINITION_BYTES_MAX,
        depth_max=CERTIFICATE.limits.depth_max + 3 + 3 * SUPER_TYPES_MAX,
        atom_max=CERTIFICATE.limits.atom_max,
    ),
    lambda _: SignedKind.TYPE_DEFINITION,
    _keep,
    wraps=(BadSExpression, BadCertificate),
    names_signer=True,
)

definition_to_bytes = DEFINITION.to_bytes
definition_from_bytes = DEFINITION.from_bytes
definition_to_text = DEFINITION.to_text
definition_from_text = DEFINITION.from_text
definition_from_body = DEFINITION.said_by


def sign_definition(definition: TypeDefinition, key: SigningKey) -> SignedDefinition:
    """Sign every field of `definition`; whether this key may do so is for the verifier.

    A definition that could not be read back as it was meant is refused.
    """
    try:
        return DEFINITION.sign(definition, key)
    except BadDefinitionEncoding as problem:
        raise BadDefinition(problem.message) from problem


def definition_to_expression(definition: TypeDefinition) -> SExpression:
    """Return the fields that are signed, in their fixed order."""
    written: SExpression = DEFINITION.part.write(definition)
    return written


def content_digest(definition: TypeDefinition) -> bytes:
    """Return a digest of what a version says, its super-types included, without the certificates inside.

    Those prove the signer's rights for a time. A version that is signed again with newer ones is the same.
    """
    own = DEFINITION.body(replace(definition, credentials=(), extends=()))
    above = (content_digest(one.definition) for one in definition.extends)
    return sha256(b"".join((sha256(own).digest(), *above))).digest()
