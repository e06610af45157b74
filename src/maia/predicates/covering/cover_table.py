"""The subscriptions at a broker: which of them cover all the others?

Routing asks. A broker forwards the *maximal* filters, those that no other
filter of the table covers, and has to know at every change what becomes
maximal and what ceases to be. Every filter that is not maximal is covered by
its keeper, the keeper by its own, and so on up to a maximal filter, so no
event is lost by forwarding the maximal ones alone. The answers are those of
comparing every pair; the work is a few column scans
(docs/decisions/covering.md).

Of filters that cover each other the one inserted first counts as the wider,
so a newcomer never displaces its equal.
"""
# ruff: noqa: A002 - `filter` is the word of the papers and of every caller; the builtin is not used here

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from maia.errors import BadInput, Unavailable
from maia.predicates.covering.box_index import BoxIndex, PlacedBox
from maia.predicates.covering.sides import Box, RecentBoxes, proved_to_cover
from maia.predicates.syntax import Predicate

Id = TypeVar("Id", bound=Hashable)
"""What the caller knows a filter by."""

FILTERS_MAX: Final = 1_000_000

_MOVED_ONE_BY_ONE: Final = 16
"""More filters than this change their places together."""

_FOUND_ONE_BY_ONE: Final = 8
"""An orphan asks who covers it. A filter that was the answer this often is asked what else it covers."""


@dataclass(frozen=True, slots=True)
class Inserted(Generic[Id]):
    """What an insertion changed."""

    covered_by: Id | None
    """A maximal filter that covers the new one; None if the new one is maximal."""
    now_covers: tuple[Id, ...]
    """The filters that were maximal and are not any more, in the order of their insertion."""


@dataclass(frozen=True, slots=True)
class Removed(Generic[Id]):
    """What a removal changed."""

    now_maximal: tuple[Id, ...]
    """The filters that only the removed one covered, in the order of their insertion."""
    now_covered: tuple[Id, ...] = ()
    """Filters that ceased to be maximal: one that was freed covers them, which no proof had found before."""


class CoverEntry(PlacedBox, Generic[Id], eq=False, gc=False, kw_only=True):
    """A filter in the table; callers that know more of each filter have a class below this one."""

    id: Id
    filter: Predicate
    """The filter, as it is compared with others."""
    number: int = 0
    """Its place in the order of insertion."""
    is_empty: bool = False
    keeper: int | None = None
    keeps: set[int] | None = None
    """None for no filter: most filters keep none, and an empty set is larger than the rest of the entry."""


class CoverTable(Generic[Id]):
    """Filters by id, and who covers whom.

    An id that is a number and larger than all before it is its own place in the order of insertion.
    """

    # INVARIANT: an entry is in exactly one of `_maximal`, `_covered` and `_empty`.
    # INVARIANT: keepers form a forest whose roots are those in `_maximal`; a keeper covers what it keeps.
    # INVARIANT: no entry of `_maximal` is proved to cover another one.

    def __init__(self, *, filters_max: int = FILTERS_MAX) -> None:
        self._filters_max = filters_max
        self._next_number = 0
        self._number_of: dict[Id, int] = {}
        """Of those ids that are not their own numbers."""
        self._entries: dict[int, CoverEntry[Id]] = {}
        self._maximal = BoxIndex(self._entries)
        self._covered = BoxIndex(self._entries)
        self._boxes = RecentBoxes()
        # Filters that are proved to admit nothing: every filter covers them, and they cover one another.
        self._empty: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: Id) -> bool:
        return self._find(id) is not None

    def insert(self, id: Id, filter: Predicate) -> Inserted[Id]:
        """Add a filter under a new id, and tell what it covers and what covers it."""
        return self.insert_entry(CoverEntry(id=id, filter=filter))

    def insert_entry(self, entry: CoverEntry[Id]) -> Inserted[Id]:
        """Add a filter, which is found again as this very entry."""
        box = self._boxes.of(entry.filter)
        if entry.id in self:
            raise BadInput(
                "INPUT-FILTER-ID-TAKEN", f"there is a filter `{_shown(entry.id)}` in the table already"
            )
        if len(self._entries) >= self._filters_max:
            raise Unavailable(
                "UNAVAILABLE-COVER-TABLE-FULL", f"the table holds its {self._filters_max} filters"
            )
        entry.is_empty = box.is_empty
        emptiest = self._maximal_empty()
        if isinstance(entry.id, int) and entry.id >= self._next_number:
            entry.number = entry.id
        else:
            entry.number = self._number_of[entry.id] = self._next_number
        self._next_number = entry.number + 1
        self._entries[entry.number] = entry
        displaced = self._place(entry, box)
        if emptiest is not None and not entry.is_empty:
            displaced.append(emptiest)
        return Inserted(self.covered_by(entry.id), self._ids(displaced))

    def remove(self, id: Id) -> Removed[Id]:
        """Take a filter out, and tell which ones it alone covered."""
        return self.remove_all((id,))

    def remove_all(self, ids: Iterable[Id]) -> Removed[Id]:
        """Take filters out at one moment, and tell which ones they alone covered.

        What they kept is placed again once, however many of them had kept it one after the other.
        """
        gone = {entry.number: entry for entry in map(self.entry, ids)}
        emptiest = self._maximal_empty()
        freed, displaced = self._release(gone)
        if self._maximal_empty() not in (None, emptiest):
            freed.extend(self._empty_first())
        return Removed(self._ids(freed), self._ids(displaced))

    def entry(self, id: Id) -> CoverEntry[Id]:
        """Return the entry of the filter with this id."""
        found = self._find(id)
        if found is None:
            raise BadInput("INPUT-UNKNOWN-FILTER-ID", f"there is no filter `{_shown(id)}` in the table")
        return found

    def entries(self) -> Iterable[CoverEntry[Id]]:
        """Return all entries, in the order of their insertion."""
        return self._entries.values()

    def filter_of(self, id: Id) -> Predicate:
        """Return the filter with this id."""
        return self.entry(id).filter

    def is_empty(self, id: Id) -> bool:
        """Return whether the filter with this id is proved to admit nothing."""
        return self.entry(id).is_empty

    def is_maximal(self, id: Id) -> bool:
        """Return whether no other filter covers this one."""
        entry = self.entry(id)
        return entry.number == self._maximal_empty() if entry.is_empty else entry.keeper is None

    def maximal(self) -> tuple[Id, ...]:
        """Return the ids of the maximal filters, in the order of their insertion."""
        return self._ids(self._maximal) or self._ids(self._empty_first())

    def covered_by(self, id: Id) -> Id | None:
        """Return a maximal filter that covers this one; None if it is maximal itself."""
        entry = self.entry(id)
        if entry.is_empty:
            stands_for_all = next(iter(self._maximal), next(iter(self._empty)))
            return None if stands_for_all == entry.number else self._entries[stands_for_all].id
        number, keeper = entry.number, entry.keeper
        while keeper is not None:
            number, keeper = keeper, self._entries[keeper].keeper
        return None if number == entry.number else self._entries[number].id

    def coverers_of(self, id: Id) -> tuple[Id, ...]:
        """Return all other filters that cover this one, maximal or not, in the order of their insertion."""
        entry = self.entry(id)
        if entry.is_empty:
            return self._ids(self._entries.keys() - {entry.number})
        box = self._boxes.of(entry.filter)
        found = {*self._covering(self._maximal, box), *self._covering(self._covered, box)}
        return self._ids(found - {entry.number})

    def box_of(self, id: Id) -> Box:
        """Return the filter with this id and its bounds, to ask another table about it."""
        return self._boxes.of(self.entry(id).filter)

    @property
    def boxes(self) -> RecentBoxes:
        """Return the bounds that were last worked out here, of filters that may have left since."""
        return self._boxes

    def maximal_covering(self, box: Box) -> tuple[Id, ...]:
        """Return the maximal filters here that cover a filter of another table, neither of them empty."""
        return self._ids(self._covering(self._maximal, box))

    def maximal_covered_by(self, box: Box) -> tuple[Id, ...]:
        """Return the maximal filters here that a filter of another table covers, neither of them empty."""
        return self._ids(self._covered_in(self._maximal, box))

    def covered_under(self, id: Id) -> tuple[Id, ...]:
        """Return all other filters that this one covers, in the order of their insertion."""
        entry = self.entry(id)
        found = set(self._empty)
        if not entry.is_empty:
            box = self._boxes.of(entry.filter)
            found.update(self._covered_in(self._maximal, box), self._covered_in(self._covered, box))
        return self._ids(found - {entry.number})

    def _place(self, entry: CoverEntry[Id], box: Box) -> list[int]:
        """Find a keeper for an entry, or make it maximal; return the entries that it displaced."""
        if entry.is_empty:
            self._empty[entry.number] = None
            return []
        keeper = self._keeper_for(box)
        if keeper is not None:
            self._covered.add(entry.number, box)
            _keep(entry, by=keeper)
            return []
        return self._place_maximal(entry, box)

    def _place_maximal(self, entry: CoverEntry[Id], box: Box) -> list[int]:
        """Let an uncovered entry keep what it covers; return the entries that it displaced."""
        displaced = list(self._covered_in(self._maximal, box))
        self._demote(displaced, under=entry)
        self._maximal.add(entry.number, box)
        return displaced

    def _keeper_for(self, box: Box) -> CoverEntry[Id] | None:
        """Return the earliest maximal entry that covers this one.

        It is never a later equal of this one: while both were kept they had
        the same coverers, and orphans are placed in the order of insertion.
        """
        number = next(self._covering(self._maximal, box), None)
        return None if number is None else self._entries[number]

    def _demote(self, numbers: Sequence[int], *, under: CoverEntry[Id]) -> None:
        if len(numbers) > _MOVED_ONE_BY_ONE:
            self._maximal.move_all(numbers, to=self._covered)
        else:
            for number in numbers:
                bounds = _bounds_in(self._maximal, self._entries[number])
                self._maximal.discard(number)
                self._covered.add(number, bounds)
        for number in numbers:
            _keep(self._entries[number], by=under)

    def _release(self, gone: Mapping[int, CoverEntry[Id]]) -> tuple[list[int], list[int]]:
        """Take entries out of their index and find new keepers; return who became maximal, and who ceased."""
        for entry in gone.values():
            if entry.is_empty:
                del self._empty[entry.number]
            else:
                (self._maximal if entry.keeper is None else self._covered).discard(entry.number)
        for number, entry in gone.items():
            del self._entries[number]
            self._number_of.pop(entry.id, None)
        orphans: list[CoverEntry[Id]] = []
        for entry in gone.values():
            keeper = self._keeper_left(entry, gone)
            if keeper is not None:
                _let_go(entry, by=keeper)
            kept = [self._entries[number] for number in sorted(entry.keeps or ()) if number not in gone]
            if keeper is None:
                orphans += kept
                continue
            for one in kept:  # covered by what is gone, which its keeper covers
                _keep(one, by=keeper)
        return self._place_again(sorted(orphans, key=lambda orphan: orphan.number))

    def _keeper_left(
        self, entry: CoverEntry[Id], gone: Mapping[int, CoverEntry[Id]]
    ) -> CoverEntry[Id] | None:
        """Return the nearest keeper above an entry that stays; None if all of them go."""
        passed = [entry]
        while (above := passed[-1].keeper) is not None and above in gone:
            passed.append(gone[above])
        for one in passed:  # so that no way up is walked twice
            one.keeper = above
        return None if above is None else self._entries[above]

    def _place_again(self, orphans: list[CoverEntry[Id]]) -> tuple[list[int], list[int]]:
        waiting = {orphan.number: orphan for orphan in orphans}
        for orphan in orphans:
            orphan.keeper = None
        # Where proofs run out of steps, covering is not transitive, and an orphan can displace a stranger.
        displaced: list[int] = []
        if len(orphans) > _MOVED_ONE_BY_ONE:
            freed_at_once = self._covered.unrelated(waiting, self._maximal)
            self._covered.move_all(freed_at_once, to=self._maximal)
            for number in freed_at_once:
                del waiting[number]
        found_by: Counter[int] = Counter()
        while waiting:
            orphan = waiting.pop(next(iter(waiting)))
            displaced += self._place_orphan(orphan)
            if orphan.keeper is not None:
                found_by[orphan.keeper] += 1
                if found_by[orphan.keeper] == _FOUND_ONE_BY_ONE:
                    self._adopt(self._entries[orphan.keeper], waiting)
        freed = [orphan.number for orphan in orphans if orphan.keeper is None]
        return freed, sorted(set(displaced) - {orphan.number for orphan in orphans})

    def _adopt(self, keeper: CoverEntry[Id], waiting: dict[int, CoverEntry[Id]]) -> None:
        """Let a maximal entry, which covers many orphans, keep all that it covers of those that wait."""
        for number in self._covered_in(self._covered, _bounds_in(self._maximal, keeper), among=waiting):
            _keep(waiting.pop(number), by=keeper)

    def _place_orphan(self, orphan: CoverEntry[Id]) -> list[int]:
        bounds = _bounds_in(self._covered, orphan)
        keeper = self._keeper_for(bounds)
        if keeper is not None:
            _keep(orphan, by=keeper)
            return []
        self._covered.discard(orphan.number)
        return self._place_maximal(orphan, bounds)

    def _covering(self, index: BoxIndex, box: Box) -> Iterator[int]:
        for number, proved in index.could_cover(box):
            if proved or self._is_proved(wide=self._entries[number].filter, narrow=box.filter):
                yield number

    def _covered_in(self, index: BoxIndex, box: Box, among: Container[int] | None = None) -> Iterator[int]:
        for number, proved in index.could_be_covered_by(box):
            if among is not None and number not in among:
                continue
            if proved or self._is_proved(wide=box.filter, narrow=self._entries[number].filter):
                yield number

    def _is_proved(self, *, wide: Predicate, narrow: Predicate) -> bool:
        return proved_to_cover(wide=self._boxes.of(wide), narrow=self._boxes.of(narrow))

    def _maximal_empty(self) -> int | None:
        """Return the empty filter that is maximal, which takes a table of empty filters."""
        return None if self._maximal else next(iter(self._empty), None)

    def _empty_first(self) -> list[int]:
        return list(self._empty)[:1]

    def _find(self, id: Id) -> CoverEntry[Id] | None:
        number = self._number_of.get(id)
        if number is None and isinstance(id, int):
            number = id
        found = None if number is None else self._entries.get(number)
        return found if found is not None and found.id == id else None

    def _ids(self, numbers: Iterable[int]) -> tuple[Id, ...]:
        return tuple(self._entries[number].id for number in sorted(numbers))


def _bounds_in(index: BoxIndex, entry: CoverEntry[Id]) -> Box:
    """Return a filter with the bounds that an index has of it: enough to ask one, or to move elsewhere."""
    edges, exact = index.edges_of(entry.number)
    return Box(entry.filter, False, edges, exact, None, {})


def _keep(entry: CoverEntry[Id], *, by: CoverEntry[Id]) -> None:
    entry.keeper = by.number
    if by.keeps is None:
        by.keeps = set()
    by.keeps.add(entry.number)


def _let_go(entry: CoverEntry[Id], *, by: CoverEntry[Id]) -> None:
    if by.keeps is not None:
        by.keeps.discard(entry.number)
        by.keeps = by.keeps or None


def _shown(id: Hashable) -> str:
    return str(id)[:64].encode("unicode_escape").decode()
