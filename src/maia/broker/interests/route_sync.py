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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from maia.bounded_map import BoundedMap
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.interests.sealed import SealedInterests
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.links import Advertisement, Entry, Link
from maia.broker.own import Own
from maia.broker.rights.known_types import KnownTypes
from maia.broker.timers import SyncOverdue, TimerWheel
from maia.broker.turn import Turn
from maia.events import Instant, seconds_after
from maia.routing.table.hops import TypeId, book_key_of_sealed
from maia.wire.codec import encode
from maia.wire.effects import LinkId, Send
from maia.wire.messages import RoutesSynced, SyncRoutes

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


@dataclass(slots=True, eq=False, repr=False)
class RouteSyncs:
    """The rounds under way at one broker, and the clients that wait for them or for the next one."""

    own: Own
    router: Router
    routes: Routes
    links: Mapping[LinkId, Link]
    timers: TimerWheel
    types: KnownTypes
    blinded: BlindedIds
    sealed: SealedInterests
    rounds: dict[bytes, _Round] = field(default_factory=dict, init=False)
    next: dict[_About, _Waiting] = field(default_factory=dict, init=False)
    """What the next round about something is for."""
    not_received: set[bytes] = field(default_factory=set, init=False)
    """Rounds that all neighbours have answered, about what has not arrived at this broker itself."""
    _finished: BoundedMap[bytes, None] = field(
        default_factory=lambda: BoundedMap(_FINISHED_REMEMBERED), init=False
    )

    # ------------------------------------------------------------ this broker's clients

    def answer_when_known(
        self, entry: Entry, *, since: int, answer: Callable[[Turn], None], turn: Turn
    ) -> None:
        """Answer a client at once if other brokers need not know what it asks for, and else when they do.

        What was sent `since` this mark was sent for the sake of its request.
        """
        neighbours, is_offer = self.routes.node_of, isinstance(entry, Advertisement)
        type_ids = entry.type_ids if isinstance(entry, Advertisement) else (entry.right.event_type.type_id,)
        about = _About(type_ids, is_offer)
        is_news = any(isinstance(one, Send) and one.link in neighbours for one in turn.since(since))
        if not neighbours or not (is_news or self._is_unsent(about) or self._is_under_way(about)):
            answer(turn)
            return
        if about not in self.next:
            self.next[about] = _Waiting(seconds_after(turn.now, WITHIN_S))
            self.timers.add(SyncOverdue(), self.next[about].until)
        self.next[about].answers[entry.link, entry.ref] = answer

    def _is_unsent(self, about: _About) -> bool:
        return self._keys(about) is None or self._number(about) is None

    def _is_under_way(self, about: _About) -> bool:
        """Return whether a round about one of these types has not ended, or has not begun."""
        others = (*self.next, *(one.about for one in self.rounds.values() if one.about is not None))
        return any(
            one.is_offer == about.is_offer and not set(one.type_ids).isdisjoint(about.type_ids)
            for one in others
        )

    def _number(self, about: _About) -> int | None:
        """Return the number of the aggregate that has what is waited for; None while it was not sent."""
        flooding = self.router.flooding
        return 0 if about.is_offer or flooding is None else flooding.sync_number()

    def _keys(self, about: _About) -> list[TypeId] | None:
        """Return the names of types in the routing table; None while keys of one are on their way."""
        found: list[TypeId] = []
        for type_id in about.type_ids:
            if self.types.sealing(type_id) is None:
                found.append(type_id)
                continue
            names = self.blinded.ids(type_id)
            if not names or self.sealed.to_do or any(name not in self.sealed.in_use for name in names):
                return None
            found += map(book_key_of_sealed, names)
        return found[:64]

    def go_on(self, turn: Turn) -> None:
        """Begin rounds for which everything was sent, and end those that waited for this broker alone."""
        for one in [self.rounds[number] for number in self.not_received]:
            self._end_if_known(one, turn)
        busy = {one.about for one in self.rounds.values()}
        for about in [about for about in self.next if about not in busy]:
            keys = self._keys(about)
            number = self._number(about)
            if keys is None or number is None:
                continue
            waiting = self.next.pop(about)
            message = SyncRoutes(
                self.own.random(_ID_BYTES), keys, about.is_offer, self.own.principal.key, number
            )
            self._begin(_Round(message, None, set(), waiting.until, about, waiting), turn)

    # ------------------------------------------------------------ rounds

    def receive(self, link: Link, message: SyncRoutes, turn: Turn) -> None:
        """Pass a round on, and answer it when all others behind this broker have."""
        if message.id in self.rounds or message.id in self._finished:
            turn.send(link.id, RoutesSynced(message.id))  # it came round in a circle
        elif sum(one.asker == link.id for one in self.rounds.values()) >= _OF_A_NEIGHBOUR_MAX:
            turn.count("maia_syncs_dropped_total")
        else:
            until = seconds_after(turn.now, WITHIN_S)
            self.timers.add(SyncOverdue(), until)
            self._begin(_Round(message, link.id, set(), until), turn)

    def receive_end(self, link: Link, message: RoutesSynced, turn: Turn) -> None:
        """Take note that a round has ended behind a neighbour."""
        found = self.rounds.get(message.id)
        if found is not None and link.id in found.waits_for:
            found.waits_for.discard(link.id)
            self._end_if_known(found, turn)

    def forget(self, link: LinkId, turn: Turn) -> None:
        """Expect no answer from a link that is gone, and answer nothing to it."""
        for one in list(self.rounds.values()):
            if one.asker == link:
                self._remove(one)
            elif link in one.waits_for:
                one.waits_for.discard(link)
                self._end_if_known(one, turn)

    def end_overdue(self, turn: Turn) -> None:
        """Answer clients whose time is over, and no neighbours: their own clients have waited longer."""
        for one in [one for one in self.rounds.values() if one.until <= turn.now]:
            self._remove(one)
            if one.waiting is not None:
                turn.count("maia_syncs_overdue_total")
                self._answer(one.waiting, turn)
        for about in [about for about, waiting in self.next.items() if waiting.until <= turn.now]:
            turn.count("maia_syncs_overdue_total")
            self._answer(self.next.pop(about), turn)

    def _begin(self, one: _Round, turn: Turn) -> None:
        message = one.message
        targets = self.router.sync_targets(message.keys, is_offer=message.is_offer)
        one.waits_for.update(link for link in targets if link != one.asker)
        self.rounds[message.id] = one
        data = encode(message)
        for link in sorted(one.waits_for):
            turn.send_bytes(link, data)
        self._end_if_known(one, turn)

    def _end_if_known(self, one: _Round, turn: Turn) -> None:
        if one.waits_for:
            return
        flooding = self.router.flooding
        if flooding is not None and not flooding.has_received(one.message.origin, one.message.number):
            self.not_received.add(one.message.id)
            return
        self._remove(one)
        if one.waiting is not None:
            self._answer(one.waiting, turn)
        elif one.asker is not None:
            turn.send(one.asker, RoutesSynced(one.message.id))

    def _remove(self, one: _Round) -> None:
        number = one.message.id
        del self.rounds[number]
        self.not_received.discard(number)
        self._finished.put(number, None)

    def _answer(self, waiting: _Waiting, turn: Turn) -> None:
        for (link, ref), answer in waiting.answers.items():
            found = self.links.get(link)
            if found is not None and (ref in found.subscriptions or ref in found.advertisements):
                answer(turn)
