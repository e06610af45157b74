"""Which definitions have been found good, and until when?

A `VerifiedType` is the proof that `verify_definition` returns; nobody else can
build one. Brokers keep proofs in a `VerifiedTypeCache`, so that a subscription
with a type seen before costs one look into a dictionary. The cache saves work
and never extends a right: every hit compares the proof's validity with the
moment asked about.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Final, NoReturn, final

from maia.credentials.cache import VerificationCache
from maia.credentials.chain import VerifiedChain
from maia.credentials.names import NetworkName, TypeName
from maia.credentials.principals import Principal
from maia.credentials.quorum import VerifiedConstitution
from maia.credentials.validity import Validity
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.types.changes import Change
from maia.types.definition import SignedDefinition, TypeDefinition, type_id

__all__ = ["TYPES_MAX", "VerifiedType", "VerifiedTypeCache"]

TYPES_MAX: Final = 4096
"""How many verified types a cache remembers unless told otherwise."""

_SEAL: Final = object()  # held by `verification.py` alone


@final
@dataclass(frozen=True, slots=True)
class VerifiedType:
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
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]
    type_id: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self, seal: object) -> None:
        """Refuse anybody but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_definition makes a VerifiedType")
        object.__setattr__(self, "type_id", type_id(self.name.owner, self.name.name))

    def __init_subclass__(cls) -> None:
        """Refuse sub-classes, which could leave the check out."""
        raise TypeError("a VerifiedType has no sub-classes")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled: bytes from elsewhere are no proof."""
        raise TypeError("a VerifiedType cannot be pickled; send its definition and verify it again")

    def __copy__(self) -> VerifiedType:
        """Return the same proof: it cannot change."""
        return self

    def __deepcopy__(self, _memo: object) -> VerifiedType:
        """Return the same proof: it cannot change."""
        return self

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


class VerifiedTypeCache:
    """The definitions found good most recently, by digest; the least recently used one goes first."""

    __slots__ = ("_types", "certificates", "types_max")

    def __init__(self, types_max: int = TYPES_MAX, certificates: VerificationCache | None = None) -> None:
        """Remember at most `types_max` types, and the certificates inside them in `certificates`."""
        self.types_max = types_max
        self.certificates = VerificationCache() if certificates is None else certificates
        self._types: OrderedDict[bytes, VerifiedType] = OrderedDict()

    def __len__(self) -> int:
        """Return how many types are remembered."""
        return len(self._types)

    def find(
        self,
        signed: SignedDefinition,
        *,
        at: Instant,
        previous: VerifiedType | None = None,
        network: NetworkName | None = None,
        constitutions: tuple[VerifiedConstitution, ...] = (),
    ) -> VerifiedType | None:
        """Return the proof for `signed` if it was made on these grounds and holds at `at`."""
        known = self._types.get(signed.id)
        if known is None or not known.validity.contains(at):
            return None
        if known.signed is not signed and not _same_signed(known.signed, signed):
            return None
        if known.network is not network and known.network != network:
            return None
        if previous is not None and previous.id != known.previous_id:
            return None
        # Members of a quorum are replaced: a proof that rests on those of yesterday is made again.
        if known.constitutions and not all(one in constitutions for one in known.constitutions):
            return None
        self._types.move_to_end(signed.id)
        return known

    def keep(self, verified: VerifiedType) -> None:
        """Remember a proof, and forget the one that was not used for the longest time."""
        self._types[verified.id] = verified
        self._types.move_to_end(verified.id)
        while len(self._types) > self.types_max:
            self._types.popitem(last=False)


def _same_signed(known: SignedDefinition, offered: SignedDefinition) -> bool:
    # `id` is a label that came with the object. The proof is about bytes, signer and signature.
    return (
        known.body == offered.body and known.signature == offered.signature and known.signer == offered.signer
    )
