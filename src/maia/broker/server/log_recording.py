"""How does what a broker wants recorded get to the disk without blocking the broker?

The broker asks and goes on. All that it asks for while the disk is busy is
written together, with one synchronisation, in a thread of its own; then the
broker receives how far everything is safe. Reading, rolling and removing have
another thread, one at a time. When more waits than the limit allows, the
links are not read until the disk has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from maia.errors import MaiaError, Unavailable
from maia.events import INSTANT_MIN, Instant
from maia.log.disk.event_log import EventLog, LogReadings
from maia.log.disk.files import disk_problem
from maia.log.disk.rollover import give_memory_back
from maia.log.disk.shipping import PlaceCopy
from maia.log.format.errors import LogBroken, LogDamaged, LogDiskFull
from maia.log.format.manifest import MissingRun
from maia.log.format.records import LogRecord
from maia.log.format.retention import GROWTH, Retention
from maia.net.observer import Records
from maia.wire.effects import Input, LogAtStart, Logged, LogRead, ReadLog, Record, Recorded
from maia.wire.messages import RecordedRun

_MISSING_MAX = 4096
"""How many runs of what is missing are named in the manifest."""


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """How much may wait for the disk, and how often the log is looked after."""

    waiting_bytes: int = 64 << 20
    batch_bytes: int = 32 << 20
    batch_frames: int = 16_384
    try_again_s: float = 5.0
    """How long to wait for room on a full disk."""
    roll_s: float = 60.0
    """How often journals become segments, and old segments are removed."""


class LogRecorder:
    """One event log, and the threads that work on it."""

    def __init__(
        self,
        log: EventLog,
        *,
        clock: Callable[[], Instant],
        records: Records,
        retention: Retention | None = None,
        limits: RecorderLimits | None = None,
        copy: PlaceCopy | None = None,
    ) -> None:
        """Work on `log`, which stays open for as long as this does, and on its `copy` in a place."""
        self._copy = copy
        self.place_problem = ""
        """Why nothing can be put into the place at this moment, if that is so."""
        self._log, self._clock, self._records = log, clock, records
        self._readings = LogReadings(log)
        self._retention = Retention() if retention is None else retention
        self._limits = RecorderLimits() if limits is None else limits
        self._waiting: deque[Record] = deque()
        self._waiting_bytes = 0
        self._reads: asyncio.Queue[ReadLog] = asyncio.Queue()
        self._arrived, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._give: Callable[[Input], None] = lambda _input: None
        self._fail: Callable[[MaiaError], None] = lambda _problem: None
        self._after_writing: Callable[[], None] = lambda: None
        self.missing: Callable[[], Mapping[bytes, list[RecordedRun]]] = dict
        """Asks what the log is known to lack, to say so in its manifest."""
        self.problem = ""
        """Why nothing can be written at this moment, if that is so."""
        self._is_broken = False
        self._upkeep_problem = ""

    def at_start(self, since: int, *, frames_max: int) -> LogAtStart:
        """Return what a broker needs of the log when it starts: at most so many of the newest frames."""
        following = self._log.next_position
        first = max(since, following - frames_max, 1)
        found = (Logged(one.position, one.recorded_at, one.message) for one in self._log.read(first))
        return LogAtStart(following, found if first < following else ())

    # -------------------------------------------------------- what the runner asks for

    @property
    def is_full(self) -> bool:
        """Return whether nothing more should be read from links for now."""
        return self._waiting_bytes >= self._limits.waiting_bytes

    def status(self) -> Mapping[str, object]:
        """Return how much is on disk, and how much waits for it."""
        return {
            "bytes": self._log.size_bytes,
            "waiting_bytes": self._waiting_bytes,
            "is_full": bool(self.problem),
            "problem": self.problem,
            **self._place_status(),
        }

    def _place_status(self) -> dict[str, object]:
        if self._copy is None:
            return {}
        behind = self._log.next_position - 1 - self._copy.upto
        return {
            "place_upto": self._copy.upto,
            "place_behind": behind,
            "place_failed": bool(self.place_problem),
        }

    def record(self, effect: Record) -> None:
        """Have a frame written with the next batch."""
        self._waiting.append(effect)
        self._waiting_bytes += len(effect.data)
        self._idle.clear()
        self._arrived.set()

    def read(self, effect: ReadLog) -> None:
        """Have frames read, one reading after the other; a broker asks once for each subscription."""
        self._reads.put_nowait(effect)

    async def flush(self) -> None:
        """Wait until everything is safe that was to be recorded so far."""
        await self._idle.wait()

    # -------------------------------------------------------- life

    async def run(
        self,
        *,
        give: Callable[[Input], None],
        fail: Callable[[MaiaError], None],
        after_writing: Callable[[], None],
    ) -> None:
        """Write, read and maintain the log until cancelled; `fail` is called for a log that cannot go on."""
        self._give, self._fail, self._after_writing = give, fail, after_writing
        writing = ThreadPoolExecutor(1, thread_name_prefix="maia-log-write")
        reading = ThreadPoolExecutor(1, thread_name_prefix="maia-log-read")
        upkeep = ThreadPoolExecutor(1, thread_name_prefix="maia-log-roll")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write_on(writing))
                group.create_task(self._read_on(reading))
                group.create_task(self._look_after(upkeep))
        finally:
            # What is being written is waited for: the log is closed next.
            for pool in (writing, reading, upkeep):
                pool.shutdown(wait=True, cancel_futures=True)

    async def _write_on(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            try:
                upto = await self._written(loop, pool, batch)
            except MaiaError as problem:
                # It was never acknowledged, and will not be: publishers send it again elsewhere.
                self._records.note("log-failed", problem.as_record())
                self._idle.set()
                self._fail(problem)
                return
            self._waiting_bytes -= sum(len(one.data) for one in batch)
            if not self._waiting:
                self._arrived.clear()
                self._idle.set()
            self._give(Recorded(upto))
            self._after_writing()

    async def _written(
        self, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor, batch: list[Record]
    ) -> int:
        """Write a batch; where the disk takes none, wait until it does, and let publishers wait too.

        Only recording stops: what passes here, and who is served here, does not depend on this disk.
        """
        while True:
            try:
                upto = await loop.run_in_executor(pool, self._write, batch)
            except (LogDiskFull, LogBroken) as problem:
                self._is_broken = self._is_broken or isinstance(problem, LogBroken)
                if problem.message != self.problem:
                    self.problem = problem.message
                    is_full = isinstance(problem, LogDiskFull)
                    self._records.note("log-full" if is_full else "log-failed", problem.as_record())
                    self._give(Recorded(batch[0].position - 1, self.problem))
                await asyncio.sleep(self._limits.try_again_s)
            else:
                if self.problem:
                    self.problem = ""
                    self._records.note("log-goes-on", {})
                return upto

    def _next_batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        while self._waiting and len(batch) < self._limits.batch_frames:
            size += len(self._waiting[0].data)
            if batch and size > self._limits.batch_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _write(self, batch: list[Record]) -> int:
        if self._is_broken:
            self._log.mend(self._clock())
            self._is_broken = False
        if batch[0].position != self._log.next_position:
            last = self._log.next_position - 1
            raise LogDamaged("journals", 0, f"record {batch[0].position} was to follow {last}")
        return self._log.append([one.data for one in batch], recorded_at=self._clock())[-1]

    async def _read_on(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked = await self._reads.get()
            self._give(await loop.run_in_executor(pool, self._found, asked))

    def _found(self, asked: ReadLog) -> LogRead:
        records: list[LogRecord] = []
        upto, problem = asked.first - 1, None
        try:
            first = asked.first
            if asked.since > INSTANT_MIN:
                first = min(max(first, self._log.first_since(asked.type_id, asked.since)), asked.upto + 1)
            records, upto = self._readings.read(
                asked.type_id,
                first,
                upto=asked.upto,
                frames_max=asked.frames_max,
                bytes_max=asked.bytes_max,
            )
        except (MaiaError, OSError) as found:
            said = found if isinstance(found, MaiaError) else disk_problem(found, "be read")
            self._records.note("log-unreadable", said.as_record())
            problem = said.code
        frames = tuple(Logged(one.position, one.recorded_at, one.message) for one in records)
        return LogRead(asked.read, frames, upto, self._log.removed_upto(asked.type_id), problem)

    async def _look_after(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.roll_s)
            try:
                made, gone = await loop.run_in_executor(pool, self._rolled, self._missing())
            except (MaiaError, OSError) as found:
                # What is in the journals stays there, and is tried again.
                problem = found if isinstance(found, MaiaError) else disk_problem(found, "be rolled")
                if problem.message != self._upkeep_problem:
                    self._records.note("log-upkeep-failed", problem.as_record())
                self._upkeep_problem = problem.message
                continue
            self._upkeep_problem = ""
            if made:
                self._records.note("log-rolled", {"segments": made})
            if gone:
                self._records.note("log-forgotten", {"segments": gone})

    def _missing(self) -> list[MissingRun]:
        found = (
            MissingRun(type_id, run.publisher, run.stream, run.first, run.last)
            for type_id, runs in sorted(self.missing().items())
            for run in runs
        )
        return list(islice(found, _MISSING_MAX))

    def _rolled(self, missing: list[MissingRun]) -> tuple[int, int]:
        now = self._clock()
        made = len(self._log.roll(now))
        self._log.note_missing(missing, now)
        upto = self._shipped(now)
        self._log.compact(now, growth=GROWTH, upto=upto)
        if made:
            give_memory_back()
        return made, len(self._log.retain(self._retention, now, upto=upto))

    def _shipped(self, now: Instant) -> int | None:
        """Put what was rolled into the place, if there is one; return up to where it is safe there."""
        if self._copy is None:
            return None
        try:
            shipped = self._copy.ship(self._log, now)
        except (MaiaError, OSError) as found:
            # The local segments are the only copy: they stay, and it is tried again.
            cut = Unavailable("PLACE-UNREACHABLE", "the place of the log does not answer to the end")
            problem = found if isinstance(found, MaiaError) else cut
            if self.place_problem != problem.message:
                self._records.note("log-place-failed", problem.as_record())
            self.place_problem = problem.message
        else:
            if shipped or self.place_problem:
                self._records.note("log-shipped", {"segments": len(shipped), "upto": self._copy.upto})
            self.place_problem = ""
        return self._copy.upto
