"""Who is behind a sealed interest or offer, as far as this broker may know it?

The signed request and the certificates behind it hold operands too: the
request repeats the filter, and certificates restrict values. So they are
sealed under the type's own key together with the keys of all attributes that
they mention. A reader of those verifies the proof (A67). Every other member of
the type's group still sees by a keyed tag that a member of the group made the
interest as it is; an outsider cannot make one, nor alter, cut or widen one.
Where events are sealed as a whole, that key is not for those who are shown what
is made of them: such a proof names their parts, whose keys take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar, Final, TypeAlias

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials import same_secret
from maia.errors import BadInput, ProtocolViolation, Refusal
from maia.events import ATTRIBUTES_MAX, AttributeUid
from maia.policy.answers import part_of
from maia.sealing.filters.sealed_filters import (
    MARK_BYTES,
    SEALED_OVERHEAD,
    SealedFilter,
    check_uids,
    framed,
    joint_key,
    keyed_mark,
    open_box,
    seal_box,
)
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing

_PROOF_BYTES_MAX: Final = 1 << 19
_CERTIFICATES_MAX: Final = 256
_BLOCK: Final = 512
SEALED_PROOF_BYTES_MAX: Final = _PROOF_BYTES_MAX + SEALED_OVERHEAD + _BLOCK
_LIMITS: Final = Limits(size_max=_PROOF_BYTES_MAX, depth_max=3, atom_max=_PROOF_BYTES_MAX)
_PROOF: Final = b"maia/1/sealed-proof"


@dataclass(frozen=True, slots=True)
class _SealedNote:
    type_id: bytes
    epoch: int
    id: bytes
    _purpose: ClassVar[bytes]

    @property
    def digest(self) -> bytes:
        """Return the hash of what its proof is bound to."""
        return sha256(framed((self._purpose, self.type_id, b"%d" % self.epoch, self.id))).digest()


class SealedOffer(_SealedNote):
    """That publications of a type may come from here; `id` is random and new for every sealing."""

    __slots__ = ()
    _purpose = b"maia/1/sealed-offer"


class SealedShowing(_SealedNote):
    """That a member shows a neighbour what it may do with a type; `id` is new for every sealing."""

    __slots__ = ()
    _purpose = b"maia/1/sealed-showing"


SealedThing: TypeAlias = SealedFilter | SealedOffer | SealedShowing
"""Whatever a proof is sealed for, and opens beside."""


@dataclass(frozen=True, slots=True)
class SealedProof:
    """A request and certificates that open for readers of the type and `uids`; `box` is empty for none."""

    uids: tuple[AttributeUid, ...]
    box: bytes = field(repr=False)
    tag: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse uids out of order, and sizes that no sealer makes."""
        check_uids(self.uids, most=ATTRIBUTES_MAX, of="proof")
        sizes = range(SEALED_OVERHEAD, SEALED_PROOF_BYTES_MAX + 1)
        if len(self.tag) != MARK_BYTES or (self.box and len(self.box) not in sizes):
            raise ProtocolViolation(
                "PROTOCOL-SEALED-FILTER", "a sealed proof has a tag and a box of another size"
            )


@dataclass(frozen=True, slots=True)
class OpenedProof:
    """The signed request behind an interest or offer, and the certificates behind the request."""

    request: bytes = field(repr=False)
    certificates: tuple[bytes, ...] = field(repr=False)


def seal_proof(
    sealed: SealedThing,
    proof: OpenedProof | None,
    *,
    uids: frozenset[AttributeUid],
    keys: KeyRing,
    random: Callable[[int], bytes],
) -> SealedProof | None:
    """Seal the proof of an interest or offer for readers of `uids`; None if this broker is no member.

    Without the key of one of `uids`, or without room, there is a tag and no proof.
    """
    named = tuple(sorted(uids))
    own = joint_key(keys, sealed.type_id, _members(named), sealed.epoch)
    if own is None:
        return None
    key = joint_key(keys, sealed.type_id, _readers(named), sealed.epoch)
    data = b"" if proof is None else _written(proof)
    box = b""
    if key is not None and data and len(data) <= _PROOF_BYTES_MAX:
        bound_to = _bound_to(sealed, named)
        box = seal_box(key, data, bound_to=bound_to, context=sealed.id, block=_BLOCK, random=random)
    return SealedProof(named, box, keyed_mark(own, _bound_to(sealed, named), box))


def check_made_by_a_member(sealed: SealedThing, proof: SealedProof, keys: KeyRing) -> bool:
    """Refuse what no member of the type's group made as it is; say whether that could be checked here."""
    own = joint_key(keys, sealed.type_id, _members(proof.uids), sealed.epoch)
    if own is None:
        if keys.key(GroupId(sealed.type_id), sealed.epoch) is not None:
            raise _not_by_a_member()  # who holds the type's own key holds that of every part
        return False
    if not same_secret(keyed_mark(own, _bound_to(sealed, proof.uids), proof.box), proof.tag):
        raise _not_by_a_member()
    return True


def _not_by_a_member() -> Refusal:
    sentence = "a sealed interest or offer was not made by a member of its type's group"
    return Refusal("SEALING-NOT-BY-A-MEMBER", sentence)


def open_proof(sealed: SealedThing, proof: SealedProof, keys: KeyRing) -> OpenedProof | None:
    """Return the proof; None where a key for it is missing. Refuse one that should open and does not."""
    key = joint_key(keys, sealed.type_id, _readers(proof.uids), sealed.epoch)
    if key is None:
        return None
    data = open_box(key, proof.box, bound_to=_bound_to(sealed, proof.uids), context=sealed.id)
    if data is None:
        raise Refusal(
            "SEALING-PROOF-DOES-NOT-OPEN",
            "the sealed proof of an interest or offer does not open with its keys",
        )
    try:
        return _read(read_canonical(data, _LIMITS))
    except BadInput as problem:
        raise Refusal(
            "SEALING-PROOF-DOES-NOT-OPEN", "the sealed proof of an interest or offer holds no proof"
        ) from problem


def _members(uids: tuple[AttributeUid, ...]) -> tuple[AttributeUid | None, ...]:
    """Return the groups whose members make what names these: the type's own, or those of parts."""
    return tuple(uid for uid in uids if part_of(uid)) or (None,)


def _readers(uids: tuple[AttributeUid, ...]) -> tuple[AttributeUid | None, ...]:
    return (*_members(uids), *(uid for uid in uids if not part_of(uid)))


def _bound_to(sealed: SealedThing, uids: tuple[AttributeUid, ...]) -> bytes:
    return framed((_PROOF, sealed.digest, *(uid.encode() for uid in uids)))


def _written(proof: OpenedProof) -> bytes:
    return write_canonical((b"proof", proof.request, proof.certificates[:_CERTIFICATES_MAX]))


def _read(expression: SExpression) -> OpenedProof:
    match expression:
        case (b"proof", bytes(request), tuple(certificates)) if len(certificates) <= _CERTIFICATES_MAX:
            given = [one for one in certificates if isinstance(one, bytes)]
            if len(given) == len(certificates):
                return OpenedProof(request, tuple(given))
    raise Refusal("SEALING-PROOF-DOES-NOT-OPEN", "the sealed proof of an interest or offer holds no proof")
