"""Next year's log reads this year's journals and rows."""

from __future__ import annotations

import json
from pathlib import Path

from maia.log import message_of
from maia.log.disk.event_log import LogLimits
from support.event_log import NOON, PowerDisk, opened

KEPT = json.loads(Path(__file__).with_name("journal.json").read_text(encoding="ascii"))
JOURNAL, MANIFEST = f"journal-{1:020d}.log", f"manifest-{1:020d}.log"


def test_a_kept_journal_is_read_and_goes_on():
    disk = PowerDisk()
    for name, data in ((JOURNAL, KEPT["journal"]), (MANIFEST, KEPT["manifest"])):
        file = disk.create(name)
        file.write(0, bytes.fromhex(data))
        file.sync()
    with opened(disk) as log:
        assert log.cuts == ()
        assert [one.message.hex() for one in log.read()] == KEPT["messages"]
        assert {one.recorded_at for one in log.read()} == {NOON}
        assert log.next_position == 4


def test_the_same_frames_are_written_as_the_same_bytes():
    disk = PowerDisk()
    messages = [bytes.fromhex(one) for one in KEPT["messages"]]
    with opened(disk, limits=LogLimits(reserved_bytes=0), seed=7) as log:
        log.append(messages[:2], recorded_at=NOON)
        log.append(messages[2:], recorded_at=NOON)
    assert bytes(disk.bytes_of(JOURNAL)).hex() == KEPT["journal"]
    assert bytes(disk.bytes_of(MANIFEST)).hex() == KEPT["manifest"]


def test_a_kept_row_gives_back_its_message():
    row = KEPT["row"]
    parts = {name: bytes.fromhex(data) for name, data in row["parts"].items()}
    assert message_of(bytes.fromhex(row["header"]), parts).hex() == row["message"]
