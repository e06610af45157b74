"""What does a router announce of its own subscribers' filters of one type, and what does each change?

The broker hands in every filter that comes and goes, and after each period a
budget. In between, nothing is merged: a new filter is announced as it is unless a
merged one covers it, and a merged one stays until its last member has gone. So what
is announced is never narrower than what is wanted, and a period of many changes
costs one search for what to merge.

An announcement never changes its filter: another filter has another id. A
receiver that adds before it removes misses nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeAlias

from maia.canonical import write_canonical
from maia.predicates import Predicate, covers, predicate_to_expression
from maia.routing.aggregation.aggregate import Part, aggregate, size_of_filter


@dataclass(frozen=True, slots=True)
class Announcement:
    """One filter that is announced, and the subscriber's filter whose proof goes with it."""

    id: bytes
    filter: Predicate = field(repr=False)
    behind: bytes
    """The key of a member: of a filter that is announced as it is, its id."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What to announce and what to take back; what is to be announced again has another proof than before."""

    add: tuple[Announcement, ...] = ()
    remove: tuple[bytes, ...] = ()
    again: tuple[Announcement, ...] = ()


@dataclass(slots=True, eq=False)
class _Merged:
    """A filter that is announced for several others."""

    announcement: Announcement
    right: Hashable
    members: int = 0
    """How many filters it is announced for."""

    @property
    def id(self) -> bytes:
        """Return under which id it is announced."""
        return self.announcement.id


WantedOf: TypeAlias = Callable[[bytes], tuple[Predicate, Hashable]]
"""Returns the filter that is wanted under a key, and its right."""


class Announcements:
    """The filters of one type that this router's subscribers want, and those that it announces for them.

    A filter is not kept here: the subscriber that wants it has it, and is asked for it.
    """

    def __init__(self) -> None:
        """Begin with no filter."""
        self._wanted: dict[bytes, tuple[_Merged, ...]] = {}
        """For each key what is announced for its filter; nothing if it is announced as it is."""
        self._merged: dict[bytes, _Merged] = {}
        self._together = 0
        """How many filters are merged with others."""
        self._gone = 0
        """How many members merged filters have lost since everything was merged anew."""
        self.is_settled = True
        """Nothing has come or gone since `settle`."""

    def __len__(self) -> int:
        """Return how many filters are announced."""
        return len(self._wanted) - self._together + len(self._merged)

    def __contains__(self, key: bytes) -> bool:
        """Return whether a filter is wanted under this key."""
        return key in self._wanted

    @property
    def wanted(self) -> int:
        """Return how many filters subscribers want."""
        return len(self._wanted)

    @property
    def is_exact(self) -> bool:
        """Return whether each filter is announced as it is."""
        return not self._merged

    def announced_for(self, key: bytes) -> list[bytes]:
        """Return the ids of what is announced with the proof of this filter; none if it has another proof."""
        if merged := self._wanted.get(key):
            return [one.id for one in merged if one.announcement.behind == key]
        return [key] if key in self._wanted else []

    def join(self, key: bytes, filter_: Predicate, right: Hashable) -> Changes:
        """A filter is wanted under a key; one that was wanted under it before is wanted no more."""
        before = self.leave((key,))
        self.is_settled = False
        for part in self._merged.values():
            if part.right == right and covers(wide=part.announcement.filter, narrow=filter_):
                part.members += 1
                self._wanted[key] = (part,)
                self._together += 1
                return before
        self._wanted[key] = ()
        gone = tuple(one for one in before.remove if one != key)
        return Changes((Announcement(key, filter_, key),), gone, before.again)

    def leave(self, keys: Iterable[bytes]) -> Changes:
        """Filters are wanted no more; those that never were are ignored."""
        removed: list[bytes] = []
        touched: dict[_Merged, None] = {}
        for key in keys:
            found = self._wanted.pop(key, None)
            if found is None:
                continue
            self.is_settled = False
            if not found:
                removed.append(key)
                continue
            self._together -= 1
            self._gone += 1
            for part in found:
                part.members -= 1
                touched[part] = None
        without_proof: set[_Merged] = set()
        for part in touched:
            if not part.members:
                del self._merged[part.id]
                removed.append(part.id)
            elif part.announcement.behind not in self._wanted:
                without_proof.add(part)
        return Changes(remove=tuple(removed), again=tuple(self._proved_otherwise(without_proof)))

    def _proved_otherwise(self, parts: set[_Merged]) -> Iterator[Announcement]:
        """Let another member prove what is announced, for each of these."""
        for key, found in self._wanted.items():
            if not parts:
                return
            for part in found:
                if part in parts:
                    parts.discard(part)
                    part.announcement = replace(part.announcement, behind=key)
                    yield part.announcement

    def settle(
        self,
        budget_bytes: int,
        part_bytes: int,
        limit: Callable[[Predicate, Hashable], Predicate],
        wanted_of: WantedOf,
        *,
        anew: bool = False,
    ) -> Changes:
        """Merge until what is announced is within a budget, or merge everything anew.

        `limit` returns the part of a merged filter that its right entitles to, or the filter itself.
        What was merged stays merged unless it is merged anew: a filter that goes on being announced
        costs nothing. Once most of the members have gone, it is time for that.
        """
        self.is_settled = True
        anew = anew or self._gone > len(self._wanted)
        before = self._ids()
        items = [
            _Merged(Announcement(key, one, key), right)
            for key, found in self._wanted.items()
            if anew or not found
            for one, right in (wanted_of(key),)
        ]
        if anew:
            self._merged, self._gone = {}, 0
            self._wanted = dict.fromkeys(self._wanted, ())
        items += self._merged.values()
        filters = [one.announcement.filter for one in items]
        if not anew and sum(map(size_of_filter, filters)) + part_bytes * len(items) <= budget_bytes:
            return Changes()
        rights = [one.right for one in items]
        found = aggregate(filters, budget_bytes, rights=rights, part_bytes=part_bytes)
        self._merge(() if found.is_exact else found.parts, items, limit)
        after = self._ids()
        announced = {one.id: one.announcement for one in (*self._merged.values(), *items)}
        return Changes(
            tuple(one for id_, one in announced.items() if id_ in after and id_ not in before),
            tuple(id_ for id_ in before if id_ not in after),
        )

    def _merge(
        self,
        parts: Iterable[Part],
        items: Sequence[_Merged],
        limit: Callable[[Predicate, Hashable], Predicate],
    ) -> None:
        """Announce one filter in place of some. A filter with alternatives may go into several."""
        became: dict[bytes, dict[_Merged, None]] = {}
        """What takes the place of each item, perhaps under the same id."""
        made: dict[bytes, _Merged] = {}
        for part in parts:
            some = [items[at] for at in part.members]
            same = next((one for one in some if one.announcement.filter == part.filter), None)
            if same is not None and len(some) == 1:
                continue
            announcement = _limited(part, some[0], limit) if same is None else same.announcement
            one = made.setdefault(announcement.id, _Merged(announcement, part.right))
            for item in some:
                became.setdefault(item.id, {})[one] = None
        for id_, one in made.items():
            became.setdefault(id_, {one: None})
        self._merged = {id_: one for id_, one in self._merged.items() if id_ not in became} | made
        for one in self._merged.values():
            one.members = 0
        for key, found in self._wanted.items():
            new = {one: None for old in found for one in became.get(old.id, {old: None})}
            self._wanted[key] = tuple(new if found else became.get(key, ()))
            for one in self._wanted[key]:
                one.members += 1
        self._together = sum(map(bool, self._wanted.values()))

    def _ids(self) -> dict[bytes, None]:
        return dict.fromkeys(key for key, found in self._wanted.items() if not found) | dict.fromkeys(
            self._merged
        )


def _limited(part: Part, first: _Merged, limit: Callable[[Predicate, Hashable], Predicate]) -> Announcement:
    """Announce what a right entitles to of a merged filter, with the proof of its first member."""
    filter_, behind = limit(part.filter, part.right), first.announcement.behind
    # The id is the same for the same filter with the same proof, over a restart too.
    written = write_canonical(predicate_to_expression(filter_))
    return Announcement(sha256(b"maia/1/merged\x00" + behind + written).digest()[:16], filter_, behind)
