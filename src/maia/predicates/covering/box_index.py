"""Which of many filters could cover this one, or be covered by it?

The cover table asks once or twice per change. Filters that ask for the same
attributes are in one group, whose bounds are columns of 64-bit numbers; a
question walks the few groups whose attributes fit and compares whole columns.
The answer leaves nothing out: it holds every filter for which the relation can
hold, and some for which it does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from maia.events import AttributeUid
from maia.predicates.covering.sides import ANY_KIND, Box, Edge

_Numbers = npt.NDArray[np.int64]
_Rows = npt.NDArray[np.intp]
_Signature = frozenset[AttributeUid]
_NONE: Final[_Numbers] = np.zeros(0, np.int64)

_FIRST_ROWS: Final = 4
_ROW_BITS: Final = 32
_FEW_OF: Final = 8
"""Less than one row of so many is taken out by itself; more, and the others are written anew."""
_KIND, _LOW, _HIGH, _ONLY, _INNER_LOW, _INNER_HIGH, _INNER, _RANGE = range(len(Edge.FIELDS))


class PlacedBox(msgspec.Struct, eq=False, gc=False):
    """What an index writes down in the caller's own entry, so that it needs no dictionary beside them."""

    place: int = 0
    """The number of its group and behind it, in `_ROW_BITS`, its row there."""


class BoxIndex:
    """Boxes by a number that the caller chooses, found by the bounds that they keep or fit into."""

    def __init__(self, entries: Mapping[int, PlacedBox]) -> None:
        """Begin without boxes; `entries` has whatever is added here, by its number."""
        self._entries = entries
        self._groups: dict[_Signature, _Group] = {}
        self._containing: dict[AttributeUid, set[_Signature]] = {}
        self._anchored: dict[AttributeUid, set[_Signature]] = {}
        self._anchor_of: dict[_Signature, AttributeUid] = {}
        self._serials: dict[int, _Group] = {}
        """Groups by a number of their own."""
        self._next_serial = 0
        self._unbounded: dict[int, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values())) + len(self._unbounded)

    def __bool__(self) -> bool:
        return bool(self._groups or self._unbounded)

    def __iter__(self) -> Iterator[int]:
        for group in self._groups.values():
            yield from group.numbers()
        yield from self._unbounded

    def add(self, number: int, box: Box) -> None:
        """Keep a box under a number that is not in use."""
        if box.edges is None:
            self._unbounded[number] = None
            return
        signature = frozenset(box.edges)
        group = self._groups.get(signature) or self._new_group(signature)
        group.add(number, box.edges, exact=box.exact)

    def discard(self, number: int) -> None:
        """Forget the box under this number."""
        if number in self._unbounded:
            del self._unbounded[number]
            return
        group = self._home_of(number)
        group.discard(number)
        if not len(group):
            self._drop_group(group)

    def move_all(self, numbers: Iterable[int], *, to: BoxIndex) -> None:
        """Hand boxes over to another index: many cost little more than the columns that they fill."""
        by_group: dict[_Group, list[int]] = {}
        for number in numbers:
            if number in self._unbounded:
                del self._unbounded[number]
                to._unbounded[number] = None
            else:
                by_group.setdefault(self._home_of(number), []).append(number)
        for group, some in by_group.items():
            signature = frozenset(group.uids)
            group.move_all(some, to=to._groups.get(signature) or to._new_group(signature))
            if not len(group):
                self._drop_group(group)

    def _home_of(self, number: int) -> _Group:
        return self._serials[self._entries[number].place >> _ROW_BITS]

    def unrelated(self, numbers: Collection[int], others: BoxIndex) -> list[int]:
        """Return those numbers here whose filters are proved to cover none, and to be covered by none.

        None, that is, of each other and of all in `others`. Many more may be
        so: only filters are found that ask for a value which no other one
        asks for, of an attribute for which all that could be compared with
        them ask for one value.
        """
        asked: dict[_Group, list[int]] = {}
        for number in numbers:
            if number in self._unbounded:
                return []
            asked.setdefault(self._home_of(number), []).append(number)
        if others._unbounded:
            return []
        found: list[int] = []
        for group, some in asked.items():
            signature = frozenset(group.uids)
            compared = [frozenset(one.uids) for one in asked if one is not group] + [
                one for one in others._groups if one != signature
            ]
            if not any(one <= signature or signature <= one for one in compared):
                found += group.unrelated(some, others._groups.get(signature))
        return found

    def edges_of(self, number: int) -> tuple[Mapping[AttributeUid, Edge] | None, bool]:
        """Return the bounds that were kept under a number, and whether they are exact."""
        return (None, False) if number in self._unbounded else self._home_of(number).edges_of(number)

    def could_cover(self, box: Box) -> list[tuple[int, bool]]:
        """Return, in order, every number whose filter can cover `box`, and whether it is proved to."""
        found = [(number, False) for number in self._unbounded]
        for group in self._groups_within(box):
            found.extend(group.could_cover(box))
        return sorted(found)

    def could_be_covered_by(self, box: Box) -> list[tuple[int, bool]]:
        """Return, in order, every number whose filter `box` can cover, and whether it is proved to."""
        found = [(number, False) for number in self._unbounded]
        for group in self._groups_around(box):
            found.extend(group.could_be_covered_by(box))
        return sorted(found)

    def _groups_within(self, box: Box) -> list[_Group]:
        """Return the groups that ask for no attribute beyond those that `box` asks for."""
        if box.edges is None:
            return list(self._groups.values())
        asked = box.edges.keys()
        fitting = [self._groups[empty] for empty in (frozenset[AttributeUid](),) if empty in self._groups]
        for uid in asked:
            fitting.extend(self._groups[one] for one in self._anchored.get(uid, ()) if one <= asked)
        return fitting

    def _groups_around(self, box: Box) -> list[_Group]:
        """Return the groups that ask for every attribute that `box` asks for."""
        if not box.edges:
            return list(self._groups.values())
        rarest = min((self._containing.get(uid, set()) for uid in box.edges), key=len)
        return [self._groups[one] for one in rarest if box.edges.keys() <= one]

    def _new_group(self, signature: _Signature) -> _Group:
        group = _Group(tuple(sorted(signature)), self._entries, self._next_serial)
        self._groups[signature] = self._serials[self._next_serial] = group
        self._next_serial += 1
        for uid in signature:
            self._containing.setdefault(uid, set()).add(signature)
        if signature:
            # The attribute with the fewest groups, so that no question walks more groups than it must.
            anchor = min(sorted(signature), key=lambda uid: len(self._anchored.get(uid, ())))
            self._anchored.setdefault(anchor, set()).add(signature)
            self._anchor_of[signature] = anchor
        return group

    def _drop_group(self, group: _Group) -> None:
        signature = frozenset(group.uids)
        del self._groups[signature], self._serials[group.serial]
        for uid in signature:
            _discard_from(self._containing, uid, signature)
        if signature:
            _discard_from(self._anchored, self._anchor_of.pop(signature), signature)


def _discard_from(
    sets: dict[AttributeUid, set[_Signature]], uid: AttributeUid, signature: _Signature
) -> None:
    sets[uid].discard(signature)
    if not sets[uid]:
        del sets[uid]


class _Group:
    """The bounds of all boxes that ask for the same attributes, a column per attribute and bound."""

    def __init__(self, uids: tuple[AttributeUid, ...], entries: Mapping[int, PlacedBox], serial: int) -> None:
        self.uids, self.serial = uids, serial
        self._entries = entries
        self._count = 0
        self._numbers: _Numbers = np.zeros(_FIRST_ROWS, np.int64)
        self._exact: npt.NDArray[np.bool_] = np.zeros(_FIRST_ROWS, np.bool_)
        self._bounds: _Numbers = np.zeros((len(uids), len(Edge.FIELDS), _FIRST_ROWS), np.int64)
        self._single_valued = [0] * len(uids)

    def __len__(self) -> int:
        return self._count

    def numbers(self) -> list[int]:
        """Return the numbers of all boxes."""
        numbers: list[int] = self._numbers[: self._count].tolist()
        return numbers

    def _row_of(self, number: int) -> int:
        return self._entries[number].place & (1 << _ROW_BITS) - 1

    def _put(self, number: int, row: int) -> None:
        self._entries[number].place = self.serial << _ROW_BITS | row

    def add(self, number: int, edges: Mapping[AttributeUid, Edge], *, exact: bool) -> None:
        row = self._count
        if row == len(self._numbers):
            self._resize(2 * len(self._numbers))
        self._count += 1
        self._put(number, row)
        self._numbers[row] = number
        self._exact[row] = exact
        for position, uid in enumerate(self.uids):
            self._bounds[position, :, row] = edges[uid].numbers()
            self._single_valued[position] += edges[uid].only != 0

    def edges_of(self, number: int) -> tuple[Mapping[AttributeUid, Edge], bool]:
        row = self._row_of(number)
        columns = self._bounds[:, :, row].tolist()
        return {uid: Edge(*column) for uid, column in zip(self.uids, columns, strict=True)}, bool(
            self._exact[row]
        )

    def discard(self, number: int) -> None:
        """Move the last row into the gap, so that the rows stay dense."""
        self._count -= 1
        row, last = self._row_of(number), self._count
        for position in range(len(self.uids)):
            self._single_valued[position] -= int(self._bounds[position, _ONLY, row] != 0)
        if row != last:
            moved = int(self._numbers[last])
            self._put(moved, row)
            self._numbers[row], self._exact[row] = moved, self._exact[last]
            self._bounds[:, :, row] = self._bounds[:, :, last]

    def move_all(self, numbers: Sequence[int], *, to: _Group) -> None:
        """Hand rows over to another group with the same attributes."""
        rows = np.fromiter(map(self._row_of, numbers), np.intp, len(numbers))
        moved = np.array(numbers, np.int64), self._exact[rows], self._bounds[:, :, rows]
        if len(numbers) * _FEW_OF < self._count:
            for number in numbers:
                self.discard(number)
        else:
            stays = np.ones(self._count, np.bool_)
            stays[rows] = False
            left = np.flatnonzero(stays)
            self._numbers, self._exact = self._numbers[left], self._exact[left]
            self._bounds, self._count = self._bounds[:, :, left], len(left)
            for row, number in enumerate(self._numbers.tolist()):
                self._put(number, row)
            self._resize(max(_FIRST_ROWS, len(left)))
            self._count_single_valued()
        to._append(*moved)

    def _append(self, numbers: _Numbers, exact: npt.NDArray[np.bool_], bounds: _Numbers) -> None:
        first, size = self._count, self._count + len(numbers)
        if size > len(self._numbers):
            self._resize(max(size, 2 * len(self._numbers)))
        self._numbers[first:size], self._exact[first:size] = numbers, exact
        self._bounds[:, :, first:size] = bounds
        self._count = size
        for row, number in enumerate(numbers.tolist(), start=first):
            self._put(number, row)
        self._count_single_valued()

    def _count_single_valued(self) -> None:
        single = self._bounds[:, _ONLY, : self._count] != 0
        self._single_valued = [int(count) for count in np.count_nonzero(single, axis=1)]

    def unrelated(self, numbers: Sequence[int], others: _Group | None) -> list[int]:
        """Return those rows that ask for a value for which neither another row nor one of `others` asks."""
        rows = np.fromiter(map(self._row_of, numbers), np.intp, len(numbers))
        for position in range(len(self.uids)):
            own = self._values_at(position, rows)
            theirs = _NONE if others is None else others._values_at(position, slice(len(others)))
            if own is None or theirs is None:
                continue
            values, counts = np.unique(np.concatenate([own, theirs]), return_counts=True)
            is_alone = counts[np.searchsorted(values, own)] == 1
            return [number for number, alone in zip(numbers, is_alone.tolist(), strict=True) if alone]
        return []

    def _values_at(self, position: int, rows: _Rows | slice) -> _Numbers | None:
        """Return the one value that each row asks for; None if one of them asks for something else."""
        only, inner = self._bounds[position, _ONLY, rows], self._bounds[position, _INNER, rows]
        return only if bool(np.all((only != 0) & (only == inner))) else None

    def could_cover(self, box: Box) -> list[tuple[int, bool]]:
        """Return the rows whose outer edges hold the inner edges of `box`."""
        if not box.edges or not self.uids:
            return self._answer(slice(self._count), exact=box.exact)
        edges = [box.edges[uid] for uid in self.uids]
        rows = self._first_around(edges)
        if not rows.size:
            return []
        asked = np.array([edge.numbers() for edge in edges], np.int64)[:, :, None]
        bounds = self._bounds[:, :, rows]
        fits = (bounds[:, _LOW] <= asked[:, _INNER_LOW]) & (bounds[:, _HIGH] >= asked[:, _INNER_HIGH])
        fits &= (bounds[:, _KIND] == ANY_KIND) | (bounds[:, _KIND] == asked[:, _KIND])
        only, inner = bounds[:, _ONLY], asked[:, _INNER]
        fits &= (only == 0) | (inner == 0) | (only == inner)
        # What the narrow filter asks of other attributes does not matter.
        return self._answer(rows[fits.all(axis=0)], exact=all(edge.is_range for edge in edges))

    def could_be_covered_by(self, box: Box) -> list[tuple[int, bool]]:
        """Return the rows whose inner edges lie within the outer edges of `box`."""
        closed = [
            (position, edge)
            for position, uid in enumerate(self.uids)
            if box.edges and (edge := box.edges.get(uid)) is not None and edge.kind != ANY_KIND
        ]
        if not closed:
            return self._answer(slice(self._count), exact=box.exact)
        rows = self._first_within(closed)
        if not rows.size:
            return []
        asked = np.array([edge.numbers() for _, edge in closed], np.int64)[:, :, None]
        bounds = self._bounds[:, :, rows][[position for position, _ in closed]]
        fits = (bounds[:, _INNER_LOW] >= asked[:, _LOW]) & (bounds[:, _INNER_HIGH] <= asked[:, _HIGH])
        fits &= bounds[:, _KIND] == asked[:, _KIND]
        inner, only = bounds[:, _INNER], asked[:, _ONLY]
        fits &= (only == 0) | (inner == 0) | (inner == only)
        found = fits.all(axis=0)
        proofs = np.logical_and(bounds[:, _RANGE][:, found].all(axis=0), box.exact)
        return list(zip(self._numbers[rows[found]].tolist(), proofs.tolist(), strict=True))

    def _first_around(self, edges: Sequence[Edge]) -> _Rows:
        """Cut the rows down by the one column that promises most."""
        count = self._count
        position = max(range(len(edges)), key=lambda at: (edges[at].inner != 0) * self._single_valued[at])
        edge, columns = edges[position], self._bounds[position, :, :count]
        if edge.inner and self._single_valued[position] * 2 > count:
            return np.flatnonzero((columns[_ONLY] == edge.inner) | (columns[_ONLY] == 0))
        return np.flatnonzero((columns[_LOW] <= edge.inner_low) & (columns[_HIGH] >= edge.inner_high))

    def _first_within(self, closed: Sequence[tuple[int, Edge]]) -> _Rows:
        """Cut the rows down by the one column that promises most."""
        count = self._count
        position, edge = max(closed, key=lambda one: (one[1].only != 0, one[1].low - one[1].high))
        columns = self._bounds[position, :, :count]
        if edge.only:
            return np.flatnonzero((columns[_INNER] == edge.only) | (columns[_INNER] == 0))
        return np.flatnonzero((columns[_INNER_LOW] >= edge.low) & (columns[_INNER_HIGH] <= edge.high))

    def _answer(self, rows: _Rows | slice, *, exact: bool) -> list[tuple[int, bool]]:
        numbers, proofs = self._numbers[rows], self._exact[rows] & exact
        return list(zip(numbers.tolist(), proofs.tolist(), strict=True))

    def _resize(self, size: int) -> None:
        self._numbers = _resized(self._numbers, size)
        self._exact = np.concatenate([self._exact, np.zeros(size - len(self._exact), np.bool_)])
        self._bounds = _resized(self._bounds, size)


def _resized(numbers: _Numbers, size: int) -> _Numbers:
    wider = np.zeros((*numbers.shape[:-1], size), np.int64)
    wider[..., : numbers.shape[-1]] = numbers
    return wider
