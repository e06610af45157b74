"""What does this broker answer for readers who may not read all that their rights are about?

At a publisher's broker a sealed frame gets a column for each answer whose key is held: there all of the
frame is known. So whatever leaves the domain of a publisher is made there, by the rules of the right that
it is for, and sealed for the holders of that right. At a subscriber's broker a View asks these columns for
what this broker must not read; without them it shows nothing. `maia.policy.answers` says what an answer
means, the key server of the type who has its key (docs/decisions/hidden-restrictions.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.keys.keys import SealingKeys, answers_of
from maia.broker.links.transit import Transit
from maia.broker.streams.borders import Released
from maia.events import AttributeUid, Column, Frame, Kind, Value
from maia.policy.answers import Answers, Shown, answer_to, part_of
from maia.policy.view_bytes import class_of, view_from_bytes
from maia.predicates.meaning import admitted_rows
from maia.sealing import EpochKeys

_VIEWS_REMEMBERED: Final = 256


@dataclass(slots=True, eq=False)
class AnswersGiven:
    """The answers in frames that this broker seals."""

    seals: SealingKeys
    audiences: Audiences
    _views: BoundedMap[bytes, Released] = field(default_factory=lambda: BoundedMap(_VIEWS_REMEMBERED))

    def added_to(self, transit: Transit, keys: EpochKeys) -> Transit:
        """Return a publisher's frame with a column for each answer that this broker gives."""
        answers, me = answers_of(self.seals, transit.type_id), self.seals.sealer.instance
        held = (uid for uid in answers if None not in keys.ciphers((part_of(uid) or uid,), me))
        given = {uid: answers[uid] for uid in held}
        if not given:
            return transit
        frame = transit.frame
        columns = {
            uid: Column(Kind.BOOL, answer_to(said, frame))
            for uid, said in sorted(given.items())
            if not isinstance(said, Shown)
        }
        return Transit(
            transit.type_id,
            transit.publisher,
            transit.stream,
            transit.sequence,
            transit.published_at,
            Frame(frame.rows, {**frame.columns, **columns, **self._made(transit, given)}),
            transit.kept,
            transit.written,
            transit.author,
        )

    def _made(self, transit: Transit, given: Answers) -> dict[AttributeUid, Column]:
        """Return what rights that transform show of a frame, each in columns of its own."""
        shown = [(said.seen, uid, said) for uid, said in given.items() if isinstance(said, Shown)]
        columns: dict[AttributeUid, Column] = {}
        for seen, some in groupby(sorted(shown, key=lambda one: one[:2]), key=lambda one: one[0]):
            frame, rows = self._released(transit, seen)
            for _, uid, said in some:
                values: list[Value] = [None] * transit.frame.rows
                made = None if said.uid is None or frame is None else frame.columns.get(said.uid)
                for at, row in enumerate(rows):
                    if said.uid is None:
                        values[row] = True
                    elif made is not None:
                        values[row] = made.values[at]
                columns[uid] = Column(said.kind, tuple(values))
        return columns

    def _released(self, transit: Transit, seen: bytes) -> tuple[Frame | None, list[int]]:
        """Return what a right shows of a frame, and of which of its rows."""
        released = self._views.use(seen)
        if released is None:
            released = Released(view_from_bytes(seen), class_of(seen), self.audiences.secrets)
            self._views.put(seen, released)
        (window,) = released.view.windows
        rows = list(admitted_rows(window.admits, transit.matched))
        # Rows are counted from here on, whichever of them the publisher's own right has left.
        whole = Transit(
            transit.type_id,
            transit.publisher,
            transit.stream,
            transit.sequence,
            transit.published_at,
            transit.frame,
            (),
            transit.written,
            transit.author,
        )
        found = released.of(whole, rows) if rows else None
        if found is None:
            return None, []
        return found.frame, list(found.kept) or list(range(transit.frame.rows))
