"""Which hops want an event, or which rows of a frame?

The routing book asks for every publication. Only filters that stand for
others are in the index: what a hop's own wider filter covers needs no look.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from maia.events import Event, Frame
from maia.routing.hops import LOCAL, Hop
from maia.routing.interests import Group
from maia.routing.matchers import Matcher

__all__ = ["Targets"]


class Targets:
    """The hops that want something of one type."""

    __slots__ = ("_matcher", "_with_local")

    def __init__(self, matcher: Matcher, *, with_local: bool) -> None:
        """Begin with nobody; `with_local` says whether the broker's own clients are one of the hops."""
        self._matcher = matcher
        self._with_local = with_local

    def keep_current(self, group: Group) -> None:
        """Hear that a group is now shown, or hidden."""
        if group.hop == LOCAL and not self._with_local:
            return
        if group.is_shown:
            self._matcher.add((group.hop, group.key), group.predicate)
        else:
            self._matcher.remove((group.hop, group.key))

    def of_event(self, event: Event, *, from_hop: Hop) -> set[Hop]:
        """Return the hops that want an event, and never the neighbour from which it came."""
        found = {_hop_of(match) for match in self._matcher.match(event)}
        return found if from_hop == LOCAL else found - {from_hop}

    def of_frame(self, frame: Frame, *, from_hop: Hop) -> dict[Hop, list[int]]:
        """Return the rows that each hop wants, in order, and never the neighbour from which they came."""
        by_hop: dict[Hop, list[Sequence[int]]] = {}
        for match, rows in self._matcher.match_frame(frame).items():
            by_hop.setdefault(_hop_of(match), []).append(rows)
        if from_hop != LOCAL:
            by_hop.pop(from_hop, None)
        return {hop: _joined(found, frame.rows) for hop, found in by_hop.items()}


def _hop_of(match: Hashable) -> Hop:
    # The index hands back the ids that `keep_current` gave it, and knows them as hashable alone.
    return cast("tuple[Hop, str]", match)[0]


def _joined(found: Sequence[Sequence[int]], rows: int) -> list[int]:
    if len(found) == 1:
        return list(found[0])
    together: set[int] = set()
    for some in found:
        together.update(some)
        if len(together) == rows:
            break
    return sorted(together)
