"""What does a caller read that asks for events: server-sent events, and where does it go on later?

    id: 0.kD2r…
    data: {"topic":"plates/Soho","payload":{"plate":"BD51 SMR"},"publisher":"…","published_at":"…"}

A stream is a few subscriptions under the account's key. What the broker does not show is not in it. When a
subscription ends, as after a revocation, an `end` event says why, and the stream ends. With a name, the
subscriptions are durable. The `id` behind the last event of a frame holds positions that only the
broker reads. A caller that comes back with it has shown how far it got, and only then is that acknowledged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from maia.api.problems import problem_of
from maia.client.api.by_frame import call_on_arrival, call_on_waiting, share_publications
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.client.entries import SeenPublications
from maia.client.errors import ClientClosed
from maia.errors import BadInput, MaiaError
from maia.gateway.server.shares import Unread
from maia.gateway.server.upstream import Upstream
from maia.gateway.topic_table import NotDeclared, TopicInterest, TopicRow, TopicTable, check_filter, matches

_EVENTS_TOGETHER: Final = 256
_BYTES_TOGETHER: Final = 64 << 10
_CHUNKS_WAITING: Final = 4
_WHOLE_FRAME: Final = 1 << 20
_SILENT_S: Final = 15.0
"""After how long without an event a comment is sent, so that proxies and dead connections are noticed."""
FRAMES_UNSHOWN_MAX: Final = 128
"""After so many frames a durable stream ends, for its reader to come back with the id: the broker keeps no
more than `limits.durable_frames_under_way` unacknowledged."""
_ID_BYTES_MAX: Final = 4096
_POSITION_BYTES_MAX: Final = 64
_BEGIN: Final = b"retry: 1000\n\n"


class EventData(msgspec.Struct, omit_defaults=True):
    """One event as its reader gets it; what the reader may not see is absent."""

    topic: str
    publisher: str
    published_at: str
    payload: msgspec.Raw | str | None = None
    """A JSON value where the topic's payloads are JSON, and a text otherwise."""
    payload_base64: str | None = None
    """A payload that is neither."""
    content_type: str | None = None
    retained: bool = False


def _block(kind: str, data: object) -> bytes:
    # JSON has no line break outside of an escape, so no value can begin a field of its own (A3).
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def positions_from_id(shown: str | None) -> dict[int, bytes]:
    """Return where a caller was, by row of the table; the broker judges the positions."""
    found: dict[int, bytes] = {}
    if shown and len(shown) <= _ID_BYTES_MAX:
        with suppress(ValueError, binascii.Error):
            for one in shown.split("~"):
                row, _, position = one.partition(".")
                found[int(row)] = base64.urlsafe_b64decode(position)
            if all(0 < len(one) <= _POSITION_BYTES_MAX for one in found.values()):
                return found
    if shown:
        raise BadInput("INPUT-API-CALL", "the `Last-Event-ID` is none that this gateway has sent")
    return found


class EventStream:
    """One answer of server-sent events."""

    def __init__(
        self,
        upstream: Upstream,
        table: TopicTable,
        topics: Sequence[str],
        name: str | None,
        shown: str | None,
        unread: Unread,
    ) -> None:
        """Prepare a stream of what MQTT topic filters mean; `shown` is the caller's last event id."""
        self._unread, self._seen = unread, SeenPublications()
        checked = [check_filter(one) for one in dict.fromkeys(topics)]
        self._filters = [levels for group, levels in checked if group is None]
        interests = table.interests_of_any(self._filters) if len(self._filters) == len(checked) else ()
        if not interests:
            raise NotDeclared("no topic that is declared here matches this filter")
        self._interests, self._table, self._upstream, self.name = interests, table, upstream, name
        self._positions = positions_from_id(shown) if name is not None else {}
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_CHUNKS_WAITING)
        self._subscriptions: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._last: bytes | None = None
        self._over = asyncio.Event()
        self._frames = 0
        self.events = 0

    async def open(self) -> None:
        """Subscribe; raise the refusal if there is nothing that the caller may see."""
        problems: list[MaiaError] = []
        for interest in self._interests:
            row = self._table.rows[interest.row]
            durable = self._durable_name(interest) if row.is_durable else None
            after = self._positions.get(interest.row) if durable is not None else None
            wants_state = row.is_retained and durable is None
            try:
                subscription = await self._upstream.subscribe(
                    row, interest.predicate, durable=durable, after=after, state=wants_state
                )
            except MaiaError as problem:
                problems.append(problem)
                continue
            subscription.acknowledges_itself = False
            share_publications(subscription, self._seen)
            self._subscriptions.append(subscription)
            if durable is None:  # else its broker sends `limits.durable_bytes_under_way` and no more
                call_on_waiting(subscription, self._unread.add)
            call_on_arrival(subscription, self._check_reader)
            serving = self._serve(interest.row, row, subscription, after=after, wants_state=wants_state)
            self._tasks.append(asyncio.create_task(serving))
        if not self._subscriptions:
            raise problems[0]
        for refused in problems:  # what a wildcard does not open is named
            await self._chunks.put(_block("refused", problem_of(refused)))

    async def forget(self) -> None:
        """End the durable subscriptions of this name for good."""
        for interest in self._interests:
            row, durable = self._table.rows[interest.row], self._durable_name(interest)
            if durable is not None and row.is_durable:
                left = await self._upstream.subscribe(row, interest.predicate, durable=durable, state=False)
                await left.unsubscribe(forget=True)

    def _durable_name(self, interest: TopicInterest) -> str | None:
        if self.name is None:
            return None
        asked = "\x00".join(sorted("/".join(one) for one in self._filters))
        what = f"{self.name}\x00{asked}\x00{interest.row}"
        return f"http-{sha256(what.encode()).hexdigest()[:40]}"

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield what is sent, until the stream ends."""
        yield _BEGIN
        over = asyncio.create_task(self._over.wait())
        coming: asyncio.Task[bytes | None] | None = None
        try:
            while not self._over.is_set():
                coming = coming or asyncio.create_task(self._chunks.get())
                done, _ = await asyncio.wait(
                    {coming, over}, timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED
                )
                if coming in done:
                    chunk, coming = coming.result(), None
                    if chunk is None:
                        break
                    yield chunk
                elif not done:
                    yield b":\n\n"
            if self._last is not None:
                yield self._last
        finally:
            over.cancel()
            if coming is not None:
                coming.cancel()

    def end(self, problem: MaiaError) -> None:
        """Send the reason, and end."""
        if self._last is None:
            self._last = _block("end", problem_of(problem))
        self._over.set()

    def _check_reader(self) -> None:
        """End the stream if too much waits for its reader, or if the right ends while it does not read."""
        problem: MaiaError | None = self._unread.problem()
        if self._chunks.full():
            ended = (one.problem for one in self._subscriptions)
            problem = next((one for one in ended if one and not isinstance(one, ClientClosed)), problem)
        if problem is not None and not self._over.is_set():
            self.end(problem)
            self._tasks.append(asyncio.create_task(self.close()))

    async def close(self) -> None:
        """Take the subscriptions back; a durable one stays where its reader has shown to be."""
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            call_on_arrival(subscription, None)
            call_on_waiting(subscription, None)
        for subscription in subscriptions:
            with suppress(MaiaError):
                await subscription.unsubscribe()

    # -------------------------------------------------------- one subscription

    async def _serve(
        self,
        number: int,
        row: TopicRow,
        subscription: Subscription,
        *,
        after: bytes | None,
        wants_state: bool,
    ) -> None:
        try:
            if wants_state:
                newest = await self._upstream.newest_state(row, subscription)
                await self._send(number, row, newest, None, retained=True)
            missed = 0
            while events := await subscription.some(_WHOLE_FRAME):
                for gap in subscription.missed[missed:]:
                    await self._chunks.put(_block("missed", problem_of(gap.problem)))
                missed = len(subscription.missed)
                if after is not None:
                    subscription.acknowledge(after)
                    after = None
                position = events[0].delivered.position
                await self._send(number, row, events, position if self.name is not None else None)
                if position is not None:
                    self._frames += 1
                    if self._frames >= FRAMES_UNSHOWN_MAX:
                        await self._chunks.put(None)
                        return
        except ClientClosed:
            self._over.set()
        except MaiaError as problem:
            self._last = _block("end", problem_of(problem))
            await self._chunks.put(None)  # behind everything that waits to be sent

    async def _send(
        self,
        number: int,
        row: TopicRow,
        events: Sequence[ReceivedEvent],
        position: bytes | None,
        *,
        retained: bool = False,
    ) -> None:
        """Send the events of one frame; the last of them has the id."""
        shown: list[bytes] = []
        size = 0
        for event in events:
            written = self._written(row, event, retained=retained)
            if not written:
                continue
            if len(shown) >= _EVENTS_TOGETHER or size >= _BYTES_TOGETHER:
                await self._chunks.put(b"".join(shown))
                shown, size = [], 0
            shown.append(written)
            size += len(written)
            self.events += 1
        if position is not None:
            self._positions[number] = position
            joined = "~".join(
                f"{row}.{base64.urlsafe_b64encode(one).decode()}"
                for row, one in sorted(self._positions.items())
            )
            # A frame none of whose events matched still moves the reader on: an id alone is no event.
            last = f"id: {joined}\n".encode()
            shown = [*shown[:-1], last + shown[-1]] if shown else [last + b"\n"]
        if shown:
            await self._chunks.put(b"".join(shown))

    def _written(self, row: TopicRow, event: ReceivedEvent, *, retained: bool) -> bytes:
        topic, payload, content_type = row.message_of(event)
        levels = topic.split("/")
        if not any(matches(one, levels) for one in self._filters):
            return b""
        data = EventData(
            topic,
            str(event.delivered.publisher),
            str(event.published_at),
            content_type=None if content_type == "application/json" else content_type,
            retained=retained,
        )
        if content_type == "application/json":
            data.payload = msgspec.Raw(payload)
        else:
            try:
                data.payload = payload.decode("utf-8") if payload else None
            except UnicodeDecodeError:
                data.payload_base64 = base64.b64encode(payload).decode()
        return b"data: " + msgspec.json.encode(data) + b"\n\n"
