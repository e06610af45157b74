"""What have the events of the open periods come to so far, and what is shown when a period closes?

Brokers ask: frames go in as they arrive, and events come out when their period is closed. The answer is
that of `summarised` in `maia.policy.view`, for the events that arrived in time. The state is
bounded: periods that have not begun, or that are closed, take nothing, and the groups of open periods are
limited, for one View and for all together. What has no room is left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from maia.events import SECOND, Frame, Instant, PresentValue, frame_of
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.expressions.summaries import Group, GroupKey, derived_event, group_key, period_of
from maia.policy.view import View, split
from maia.views.frame_transformers import transforming_frames

GROUPS_MAX: Final = 10_000
"""Groups in the open periods of one View; an event that would begin another is left out."""


@dataclass(slots=True)
class GroupRoom:
    """How many groups there are in the open periods of all Views, and how many there may be."""

    most: int = 20 * GROUPS_MAX
    used: int = 0


@dataclass(frozen=True, slots=True)
class ClosedPeriod:
    """What a period has come to, as it is shown, and of how many events it was made."""

    start: Instant
    ends: Instant
    frame: Frame
    events: int


class OpenPeriods:
    """The periods of one View that are not closed yet."""

    __slots__ = ("_behind", "_front", "_groups", "_open", "_room", "_summary", "began_at", "left_out")

    def __init__(
        self, view: View, keys: TransformationKeys = NO_KEYS, *, now: Instant, room: GroupRoom | None = None
    ) -> None:
        """Begin now: periods that have begun before are never shown, because a part of them is missing."""
        parts = split(view)
        self._summary = parts.summary
        self._front = transforming_frames(parts.front, keys)
        self._behind = transforming_frames(parts.behind, keys)
        self._open: dict[Instant, dict[GroupKey, Group]] = {}
        self._groups, self._room = 0, GroupRoom() if room is None else room
        self.began_at = now
        self.left_out = 0
        """How many events came too late, too early, or found no room."""

    def closes_after(self, now: Instant) -> Instant:
        """Return when the next period is closed, whether or not it has events."""
        return self._summary.closes_at(period_of(self._summary, now - self._summary.late_s * SECOND))

    def take(self, frame: Frame, published_at: int, now: Instant) -> None:
        """Count the events of a frame whose rows the View's window admits."""
        summary = self._summary
        start = period_of(summary, published_at)
        is_in_time = start <= now + summary.late_s * SECOND and now < summary.closes_at(start)
        if not is_in_time:
            self.left_out += frame.rows
            return
        if start < self.began_at:
            return
        taken, _ = self._front(frame)
        if taken is None:
            return
        groups = self._open.setdefault(start, {})
        for event in taken.events():
            key = group_key(summary, event)
            if key is None:
                continue
            group = groups.get(key)
            if group is None:
                if self._groups >= GROUPS_MAX or self._room.used >= self._room.most:
                    self.left_out += 1
                    continue
                group = groups[key] = Group()
                self._groups += 1
                self._room.used += 1
            group.add(summary, event)

    def close(self, now: Instant) -> list[ClosedPeriod]:
        """Return the periods that are closed by now and show something, oldest first, and forget them."""
        summary, closed = self._summary, list[ClosedPeriod]()
        for start in sorted(start for start in self._open if summary.closes_at(start) <= now):
            groups = self._forgotten(start)
            found = [
                (event, group.events)
                for key, group in sorted(groups.items(), key=_values)
                if (event := derived_event(summary, start, key, group)) is not None
            ]
            if not found:
                continue
            shown, rows = self._behind(frame_of([event for event, _ in found], summary.kinds))
            if shown is not None:
                ends = Instant(start + summary.every_s * SECOND)
                closed.append(ClosedPeriod(start, ends, shown, sum(found[row][1] for row in rows)))
        return closed

    def drop(self) -> None:
        """Forget all open periods: nothing of them is shown."""
        for start in list(self._open):
            self._forgotten(start)

    def _forgotten(self, start: Instant) -> dict[GroupKey, Group]:
        groups = self._open.pop(start)
        self._groups -= len(groups)
        self._room.used -= len(groups)
        return groups


def _values(item: tuple[GroupKey, Group]) -> tuple[PresentValue, ...]:
    """Return the values of a group: in their order nothing is left of the order in which events came."""
    return tuple(value for _, value in item[0])
