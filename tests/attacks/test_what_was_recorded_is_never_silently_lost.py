"""A81: whatever happens to power and disk, what was acknowledged is there, or damage is reported."""

from __future__ import annotations

import pytest

from maia.log import LogBroken, LogDamaged, LogDiskFull
from support.event_log import NOON, PowerDisk, Recorder, carried, draws, opened, outcome_of
from support.random_cases import usually

SCRIPT = (1, 3, "large", "roll", 2, "large", "large", "roll", "compact", 2, 1)


def steps_of(script) -> int:
    disk = PowerDisk()
    assert Recorder(disk).play(script)
    return disk.steps


@pytest.mark.laws
@pytest.mark.parametrize("cut_at", range(1, steps_of(SCRIPT) + 1))
def test_the_power_may_go_at_every_step(cut_at):
    """A81: kill at every write boundary; sectors that were not safe arrive or do not, in several ways."""
    for seed in range(usually(1, laws=4)):
        random = draws(cut_at * 1000 + seed)
        recorder = Recorder(PowerDisk(cut_at=cut_at, random=random))
        assert not recorder.play(SCRIPT)
        recorder.disk = recorder.disk.after_power_cut(random)
        with opened(recorder.disk) as log:
            recorder.check(log)
            recorder.append(log, 2)
            log.roll(NOON)
        with opened(recorder.disk) as log:
            assert log.cuts == ()
            assert log.verify().is_whole
            recorder.check(log)


def test_the_power_may_go_again_while_the_log_recovers():
    """A81: a second cut, in the middle of the first one's recovery."""
    acknowledged = []
    for seed in range(40):
        random = draws(seed)
        recorder = Recorder(PowerDisk(cut_at=random.randint(5, 40), random=random))
        recorder.play(SCRIPT)
        for _ in range(4):
            recorder.disk = recorder.disk.after_power_cut(random)
            recorder.disk.cut_at = random.randint(1, 8)
            recorder.play((1,))
        recorder.disk = recorder.disk.after_power_cut(random)
        with opened(recorder.disk) as log:
            recorder.check_order(log)
        acknowledged.append(len(recorder.acknowledged))
    assert sum(count > 1 for count in acknowledged) > 20  # most runs had something to lose


def recorded(script) -> Recorder:
    recorder = Recorder(PowerDisk())
    assert recorder.play(script)
    return recorder


def test_a_single_flipped_bit_in_a_journal_or_manifest_is_reported():
    """A81: every bit of every journal and manifest, the last record's included."""
    recorder = recorded((2, "roll", 1, 2))
    files = [path for path in recorder.disk.paths() if path.endswith(".log")]
    assert len(files) == 2
    flips = reported = 0
    for path in files:
        for at in range(len(recorder.disk.bytes_of(path))):
            disk = recorder.disk.copy()
            disk.bytes_of(path)[at] ^= 1 << (at % 8)
            outcome = outcome_of(disk)
            flips += 1
            reported += isinstance(outcome, LogDamaged)
            assert isinstance(outcome, LogDamaged) or [o.message for o in outcome] == recorder.acknowledged
    assert reported == flips


@pytest.mark.laws
def test_a_single_flipped_bit_in_a_segment_is_reported():
    """A81: bytes from the first to the last of every segment; `make laws` tries all of them."""
    recorder = recorded((4, "roll"))
    for path in (path for path in recorder.disk.paths() if path.endswith(".parquet")):
        for at in range(0, len(recorder.disk.bytes_of(path)), usually(9, laws=1)):
            data = recorder.disk.bytes_of(path)
            data[at] ^= 1 << (at % 8)
            outcome = outcome_of(recorder.disk.copy())
            data[at] ^= 1 << (at % 8)
            assert isinstance(outcome, LogDamaged)
            assert outcome.file == path


def test_damage_is_told_with_file_and_offset_and_the_rest_is_verified():
    """A81: the operator learns where to look; verify goes on behind the damage."""
    recorder = recorded((2, "roll", 3, "large", "large", "large", 2))
    journals = sorted(path for path in recorder.disk.paths() if path.startswith("journal"))
    data = recorder.disk.bytes_of(journals[0])
    data[len(data) // 2] ^= 4
    with pytest.raises(LogDamaged) as damage:
        opened(recorder.disk)
    assert damage.value.file == journals[0]
    assert 0 < damage.value.offset <= len(data) // 2
    assert damage.value.as_record()["offset"] == damage.value.offset


def test_a_flipped_bit_beside_a_torn_write_is_no_excuse_to_cut_it_off():
    """A81: what was safe before the write that the power cut short is damage, and is not cut off."""
    for seed in range(200):
        random = draws(seed)
        recorder = Recorder(PowerDisk(random=random))
        with opened(recorder.disk) as log:
            recorder.append(log, 2)
            safe = len(bytes(recorder.disk.bytes_of("journal-00000000000000000001.log")).rstrip(b"\0"))
            recorder.append(log, 1, size=1200)
        everything = bytes(recorder.disk.bytes_of("journal-00000000000000000001.log"))
        torn = recorder.disk.copy()
        data = torn.bytes_of("journal-00000000000000000001.log")
        del data[random.randint(safe + 1, len(everything) - 1) :]
        data[random.randrange(safe)] ^= 1 << random.randrange(8)
        outcome = outcome_of(torn)
        assert isinstance(outcome, LogDamaged)
        assert outcome.offset < safe
        assert outcome.what != "cut"


def test_a_lost_sector_before_a_later_batch_is_damage_and_not_an_unfinished_write():
    """A81: what a later batch follows was safe once, even if it is all zeros now."""
    recorder = recorded(("large", 1, 2))
    name = "journal-00000000000000000001.log"
    whole = bytes(recorder.disk.bytes_of(name))
    for start in range(0, 3000, 512):
        disk = recorder.disk.copy()
        disk.bytes_of(name)[start : start + 512] = bytes(512)
        with pytest.raises(LogDamaged) as damage:
            opened(disk)
        assert damage.value.offset < start + 512
        assert len(disk.bytes_of(name)) == len(whole)


def test_a_cut_is_reported_and_its_bytes_are_put_aside():
    """A81: never silent: even an unfinished write is told, and kept."""
    recorder = recorded((2, "large"))
    name = "journal-00000000000000000001.log"
    data = recorder.disk.bytes_of(name)
    end = bytes(data[-1400:-100])
    del data[-100:]
    with opened(recorder.disk) as log:
        (cut,) = log.cuts
        assert cut.file == name
        assert bytes(recorder.disk.bytes_of(cut.kept_in)).endswith(end)
        assert [one.message for one in log.read()] == recorder.acknowledged[:3]


def test_a_publisher_cannot_write_something_that_looks_like_a_later_record():
    """A81: a frame that holds a journal's own bytes does not make an unfinished write look like damage."""
    recorder = recorded((2, 1))
    journal = bytes(recorder.disk.bytes_of("journal-00000000000000000001.log"))
    disk = PowerDisk()
    with opened(disk, seed=2) as log:
        log.append([carried(1)], recorded_at=NOON)
        log.append([carried(2) + journal], recorded_at=NOON)
    del disk.bytes_of("journal-00000000000000000001.log")[-10:]
    with opened(disk, seed=3) as log:
        assert len(log.cuts) == 1
        assert [one.message for one in log.read()] == [carried(1)]


def test_a_full_disk_acknowledges_nothing_and_loses_nothing():
    """A81: no room, at any byte of the write; when there is room again the log goes on."""
    for room in (*range(0, 400, 7), 1000):
        disk = PowerDisk()
        recorder = Recorder(disk)
        with opened(disk) as log:
            recorder.append(log, 2)
            before = bytes(disk.bytes_of("journal-00000000000000000001.log")).rstrip(b"\0")
            disk.room = room
            with pytest.raises(LogDiskFull) as full:
                log.append([carried(100 + n, size=400) for n in range(4)], recorded_at=NOON)
            assert full.value.code == "LOG-DISK-FULL"
            assert bytes(disk.bytes_of("journal-00000000000000000001.log")) == before
            assert [one.message for one in log.read()] == recorder.acknowledged
            disk.room = None
            recorder.append(log, 1)
        with opened(disk) as log:
            assert log.cuts == ()
            recorder.check(log)


def test_a_full_disk_while_rolling_leaves_the_journals():
    """A81: a roll that finds no room has not happened."""
    disk = PowerDisk()
    recorder = Recorder(disk)
    with opened(disk) as log:
        recorder.append(log, 6)
        for room in (0, 100, 3000):
            disk.room = room
            with pytest.raises(LogDiskFull):
                log.roll(NOON)
            disk.room = None
            recorder.check(log)
        log.roll(NOON)
        recorder.check(log)
    assert not [path for path in disk.paths() if path.startswith("journal")]


def test_after_a_failed_synchronisation_nothing_is_acknowledged_any_more():
    """A81: pages that a failed fsync lost are not made safe by a second one."""
    disk = PowerDisk()
    recorder = Recorder(disk)
    with opened(disk) as log:
        recorder.append(log, 2)
        disk.fails_to_sync = True
        with pytest.raises(LogBroken):
            log.append([carried(50)], recorded_at=NOON)
        disk.fails_to_sync = False
        with pytest.raises(LogBroken):
            log.append([carried(51)], recorded_at=NOON)
        with pytest.raises(LogBroken):
            log.roll(NOON)
        assert [one.message for one in log.read()] == recorder.acknowledged
    recorder.on_their_way = [carried(50)]
    recorder.disk = disk.after_power_cut(draws(4))
    with opened(recorder.disk) as log:
        recorder.check(log)
        recorder.append(log, 1)


def test_a_write_that_cannot_be_taken_back_breaks_the_log_until_it_is_opened_again():
    """A81: a full disk that also refuses to cut leaves the log in doubt, and it says so."""
    disk = PowerDisk()
    recorder = Recorder(disk)
    with opened(disk) as log:
        recorder.append(log, 1)
        disk.room, disk.fails_to_cut = 100, True
        with pytest.raises(LogDiskFull):
            log.append([carried(60, size=2000)], recorded_at=NOON)
        disk.room, disk.fails_to_cut = None, False
        with pytest.raises(LogBroken):
            log.append([carried(61)], recorded_at=NOON)
    with opened(disk) as log:
        recorder.check(log)


def test_a_missing_file_is_reported():
    """A81: a journal, a segment or the manifest that a peer removed."""
    recorder = recorded((3, "roll", "large", "large", "large", "large", 1))
    journals = sorted(path for path in recorder.disk.paths() if path.startswith("journal"))
    segments = sorted(path for path in recorder.disk.paths() if path.endswith(".parquet"))
    manifests = [path for path in recorder.disk.paths() if path.startswith("manifest")]
    assert len(journals) >= 2
    for path in (journals[0], segments[0], segments[-1], manifests[0]):
        disk = recorder.disk.copy()
        disk.remove(path)
        outcome = outcome_of(disk)
        assert isinstance(outcome, LogDamaged), path


def test_a_manifest_that_lost_its_last_change_is_found_out():
    """A81: the segments of a roll whose journals are gone are not taken for left-overs and removed."""
    recorder = recorded((3, "roll"))
    (manifest,) = (path for path in recorder.disk.paths() if path.startswith("manifest"))
    disk = PowerDisk()
    with opened(disk):
        pass
    empty = disk.bytes_of("manifest-00000000000000000001.log")
    recorder.disk.bytes_of(manifest)[:] = empty
    before = recorder.disk.paths()
    outcome = outcome_of(recorder.disk)
    assert isinstance(outcome, LogDamaged)
    assert recorder.disk.paths() == before
