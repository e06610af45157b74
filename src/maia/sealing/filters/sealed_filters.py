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

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Final

from maia.credentials import same_secret
from maia.errors import BadInput, ProtocolViolation, Refusal
from maia.events import AttributeUid, BadAttribute, attribute_uid
from maia.predicates import ALWAYS, Predicate, attributes_of, checked_size, covers, provably_empty
from maia.sealing.filters.keys import (
    MARK_BYTES,
    SEALED_OVERHEAD,
    GroupKeys,
    framed,
    joint_key,
    keyed_mark,
    open_box,
    seal_box,
)
from maia.sealing.filters.parts import (
    PART_BYTES_MAX,
    UIDS_PER_PART_MAX,
    FilterPart,
    joined,
    part_from_bytes,
    parts_of,
)
from maia.sealing.groups.group_id import TYPE_ID_BYTES
from maia.sealing.keys.secrets import Secret

__all__ = [
    "FILTER_ID_BYTES",
    "PARTS_MAX",
    "SEALED_PART_BYTES_MAX",
    "BadSealedFilter",
    "FilterDoesNotOpen",
    "OpenedFilter",
    "SealedFilter",
    "SealedPart",
    "check_uids",
    "open_filter",
    "proved_to_cover",
    "seal_filter",
]

PARTS_MAX: Final = 64
FILTER_ID_BYTES: Final = 16
_BLOCK: Final = 64
SEALED_PART_BYTES_MAX: Final = PART_BYTES_MAX + SEALED_OVERHEAD + _BLOCK
_FILTER: Final = b"maia/1/sealed-filter"


class BadSealedFilter(ProtocolViolation):
    """A sealed filter is not written in its one form."""

    code = "PROTOCOL-SEALED-FILTER"


class FilterDoesNotOpen(Refusal):
    """A part of a sealed filter does not open with its key: it was altered, moved or made up."""

    code = "SEALING-FILTER-DOES-NOT-OPEN"


def check_uids(uids: tuple[AttributeUid, ...], *, most: int, of: str) -> None:
    """Refuse attributes that are too many, not uids, or not in the one order in which they are written."""
    if len(uids) > most or any(b <= a for a, b in pairwise(uids)):
        raise BadSealedFilter(f"the attributes of a sealed {of} are few, different and in their order")
    try:
        for uid in uids:
            attribute_uid(uid)
    except BadAttribute as problem:
        raise BadSealedFilter(problem.message) from problem


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
            raise BadSealedFilter("a sealed part has a mark and a box of another size")


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
            raise BadSealedFilter("a sealed filter names a type, an epoch and itself")
        if len(self.parts) > PARTS_MAX or any(b.uids <= a.uids for a, b in pairwise(self.parts)):
            raise BadSealedFilter("the parts of a sealed filter are few, different and in their order")

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
    keys: GroupKeys,
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


def open_filter(sealed: SealedFilter, keys: GroupKeys) -> OpenedFilter:
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
    """Say whether provably every event that `narrow` admits, whole, is admitted by `wide`, whole."""
    if provably_empty(narrow.opened):
        return True
    return wide.unopened <= narrow.unopened and covers(wide=wide.opened, narrow=narrow.opened)


def _together(opened: list[Predicate]) -> Predicate:
    try:
        return checked_size(joined(opened)) if opened else ALWAYS
    except BadInput as problem:
        raise FilterDoesNotOpen("the parts of a sealed filter are too much for one filter") from problem


def _opened(part: SealedPart, key: Secret, bound_to: bytes, context: bytes) -> Predicate:
    data = open_box(key, part.box, bound_to=bound_to, context=context)
    if data is None or not same_secret(keyed_mark(key, data), part.mark):
        raise FilterDoesNotOpen("a part of a sealed filter does not open with its key")
    try:
        predicate = part_from_bytes(data)
    except BadInput as problem:
        raise FilterDoesNotOpen("a part of a sealed filter holds no filter") from problem
    # At event level a part names no attributes and may use all.
    if part.uids and attributes_of(predicate) != frozenset(part.uids):
        raise FilterDoesNotOpen("a part of a sealed filter uses other attributes than it names")
    return predicate


def _frame_of(sealed: SealedFilter) -> bytes:
    """Return what every part is bound to: type, epoch, sealing, and which parts there are."""
    parts = [framed((framed(uid.encode() for uid in part.uids), part.mark)) for part in sealed.parts]
    return framed((_FILTER, sealed.type_id, b"%d" % sealed.epoch, sealed.id, *parts))
