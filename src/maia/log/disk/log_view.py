"""What is in the log in this folder, for a reader that does not own it?

`maia log` asks, and the driver of a Spark job. Nothing is locked, changed or
cut; a broker may go on recording meanwhile. What it has rolled is found
through the manifest, never by listing folders: a file that the manifest does not name
is not part of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from maia.events import Instant
from maia.log.disk.files import Disk, FolderDisk
from maia.log.disk.journals import JournalFile
from maia.log.disk.manifest import newest_manifest
from maia.log.disk.reader import Problem, Snapshot, Verification, verify_files
from maia.log.disk.rollover import read_bytes, segment_paths
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import JournalReader, Kind, TailKind
from maia.log.format.manifest import Manifest, Segment, in_order, read_manifest
from maia.log.format.names import is_cut, journal_first, manifest_name, segment_name
from maia.log.format.segments import digest_of


class LogView:
    """A log as it is found, for reading."""

    def __init__(self, folder: Path, *, disk: Disk | None = None) -> None:
        """Read the manifest. Raises `LogDamaged` if there is none, or if it is not as it was written."""
        self._folder = folder
        self._disk = disk or FolderDisk(folder, writable=False)
        self._notes: list[Problem] = []
        self.state = self._read_manifest()

    def _read_manifest(self) -> Manifest:
        name = newest_manifest(self._disk)
        if name is None:
            raise LogDamaged(manifest_name(1), 0, "there is no manifest, so this is no event log")
        with closing(self._disk.read(name)) as file:
            state, reader = read_manifest(file, name)
        if reader.tail.kind is TailKind.DAMAGE:
            raise LogDamaged(name, reader.tail.offset, reader.tail.what)
        if reader.tail.kind is TailKind.UNFINISHED:
            self._notes.append(Problem(name, reader.tail.offset, reader.tail.what))
        return state

    def segments(
        self, type_id: bytes, *, since: Instant | None = None, until: Instant | None = None
    ) -> list[Path]:
        """Return the verified Parquet files of a type with frames published from `since` until `until`."""
        found = published_between(self.state.of_type(type_id), since=since, until=until)
        return verified_paths(self._disk, self._folder, found)

    def journals(self) -> list[JournalFile]:
        """Return the journals with something that is in no segment yet; how far they go is not known."""
        found = [(first, name) for name in self._disk.names() if (first := journal_first(name)) is not None]
        left: list[JournalFile] = []
        for at, (first, name) in enumerate(found):
            following = found[at + 1][0] if at + 1 < len(found) else None
            if following is None or following > self.state.rolled_upto + 1:
                left.append(self._journal(name, first))
        return [one for one in left if one.last > self.state.rolled_upto or one.last < one.first]

    def _journal(self, name: str, first: int) -> JournalFile:
        with closing(self._disk.read(name)) as file:
            size = file.size
            try:
                reader = JournalReader(file, name, Kind.JOURNAL)
                for _ in reader.entries():
                    pass
            except LogDamaged:
                return JournalFile(name, first, first - 1, size, b"")
            return JournalFile(name, first, reader.next_position - 1, size, reader.last.head.check)

    def verify(self, *, on_file: Callable[[str], None] = lambda _name: None) -> Verification:
        """Read everything that is part of the log, and report whatever is not as it was written."""
        snapshot = Snapshot(tuple(in_order(self.state.segments.values())), tuple(self.journals()))
        records, problems, notes = verify_files(self._disk, snapshot, on_file=on_file)
        # Whatever a broker has rolled or joined while we read is not missing.
        now = LogView(self._folder, disk=self._disk)
        present = {*now.state.segments, *(one.name for one in now.journals())}
        problems = [one for one in problems if one.file in present]
        files = len(snapshot.segments) + len(snapshot.journals) + 1
        noted = (*self._notes, *notes, *self._worth_a_look(now.state))
        return Verification(files, records, tuple(problems), noted)

    def _worth_a_look(self, state: Manifest) -> Iterable[Problem]:
        for name in self._disk.names():
            if is_cut(name):
                yield Problem(name, 0, "the end of a journal that was cut off at a start")
        for path in segment_paths(self._disk):
            if segment_name(path) is None or (path not in state.segments and path not in state.waiting):
                yield Problem(path, 0, "this file is not part of the log")


def published_between(
    segments: Iterable[Segment], *, since: Instant | None, until: Instant | None
) -> list[Segment]:
    """Return the segments that may hold frames published between two moments, both included."""
    return [
        one
        for one in segments
        if (since is None or one.published_until >= since) and (until is None or one.published_from <= until)
    ]


def verified_paths(disk: Disk, folder: Path, segments: Iterable[Segment]) -> list[Path]:
    """Return where segments lie, once the digest of each is checked: who reads them next checks nothing."""
    paths: list[Path] = []
    for segment in segments:
        if digest_of(read_bytes(disk, segment.path)) != segment.digest:
            raise LogDamaged(segment.path, 0, "it does not match the digest in its name")
        paths.append(folder / segment.path)
    return paths
