"""How is one process cut off from another, one way or both, without being root?

A relay stands at every address that is known to others, and each server listens behind it. Of whom a
connection is, the kernel knows: its port belongs to a process. What is cut is held as TCP would hold it, and
goes on when the line is whole again, unless one of the ends has closed it meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

READ = 1 << 18
OUTSIDE = "outside"
"""Whoever is none of the organisations' servers: participants, who are never cut off."""


def process_of(port: int, pids: Iterable[int]) -> int | None:
    """Return which of these processes has a TCP socket at a local port.

    Every connection waits for it, also on a machine with many others: nothing is taken apart that does not
    have to be.
    """
    wanted = b": 0100007F:%04X " % port
    lines = Path("/proc/net/tcp").read_bytes()
    inodes = set[str]()
    at = lines.find(wanted)
    while at >= 0:
        inodes.add(f"socket:[{int(lines[at + 2 :].split(maxsplit=9)[8])}]")
        at = lines.find(wanted, at + 1)
    for pid in pids if inodes else ():
        with suppress(OSError):
            folder = f"/proc/{pid}/fd/"
            for one in os.listdir(folder):  # noqa: PTH208 - a path for each would take twice as long
                with suppress(OSError):
                    if os.readlink(folder + one) in inodes:  # noqa: PTH115 - the same
                        return pid
    return None


@dataclass(slots=True)
class Relay:
    """Every front address, what stands behind it, and which lines are cut."""

    owners: Callable[[], Mapping[int, str]]
    """Whose each process is, at this moment."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    gates: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    carried: int = 0
    """How many bytes went through."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _listening: list[socket.socket] = field(default_factory=list)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        """Begin, in a thread that ends with this process."""
        self._thread = threading.Thread(target=self.loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def stand_at(self, front: str, behind: str, owner: str) -> None:
        """Accept connections at an organisation's address, and hand them on to where its server listens."""
        asyncio.run_coroutine_threadsafe(self._listen(front, behind, owner), self.loop).result()

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing through from one organisation to another, from now on."""
        self._turn(sender, receiver, asyncio.Event.clear)

    def mend(self, sender: str, receiver: str) -> None:
        """Let everything through again."""
        self._turn(sender, receiver, asyncio.Event.set)

    def stop(self) -> None:
        """End; nothing is carried any more."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        for one in self._listening:
            one.close()

    def _turn(self, sender: str, receiver: str, act: Callable[[asyncio.Event], None]) -> None:
        async def turn() -> None:
            act(self._gate(sender, receiver))

        asyncio.run_coroutine_threadsafe(turn(), self.loop).result()

    def _gate(self, sender: str, receiver: str) -> asyncio.Event:
        gate = self.gates.get((sender, receiver))
        if gate is None:
            gate = self.gates[sender, receiver] = asyncio.Event()
            gate.set()
        return gate

    async def _listen(self, front: str, behind: str, owner: str) -> None:
        host, _, port = front.rpartition(":")
        listening = socket.create_server((host, int(port)), backlog=256)
        listening.setblocking(False)
        self._listening.append(listening)
        self._tasks.add(self.loop.create_task(self._accept(listening, behind, owner)))

    async def _accept(self, listening: socket.socket, behind: str, owner: str) -> None:
        while True:
            line, (_, port) = await self.loop.sock_accept(listening)
            line.setblocking(False)
            owners = self.owners()
            dialer = owners.get(process_of(port, owners) or 0, OUTSIDE)
            task = self.loop.create_task(self._carry(line, behind, dialer, owner))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, line: socket.socket, behind: str, dialer: str, owner: str) -> None:
        there, back = self._gate(dialer, owner), self._gate(owner, dialer)
        host, _, port = behind.rpartition(":")
        with line, socket.socket() as other, suppress(OSError):
            await there.wait()
            await back.wait()
            other.setblocking(False)
            await self.loop.sock_connect(other, (host, int(port)))
            for one in (line, other):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(line, other, there))
                pumps.create_task(self._pump(other, line, back))

    async def _pump(self, source: socket.socket, target: socket.socket, gate: asyncio.Event) -> None:
        try:
            while data := await self.loop.sock_recv(source, READ):
                await gate.wait()
                self.carried += len(data)
                await self.loop.sock_sendall(target, data)
            await gate.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:  # an end was reset: so is the other
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
