"""Which rows leave next, in which frames, and which have left?

One release of one database. Rows are read in the order in which their transactions committed: a commit gets
its position when it is seen for the first time (`place`), and no transaction waits for another one. Before a
frame leaves, its number and its last row are on the database's disk (`plan`), so that the same frame leaves
again after a crash; when the broker has taken it on, its rows are deleted. Both are done in one transaction
for many frames.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from psycopg import sql

from maia.client.batch import rows_per_frame
from maia.errors import Unavailable
from maia.postgres.config import Release
from maia.postgres.values import Connection

_ROWS_AT_ONCE: Final = 16 * 1024
_BYTES_AT_ONCE: Final = 8 << 20
_ROWS_KEPT: Final = 100_000
_MOST: Final = 2**63 - 1
_Place: TypeAlias = tuple[int, int]
"""The position of a commit, and one of its rows."""
_FRAME_BYTES: Final = 1 << 19
"""Half of what a client puts into one frame: no frame is cut again on its way."""


class ConnectorInUse(Unavailable):
    """Another connector serves the same store or release of this database."""

    code = "UNAVAILABLE-POSTGRES-CONNECTOR"


@dataclass(frozen=True, slots=True)
class PlannedFrame:
    """Rows that leave together, under a number that is on the database's disk."""

    number: int
    rows: int
    columns: dict[str, list[object]] = field(repr=False)


class Outbox:
    """The rows of one release that wait, on one connection."""

    def __init__(self, connection: Connection, schema: str, release: Release, *, keep_s: float = 0.0) -> None:
        """Read and delete on this connection, which no other task uses.

        Rows that a broker has taken on are kept for so long: if it is lost, another one gets them again.
        """
        self._keep_s = keep_s
        self._done: deque[tuple[float, int, int]] = deque()
        """Until when rows are kept that were taken on: up to which frame, and how many."""
        self._connection, self._release = connection, release
        self._names = [one.name for one in release.event_type.attributes]
        self._rows_max = rows_per_frame(release.event_type)
        parts: dict[str, sql.Composable] = {
            "s": sql.Identifier(schema),
            "out": sql.Identifier(schema, f"out_{release.name}"),
            "columns": sql.SQL(", ").join(sql.Identifier("o", name) for name in self._names),
        }
        # Bounds on the rows of one transaction, however many it has: each batch reads a range of the index.
        parts["rows"] = sql.SQL(
            "(o.maia_xid, o.maia_started) = (c.xid, c.started)"
            " AND o.maia_row > CASE WHEN c.position = %(position)s THEN %(row)s ELSE 0 END"
            " AND o.maia_row <= CASE WHEN c.position = %(last_position)s THEN %(last_row)s ELSE {most} END"
        ).format(most=sql.Literal(_MOST))
        parts["commits"] = sql.SQL(
            "c.release = %(release)s AND c.position BETWEEN %(position)s AND %(last_position)s"
        )
        # The sum is taken over sizes that are stored: no long value is read before it is known to fit.
        self._read = sql.SQL(
            "SELECT * FROM (SELECT c.position AS maia_position, o.maia_row, o.maia_size,"
            " sum(o.maia_size) OVER (ORDER BY c.position, o.maia_row) AS maia_total, {columns}"
            " FROM {s}.commits c CROSS JOIN LATERAL (SELECT * FROM {out} o WHERE {rows}"
            " ORDER BY o.maia_row LIMIT %(limit)s) o WHERE {commits}"
            " ORDER BY c.position, o.maia_row LIMIT %(limit)s) waiting"
            " WHERE maia_total - maia_size < %(bytes)s ORDER BY maia_position, maia_row"
        ).format(**parts)
        self._delete = sql.SQL(
            "WITH rows AS (DELETE FROM {out} o USING {s}.commits c WHERE {rows} AND {commits}),"
            " transactions AS (DELETE FROM {s}.commits"
            " WHERE release = %(release)s AND position < %(last_position)s)"
            " DELETE FROM {s}.frames WHERE release = %(release)s AND number <= %(number)s"
        ).format(**parts)
        self._place = sql.SQL(
            "UPDATE {s}.commits c SET position = seen.position FROM (SELECT xid, started,"
            " row_number() OVER (ORDER BY turn) + (SELECT greatest(planned_position,"
            " (SELECT max(position) FROM {s}.commits WHERE release = name))"
            " FROM {s}.releases WHERE name = %(release)s) AS position"
            " FROM {s}.commits WHERE release = %(release)s AND position IS NULL) seen"
            " WHERE c.release = %(release)s AND c.xid = seen.xid AND c.started = seen.started"
            " AND c.position IS NULL"
        ).format(**parts)
        self._plan = sql.SQL(
            "WITH numbered AS (INSERT INTO {s}.frames (release, number, upto_position, upto_row, rows)"
            " SELECT %(release)s, * FROM unnest(%(numbers)s::bigint[], %(positions)s::bigint[],"
            " %(rows)s::bigint[], %(counts)s::integer[]))"
            " UPDATE {s}.releases SET next_frame = %(next)s, planned_position = %(position)s,"
            " planned_row = %(row)s WHERE name = %(release)s AND next_frame = %(before)s"
        ).format(**parts)
        self._state = sql.SQL(
            "SELECT next_frame, planned_position, planned_row FROM {s}.releases WHERE name = %s"
        ).format(**parts)
        self._frames = sql.SQL(
            "SELECT number, upto_position, upto_row FROM {s}.frames WHERE release = %s ORDER BY number"
        ).format(**parts)
        self._refuse = sql.SQL("UPDATE {s}.releases SET refused = refused + %s WHERE name = %s").format(
            **parts
        )
        self._note_done = sql.SQL(
            "UPDATE {s}.releases SET done_frame = %(done)s WHERE name = %(release)s AND done_frame < %(done)s"
        ).format(**parts)
        self._ends: dict[int, _Place] = {}
        """Where each frame ends that was planned and whose rows are still there."""
        self._rows_planned = 0
        """How many rows were planned since frames were taken on: about as many as are taken on next."""
        self._planned: _Place = (0, 0)
        self._deleted: _Place = (0, 0)
        """Up to where rows were deleted on this connection."""
        self.next_frame = 0

    async def open(self) -> list[PlannedFrame]:
        """Return what was planned before and may have left; it leaves again, under the same numbers."""
        async with self._connection.transaction():
            found = await self._connection.execute(self._state, [self._release.name])
            row = await found.fetchone()
            assert row is not None  # noqa: S101 - looked for before, by `check_installed`
            self.next_frame, self._planned = row[0], (row[1], row[2])
            frames = await (await self._connection.execute(self._frames, [self._release.name])).fetchall()
            self._ends = {number: (position, last) for number, position, last in frames}
            everything = {"limit": _MOST, "bytes": _MOST}
            rows = await self._rows(_between((0, 0), self._planned) | everything)
        self._rows_planned = len(rows)
        return [self._frame(number, part) for number, part in _parted(rows, self._ends)]

    async def plan(self, done: int | None) -> list[PlannedFrame]:
        """Delete frames up to number `done`, which the broker has taken on; plan the next and return them."""
        asked: dict[str, object] = {"release": self._release.name}
        now = asyncio.get_running_loop().time()
        if done is not None:
            self._done.append((now + self._keep_s, done, self._rows_planned))
            self._rows_planned = 0
        gone = self._not_kept(now)
        async with self._connection.transaction():
            if done is not None and self._keep_s:
                await self._connection.execute(self._note_done, asked | {"done": done})
            if gone is not None:
                rows_gone = _between(self._deleted, self._ends[gone]) | {"number": gone}
                await self._connection.execute(self._delete, asked | rows_gone)
            # One statement, so one snapshot: a commit that it sees, it sees with all that came before.
            await self._connection.execute(self._place, asked)
            some = {"limit": _ROWS_AT_ONCE, "bytes": _BYTES_AT_ONCE}
            rows = await self._rows(_between(self._planned, (_MOST, _MOST)) | some)
            ends = list(self._ends_of(rows))
            numbered = {self.next_frame + index: end for index, end in enumerate(ends)}
            parts = list(_parted(rows, numbered))
            if numbered:
                planned = await self._connection.execute(
                    self._plan,
                    asked
                    | {"next": self.next_frame + len(ends), "before": self.next_frame}
                    | {"position": ends[-1][0], "row": ends[-1][1], "numbers": list(numbered)}
                    | {"positions": [end[0] for end in ends], "rows": [end[1] for end in ends]}
                    | {"counts": [len(part) for _, part in parts]},
                )
                if planned.rowcount != 1:
                    raise ConnectorInUse("another connector has planned frames of this release meanwhile")
        if gone is not None:
            self._deleted = self._ends[gone]
            self._ends = {number: end for number, end in self._ends.items() if number > gone}
            self._done = deque(one for one in self._done if one[1] > gone)
        if numbered:
            self._ends |= numbered
            self._rows_planned += len(rows)
            self._planned, self.next_frame = ends[-1], self.next_frame + len(ends)
        return [self._frame(number, part) for number, part in parts]

    def _not_kept(self, now: float) -> int | None:
        """Return up to which frame rows are kept no longer: their time is over, or there are too many."""
        gone: int | None = None
        kept = sum(rows for _, _, rows in self._done)
        for until, number, rows in self._done:
            if until > now and kept <= _ROWS_KEPT:
                break
            gone, kept = number, kept - rows
        return gone

    async def note_refused(self, rows: int) -> None:
        """Count rows that the broker refused: they lay outside the connector's right."""
        await self._connection.execute(self._refuse, [rows, self._release.name])

    # ------------------------------------------------------------ rows and frames

    async def _rows(self, asked: Mapping[str, object]) -> list[tuple[Any, ...]]:
        async with self._connection.cursor(binary=True) as cursor:
            await cursor.execute(self._read, {"release": self._release.name, **asked})
            return await cursor.fetchall()

    def _ends_of(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[_Place]:
        """Yield the last row of each frame: full in rows, or smaller where rows are long."""
        count = size = 0
        before: _Place | None = None
        for position, row, length, *_ in rows:
            if before is not None and (count >= self._rows_max or size + length > _FRAME_BYTES):
                yield before
                count = size = 0
            count, size, before = count + 1, size + length, (position, row)
        if before is not None:
            yield before

    def _frame(self, number: int, rows: Sequence[tuple[Any, ...]]) -> PlannedFrame:
        columns = list(zip(*rows, strict=True))[4:]
        return PlannedFrame(
            number, len(rows), {name: list(values) for name, values in zip(self._names, columns, strict=True)}
        )


def _between(low: _Place, high: _Place) -> dict[str, object]:
    """Return the operands of the rows behind one place, up to another."""
    return {"position": low[0], "row": low[1], "last_position": high[0], "last_row": high[1]}


def _parted(
    rows: Sequence[tuple[Any, ...]], ends: dict[int, _Place]
) -> Iterator[tuple[int, Sequence[tuple[Any, ...]]]]:
    """Yield the rows of each frame, in the order of their numbers."""
    start = 0
    for number, end in sorted(ends.items()):
        stop = start
        while stop < len(rows) and (rows[stop][0], rows[stop][1]) <= end:
            stop += 1
        if stop > start:
            yield number, rows[start:stop]
        start = stop
