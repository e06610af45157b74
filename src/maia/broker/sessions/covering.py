"""When does a frame of a covered type leave, and what fills the slots without an event?

The owner of a type chooses a rate and a size. A broker with a publisher of the
type sends one frame in every slot, all of that size, whether there is an event
or not: an event waits for its slot, and a slot without one carries cover. What
an observer sees depends on the owner's choice and on nothing that is published.
Slots are counted from one moment for everybody, so that types with the same
rate leave together. A broker that slept skips what it missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from maia.broker.interests.routes import Routes
from maia.broker.keys.blinded import BlindedIds, CoverSlots
from maia.broker.rights.known_types import KnownTypes
from maia.broker.sessions.key_events import KeyEvents
from maia.broker.streams.streams import Streams
from maia.broker.turn import Turn
from maia.events import Instant
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.types import Cover


@dataclass(slots=True, eq=False, repr=False)
class Covering:
    """The slots of covered types."""

    types: KnownTypes
    routes: Routes
    blinded: BlindedIds
    cover: CoverSlots
    streams: Streams
    key_events: KeyEvents

    def send_due_slots(self, turn: Turn) -> None:
        """Fill the slots that have come."""
        for type_id, cover in list(self._published_here(turn.now)):
            slot = turn.now // _length(cover)
            last, self.cover.last[type_id] = self.cover.last.get(type_id), slot
            if last is not None and last < slot:
                self._fill(type_id, turn)

    def next_slot(self, now: Instant) -> Instant | None:
        """Return when the next slot comes."""
        lengths = [_length(cover) for _, cover in self._published_here(now)]
        return min((Instant((now // length + 1) * length) for length in lengths), default=None)

    def _published_here(self, now: Instant) -> Iterator[tuple[bytes, Cover]]:
        """Yield the covered types of which this broker has a publisher."""
        for type_id, cover in self.blinded.covered():
            name = self.blinded.publishing_id(type_id, now)
            if name is not None and self.routes.book.offers(LOCAL, book_key_of_sealed(name)):
                yield type_id, cover

    def _fill(self, type_id: bytes, turn: Turn) -> None:
        sealing, slots = self.types.sealing(type_id), self.cover
        assert sealing is not None  # noqa: S101 - it is covered
        slots.taking, slots.is_filled = type_id, False
        try:
            # A frame may turn out to be refused, or a repetition: then the next one has the slot.
            while not slots.is_filled and (waiting := slots.next_frame(type_id)) is not None:
                self.key_events.answer_waiting(*waiting, turn)
        finally:
            slots.taking = None
        if not slots.is_filled:
            self.streams.send_cover(type_id, sealing, turn)


def _length(cover: Cover) -> int:
    return cover.every_ms * 1000
