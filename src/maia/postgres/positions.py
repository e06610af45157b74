"""Is this the database that has published, or an older copy of it?

A database that is restored from a backup has forgotten what left it since. If it went on, it would publish
the same rows again, or new rows under numbers that the broker has seen, which the broker drops (A94). So
the connector keeps, outside the database and before anything leaves, the highest number that may have
left it; and the database knows its own server and the one data folder that it is used with. When the two
disagree, nothing is published until the operator says what is to become of the rows that wait
(`maia postgres accept`).
"""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from psycopg import sql

from maia.errors import BadInput, Refusal, Unavailable
from maia.net.stores import FolderStore
from maia.postgres.schema import FORMAT, installed_releases
from maia.postgres.values import Connection, ask, rows_of
from maia.private_files import make_private_folder, sync_folder

_INCARNATION: Final = "incarnation"


class RestoredDatabase(Refusal):
    """The database is an older copy of the one that has published, or a copy on another server."""

    code = "REFUSED-POSTGRES-RESTORED"


class NotInstalled(BadInput):
    """The database holds nothing of a connector, or something of another version."""

    code = "INPUT-POSTGRES-NOT-INSTALLED"


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """What a database says about itself."""

    incarnation: str
    is_copy: bool
    """Whether it was installed on another server, or as another database."""
    brokers: dict[str, str]
    """The brokers that it is bound to, once it was connected, by their addresses."""
    may_rebind: bool
    """Whether the broker that answers next is the one from then on."""
    is_fresh: bool
    """Whether nothing was stored or released yet."""


async def identity_of(connection: Connection, schema: str) -> DatabaseIdentity:
    """Return what the database says about itself; raise if nothing of a connector is installed."""
    if not (await rows_of(connection, "SELECT to_regclass(%s) IS NOT NULL", f"{schema}.connection"))[0][0]:
        raise NotInstalled(f"nothing is installed in schema `{schema}`: run `maia postgres install`")
    found = await rows_of(
        connection,
        "SELECT format, incarnation::text,"
        " (own.system_identifier, own.database) IS DISTINCT FROM (control.system_identifier, here.oid),"
        " NOT EXISTS (SELECT FROM {s}.releases WHERE next_frame > 0)"
        " AND NOT EXISTS (SELECT FROM {s}.stores WHERE position > 0), may_rebind"
        " FROM {s}.connection own, pg_control_system() control, pg_database here"
        " WHERE here.datname = current_database()",
        s=sql.Identifier(schema),
    )
    if not found or found[0][0] != FORMAT:
        raise NotInstalled(f"schema `{schema}` is of another version: run `maia postgres install`")
    row = found[0]
    bound = await rows_of(connection, "SELECT address, broker FROM {s}.brokers", s=sql.Identifier(schema))
    return DatabaseIdentity(str(row[1]), bool(row[2]), dict(bound), bool(row[4]), bool(row[3]))


async def bind(
    connection: Connection, schema_name: str, *, address: str, broker: str, addresses: Sequence[str]
) -> None:
    """Bind the database to the broker that has answered at an address, and to no other there from then on.

    Positions are those of one broker's log. A store that has come some way goes on where a broker that it
    knows still serves it: another one is bound beside such a one, and not in its place.
    """
    schema = sql.Identifier(schema_name)
    async with connection.transaction():
        row = (
            await rows_of(connection, "SELECT broker, may_rebind FROM {s}.connection FOR UPDATE", s=schema)
        )[0]
        if row[1]:
            await ask(connection, "DELETE FROM {s}.brokers", s=schema)
        bound = dict(await rows_of(connection, "SELECT address, broker FROM {s}.brokers", s=schema))
        if not bound and row[0] is not None and not row[1]:
            bound = {"": row[0]}  # format 2 knew one broker, and not where
        others = (
            "SELECT name FROM {s}.stores WHERE position > 0 AND NOT EXISTS (SELECT FROM {s}.cursors"
            " WHERE store = name AND broker = %s) ORDER BY name"
        )
        behind = await rows_of(connection, others, broker, s=schema)
        has_another = any(one in addresses for one in bound)
        if behind and not has_another:
            raise Refusal(
                "REFUSED-POSTGRES-BROKER",
                f"store `{behind[0][0]}` has events of another broker's log; to store events of this one, "
                "declare it anew, with another name and table, or name both brokers",
            )
        if bound and broker not in bound.values() and not has_another:
            raise Refusal(
                "REFUSED-POSTGRES-BROKER",
                "the database is bound to another broker; name both, or see `accept`",
            )
        if any(broker == one and where in addresses and where != address for where, one in bound.items()):
            raise Refusal(
                "REFUSED-POSTGRES-BROKER", f"`{address}` leads to a broker that the file has already"
            )
        known = "INSERT INTO {s}.brokers VALUES (%s, %s) ON CONFLICT (address) DO UPDATE SET broker = %s"
        await ask(connection, known, address, broker, broker, s=schema)
        named = "UPDATE {s}.awaited SET broker = %s WHERE broker = %s"
        await ask(connection, named, broker, address, s=schema)
        await ask(
            connection,
            "UPDATE {s}.connection SET broker = coalesce(broker, %s), may_rebind = false",
            broker,
            s=schema,
        )


class Positions:
    """What may have left the database, and what was acknowledged, kept outside it."""

    def __init__(self, data: Path) -> None:
        """Read which database the connector's data folder belongs to."""
        self._folder = data / "positions"
        self._kept = FolderStore(data / "database")
        found = self._kept.load().get(_INCARNATION)
        self._incarnation = None if found is None else found.decode()
        self._counters: dict[str, _Counter] = {}

    def check(self, identity: DatabaseIdentity, *, adopt: bool = True) -> None:
        """Take a fresh database on; refuse one that this folder does not belong to."""
        if identity.is_copy:
            raise RestoredDatabase(
                "this database is a copy: it was installed on another server or as another database; "
                "`maia postgres accept` makes it a participant of its own"
            )
        if self._incarnation is None and identity.is_fresh:
            if adopt:
                self.begin_anew(identity.incarnation)
            return
        if self._incarnation != identity.incarnation:
            raise RestoredDatabase(
                "the data folder does not know this database, so what has left it is unknown; "
                "use the folder it had, or `maia postgres accept`"
            )

    def check_release(self, release: str, next_frame: int) -> None:
        """Refuse a database that does not know of frames that have left it."""
        used = self._counter(f"release-{release}").upto
        if next_frame <= used:
            raise RestoredDatabase(
                f"the database was restored: it knows {next_frame} frames of release `{release}`, and "
                f"{used + 1} may have left it; see `maia postgres accept --help`"
            )

    def check_store(self, store: str, position: int) -> None:
        """Refuse a database that does not know of events that it has acknowledged."""
        upto = self.acknowledged(store)
        if position < upto:
            raise RestoredDatabase(
                f"the database was restored: store `{store}` is at position {position}, and events up to "
                f"{upto} were acknowledged; see `maia postgres accept --help`"
            )

    def use(self, release: str, number: int) -> None:
        """Keep that frames up to this number may leave, before any does."""
        self._counter(f"release-{release}").raise_to(number)

    def acknowledge(self, store: str, position: int) -> None:
        """Keep that events up to this position are in the database, before the broker forgets them."""
        self._counter(f"store-{store}").raise_to(position)

    def acknowledged(self, store: str) -> int:
        """Return up to which position events were acknowledged."""
        return self._counter(f"store-{store}").upto

    def begin_anew(self, incarnation: str) -> None:
        """Belong to a database from now on, of which nothing has left."""
        self._kept.keep({_INCARNATION: incarnation.encode()})
        self._incarnation, self._counters = incarnation, {}

    def _counter(self, name: str) -> _Counter:
        if name not in self._counters:
            # Each incarnation has counters of its own: those of an earlier one are never taken for them.
            folder = self._folder / (self._incarnation or "none")
            self._counters[name] = _Counter(folder / name)
        return self._counters[name]


class _Counter:
    """A number that only grows, in a file that is overwritten in place and synchronised.

    It is written into two places in turns, each with a check sum, so that one of them is whole whenever the
    power fails.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, -1
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-STORE", f"`{path}` cannot be read: {problem.strerror}"
            ) from problem
        slots = [data[start : start + _SLOT.size] for start in (0, _SLOT.size)]
        whole = [number for slot in slots if (number := _number_in(slot)) is not None]
        if data and not whole:
            raise BadInput("INPUT-POSTGRES-POSITIONS", f"`{path}` holds no position")
        self.upto: int = max(whole, default=-1)
        self._next = 1 if whole and _number_in(slots[0]) == self.upto else 0

    def raise_to(self, upto: int) -> None:
        """Return when the number is on the disk."""
        if upto <= self.upto:
            return
        try:
            if self._file < 0:
                make_private_folder(self._path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self._path, flags, 0o600)
                weakref.finalize(self, os.close, self._file)
                sync_folder(self._path.parent)
            os.pwrite(self._file, _SLOT.pack(upto, _check_sum(upto)), self._next * _SLOT.size)
            os.fdatasync(self._file)
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-STORE", f"a position cannot be kept: {problem.strerror}"
            ) from problem
        self.upto, self._next = upto, 1 - self._next


_SLOT: Final = struct.Struct("!q8s")


def _check_sum(number: int) -> bytes:
    return sha256(b"maia/1/position\0%d" % number).digest()[:8]


def _number_in(slot: bytes) -> int | None:
    if len(slot) != _SLOT.size:
        return None
    number, check = _SLOT.unpack(slot)
    return int(number) if check == _check_sum(number) else None


# ------------------------------------------------------------ an operator decides


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a database that was restored or copied."""

    kept: dict[str, int]
    """How many rows of each release wait, and will be published."""
    discarded: dict[str, int]
    lost: dict[str, tuple[int, int]]
    """From where to where stores have acknowledged events that this database does not have."""


async def accept(
    connection: Connection, schema_name: str, positions: Positions, *, publish: bool
) -> Accepted:
    """Go on with this database as one of which nothing has left yet, under streams of its own.

    Rows that wait are published, or discarded: whether they had left before it was restored, only
    the operator can know. No connector may run meanwhile.
    """
    schema, incarnation = sql.Identifier(schema_name), str(uuid4())
    kept: dict[str, int] = {}
    discarded: dict[str, int] = {}
    async with connection.transaction():
        for name in await installed_releases(connection, schema_name):
            out = sql.Identifier(schema_name, f"out_{name}")
            # What a broker had taken on is kept for another one, and is published already.
            left = (
                "DELETE FROM {out} o USING {s}.commits c, {s}.frames f, {s}.releases r WHERE r.name = %s"
                " AND (f.release, f.number) = (r.name, r.done_frame) AND c.release = r.name"
                " AND (o.maia_xid, o.maia_started) = (c.xid, c.started)"
                " AND (c.position, o.maia_row) <= (f.upto_position, f.upto_row)"
            )
            await ask(connection, left, name, out=out, s=schema)
            if publish:
                kept[name] = (await rows_of(connection, "SELECT count(*) FROM {out}", out=out))[0][0]
            else:
                discarded[name] = (await ask(connection, "DELETE FROM {out}", out=out)).rowcount
        if not publish:
            await ask(connection, "DELETE FROM {s}.commits", s=schema)
        await ask(connection, "DELETE FROM {s}.frames", s=schema)
        begun = (
            "UPDATE {s}.releases SET next_frame = 0, planned_position = 0, planned_row = 0, done_frame = -1"
        )
        await ask(connection, begun, s=schema)
        own = (
            "UPDATE {s}.connection SET incarnation = %s, may_rebind = true,"
            " (system_identifier, database) = (SELECT system_identifier, oid FROM pg_control_system(),"
            " pg_database WHERE datname = current_database())"
        )
        await ask(connection, own, incarnation, s=schema)
        stored: dict[str, int] = dict(
            await rows_of(connection, "SELECT name, position FROM {s}.stores", s=schema)
        )
    lost = {
        name: (position + 1, upto)
        for name, position in stored.items()
        if (upto := positions.acknowledged(name)) > position
    }
    positions.begin_anew(incarnation)
    return Accepted(kept, discarded, lost)
