"""What follows from one input, and in which order does it leave?

Every function of the broker that says, keeps, notes or counts something is handed the turn, and adds to it.
The order in which all of it leaves is this, and is written nowhere else:

1. What has to be on disk (`keep`) comes before anything that is said (A65): a peer that has been answered
   can rely on it. It stays even if the request at hand fails.
2. What goes on record about deliveries comes before them (X5), and what is sealed in a turn is signed with
   one signature; the broker adds both when a part of the turn leaves.
3. What is said leaves in the order in which it was said; what follows from statements that a peer has shown
   comes first, even if its own request is refused. A certificate's holders are told what they lost
   before the statement that took it is on disk (A35): `keep_later` puts that off to the next part.
4. What no peer that was answered so far has to wait for comes in a part of its own (`after`): subscribers and
   neighbours before a publisher's answer. The runtime sends a part before it asks for the next one, and no
   other input comes between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from maia.broker.refusals import refusal_id
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, LinkId, Note, Send
from maia.wire.messages import Message


class Part(NamedTuple):
    """What is left to do of an input: where that came from, who is blamed if it fails, and the work."""

    link: LinkId
    work: Callable[[Turn], None]


class Turn:
    """What one input makes a broker do, as far as it has come."""

    __slots__ = ("_first", "_kept", "effects", "now", "parts")

    def __init__(self, now: Instant) -> None:
        """Begin with nothing, at this moment."""
        self.now = now
        self.effects: list[Effect] = []
        self.parts: deque[Part] = deque()
        self._kept: list[Effect] = []
        self._first: list[Effect] = []

    # ------------------------------------------------------------ what is said

    def add(self, *effects: Effect) -> None:
        """Have these done, in their order."""
        self.effects += effects

    def send(self, link: LinkId, message: Message) -> None:
        """Send a message."""
        self.effects.append(Send(link, encode(message)))

    def send_bytes(self, link: LinkId, data: bytes) -> None:
        """Send a message that is encoded already."""
        self.effects.append(Send(link, data))

    def note(self, event: str, /, **fields: object) -> None:
        """Write a line to the log."""
        self.effects.append(Note(event, fields))

    def count(self, name: str, amount: int = 1, *, code: str = "") -> None:
        """Add to a metric, under a code if it has one."""
        self.effects.append(Count(name, amount, {"code": code}) if code else Count(name, amount))

    def say_first(self, *effects: Effect) -> None:
        """Have these said before all else that the input at hand causes, whatever becomes of it."""
        self._first += effects

    def put_first(self, mark: int) -> None:
        """Put what is to be said first where the input at hand began."""
        if self._first:
            self.effects[mark:mark] = self._first
            self._first.clear()

    def refused(self, problem: MaiaError, principal: Principal, /, **named: object) -> None:
        """Note and count a refusal: its code, never what it was compared with."""
        self.note_refused(problem, principal, **named)
        self.count("maia_refused_total", code=problem.code)

    def note_refused(
        self, problem: type[MaiaError] | MaiaError, principal: Principal, /, **named: object
    ) -> None:
        """Write a refusal to the log, and to the list that an operator is shown."""
        fields: dict[str, object] = {"code": problem.code, "principal": str(principal), **named}
        self.note("refused", refusal=refusal_id(fields), **fields)

    # ------------------------------------------------------------ what is kept, and what comes later

    def keep(self, *effects: Effect) -> None:
        """Have these on disk before anything is said, whatever becomes of the input at hand."""
        self._kept += effects

    def keep_later(self, link: LinkId, work: Callable[[Turn], None]) -> None:
        """Do this in the next part, and keep there what was to be kept with this one."""
        kept = self._kept[:]
        self._kept.clear()

        def go_on(turn: Turn) -> None:
            turn.keep(*kept)
            work(turn)

        self.parts.appendleft(Part(link, go_on))

    def after(self, link: LinkId, work: Callable[[Turn], None]) -> None:
        """Do this in a part of its own, behind all that is said so far."""
        self.parts.append(Part(link, work))

    # ------------------------------------------------------------ what became of it

    def mark(self) -> int:
        """Return how far it has come, for `drop` and `since`."""
        return len(self.effects)

    def drop(self, mark: int) -> None:
        """Leave unsaid what was said since a mark: what it was said for has failed. What is kept stays."""
        del self.effects[mark:]

    def since(self, mark: int) -> list[Effect]:
        """Return what was said since a mark."""
        return self.effects[mark:]

    def beside(self) -> Turn:
        """Return the same turn with nothing said yet: for what leaves before, or behind, all the rest."""
        other = Turn(self.now)
        other.parts, other._kept, other._first = self.parts, self._kept, self._first
        return other

    def part(self) -> list[Effect]:
        """Return what leaves with this part, and begin the next one."""
        effects, self.effects = self.effects, []
        if self._kept:
            effects = [*self._kept, *effects]
            self._kept.clear()
        return effects
