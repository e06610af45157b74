"""When has a database changed? It says so itself, by NOTIFY, and the fact is read again at once.

A notification carries nothing that is believed: it makes the server read. A role that may notify can
therefore make it read more often, within a limit, and can neither add nor keep a fact. Without
notifications, as while the connection is down, facts are read at their own pace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from maia.config.row_sources import FactSourceFailed

__all__ = ["Changes", "PostgresChanges"]

CONNECT_S: Final = 15


class Changes(Protocol):
    """Something that says when a fact may have changed."""

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` once when this begins to listen, and at each change; raise if it cannot go on."""


@dataclass(frozen=True, slots=True)
class PostgresChanges:
    """The notifications of one channel of a PostgreSQL database."""

    url: str = field(repr=False)
    channel: str

    async def follow(self, changed: Callable[[], None]) -> None:
        """Listen until the connection is lost."""
        import psycopg
        from psycopg import sql

        try:
            connecting = psycopg.AsyncConnection.connect(self.url, autocommit=True, connect_timeout=CONNECT_S)
            async with await connecting as connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
                # What changed before this connection listened would otherwise wait for the next reading.
                changed()
                async for _ in connection.notifies():
                    changed()
        except (psycopg.Error, OSError) as problem:
            # The address can hold a password, so only the kind of the problem is shown.
            raise FactSourceFailed(f"PostgreSQL does not notify: {type(problem).__name__}") from None
        raise FactSourceFailed("PostgreSQL does not notify: the connection was closed")
