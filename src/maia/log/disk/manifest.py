"""Which segments does the log have, and how is a change to them made safe as a whole?

The event log asks at its start and with every roll. A change is one record; a
manifest that has grown long is written anew beside the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from maia.events import Instant
from maia.log.disk.files import Disk, disk_problem
from maia.log.disk.journals import Cut, cut_off
from maia.log.disk.record_file import GrowingFile, write_whole
from maia.log.format.errors import LogDamaged
from maia.log.format.journal import Kind, Opening, opening_bytes
from maia.log.format.manifest import Change, Manifest, change_bytes, read_manifest, whole_state
from maia.log.format.names import journal_first, manifest_name, manifest_number
from maia.log.format.records import MARKER_BYTES, NO_CHECK, batch_bytes

CHANGES_MAX: Final = 10_000
"""After so many changes a manifest is written anew."""


class ManifestFile:
    """The manifest of a log that this process owns."""

    def __init__(self, disk: Disk, *, random: Callable[[int], bytes], at: Instant) -> None:
        """Read the newest manifest, or begin the first one of a new log."""
        self._disk, self._random = disk, random
        self.cuts: list[Cut] = []
        name = newest_manifest(disk)
        if name is None:
            _refuse_if_not_new(disk)
            self._number = 1
            self.state = Manifest()
            self._write_anew(at)
        else:
            self._number = manifest_number(name) or 0
            self._recover(name)
        self._remove_older()

    def _recover(self, name: str) -> None:
        with closing(self._disk.read(name)) as file:
            self.state, reader = read_manifest(file, name)
            size = file.size
        cut = cut_off(self._disk, name, reader.tail, size)
        self.cuts = [cut] if cut else []
        self._file = GrowingFile.resume(self._disk, name, reader)

    def change(self, change: Change) -> None:
        """Make a change safe; it holds when this returns, and otherwise not at all."""
        self._file.append([change_bytes(change)], at=Instant(change.at))
        self.state.apply(change)
        if self.state.changes > CHANGES_MAX:
            self._number += 1
            self._file.close()
            self._write_anew(Instant(change.at))
            self._remove_older()

    def _write_anew(self, at: Instant) -> None:
        """Write all that holds now into the manifest of this number, and go on with it."""
        name = manifest_name(self._number)
        opening = Opening(self._random(MARKER_BYTES), 1, NO_CHECK)
        data, check = opening_bytes(Kind.MANIFEST, opening, at=+at)
        changes = whole_state(self.state, at=+at) if self.state.rolled_upto else []
        records, check = batch_bytes(
            [change_bytes(one) for one in changes],
            marker=opening.marker,
            first=1,
            recorded_at=+at,
            before=check,
        )
        try:
            write_whole(self._disk, name, data + records)
            file = self._disk.reopen(name)
        except OSError as problem:
            raise disk_problem(problem, f"begin `{name}`") from problem
        self._file = GrowingFile(file, name, opening, end=len(data) + len(records), check=check)
        self._file.next_position = len(changes) + 1
        self.state.changes = len(changes)

    def _remove_older(self) -> None:
        for name in self._disk.names():
            number = manifest_number(name)
            if number is not None and number < self._number:
                self._disk.remove(name)

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self._file.name

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def newest_manifest(disk: Disk) -> str | None:
    """Return the name of the manifest that holds, or None if there is none."""
    return max((name for name in disk.names() if manifest_number(name) is not None), default=None)


def _refuse_if_not_new(disk: Disk) -> None:
    """Refuse a folder with journals or segments and no manifest: it was removed."""
    for name in disk.names():
        if journal_first(name) is not None or name.startswith("type="):
            raise LogDamaged(manifest_name(1), 0, f"there is no manifest, and there is `{name}`")
