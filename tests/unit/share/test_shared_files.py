"""Files take so much room and no more, and are named by what they hold."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from maia.errors import Unavailable
from maia.share.files import PARQUET, READS, SharedFiles

KB = 1 << 10


def put(files: SharedFiles, number: int, size: int = KB, needed: tuple[str, ...] = ()) -> str:
    return files.put(bytes([number]) * size, PARQUET, needed)[0] + PARQUET


def test_a_file_is_named_by_what_it_holds(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 8 * KB)
    name = put(files, 1)
    assert name == sha256(b"\x01" * KB).hexdigest() + PARQUET
    assert put(files, 1) == name
    assert files.size == KB
    assert (tmp_path / name).stat().st_mode & 0o077 == 0
    with files.open(name) as file:
        assert file.read() == b"\x01" * KB


def test_the_file_that_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 3 * KB)
    first, second, third = (put(files, number) for number in range(3))
    files.touch([first])
    fourth = put(files, 4)
    assert [files.has([one]) for one in (first, second, third, fourth)] == [True, False, True, True]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted((first, third, fourth))
    with pytest.raises(Unavailable) as refused:
        files.open(second)
    assert refused.value.code == "UNAVAILABLE-SHARE-GONE"


def test_a_file_that_is_being_read_ends_with_its_reader(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, KB)
    with files.open(put(files, 1)) as file:
        put(files, 2)
        assert file.read() == b"\x01" * KB


def test_a_table_that_needs_more_room_than_there_is_is_refused(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 2 * KB)
    first = put(files, 1)
    second = put(files, 2, needed=(first,))
    with pytest.raises(Unavailable) as refused:
        put(files, 3, needed=(first, second))
    assert refused.value.code == "UNAVAILABLE-SHARE-FULL"
    assert files.has([first, second])
    assert files.size == sum(one.stat().st_size for one in tmp_path.iterdir()) == 2 * KB


def test_the_next_run_takes_over_what_is_whole_and_bounded(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 4 * KB)
    names = [put(files, number) for number in range(4)]
    reads, _ = SharedFiles(tmp_path, 8 * KB).put(b"x", READS)
    (tmp_path / "begun.new").write_bytes(b"half")
    with files.writing() as path:
        path.write_bytes(b"not kept")
    again = SharedFiles(tmp_path, 3 * KB + 1)
    assert not (tmp_path / "begun.new").exists()
    assert again.has([*names[1:], reads + READS])
    assert not again.has(names[:1])
