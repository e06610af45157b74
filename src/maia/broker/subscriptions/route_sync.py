"""When do other brokers know of a new subscription or advertisement, so that its client can be answered?

A client that was accepted may rely on it: what is published from then on reaches
every subscriber that was accepted before, at whichever broker. Interests and
offers take a moment to get there. So the broker sends `SyncRoutes` behind them, on the
same links. Each broker passes it on where it passes interests on, and answers when all of
those have; links keep their order, so what was sent before has arrived by then, and what
was sent in return has come back. The client is answered after that.

Requests of one type that come meanwhile wait for the next round together, so a
broker has one round under way for a type. A neighbour that does not answer
delays an acceptance by `WITHIN_S`, and prevents none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from maia.bounded_map import BoundedMap
from maia.broker.sessions.links import Advertisement, Entry, Link
from maia.broker.timers import SyncOverdue
from maia.broker.turn import Turn
from maia.events import Instant, seconds_after
from maia.routing.table.hops import TypeId, book_key_of_sealed
from maia.wire.codec import encode
from maia.wire.effects import LinkId, Send
from maia.wire.messages import RoutesSynced, SyncRoutes

if TYPE_CHECKING:
    from maia.broker.state import BrokerState


WITHIN_S: Final = 3.0
_OF_A_NEIGHBOUR_MAX: Final = 256
_FINISHED_REMEMBERED: Final = 4096
_ID_BYTES: Final = 16


class _About(NamedTuple):
    """What requests that share a round have in common."""

    type_ids: tuple[bytes, ...]
    is_offer: bool


@dataclass(slots=True)
class _Waiting:
    """Answers to clients, by link and reference, that wait for the same round."""

    until: Instant
    answers: dict[tuple[LinkId, int], Callable[[Turn], None]] = field(default_factory=dict)


@dataclass(slots=True)
class _Round:
    """One `SyncRoutes` on its way: on behalf of a neighbour, or of this broker's own clients."""

    message: SyncRoutes
    asker: LinkId | None
    waits_for: set[LinkId]
    until: Instant
    about: _About | None = None
    waiting: _Waiting | None = None


@dataclass(slots=True)
class RouteSyncs:
    """The rounds under way at one broker, and the clients that wait for them or for the next one."""

    rounds: dict[bytes, _Round] = field(default_factory=dict)
    next: dict[_About, _Waiting] = field(default_factory=dict)
    """What the next round about something is for."""
    not_received: set[bytes] = field(default_factory=set)
    """Rounds that all neighbours have answered, about what has not arrived at this broker itself."""
    finished: BoundedMap[bytes, None] = field(default_factory=lambda: BoundedMap(_FINISHED_REMEMBERED))

    def is_under_way(self, about: _About) -> bool:
        """Say whether a round about one of these types has not ended, or has not begun."""
        others = (*self.next, *(one.about for one in self.rounds.values() if one.about is not None))
        return any(
            one.is_offer == about.is_offer and not set(one.type_ids).isdisjoint(about.type_ids)
            for one in others
        )


# ------------------------------------------------------------ this broker's clients


def answer_when_known(
    state: BrokerState, entry: Entry, *, since: int, answer: Callable[[Turn], None], turn: Turn
) -> None:
    """Answer a client at once if other brokers need not know what it asks for, and else when they do.

    What was sent `since` this mark was sent for the sake of its request.
    """
    syncs, neighbours = state.syncs, state.routes.node_of
    if not neighbours:
        answer(turn)
        return
    is_offer = isinstance(entry, Advertisement)
    type_ids = entry.type_ids if isinstance(entry, Advertisement) else (entry.right.event_type.type_id,)
    about = _About(type_ids, is_offer)
    is_news = any(isinstance(one, Send) and one.link in neighbours for one in turn.since(since))
    is_unsent = _keys(state, about) is None or (not is_offer and state.router.sync_number() is None)
    if not (is_news or is_unsent or syncs.is_under_way(about)):
        answer(turn)
        return
    if about not in syncs.next:
        syncs.next[about] = _Waiting(seconds_after(turn.now, WITHIN_S))
        state.timers.add(SyncOverdue(), syncs.next[about].until)
    syncs.next[about].answers[entry.link, entry.ref] = answer


def go_on_with_syncs(state: BrokerState, turn: Turn) -> None:
    """Begin rounds for which everything was sent, and end those that waited for this broker alone."""
    syncs = state.syncs
    for one in [syncs.rounds[number] for number in syncs.not_received]:
        _end_if_known(state, one, turn)
    busy = {one.about for one in syncs.rounds.values()}
    for about in [about for about in syncs.next if about not in busy]:
        keys = _keys(state, about)
        number = 0 if about.is_offer else state.router.sync_number()
        if keys is None or number is None:
            continue
        waiting, origin = syncs.next.pop(about), state.principal.key
        message = SyncRoutes(state.random(_ID_BYTES), keys, about.is_offer, origin, number)
        _begin(state, _Round(message, None, set(), waiting.until, about, waiting), turn)


def _keys(state: BrokerState, about: _About) -> list[TypeId] | None:
    """Return the names of types in the routing table; None while keys of a sealed one are on their way."""
    keys: list[TypeId] = []
    for type_id in about.type_ids:
        if state.types.sealing(type_id) is None:
            keys.append(type_id)
            continue
        names = state.blinded.ids(type_id)
        if not names or state.sealed.to_do or any(name not in state.sealed.in_use for name in names):
            return None
        keys += [book_key_of_sealed(name) for name in names]
    return keys[:64]


# ------------------------------------------------------------ rounds


def receive_sync_routes(state: BrokerState, link: Link, message: SyncRoutes, turn: Turn) -> None:
    """Pass a round on, and answer it when all others behind this broker have."""
    syncs = state.syncs
    if message.id in syncs.rounds or message.id in syncs.finished:
        turn.send(link.id, RoutesSynced(message.id))  # it came round in a circle
        return
    if sum(one.asker == link.id for one in syncs.rounds.values()) >= _OF_A_NEIGHBOUR_MAX:
        turn.count("maia_syncs_dropped_total")
        return
    until = seconds_after(turn.now, WITHIN_S)
    state.timers.add(SyncOverdue(), until)
    _begin(state, _Round(message, link.id, set(), until), turn)


def receive_routes_synced(state: BrokerState, link: Link, message: RoutesSynced, turn: Turn) -> None:
    """Take note that a round has ended behind a neighbour."""
    found = state.syncs.rounds.get(message.id)
    if found is None or link.id not in found.waits_for:
        return
    found.waits_for.discard(link.id)
    _end_if_known(state, found, turn)


def forget_syncs_of(state: BrokerState, link: LinkId, turn: Turn) -> None:
    """Expect no answer from a link that is gone, and answer nothing to it."""
    for one in list(state.syncs.rounds.values()):
        if one.asker == link:
            _remove(state, one)
        elif link in one.waits_for:
            one.waits_for.discard(link)
            _end_if_known(state, one, turn)


def end_overdue_syncs(state: BrokerState, turn: Turn) -> None:
    """Answer clients whose time is over, and neighbours not at all: their own clients have waited longer."""
    syncs, now = state.syncs, turn.now
    for one in [one for one in syncs.rounds.values() if one.until <= now]:
        _remove(state, one)
        if one.waiting is not None:
            turn.count("maia_syncs_overdue_total")
            _answer(state, one.waiting, turn)
    for about in [about for about, waiting in syncs.next.items() if waiting.until <= now]:
        turn.count("maia_syncs_overdue_total")
        _answer(state, syncs.next.pop(about), turn)


def _begin(state: BrokerState, one: _Round, turn: Turn) -> None:
    message = one.message
    targets = state.router.sync_targets(message.keys, is_offer=message.is_offer)
    one.waits_for.update(link for link in targets if link != one.asker)
    state.syncs.rounds[message.id] = one
    if not one.waits_for:
        _end_if_known(state, one, turn)
        return
    data = encode(message)
    for link in sorted(one.waits_for):
        turn.send_bytes(link, data)


def _end_if_known(state: BrokerState, one: _Round, turn: Turn) -> None:
    if one.waits_for:
        return
    if not state.router.has_received(one.message.origin, one.message.number):
        state.syncs.not_received.add(one.message.id)
        return
    _remove(state, one)
    if one.waiting is not None:
        _answer(state, one.waiting, turn)
    elif one.asker is not None:
        turn.send(one.asker, RoutesSynced(one.message.id))


def _remove(state: BrokerState, one: _Round) -> None:
    syncs, number = state.syncs, one.message.id
    del syncs.rounds[number]
    syncs.not_received.discard(number)
    syncs.finished.put(number, None)


def _answer(state: BrokerState, waiting: _Waiting, turn: Turn) -> None:
    for (link, ref), answer in waiting.answers.items():
        found = state.links.get(link)
        if found is not None and (ref in found.subscriptions or ref in found.advertisements):
            answer(turn)
