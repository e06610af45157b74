"""Which frames are a publisher's last word, and when does it count no more?

The publication path tells of every frame that it takes on. What a publisher
of this broker said is remembered with its right; what comes by is remembered
if it is whole. When a publisher's right is taken away, its last word goes,
here and at every broker that it passed (A37).
"""

from __future__ import annotations

from collections.abc import Collection

from maia.broker.publication.retained_cache import Remembered
from maia.broker.publication.transit import Transit
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.routing.table.hops import LOCAL, TypeId, book_key_of_sealed
from maia.types.topics import TOPIC, tree_root
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import Sealed, StateGone

__all__ = [
    "book_keys",
    "forget_last_said",
    "hear_state_gone",
    "holds_topics",
    "publisher_lost_its_right",
    "remember_own",
    "remember_passing",
    "say_under",
]


def remember_own(state: BrokerState, transit: Transit, entry: Advertisement, now: Instant) -> None:
    """Take note of the last frame of a publisher of this broker, as it was written.

    On topics, the last event on each of them counts; other brokers ask here for it each time.
    """
    if not holds_topics(state, transit.type_id):
        state.last_said.remember(Remembered(transit, now, LOCAL, entry.right))
        return
    last = {str(topic): row for row, topic in enumerate(transit.frame.columns[TOPIC.uid].values)}
    for topic, row in last.items():
        state.last_said.remember(Remembered(transit, now, LOCAL, entry.right, row=row), topic)


def say_under(state: BrokerState, entry: Advertisement) -> None:
    """Let what a publisher said last rest on the right that it has now: the one before serves no more."""
    type_id, publisher = entry.right.event_type.type_id, entry.right.principal.key
    state.last_said.rest_on(type_id, publisher, entry.stream, entry.right)


def remember_passing(state: BrokerState, frame: Transit | Sealed, source: LinkId, now: Instant) -> None:
    """Take note of a frame that passes whole; a part of one, or one of topics, is nobody's last word."""
    if holds_topics(state, frame.type_id):
        return
    is_cut = frame.blocks if isinstance(frame, Sealed) else frame.kept
    node = state.routes.node_of.get(source)
    if not is_cut and node is not None:
        state.last_said.remember(Remembered(frame, now, node))


def holds_topics(state: BrokerState, type_id: bytes) -> bool:
    """Say whether a type is known here as a tree of topics."""
    return any(tree_root(version.name.name) is not None for version in state.types.versions(type_id)[:1])


def publisher_lost_its_right(state: BrokerState, entry: Advertisement) -> list[Effect]:
    """Forget what a publisher said last, and have others forget it."""
    type_id, publisher = entry.right.event_type.type_id, entry.right.principal.key
    state.last_said.forget(type_id, publisher, entry.stream)
    return _tell_gone(state, StateGone(type_id, publisher, entry.stream), besides=None)


def forget_last_said(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Forget what was said by publishers who could say it by one of these certificates alone."""
    effects: list[Effect] = []
    for type_id, publisher, stream, said in state.last_said.under_rights():
        if said.right is None or said.right.watched.isdisjoint(certificates):
            continue
        try:
            state.authoriser.decide_again(said.right, now)
        except PolicyRefusal:
            state.last_said.forget(type_id, publisher, stream)
            effects += _tell_gone(state, StateGone(type_id, publisher, stream), besides=None)
    return effects


def hear_state_gone(state: BrokerState, link: Link, message: StateGone, _now: Instant) -> list[Effect]:
    """Forget what a publisher said last, if that came the same way, and have others forget it."""
    node = state.routes.node_of[link.id]
    if not state.last_said.forget(message.type_id, message.publisher, message.stream, node):
        return []
    return _tell_gone(state, message, besides=link.id)


def _tell_gone(state: BrokerState, message: StateGone, *, besides: LinkId | None) -> list[Effect]:
    data, book = encode(message), state.routes.book
    keys = book_keys(message.type_id)
    hops = dict.fromkeys(hop for key in keys for hop in book.hops(key) if book.wanted(hop, key))
    links = (state.routes.link_to(hop) for hop in hops)
    return [Send(link, data) for link in links if link is not None and link != besides]


def book_keys(type_id: bytes) -> tuple[TypeId, TypeId]:
    """Return both names under which the routing book may know a type.

    Whoever only carries a type has not seen its definition, and cannot say whether it is sealed.
    """
    return type_id, book_key_of_sealed(type_id)
