"""Which definitions have been found good, and until when?

A `VerifiedType` is the proof that `verify_definition` returns; no other function can
build one. Brokers keep proofs in a `VerifiedTypeCache`, so that a subscription
with a type seen before costs one look into a dictionary. The cache saves work
and never extends a right: every hit compares the proof's validity with the
moment asked about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Final, final

from maia.credentials.chains.cache import VerificationCache
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.keys import Principal
from maia.credentials.names import NetworkName, TypeName
from maia.credentials.proof import Proof
from maia.credentials.validity.period import Validity
from maia.events import INSTANT_MAX, INSTANT_MIN, Attribute, AttributeUid, Instant, Kind
from maia.types.changes import Change
from maia.types.definition import Sealing, SignedDefinition, TypeDefinition, type_id

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

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_definition makes a VerifiedType")
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
    was_used: bool = False


class VerifiedTypeCache:
    """The definitions found good most recently, by digest.

    A type that was used since its last turn gets a second chance before it is
    forgotten. That keeps the types in use, as "least recently used" would, and
    a hit costs no more than setting a flag.
    """

    __slots__ = ("_remembered", "_turns", "certificates", "types_max")

    def __init__(self, types_max: int = TYPES_MAX, certificates: VerificationCache | None = None) -> None:
        """Remember at most `types_max` types, and the certificates inside them in `certificates`."""
        self.types_max = types_max
        self.certificates = VerificationCache() if certificates is None else certificates
        self._remembered: dict[bytes, _Remembered] = {}
        self._turns: deque[bytes] = deque()  # every digest once: who is asked next whether it may stay

    def __len__(self) -> int:
        """Return how many types are remembered."""
        return len(self._remembered)

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
        if verified.id not in self._remembered:
            self._turns.append(verified.id)
        since, until = verified.validity.not_before, verified.validity.not_after
        self._remembered[verified.id] = _Remembered(
            verified.signed,
            verified.network,
            Instant(INSTANT_MIN) if since is None else since,
            Instant(INSTANT_MAX) if until is None else until,
            verified,
            rests_on_quorums=bool(verified.constitutions),
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
            del self._remembered[digest]


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
