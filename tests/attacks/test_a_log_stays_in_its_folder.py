"""A71: no type id, name, manifest or link leads the event log out of its folder."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from maia.errors import MaiaError
from maia.log import LogBroken, LogDamaged, SegmentName, segment_name
from maia.log.disk.event_log import EventLog
from maia.log.disk.files import FolderDisk
from maia.log.format.journal import FileKind, FileOpening, opening_bytes
from maia.log.format.manifest import Change, Segment, change_bytes, read_manifest
from maia.log.format.names import journal_first, manifest_number
from maia.log.format.records import NO_CHECK, batch_bytes
from maia.testing.refusals import raises
from support.event_log import NOON, PLATES, PowerDisk, carried, opened

UPWARDS = [  # days of nowhere
    "../../etc",
    "..",
    "/etc/passwd",
    "a/../../b",
    "type=../day=..",
    "\0",
    "2026-11-15/../..",
    "2026-13-45",
]


@pytest.mark.parametrize("day", UPWARDS)
def test_a_day_that_leads_elsewhere_names_no_segment(day):
    """A71: the day of a segment."""
    with raises("LOG-NAME"):
        SegmentName(PLATES, day, 1, 2, bytes(16))


@pytest.mark.parametrize("type_id", [b"", b"../../../../etc", b"x" * 31, b"x" * 33])
def test_a_type_id_of_another_length_names_no_segment(type_id):
    """A71: the type id of a segment; every one of 32 bytes becomes digits."""
    with raises("LOG-NAME"):
        SegmentName(type_id, "2026-11-15", 1, 2, bytes(16))


def test_every_type_id_becomes_digits():
    """A71: bytes that spell a path are no path."""
    name = SegmentName(
        b"/../../../../../../../etc/passwd"[:32].ljust(32, b"/"), "2026-11-15", 1, 2, bytes(16)
    )
    assert ".." not in name.path
    assert name.path.count("/") == 2
    assert segment_name(name.path) == name


def path_of(*, start="type=", type_id="0" * 64, day="2026-11-15", up="", first=1, last=1, end=".parquet"):
    return f"{start}{type_id}/day={day}/{up}segment-{first:020d}-{last:020d}-{'0' * 32}{end}"


@pytest.mark.parametrize(
    "path",
    [
        path_of(up="../../"),
        path_of(start="/type="),
        path_of(start="./type="),
        path_of(day="2026-02-30"),
        path_of(type_id="A" * 64),
        path_of(first=2),
        path_of(end=".parquet\n"),
        path_of(first=0),
    ],
)
def test_a_path_in_another_form_is_no_segment(path):
    """A71: names that are read back are read in their one form."""
    assert segment_name(path) is None


@pytest.mark.parametrize(
    "name", ["journal-1.log", "journal-../../x.log", "manifest-.log", "journal-" + "٣" * 20 + ".log"]
)
def test_a_name_in_another_form_is_no_journal(name):
    """A71: journals and manifests have names of twenty digits."""
    assert journal_first(name) is None
    assert manifest_number(name) is None


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


def manifest_with(payload: bytes) -> _Bytes:
    """Return a manifest whose checksums hold, with whatever a peer put into it."""
    opening = FileOpening(b"m" * 8, 1, NO_CHECK)
    data, check = opening_bytes(FileKind.MANIFEST, opening, at=+NOON)
    records, _ = batch_bytes([payload], marker=b"m" * 8, first=1, recorded_at=+NOON, before=check)
    return _Bytes(data + records)


@pytest.mark.parametrize("day", UPWARDS)
def test_a_manifest_that_leads_elsewhere_is_damaged(day):
    """A71: an entry with good checksums and a bad day is refused with file and offset."""
    at = +NOON
    segment = Segment(PLATES, day, 1, 2, bytes(16), 1, 1, 1, at, at, at, at)
    forged = manifest_with(change_bytes(Change(at, 2, bytes(16), [segment], [], [])))
    with pytest.raises(LogDamaged) as damage:
        read_manifest(forged, "manifest")
    assert damage.value.offset > 0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\xff" * 40,
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode([0, 1, bytes(16), [], [], [], "more"]),
        msgspec.msgpack.encode([0, -1, bytes(16), [], [], []]),
        msgspec.msgpack.encode([0, 5, bytes(15), [], [], []]),
        b"\x91" * 5000,
    ],
)
def test_a_manifest_of_nonsense_is_damaged_and_nothing_worse(payload):
    """A71: whatever a manifest holds, reading it ends in one of our errors."""
    with pytest.raises(LogDamaged):
        read_manifest(manifest_with(payload), "manifest")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "type=x/../../y", "a\0b"])
def test_a_disk_refuses_paths_outside_its_folder(tmp_path, path):
    """A71: the second lock on the same door."""
    disk = FolderDisk(tmp_path / "log")
    for action in (disk.read, disk.create, disk.reopen, disk.remove, disk.names, disk.make_folder):
        with pytest.raises(LogBroken):
            action(path)


def test_links_inside_the_folder_are_not_followed(tmp_path):
    """A71: a link in the place of a journal, or of a type's folder."""
    folder, elsewhere = tmp_path / "log", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with EventLog.open(folder) as log:
        log.append([carried(1)], recorded_at=NOON)
        (folder / f"type={PLATES.hex()}").symlink_to(elsewhere)
        with pytest.raises(LogBroken):
            log.roll(NOON)
    assert list(elsewhere.iterdir()) == []
    journal = next(folder.glob("journal-*.log"))
    journal.rename(tmp_path / "moved")
    journal.symlink_to(tmp_path / "moved")
    with pytest.raises((MaiaError, OSError)):
        EventLog.open(folder)


def test_no_other_peer_reads_the_files(tmp_path):
    """A71: files and folders are the owner's alone."""
    folder = tmp_path / "log"
    with EventLog.open(folder) as log:
        log.append([carried(1)], recorded_at=NOON)
        log.roll(NOON)
        log.append([carried(2)], recorded_at=NOON)
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    "message",
    [b"", b"\x99", b"\x99\x1e\xc4\x20" + bytes(32), b"\x99\x20\xc4\x20" + bytes(64), b"\xff" * 100, b"\xdc"],
)
def test_what_is_no_frame_is_not_recorded(message):
    """A71: nor does it fail what was recorded before."""
    with opened(PowerDisk()) as log:
        with raises("LOG-NOT-A-FRAME"):
            log.append([carried(1), message], recorded_at=NOON)
        assert list(log.read()) == []


def test_two_processes_cannot_have_one_log(tmp_path):
    """A71: the second is refused while the first lives, and not after."""
    first = EventLog.open(tmp_path)
    code = (
        "import sys; from pathlib import Path; from maia.log.disk.event_log import EventLog\n"
        "from maia.errors import MaiaError\n"
        "try: EventLog.open(Path(sys.argv[1]))\n"
        "except MaiaError as problem: print(problem.code)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code, str(tmp_path)]
    second = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert second.stdout == "LOG-IN-USE\n", second.stderr
    with raises("LOG-IN-USE"):
        EventLog.open(tmp_path)
    first.close()
    EventLog.open(tmp_path).close()
