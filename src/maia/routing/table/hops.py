"""What do neighbours tell each other about interests and offers, and who is a neighbour?

The routing table receives entries of hops and answers with messages. A hop is whatever the
broker uses to name a neighbour, or `LOCAL` for its own clients. Nothing here
knows how a tell travels, nor who may say what: the baggage of an entry, such
as the request that proves it, passes through unread.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from maia.predicates import Predicate

ENTRIES_PER_TELL_MAX: Final = 1024
"""More changes than this are sent in several steps: what is added first, what is removed last."""


class _Local(Enum):
    """The one hop that is no neighbour."""

    LOCAL = "local"


LOCAL: Final = _Local.LOCAL
"""All clients of this broker together."""

Hop: TypeAlias = Hashable
"""A neighbour broker, or `LOCAL`; compared and hashed, never looked into."""

TypeId: TypeAlias = bytes
"""What the table keeps apart. Sealed publications of a type are another thing than plain ones."""

_SEALED: Final = b"/sealed"
_TYPE_ID_BYTES: Final = 32


def book_key_of_sealed(type_id: bytes) -> TypeId:
    """Return the name under which the table knows sealed publications of a type.

    What is said of them and what is said of plain ones never meet, so that a
    plain interest can neither cover a sealed one nor receive its frames.
    """
    return type_id + _SEALED


def is_of_sealed(key: TypeId) -> bool:
    """Return whether a name of the table is that of sealed publications."""
    return len(key) > _TYPE_ID_BYTES


def type_of_book_key(key: TypeId) -> bytes:
    """Return the id of the type that a name of the table is about."""
    return key[:_TYPE_ID_BYTES]


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """One filter of subscribers behind a hop.

    `id` is unique among the entries of one type that one hop tells. `baggage`
    travels with it.
    """

    id: bytes
    predicate: Predicate
    """What it is matched by; of a filter of which this broker may not know everything, something wider."""
    baggage: object = field(default=None, repr=False, compare=False)
    marks: frozenset[bytes] = frozenset()
    """In place of what is not known of the filter: equal marks are equal parts."""
    digest: bytes = b""
    """That of the filter as it travels, the same at both ends of a link whatever each end knows; empty if all
    of it is known to everyone."""
    size: int = field(default=0, repr=False, compare=False, kw_only=True)
    """About how many bytes it takes to keep, for the share of its hop."""
    view: bytes = field(default=b"", kw_only=True)
    """The class of those for whom it is: they see the same of every event. Classes cover only themselves."""
    behind: Predicate | None = field(default=None, repr=False, compare=False, kw_only=True)
    """What it is matched by once events have become what its class sees of them; None for the same filter."""


@dataclass(frozen=True, slots=True)
class SealedEntry(RouteEntry):
    """One filter of which this broker may not know everything: it has a digest, and perhaps marks."""


@dataclass(frozen=True, slots=True)
class InterestUpdate:
    """Add and remove entries of a type at a neighbour; an id that is there already is replaced."""

    hop: Hop
    type_id: TypeId
    add: tuple[RouteEntry, ...]
    remove: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OfferUpdate:
    """Publications of a type may, or may no longer, come to a neighbour from here."""

    hop: Hop
    type_id: TypeId
    stands: bool
    baggage: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Renewal:
    """All that was sent to a neighbour is renewed: so many entries, with this digest."""

    hop: Hop
    entries: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ResyncRequest:
    """Ask a neighbour to tell everything again."""

    hop: Hop


RouteUpdate: TypeAlias = InterestUpdate | OfferUpdate | Renewal | ResyncRequest
