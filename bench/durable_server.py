"""The event log behind a socket, so that both sides of #22 pay for the same hop.

Run as a program with a folder: it prints the port it listens on. It takes
frames with their length before them, and answers one byte for each frame that
is safe on the disk. What writes is the recorder of a broker.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from itertools import count
from pathlib import Path

from maia.broker.server.log_recording import LogRecorder
from maia.clock import system_now
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.wire.effects import Input, Record, Recorded
from maia.wire.framing import MESSAGE_BYTES_MAX, Splitter

ACKNOWLEDGED = b"!"


class Recording:
    """All publishers of one log: which frame is whose, until it is safe."""

    def __init__(self, recorder: LogRecorder) -> None:
        self._recorder, self._positions = recorder, count(1)
        self._waiting: deque[tuple[int, asyncio.Transport]] = deque()

    def take(self, frame: bytes, publisher: asyncio.Transport) -> None:
        position = next(self._positions)
        self._waiting.append((position, publisher))
        self._recorder.record(Record(position, frame))

    def give(self, given: Input) -> None:
        assert isinstance(given, Recorded)
        while self._waiting and self._waiting[0][0] <= given.upto:
            self._waiting.popleft()[1].write(ACKNOWLEDGED)


class Publisher(asyncio.Protocol):
    """One publisher."""

    def __init__(self, recording: Recording) -> None:
        self._recording, self._frames = recording, Splitter(MESSAGE_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._recording.take(frame, self._transport)


def fail(problem: Exception) -> None:
    """End where the disk has failed."""
    raise problem


async def serve(folder: Path) -> None:
    """Record until standard input ends."""
    with EventLog.open(folder) as log:
        recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
        recording = Recording(recorder)
        running = recorder.run(give=recording.give, fail=fail, after_writing=lambda: None)
        task = asyncio.create_task(running)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Publisher(recording), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.close()
        task.cancel()
        await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
