"""A81: when the real file layer says that something is safe, the kernel was told to write all of it.

Other tests give the log a disk of their own. These use real files, and
remember of every `fsync` and `fdatasync` what the file or folder held at that
moment: that much is safe. At each acknowledgement, everything that is in the
folder must be safe, contents and names. Leave out any one call, and one of
these tests fails.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from maia.api.responses import WalletAnswer
from maia.broker.server.log_recording import LogRecorder
from maia.credentials import RevocationList, sign_statement, statement_to_bytes
from maia.domain.storage.fenced_store import FencedStore
from maia.domain.storage.store import sqlite_store
from maia.errors import MaiaError
from maia.keystore.key_files import create_key_file, new_signing_key
from maia.keystore.wallet_folder import WalletFolder
from maia.log import LogDiskFull
from maia.log.disk.event_log import EventLog, LogLimits
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.private_files import make_private_folder
from maia.wire.effects import Input, Record, Recorded
from support.access_control import engine_of
from support.domain_server import key_of
from support.event_log import NOON, carried

# A journal of a few frames, so that journals are finished, rolled and begun anew.
LIMITS = LogLimits(journal_bytes=3000, reserved_bytes=700)


class Synchronised:
    """What is certain to be on the disk, by what was synchronised so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.safe: dict[int, bytes | frozenset[str]] = {}
        self.unsafe_names: list[str] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._noting(getattr(os, name)))
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._looking(getattr(os, name)))

    def _noting(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def synchronise(descriptor: int) -> None:
            real(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").resolve()
            self.safe[os.fstat(descriptor).st_ino] = held(path)

        return synchronise

    def _looking(self, real: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def rename(old: str, new: str) -> None:
            # A name that leads to bytes which are not safe leads to nothing after a power cut.
            if not self.is_safe(Path(old)):
                self.unsafe_names.append(os.fspath(new))
            real(old, new)

        return rename

    def is_safe(self, path: Path) -> bool:
        safe = self.safe.get(path.stat().st_ino)
        found = held(path)
        # A name that was removed may be there again after a power cut: whoever removed it can do it again.
        if isinstance(found, frozenset) and isinstance(safe, frozenset):
            return found <= safe
        return found == safe

    def lost(self, folder: Path) -> list[str]:
        """Return what a power cut could take from a folder now; locks hold nothing."""
        paths = [folder, *(path for path in folder.rglob("*") if path.name != "lock")]
        assert len(paths) > 1, "nothing was written"
        return [str(path) for path in paths if not self.is_safe(path)] + self.unsafe_names


def held(path: Path) -> bytes | frozenset[str]:
    if path.is_dir():
        return frozenset(one.name for one in path.iterdir() if one.name != "lock")
    return path.read_bytes()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Synchronised:
    return Synchronised(monkeypatch)


def test_frames_are_on_the_disk_before_append_returns(disk: Synchronised, tmp_path: Path) -> None:
    """A81: journals, their names, and those of new journals."""
    with EventLog.open(tmp_path / "log", limits=LIMITS) as log:
        for number in range(1, 60):
            log.append([carried(number)], recorded_at=NOON)
            assert disk.lost(tmp_path / "log") == []
        assert len(list((tmp_path / "log").glob("journal-*"))) > 2


def test_segments_and_the_manifest_are_on_the_disk_before_a_journal_goes(
    disk: Synchronised, tmp_path: Path
) -> None:
    """A81: rolled, joined and removed; folders of types and days included."""
    with EventLog.open(tmp_path / "log", limits=LIMITS) as log:
        for day in range(2):
            for number in range(1, 20):
                log.append([carried(number + 20 * day, day=day)], recorded_at=NOON)
            assert log.roll(NOON)
            assert disk.lost(tmp_path / "log") == []
        log.compact(NOON)
        assert disk.lost(tmp_path / "log") == []


def test_a_publisher_receives_of_its_frame_when_it_is_on_the_disk(disk: Synchronised, tmp_path: Path) -> None:
    """A81: through the recorder of a broker, which acknowledges when it is given `Recorded`."""
    safe: list[int] = []

    def give(given: Input) -> None:
        assert isinstance(given, Recorded)
        assert disk.lost(tmp_path / "log") == []
        safe.append(given.upto)

    def fail(problem: MaiaError) -> None:
        raise problem

    async def publish() -> None:
        with EventLog.open(tmp_path / "log", limits=LIMITS) as log:
            recorder = LogRecorder(log, clock=lambda: NOON, records=QuietRecords())
            task = asyncio.create_task(recorder.run(give=give, fail=fail, after_writing=lambda: None))
            for number in range(1, 20):
                for more in range(3):
                    recorder.record(Record(3 * number + more - 2, carried(10 * number + more)))
                async with asyncio.timeout(180):
                    await recorder.flush()
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(publish())
    assert safe[-1] == 57


def test_a_write_that_was_taken_back_is_gone_from_the_disk(
    disk: Synchronised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A81: no room in the middle of a frame; the refused half does not come back after a power cut."""
    with EventLog.open(tmp_path / "log") as log:
        log.append([carried(1)], recorded_at=NOON)
        real = os.pwrite

        def full(descriptor: int, data: bytes, offset: int) -> int:
            if len(data) < 30:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, data[:20], offset)

        with monkeypatch.context() as no_room:
            no_room.setattr(os, "pwrite", full)
            with pytest.raises(LogDiskFull):
                log.append([carried(2, size=100)], recorded_at=NOON)
        assert disk.lost(tmp_path / "log") == []
        assert len(list(log.read())) == 1


def test_an_unfinished_write_is_cut_off_for_good(disk: Synchronised, tmp_path: Path) -> None:
    """A81: found at a start, put aside and cut; both are safe before the log is used."""
    folder = tmp_path / "log"
    with EventLog.open(folder) as log:
        log.append([carried(1)], recorded_at=NOON)
    (journal,) = folder.glob("journal-*")
    with journal.open("ab") as file:
        file.write(b"half a record")
    with EventLog.open(folder) as log:
        assert len(log.cuts) == 1
        assert disk.lost(folder) == []


def test_the_folder_of_a_new_log_is_on_the_disk(disk: Synchronised, tmp_path: Path) -> None:
    """A81: a power cut takes no folder away that holds acknowledged frames."""
    with EventLog.open(tmp_path / "some/where/log") as log:
        log.append([carried(1)], recorded_at=NOON)
    assert disk.lost(tmp_path / "some") == []
    assert disk.is_safe(tmp_path)


def test_kept_state_is_on_the_disk_before_a_node_speaks(disk: Synchronised, tmp_path: Path) -> None:
    """A81, A82: new, changed and forgotten; nothing that was forgotten comes back."""
    folder = tmp_path / "data" / "kept"
    store = FolderStore(folder)
    for changes in ({"one": b"1", "other": b"2"}, {"one": b"3", "third": b"4"}):
        store.keep(changes)
        assert disk.lost(tmp_path / "data") == []
    assert disk.is_safe(tmp_path)
    store.keep({"one": None, "other": b"5"})
    assert disk.lost(folder) == []
    assert disk.safe[folder.stat().st_ino] == {"other", "third"}


def test_a_new_key_is_on_the_disk_before_any_peer_can_rely_on_it(disk: Synchronised, tmp_path: Path) -> None:
    """A81: certificates are issued to a key that must not be lost."""
    make_private_folder(tmp_path / "keys")
    create_key_file(tmp_path / "keys" / "some.key", new_signing_key())
    assert disk.lost(tmp_path / "keys") == []


def test_a_wallet_is_on_the_disk_before_a_login_is_over(disk: Synchronised, tmp_path: Path) -> None:
    """A81: certificates and the note that says whose they are."""
    met, smith = key_of("met"), key_of("smith")
    statement = sign_statement(RevocationList(met.principal, 1, None, frozenset()), met)
    found = WalletAnswer(str(smith.principal), [], [], [], [statement_to_bytes(statement)], str(NOON))
    WalletFolder(tmp_path / "wallet").keep(found, domain=met.principal, address="127.0.0.1:7600", now=NOON)
    assert disk.lost(tmp_path / "wallet") == []
    assert disk.is_safe(tmp_path)


def test_databases_wait_for_the_disk_at_every_step(tmp_path: Path) -> None:
    """A81: SQLite waits if it is told to; at less than FULL it may lose the last steps."""
    full = 2
    with closing(FencedStore(tmp_path / "groups.sqlite")) as fenced:
        assert fenced._file.execute("PRAGMA synchronous").fetchone() == (full,)
    with closing(sqlite_store(tmp_path / "domain.sqlite")) as store, engine_of(store).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == full
