"""Which filters of all hops cover which, so that each neighbour receives no more than it needs?

A type's book asks what to tell a neighbour: the filters of all other hops that
none of these others covers. One count per filter and hop answers it for every
neighbour at once: a neighbour receives a filter if no hop but itself covers it.

A change is compared with the shown groups of the other hops. It costs two
questions per hop that wants anything of the type, and one step per group that
covers or is covered, however many neighbours receive it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from maia.predicates import counterexample
from maia.predicates.covering.boxes import bounds_rule_out, proved_to_cover
from maia.routing.table.hops import Hop
from maia.routing.table.interests import Group, HopInterests


def is_heard_by(hop: Hop, group: Group) -> bool:
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
