"""Which of many filters could cover this one, or be covered by it?

The cover table asks once or twice per change. Filters that ask for the same
attributes stand in one group, whose bounds are columns of 64-bit numbers; a
question walks the few groups whose attributes fit and compares whole columns.
The answer leaves nobody out: it holds every filter for which the relation can
hold, and some for which it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from maia.events import AttributeUid
from maia.predicates.boxes import ANY_KIND, Box, Edge

__all__ = ["BoxIndex"]

_Numbers = npt.NDArray[np.int64]
_Rows = npt.NDArray[np.intp]
_Signature = frozenset[AttributeUid]

_FIRST_ROWS: Final = 4
_FIELDS: Final = ("kind", "low", "high", "only", "inner_low", "inner_high", "inner")


class BoxIndex:
    """Boxes by a number that the caller chooses, found by the bounds that they keep or fit into."""

    def __init__(self) -> None:
        self._groups: dict[_Signature, _Group] = {}
        self._containing: dict[AttributeUid, set[_Signature]] = {}
        self._anchored: dict[AttributeUid, set[_Signature]] = {}
        self._anchor_of: dict[_Signature, AttributeUid] = {}
        self._home_of: dict[int, _Group] = {}
        self._unbounded: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._home_of) + len(self._unbounded)

    def __contains__(self, number: int) -> bool:
        return number in self._home_of or number in self._unbounded

    def __iter__(self) -> Iterator[int]:
        yield from self._home_of
        yield from self._unbounded

    def add(self, number: int, box: Box) -> None:
        """Keep a box under a number that is not in use."""
        if box.edges is None:
            self._unbounded[number] = None
            return
        signature = frozenset(box.edges)
        group = self._groups.get(signature) or self._new_group(signature)
        group.add(number, box.edges, exact=box.exact)
        self._home_of[number] = group

    def discard(self, number: int) -> None:
        """Forget the box under this number."""
        if number in self._unbounded:
            del self._unbounded[number]
            return
        group = self._home_of.pop(number)
        group.discard(number)
        if not len(group):
            self._drop_group(group)

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
        group = self._groups[signature] = _Group(tuple(sorted(signature)))
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
        del self._groups[signature]
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

    def __init__(self, uids: tuple[AttributeUid, ...]) -> None:
        self.uids = uids
        self._rows: dict[int, int] = {}
        self._numbers: _Numbers = np.zeros(_FIRST_ROWS, np.int64)
        self._exact: npt.NDArray[np.bool_] = np.zeros(_FIRST_ROWS, np.bool_)
        self._bounds: _Numbers = np.zeros((len(uids), len(_FIELDS), _FIRST_ROWS), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, number: int, edges: Mapping[AttributeUid, Edge], *, exact: bool) -> None:
        row = len(self._rows)
        if row == len(self._numbers):
            self._grow()
        self._rows[number] = row
        self._numbers[row] = number
        self._exact[row] = exact
        for position, uid in enumerate(self.uids):
            edge = edges[uid]
            self._bounds[position, :, row] = (
                edge.kind,
                edge.low,
                edge.high,
                edge.only,
                edge.inner_low,
                edge.inner_high,
                edge.inner,
            )

    def discard(self, number: int) -> None:
        """Move the last row into the gap, so that the rows stay dense."""
        row, last = self._rows.pop(number), len(self._rows)
        if row != last:
            moved = int(self._numbers[last])
            self._rows[moved] = row
            self._numbers[row], self._exact[row] = moved, self._exact[last]
            self._bounds[:, :, row] = self._bounds[:, :, last]

    def could_cover(self, box: Box) -> list[tuple[int, bool]]:
        rows: _Rows | None = None
        for position, uid in enumerate(self.uids):
            edge = box.edges.get(uid) if box.edges else None
            if edge is not None:
                rows = self._rows_around(position, edge, rows)
        return self._answer(rows, exact=box.exact)

    def could_be_covered_by(self, box: Box) -> list[tuple[int, bool]]:
        rows: _Rows | None = None
        for position, uid in enumerate(self.uids):
            edge = box.edges.get(uid) if box.edges else None
            if edge is not None:
                rows = self._rows_within(position, edge, rows)
        return self._answer(rows, exact=box.exact)

    def _rows_around(self, position: int, inner: Edge, rows: _Rows | None) -> _Rows:
        """Keep the rows whose outer edges hold the inner edges of a box."""
        kind, low, high, only = self._columns(position, rows, 0, 1, 2, 3)
        fits = (low <= inner.inner_low) & (high >= inner.inner_high)
        fits &= (kind == ANY_KIND) | (kind == inner.kind)
        if inner.inner:
            fits &= (only == 0) | (only == inner.inner)
        return _kept(fits, rows)

    def _rows_within(self, position: int, outer: Edge, rows: _Rows | None) -> _Rows | None:
        """Keep the rows whose inner edges lie within the outer edges of a box."""
        if outer.kind == ANY_KIND:
            return rows
        kind, low, high, inner = self._columns(position, rows, 0, 4, 5, 6)
        fits = (low >= outer.low) & (high <= outer.high) & (kind == outer.kind)
        if outer.only:
            fits &= (inner == 0) | (inner == outer.only)
        return _kept(fits, rows)

    def _columns(self, position: int, rows: _Rows | None, *fields: int) -> list[_Numbers]:
        columns = self._bounds[position]
        if rows is None:
            return [columns[field, : len(self._rows)] for field in fields]
        return [columns[field][rows] for field in fields]

    def _answer(self, rows: _Rows | None, *, exact: bool) -> list[tuple[int, bool]]:
        count = len(self._rows)
        numbers = self._numbers[:count] if rows is None else self._numbers[rows]
        proofs = (self._exact[:count] if rows is None else self._exact[rows]) & exact
        return list(zip(numbers.tolist(), proofs.tolist(), strict=True))

    def _grow(self) -> None:
        size = 2 * len(self._numbers)
        self._numbers = _resized(self._numbers, size)
        self._exact = np.concatenate([self._exact, np.zeros(size - len(self._exact), np.bool_)])
        self._bounds = _resized(self._bounds, size)


def _kept(fits: npt.NDArray[np.bool_], rows: _Rows | None) -> _Rows:
    return np.flatnonzero(fits) if rows is None else rows[fits]


def _resized(numbers: _Numbers, size: int) -> _Numbers:
    wider = np.zeros((*numbers.shape[:-1], size), np.int64)
    wider[..., : numbers.shape[-1]] = numbers
    return wider
