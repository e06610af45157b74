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
    alone: tuple[_Merged, ...] = ()
    """This one, as all filters keep it that have no other."""

    def __post_init__(self) -> None:
        self.alone = (self,)


WantedOf: TypeAlias = Callable[[bytes], tuple[Predicate, Hashable]]
"""Returns the filter that is wanted under a key, and its right."""


class Announcements:
    """The filters of one type that this router's subscribers want, and those that it announces for them.

    A filter that is merged with others is not kept: whoever wants it has it, and is asked for it.
    """

    __slots__ = ("_gone", "_merged", "_together", "_wanted", "is_settled", "merged_bytes")

    def __init__(self) -> None:
        """Begin with no filter."""
        self._wanted: dict[bytes, Predicate | tuple[_Merged, ...]] = {}
        """For each key the filter that is announced as it is, or those that are announced for it."""
        self._merged: dict[bytes, _Merged] = {}
        self._together = 0
        """How many filters are merged with others."""
        self.merged_bytes = 0
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

    def size(self, part_bytes: int) -> int:
        """Return how many bytes are announced, if each filter has `part_bytes` beside its own."""
        alone = sum(size_of_filter(one) for one in self._wanted.values() if not isinstance(one, tuple))
        return alone + self.merged_bytes + part_bytes * len(self)

    def announced_for(self, key: bytes) -> list[bytes]:
        """Return the ids of what is announced with the proof of this filter; none if it has another proof."""
        found = self._wanted.get(key)
        if isinstance(found, tuple):
            return [one.announcement.id for one in found if one.announcement.behind == key]
        return [] if found is None else [key]

    def join(self, key: bytes, filter_: Predicate, right: Hashable) -> Changes:
        """A filter is wanted under a key; one that was wanted under it before is wanted no more."""
        before = self.leave((key,))
        self.is_settled = False
        for part in self._merged.values():
            if part.right == right and covers(wide=part.announcement.filter, narrow=filter_):
                part.members += 1
                self._wanted[key] = part.alone
                self._together += 1
                return before
        self._wanted[key] = filter_
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
            if not isinstance(found, tuple):
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
                del self._merged[part.announcement.id]
                self.merged_bytes -= size_of_filter(part.announcement.filter)
                removed.append(part.announcement.id)
            elif part.announcement.behind not in self._wanted:
                without_proof.add(part)
        return Changes(remove=tuple(removed), again=tuple(self._proved_otherwise(without_proof)))

    def _proved_otherwise(self, parts: set[_Merged]) -> Iterator[Announcement]:
        """Let another member prove what is announced, for each of these."""
        for key, found in self._wanted.items():
            if not parts:
                return
            for part in found if isinstance(found, tuple) else ():
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
        if not anew and self.size(part_bytes) <= budget_bytes:
            return Changes()
        before = self._ids()
        if anew:
            self._merged, self.merged_bytes, self._gone = {}, 0, 0
            for key in self._wanted:
                self._wanted[key], _ = wanted_of(key)
        items = [
            _Merged(Announcement(key, one, key), wanted_of(key)[1])
            for key, one in self._wanted.items()
            if not isinstance(one, tuple)
        ]
        items += self._merged.values()
        found = aggregate(
            [one.announcement.filter for one in items],
            budget_bytes,
            rights=[one.right for one in items],
            part_bytes=part_bytes,
        )
        self._merge(() if found.is_exact else found.parts, items, limit)
        after = self._ids()
        add = [one.announcement for one in self._merged.values() if one.announcement.id not in before]
        add += [
            Announcement(key, one, key)
            for key, one in self._wanted.items()
            if not isinstance(one, tuple) and key not in before
        ]
        return Changes(tuple(add), tuple(one for one in before if one not in after))

    def _merge(
        self,
        parts: Iterable[Part],
        items: Sequence[_Merged],
        limit: Callable[[Predicate, Hashable], Predicate],
    ) -> None:
        """Announce one filter in place of some. A filter with alternatives may go into several."""
        # What came before is not to be mistaken for what takes its place, perhaps under the same id.
        became: dict[_Merged, dict[_Merged, None]] = {}
        made: dict[bytes, _Merged] = {}
        for part in parts:
            some = [items[at] for at in part.members]
            same = next((one for one in some if one.announcement.filter == part.filter), None)
            if same is not None and len(some) == 1:
                continue
            filter_ = part.filter if same is not None else limit(part.filter, part.right)
            behind = (same or some[0]).announcement.behind
            announcement = Announcement(_id_of(filter_, behind), filter_, behind)
            if same is not None:
                announcement = same.announcement
            one = made.setdefault(announcement.id, _Merged(announcement, part.right))
            for item in some:
                became.setdefault(item, {})[one] = None
        for one in self._merged.values():
            if one not in became and one.announcement.id in made:
                became[one] = {made[one.announcement.id]: None}
        kept = [one for one in self._merged.values() if one not in became]
        self._merged = {one.announcement.id: one for one in kept} | made
        self.merged_bytes = sum(size_of_filter(one.announcement.filter) for one in self._merged.values())
        alone = {one.announcement.behind: new for one, new in became.items() if not one.members}
        self._together = 0
        for part_of in self._merged.values():
            part_of.members = 0
        for key, found in self._wanted.items():
            new = alone.get(key, {})
            if isinstance(found, tuple):
                new = {one: None for old in found for one in became.get(old, {old: None})}
            if new:
                self._wanted[key] = next(iter(new)).alone if len(new) == 1 else tuple(new)
                self._together += 1
            for one in new:
                one.members += 1

    def _ids(self) -> dict[bytes, None]:
        alone = (key for key, one in self._wanted.items() if not isinstance(one, tuple))
        return dict.fromkeys(alone) | dict.fromkeys(self._merged)


def _id_of(filter_: Predicate, behind: bytes) -> bytes:
    """Return an id that is the same for the same filter with the same proof, over a restart too."""
    written = write_canonical(predicate_to_expression(filter_))
    return sha256(b"maia/1/merged\x00" + behind + written).digest()[:16]
