"""A ledger goes on after a restart or a kill, and whatever is done to its files is found."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import get_args, get_origin

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.errors import BadInput
from maia.ledger.files import (
    LedgerFiles,
    LedgerHead,
    LedgerUnavailable,
    chain_parts,
    disclosures_in,
    missing_heads,
    verify_ledger,
    write_part,
)
from maia.ledger.parquet import export_ledger, roll_ledger
from maia.ledger.records import (
    EVENTS_MAX,
    Audience,
    Begin,
    Closed,
    Disclosed,
    DisclosedEvents,
    Ground,
    LedgerReader,
    LedgerRecord,
    Opened,
    Shown,
    Summarised,
    from_ranges,
    records_from_bytes,
    records_to_bytes,
    to_ranges,
)
from maia.testing.refusals import raises
from maia.wire.effects import Disclose

KEY, STREAM = bytes(range(32)), b"s" * 16


def begin(number: int) -> Disclose:
    ground = Ground(1, KEY, b"t" * 32, b"v" * 32, b"w" * 16, (b"c" * 32,))
    records = [
        Begin(1, KEY, b"r" * 16, 1000), ground, Audience(2, (1,)), Shown(3, ("3265",)), disclosed(number)
    ]  # fmt: skip
    return Disclose(True, records_to_bytes(records))


def disclosed(number: int) -> Disclosed:
    return Disclosed(1000 + number, 2, 3, KEY, STREAM, number, (0, 2))


def more(number: int) -> Disclose:
    return Disclose(False, records_to_bytes([disclosed(number)]))


def written(folder, files=2, entries=3):
    """Write a ledger of so many files with so many entries each."""
    with LedgerFiles(folder) as ledger:
        for file in range(files):
            first = file * entries
            ledger.write([begin(first), *(more(first + number) for number in range(1, entries))])
        return ledger.head


@given(st.sets(st.integers(0, 200)))
def test_rows_are_ranges_and_come_back(rows):
    numbers = sorted(rows)
    assert list(from_ranges(to_ranges(numbers))) == numbers


def test_ranges_are_as_few_as_can_be():
    assert to_ranges([1, 2, 3, 5, 7, 8]) == (1, 2, 5, 0, 7, 1)


def any_of(kind: type) -> st.SearchStrategy[object]:
    """Anything of a declared kind: of a record, of a part of one."""
    plain = {int: st.integers(0, 2**63), bytes: st.binary(max_size=8), str: st.text(max_size=8)}
    if kind in plain or kind is NoneType:
        return plain.get(kind, st.none())
    if isinstance(kind, UnionType):
        return st.one_of(map(any_of, get_args(kind)))
    if get_origin(kind) in (list, tuple):
        return st.lists(any_of(get_args(kind)[0]), max_size=3).map(get_origin(kind))
    return st.builds(kind, *(any_of(field.type) for field in msgspec.structs.fields(kind)))


RECORDS = st.lists(any_of(LedgerRecord), max_size=4)


@given(RECORDS)
def test_records_come_back_as_they_were_written(records):
    assert records_from_bytes(records_to_bytes(records)) == records


@given(RECORDS, st.data())
def test_any_bytes_are_read_or_refused(records, data):
    """Bytes of an entry in whose place others stand, more or fewer of them."""
    entry = records_to_bytes(records)
    at, until = sorted(data.draw(st.tuples(*[st.integers(0, len(entry))] * 2)))
    changed = entry[:at] + data.draw(st.binary(max_size=8)) + entry[until:]
    try:
        found = records_from_bytes(changed)
    except BadInput as problem:
        if problem.code != "INPUT-LEDGER":
            raise
        return
    assert records_from_bytes(records_to_bytes(found)) == found


def test_single_events_of_one_record_are_read_one_by_one_and_no_more_than_there_can_be():
    known = [Begin(1, KEY, b"r" * 16, 1000), Ground(1, KEY, b"t" * 32, b"v" * 32, b"w" * 16, ())]
    known += [Audience(2, (1,)), Shown(3, ("3265",))]

    def read(record):
        return list(LedgerReader().read([*known, record]))

    together = read(DisclosedEvents(1000, 2, 3, KEY, STREAM, [4, 1, 9, 0]))
    alone = [read(Disclosed(1000, 2, 3, KEY, STREAM, number, (0, 0))) for number in (4, 5, 9)]
    assert [[one] for one in together] == alone
    for wrong in ([4], [4, -1], [0, EVENTS_MAX]):
        with raises("INPUT-LEDGER"):
            read(DisclosedEvents(1000, 2, 3, KEY, STREAM, wrong))


def test_what_was_written_is_read_in_order_across_files(tmp_path):
    head = written(tmp_path / "ledger")
    found = list(disclosures_in(tmp_path / "ledger"))
    assert [one.sequence for one in found] == list(range(6))
    assert {(one.recipient, one.rows, one.attributes) for one in found} == {(KEY, 3, ("3265",))}
    verified = verify_ledger(tmp_path / "ledger")
    assert (verified.head, verified.deliveries) == (head, 6)
    assert head.entries == 6


def test_an_account_of_nothing_is_whole_only_if_a_head_is_looked_for_in_it(tmp_path):
    with LedgerFiles(tmp_path / "ledger"):
        pass
    with raises("INPUT-LEDGER", match="there is no ledger"):
        verify_ledger(tmp_path / "ledger")
    assert verify_ledger(tmp_path / "ledger", b"c" * 32).earlier is None


def test_a_ledger_goes_on_after_a_restart(tmp_path):
    folder = tmp_path / "ledger"
    before = written(folder)
    written(folder, files=1)
    assert verify_ledger(folder).head.entries == 9
    assert verify_ledger(folder, before.check).earlier == before


@pytest.mark.parametrize("left", [1, 30, 60])
def test_what_was_being_written_at_a_kill_is_cut_off_and_nothing_else(tmp_path, left):
    folder = tmp_path / "ledger"
    written(folder)
    last = sorted(folder.iterdir())[-1]
    last.write_bytes(last.read_bytes() + (99).to_bytes(4, "big") + b"x" * left)
    assert verify_ledger(folder).head.entries == 6  # a reader may come while it is written
    written(folder, files=1)
    assert verify_ledger(folder).head.entries == 9


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_changed_byte_is_found(tmp_path, at):
    """A95: the account of disclosures cannot be edited unnoticed."""
    folder = tmp_path / "ledger"
    head = written(folder)
    first = sorted(folder.iterdir())[0]
    data = bytearray(first.read_bytes())
    data[at % len(data)] ^= 1
    first.write_bytes(data)
    with raises("INPUT-LEDGER"):
        assert verify_ledger(folder).head == head


def test_a_removed_file_a_removed_entry_and_a_cut_end_are_found(tmp_path):
    folder = tmp_path / "ledger"
    head = written(folder, files=3)
    files = sorted(folder.iterdir())
    kept = [file.read_bytes() for file in files]
    files[1].unlink()
    with raises("INPUT-LEDGER", match="missing"):
        verify_ledger(folder)
    files[1].write_bytes(kept[2])
    with raises("INPUT-LEDGER", match="does not follow"):
        verify_ledger(folder)
    files[1].write_bytes(kept[1][:-40])
    with raises("INPUT-LEDGER", match=r"cut off|does not follow|not as it was written"):
        verify_ledger(folder)
    # The end of the last file alone: only who knows the head finds it.
    files[1].write_bytes(kept[1])
    files[2].unlink()
    assert verify_ledger(folder).head.entries == 6
    assert verify_ledger(folder, head.check).earlier is None


def test_a_disk_that_refuses_stops_deliveries(tmp_path, monkeypatch):
    with LedgerFiles(tmp_path / "ledger") as ledger:
        ledger.write([begin(0)])

        def full(*_args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("maia.ledger.files.os.write", full)
        with pytest.raises(LedgerUnavailable, match="No space left"):
            ledger.write([more(1)])


@pytest.mark.parametrize("size", range(49))
def test_a_crash_anywhere_in_the_beginning_of_a_file_leaves_a_ledger_that_goes_on(tmp_path, size):
    """X5: whatever of a new file's header reached the disk, nothing was delivered behind it."""
    folder = tmp_path / "ledger"
    head = written(folder, files=2)
    second = folder / "00000002.ledger"
    whole = second.read_bytes()
    second.write_bytes(whole[:size])
    assert verify_ledger(folder).head.entries == 3  # also before its broker is back
    with LedgerFiles(folder) as ledger:
        ledger.write([begin(3), more(4), more(5)])
        assert ledger.head == head
    assert [path.name for path in sorted(folder.iterdir())] == ["00000001.ledger", "00000002.ledger"]
    assert verify_ledger(folder).head == head


def test_a_ledger_that_lacks_the_number_of_an_empty_file_is_whole(tmp_path):
    """Earlier versions left a number out after such a crash; what the files hold is what counts."""
    folder = tmp_path / "ledger"
    head = written(folder, files=2)
    (folder / "00000002.ledger").rename(folder / "00000003.ledger")
    assert verify_ledger(folder).head == head
    with LedgerFiles(folder) as ledger:
        ledger.write([begin(6)])
    assert verify_ledger(folder).head.entries == 7


@pytest.mark.parametrize("is_new_file", [True, False])
@pytest.mark.parametrize("room", [0, 7, 48])
def test_a_full_disk_leaves_no_part_of_an_entry_or_a_header_behind(tmp_path, monkeypatch, is_new_file, room):
    from maia.ledger import files

    whole = files.os.write
    with LedgerFiles(tmp_path / "ledger") as ledger:
        ledger.write([begin(0)])
        with monkeypatch.context() as patched:
            patched.setattr("maia.ledger.files.os.write", lambda file, data: whole(file, bytes(data)[:room]))
            with pytest.raises(LedgerUnavailable):
                ledger.write([begin(1) if is_new_file else more(1)])
        ledger.write([begin(1)])
    assert verify_ledger(tmp_path / "ledger").head.entries == 2


def test_closed_files_become_tables_once_and_together_say_what_the_whole_ledger_says(tmp_path):
    folder, tables, whole = tmp_path / "ledger", tmp_path / "tables", tmp_path / "whole.parquet"
    with LedgerFiles(folder) as ledger:
        ledger.write([begin(0), more(1), begin(2)])
        assert [path.name for path in roll_ledger(ledger.closed(), tables)] == ["00000001.parquet"]
        assert roll_ledger(ledger.closed(), tables) == []
        ledger.write([more(3)])
    with LedgerFiles(folder) as ledger:  # a broker that starts again begins another file
        assert [path.name for path in roll_ledger(ledger.closed(), tables)] == ["00000002.parquet"]
        ledger.write([begin(4)])
        assert roll_ledger(ledger.closed(), tables) == []
    export_ledger(folder, whole)
    rolled = pq.read_table(tables).to_pylist()
    assert rolled == pq.read_table(whole).to_pylist()[:-1]
    assert len(rolled) == 4


def test_a_closed_file_that_was_edited_becomes_no_table(tmp_path):
    folder, tables = tmp_path / "ledger", tmp_path / "tables"
    written(folder)
    first = folder / "00000001.ledger"
    first.write_bytes(first.read_bytes().replace(b"3265", b"3266"))
    with LedgerFiles(folder) as ledger, raises("INPUT-LEDGER"):
        roll_ledger(ledger.closed(), tables)
    assert not list(tables.glob("*.parquet"))


def test_no_ledger_is_kept_in_a_folder_that_others_can_change(tmp_path):
    """A84: another account could put files of its own in place of these."""
    folder = tmp_path / "ledger"
    with LedgerFiles(folder):
        pass
    assert folder.stat().st_mode & 0o777 == 0o700
    for mode in (0o770, 0o702):
        folder.chmod(mode)
        with pytest.raises(LedgerUnavailable, match="can be changed by others"):
            LedgerFiles(folder)
    write_part(folder, "read", [Begin(1, KEY, bytes(16), 0)], b"the part of one task")
    with pytest.raises(LedgerUnavailable, match="can be changed by others"):
        chain_parts(folder)
    folder.chmod(0o700)
    assert chain_parts(folder) == 1


def test_what_was_written_is_on_the_disk_after_a_sync_or_the_ledger_is_unavailable(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("maia.ledger.files.os.fdatasync", synced.append)
    with LedgerFiles(tmp_path / "ledger") as ledger:
        ledger.sync()
        ledger.write([begin(0)])
        ledger.sync()
        ledger.sync()
        assert len(synced) == 1, "once for what was written, and not for nothing"

        def broken(_file):
            raise OSError(5, "Input/output error")

        ledger.write([more(1)])
        with monkeypatch.context() as failing:
            failing.setattr("maia.ledger.files.os.fdatasync", broken)
            with pytest.raises(LedgerUnavailable, match="Input/output error"):
                ledger.sync()


def test_a_summary_belongs_to_the_frame_that_it_names_and_to_no_other():
    """A publisher's own frame is not shown as one that the broker has made."""
    head = records_from_bytes(begin(0).data)[:-1]
    summary = Summarised(STREAM, 1, 1000, 2000, 3)
    found = list(LedgerReader().read([*head, summary, disclosed(1), disclosed(2)]))
    assert [one.summary for one in found] == [summary, None]


def test_a_standing_disclosure_ends_with_its_close_or_the_next_of_its_source():
    head = records_from_bytes(begin(0).data)[:-1]
    opened = [Opened(at, 2, 3, source, None) for at, source in ((10, "t"), (20, "t"), (30, "u"))]
    reader = LedgerReader()
    assert list(reader.read([*head, *opened, Closed(40, KEY, "u"), Closed(50, b"x" * 32, "t")])) == []
    assert [(one.since, one.until, one.source) for one in reader.standing] == [
        (10, 20, "t"),
        (20, None, "t"),
        (30, 40, "u"),
    ]


def test_a_ledger_of_another_format_is_refused():
    with raises("INPUT-LEDGER"):
        list(LedgerReader().read([Begin(2, KEY, b"r" * 16, 1000)]))


def test_a_disclosure_that_no_broker_writes_is_refused():
    head = records_from_bytes(begin(0).data)[:-1]
    for rows in ((0,), (0, -1)):
        with raises("INPUT-LEDGER"):
            list(LedgerReader().read([*head, Disclosed(1000, 2, 3, KEY, STREAM, 1, rows)]))
    with raises("INPUT-LEDGER"):
        list(LedgerReader().read([disclosed(1)]))


def test_the_head_of_an_empty_ledger_is_in_every_ledger(tmp_path):
    with LedgerFiles(tmp_path / "ledger") as ledger:
        beginning = ledger.head
    end = written(tmp_path / "ledger")
    other = LedgerHead(end.entries, b"x" * 32)
    assert missing_heads(tmp_path / "ledger", [beginning, end, other]) == [other]
