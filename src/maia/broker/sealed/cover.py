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

from maia.broker.sealed.key_events import answer_waiting
from maia.broker.sealed.publication import send_cover
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.routing.table.hops import LOCAL, book_key_of_sealed
from maia.types import Cover
from maia.wire.effects import Effect


def send_due_slots(state: BrokerState, now: Instant) -> list[Effect]:
    """Fill the slots that have come."""
    effects: list[Effect] = []
    for type_id, cover in list(_published_here(state, now)):
        slot = now // _length(cover)
        last, state.cover.last[type_id] = state.cover.last.get(type_id), slot
        if last is not None and last < slot:
            effects += _filled(state, type_id, now)
    return effects


def next_slot(state: BrokerState, now: Instant) -> Instant | None:
    """Return when the next slot comes."""
    lengths = [_length(cover) for _, cover in _published_here(state, now)]
    return min((Instant((now // length + 1) * length) for length in lengths), default=None)


def _published_here(state: BrokerState, now: Instant) -> Iterator[tuple[bytes, Cover]]:
    """Yield the covered types of which this broker has a publisher."""
    for type_id, cover in state.blinded.covered():
        name = state.blinded.publishing_id(type_id, now)
        if name is not None and state.routes.book.offers(LOCAL, book_key_of_sealed(name)):
            yield type_id, cover


def _length(cover: Cover) -> int:
    return cover.every_ms * 1000


def _filled(state: BrokerState, type_id: bytes, now: Instant) -> list[Effect]:
    sealing, slots = state.types.sealing(type_id), state.cover
    assert sealing is not None  # noqa: S101 - it is covered
    effects: list[Effect] = []
    slots.taking, slots.is_filled = type_id, False
    try:
        # A frame may turn out to be refused, or a repetition: then the next one has the slot.
        while not slots.is_filled and (waiting := slots.next_frame(type_id)) is not None:
            effects += answer_waiting(state, *waiting, now)
    finally:
        slots.taking = None
    return effects if slots.is_filled else [*effects, *send_cover(state, type_id, sealing, now)]
