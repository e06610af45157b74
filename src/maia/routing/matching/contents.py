"""What does a block of filters hold, apart from the bitmaps made of it?

The matching index asks when it builds a block from new filters, or one block
from several. Every alternative of a filter has a slot. What a slot asks of
texts beyond their order, or of events as a whole, is kept beside the arrays
and asked last.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from maia.events import ATTRIBUTES_MAX, AttributeUid, Event
from maia.predicates.covering.alternatives import Alternative
from maia.predicates.covering.string_automata import TextClaim, claim_holds
from maia.predicates.covering.value_sets import ValueSet
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate
from maia.routing.matching.spans import AttributeSpans, Slots, SpanLists, joined_spans

__all__ = ["KNOWN_MAX", "Contents", "KnownAttributes", "Rest", "contents_of", "joined_contents"]

Key = TypeVar("Key", bound=Hashable)

KNOWN_MAX: Final = 4 * ATTRIBUTES_MAX


@dataclass(frozen=True, slots=True)
class Rest:
    """What bitmaps cannot say about a slot. `whole` is the filter, where its alternative is too wide."""

    claims: tuple[tuple[AttributeUid, TextClaim], ...]
    whole: Predicate | None

    def holds(self, event: Event) -> bool:
        """Say whether an event whose values fit passes the rest too."""
        if self.whole is not None:
            return admits(self.whole, event)
        return all(_holds(claim, event.get(uid)) for uid, claim in self.claims)


@dataclass(frozen=True, slots=True)
class Contents(Generic[Key]):
    """Some filters: the key of each slot, what it asks of each attribute, and the rest."""

    ids: Sequence[Key]
    spans: Mapping[AttributeUid, AttributeSpans]
    rest: Mapping[int, Rest]

    def moved(self, new_slots: Slots) -> Contents[Key]:
        """Return the same under new slot numbers, which count from 0; -1 means a slot to leave out."""
        kept = np.flatnonzero(new_slots != -1)
        ids = [self.ids[slot] for slot in kept[np.argsort(new_slots[kept])].tolist()]
        spans = {uid: one.moved(new_slots) for uid, one in self.spans.items()}
        rest = {new: rest for slot, rest in self.rest.items() if (new := int(new_slots[slot])) != -1}
        return Contents(ids, {uid: one for uid, one in spans.items() if not one.is_empty}, rest)

    def kept(self, is_live: npt.NDArray[np.bool_]) -> Contents[Key]:
        """Return the slots that are live, in their order."""
        if is_live.all():
            return self
        return self.moved(np.where(is_live, np.cumsum(is_live) - 1, -1))


class KnownAttributes:
    """The attributes that an index keeps arrays for: the first that its filters mention, up to a limit.

    A type has at most `ATTRIBUTES_MAX` of them in a version. Filters that name
    any number of others cost one question each, and no arrays.
    """

    __slots__ = ("_most", "_uids")

    def __init__(self, most: int = KNOWN_MAX) -> None:
        """Begin without attributes."""
        self._most = most
        self._uids: set[AttributeUid] = set()

    def learn(self, uid: AttributeUid) -> bool:
        """Say whether arrays are kept for an attribute."""
        if uid in self._uids:
            return True
        if len(self._uids) >= self._most:
            return False
        self._uids.add(uid)
        return True


def contents_of(
    filters: Iterable[tuple[Key, Predicate, Sequence[Alternative]]], known: KnownAttributes
) -> Contents[Key]:
    """Give every alternative of every filter a slot."""
    ids: list[Key] = []
    lists: dict[AttributeUid, SpanLists] = {}
    rest: dict[int, Rest] = {}
    for key, predicate, alternatives in filters:
        for alternative in alternatives:
            slot = len(ids)
            ids.append(key)
            asked = [(uid, values) for uid, values in alternative.values.items() if known.learn(uid)]
            for uid, values in asked:
                if uid not in lists:
                    lists[uid] = SpanLists()
                lists[uid].add(slot, values)
            is_whole = alternative.is_exact and len(asked) == len(alternative.values)
            if (left := _rest_of(asked, None if is_whole else predicate)) is not None:
                rest[slot] = left
    return Contents(ids, {uid: one.packed() for uid, one in lists.items()}, rest)


def joined_contents(parts: Sequence[Contents[Key]]) -> Contents[Key]:
    """Return the slots of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    by_uid: dict[AttributeUid, list[AttributeSpans]] = {}
    rest: dict[int, Rest] = {}
    start = 0
    for part in parts:
        numbers = np.arange(start, start + len(part.ids))
        for uid, spans in part.spans.items():
            by_uid.setdefault(uid, []).append(spans.moved(numbers))
        rest.update({start + slot: one for slot, one in part.rest.items()})
        start += len(part.ids)
    ids = list(chain.from_iterable(part.ids for part in parts))
    return Contents(ids, {uid: joined_spans(spans) for uid, spans in by_uid.items()}, rest)


def _rest_of(asked: Sequence[tuple[AttributeUid, ValueSet]], whole: Predicate | None) -> Rest | None:
    if whole is not None:
        return Rest((), whole)
    claims = [(uid, claim) for uid, values in asked for claim in values.claims]
    return Rest(tuple(claims), None) if claims else None


def _holds(claim: TextClaim, value: object) -> bool:
    # A claim is about strings; whether another kind or nothing at all will do was decided by rank.
    return not isinstance(value, str) or claim_holds(claim, value)
