"""Which connections does a node have, how are new ones made, and when is one too many?

A node's runner asks here to listen and to dial. Connections that have not
ended their handshake are counted apart from the others. When there are
too many of them one goes, the oldest from where most of them come, so that a
flood of silent strangers costs them their places and nobody else theirs (A74).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from maia.back_off import doubled, jittered
from maia.credentials import SigningKey
from maia.errors import MaiaError, Unavailable
from maia.net.addresses import host_and_port
from maia.net.links import LinkLimits, SocketLink
from maia.net.tls import accepting_context, dialling_context
from maia.net.tls_stream import SocketStream, open_stream
from maia.sessions.admission import Places
from maia.wire.effects import LinkId

if TYPE_CHECKING:
    from maia.net.statement_links import StatementLinks


_SWEEP_S: Final = 1.0
_ACCEPT_PAUSE_S: Final = 0.1


class ConnectionOwner(Protocol):
    """Whoever is told what happens to connections."""

    def opened(self, link: SocketLink) -> None:
        """Take note that a peer has proved its key."""

    def received(self, link: SocketLink, messages: list[bytes]) -> None:
        """Take whole messages, in order."""

    def closed(self, link: SocketLink, problem: Exception | None) -> None:
        """Take note that a connection is gone, and why, if this side found a reason."""

    def drained(self, link: SocketLink) -> None:
        """Take note that nothing waits to be written to a peer any more."""

    def refused(self, problem: Exception, dialled: str | None) -> None:
        """Take note that a connection came to nothing before the peer was known."""


class BackOff:
    """How long to wait before an address is dialled again: longer each time, and never in step."""

    __slots__ = ("_failures", "_first_s", "_most_s", "_random")

    def __init__(self, *, first_s: float, most_s: float, random: Callable[[int], bytes]) -> None:
        """Wait about `first_s` after the first failure and never longer than `most_s`."""
        self._first_s, self._most_s, self._random = first_s, most_s, random
        self._failures: dict[str, int] = {}

    def failed(self, address: str) -> None:
        """Count a failure."""
        self._failures[address] = self._failures.get(address, 0) + 1

    def succeeded(self, address: str) -> None:
        """Forget all failures."""
        self._failures.pop(address, None)

    def wait_s(self, address: str) -> float:
        """Return how long to wait now: between half and all of what the failures ask for."""
        failures = self._failures.get(address, 0)
        if not failures:
            return 0.0
        return jittered(doubled(self._first_s, failures, most=self._most_s), self._random)


class Connections:
    """The connections of one node. All of its tasks live in the task group that it is given."""

    def __init__(
        self,
        owner: ConnectionOwner,
        key: SigningKey,
        limits: LinkLimits,
        back_off: BackOff,
        by_statement: StatementLinks | None = None,
    ) -> None:
        """Prove on every connection that this node holds `key`."""
        self._owner = owner
        self._by_statement = by_statement
        self._limits = limits
        self._back_off = back_off
        # Made when they are needed: a client accepts nothing, and a context costs as much as a handshake.
        self._accepting = cache(partial(accepting_context, key))
        self._dialling = cache(partial(dialling_context, key))
        self._links: dict[LinkId, SocketLink] = {}
        self.find: Callable[[LinkId], SocketLink | None] = self._links.get
        """Return a connection, or None if it is gone."""
        self.link_received: Callable[[SocketLink, list[bytes]], None] = owner.received
        """Pass messages on: nothing is between a link and the runner, because every message goes there."""
        self._half_open: Places[asyncio.Task[None]] = Places(limits.half_open)
        self._being_dialled: set[str] = set()
        self._numbers = count(1)
        self.ended = 0
        """How many connections to a known peer have ended so far."""
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: list[asyncio.Task[None]] = []
        self._is_empty = asyncio.Event()

    # -------------------------------------------------------- what the runner asks for

    def start(self, group: asyncio.TaskGroup) -> None:
        """Begin to watch deadlines."""
        self._group = group
        self._spawn(self._sweep())

    def stop(self) -> None:
        """End every connection and every task, at once."""
        for task in list(self._tasks):
            task.cancel()
        for link in list(self._links.values()):
            link.fail(ConnectionAbortedError("this node stops"))

    def read_on(self, wanted: bool) -> None:
        """Read on from all connections, or leave what arrives to TCP."""
        for link in list(self._links.values()):
            link.read_on(wanted)

    def traffic(self) -> dict[str, tuple[int, int]]:
        """Return how many bytes each link has received and sent."""
        return {str(number): (one.received_bytes, one.sent_bytes) for number, one in self._links.items()}

    @property
    def half_open(self) -> int:
        """Return how many connections have not ended the handshake of TLS."""
        return len(self._half_open)

    def __len__(self) -> int:
        return len(self._links)

    def listen(self, listening: socket.socket, *, by_statement: bool = False) -> None:
        """Accept links at a socket that listens already: TLS links, or else statement links."""
        self._listening.append(self._spawn(self._accept(listening, by_statement)))

    def stop_listening(self) -> None:
        """Accept nobody else."""
        while self._listening:
            self._listening.pop().cancel()

    def dial(self, address: str) -> None:
        """Open a connection, later if the address has failed before; once at a time for each address."""
        if address not in self._being_dialled:
            self._being_dialled.add(address)
            self._spawn(self._dial(address))

    async def closed(self) -> None:
        """Wait until every connection is closed, or has had the time to."""
        self._is_empty.clear()
        if self._links:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_s + _SWEEP_S):
                    await self._is_empty.wait()

    # -------------------------------------------------------- what links tell

    def link_opened(self, link: SocketLink) -> None:
        """Take a connection on, unless there are too many."""
        if len(self._links) >= self._limits.links and not self._ends_one_that_hangs_up():
            link.fail(
                Unavailable("UNAVAILABLE-CONNECTIONS", f"there are {self._limits.links} connections already")
            )
            return
        self._links[link.id] = link
        if link.dialled is not None:
            self._back_off.succeeded(link.dialled)
        self._owner.opened(link)

    def _ends_one_that_hangs_up(self) -> bool:
        """Wait no longer for the oldest peer that was parted from and takes its time to hang up (A88)."""
        oldest = next((link for link in self._links.values() if link.is_hanging_up), None)
        if oldest is not None:
            oldest.fail(Unavailable("SLOW-LINK", "the peer did not hang up, and another needs its place"))
        return oldest is not None

    def link_closed(self, link: SocketLink, problem: Exception | None) -> None:
        """Forget a connection; one that was never announced was refused."""
        if self._links.pop(link.id, None) is None:
            self._owner.refused(problem or ConnectionResetError("the peer left"), link.dialled)
        else:
            self.ended += 1
            self._owner.closed(link, problem)
        if not self._links:
            self._is_empty.set()

    def link_drained(self, link: SocketLink) -> None:
        """Pass the good news on."""
        self._owner.drained(link)

    # -------------------------------------------------------- tasks

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._group is not None  # noqa: S101 - `start` comes first
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _new_link(self, dialled: str | None) -> SocketLink:
        return SocketLink(self, LinkId(next(self._numbers)), self._limits, dialled)

    async def _sweep(self) -> None:
        """Look at every deadline once a second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            for link in list(self._links.values()):
                link.check_deadlines(loop.time())

    async def _accept(self, listening: socket.socket, by_statement: bool) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection, where = await loop.sock_accept(listening)
                except OSError as problem:  # no file descriptors left, for instance: others may close some
                    self._owner.refused(problem, None)
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                else:
                    self._take_on(connection, str(where[0]), by_statement)

    def _take_on(self, connection: socket.socket, address: str, by_statement: bool) -> None:
        task = self._spawn(self._shake_hands(connection, by_statement))
        self._half_open.take(task, address)
        waits = self._half_open.next_to_go() if self._half_open.is_overfull else None
        if waits is not None:
            self._half_open.leave(waits)
            waits.cancel()

        def done(ended: asyncio.Task[None]) -> None:
            self._half_open.leave(ended)
            if ended.cancelled():  # perhaps before its first step, so that nobody else closes the socket
                connection.close()

        task.add_done_callback(done)

    async def _shake_hands(self, connection: socket.socket, by_statement: bool) -> None:
        try:
            await self._open(connection, None, by_statement)
        except (OSError, MaiaError) as problem:  # that of TLS is an OSError
            self._owner.refused(problem, None)

    async def _open(self, connection: socket.socket, dialled: str | None, by_statement: bool) -> None:
        """Make a link of a connected socket; who does not end the handshake in time never was one."""
        async with asyncio.timeout(self._limits.handshake_s):
            opening = self._open_by_statement if by_statement else self._open_by_tls
            stream = await opening(connection, dialled)
        self._new_link(dialled).open(stream)

    async def _open_by_tls(self, connection: socket.socket, dialled: str | None) -> SocketStream:
        context = self._accepting() if dialled is None else self._dialling()
        return await open_stream(connection, context, accepts=dialled is None)

    async def _open_by_statement(self, connection: socket.socket, dialled: str | None) -> SocketStream:
        from maia.net.statement_links import open_statement_stream

        assert self._by_statement is not None  # noqa: S101 - the configuration named what is needed
        responder = None if dialled is None else self._by_statement.responder_at(dialled)
        return await open_statement_stream(connection, self._by_statement, responder)

    async def _dial(self, address: str) -> None:
        try:
            await asyncio.sleep(self._back_off.wait_s(address))
            await self._connect(address)
        except (OSError, MaiaError) as problem:  # a time-out is an OSError
            self._back_off.failed(address)
            self._being_dialled.discard(address)
            self._owner.refused(problem, address)
        finally:
            self._being_dialled.discard(address)

    async def _connect(self, address: str) -> None:
        links = self._by_statement
        by_statement = links is not None and links.responder_at(address) is not None
        # Without an identity, an address with a key in it is no address.
        host, port = host_and_port(address.rpartition("@")[2] if by_statement else address)
        async with asyncio.timeout(self._limits.dial_s):
            connection = await _connected(host, port)
            await self._open(connection, address, by_statement)


async def _connected(host: str, port: int) -> socket.socket:
    """Connect to the first address of a host that answers; if none does, the last one's problem is raised."""
    loop = asyncio.get_running_loop()
    problem: OSError | None = None
    for family, kind, protocol, _, where in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, where)
        except OSError as found:
            connection.close()
            problem = found
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise problem or ConnectionRefusedError("the host has no address")
