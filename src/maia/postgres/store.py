"""How do events land in a table, each once, whatever dies in between?

The events that have arrived are copied into the table in one transaction with the broker's position of the
last of them. Only then are they acknowledged. After a crash the broker is asked for what is behind that
position. Positions have no order, so a store numbers its frames itself, from 1 on; the number is compared
with the one outside the database. A derived query runs in the same transaction, over the rows that it stored:
what it makes is released if and only if they are stored.

Where the organisation has several brokers, a store is subscribed at each of them, and a frame is stored when
the first one brings it: all brokers know it by the same label. What is lost with one of them is time.

Where events say what was done to a row, the table is a replica: it has the rows that the recipient's View
shows of the source, and loses those that are deleted there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from msgspec import msgpack
from psycopg import sql

from maia.client import Delivered, GapDetected
from maia.client.api.by_frame import frames_of
from maia.client.api.subscription import Subscription
from maia.errors import BadInput, MaiaError
from maia.events import Attribute, Instant, Value
from maia.net.observer import Records
from maia.postgres.broker_links import BrokerLink
from maia.postgres.config import TableStore
from maia.postgres.outbox import ConnectorInUse
from maia.postgres.positions import Positions
from maia.postgres.schema import store_columns, table_sql
from maia.postgres.values import Connection, ask, rows_of

_FRAMES_AT_ONCE: Final = 64
_WITHDRAW_S: Final = 5.0
_OWN: Final = 4
"""How many columns of a stored row are the store's own."""


_REMOVE: Final = (
    "DELETE FROM {table} WHERE ctid IN (SELECT at FROM (SELECT there.ctid AS at, gone.most,"
    " row_number() OVER (PARTITION BY there.maia_digest) AS number FROM {table} there JOIN"
    " (SELECT digest, count(*) AS most FROM unnest(%s::bytea[]) AS digest GROUP BY digest) gone"
    " ON there.maia_digest = gone.digest) alike WHERE number <= most)"
)


def digest_of(values: Sequence[Value]) -> bytes:
    """Return what a row of a replica is found by; a zero has no sign, as PostgreSQL compares it."""
    plain = [
        one + 0.0 if isinstance(one, float) else int(one) if type(one) is Instant else one for one in values
    ]
    return sha256(msgpack.encode(plain)).digest()[:16]


@dataclass(slots=True)
class StoreNumbers:
    """What the tasks of one store share: one broker's events are stored at a time, and numbered on."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    upto: int = 0


@dataclass(frozen=True, slots=True)
class _Statements:
    copy: sql.Composed
    types: list[str]
    advance: sql.Composed
    remove: sql.Composed
    derived: list[sql.Composed]


class StoreTask:
    """One store at one broker: its subscription lives longer than a connection to the database."""

    def __init__(
        self,
        store: TableStore,
        *,
        link: BrokerLink,
        links: Sequence[BrokerLink],
        numbers: StoreNumbers,
        positions: Positions,
        records: Records,
    ) -> None:
        """Subscribe at one of the brokers."""
        self.name = f"store {store.name}" if len(links) == 1 else f"store {store.name} at {link.address}"
        self._store, self.link, self._numbers = store, link, numbers
        self._others = [one for one in links if one is not link]
        self._positions, self._records = positions, records
        self._subscription: Subscription | None = None
        self._arrived: list[Delivered] = []
        """Frames that were taken from the subscription and are not known to be stored."""
        self._last_gap: bytes | None = None
        self.is_serving = asyncio.Event()
        """Set once the broker has accepted the subscription."""
        self.problem: MaiaError | None = None
        """Why it is not serving, if it is not."""
        self.stored = 0

    async def serve(self, connection: Connection, schema: str, incarnation: str) -> None:
        """Store what arrives, until the connection or the right ends."""
        del incarnation
        names = {"s": sql.Identifier(schema), "table": table_sql(self._store.table)}
        async with self._numbers.lock:
            asked = "SELECT position FROM {s}.stores WHERE name = %s"
            found = await rows_of(connection, asked, self._store.name, s=names["s"])
            self._numbers.upto = found[0][0] if found else 0
            self._positions.check_store(self._store.name, self._numbers.upto)
        asked = "SELECT after FROM {s}.cursors WHERE store = %s AND broker = %s"
        cursor = await rows_of(connection, asked, self._store.name, self.link.key, s=names["s"])
        after: bytes | None = cursor[0][0] if cursor else None
        subscription = await self._subscribed(after)
        # The last commit may have succeeded although its connection was lost.
        stored = [at for at, one in enumerate(self._arrived, 1) if one.position == after]
        self._arrived = self._arrived[stored[-1] :] if stored else self._arrived
        statements = await self._statements(connection, names)
        self.is_serving.set()
        while True:
            if not self._arrived:
                self._arrived = await frames_of(subscription, _FRAMES_AT_ONCE)
            if not self._arrived:
                return  # the client was closed
            gaps = self._new_gaps(subscription)
            async with self._numbers.lock:
                await self._store_arrived(connection, names, statements, len(gaps))
                for gap in gaps:
                    self._records.note("failed", {"store": self._store.name, **gap.problem.as_record()})
                    self._last_gap = gap.position
                after, self._arrived = self._arrived[-1].position, []
                # Outside the database before the broker forgets: a database that is behind this was restored.
                await asyncio.to_thread(self._positions.acknowledge, self._store.name, self._numbers.upto)
            subscription.acknowledge(after)

    async def _statements(self, connection: Connection, names: Mapping[str, sql.Composable]) -> _Statements:
        columns = store_columns(self._store)
        copy = sql.SQL("COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)").format(
            **names, columns=sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        advance = sql.SQL(
            "WITH went_on AS (INSERT INTO {s}.cursors VALUES (%(store)s, %(broker)s, %(after)s)"
            " ON CONFLICT (store, broker) DO UPDATE SET after = %(after)s)"
            " UPDATE {s}.stores SET position = %(last)s, stored = stored + %(rows)s,"
            " missed = missed + %(gaps)s WHERE name = %(store)s AND position = %(upto)s"
        ).format(**names)
        derived = [await self._derived(connection, names, *one) for one in self._store.derived]
        remove = sql.SQL(_REMOVE).format(**names)
        return _Statements(copy, list(columns.values()), advance, remove, derived)

    async def _store_arrived(
        self, connection: Connection, names: Mapping[str, sql.Composable], statements: _Statements, gaps: int
    ) -> None:
        """Store the frames that have arrived, with the broker's position and what is derived of them."""
        upto = self._numbers.upto
        async with connection.transaction():
            fresh = await self._not_stored(connection, names, upto)
            last, rows = upto + len(fresh), sum(one.frame.rows for one in fresh)
            about = {"store": self._store.name, "broker": self.link.key, "after": self._arrived[-1].position}
            counts = {"last": last, "rows": rows, "gaps": gaps, "upto": upto}
            moved = await connection.execute(statements.advance, about | counts)
            if moved.rowcount != 1:
                raise ConnectorInUse("another connector has stored events of this store meanwhile")
            written: Iterable[tuple[Value, ...]] = self._rows(fresh, upto + 1)
            if self._store.operation is not None:
                written, gone = self._changes(fresh, upto + 1)
                await connection.execute(statements.remove, [gone])
            async with connection.cursor() as cursor, cursor.copy(statements.copy) as copying:
                copying.set_types(statements.types)
                for values in written:
                    await copying.write_row(values)
            for query in statements.derived:
                await connection.execute(query, {"first": upto + 1, "last": last})
        self._numbers.upto, self.stored = last, self.stored + rows

    async def _not_stored(
        self, connection: Connection, names: Mapping[str, sql.Composable], upto: int
    ) -> list[Delivered]:
        """Return the frames that no other broker has brought; note of these that the others will, too.

        A broker brings the frames of a stream in their order. So what was stored before one that it brings,
        and that it has not brought, it never will.
        """
        if not self._others:
            return self._arrived
        asked = (
            "SELECT label, stream, number FROM {s}.awaited WHERE store = %s AND broker = %s"
            " AND label = ANY (%s)"
        )
        labels = [one.label for one in self._arrived]
        about = self._store.name, self.link.key
        found = await rows_of(connection, asked, *about, labels, s=names["s"])
        known = {label for label, _, _ in found}
        newest: dict[bytes, int] = {}
        for _, stream, number in found:
            newest[stream] = max(number, newest.get(stream, 0))
        drop = (
            "DELETE FROM {s}.awaited a USING unnest(%s::bytea[], %s::bigint[]) AS had (stream, number)"
            " WHERE a.store = %s AND a.broker = %s AND a.stream = had.stream AND a.number <= had.number"
        )
        if newest:
            await ask(connection, drop, list(newest), list(newest.values()), *about, s=names["s"])
        fresh = [one for one in self._arrived if one.label not in known]
        note = (
            "INSERT INTO {s}.awaited SELECT %s, other, label, stream, number FROM unnest(%s::text[]) other,"
            " unnest(%s::bytea[], %s::bytea[], %s::bigint[]) AS had (label, stream, number)"
            " ON CONFLICT DO NOTHING"
        )
        await ask(
            connection, note, self._store.name, [one.key for one in self._others],
            [one.label for one in fresh], [one.stream for one in fresh],
            list(range(upto + 1, upto + 1 + len(fresh))), s=names["s"],
        )  # fmt: skip
        return fresh

    async def give_up(self) -> None:
        """Withdraw the subscription, after an error of the broker or at the end; its name is remembered."""
        subscription, self._subscription = self._subscription, None
        self._arrived = []
        if subscription is not None:
            with suppress(MaiaError):
                await subscription.unsubscribe(timeout_s=_WITHDRAW_S)

    async def _subscribed(self, after: bytes | None) -> Subscription:
        if self._subscription is None:
            store = self._store
            self._subscription = await self.link.connected().subscribe(
                store.history,
                store.filter,
                durable=store.durable,
                after=after,
                shown_as=store.shown_as or None,
            )
            self._subscription.acknowledges_itself = False
        return self._subscription

    def _rows(self, frames: Sequence[Delivered], first: int, *more: Attribute) -> Iterator[tuple[Value, ...]]:
        for number, delivered in enumerate(frames, first):
            frame, missing = delivered.frame, (None,) * delivered.frame.rows
            columns = [
                frame.columns[one.uid].values if one.uid in frame.columns else missing
                for one in (*more, *self._store.attributes)
            ]
            publisher, at = str(delivered.publisher), delivered.published_at
            for row, values in enumerate(zip(*columns, strict=True)):
                yield number, row, publisher, at, *values

    def _changes(
        self, frames: Sequence[Delivered], first: int
    ) -> tuple[list[tuple[Value, ...]], list[bytes]]:
        """Return rows that a replica gets, and the digests of those that it had before and loses.

        Rows with the same values are alike: which of them goes makes no difference.
        """
        come: dict[bytes, list[tuple[Value, ...]]] = {}
        gone: list[bytes] = []
        operation = self._store.event_type.vocabulary[str(self._store.operation)]
        for row in self._rows(frames, first, operation):
            own, what, in_row = row[:_OWN], row[_OWN], row[_OWN + 1 :]
            digest = digest_of(in_row)
            if what == "insert":
                come.setdefault(digest, []).append((*own, digest, *in_row))
            elif what not in ("delete", "truncate"):
                raise BadInput(
                    "INPUT-POSTGRES-OPERATION",
                    f"`{operation.name}` of an event says neither insert, delete nor truncate, or is hidden",
                )
            elif come.get(digest):
                come[digest].pop()
            else:
                gone.append(digest)
        return [row for rows in come.values() for row in rows], gone

    async def _derived(
        self, connection: Connection, names: Mapping[str, sql.Composable], release: str, query: str
    ) -> sql.Composed:
        """Return the statement that puts what a query makes of the rows just stored into an outbox.

        An attribute that the query does not have is missing in the event.
        """
        arrived = sql.SQL(
            "WITH arrived AS (SELECT * FROM {table} WHERE maia_position BETWEEN %(first)s AND %(last)s) "
        ).format(**names)
        # The operator's own text, in which a per cent sign is no placeholder.
        derived = sql.SQL("(" + query.replace("%", "%%") + ") AS derived")
        found = await connection.execute(
            arrived + sql.SQL("SELECT * FROM ") + derived + sql.SQL(" LIMIT 0"), {"first": 0, "last": 0}
        )
        columns = sql.SQL(", ").join(sql.Identifier(one.name) for one in found.description or ())
        out = sql.Identifier(f"out_{release}")
        into = sql.SQL("INSERT INTO {}.{} ({}) SELECT * FROM ").format(names["s"], out, columns)
        return arrived + into + derived

    def _new_gaps(self, subscription: Subscription) -> list[GapDetected]:
        gaps = list(subscription.missed)
        noted = [at for at, gap in enumerate(gaps, 1) if gap.position == self._last_gap]
        return gaps[noted[-1] :] if noted else gaps
