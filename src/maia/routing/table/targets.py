"""Which hops want which rows of a frame?

A type's routes keep this current with the filters that are shown, and
publications ask it. Filters that want everything are no question to the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from maia.events import AttributeUid, Frame
from maia.predicates import ALWAYS
from maia.routing.matching.index import MatchIndex
from maia.routing.table.hops import LOCAL, Hop
from maia.routing.table.interests import Group, known_attributes


class Targets:
    """The hops that want something of one type."""

    def __init__(self, *, may_miss_columns: bool) -> None:
        """Begin without hops; of what is sealed, frames may have columns that this broker cannot read."""
        self._index: MatchIndex[tuple[Hop, int]] = MatchIndex()
        self._filters = 0
        """How many filters the index has."""
        self._everything: dict[tuple[Hop, int], None] = {}
        """What wants everything: there is nothing to ask about an event."""
        self._asking: dict[AttributeUid, Counter[Hop]] | None = {} if may_miss_columns else None
        """How many filters of each hop ask about an attribute; None where no frame misses a column."""

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden; this broker's clients are no target."""
        if group.hop == LOCAL:
            return
        step, key = 1 if group.is_shown else -1, (group.hop, group.id)
        if self._asking is not None:
            self._count(group, step, self._asking)
        if group.is_shown and group.front.entry.predicate == ALWAYS:
            self._everything[key] = None
        elif key in self._everything:
            del self._everything[key]
        else:
            self._filters += step
            if group.is_shown:
                self._index.add(key, group.front.entry.predicate)
            else:
                self._index.remove(key)

    def asked_about(self) -> frozenset[AttributeUid]:
        """Return the attributes about which a filter asks; none where no frame is sealed."""
        return frozenset(self._asking or ())

    def of_frame(
        self, frame: Frame, *, from_hop: Hop, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, Sequence[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came.

        `missing` are attributes that the frame has and this broker cannot read.
        """
        every = range(frame.rows)
        by_hop: dict[Hop, list[Sequence[int]]] = {hop: [every] for hop, _ in self._everything if every}
        if self._filters:
            asking = self._asking or {}
            for hop in [hop for uid in sorted(missing) if uid in asking for hop in asking[uid]]:
                by_hop[hop] = [every]
            for (hop, _), rows in self._index.match_frame(frame).items():
                by_hop.setdefault(hop, []).append(rows)
        by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}

    def _count(self, group: Group, step: int, asking: dict[AttributeUid, Counter[Hop]]) -> None:
        for uid in known_attributes(group.filter):
            hops = asking.setdefault(uid, Counter())
            hops[group.hop] += step
            if not hops[group.hop]:
                del hops[group.hop]
            if not hops:
                del asking[uid]


def _joined(found: Sequence[Sequence[int]], rows: int) -> Sequence[int]:
    if len(found) == 1:
        return found[0]
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)
