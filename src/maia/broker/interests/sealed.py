"""Under which keys are this broker's own interests sealed, and what has to be sealed or opened anew?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from maia.events import Instant
from maia.predicates import Predicate
from maia.routing.table.hops import Hop
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing


@dataclass(frozen=True, slots=True)
class Placed:
    """Under which id a class of subscribers is in the book, what was sealed, and with which keys."""

    entry_id: bytes
    epoch: int
    groups: frozenset[GroupId]
    filter: Predicate = field(repr=False)


Task: TypeAlias = tuple[bytes, Hop, bytes]
"""The id under which a type travels, a hop, and the id of an entry; for `LOCAL`, the key of a class."""


@dataclass(slots=True)
class SealedInterests:
    """The sealed side of a broker's interests and offers."""

    ring_of: Callable[[bytes], KeyRing | None] = lambda type_id: None
    in_use: dict[bytes, int] = field(default_factory=dict)
    """By type, the epoch under which this broker's own interests are sealed."""
    changed_at: dict[bytes, Instant] = field(default_factory=dict)
    """When that epoch came into use here."""
    looked_at: Instant | None = None
    """When it was last checked whether others have sealed anew."""
    placed: dict[tuple[bytes, bytes], Placed] = field(default_factory=dict)
    """By the id under which a type travels, and class."""
    doubted: dict[bytes, None] = field(default_factory=dict)
    """Digests of sealed filters that a broker refused which could read more of them; the oldest go first."""
    to_do: dict[Task, None] = field(default_factory=dict)
    """What is to be sealed or opened anew, in the order in which it was found."""
