"""Which definitions have been found good, and until when?

A `VerifiedType` is the proof that `verify_definition` returns; no other function can
build one. Brokers keep proofs in a `VerifiedTypeCache`, so that a subscription
with a type seen before costs one look into a dictionary. The cache saves work
and never extends a right: every hit compares the proof's validity with the
moment asked about.

A definition certifies itself, but it cannot certify that no one signed
another definition under the same full name, or gave an old uid another kind
on another branch. Registries and brokers remember what they have accepted in
a `TypeHistory`, and refuse what contradicts it. Versions form a tree: two
managers may both build on one version (dissertation, section 4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, final

from maia.credentials.certificate import SignedCertificate, Validity
from maia.credentials.chains.chain import VerificationCache, VerifiedChain
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.keys import Principal, SigningKey
from maia.credentials.names import FIRST_VERSION, NetworkName, TypeName, Version, type_id
from maia.credentials.proof import Proof
from maia.credentials.statements import SignedStatement, statement_from_bytes, statement_to_bytes
from maia.errors import BrokenCredential, Refusal, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, Attribute, AttributeUid, Event, Instant, Kind
from maia.predicates import Comparison, Operator, Predicate
from maia.types.changes import Change, UidReused
from maia.types.definition import (
    Protection,
    Sealing,
    SignedDefinition,
    TypeDefinition,
    protects_less,
    strongest,
)
from maia.types.encoding import content_digest, definition_from_bytes, definition_to_bytes, sign_definition

TYPES_MAX: Final = 4096
"""How many verified types a cache remembers by default."""

_SEAL: Final = object()  # held by `verification.py` alone


@final
@dataclass(frozen=True, slots=True)
class VerifiedType(Proof):
    """A definition whose signature, authority and changes hold during `validity`.

    `changes` is what was checked against the previous version, or None where
    the signer's rights made that unnecessary. `chains` are those that were
    relied on; none if the owner itself signed. `constitutions` are those of the
    quorums that own the type or the network.
    """

    signed: SignedDefinition
    validity: Validity
    chains: tuple[VerifiedChain, ...]
    network: NetworkName | None
    constitutions: tuple[VerifiedConstitution, ...]
    previous_id: bytes | None
    changes: tuple[Change, ...] | None
    super_type: VerifiedType | None
    """The version of the super-type that this one extends, verified as well."""
    extension: tuple[VerifiedChain, ...]
    """The chains that let the signer extend it, without regard to online tests; none if it is its owner."""
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]
    type_id: bytes = field(init=False, repr=False, compare=False)
    content: bytes = field(init=False, repr=False, compare=False)
    """A digest of what the version says, whatever certificates were embedded when it was signed."""

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_definition makes a VerifiedType")
        object.__setattr__(self, "content", content_digest(self.signed.definition))
        object.__setattr__(self, "type_id", type_id(self.name.owner, self.name.name))

    @property
    def definition(self) -> TypeDefinition:
        """Return the definition that was found good."""
        return self.signed.definition

    @property
    def id(self) -> bytes:
        """Return SHA-256 of the signed bytes."""
        return self.signed.id

    @property
    def signer(self) -> Principal:
        """Return the owner or manager who signed."""
        return self.signed.signer

    @property
    def name(self) -> TypeName:
        """Return the full name: owner, readable name, version."""
        return self.signed.definition.name

    def replaces(self, known: VerifiedType | None) -> bool:
        """Whether this is to be kept in the place of a known one: it is new, or the same for longer."""
        if known is None:
            return True
        mine, theirs = self.validity.not_after, known.validity.not_after
        return theirs is not None and (mine is None or mine > theirs)

    @property
    def super_types(self) -> tuple[VerifiedType, ...]:
        """Return the super-types, the nearest first."""
        above = self.super_type
        return () if above is None else (above, *above.super_types)

    @property
    def sealing(self) -> Sealing | None:
        """Return how events of this version travel between brokers; None for plaintext."""
        return self.signed.definition.sealing

    @property
    def protection(self) -> Protection:
        """Return what is done for events of this version between brokers."""
        return self.signed.definition.protection

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes in the order of the definition."""
        return self.signed.definition.attributes

    @property
    def vocabulary(self) -> Mapping[str, Attribute]:
        """Return the attributes by name."""
        return self.signed.definition.vocabulary

    @property
    def kinds(self) -> Mapping[AttributeUid, Kind]:
        """Return the kind of each attribute by uid."""
        return self.signed.definition.kinds


@dataclass(slots=True)
class _Remembered:
    """A proof, and what the usual question compares."""

    signed: SignedDefinition
    network: NetworkName | None
    since: Instant
    until: Instant
    verified: VerifiedType
    rests_on_quorums: bool
    digest: bytes
    """Of its bytes, signature and all."""
    was_used: bool = False


class VerifiedTypeCache:
    """The definitions found good most recently, by digest.

    A type that was used since its last turn gets a second chance before it is
    forgotten. That keeps the types in use, as "least recently used" would, and
    a hit costs no more than setting a flag.
    """

    __slots__ = ("_by_bytes", "_remembered", "_turns", "certificates", "types_max")

    def __init__(self, types_max: int = TYPES_MAX, certificates: VerificationCache | None = None) -> None:
        """Remember at most `types_max` types, and the certificates inside them in `certificates`."""
        self.types_max = types_max
        self.certificates = VerificationCache() if certificates is None else certificates
        self._remembered: dict[bytes, _Remembered] = {}
        self._by_bytes: dict[bytes, SignedDefinition] = {}
        self._turns: deque[bytes] = deque()  # every digest once: who is asked next whether it may stay

    def __len__(self) -> int:
        """Return how many types are remembered."""
        return len(self._remembered)

    def read(self, data: bytes) -> SignedDefinition:
        """Return the definition that these bytes are: that of a proof, if one of these very bytes is here."""
        return self._by_bytes.get(sha256(data).digest()) or definition_from_bytes(data)

    def find(
        self,
        signed: SignedDefinition,
        at: Instant,
        network: NetworkName | None = None,
        previous: VerifiedType | None = None,
        constitutions: tuple[VerifiedConstitution, ...] = (),
    ) -> VerifiedType | None:
        """Return the proof for `signed` if it was made on these grounds and holds at `at`.

        Every subscription passes here. The usual question, the very same object
        for the very same network, is answered by comparing identities.
        """
        known = self._remembered.get(signed.id)
        if known is None or at < known.since or at > known.until:
            return None
        if (
            known.signed is not signed
            or known.network is not network
            or previous is not None
            or known.rests_on_quorums
        ) and not _same_grounds(known.verified, signed, network, previous, constitutions):
            return None
        known.was_used = True
        return known.verified

    def keep(self, verified: VerifiedType) -> None:
        """Remember a proof, and forget one that was not used for long if there are too many."""
        before = self._remembered.get(verified.id)
        if before is None:
            self._turns.append(verified.id)
        else:
            del self._by_bytes[before.digest]
        since, until = verified.validity.not_before, verified.validity.not_after
        digest = sha256(definition_to_bytes(verified.signed)).digest()
        self._by_bytes[digest] = verified.signed
        self._remembered[verified.id] = _Remembered(
            verified.signed,
            verified.network,
            Instant(INSTANT_MIN) if since is None else since,
            Instant(INSTANT_MAX) if until is None else until,
            verified,
            rests_on_quorums=bool(verified.constitutions),
            digest=digest,
        )
        while len(self._remembered) > self.types_max:
            self._take_turn()

    def _take_turn(self) -> None:
        """Forget the type whose turn it is, or take away its second chance."""
        digest = self._turns.popleft()
        known = self._remembered[digest]
        if known.was_used:
            known.was_used = False
            self._turns.append(digest)
        else:
            del self._remembered[digest], self._by_bytes[known.digest]


def _same_grounds(
    known: VerifiedType,
    signed: SignedDefinition,
    network: NetworkName | None,
    previous: VerifiedType | None,
    constitutions: tuple[VerifiedConstitution, ...],
) -> bool:
    if not _same_signed(known.signed, signed) or known.network != network:
        return False
    if previous is not None and previous.id != known.previous_id:
        return False
    # Members of a quorum are replaced: a proof that depends on former members is made again.
    return all(one in constitutions for one in known.constitutions)


def _same_signed(known: SignedDefinition, offered: SignedDefinition) -> bool:
    # `id` is a label that came with the object. The proof is about bytes, signer and signature.
    return (
        known.body == offered.body and known.signature == offered.signature and known.signer == offered.signer
    )


VERSIONS_MAX: Final = 4096
"""How many versions of one type a history remembers."""


@dataclass(frozen=True, slots=True)
class TypeHistory:
    """The versions of one type that were accepted, by full name and digest of what they say.

    `remember` returns a new history. The kinds of all uids that any version
    ever used stay in it, those of removed attributes included.
    """

    type_id: bytes
    digests: Mapping[Version, bytes] = field(default_factory=lambda: MappingProxyType({}))
    parents: Mapping[Version, Version | None] = field(default_factory=lambda: MappingProxyType({}))
    kinds: Mapping[AttributeUid, Kind] = field(default_factory=lambda: MappingProxyType({}))
    definitions: Mapping[Version, TypeDefinition] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sealing(self) -> Sealing | None:
        """Return how events of this type are sealed: at the strongest level of any version (A29).

        Among equal levels the latest word on the manager counts: of a version
        and one that was made from it, the later one.
        """
        by_depth = sorted(
            self.definitions, key=lambda version: (sum(1 for _ in self._ancestors(version)), version)
        )
        return strongest(self.definitions[version].sealing for version in by_depth)

    @property
    def signed(self) -> bool:
        """Return whether frames of this type travel signed in the clear: any version says so, none seals."""
        return self.sealing is None and any(one.signed for one in self.definitions.values())

    def remember(self, verified: VerifiedType) -> TypeHistory:
        """Return the history with this version in it, or say what it contradicts."""
        version = verified.name.version
        self._check_same_type(verified)
        known = self.digests.get(version)
        if known == verified.content:
            return self
        if known is not None:
            raise BrokenCredential(
                "TYPE-FORK", f"version `{version}` of `{verified.name.name}` is known with other content"
            )
        self._check_kinds(verified)
        self._check_no_circle(verified)
        self._check_sealing(verified)
        if len(self.digests) >= VERSIONS_MAX:
            raise Unavailable(
                "TYPE-HISTORY-FULL", f"type `{verified.name.name}` has more than {VERSIONS_MAX} versions"
            )
        return TypeHistory(
            self.type_id,
            MappingProxyType({**self.digests, version: verified.content}),
            MappingProxyType({**self.parents, version: verified.definition.previous}),
            MappingProxyType({**self.kinds, **verified.kinds}),
            MappingProxyType({**self.definitions, version: verified.definition}),
        )

    def descends(self, *, later: Version, earlier: Version) -> bool:
        """Return whether `later` was made from `earlier`, directly or through versions known here."""
        return earlier in self._ancestors(later)

    def upgrade(self, *, current: VerifiedType, offered: VerifiedType) -> VerifiedType:
        """Return `offered` if it descends from `current`; an older or sibling version is refused.

        Versions coexist, so an old version stays usable by those who chose it.
        This guards a reader of "the newest version" that another principal names.
        """
        known = self.remember(current).remember(offered)
        if offered.id != current.id and not known.descends(
            later=offered.name.version, earlier=current.name.version
        ):
            raise Refusal(
                "TYPE-DOWNGRADE",
                f"version `{offered.name.version}` of `{offered.name.name}` "
                f"was not made from version `{current.name.version}`, which is in use",
            )
        return offered

    def _ancestors(self, version: Version) -> Iterator[Version]:
        parent = self.parents.get(version)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def _check_same_type(self, verified: VerifiedType) -> None:
        if verified.type_id != self.type_id:
            raise BrokenCredential(
                "TYPE-ANOTHER-TYPE",
                f"`{verified.name.name}` of owner `{verified.name.owner}` is not the type of this history",
            )

    def _check_kinds(self, verified: VerifiedType) -> None:
        for uid, kind in verified.kinds.items():
            before = self.kinds.get(uid, kind)
            if before is not kind:
                raise UidReused(uid, before=before, after=kind)

    def _check_no_circle(self, verified: VerifiedType) -> None:
        version, previous = verified.name.version, verified.definition.previous
        if previous is not None and version in self._ancestors(previous):
            raise BrokenCredential(
                "TYPE-VERSIONS-IN-A-CIRCLE",
                f"version `{version}` of `{verified.name.name}` would be its own ancestor",
            )

    def _check_sealing(self, verified: VerifiedType) -> None:
        """Refuse a version that seals less than one it descends from, whichever of the two came first."""
        version, previous = verified.name.version, verified.definition.previous
        known = {**self.definitions, version: verified.definition}
        pairs = [(later, earlier) for later, earlier in self.parents.items() if earlier == version]
        for later, earlier in [*pairs, (version, previous)]:
            if earlier in known and protects_less(known[later], than=known[earlier]):
                raise BrokenCredential(
                    "TYPE-SEALING-WEAKENED",
                    f"version `{later}` of `{verified.name.name}` protects its events less than version "
                    f"`{earlier}`",
                )


# The stream of an issuer's statements on validity.
#
# Every issuer has one, and its name follows from the key: verifiers subscribe to it before they have met a
# definition of it (dissertation 6.3.3: one topic for as many certificates as possible). Each event has one
# attribute, the bytes of one signed statement, which prove themselves. The stream is plaintext and public:
# `maia.policy` lets every principal that may connect subscribe to it.


VALIDITY_TYPE: Final = "maia.validity"
STATEMENT: Final = Attribute("statement", AttributeUid("statement"), Kind.BYTES)


def validity_type_name(issuer: Principal) -> TypeName:
    """Return the name of the stream on which `issuer` makes its statements."""
    return TypeName(issuer, VALIDITY_TYPE, FIRST_VERSION)


def is_for_all(name: TypeName) -> bool:
    """Return whether a type is a stream of an issuer's, which every broker may carry to its clients.

    Statements prove themselves, and so do certificates (`maia.certificates`), which go to their subjects.
    """
    return isinstance(name.owner, Principal) and name.name in {VALIDITY_TYPE, CERTIFICATES_TYPE}


def validity_type_id(issuer: Principal) -> bytes:
    """Return the digest by which that stream is routed; no definition is needed for it."""
    return type_id(issuer, VALIDITY_TYPE)


def validity_definition(key: SigningKey, credentials: tuple[SignedCertificate, ...] = ()) -> SignedDefinition:
    """Return the definition of `key`'s stream; `credentials` let it be installed, where needed."""
    name = validity_type_name(key.principal)
    return sign_definition(TypeDefinition(name, None, (STATEMENT,), credentials), key)


def is_validity_stream(event_type: VerifiedType) -> bool:
    """Return whether this is exactly the standard type: its name, its one attribute, in plaintext.

    Such a type is public, so nothing that could hide more is one.
    """
    return _is_standard(event_type, VALIDITY_TYPE, (STATEMENT,))


def _is_standard(event_type: VerifiedType, standard: str, attributes: tuple[Attribute, ...]) -> bool:
    name = event_type.name
    return (
        name.name == standard
        and name.version == FIRST_VERSION
        and isinstance(name.owner, Principal)
        and event_type.attributes == attributes
        and event_type.protection is Protection.NONE
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


# The stream of an issuer's certificates (dissertation 6.5.2: pushed to those whom they concern).
#
# Each event is for one subject, which alone can open it (`sealing/pushed_certificates.py`). `maia.policy`
# lets every principal that may connect subscribe to the events for itself, and to no others, so that they
# travel to brokers on the way to their subject only.


CERTIFICATES_TYPE: Final = "maia.certificates"
SUBJECT: Final = Attribute("subject", AttributeUid("subject"), Kind.STRING)
CERTIFICATES: Final = Attribute("certificates", AttributeUid("certificates"), Kind.BYTES)


def certificates_type_name(issuer: Principal) -> TypeName:
    """Return the name of the stream on which `issuer` pushes certificates to their subjects."""
    return TypeName(issuer, CERTIFICATES_TYPE, FIRST_VERSION)


def certificates_definition(
    key: SigningKey, credentials: tuple[SignedCertificate, ...] = ()
) -> SignedDefinition:
    """Return the definition of `key`'s stream; `credentials` let it be installed, where needed."""
    name = certificates_type_name(key.principal)
    return sign_definition(TypeDefinition(name, None, (SUBJECT, CERTIFICATES), credentials), key)


def is_certificate_stream(event_type: VerifiedType) -> bool:
    """Return whether this is exactly the standard type."""
    return _is_standard(event_type, CERTIFICATES_TYPE, (SUBJECT, CERTIFICATES))


def for_subject(principal: Principal) -> Predicate:
    """Return the filter of the events of such a stream that are for `principal`."""
    return Comparison(SUBJECT.uid, Operator.EQ, str(principal))
