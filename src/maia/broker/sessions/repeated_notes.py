"""Which log lines would say the same again and again?

A peer that is refused can ask as often as it likes, and a stranger that is
sent away can come back. The log of the broker has a line for the first of
them; those that follow within a period are counted, and a line at the end of
the period says how many there were (A89). Metrics count every one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from maia.broker.sessions.links import Role
from maia.events import Instant
from maia.wire.effects import Effect, Note

_PERIOD_US: Final = 60_000_000
_LINES_OF_STRANGERS: Final = 60
"""Of how many peers that were never welcomed the end is told in a period, for each reason."""
_KINDS_MAX: Final = 4096


@dataclass(slots=True)
class _Said:
    note: Note
    until: int
    lines: int = 1
    left_out: int = 0


class RepeatedNotes:
    """What was noted lately, and how often it was left out since."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self._said: OrderedDict[Hashable, _Said] = OrderedDict()

    def thinned(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Return effects without the lines that have been said, and with those that sum them up."""
        kept = [one for one in effects if type(one) is not Note or self._count(one, now)]
        return [*kept, *self._ended(now)]

    def is_due(self, now: Instant) -> bool:
        """Say whether a period has ended."""
        return bool(self._said) and next(iter(self._said.values())).until <= now

    def _count(self, note: Note, now: Instant) -> bool:
        kind, lines_max = _kind_of(note)
        if kind is None:
            return True
        said = self._said.get(kind)
        if said is None:
            self._said[kind] = _Said(note, now + _PERIOD_US)
            return True
        if said.lines < lines_max:
            said.lines += 1
            return True
        said.left_out += 1
        return False

    def _ended(self, now: Instant) -> list[Effect]:
        summed: list[Effect] = []
        while self.is_due(now) or len(self._said) > _KINDS_MAX:
            _, said = self._said.popitem(last=False)
            if said.left_out:
                summed.append(Note(said.note.event, {**said.note.fields, "repeated": said.left_out}))
        return summed


def _kind_of(note: Note) -> tuple[Hashable, int]:
    """Return by what a line is the same as another one, None if it is not, and how many are said."""
    fields = note.fields
    if note.event == "refused":
        return ("refused", fields.get("link"), fields.get("code"), fields.get("asked")), 1
    if note.event in {"closing", "disconnected"} and fields.get("role") == Role.UNKNOWN.value:
        return (note.event, fields.get("code")), _LINES_OF_STRANGERS
    return None, 0
