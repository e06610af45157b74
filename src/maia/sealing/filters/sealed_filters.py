"""Sealed filters: what does a subscriber want, as far as this broker may know it?

Brokers ask for every interest of a sealed type (K3; dissertation 7.3). Each
part of a filter is sealed under the keys of exactly the attributes it
of. A broker filters on what it can open, and takes the rest as "may match".
It compares what it cannot open by keyed marks: equal marks are equal parts.
The answer to "does it cover?" may be a cautious "no"; it is never a hopeful
"yes", whatever keys are held.

All parts of a filter are bound to each other: none can be moved to another
filter, type or epoch, altered or left out, without those who hold a key of
the filter noticing (A46).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from maia.canonical import Limits, read_canonical, write_canonical
from maia.credentials import same_secret
from maia.errors import BadInput, ProtocolViolation, Refusal
from maia.events import PUBLISHER_PREFIX, AttributeUid, BadAttribute, attribute_uid, routed_uid
from maia.policy.answers import part_of
from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    AllOf,
    Predicate,
    attributes_of,
    checked_size,
    covers,
    predicate_from_expression,
    predicate_to_expression,
    provably_empty,
)
from maia.predicates.syntax import conjuncts, is_true_formula
from maia.sealing.groups.key_group import TYPE_ID_BYTES, GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret

# The parts of a filter, each opened by the readers of its attributes.


PART_BYTES_MAX: Final = 1 << 15
UIDS_PER_PART_MAX: Final = 64

# A literal is a list inside its test.
_LIMITS: Final = Limits(size_max=PART_BYTES_MAX, depth_max=DEPTH_MAX + 3, atom_max=PART_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class FilterPart:
    """What a filter says about some attributes together; `data` is its one form in bytes."""

    uids: tuple[AttributeUid, ...]
    data: bytes


def parts_of(predicate: Predicate, *, is_split: bool = True) -> tuple[FilterPart, ...]:
    """Return the parts of a filter, by their attributes; none for the empty filter.

    With `is_split` false the filter stays whole, whatever its attributes. A part
    that is too large to travel is left out: others are then asked for more
    than is wanted, and never for less.
    """
    formula = is_true_formula(checked_size(predicate))
    together: dict[tuple[AttributeUid, ...], set[bytes]] = {}
    for part in conjuncts(formula):
        # What a requirement asks of publishers is for all who read the type: statements are no secret of it.
        asked = [uid for uid in attributes_of(part) if not uid.startswith(PUBLISHER_PREFIX)]
        uids = tuple(sorted(asked)) if is_split else ()
        together.setdefault(uids, set()).add(write_canonical(predicate_to_expression(part)))
    parts = [FilterPart(uids, _written(said)) for uids, said in sorted(together.items())]
    return tuple(part for part in parts if _travels(part))


def part_from_bytes(data: bytes) -> Predicate:
    """Read a part; whatever is not the one form of a predicate is refused as bad input."""
    return predicate_from_expression(read_canonical(data, _LIMITS), routed_uid)


def joined(parts: Iterable[Predicate]) -> Predicate:
    """Return the filter that holds where all parts hold."""
    flat = tuple(dict.fromkeys(one for part in parts for one in conjuncts(part)))
    return flat[0] if len(flat) == 1 else AllOf(flat)


def _written(said: set[bytes]) -> bytes:
    (first, *others) = sorted(said)
    return b"(3:and%b)" % b"".join((first, *others)) if others else first


def _travels(part: FilterPart) -> bool:
    if len(part.data) > PART_BYTES_MAX or len(part.uids) > UIDS_PER_PART_MAX:
        return False
    try:
        part_from_bytes(part.data)
    except BadInput:
        return False  # joined, it is deeper or has more parts than a predicate may
    return True


# The key that seals something about several attributes.


MARK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LENGTH_BYTES: Final = 4
SEALED_OVERHEAD: Final = _NONCE_BYTES + _TAG_BYTES + _LENGTH_BYTES

_SHARE: Final = b"maia/1/filter-share"
_JOINT: Final = b"maia/1/filter-joint\x00"
_BOX: Final = b"maia/1/filter-box"
_MARK: Final = b"maia/1/filter-mark"
_TYPE: Final = b"*"
"""Stands for the type's own group; no attribute has this uid."""


def joint_key(
    keys: KeyRing, type_id: bytes, uids: Sequence[AttributeUid | None], epoch: int
) -> Secret | None:
    """Return the key that exactly the members of all these groups have; None if one is missing here."""
    names = [_TYPE if uid is None else uid.encode() for uid in uids]
    shares: list[bytes] = []
    for uid in uids:
        content = keys.key(GroupId(type_id, uid and (part_of(uid) or uid)), epoch)
        if content is None:
            return None
        # Every share names the whole set: the share for `x` alone says nothing about `x` and `y`.
        shares.append(content.derive(_SHARE, *names).reveal())
    return Secret.from_bytes(sha256(_JOINT + b"".join(shares)).digest())


def keyed_mark(key: Secret, *parts: bytes) -> bytes:
    """Return what is equal for equal parts under one key, and reveals nothing else without it."""
    return hmac.digest(key.derive(_MARK).reveal(), framed(parts), "sha256")[:MARK_BYTES]


def seal_box(
    key: Secret, data: bytes, *, bound_to: bytes, context: bytes, block: int, random: Callable[[int], bytes]
) -> bytes:
    """Return sealed bytes, rounded up to whole blocks, that open only beside what they are bound to.

    `context` is new for whatever is sealed, and the key grows from it. So a
    nonce would have to repeat within one context to be of any use;
    it is random, and neither clocks, restarts nor a second process matter (A45).
    """
    padded = len(data).to_bytes(_LENGTH_BYTES, "big") + data
    padded += bytes(-len(padded) % block)
    nonce = random(_NONCE_BYTES)
    return nonce + AESGCM(key.derive(_BOX, context).reveal()).encrypt(nonce, padded, bound_to)


def open_box(key: Secret, sealed: bytes, *, bound_to: bytes, context: bytes) -> bytes | None:
    """Return what was sealed; None if it does not open: another key, other surroundings, other bytes."""
    if len(sealed) < SEALED_OVERHEAD:
        return None
    cipher = AESGCM(key.derive(_BOX, context).reveal())
    try:
        padded = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except InvalidTag:
        return None
    size = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    data, rest = padded[_LENGTH_BYTES : _LENGTH_BYTES + size], padded[_LENGTH_BYTES + size :]
    return data if len(data) == size and not any(rest) else None


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts one after the other, each behind its length, so that no two lists run together."""
    return b"".join([len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts])


PARTS_MAX: Final = 64
FILTER_ID_BYTES: Final = 16
_BLOCK: Final = 64
SEALED_PART_BYTES_MAX: Final = PART_BYTES_MAX + SEALED_OVERHEAD + _BLOCK
_FILTER: Final = b"maia/1/sealed-filter"


def check_uids(uids: tuple[AttributeUid, ...], *, most: int, of: str) -> None:
    """Refuse attributes that are too many, not uids, or not in the one order in which they are written."""
    if len(uids) > most or any(b <= a for a, b in pairwise(uids)):
        raise ProtocolViolation(
            "PROTOCOL-SEALED-FILTER", f"the attributes of a sealed {of} are few, different and in their order"
        )
    try:
        for uid in uids:
            attribute_uid(uid)
    except BadAttribute as problem:
        raise ProtocolViolation("PROTOCOL-SEALED-FILTER", problem.message) from problem


@dataclass(frozen=True, slots=True)
class SealedPart:
    """One part of a filter: its attributes (none: whatever the type has), its mark, its box."""

    uids: tuple[AttributeUid, ...]
    mark: bytes
    box: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse uids out of order, and sizes that no sealer makes."""
        check_uids(self.uids, most=UIDS_PER_PART_MAX, of="part")
        if len(self.mark) != MARK_BYTES or not SEALED_OVERHEAD <= len(self.box) <= SEALED_PART_BYTES_MAX:
            raise ProtocolViolation(
                "PROTOCOL-SEALED-FILTER", "a sealed part has a mark and a box of another size"
            )


@dataclass(frozen=True, slots=True)
class SealedFilter:
    """A filter as it travels: its operands stay secret without the keys.

    `id` is random and new for every sealing, so it tells nothing of the filter.
    """

    type_id: bytes
    epoch: int
    id: bytes
    parts: tuple[SealedPart, ...]

    def __post_init__(self) -> None:
        """Refuse parts out of order, or two about the same attributes."""
        if len(self.type_id) != TYPE_ID_BYTES or len(self.id) != FILTER_ID_BYTES or self.epoch < 0:
            raise ProtocolViolation(
                "PROTOCOL-SEALED-FILTER", "a sealed filter names a type, an epoch and itself"
            )
        if len(self.parts) > PARTS_MAX or any(b.uids <= a.uids for a, b in pairwise(self.parts)):
            raise ProtocolViolation(
                "PROTOCOL-SEALED-FILTER", "the parts of a sealed filter are few, different and in their order"
            )

    @property
    def digest(self) -> bytes:
        """Return the hash of all that travels: equal for the same sealed filter alone."""
        boxes = [sha256(part.box).digest() for part in self.parts]
        return sha256(framed((_frame_of(self), *boxes))).digest()


@dataclass(frozen=True, slots=True)
class OpenedFilter:
    """A sealed filter as far as the keys at hand go.

    An event that the whole filter admits is admitted by `opened`. `unopened`
    are the marks of the other parts.
    """

    opened: Predicate = field(repr=False)
    unopened: frozenset[bytes]


def seal_filter(
    predicate: Predicate,
    *,
    type_id: bytes,
    epoch: int,
    by_attribute: bool,
    keys: KeyRing,
    random: Callable[[int], bytes],
) -> SealedFilter:
    """Seal a filter part by part, or as a whole under the type's own key.

    A part for which a key is missing, or for which there is no room, is left
    out: the sealed filter then asks for more, and never for less.
    """
    ready: list[tuple[FilterPart, Secret]] = []
    for part in parts_of(predicate, is_split=by_attribute):
        key = joint_key(keys, type_id, part.uids or (None,), epoch)
        if key is not None and len(ready) < PARTS_MAX:
            ready.append((part, key))
    bare = tuple(
        SealedPart(part.uids, keyed_mark(key, part.data), bytes(SEALED_OVERHEAD)) for part, key in ready
    )
    frame = SealedFilter(type_id, epoch, random(FILTER_ID_BYTES), bare)
    bound_to = _frame_of(frame)
    parts = tuple(
        SealedPart(
            part.uids,
            empty.mark,
            seal_box(key, part.data, bound_to=bound_to, context=frame.id, block=_BLOCK, random=random),
        )
        for empty, (part, key) in zip(bare, ready, strict=True)
    )
    return SealedFilter(type_id, epoch, frame.id, parts)


def open_filter(sealed: SealedFilter, keys: KeyRing) -> OpenedFilter:
    """Open what the keys open; refuse a filter of which a part should open and does not."""
    bound_to = _frame_of(sealed)
    opened: list[Predicate] = []
    unopened: set[bytes] = set()
    for part in sealed.parts:
        key = joint_key(keys, sealed.type_id, part.uids or (None,), sealed.epoch)
        if key is None:
            unopened.add(part.mark)
        else:
            opened.append(_opened(part, key, bound_to, sealed.id))
    return OpenedFilter(_together(opened), frozenset(unopened))


def proved_to_cover(*, wide: OpenedFilter, narrow: OpenedFilter) -> bool:
    """Return whether provably every event that `narrow` admits, whole, is admitted by `wide`, whole."""
    if provably_empty(narrow.opened):
        return True
    return wide.unopened <= narrow.unopened and covers(wide=wide.opened, narrow=narrow.opened)


def _together(opened: list[Predicate]) -> Predicate:
    try:
        return checked_size(joined(opened)) if opened else ALWAYS
    except BadInput as problem:
        raise Refusal(
            "SEALING-FILTER-DOES-NOT-OPEN", "the parts of a sealed filter are too much for one filter"
        ) from problem


def _opened(part: SealedPart, key: Secret, bound_to: bytes, context: bytes) -> Predicate:
    data = open_box(key, part.box, bound_to=bound_to, context=context)
    if data is None or not same_secret(keyed_mark(key, data), part.mark):
        raise Refusal("SEALING-FILTER-DOES-NOT-OPEN", "a part of a sealed filter does not open with its key")
    try:
        predicate = part_from_bytes(data)
    except BadInput as problem:
        raise Refusal(
            "SEALING-FILTER-DOES-NOT-OPEN", "a part of a sealed filter holds no filter"
        ) from problem
    # At event level a part names no attributes and may use all.
    if part.uids and attributes_of(predicate) != frozenset(part.uids):
        raise Refusal(
            "SEALING-FILTER-DOES-NOT-OPEN", "a part of a sealed filter uses other attributes than it names"
        )
    return predicate


def _frame_of(sealed: SealedFilter) -> bytes:
    """Return what every part is bound to: type, epoch, sealing, and which parts there are."""
    parts = [framed((framed(uid.encode() for uid in part.uids), part.mark)) for part in sealed.parts]
    return framed((_FILTER, sealed.type_id, b"%d" % sealed.epoch, sealed.id, *parts))
