"""How does an application name several topics, in a subscription and in a publication (Gismo, figure 2)?

A subscription to several topics is one for each tree that they lie in. A
publication on several topics is an event on each of them, with the same random
`publication`, which the declaration of the tree provides for (`maia topic declare --several`).
A subscriber gets the first of them that it may see and has asked for, and no other: of the same
publisher, because another one could repeat a number to keep an event from its readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from secrets import token_bytes
from typing import Final, TypeAlias

from maia.client import GapDetected
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.client.entries import TOPICS_MAX, SeenPublications, check_several
from maia.credentials import TopicName
from maia.errors import BadInput, MaiaError
from maia.events import Value
from maia.types import VerifiedType
from maia.types.definition import PUBLICATION, tree_meant, tree_name

Topic: TypeAlias = str | TopicName

_NUMBER_BYTES: Final = 16


def by_tree(topics: Iterable[Topic]) -> dict[Topic, list[Topic]]:
    """Return topics, each once, by one of those that lie in the same tree."""
    found: dict[object, list[Topic]] = {}
    for one in dict.fromkeys(topics):
        named = tree_name(one.owner, one.path) if isinstance(one, TopicName) else None
        found.setdefault(named or tree_meant(str(one))[0], []).append(one)
    if not 1 <= sum(map(len, found.values())) <= TOPICS_MAX:
        raise BadInput("INPUT-TOPICS", f"name 1 to {TOPICS_MAX} topics")
    return {some[0]: some for some in found.values()}


def new_publication(types: Iterable[VerifiedType], topics: int) -> Mapping[str, Value]:
    """Return what the events of one publication have in common; raise if a tree does not provide for it."""
    if topics == 1:
        return {}
    for one in types:
        check_several(one)
    return {PUBLICATION.name: token_bytes(_NUMBER_BYTES)}


class TopicsSubscription:
    """The events on several topics, each publication once. Made by `client.subscribe_to`."""

    def __init__(self, parts: Sequence[Subscription]) -> None:
        """Receive from the subscriptions to each of the trees."""
        self.parts = tuple(parts)
        self._arrived = asyncio.Event()
        seen = SeenPublications()
        for one in self.parts:
            one._seen, one._on_arrival = seen, self._arrived.set

    @property
    def hidden(self) -> frozenset[str]:
        """Return the names of the attributes that the subscriber's own rights do not show."""
        return frozenset(chain.from_iterable(one.hidden for one in self.parts))

    @property
    def warning(self) -> MaiaError | None:
        """Return why nothing can arrive from one of the trees at this moment, if a broker has said so."""
        return next((one.warning for one in self.parts if one.warning is not None), None)

    @property
    def missed(self) -> tuple[GapDetected, ...]:
        """Return what a durable subscription should have had and cannot have any more."""
        return tuple(chain.from_iterable(one.missed for one in self.parts))

    @property
    def changed(self) -> MaiaError | None:
        """Return why one of them may show something else than when it was asked for, if that is so."""
        return next((one.changed for one in self.parts if one.changed is not None), None)

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        """Return the events in the order in which they arrive."""
        return self

    async def __anext__(self) -> ReceivedEvent:
        """Return the next event; raise the refusal when the subscription to one tree has ended for good."""
        while True:
            self._arrived.clear()
            for one in self.parts:
                if (event := one._next_ready()) is not None:
                    return event
            for one in self.parts:
                one._raise_if_over()
            await self._arrived.wait()

    async def unsubscribe(self, *, forget: bool = False, timeout_s: float = 30.0) -> None:
        """Take the subscription back; events that have arrived can still be taken."""
        for one in self.parts:
            await one.unsubscribe(forget=forget, timeout_s=timeout_s)
