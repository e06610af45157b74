"""Which hops want an event, or which rows of a frame?

The routing table asks for every publication. Only filters that cover
others are in the index: what a hop's own wider filter covers needs no look.
Where a column of a frame is sealed to this broker, a hop that asks about it
may want any row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import cast

from maia.events import AttributeUid, Event, Frame
from maia.predicates import ALWAYS
from maia.routing.matching.matchers import Matcher
from maia.routing.table.comparison import known_attributes
from maia.routing.table.hops import LOCAL, Hop
from maia.routing.table.interests import Group

__all__ = ["Targets"]


class Targets:
    """The hops that want something of one type."""

    __slots__ = ("_asked", "_asking", "_less", "_matcher", "_with_local")

    def __init__(self, matcher: Matcher, *, with_local: bool, may_miss_columns: bool = False) -> None:
        """Begin without hops; `with_local` says whether the broker's own clients are one of the hops."""
        self._matcher = matcher
        self._with_local = with_local
        self._asking: dict[AttributeUid, Counter[Hop]] | None = {} if may_miss_columns else None
        """How many filters of each hop ask about an attribute; None where no frame misses a column."""
        self._asked: frozenset[AttributeUid] | None = None
        self._less = 0

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden."""
        if group.hop == LOCAL and not self._with_local:
            return
        if self._asking is not None:
            self._count(group, 1 if group.is_shown else -1, self._asking)
        if group.is_shown:
            self._matcher.add((group.hop, group.born), group.front.entry.predicate)
        else:
            self._matcher.remove((group.hop, group.born))

    def asked_about(self) -> frozenset[AttributeUid]:
        """Return the attributes about which a filter of a neighbour asks; none where no frame is sealed."""
        if self._asked is None:
            asking = self._asking or {}
            self._asked = frozenset(uid for uid, hops in asking.items() if any(hop != LOCAL for hop in hops))
        return self._asked

    def asks_for_less(self) -> bool:
        """Return whether a neighbour wants less than everything, also where its filter is sealed."""
        return self._less > 0

    def of_event(self, event: Event, *, from_hop: Hop) -> set[Hop]:
        """Return the hops that want an event, and never the neighbour from which it came."""
        found = {_hop_of(match) for match in self._matcher.match(event)}
        return found if from_hop == LOCAL else found - {from_hop}

    def of_frame(
        self, frame: Frame, *, from_hop: Hop, missing: Collection[AttributeUid] = ()
    ) -> dict[Hop, list[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came.

        `missing` are attributes that the frame has and this broker cannot read.
        """
        by_hop: dict[Hop, list[Sequence[int]]] = {}
        for hop in self._asking_about(missing):
            by_hop[hop] = [range(frame.rows)]
        for match, rows in self._matcher.match_frame(frame).items():
            by_hop.setdefault(_hop_of(match), []).append(rows)
        if from_hop != LOCAL:
            by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}

    def _asking_about(self, missing: Collection[AttributeUid]) -> set[Hop]:
        asking = self._asking or {}
        return {hop for uid in missing if uid in asking for hop in asking[uid]}

    def _count(self, group: Group, step: int, asking: dict[AttributeUid, Counter[Hop]]) -> None:
        self._asked = None
        if group.hop != LOCAL and group.predicate != ALWAYS:
            self._less += step
        for uid in known_attributes(group.predicate):
            hops = asking.setdefault(uid, Counter())
            hops[group.hop] += step
            if not hops[group.hop]:
                del hops[group.hop]
            if not hops:
                del asking[uid]


def _hop_of(match: Hashable) -> Hop:
    # The index hands back the ids that `keep_current` gave it, and knows them as hashable alone.
    return cast("tuple[Hop, int]", match)[0]


def _joined(found: Sequence[Sequence[int]], rows: int) -> list[int]:
    if len(found) == 1:
        return list(found[0])
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)
