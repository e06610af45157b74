"""What is kept survives, as a whole or not at all, and no name leaves its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from maia.net.stores import FolderStore, MemoryStore
from maia.testing.refusals import raises

ODD_NAMES = [
    "plain",
    "requests/000001",
    "../escape",
    "..",
    ".",
    "/etc/passwd",
    "a%2Fb",
    "é",
    "x.unfinished",
    "-",
]


@pytest.fixture(params=["memory", "folder"])
def reopen(request, tmp_path):
    """Return a function that opens the store as a new process would."""
    if request.param == "folder":
        return lambda: FolderStore(tmp_path / "kept")
    kept = MemoryStore()
    return lambda: kept


def test_more_files_than_are_opened_at_once_are_all_kept(tmp_path):
    many = {f"name {number}": b"%d" % number for number in range(150)}
    FolderStore(tmp_path / "kept").keep(many)
    assert FolderStore(tmp_path / "kept").load() == many


def test_what_takes_the_place_of_another_is_safe_before_the_other_goes(tmp_path, monkeypatch):
    store = FolderStore(tmp_path / "kept")
    store.keep({"old": b"1"})
    found: list[set[str]] = []
    monkeypatch.setattr("maia.net.stores.sync_folder", lambda _folder: found.append(set(store.load())))
    store.keep({"old": None, "new": b"1"})
    assert found == [{"old", "new"}, {"new"}]


def test_what_was_kept_is_there_after_a_restart(reopen):
    reopen().keep({name: name.encode() for name in ODD_NAMES})
    reopen().keep({"plain": b"newer", "..": None, "never there": None})
    expected = {name: name.encode() for name in ODD_NAMES if name != ".."} | {"plain": b"newer"}
    assert reopen().load() == expected


def test_no_name_leaves_the_folder(tmp_path: Path):
    """A71: a name is a name, whatever it looks like."""
    FolderStore(tmp_path / "kept").keep(dict.fromkeys(ODD_NAMES, b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert all(path.is_file() for path in (tmp_path / "kept").iterdir())


@pytest.mark.parametrize("point", ["write", "fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_bytes(tmp_path: Path, monkeypatch, point: str):
    """A81: the old bytes or the new ones, never a mixture."""
    store = FolderStore(tmp_path)
    store.keep({"name": b"old"})

    class Crash(BaseException):
        pass

    def crash(*_args, **_named):
        raise Crash

    with monkeypatch.context() as broken:
        if point == "replace":
            broken.setattr(Path, "replace", crash)
        elif point == "fsync":
            broken.setattr(os, "fsync", crash)
        else:
            broken.setattr(os, "fdopen", crash)
        with pytest.raises(Crash):
            store.keep({"name": b"new and much longer"})
    assert FolderStore(tmp_path).load() == {"name": b"old"}
    FolderStore(tmp_path).keep({"name": b"newer"})
    assert FolderStore(tmp_path).load() == {"name": b"newer"}


def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with raises("UNAVAILABLE-STORE"):
        FolderStore(tmp_path / "file")


def test_the_folder_is_for_its_owner_alone(tmp_path: Path):
    FolderStore(tmp_path / "kept")
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0
