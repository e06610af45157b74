"""Which facts come on an event stream? Each event says of one row that it holds, or holds no more.

Publishers say what they know again and again; a stream that is silent for
longer than its owner stated has lost its facts, and what watches them
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from maia.client.api.client import Client
from maia.client.api.subscription import ReceivedEvent
from maia.config.row_sources import row_of
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.facts.poller import FactAges
from maia.domain.server.prepared_access import StreamOfFacts
from maia.domain.server.service import DomainService
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.observer import Records

_AGAIN_S: Final = 2.0
_LOOK_S: Final = 1.0


class FactStream:
    """Feeds one fact from a stream for as long as it runs."""

    def __init__(
        self,
        stream: StreamOfFacts,
        service: DomainService,
        ages: FactAges,
        *,
        clock: Callable[[], Instant],
        records: Records,
    ) -> None:
        """Feed the service; ages are shared by all feeders."""
        self._stream, self._service, self._ages = stream, service, ages
        self._clock, self._records = clock, records
        self._is_lost = False

    async def listen(self, client: Client) -> None:
        """Take what is published; begin again whenever the subscription ends."""
        while True:
            try:
                subscription = await client.subscribe(self._stream.definition, state=True)
                async for event in subscription:
                    await self._take(event)
                return  # the client was closed
            except MaiaError as problem:
                self._records.note("failed", {"fact": self._stream.name, "code": problem.code})
            await asyncio.sleep(_AGAIN_S)

    async def watch(self) -> None:
        """Retract everything when the stream has been silent for too long; this runs without a broker too."""
        while True:
            await self.check_stale()
            await asyncio.sleep(min(_LOOK_S, self._stream.stale_s))

    async def check_stale(self) -> None:
        """Retract everything if the last event is too old."""
        now, last = self._clock(), self._ages.last(self._stream.name)
        is_fresh = last is not None and last <= now < last + self._stream.stale_s * SECOND
        if is_fresh or self._is_lost:
            return
        name = self._stream.name
        with suppress(MaiaError):  # the store is not there either; the next round tries again
            await self._service.take_away(
                lambda access: access.replace_facts(name, [], actor=self._service.principal, now=now)
            )
            self._is_lost = True
            self._records.note("failed", {"fact": name, "why": "silent for too long, and lost"})

    async def _take(self, event: ReceivedEvent) -> None:
        stream, now = self._stream, self._clock()
        try:
            row = row_of([event.get(name) for name in stream.columns], stream.kinds)
            holds = stream.holds is None or event.get(stream.holds) is True
            actor = self._service.principal

            def work(access: AccessControl) -> Revoked:
                if not holds:
                    return access.retract_fact(stream.name, row, actor=actor, now=now)
                access.assert_fact(stream.name, row, actor=actor, now=now)
                return Revoked()

            await self._service.take_away(work)
        except MaiaError as problem:
            self._records.note("failed", {"fact": stream.name, "code": problem.code, "why": problem.message})
            return
        self._ages.note(stream.name, now)
        self._is_lost = False
