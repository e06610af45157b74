"""Which frames are a publisher's last word, and when does it count no more?

The publication path tells of every frame that it takes on. What a publisher
of this broker said is remembered with its right; what comes by is remembered
if it is whole. When a publisher's right is taken away, its last word goes,
here and at every broker that it passed (A37).
"""

from __future__ import annotations

from maia.broker.sessions import Advertisement, Link
from maia.broker.state import BrokerState
from maia.broker.state_cache import Remembered
from maia.broker.transit import Transit
from maia.events import Instant
from maia.routing.hops import LOCAL, TypeId, book_key_of_sealed
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import Sealed, StateGone

__all__ = [
    "book_key",
    "hear_state_gone",
    "publisher_lost_its_right",
    "remember_own",
    "remember_passing",
]


def remember_own(state: BrokerState, transit: Transit, entry: Advertisement, now: Instant) -> None:
    """Take note of the last frame of a publisher of this broker, as it was written."""
    state.last_said.remember(Remembered(transit, now, LOCAL, entry.right))


def remember_passing(state: BrokerState, frame: Transit | Sealed, source: LinkId, now: Instant) -> None:
    """Take note of a frame that passes whole; a part of one is nobody's last word."""
    is_cut = frame.blocks if isinstance(frame, Sealed) else frame.kept
    node = state.routes.node_of.get(source)
    if not is_cut and node is not None:
        state.last_said.remember(Remembered(frame, now, node))


def publisher_lost_its_right(state: BrokerState, entry: Advertisement) -> list[Effect]:
    """Forget what a publisher said last, and have others forget it."""
    type_id, publisher = entry.right.event_type.type_id, entry.right.principal.key
    state.last_said.forget(type_id, publisher, entry.stream)
    return _tell_gone(state, StateGone(type_id, publisher, entry.stream), besides=None)


def hear_state_gone(state: BrokerState, link: Link, message: StateGone, _now: Instant) -> list[Effect]:
    """Forget what a publisher said last, if that came the same way, and have others forget it."""
    node = state.routes.node_of[link.id]
    known = state.last_said.of_type(message.type_id)
    said = [one for who, stream, one in known if (who, stream) == (message.publisher, message.stream)]
    if not said or said[0].came_from != node:
        return []
    state.last_said.forget(message.type_id, message.publisher, message.stream)
    return _tell_gone(state, message, besides=link.id)


def _tell_gone(state: BrokerState, message: StateGone, *, besides: LinkId | None) -> list[Effect]:
    key, data = book_key(state, message.type_id), encode(message)
    book = state.routes.book
    links = (state.routes.link_to(hop) for hop in book.hops(key) if book.wanted(hop, key))
    return [Send(link, data) for link in links if link is not None and link != besides]


def book_key(state: BrokerState, type_id: bytes) -> TypeId:
    """Return the name under which the routing book knows a type."""
    return type_id if state.types.sealing(type_id) is None else book_key_of_sealed(type_id)
