"""What are the bytes of a type definition, and which of them are signed?

One canonical S-expression holds every field, the name included, so that the
signature binds the name to the definition (dissertation, section 4.2.2):

    (signed
      (event-type (version 1) (name OWNER "uk.gov.pito.Numberplate" "0") (previous "0")?
        (extends DEFINITION ...)?
        (attributes (attribute "numberplate" "3265" string) ...)
        (sealing attribute (manager (ed25519 KEY)) (at "127.0.0.1:7500") ...
          (blinded)? (cover "250" "1024")?)?
        (ledger required)?
        (credentials CERTIFICATE ...)?)
      (signer (ed25519 KEY))
      (signature ed25519 BYTES))

The signature covers the `event-type` list. Fields come in this order, each
once, and an unknown one is refused. A reader never says that a signature
holds; `verification.py` does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import Final

from maia.canonical import (
    BadSExpression,
    Limits,
    SExpression,
    read_advanced,
    read_canonical,
    write_advanced,
    write_canonical,
)
from maia.credentials.certificate import SignedCertificate
from maia.credentials.encoding.certificates import (
    CERTIFICATE_LIMITS,
    certificate_from_expression,
    certificate_to_expression,
)
from maia.credentials.keys import (
    BadCertificate,
    SignedKind,
    SigningKey,
    document_to_bytes,
    document_with_signer,
    owner_from_expression,
    owner_to_expression,
    principal_from_expression,
    principal_to_expression,
)
from maia.credentials.names import TypeName, Version, text_from_atom
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

# An embedded certificate lies two lists deeper than one that travels alone, and each super-type three deeper.
_LIMITS: Final = Limits(
    size_max=DEFINITION_BYTES_MAX,
    depth_max=CERTIFICATE_LIMITS.depth_max + 3 + 3 * SUPER_TYPES_MAX,
    atom_max=CERTIFICATE_LIMITS.atom_max,
)
_LEDGER: Final[SExpression] = (b"ledger", b"required")
_KINDS: Final = {kind.value.encode(): kind for kind in Kind}
_DIGITS: Final = re.compile(rb"[1-9][0-9]{0,8}")
_LEVELS: Final = {level.value.encode(): level for level in SealingLevel}


class BadDefinitionEncoding(BrokenCredential):
    """Bytes or text are not a type definition as Maia writes it."""

    code = "TYPE-ENCODING"


def sign_definition(definition: TypeDefinition, key: SigningKey) -> SignedDefinition:
    """Sign every field of `definition`; whether this key may do so is for the verifier.

    A definition that could not be read back as it was meant is refused.
    """
    body = write_canonical(definition_to_expression(definition))
    if definition_from_body(body) != definition:
        raise BadDefinition("the definition would not be read back as it was meant")
    _check_size(definition, body)
    signature = key.sign(SignedKind.TYPE_DEFINITION, body)
    return SignedDefinition(definition, key.principal, body, signature, sha256(body).digest())


def content_digest(definition: TypeDefinition) -> bytes:
    """Return a digest of what a version says, its super-types included, without the certificates inside.

    Those prove the signer's rights for a time. A version that is signed again with newer ones is the same.
    """
    own = write_canonical(definition_to_expression(replace(definition, credentials=(), extends=())))
    above = (content_digest(one.definition) for one in definition.extends)
    return sha256(b"".join((sha256(own).digest(), *above))).digest()


def definition_to_bytes(signed: SignedDefinition) -> bytes:
    """Return the bytes in which a signed definition travels; what was signed is what is sent."""
    return document_to_bytes(signed.body, signed.signature, signed.signer)


def definition_from_bytes(data: bytes) -> SignedDefinition:
    """Read exactly what `definition_to_bytes` writes; the signature is not verified here."""
    try:
        return _signed_definition(read_canonical(data, _LIMITS))
    except (BadSExpression, BadCertificate) as problem:
        raise BadDefinitionEncoding(f"the type definition cannot be read: {problem.message}") from problem


def definition_to_text(signed: SignedDefinition) -> str:
    """Return a signed definition as people read it in a file."""
    return write_advanced(read_canonical(definition_to_bytes(signed), _LIMITS)) + "\n"


def definition_from_text(text: str) -> SignedDefinition:
    """Read the form for people, as strictly as bytes; the signature is over the canonical form."""
    try:
        return _signed_definition(read_advanced(text, _LIMITS))
    except (BadSExpression, BadCertificate) as problem:
        raise BadDefinitionEncoding(f"the type definition cannot be read: {problem.message}") from problem


def definition_from_body(body: bytes) -> TypeDefinition:
    """Read the signed bytes alone, without what came beside them."""
    try:
        return _definition(read_canonical(body, _LIMITS))
    except (BadSExpression, BadCertificate) as problem:
        raise BadDefinitionEncoding(f"the type definition cannot be read: {problem.message}") from problem


def definition_to_expression(definition: TypeDefinition) -> SExpression:
    """Return the fields that are signed, in their fixed order."""
    fields: list[SExpression] = [b"event-type", (b"version", b"1"), _name_to_expression(definition.name)]
    if definition.previous is not None:
        fields.append((b"previous", definition.previous.encode()))
    if definition.extends:
        above = [read_canonical(definition_to_bytes(signed), _LIMITS) for signed in definition.extends]
        fields.append((b"extends", *above))
    fields.append((b"attributes", *map(_attribute_to_expression, definition.attributes)))
    if definition.sealing is not None:
        fields.append(_sealing_to_expression(definition.sealing))
    if definition.ledger:
        fields.append(_LEDGER)
    if definition.credentials:
        fields.append((b"credentials", *map(certificate_to_expression, definition.credentials)))
    return tuple(fields)


def _name_to_expression(name: TypeName) -> SExpression:
    return (b"name", owner_to_expression(name.owner), name.name.encode(), name.version.encode())


def _attribute_to_expression(attribute: Attribute) -> SExpression:
    return (b"attribute", attribute.name.encode(), attribute.uid.encode(), attribute.kind.value.encode())


def _sealing_to_expression(sealing: Sealing) -> SExpression:
    manager: SExpression = (b"manager", principal_to_expression(sealing.manager))
    addresses: tuple[SExpression, ...] = tuple((b"at", address.encode()) for address in sealing.addresses)
    blinded: tuple[SExpression, ...] = ((b"blinded",),) if sealing.blinded else ()
    cover: tuple[SExpression, ...] = ()
    if sealing.cover is not None:
        cover = ((b"cover", b"%d" % sealing.cover.every_ms, b"%d" % sealing.cover.size_bytes),)
    return (b"sealing", sealing.level.value.encode(), manager, *addresses, *blinded, *cover)


def _signed_definition(expression: SExpression) -> SignedDefinition:
    (content, body, signature), signer = document_with_signer(expression)
    definition = _definition(content)
    _check_size(definition, body)
    return SignedDefinition(definition, signer, body, signature, sha256(body).digest())


def _check_size(definition: TypeDefinition, body: bytes) -> None:
    if definition.extends and len(body) > SUB_TYPE_BYTES_MAX:
        raise BadDefinition(f"a definition with a super-type has at most {SUB_TYPE_BYTES_MAX} bytes")


def _definition(expression: SExpression) -> TypeDefinition:
    match expression:
        case (b"event-type", (b"version", b"1"), (b"name", owner, name, version), *fields):
            previous, fields = _previous(fields)
            extends, fields = _extends(fields)
            attributes, fields = _attributes(fields)
            sealing, fields = _sealing(fields)
            ledger = fields[:1] == [_LEDGER]
            credentials, fields = _credentials(fields[ledger:])
            if fields:
                raise BadDefinitionEncoding("a field of the definition is unknown, repeated or out of order")
            type_name = TypeName(owner_from_expression(owner), text_from_atom(name), text_from_atom(version))
            return TypeDefinition(type_name, previous, attributes, credentials, sealing, extends, ledger)
        case (b"event-type", (b"version", bytes(number)), *_) if number != b"1":
            shown = number[:64].decode("ascii", "backslashreplace")
            raise BadDefinitionEncoding(f"version `{shown}` of the definition format is unknown")
    raise BadDefinitionEncoding("a definition must begin `(event-type (version 1) (name OWNER NAME VERSION)`")


def _previous(fields: list[SExpression]) -> tuple[Version | None, list[SExpression]]:
    match fields:
        case [(b"previous", version), *rest]:
            return text_from_atom(version), rest
    return None, fields


def _extends(fields: list[SExpression]) -> tuple[tuple[SignedDefinition, ...], list[SExpression]]:
    match fields:
        case [(b"extends", *entries), *rest]:
            if not 1 <= len(entries) <= EMBEDDED_MAX:
                raise BadDefinitionEncoding(f"`extends` holds 1 to {EMBEDDED_MAX} signed definitions")
            return tuple(map(_signed_definition, entries)), rest
    return (), fields


def _attributes(fields: list[SExpression]) -> tuple[tuple[Attribute, ...], list[SExpression]]:
    match fields:
        case [(b"attributes", *entries), *rest]:
            if len(entries) > ATTRIBUTES_MAX:
                raise BadDefinitionEncoding(f"a type has at most {ATTRIBUTES_MAX} attributes")
            return tuple(map(_attribute, entries)), rest
    raise BadDefinitionEncoding("`attributes` must follow the name, the previous version and the super-type")


def _attribute(expression: SExpression) -> Attribute:
    match expression:
        case (b"attribute", name, uid, bytes(kind)) if kind in _KINDS:
            return Attribute(text_from_atom(name), attribute_uid(text_from_atom(uid)), _KINDS[kind])
    raise BadDefinitionEncoding("an attribute must be written `(attribute NAME UID KIND)`, of a known kind")


def _sealing(fields: list[SExpression]) -> tuple[Sealing | None, list[SExpression]]:
    match fields:
        case [(b"sealing", bytes(level), (b"manager", manager), *options), *rest] if level in _LEVELS:
            places, blinded, cover = _options(options)
            if len(places) > ADDRESSES_MAX:
                raise BadDefinitionEncoding(f"`sealing` names at most {ADDRESSES_MAX} addresses")
            addresses = tuple(map(_address, places))
            run_by = principal_from_expression(manager)
            return Sealing(_LEVELS[level], run_by, addresses, blinded, cover), rest
        case [(b"sealing", *_), *_]:
            raise BadDefinitionEncoding(
                "sealing must be written "
                "`(sealing LEVEL (manager KEY) (at ADDRESS)* (blinded)? (cover MILLISECONDS BYTES)?)`"
            )
    return None, fields


def _options(options: list[SExpression]) -> tuple[list[SExpression], bool, Cover | None]:
    """Return the addresses, and what is chosen behind them; each option stands once, in this order."""
    cover: Cover | None = None
    match options:
        case [*before, (b"cover", bytes(every), bytes(size))]:
            options, cover = before, Cover(_number(every), _number(size))
    if options and options[-1] == (b"blinded",):
        return options[:-1], True, cover
    return options, False, cover


def _number(digits: bytes) -> int:
    # One form: no sign, no leading zero, and far more digits than any limit has.
    if _DIGITS.fullmatch(digits) is None:
        raise BadDefinitionEncoding("a number in a definition has 1 to 9 digits, the first of them not 0")
    return int(digits)


def _address(expression: SExpression) -> str:
    match expression:
        case (b"at", address):
            return text_from_atom(address)
    raise BadDefinitionEncoding("an address of a key manager must be written `(at ADDRESS)`")


def _credentials(fields: list[SExpression]) -> tuple[tuple[SignedCertificate, ...], list[SExpression]]:
    match fields:
        case [(b"credentials", *entries), *rest]:
            # An empty list would be a second way to say that there are none.
            if not 1 <= len(entries) <= CREDENTIALS_MAX:
                raise BadDefinitionEncoding(f"`credentials` holds 1 to {CREDENTIALS_MAX} certificates")
            return tuple(map(certificate_from_expression, entries)), rest
    return (), fields
