"""What does one hop want of one type, and which of its filters cover the others?

A type's book keeps one of these per hop. Entries with the same filter form a
group, and the group's first entry is its front, which represents it. Groups
that no other group of the hop covers are shown: the rest of the book sees
only those. Finding the group of an entry costs one hash; only a filter that
is new to the hop, or leaves it for good, costs a question to the cover table.

Which filters of all hops cover which, so that each neighbour receives no more than it needs?

A type's book asks what to tell a neighbour: the filters of all other hops that
none of these others covers. One count per filter and hop answers it for every
neighbour at once: a neighbour receives a filter if no hop but itself covers it.

A change is compared with the shown groups of the other hops. It costs two
questions per hop that wants anything of the type, and one step per group that
covers or is covered, however many neighbours receive it.
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
from maia.routing.table.hops import Hop, RouteEntry, SealedEntry

# Do two neighbours agree on what the one has sent the other?


_MODULUS: Final = 1 << 256


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
        """Say whether a neighbour's count and digest are these."""
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


# By what is an entry compared with others, and by what does its neighbour know it?


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


_NOBODY: Final[Mapping[Hop, int]] = MappingProxyType({})


class Held(msgspec.Struct, eq=False, gc=False):
    """An entry as one hop sent it."""

    entry: RouteEntry
    filter_digest: bytes
    sent_as: bytes
    """The id under which we pass it on: its own, unless another hop was there first with the same one."""
    is_stale: bool = False
    """Not sent since the neighbour was asked to send everything again."""


class Group(CoverEntry[int], eq=False, gc=False, kw_only=True):
    """The entries of one hop that have the same filter.

    Its id is a number that grows from group to group over all hops, by which it is known.
    """

    hop: Hop
    boxes: RecentBoxes
    first: Held | None = None
    """The entry that was here first; None once all have left."""
    others: dict[bytes, Held] | None = None
    """The other entries by their ids, in the order in which they came; most groups have none."""
    is_shown: bool = False
    covered_from: Mapping[Hop, int] = _NOBODY
    """How many shown groups of each other hop cover this one; kept by `table/covering_order.py`."""

    @property
    def born(self) -> int:
        """Return its number."""
        return self.id

    @property
    def predicate(self) -> Predicate:
        """Return the filter that all members share, as it is compared with others."""
        return self.filter

    @property
    def box(self) -> Box:
        """Return the filter with its bounds."""
        return self.boxes.of(self.filter)

    @property
    def front(self) -> Held:
        """Return the entry that represents the group: the one that was here first."""
        assert self.first is not None  # noqa: S101 - a group that is shown has members
        return self.first

    def count_coverers(self, hop: Hop, count: int) -> None:
        """Take note of how many shown groups of another hop cover this one."""
        rest = {one: known for one, known in self.covered_from.items() if one != hop}
        self.covered_from = {**rest, hop: count} if count else rest or _NOBODY

    def join(self, held: Held) -> None:
        """Add an entry behind those that are here."""
        if self.first is None:
            self.first = held
        elif self.others is None:
            self.others = {held.entry.id: held}
        else:
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
    """The entries of one hop for one type."""

    __slots__ = ("_by_digest", "_held", "_hop", "_table")

    def __init__(self, hop: Hop) -> None:
        """Begin without entries."""
        self._hop = hop
        self._held: dict[bytes, Held] = {}
        self._by_digest: dict[bytes, Group] = {}
        self._table: CoverTable[int] = CoverTable()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._held)

    @property
    def table(self) -> CoverTable[int]:
        """Return who covers whom among the groups, by their numbers."""
        return self._table

    def find(self, entry_id: bytes) -> Held | None:
        """Return the entry with this id, if the hop sent one."""
        return self._held.get(entry_id)

    def all_held(self) -> Iterator[Held]:
        """Yield all entries."""
        return iter(self._held.values())

    def group_born(self, born: int) -> Group:
        """Return the group with this number."""
        return _as_group(self._table.entry(born))

    def group_of(self, held: Held) -> Group:
        """Return the group that an entry of this hop belongs to."""
        return self._by_digest[held.filter_digest]

    def shown(self) -> Iterator[Group]:
        """Yield the groups that no other group of this hop covers, in the order of their birth."""
        return (group for group in map(_as_group, self._table.entries()) if group.is_shown)

    def add(self, held: Held, *, born: int) -> set[Group]:
        """Add an entry under an id that is not in use; return the groups that it may have changed.

        `born` is a number that grows from entry to entry, over all hops.
        """
        self._held[held.entry.id] = held
        group = self._by_digest.get(held.filter_digest)
        if group is not None:
            group.join(held)
            return set()
        group = Group(
            id=born, filter=compared_by(held.entry), hop=self._hop, boxes=self._table.boxes, first=held
        )
        inserted = self._table.insert_entry(group)
        self._by_digest[held.filter_digest] = group
        return {group, *self._groups(inserted.now_covers)}

    def remove(self, entry_ids: Iterable[bytes]) -> set[Group]:
        """Remove entries that are here; return the groups that this may have changed."""
        changed: set[Group] = set()
        for entry_id in entry_ids:
            held = self._held.pop(entry_id)
            group = self._by_digest[held.filter_digest]
            group.leave(held)
            changed.add(group)
            if group.first is None:
                del self._by_digest[held.filter_digest]
        removed = self._table.remove_all(group.born for group in changed if group.first is None)
        return {*changed, *self._groups(removed.now_maximal), *self._groups(removed.now_covered)}

    def ought_to_be_shown(self, group: Group) -> bool:
        """Say whether a group is here, admits anything, and is not covered by another of this hop."""
        if group.first is None or group.is_empty:
            return False
        return self._table.is_maximal(group.born)

    def _groups(self, born: Iterable[int]) -> Iterator[Group]:
        return map(self.group_born, born)


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
    # INVARIANT: `_under[h]` holds the shown groups that have a count for `h`.

    __slots__ = ("_hops", "_on_change", "_under")

    def __init__(
        self, hops: Mapping[Hop, HopInterests], on_change: Callable[[Group], None] = lambda group: None
    ) -> None:
        """Watch over `hops`; `on_change` is called for every group that is shown or hidden."""
        self._hops = hops
        self._on_change = on_change
        self._under: dict[Hop, set[Group]] = {}

    def settle(self, hop: Hop, changed: Iterable[Group]) -> set[Group]:
        """Show and hide groups of a hop as they ought to be; return every group of any hop touched by it."""
        touched: set[Group] = set(changed)
        interests = self._hops[hop]
        ordered = sorted(touched, key=lambda group: group.born)
        # First what is shown, then what is hidden: what takes over is there before the other leaves.
        for group in ordered:
            if not group.is_shown and interests.ought_to_be_shown(group):
                touched |= self._show(group)
        for group in ordered:
            if group.is_shown and not interests.ought_to_be_shown(group):
                touched |= self._hide(group)
        return touched

    def forget(self, hop: Hop) -> set[Group]:
        """Take a whole hop out, without asking anything; return the groups that this may have changed."""
        touched = self._under.pop(hop, set())
        for group in touched:
            group.count_coverers(hop, 0)
        gone = set(self._hops[hop].shown())
        for group in gone:
            self._take_out(group)
        return touched | gone

    def _show(self, group: Group) -> set[Group]:
        group.is_shown = True
        self._on_change(group)
        for wide in self._outranking(group):
            self._count(group, wide.hop, 1)
        outranked = set(self._outranked_by(group))
        for narrow in outranked:
            self._count(narrow, group.hop, 1)
        return outranked

    def _hide(self, group: Group) -> set[Group]:
        outranked = set(self._outranked_by(group))
        for narrow in outranked:
            self._count(narrow, group.hop, -1)
        self._take_out(group)
        return outranked

    def _take_out(self, group: Group) -> None:
        group.is_shown = False
        for hop in group.covered_from:
            self._under[hop].discard(group)
            group.count_coverers(hop, 0)
        self._on_change(group)

    def _count(self, narrow: Group, hop: Hop, step: int) -> None:
        count = narrow.covered_from.get(hop, 0) + step
        narrow.count_coverers(hop, count)
        if count:
            self._under.setdefault(hop, set()).add(narrow)
        else:
            self._under[hop].discard(narrow)

    def _outranking(self, group: Group) -> Iterator[Group]:
        for hop, others in self._hops.items():
            if hop != group.hop:
                for born in others.table.maximal_covering(group.box):
                    other = others.group_born(born)
                    if other.is_shown and breaks_tie(wide=other, narrow=group):
                        yield other

    def _outranked_by(self, group: Group) -> Iterator[Group]:
        for hop, others in self._hops.items():
            if hop != group.hop:
                for born in others.table.maximal_covered_by(group.box):
                    other = others.group_born(born)
                    if other.is_shown and breaks_tie(wide=group, narrow=other):
                        yield other


def breaks_tie(*, wide: Group, narrow: Group) -> bool:
    """Say whether a filter that covers another one also outranks it: the older of two equals does.

    Outranking must never go round in a circle, or a circle of equal filters
    would hide all of its members. So a younger filter outranks an older one
    only if it is known to be wider. That no proof was found that the older
    one covers it would not be enough: the steps may have run out.
    """
    if wide.born < narrow.born:
        return True
    if bounds_rule_out(wide=narrow.box, narrow=wide.box):
        return True
    if wide.box.exact and narrow.box.exact:
        return not proved_to_cover(wide=narrow.box, narrow=wide.box)
    return counterexample(wide=narrow.predicate, narrow=wide.predicate) is not None
