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

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from maia.canonical import write_canonical
from maia.predicates import ALWAYS, Predicate, covers, predicate_to_expression
from maia.routing.aggregation.aggregate import aggregate, size_of_filter


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


@dataclass(slots=True)
class _Merged:
    """A filter that is announced for several others."""

    announcement: Announcement
    right: Hashable
    members: dict[bytes, None]


class Announcements:
    """The filters of one type that this router's subscribers want, and those that it announces for them."""

    __slots__ = ("_gone", "_merged", "_part_of", "_rights", "_wanted", "is_settled", "merged_bytes")

    def __init__(self) -> None:
        """Begin with no filter."""
        self._wanted: dict[bytes, Predicate] = {}
        self._rights: dict[bytes, Hashable] = {}
        """The rights of those filters whose right is not about everything."""
        self._merged: dict[bytes, _Merged] = {}
        self._part_of: dict[bytes, bytes] = {}
        """For each filter that is merged with others, the id of what is announced for it."""
        self.merged_bytes = 0
        self._gone = 0
        """How many members merged filters have lost since everything was merged anew."""
        self.is_settled = True
        """Nothing has come or gone since `settle`."""

    def __len__(self) -> int:
        """Return how many filters are announced."""
        return len(self._wanted) - len(self._part_of) + len(self._merged)

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
        alone = sum(size_of_filter(one) for key, one in self._wanted.items() if key not in self._part_of)
        return alone + self.merged_bytes + part_bytes * len(self)

    def announced_for(self, key: bytes) -> bytes | None:
        """Return the id of what is announced with the proof of this filter; None if it has another proof."""
        part = self._part_of.get(key)
        if part is None:
            return key if key in self._wanted else None
        return part if self._merged[part].announcement.behind == key else None

    def join(self, key: bytes, filter_: Predicate, right: Hashable) -> Changes:
        """A filter is wanted under a new key."""
        if key in self._wanted:
            self.leave((key,))
        self._wanted[key] = filter_
        if right != ALWAYS:
            self._rights[key] = right
        self.is_settled = False
        for part in self._merged.values():
            if part.right == right and covers(wide=part.announcement.filter, narrow=filter_):
                part.members[key] = None
                self._part_of[key] = part.announcement.id
                return Changes()
        return Changes(add=(Announcement(key, filter_, key),))

    def leave(self, keys: Iterable[bytes]) -> Changes:
        """Filters are wanted no more; those that never were are ignored."""
        removed: list[bytes] = []
        touched: dict[bytes, None] = {}
        for key in keys:
            if self._wanted.pop(key, None) is None:
                continue
            self._rights.pop(key, None)
            self.is_settled = False
            part_id = self._part_of.pop(key, None)
            if part_id is None:
                removed.append(key)
            else:
                del self._merged[part_id].members[key]
                self._gone += 1
                touched[part_id] = None
        again: list[Announcement] = []
        for part_id in touched:
            part = self._merged[part_id]
            if not part.members:
                del self._merged[part_id]
                self.merged_bytes -= size_of_filter(part.announcement.filter)
                removed.append(part_id)
            elif part.announcement.behind not in part.members:
                part.announcement = replace(part.announcement, behind=next(iter(part.members)))
                again.append(part.announcement)
        return Changes(remove=tuple(removed), again=tuple(again))

    def settle(
        self,
        budget_bytes: int,
        part_bytes: int,
        limit: Callable[[Predicate, Hashable], Predicate],
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
            self._merged, self._part_of, self.merged_bytes, self._gone = {}, {}, 0, 0
        items = [_Merged(Announcement(key, one, key), self._rights.get(key, ALWAYS), {key: None})
                 for key, one in self._wanted.items() if key not in self._part_of]  # fmt: skip
        items += self._merged.values()
        found = aggregate(
            [one.announcement.filter for one in items],
            budget_bytes,
            rights=[one.right for one in items],
            part_bytes=part_bytes,
        )
        for part in () if found.is_exact else found.parts:
            if len(part.members) > 1 or part.filter != items[part.members[0]].announcement.filter:
                self._merge(part.filter, part.right, [items[at] for at in part.members], limit)
        after = self._ids()
        alone = [key for key in self._wanted if key not in self._part_of and key not in before]
        add = [one.announcement for one in self._merged.values() if one.announcement.id not in before]
        add += [Announcement(key, self._wanted[key], key) for key in alone]
        return Changes(tuple(add), tuple(one for one in before if one not in after))

    def _merge(
        self,
        filter_: Predicate,
        right: Hashable,
        items: list[_Merged],
        limit: Callable[[Predicate, Hashable], Predicate],
    ) -> None:
        """Announce one filter in place of some."""
        for item in items:
            if self._merged.pop(item.announcement.id, None) is not None:
                self.merged_bytes -= size_of_filter(item.announcement.filter)
        same = next((one for one in items if one.announcement.filter == filter_), None)
        members = {key: None for one in ([same] if same else []) + items for key in one.members}
        if same is not None:
            announcement = same.announcement
        else:
            filter_, behind = limit(filter_, right), next(iter(members))
            announcement = Announcement(_id_of(filter_, behind), filter_, behind)
        self._merged[announcement.id] = _Merged(announcement, right, members)
        self._part_of.update(dict.fromkeys(members, announcement.id))
        self.merged_bytes += size_of_filter(announcement.filter)

    def _ids(self) -> dict[bytes, None]:
        alone = dict.fromkeys(key for key in self._wanted if key not in self._part_of)
        return alone | dict.fromkeys(self._merged)


def _id_of(filter_: Predicate, behind: bytes) -> bytes:
    """Return an id that is the same for the same filter with the same proof, over a restart too."""
    written = write_canonical(predicate_to_expression(filter_))
    return sha256(b"maia/1/merged\x00" + behind + written).digest()[:16]
