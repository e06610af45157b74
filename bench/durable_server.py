"""The event log behind a socket, so that both sides of #22 pay for the same hop.

Run as a program with a folder: it prints the port it listens on. It takes
frames with their length before them, and answers one byte for each frame that
is safe on the disk.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from maia.clock import system_now
from maia.log.disk.event_log import EventLog
from maia.log.disk.group_commit import GroupCommit
from maia.wire.framing import MESSAGE_BYTES_MAX, Splitter

ACKNOWLEDGED = b"!"


class Recording(asyncio.Protocol):
    """One publisher."""

    def __init__(self, group: GroupCommit) -> None:
        self._group, self._frames = group, Splitter(MESSAGE_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        frames = self._frames.feed(data)
        if frames:
            self._group.submit(frames).add_done_callback(self._acknowledge)

    def _acknowledge(self, safe: asyncio.Future[range]) -> None:
        self._transport.write(ACKNOWLEDGED * len(safe.result()))


async def serve(folder: Path) -> None:
    """Record until standard input ends."""
    with EventLog.open(folder) as log:
        async with GroupCommit(log, clock=system_now) as group:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: Recording(group), "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.read)
            server.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
