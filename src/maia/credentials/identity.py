"""Who is the holder of a key, with which attributes, as an identity provider says for a short time?

An identity statement (Gismo 4) names a subject by key and by identifier, gives
typed attributes such as a nationality or a clearance, and holds for minutes or
hours inside one community of interest. There is no revocation list for it: a
provider that withdraws an attribute stops issuing it.

    (signed
      (identity (version 1) (issuer KEY) (home KEY) (community TEXT) (subject KEY) (identifier TEXT)
        (attributes (NAME (KIND VALUE)) ...) (not-before BYTES) (not-after BYTES))
      (signature ed25519 BYTES))

`home` is the provider that registered the subject. A statement whose issuer is
its home is a home statement. A guest statement has another issuer: a provider
that trusts the home provider directly has issued the same content again. It
says so in what is signed, so it never becomes the ground for another one.

The short form, for poor links, has the same fields without their names; the
reader makes the signed bytes again.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field, replace
from hashlib import sha256
from typing import Final, final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.canonical.fields import Items, Part, many, one, record, tagged
from maia.credentials.appointments import Argument, argument_from_expression, argument_to_expression
from maia.credentials.documents import KEY, LABEL, Document
from maia.credentials.encoding.parts import DATE
from maia.credentials.keys import (
    KEY_BYTES,
    BadCertificate,
    Principal,
    SignedKind,
    SigningKey,
    principal_from_bytes,
    verify_signature,
)
from maia.credentials.names import checked_label, text_from_atom
from maia.credentials.proof import Proof
from maia.errors import BadInput, BrokenCredential, MaiaError
from maia.events import AttributeUid, Instant, PresentValue, attribute_uid

IDENTITY_BYTES_MAX: Final = 1 << 14
IDENTIFIER_BYTES_MAX: Final = 256
IDENTITY_ATTRIBUTES_MAX: Final = 64
PROVIDER_ATTRIBUTE: Final = AttributeUid("identity-provider")
TPM_ATTRIBUTE: Final = AttributeUid("tpm-integrity")
SCAN_AT_ATTRIBUTE: Final = AttributeUid("scan-at")
SCAN_FINDINGS_ATTRIBUTE: Final = AttributeUid("scan-findings")
PROPERTY_PREFIX: Final = "property-"
"""Begins attributes that say what an administrator has approved of a machine's boot."""
_RESERVED: Final = frozenset({PROVIDER_ATTRIBUTE, TPM_ATTRIBUTE, SCAN_AT_ATTRIBUTE, SCAN_FINDINGS_ATTRIBUTE})

_LIMITS: Final = Limits(size_max=IDENTITY_BYTES_MAX, depth_max=8, atom_max=4096)
_PACKED: Final = struct.Struct(">32s32s64sqq?BH")
"""Issuer, subject, signature, beginning, end, whether a home follows, and the lengths of two texts."""
IDENTITY_HEAD: Final = b"(6:signed(8:identity"
"""How a signed statement begins in its bytes, and no certificate or definition does."""
_SEAL: Final = object()


def is_checked_attribute(uid: AttributeUid) -> bool:
    """True of what a provider states after a check of its own, and never on the word of another one."""
    return uid in _RESERVED or uid.startswith((PROPERTY_PREFIX, "path-"))


class BadIdentity(BrokenCredential):
    """Bytes are not an identity statement."""

    code = "CREDENTIAL-IDENTITY"


@dataclass(frozen=True, slots=True)
class Identity:
    """`issuer` says until `not_after` that the holder of the key `subject` is `identifier`."""

    issuer: Principal
    community: str
    subject: Principal
    identifier: str
    attributes: Mapping[AttributeUid, Argument]
    not_before: Instant
    not_after: Instant
    home: Principal
    """The provider that registered the subject; another one than the issuer in a guest statement."""

    @property
    def is_guest(self) -> bool:
        """True if a provider that trusts the home provider issued this for a guest."""
        return self.home != self.issuer

    def is_in_force(self, now: Instant) -> bool:
        """True from `not_before` to `not_after`, both included."""
        return self.not_before <= now <= self.not_after


@dataclass(frozen=True, slots=True)
class SignedIdentity:
    """A statement as read: its exact signed bytes, and a signature that has not been verified."""

    statement: Identity
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes
    """SHA-256 of the signed bytes."""


@final
@dataclass(frozen=True, slots=True)
class VerifiedIdentity(Proof):
    """A statement that a trusted provider signed, in this community, in force when it was verified."""

    signed: SignedIdentity
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every maker but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_identity makes a VerifiedIdentity")

    @property
    def statement(self) -> Identity:
        """Return what the provider says."""
        return self.signed.statement


def issue_identity(identity: Identity, key: SigningKey) -> SignedIdentity:
    """Sign a statement with its issuer's key; refuse one that could not be read back."""
    return IDENTITY.sign(identity, key, by=identity.issuer)


def verify_identity(
    signed: SignedIdentity,
    *,
    subject: Principal,
    community: str,
    providers: Collection[Principal],
    now: Instant,
) -> VerifiedIdentity:
    """Return the proof that a trusted provider vouches for `subject` in this community now.

    `subject` is the key that the link or the signature has proved: a statement
    about another key says nothing. A guest statement is believed like any other
    of its issuer, because the issuer is the provider that is trusted here.
    """
    understood = IDENTITY.read_again(signed)
    statement = understood.statement
    if statement.subject != subject:
        raise BadIdentity(f"the statement is about `{statement.subject}`, and the key is `{subject}`")
    if statement.community != community:
        raise BrokenCredential(
            "CREDENTIAL-IDENTITY-COMMUNITY",
            f"the statement is for `{statement.community}`, and this is `{community}`",
        )
    if statement.issuer not in providers:
        raise BrokenCredential(
            "CREDENTIAL-IDENTITY-PROVIDER",
            f"the provider `{statement.issuer}` is not trusted here; "
            "ask a provider that is for a guest statement",
        )
    if not statement.is_in_force(now):
        raise BrokenCredential(
            "CREDENTIAL-IDENTITY-EXPIRED",
            f"the statement holds from {statement.not_before} to {statement.not_after}; renew it",
        )
    verify_signature(statement.issuer, SignedKind.IDENTITY, understood.body, understood.signature)
    return VerifiedIdentity(understood, _SEAL)


@dataclass(frozen=True, slots=True)
class IdentityTrust:
    """Whose identity statements a node believes: those of these providers, for this community."""

    community: str
    providers: frozenset[Principal]

    def verified(self, data: bytes, subject: Principal, now: Instant) -> VerifiedIdentity:
        """Return the proof that a trusted provider vouches for `subject`, from the short form."""
        return self.verified_signed(unpack_identity(data), subject, now)

    def verified_signed(self, signed: SignedIdentity, subject: Principal, now: Instant) -> VerifiedIdentity:
        """Return the same of a statement as it was signed."""
        return verify_identity(
            signed, subject=subject, community=self.community, providers=self.providers, now=now
        )

    def verified_ever(self, data: bytes, subject: Principal) -> VerifiedIdentity:
        """Return the same for a moment at which the statement was in force, whenever that was."""
        signed = unpack_identity(data)
        return verify_identity(
            signed,
            subject=subject,
            community=self.community,
            providers=self.providers,
            now=signed.statement.not_before,
        )


def guest_statement(verified: VerifiedIdentity, key: SigningKey, *, not_after: Instant) -> SignedIdentity:
    """Issue the content of a home statement again, for a guest, at most as long as it holds itself.

    Without what the home provider has checked itself: under our signature it would be our word (A96).
    The caller has verified the statement against the providers that it trusts directly.
    """
    statement = verified.statement
    if statement.is_guest:
        raise BrokenCredential(
            "CREDENTIAL-IDENTITY-GUEST",
            f"`{statement.issuer}` issued this for a guest of `{statement.home}`; "
            "a guest statement is issued only on a statement of the home provider",
        )
    if key.principal == statement.issuer:
        raise BrokenCredential("CREDENTIAL-IDENTITY-GUEST", "the subject is registered here, and is no guest")
    ends = min(not_after, statement.not_after)
    told = {uid: one for uid, one in statement.attributes.items() if not is_checked_attribute(uid)}
    return issue_identity(replace(statement, issuer=key.principal, attributes=told, not_after=ends), key)


def identity_values(statement: Identity) -> dict[AttributeUid, PresentValue]:
    """Return the attributes as a predicate reads them: a key is its text."""
    return {
        uid: str(value) if isinstance(value, Principal) else value
        for uid, value in statement.attributes.items()
    }


# ---------------------------------------------------------------- the fields


def _attributes_to_items(attributes: Mapping[AttributeUid, Argument]) -> Items:
    return tuple(
        (attribute_uid(uid).encode(), argument_to_expression(value))
        for uid, value in sorted(attributes.items())
    )


def _attributes_from_items(items: Items) -> dict[AttributeUid, Argument]:
    if len(items) > IDENTITY_ATTRIBUTES_MAX:
        raise BadIdentity(f"an identity statement has at most {IDENTITY_ATTRIBUTES_MAX} attributes")
    found: dict[AttributeUid, Argument] = {}
    for item in items:
        match item:
            case (bytes(name), value):
                uid = attribute_uid(text_from_atom(name))
                if uid in found:
                    raise BadIdentity(f"attribute `{uid}` is given twice")
                found[uid] = argument_from_expression(value)
            case _:
                raise BadIdentity("an attribute must be written `(NAME (KIND VALUE))`")
    return found


def _checked_identifier(text: str) -> str:
    if not text or not text.isprintable() or len(text.encode()) > IDENTIFIER_BYTES_MAX:
        raise BadIdentity(f"an identifier has 1 to {IDENTIFIER_BYTES_MAX} bytes of printable text")
    return text


def _checked_period(identity: Identity) -> Identity:
    starts: Instant | None = identity.not_before
    ends: Instant | None = identity.not_after
    # Bytes may say `unbounded`, which no identity can say.
    if starts is None or ends is None or ends < starts:
        raise BadIdentity("an identity statement states when it begins and ends, in this order")
    return identity


_WRONG: Final = (
    BadIdentity,
    "a field of the identity statement is missing, unknown, repeated or out of order",
)
_IDENTIFIER: Final[Part[str]] = Part(
    lambda text: _checked_identifier(text).encode(), lambda atom: _checked_identifier(text_from_atom(atom))
)
_ATTRIBUTES: Final[Part[Mapping[AttributeUid, Argument]]] = Part(_attributes_to_items, _attributes_from_items)
_ALL_ATTRIBUTES: Final = tagged(b"attributes", _ATTRIBUTES, _WRONG)
IDENTITY: Final = Document[Identity, SignedIdentity](
    record(
        b"identity",
        Identity,
        _WRONG,
        version_of="identity statement",
        check=_checked_period,
        issuer=one(KEY),
        home=one(KEY),
        community=one(LABEL),
        subject=one(KEY),
        identifier=one(_IDENTIFIER),
        attributes=many(_ATTRIBUTES),
        not_before=one(DATE),
        not_after=one(DATE),
    ),
    "statement",
    BadIdentity,
    _LIMITS,
    lambda _: SignedKind.IDENTITY,
    lambda said, body, signature: SignedIdentity(said, body, signature, sha256(body).digest()),
)

identity_to_bytes = IDENTITY.to_bytes
identity_from_bytes = IDENTITY.from_bytes
identity_to_text = IDENTITY.to_text
identity_from_text = IDENTITY.from_text


def attributes_to_bytes(attributes: Mapping[AttributeUid, Argument]) -> bytes:
    """Return attributes in the canonical form in which a provider keeps them."""
    return write_canonical(_ALL_ATTRIBUTES.write(attributes))


def attributes_from_bytes(data: bytes) -> dict[AttributeUid, Argument]:
    """Read attributes as a provider keeps them, as strictly as in a statement."""
    try:
        return dict(_ALL_ATTRIBUTES.read(read_canonical(data, _LIMITS)))
    except (BadInput, BadCertificate) as problem:
        raise BadIdentity(f"the attributes cannot be read: {problem.message}") from problem


def pack_identity(signed: SignedIdentity) -> bytes:
    """Return the short form of a signed statement, about half as long as its bytes."""
    said = signed.statement
    head = _PACKED.pack(
        said.issuer.key,
        said.subject.key,
        signed.signature,
        said.not_before,
        said.not_after,
        said.is_guest,
        len(said.community.encode()),
        len(said.identifier.encode()),
    )
    texts = said.community.encode() + said.identifier.encode()
    return head + (said.home.key if said.is_guest else b"") + texts + attributes_to_bytes(said.attributes)


def unpack_identity(data: bytes) -> SignedIdentity:
    """Read the short form, strictly. The signature is not verified here."""
    try:
        issuer, subject, signature, starts, ends, is_guest, community, identifier = _PACKED.unpack_from(data)
        at = _PACKED.size + (KEY_BYTES if is_guest else 0)
        texts_end = at + community + identifier
        identity = Identity(
            principal_from_bytes(issuer),
            checked_label(text_from_atom(data[at : at + community])),
            principal_from_bytes(subject),
            _checked_identifier(text_from_atom(data[at + community : texts_end])),
            _ALL_ATTRIBUTES.read(read_canonical(data[texts_end:], _LIMITS)),
            Instant(starts),
            Instant(ends),
            principal_from_bytes(data[_PACKED.size : at] if is_guest else issuer),
        )
        body = IDENTITY.body(identity)
    except (struct.error, BadInput, BrokenCredential) as problem:
        reason = problem.message if isinstance(problem, MaiaError) else "it is cut off"
        raise BadIdentity(f"the short form of a statement cannot be read: {reason}") from problem
    signed = SignedIdentity(identity, body, signature, sha256(body).digest())
    if pack_identity(signed) != data:
        raise BadIdentity("the short form of a statement is not written in its one way")
    return signed
