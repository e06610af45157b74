"""Which filters of all hops cover which, so that each neighbour receives no more than it needs?

The routes of a type ask. Entries of a hop with the same filter form a group,
and the group's first entry is its front, which represents it. Groups that no
other group of the hop covers are shown: everything else sees only those.
Finding the group of an entry costs one hash; only a filter that is new to the
hop, or leaves it for good, costs a question to the cover table.

A neighbour receives the shown groups of all other hops that none of these
others covers. One count per group and hop answers it for every neighbour at
once: a neighbour receives a group if no hop but itself covers it. A change is
compared with the shown groups of the other hops. It costs two questions per hop
that wants anything of the type, and one step per group that covers or is
covered, however many neighbours receive it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from maia.canonical import write_canonical
from maia.events import AttributeUid
from maia.predicates import AllOf, Exists, Predicate, attributes_of, counterexample, predicate_to_expression
from maia.predicates.covering.cover_table import CoverEntry, CoverTable
from maia.predicates.covering.sides import Box, RecentBoxes, bounds_rule_out, proved_to_cover
from maia.routing.table.hops import Hop, RouteEntry

_MODULUS: Final = 1 << 256

# ------------------------------------------------------------ what both ends of a link compare


@dataclass(slots=True)
class Tally:
    """How many entries there are, and the sum of their marks."""

    count: int = 0
    total: int = 0

    def add(self, mark: int) -> None:
        """Count one entry more."""
        self.count += 1
        self.total = (self.total + mark) % _MODULUS

    def subtract(self, mark: int) -> None:
        """Count one entry less."""
        self.count -= 1
        self.total = (self.total - mark) % _MODULUS

    def clear(self) -> None:
        """Count nothing."""
        self.count = self.total = 0

    @property
    def digest(self) -> bytes:
        """Return the sum as 32 bytes."""
        return self.total.to_bytes(32, "big")

    def agrees(self, *, entries: int, digest: bytes) -> bool:
        """Return whether a neighbour's count and digest are these."""
        return self.count == entries and self.digest == digest


def digest_of_filter(predicate: Predicate) -> bytes:
    """Return the hash of a filter's canonical form: equal for equal filters, kinds included."""
    return hashlib.sha256(write_canonical(predicate_to_expression(predicate))).digest()


def mark_of_interest(type_id: bytes, entry_id: bytes, filter_digest: bytes) -> int:
    """Return what an entry adds to a tally."""
    return _mark(b"interest", type_id, entry_id, filter_digest)


def mark_of_offer(type_id: bytes) -> int:
    """Return what a standing offer adds to a tally."""
    return _mark(b"offer", type_id)


def _mark(*parts: bytes) -> int:
    # Each part is preceded by its length, so that no two lists of parts run into the same bytes.
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return int.from_bytes(hashlib.sha256(b"maia/1/routing-mark\x00" + framed).digest(), "big")


# ------------------------------------------------------------ what an entry is compared by


_MARK: Final = "~"
"""The prefix of the attribute of a mark; no filter that is sent can name it."""


def compared_by(entry: RouteEntry) -> Predicate:
    """Return the filter that covers exactly what an entry is known to cover."""
    if not entry.marks:
        return entry.predicate
    marks = [Exists(AttributeUid(_MARK + mark.hex())) for mark in sorted(entry.marks)]
    return AllOf((entry.predicate, *marks))


def known_attributes(compared: Predicate) -> frozenset[AttributeUid]:
    """Return the real attributes of a filter, without marks."""
    return frozenset(uid for uid in attributes_of(compared) if not uid.startswith(_MARK))


def digest_of_meaning(entry: RouteEntry) -> bytes:
    """Return what entries have in common exactly if they are known to want the same."""
    known = digest_of_filter(entry.predicate)
    if entry.view:
        known = hashlib.sha256(b"maia/1/view-meaning\x00" + known + entry.view).digest()
    if not entry.digest:
        return known
    return hashlib.sha256(b"maia/1/sealed-meaning\x00" + known + b"".join(sorted(entry.marks))).digest()


_NOBODY: Final[Mapping[Hop, int]] = MappingProxyType({})


class Held(msgspec.Struct, eq=False, gc=False):
    """An entry as one hop sent it."""

    entry: RouteEntry
    filter_digest: bytes
    sent_as: bytes
    """The id under which we pass it on: its own, unless another hop was there first with the same one."""
    is_stale: bool = False
    """Not sent since the neighbour was asked to send everything again."""

    def mark(self, type_id: bytes, entry_id: bytes) -> int:
        """Return what it adds to a tally under an id, by what travels and not by what is known here."""
        return mark_of_interest(type_id, entry_id, self.entry.digest or self.filter_digest)


class Group(CoverEntry[int], eq=False, gc=False, kw_only=True):
    """The entries of one hop that have the same filter.

    Its id is a number that grows from group to group over all hops. Its `filter` is the one by which it is
    compared with others.
    """

    hop: Hop
    boxes: RecentBoxes
    view: bytes = b""
    """The class of Views that its entries are for."""
    first: Held | None = None
    """The entry that was here first; None once all have left."""
    others: dict[bytes, Held] | None = None
    """The other entries by their ids, in the order in which they came; most groups have none."""
    is_shown: bool = False
    covered_from: Mapping[Hop, int] = _NOBODY
    """How many shown groups of each other hop cover this one."""

    @property
    def box(self) -> Box:
        """Return the filter with its bounds."""
        return self.boxes.of(self.filter)

    @property
    def front(self) -> Held:
        """Return the entry that represents the group: the one that was here first."""
        assert self.first is not None  # noqa: S101 - a group that is shown has members
        return self.first

    def count_coverers(self, hop: Hop, step: int) -> None:
        """Take note that more or fewer shown groups of another hop cover this one."""
        counts = {**self.covered_from, hop: self.covered_from.get(hop, 0) + step}
        if not counts[hop]:
            del counts[hop]
        self.covered_from = counts or _NOBODY

    def join(self, held: Held) -> None:
        """Add an entry behind those that are here."""
        if self.others is None:
            self.others = {}
        self.others[held.entry.id] = held

    def leave(self, held: Held) -> None:
        """Take an entry out; the next one represents the group then."""
        others = self.others or {}
        if held is not self.first:
            del others[held.entry.id]
        else:
            self.first = others.pop(next(iter(others))) if others else None
        self.others = others or None


class HopInterests:
    """The entries of one hop for one type, by id, and the groups that they form."""

    __slots__ = ("_groups", "_hop", "_tables", "held")

    def __init__(self, hop: Hop) -> None:
        """Begin without entries."""
        self._hop = hop
        self.held: dict[bytes, Held] = {}
        self._groups: dict[bytes, Group] = {}
        """By the digest of their filters."""
        self._tables: dict[bytes, CoverTable[int]] = {}
        """Who covers whom among the groups, for each class of Views."""

    def table_of(self, view: bytes) -> CoverTable[int]:
        """Return who covers whom among the groups of a class."""
        found = self._tables.get(view)
        if found is None:
            found = self._tables[view] = CoverTable()
        return found

    def find_table(self, view: bytes) -> CoverTable[int] | None:
        """Return who covers whom among the groups of a class; None where there is no such group."""
        return self._tables.get(view)

    def group_of(self, held: Held) -> Group:
        """Return the group that an entry of this hop belongs to."""
        return self._groups[held.filter_digest]

    def groups(self, view: bytes, ids: Iterable[int]) -> Iterator[Group]:
        """Yield the groups of a class with these ids."""
        return map(_as_group, map(self.table_of(view).entry, ids))

    def shown(self) -> Iterator[Group]:
        """Yield the groups that no other group of this hop covers, in the order of their ids."""
        if len(self._tables) == 1:
            (table,) = self._tables.values()
            return (group for group in map(_as_group, table.entries()) if group.is_shown)
        every = (group for table in self._tables.values() for group in map(_as_group, table.entries()))
        return iter(sorted((group for group in every if group.is_shown), key=lambda group: group.id))

    def add(self, held: Held, *, group_id: int) -> set[Group]:
        """Add an entry under an id that is not in use; return the groups that it may have changed."""
        self.held[held.entry.id] = held
        group = self._groups.get(held.filter_digest)
        if group is not None:
            group.join(held)
            return set()
        compared, view = compared_by(held.entry), held.entry.view
        table = self.table_of(view)
        group = Group(id=group_id, filter=compared, hop=self._hop, boxes=table.boxes, view=view, first=held)
        inserted = table.insert_entry(group)
        self._groups[held.filter_digest] = group
        return {group, *self.groups(view, inserted.now_covers)}

    def remove(self, entry_ids: Iterable[bytes]) -> set[Group]:
        """Remove entries that are here; return the groups that this may have changed."""
        changed: set[Group] = set()
        for entry_id in entry_ids:
            held = self.held.pop(entry_id)
            group = self._groups[held.filter_digest]
            group.leave(held)
            changed.add(group)
            if group.first is None:
                del self._groups[held.filter_digest]
        gone: dict[bytes, list[int]] = {}
        for group in changed:
            if group.first is None:
                gone.setdefault(group.view, []).append(group.id)
        for view, ids in gone.items():
            removed = self._tables[view].remove_all(ids)
            changed.update(self.groups(view, removed.now_maximal), self.groups(view, removed.now_covered))
            if not self._tables[view]:
                del self._tables[view]
        return changed

    def ought_to_be_shown(self, group: Group) -> bool:
        """Return whether a group is here, admits anything, and is not covered by another of this hop."""
        return (
            group.first is not None and not group.is_empty and self.table_of(group.view).is_maximal(group.id)
        )


def _as_group(entry: CoverEntry[int]) -> Group:
    assert isinstance(entry, Group)  # noqa: S101 - a hop's table has nothing else
    return entry


def is_received_by(hop: Hop, group: Group) -> bool:
    """Return whether a neighbour receives a group, if it receives any."""
    if not group.is_shown or group.hop == hop:
        return False
    return not group.covered_from or (len(group.covered_from) == 1 and hop in group.covered_from)


class CoveringOrder:
    """All shown groups of a type, and the hops that cover each of them."""

    # INVARIANT: covered_from[h] of a shown group is the number of shown groups of `h` that outrank it.

    __slots__ = ("_hops", "_on_change")

    def __init__(self, hops: Mapping[Hop, HopInterests], on_change: Callable[[Group], None]) -> None:
        """Watch over `hops`; `on_change` is called for every group that is shown or hidden."""
        self._hops = hops
        self._on_change = on_change

    def settle(self, hop: Hop, changed: Iterable[Group]) -> set[Group]:
        """Show and hide groups of a hop as they ought to be; return every group of any hop touched by it."""
        touched: set[Group] = set(changed)
        ought_to_be_shown = self._hops[hop].ought_to_be_shown
        ordered = sorted(touched, key=lambda group: group.id)
        # First what is shown, then what is hidden: what takes over is there before the other leaves.
        for group in ordered:
            if not group.is_shown and ought_to_be_shown(group):
                self._show(group, True)
                for wide in self._related(group, is_wide=True):
                    group.count_coverers(wide.hop, 1)
                touched |= self._count_under(group, 1)
        for group in ordered:
            if group.is_shown and not ought_to_be_shown(group):
                touched |= self._count_under(group, -1)
                self._show(group, False)
        return touched

    def forget(self, hop: Hop) -> set[Group]:
        """Take a whole hop out, without asking anything; return the groups that this may have changed."""
        others = (group for other in self._hops.values() for group in other.shown())
        touched = {group for group in others if hop in group.covered_from}
        for group in touched:
            group.count_coverers(hop, -group.covered_from[hop])
        gone = set(self._hops[hop].shown())
        for group in gone:
            self._show(group, False)
        return touched | gone

    def _show(self, group: Group, is_shown: bool) -> None:
        group.is_shown, group.covered_from = is_shown, _NOBODY
        self._on_change(group)

    def _count_under(self, group: Group, step: int) -> set[Group]:
        outranked = set(self._related(group, is_wide=False))
        for narrow in outranked:
            narrow.count_coverers(group.hop, step)
        return outranked

    def _related(self, group: Group, *, is_wide: bool) -> Iterator[Group]:
        """Yield the shown groups of other hops that outrank a group, or that it outranks."""
        for hop, others in self._hops.items():
            if hop == group.hop:
                continue
            table = others.find_table(group.view)
            if table is None:
                continue
            find = table.maximal_covering if is_wide else table.maximal_covered_by
            for other in others.groups(group.view, find(group.box)):
                wide, narrow = (other, group) if is_wide else (group, other)
                if other.is_shown and breaks_tie(wide=wide, narrow=narrow):
                    yield other


def breaks_tie(*, wide: Group, narrow: Group) -> bool:
    """Return whether a filter that covers another one also outranks it: the older of two equals does.

    Outranking must never go round in a circle, or a circle of equal filters
    would hide all of its members. So a younger filter outranks an older one
    only if it is known to be wider. That no proof was found that the older
    one covers it would not be enough: the steps may have run out.
    """
    if wide.id < narrow.id or bounds_rule_out(wide=narrow.box, narrow=wide.box):
        return True
    if wide.box.exact and narrow.box.exact:
        return not proved_to_cover(wide=narrow.box, narrow=wide.box)
    return counterexample(wide=narrow.filter, narrow=wide.filter) is not None
