"""What does a recipient's table hold now, and what did it hold before?

A table is brought up to date when it is asked for: frames that were recorded since are opened by the
recipient's right and become files beside those that are there. Recipients whose rights show the same
share the files. Each that is handed the address of a file is put on record first, as a reader of its
rows (docs/disclosures.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from maia.clock import system_now
from maia.errors import Refusal, Unavailable
from maia.events import Instant
from maia.ledger.files import ledger_at, unchained_parts
from maia.share.config import ShareConfig
from maia.share.files import SharedFiles
from maia.share.recipients import Recipient
from maia.share.rights import Right, Rights, SharedName
from maia.share.versions import SharedFile, TableVersion, TableVersions
from maia.share.writing import put_on_record, write_files
from maia.spark.governed.log_folder import LogFolder, TypeInLog
from maia.spark.governed.reading_ledger import chain_reads

_SMALL_BYTES: Final = 16 << 20
SMALL_MAX: Final = 32
"""Small files of one table: with one more, all are written anew."""
_MS: Final = 1000
_LOCKS: Final = 64
"""Tables that are written at one time, at most."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A version of a table, for a recipient whose right shows it."""

    right: Right
    version: TableVersion


class SharedTables:
    """The tables of one server."""

    def __init__(self, config: ShareConfig, *, clock: Callable[[], Instant] = system_now) -> None:
        """Take over the files of an earlier run."""
        self.rights = Rights(config)
        self.files = SharedFiles(config.data / "files", config.cache_mb << 20)
        self._versions = TableVersions(config.data / "versions")
        self._config, self._clock = config, clock
        self._folder = LogFolder(config.log)
        self._looking = threading.Lock()
        self._looks: dict[bytes, tuple[float, TypeInLog]] = {}
        self._writing = [threading.Lock() for _ in range(_LOCKS)]

    def close(self) -> None:
        """Forget all keys, and chain what was put on record."""
        self.rights.close()
        self.chain()

    def chain(self) -> None:
        """Chain what was put on record since this was last done."""
        folder = ledger_at(self._config.ledger_place)
        if unchained_parts(folder):
            chain_reads(self._config.ledger_place)

    # -------------------------------------------------------- versions

    @contextmanager
    def newest(self, recipient: Recipient, table: SharedName) -> Iterator[Shown]:
        """Lend the newest version of a table: of what the log had when it was looked at."""
        looked_at, found = self._looked(table.type_id)
        with self.rights.lent(recipient, table.word) as right:
            known = self._usable(right)
            if known is not None and _is_of(known, found):
                yield self._shown(right, known)
                return
            if not right.is_sealed or right.opened_at >= looked_at:
                yield self._shown(right, self._brought_up_to_date(right, found))
                return
        # Keys, and certificates of writers, have to be newer than the frames that they open.
        with self.rights.lent(recipient, table.word, newer_than=looked_at) as right:
            yield self._shown(right, self._brought_up_to_date(right, found))

    @contextmanager
    def at(self, recipient: Recipient, table: SharedName, version: int) -> Iterator[Shown]:
        """Lend an earlier version, as long as it is kept and the right shows the same."""
        with self.newest(recipient, table) as shown:
            known = self._versions.of(shown.right.shown_class)
            yield self._kept(shown, next((one for one in known if one.version == version), None))

    @contextmanager
    def as_of(self, recipient: Recipient, table: SharedName, moment: Instant) -> Iterator[Shown]:
        """Lend the version that was the newest at a moment."""
        with self.newest(recipient, table) as shown:
            known = self._versions.of(shown.right.shown_class)
            found = [one for one in known if one.version * _MS <= moment]
            yield self._kept(shown, found[-1] if found else None)

    def first_since(self, shown: Shown, moment: Instant) -> int:
        """Return the first version that was made at a moment or after it."""
        found = (one.version for one in self._versions.of(shown.right.shown_class))
        first = next((one for one in found if one * _MS >= moment), None)
        if first is None:
            raise _gone("no version of this table was made at that moment or after it")
        return first

    def _kept(self, shown: Shown, version: TableVersion | None) -> Shown:
        if version is None or not self.files.has(version.names):
            raise _gone("this version of the table is not kept: versions go with the room for files")
        return self._shown(shown.right, version)

    def _shown(self, right: Right, version: TableVersion) -> Shown:
        self.files.touch(version.names)
        return Shown(right, version)

    def _usable(self, right: Right) -> TableVersion | None:
        """Return the newest version, if its files are there."""
        known = self._versions.of(right.shown_class)
        return known[-1] if known and self.files.has(known[-1].names) else None

    def _looked(self, type_id: bytes) -> tuple[float, TypeInLog]:
        """Return what the log has of a type, and when it was looked at: not again and again."""
        with self._looking:
            known = self._looks.get(type_id)
            if known is None or time.monotonic() > known[0] + self._config.refresh_s:
                known = self._looks[type_id] = time.monotonic(), self._folder.of_type(type_id)
            return known

    def _brought_up_to_date(self, right: Right, found: TypeInLog) -> TableVersion:
        with self._writing[right.shown_class[0] % _LOCKS]:
            before = self._usable(right)  # another call may have written it
            if before is not None and _is_of(before, found):
                return before
            made = self._written(right, found, before)
            if not right.holds(self.rights.asking):
                raise right_has_ended()
            self._versions.add(right.shown_class, made)
            return made

    def _written(self, right: Right, found: TypeInLog, before: TableVersion | None) -> TableVersion:
        """Write what a version has that the one before has not, or all anew."""
        goes_on = before is not None and before.forgotten == found.forgotten and not _has_many_small(before)
        base, first = (before.files, before.upto + 1) if before is not None and goes_on else ((), 1)
        between, needed = (first, found.newest), [name for one in base for name in one.names]
        added: list[SharedFile] = []
        if first <= found.newest:
            parts, schema = right.parts(), right.arrow_schema
            added += write_files(parts, schema, self.files, between=between, needed=needed)
        number = int(self._clock()) // _MS
        if known := self._versions.of(right.shown_class):
            # What the right hides makes no version.
            number = known[-1].version if goes_on and not added else max(number, known[-1].version + 1)
        return TableVersion(number, found.newest, found.forgotten, (*base, *added))

    # -------------------------------------------------------- on record

    def hand_out(self, recipient: Recipient, shown: Shown, files: Sequence[SharedFile]) -> str:
        """Put on record that these files are handed out; raise if the right has ended meanwhile.

        Return what the read is called, which says for which recipient of the member it was.
        """
        parts, read = shown.right.parts(), f"share-{recipient.id}-{uuid4().hex}"
        for one in files:
            with self.files.open(one.names[1]) as file:
                put_on_record(parts, file.read(), read)
        if not shown.right.holds(self.rights.asking):
            raise right_has_ended()
        return read


def right_has_ended() -> Refusal:
    """Return what is said to a recipient whose right ended while it was used."""
    return Refusal(
        "REFUSED-SHARE-RIGHT", "the right behind this table has ended, or shows something else now"
    )


def _is_of(version: TableVersion, found: TypeInLog) -> bool:
    """Return whether a version shows what the log had when it was looked at, or more."""
    return version.upto >= found.newest and version.forgotten >= found.forgotten


def _has_many_small(version: TableVersion) -> bool:
    return sum(one.size < _SMALL_BYTES for one in version.files) > SMALL_MAX


def _gone(text: str) -> Unavailable:
    return Unavailable("UNAVAILABLE-SHARE-GONE", text)
