"""Which frame is a publisher's last, and when is it forgotten?

The publication path hands over every frame that it takes on. A frame of a publisher
of this broker is remembered with its right; one that passes is remembered
if it is whole. When a publisher's right is taken away, its last frame goes,
here and at every broker that it passed (A37).
"""

from __future__ import annotations

from collections.abc import Collection

from maia.broker.access.authorisation import Authorisation
from maia.broker.publication.retained_cache import RetainedFrame
from maia.broker.publication.transit import Transit
from maia.broker.sessions.links import Advertisement, Link
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.routing.table.hops import LOCAL, TypeId, book_key_of_sealed
from maia.types.definition import TOPIC
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.messages import Carried, Sealed, StateGone


def remember_own(
    state: BrokerState,
    transit: Transit,
    entry: Advertisement,
    now: Instant,
    consents: tuple[Authorisation, ...] = (),
) -> None:
    """Take note of the last frame of a publisher of this broker, as it was written.

    `consents` are those that let it be seen as this type, if that is a super-type of the publisher's.
    On topics, the last event on each of them counts; other brokers ask here for it each time.
    """
    if not state.types.holds_topics(transit.type_id):
        state.retained.remember(RetainedFrame(transit.as_carried(), now, LOCAL, entry.right, consents))
        return
    last = {str(topic): row for row, topic in enumerate(transit.frame.columns[TOPIC.uid].values)}
    for topic, row in last.items():
        state.retained.remember(RetainedFrame(transit, now, LOCAL, entry.right, row=row), topic)


def move_retained(state: BrokerState, entry: Advertisement) -> None:
    """Keep what a publisher said last under the right that it has now: the one before serves no more."""
    for type_id, stream in _streams(entry):
        state.retained.rest_on(type_id, entry.right.principal.key, stream, entry.right)


def _streams(entry: Advertisement) -> list[tuple[bytes, bytes]]:
    """Return under which types and streams a publisher's frames are remembered."""
    above = [(one.type_id, one.stream) for one in entry.projections]
    return [(entry.right.event_type.type_id, entry.stream), *above]


def remember_passing(state: BrokerState, frame: Carried | Sealed, source: LinkId, now: Instant) -> None:
    """Take note of a frame that passes whole; a part of one, or one of topics, is not retained."""
    if state.types.holds_topics(frame.type_id):
        return
    is_cut = frame.blocks if isinstance(frame, Sealed) else frame.kept
    node = state.routes.node_of.get(source)
    if not is_cut and node is not None:
        state.retained.remember(RetainedFrame(frame, now, node))


def publisher_lost_its_right(state: BrokerState, entry: Advertisement) -> list[Effect]:
    """Forget what a publisher said last, and have others forget it."""
    publisher, effects = entry.right.principal.key, list[Effect]()
    for type_id, stream in _streams(entry):
        effects += forget_stream(state, type_id, publisher, stream)
    return effects


def forget_stream(state: BrokerState, type_id: bytes, publisher: bytes, stream: bytes) -> list[Effect]:
    """Forget what was said last on one stream, and have others forget it."""
    state.retained.forget(type_id, publisher, stream)
    return _tell_gone(state, StateGone(type_id, publisher, stream), besides=None)


def forget_retained(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Forget what was said by publishers who could say it by one of these certificates alone."""
    effects: list[Effect] = []
    changed = frozenset(certificates)
    for type_id, publisher, stream, said in state.retained.under_rights():
        touched = [one for one in said.rights if one.depends_on(changed)]
        try:
            for right in touched:
                state.authoriser.decide_again(right, now)
        except PolicyRefusal:
            effects += forget_stream(state, type_id, publisher, stream)
    return effects


def receive_state_gone(state: BrokerState, link: Link, message: StateGone, _now: Instant) -> list[Effect]:
    """Forget what a publisher said last, if that came the same way, and have others forget it."""
    node = state.routes.node_of[link.id]
    if not state.retained.forget(message.type_id, message.publisher, message.stream, node):
        return []
    return _tell_gone(state, message, besides=link.id)


def _tell_gone(state: BrokerState, message: StateGone, *, besides: LinkId | None) -> list[Effect]:
    data, book = encode(message), state.routes.book
    keys = book_keys(message.type_id)
    hops = dict.fromkeys(hop for key in keys for hop in book.hops(key) if book.wanted(hop, key))
    links = dict.fromkeys(state.routes.link_to(hop) for hop in hops)
    return [Send(link, data) for link in links if link is not None and link != besides]


def book_keys(type_id: bytes) -> tuple[TypeId, TypeId]:
    """Return both names under which the routing book may know a type.

    Whoever only carries a type has not seen its definition, and cannot say whether it is sealed.
    """
    return type_id, book_key_of_sealed(type_id)
