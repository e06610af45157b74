"""A log of one type that grows, is joined and forgets, as its broker makes it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.log import Keep, Retention
from maia.log.disk.event_log import EventLog, LogLimits
from maia.log.format.manifest import MissingRun
from maia.spark.errors import told_to_spark
from maia.spark.governed.log_folder import FramesWanted, LogFrames
from maia.spark.governed.plan import Access, governed_read
from maia.spark.governed.reading_ledger import seen_rows
from maia.spark.governed.stream_source import LogStreamReader
from maia.types import SealingLevel
from maia.wire.codec import encode
from support.governed import NOON, PLATE, Recorded, at, reader, sightings

NO_GRACE = LogLimits(grace_s=0.0)


class Growing:
    """A log with a manifest that grows, is joined and forgets, and what was ever recorded in it."""

    def __init__(self, folder: Path, level: SealingLevel | None = None) -> None:
        self.folder, self.made = folder / "log", Recorded(folder / "elsewhere", level)
        self.rows = 0
        self.other = Recorded(folder / "elsewhere", None)

    def record(self, frames: int = 1, *, rows: int = 2, hours: float = 0) -> None:
        with self._open() as log:
            for _ in range(frames):
                made = self.made.publish(sightings(rows, first=self.rows), published_at=at(hours))
                log.append([encode(made)], recorded_at=NOON)
                self.rows += rows
            log.roll(NOON)

    def lack(self, publications: int) -> None:
        """Say that the log lacks some publications of the type, or none any more."""
        lacks = MissingRun(self.made.event_type.type_id, b"p" * 32, b"s" * 16, 1, publications)
        with self._open() as log:
            log.note_missing([lacks] if publications else [], NOON)

    def join(self) -> None:
        """Join what can be joined, and leave nothing of the old files."""
        with self._open() as log:
            log.compact(NOON)
            log.roll(NOON)

    def forget(self) -> None:
        with self._open() as log:
            log.retain(Retention(Keep(bytes_max=0)), NOON)

    def _open(self):
        return closing(EventLog.open(self.folder, now=NOON, limits=NO_GRACE))

    def reader(self, **how) -> LogStreamReader:
        return self.reader_of(self.wanted(**how))

    def reader_of(self, wanted: FramesWanted) -> LogStreamReader:
        read = governed_read(Access(reader(), (self.made.event_type,)))
        return LogStreamReader(seen_rows(read, read.opener(wanted, read.plans), read.plans))

    def wanted(self, **how) -> FramesWanted:
        return FramesWanted(str(self.folder), self.made.event_type.type_id, INSTANT_MIN, INSTANT_MAX, **how)

    def frames(self, part, columns: tuple[str, ...] = ("header", PLATE), **how):
        """Yield what a task reads that was given a partition of the source."""
        with told_to_spark():
            for one in part.value:
                yield from LogFrames(self.wanted(**how), columns).batches(one)

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("type=*/day=*/*.parquet"))
