"""How do events land in a table, each once, whatever dies in between?

The events that have arrived are copied into the table in one transaction with the broker's position of the
last of them. Only then are they acknowledged. After a crash the broker is asked for what is behind that
position. Positions have no order, so a store numbers its frames itself, from 1 on; the number is compared
with the one outside the database. A derived query runs in the same transaction, over the rows that it stored:
what it makes is released if and only if they are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from psycopg import sql

from maia.client import Delivered, GapDetected
from maia.client.api.by_frame import frames_of
from maia.client.api.client import Client
from maia.client.api.subscription import Subscription
from maia.errors import MaiaError
from maia.events import Value
from maia.net.observer import Records
from maia.postgres.config import TableStore
from maia.postgres.outbox import ConnectorInUse
from maia.postgres.positions import Positions
from maia.postgres.schema import store_columns, table_sql
from maia.postgres.values import Connection, rows_of

_FRAMES_AT_ONCE: Final = 64
_WITHDRAW_S: Final = 5.0


class StoreTask:
    """One store: its subscription lives longer than a connection to the database."""

    def __init__(
        self, store: TableStore, *, client: Callable[[], Client], positions: Positions, records: Records
    ) -> None:
        """Subscribe through whichever client is connected."""
        self.name = f"store {store.name}"
        self._store, self._client = store, client
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
        asked = "SELECT position, after FROM {s}.stores WHERE name = %s"
        found = await rows_of(connection, asked, self._store.name, s=names["s"])
        upto: int = found[0][0] if found else 0
        after: bytes | None = found[0][1] if found else None
        self._positions.check_store(self._store.name, upto)
        subscription = await self._subscribed(after)
        # The last commit may have succeeded although its connection was lost.
        stored = [at for at, one in enumerate(self._arrived, 1) if one.position == after]
        self._arrived = self._arrived[stored[-1] :] if stored else self._arrived
        columns = store_columns(self._store)
        copy = sql.SQL("COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)").format(
            **names, columns=sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        types = list(columns.values())
        advance = sql.SQL(
            "UPDATE {s}.stores SET position = %s, after = %s, stored = stored + %s, missed = missed + %s"
            " WHERE name = %s AND position = %s"
        ).format(**names)
        derived = [await self._derived(connection, names, *one) for one in self._store.derived]
        self.is_serving.set()
        while True:
            if not self._arrived:
                self._arrived = await frames_of(subscription, _FRAMES_AT_ONCE)
            if not self._arrived:
                return  # the client was closed
            last, after = upto + len(self._arrived), self._arrived[-1].position
            gaps = self._new_gaps(subscription)
            rows = sum(one.frame.rows for one in self._arrived)
            async with connection.transaction():
                moved = await connection.execute(
                    advance, [last, after, rows, len(gaps), self._store.name, upto]
                )
                if moved.rowcount != 1:
                    raise ConnectorInUse("another connector has stored events of this store meanwhile")
                async with connection.cursor() as cursor, cursor.copy(copy) as copying:
                    copying.set_types(types)
                    for values in self._rows(upto + 1):
                        await copying.write_row(values)
                for query in derived:
                    await connection.execute(query, {"first": upto + 1, "last": last})
            self.stored, upto = self.stored + rows, last
            for gap in gaps:
                self._records.note("failed", {"store": self._store.name, **gap.problem.as_record()})
                self._last_gap = gap.position
            self._arrived = []
            # Outside the database before the broker forgets: a database that is behind this was restored.
            await asyncio.to_thread(self._positions.acknowledge, self._store.name, upto)
            subscription.acknowledge(after)

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
            self._subscription = await self._client().subscribe(
                store.history,
                store.filter,
                durable=store.durable,
                after=after,
                shown_as=store.shown_as or None,
            )
            self._subscription.acknowledges_itself = False
        return self._subscription

    def _rows(self, first: int) -> Iterator[tuple[Value, ...]]:
        for number, delivered in enumerate(self._arrived, first):
            frame, missing = delivered.frame, (None,) * delivered.frame.rows
            columns = [
                frame.columns[one.uid].values if one.uid in frame.columns else missing
                for one in self._store.attributes
            ]
            publisher, at = str(delivered.publisher), delivered.published_at
            for row, values in enumerate(zip(*columns, strict=True)):
                yield number, row, publisher, at, *values

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
