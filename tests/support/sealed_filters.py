"""Key rings of every size over a few attributes, and filters sealed with all of their keys."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import chain, combinations

from maia.events import AttributeUid, Instant
from maia.predicates import Predicate
from maia.sealing.filters.sealed_filters import SealedFilter, seal_filter
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.secrets import Secret

TYPE = b"T" * 32
EPOCH = 3
Group = AttributeUid | None


def random_from(seed: str = "chance") -> Callable[[int], bytes]:
    """Return bytes that are the same in every run, and never the same twice in one."""
    drawn = [0]

    def more(size: int) -> bytes:
        drawn[0] += 1
        block = sha256(f"{seed}/{drawn[0]}".encode()).digest()
        return (block * (size // 32 + 1))[:size]

    return more


def ring(*groups: Group, type_id: bytes = TYPE, epochs: Collection[int] = (EPOCH,)) -> KeyRing:
    """Return a ring that holds these groups of a type; equal groups have equal secrets on all rings."""
    held = KeyRing(type_id)
    for epoch in epochs:
        held.learn(epoch, since=Instant(epoch))
        for uid in groups:
            secret = sha256(b"%b/%b/%d" % (type_id, (uid or "*").encode(), epoch)).digest()
            held.hold(GroupId(type_id, uid), epoch, Secret.from_bytes(secret))
    return held


def every_subset(groups: Collection[Group]) -> list[tuple[Group, ...]]:
    """Return all subsets, the empty one and the whole included."""
    return list(chain.from_iterable(combinations(groups, size) for size in range(len(groups) + 1)))


def sealed(
    predicate: Predicate,
    keys: KeyRing,
    *,
    epoch: int = EPOCH,
    by_attribute: bool = True,
    random: Callable[[int], bytes] | None = None,
) -> SealedFilter:
    """Seal a filter with the keys of a ring."""
    return seal_filter(
        predicate,
        type_id=keys.type_id,
        epoch=epoch,
        by_attribute=by_attribute,
        keys=keys,
        random=random or random_from(repr(predicate)),
    )
