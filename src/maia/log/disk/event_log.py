"""What did a broker record, and is it safe?

A recording broker appends frames and acknowledges them when `append` has
returned. Durable subscriptions and the pipeline read them again, by position.

    with EventLog.open(folder) as log:
        positions = log.append(messages, recorded_at=now)     # on disk when it returns
        for record in log.read(positions[0]):
            ...                                               # record.message == messages[0]

What was acknowledged is served exactly as it was given, or reported as
damaged; it is never silently missing, altered or doubled. Several threads may
use one log: appending does not wait for rolling, joining or reading.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final

from maia.bounded_map import BoundedMap
from maia.clock import system_now
from maia.errors import BadInput
from maia.events import Instant
from maia.log.disk.files import Disk, FolderDisk
from maia.log.disk.journals import Cut, JournalFile, Journals
from maia.log.disk.reader import (
    Snapshot,
    Verification,
    published_between,
    read_records,
    verified_paths,
    verify_files,
)
from maia.log.disk.rollover import (
    ManifestFile,
    changed,
    delete_due,
    join_segments,
    read_bytes,
    records_of,
    remove_left_overs,
    write_piece,
)
from maia.log.format.manifest import Change, Manifest, MissingRun, Segment, in_order
from maia.log.format.records import LogRecord, checked_frame
from maia.log.format.retention import Retention, forgetting, pieces, removal, to_forget, to_join

BATCH_MAX: Final = 65_536
"""How many frames are made safe together at most."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How large things grow. A journal is finished, and a segment full, at these bytes."""

    journal_bytes: int = 64 << 20
    reserved_bytes: int = 4 << 20
    segment_bytes: int = 128 << 20
    rolled_at_once_bytes: int = 256 << 20
    batch_bytes: int = 64 << 20
    grace_s: float = 3600.0
    """How long a file that was joined with others stays for those who found it before."""


class EventLog:
    """One folder of journals, segments and a manifest, owned by one process."""

    def __init__(
        self, disk: Disk, folder: Path, *, random: Callable[[int], bytes], now: Instant, limits: LogLimits
    ) -> None:
        """Recover what a disk holds that is already locked; `open` is what you want."""
        self._disk, self._folder, self._limits = disk, folder, limits
        self._writing, self._upkeep = Lock(), Lock()
        self._manifest = ManifestFile(disk, random=random, at=now)
        self._journals = Journals(
            disk, random=random, bytes_max=limits.journal_bytes, reserves=limits.reserved_bytes
        )
        state = self._manifest.state
        cuts = self._journals.recover(rolled_upto=state.rolled_upto, check=state.check)
        self.cuts: tuple[Cut, ...] = (*self._manifest.cuts, *cuts)
        """What was cut off at this start: writes that were under way when the last process died."""
        remove_left_overs(disk, state, next_position=self._journals.next_position)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        limits: LogLimits = LogLimits(),  # noqa: B008  a frozen value that can be shared
        now: Instant | None = None,
        disk: Disk | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> EventLog:
        """Take `folder` for this process alone, and recover what is in it.

        Raises `LOG-IN-USE` if another process has it, and `LogDamaged`, with file and
        offset, if something in it is not as it was written. Look at `cuts` afterwards.
        """
        disk = disk or FolderDisk(folder)
        disk.lock()
        try:
            return cls(disk, folder, random=random, now=now or system_now(), limits=limits)
        except BaseException:
            disk.close()
            raise

    # -------------------------------------------------------- recording

    @property
    def next_position(self) -> int:
        """Return the position that the next record will have; the first ever is 1."""
        return self._journals.next_position

    def append(self, messages: Sequence[bytes], *, recorded_at: Instant) -> range:
        """Keep the bytes of `Carried` and `Sealed` messages; return their positions when they are on disk.

        All of them are kept or none. Raises `LOG-NOT-A-FRAME`, `LogDiskFull` (try again when there
        is room) and `LogBroken` (it has to be mended, or opened again).
        """
        if len(messages) > BATCH_MAX or sum(map(len, messages)) > self._limits.batch_bytes:
            raise BadInput(
                "LOG-NOT-A-FRAME",
                f"a batch has at most {BATCH_MAX} frames and {self._limits.batch_bytes} bytes",
            )
        checked = [checked_frame(message) for message in messages]
        with self._writing:
            if not checked:
                return range(self.next_position, self.next_position)
            return self._journals.append(checked, recorded_at=recorded_at)

    def mend(self, now: Instant) -> None:
        """Go on behind what was acknowledged, after `LogBroken`; raise if the disk still refuses."""
        with self._upkeep, self._writing:
            self._journals.mend()
            self._manifest.mend(now)

    # -------------------------------------------------------- reading

    def read(
        self, from_position: int = 1, *, type_ids: Collection[bytes] | None = None
    ) -> Iterator[LogRecord]:
        """Yield what is recorded from a position on, in order, each once, up to now.

        Raises `LogDamaged` instead of yielding anything that is not as it was written.
        `removed_upto` says up to where retention has removed records of a type.
        """
        return read_records(self._disk, self._look, from_position=from_position, type_ids=type_ids)

    def _look(self) -> Snapshot:
        with self._writing:
            state = self._manifest.state
            return Snapshot(tuple(in_order(state.segments.values())), tuple(self._journals.files))

    @property
    def size_bytes(self) -> int:
        """Return how many bytes the journals and segments have together."""
        found = self._look()
        return sum(one.size for one in found.segments) + sum(one.end for one in found.journals)

    def removed_upto(self, type_id: bytes) -> int:
        """Return the highest position of this type that retention has removed; 0 for none."""
        return self._manifest.state.forgotten.get(type_id, 0)

    def first_since(self, type_id: bytes, since: int) -> int:
        """Return a position before which nothing of a type was recorded at or after a moment."""
        with self._writing:
            state = self._manifest.state
            later = [one.first for one in state.of_type(type_id) if one.recorded_until >= since]
            return min(later, default=state.rolled_upto + 1)

    def segments(
        self, type_id: bytes, *, since: Instant | None = None, until: Instant | None = None
    ) -> list[Path]:
        """Return the verified Parquet files of a type, in order, for Spark and for plain pyarrow.

        `since` and `until` leave out files whose frames were all published earlier or later.
        """
        with self._writing:
            found = published_between(self._manifest.state.of_type(type_id), since=since, until=until)
        return verified_paths(self._disk, self._folder, found)

    def verify(self, *, on_file: Callable[[str], None] = lambda _name: None) -> Verification:
        """Read everything, and report (file, offset, what) for whatever is not as it was written."""
        with self._upkeep:
            snapshot = self._look()
            records, problems, notes = verify_files(self._disk, snapshot, on_file=on_file)
        files = len(snapshot.files()) + 1
        return Verification(files, records, tuple(problems), tuple(notes))

    # -------------------------------------------------------- upkeep

    def roll(
        self, now: Instant, *, on_segment: Callable[[Segment], None] = lambda _segment: None
    ) -> list[Segment]:
        """Turn what is in the journals into Parquet segments. A crash anywhere loses and doubles nothing."""
        made: list[Segment] = []
        with self._upkeep:
            with self._writing:
                self._journals.finish()
            while batch := self._next_to_roll():
                records = records_of(self._disk, batch)
                held = self._limits.rolled_at_once_bytes
                added = []
                for piece in pieces(records, bytes_max=self._limits.segment_bytes, held_max=held):
                    added.append(write_piece(self._disk, piece))
                    on_segment(added[-1])
                with self._writing:
                    self._manifest.change(Change(+now, batch[-1].last, batch[-1].check, added, [], []))
                    self._journals.drop(batch[-1].last)
                made += added
            delete_due(self._disk, self._manifest.state, now)
        return made

    def note_missing(self, missing: list[MissingRun], now: Instant) -> None:
        """Put what is known to be missing into the manifest, for those who read the log, if that is news."""
        state = self._manifest.state
        if missing != state.missing:
            with self._upkeep, self._writing:
                at, check = state.rolled_upto, state.check
                self._manifest.change(Change(+now, at, check, [], [], [], missing))

    def _next_to_roll(self) -> list[JournalFile]:
        """Return the oldest finished journals, as many as are rolled in one change."""
        chosen: list[JournalFile] = []
        for journal in self._journals.finished:
            if chosen and sum(one.end for one in chosen) + journal.end > self._limits.rolled_at_once_bytes:
                break
            chosen.append(journal)
        return chosen

    def rolled(self) -> Manifest:
        """Return what is in segments at this moment."""
        with self._writing:
            return self._manifest.state.copied()

    def segment_bytes(self, segment: Segment) -> bytes:
        """Return the file of a segment, as it is found."""
        return read_bytes(self._disk, segment.path)

    def compact(self, now: Instant, *, growth: int = 1, upto: int | None = None) -> list[Segment]:
        """Join small segments of one type and day, with `upto` only those before it; return what was made.

        Each has at least `growth` times as many frames as any that it was made of.
        """
        made: list[Segment] = []
        with self._upkeep:
            state, size = self._manifest.state, self._limits.segment_bytes
            for group in to_join(state, bytes_max=size, growth=growth, upto=upto):
                made.append(join_segments(self._disk, group))
                gone = removal(group, now=+now, grace_s=self._limits.grace_s)
                with self._writing:
                    self._manifest.change(changed(self._manifest.state, now, added=made[-1:], removed=gone))
            delete_due(self._disk, self._manifest.state, now)
        return made

    def retain(self, policy: Retention, now: Instant, *, upto: int | None = None) -> list[Segment]:
        """Remove and return the segments that are older, or more, than `policy` keeps, none behind `upto`."""
        with self._upkeep:
            gone = to_forget(self._manifest.state, policy, +now, upto=upto)
            if gone:
                with self._writing:
                    self._manifest.change(forgetting(self._manifest.state, gone, now=+now, grace_s=0.0))
            delete_due(self._disk, self._manifest.state, now)
        return gone

    def close(self) -> None:
        """Let go of the folder."""
        with self._upkeep, self._writing:
            self._journals.close()
            self._manifest.close()
            self._disk.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ------------------------------------------------------------ a little at a time

# A durable subscription that catches up reads some frames, and the next ones when those are acknowledged. To
# find a position means to read and verify its file, so the positions where the latest reads stopped are kept.
# A read sees the log as it was when it began; at its end the log is opened again for what was recorded since.


HELD_MAX: Final = 4
"""A held reading may hold a whole segment in memory."""


class LogReadings:
    """The places at which readings of a log stopped. For one thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._held: BoundedMap[tuple[bytes, int], Iterator[LogRecord]] = BoundedMap(HELD_MAX)

    def read(
        self, type_id: bytes, first: int, *, upto: int, frames_max: int, bytes_max: int
    ) -> tuple[list[LogRecord], int]:
        """Return frames of a type within these bounds, and how far the log was looked through for them."""
        records = self._held.pop((type_id, first))
        was_held = records is not None
        frames: list[LogRecord] = []
        size, place = 0, first
        while True:
            records = self._log.read(place, type_ids={type_id}) if records is None else records
            for record in records:
                is_enough = bool(frames) and (len(frames) >= frames_max or size >= bytes_max)
                if is_enough or record.position > upto:
                    stopped = upto if not is_enough else frames[-1].position
                    self._held.put((type_id, stopped + 1), chain((record,), records))
                    return frames, stopped
                frames.append(record)
                size += len(record.message)
                place = record.position + 1
            if not was_held:
                return frames, upto
            records, was_held = None, False  # what was recorded since the reading began
