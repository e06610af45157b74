"""By what is an entry compared with others, and by what does its neighbour know it?

A type's book asks for every entry. A filter that is known whole is compared
by itself. Of a sealed one the unknown parts are compared by their marks, each
of which is true or false of an event, unknown here. To covering,
a mark is therefore one more attribute that has to exist: it proves nothing
that does not hold however the marks turn out.
"""

from __future__ import annotations

import hashlib
from typing import Final

from maia.events import AttributeUid
from maia.predicates import AllOf, Exists, Predicate, attributes_of
from maia.routing.table.digests import digest_of_filter
from maia.routing.table.hops import RouteEntry, SealedEntry

__all__ = ["compared_by", "digest_of_meaning", "digest_on_the_link", "known_attributes"]

_MARK: Final = "~"
"""The prefix of the attribute of a mark; no filter that is sent can name it."""


def compared_by(entry: RouteEntry) -> Predicate:
    """Return the filter that covers exactly what an entry is known to cover."""
    if not isinstance(entry, SealedEntry) or not entry.marks:
        return entry.predicate
    marks = [Exists(AttributeUid(_MARK + mark.hex())) for mark in sorted(entry.marks)]
    return AllOf((entry.predicate, *marks))


def known_attributes(compared: Predicate) -> frozenset[AttributeUid]:
    """Return the real attributes of a filter, without marks."""
    return frozenset(uid for uid in attributes_of(compared) if not uid.startswith(_MARK))


def digest_of_meaning(entry: RouteEntry) -> bytes:
    """Return what entries have in common exactly if they are known to want the same."""
    known = digest_of_filter(entry.predicate)
    if not isinstance(entry, SealedEntry):
        return known
    return hashlib.sha256(b"maia/1/sealed-meaning\x00" + known + b"".join(sorted(entry.marks))).digest()


def digest_on_the_link(entry: RouteEntry, meaning: bytes) -> bytes:
    """Return the digest that both ends of a link agree on: of what travels, not of what is known here."""
    return entry.digest if isinstance(entry, SealedEntry) else meaning
