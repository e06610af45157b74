"""Files and folders that Maia makes are their owner's alone, whatever the umask; exposed folders are refused.

A71: another user of the machine reads nothing of what a node keeps or a
pipeline writes, and replaces none of it.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from maia.domain.facts.poller import FactAges
from maia.domain.storage.fenced_store import FencedStore
from maia.domain.storage.store import sqlite_store
from maia.events import Instant
from maia.keystore.key_files import create_key_file, new_signing_key
from maia.log import LogBroken
from maia.log.disk.event_log import EventLog
from maia.log.disk.reader import LogView
from maia.net.stores import FolderStore
from maia.spark.applications import STATISTICS
from maia.spark.applications.runs import parquet_source, run
from maia.spark.generators import SIGHTINGS, Order
from maia.spark.generators.files import write_generated
from maia.testing import wait_until
from maia.testing.refusals import raises
from support.event_log import NOON, carried
from support.network_process import address_of, config, lets_connect, make_keys
from support.processes import maia, running_maia

CONFIG = config("broker", '\n[log]\nfolder = "deep/down/log"\n').replace('"data"', '"some/where/data"')


@pytest.fixture(autouse=True, params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def exposed(*roots: Path) -> dict[str, str]:
    """Return what others could use below some folders, and the folders themselves, with its mode."""
    found = [one for root in roots for one in (root, *root.rglob("*"))]
    assert len(found) > len(roots), "nothing was written"
    modes = {str(one): stat.S_IMODE(one.lstat().st_mode) for one in found}
    return {name: f"{mode:04o}" for name, mode in modes.items() if mode & 0o077}


def test_a_recording_broker_leaves_nothing_that_others_can_use(tmp_path: Path) -> None:
    """A71: data folder, kept state, status door, log and every folder on the way, of a real process."""
    make_keys(tmp_path, "broker")
    lets_connect(tmp_path, "broker")
    (tmp_path / "broker.toml").write_text(CONFIG)
    with running_maia("broker", "-c", "broker.toml", cwd=tmp_path) as broker:
        address_of(tmp_path)
        wait_until((tmp_path / "some/where/data/status.door").exists)
        assert exposed(tmp_path / "some", tmp_path / "deep") == {}
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0
    assert any((tmp_path / "some/where/data/kept").iterdir())
    assert exposed(tmp_path / "some", tmp_path / "deep", *tmp_path.glob("*.key")) == {}


@pytest.mark.parametrize("setting", ["data", "log.folder"])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_broker_refuses_a_folder_that_others_can_change(tmp_path: Path, setting: str, mode: int) -> None:
    """A71: said before a port is open, at the line of the configuration, with the cure."""
    make_keys(tmp_path, "broker")
    lets_connect(tmp_path, "broker")
    (tmp_path / "broker.toml").write_text(CONFIG)
    folder = tmp_path / ("some/where/data" if setting == "data" else "deep/down/log")
    folder.mkdir(parents=True)
    folder.chmod(mode)
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=tmp_path)
    assert checked.returncode == 2
    assert f"`{setting}` cannot be used" in checked.stderr
    assert f"can be changed by others (mode {mode:04o}); make it 0700" in checked.stderr
    folder.chmod(0o755)  # others see that there is something, and no more
    assert maia("broker", "-c", "broker.toml", "--check", cwd=tmp_path).returncode == 0


def test_logs_stores_and_keys_are_private_wherever_they_are_made(tmp_path: Path) -> None:
    """A71: the file layer by itself, with folders on the way that were not there."""
    with EventLog.open(tmp_path / "a/b/log") as log:
        log.append([carried(1)], recorded_at=NOON)
        log.roll(NOON)
        log.append([carried(2)], recorded_at=NOON)
    FolderStore(tmp_path / "c/d/kept").keep({"one": b"1", "other/name": b"2"})
    (tmp_path / "e").mkdir(mode=0o700)
    create_key_file(tmp_path / "e/some.key", new_signing_key())
    FactAges(tmp_path / "e/facts.json").note("on duty", Instant(5))
    with (
        closing(FencedStore(tmp_path / "e/groups.sqlite")) as fenced,
        closing(sqlite_store(tmp_path / "e/domain.sqlite")),
    ):
        fenced.keep({"name": b"data"})
        assert (tmp_path / "e/groups.sqlite-wal").exists()
        assert exposed(*(tmp_path / name for name in "ace")) == {}


OPENERS: list[tuple[Callable[[Path], object], type[Exception]]] = [
    (lambda folder: EventLog.open(folder).close(), LogBroken),
    (FolderStore, "UNAVAILABLE-STORE"),
]


@pytest.mark.parametrize(("opener", "refusal"), OPENERS, ids=["log", "store"])
def test_a_folder_that_another_user_owns_or_can_change_is_not_written_to(
    tmp_path: Path,
    opener: Callable[[Path], object],
    refusal: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A71: root is no exception, since the owner could put other files in place of root's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o720)
    with raises(refusal, match=r"can be changed by others \(mode 0720\); make it 0700"):
        opener(folder)
    folder.chmod(0o700)
    with monkeypatch.context() as somebody_else:
        somebody_else.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        with raises(refusal, match="belongs to another user"):
            opener(folder)
    assert list(folder.iterdir()) == []
    opener(folder)


def test_a_log_can_be_read_by_a_peer_that_the_system_lets_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A71: an auditor who may read the files need not own them; only a writer must."""
    with EventLog.open(tmp_path / "log") as log:
        log.append([carried(1)], recorded_at=NOON)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert LogView(tmp_path / "log").verify().is_whole


def test_a_store_that_was_put_back_with_an_open_mode_is_closed_again(tmp_path: Path) -> None:
    """A71: a copy loses modes; the folder of kept state is Maia's own, and gets its mode back."""
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "one").write_bytes(b"1")
    folder.chmod(0o755)
    assert FolderStore(folder).load() == {"one": b"1"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("_umask", [0o000], ids=["umask 000"], indirect=True)  # Java keeps what it began with
def test_results_and_checkpoints_of_pipelines_are_private(spark, tmp_path: Path) -> None:
    """A71, A72: Java has a umask of its own, and so has Hadoop."""
    write_generated(tmp_path / "events", SIGHTINGS, Order(1000, 1), rows_per_file=500)
    source = parquet_source(spark, tmp_path / "events")
    for is_stream in (False, True):
        result = tmp_path / f"result {is_stream}"
        run(spark, STATISTICS, STATISTICS.terms, source, result=result, is_stream=is_stream)
        assert exposed(result) == {}
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    query = (
        source.stream()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(out))
    )
    assert query.awaitTermination(300)
    assert exposed(out, checkpoint) == {}
