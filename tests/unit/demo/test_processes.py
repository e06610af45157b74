"""A server of a story is told the same, whether it is forked or gets an interpreter of its own."""

from __future__ import annotations

import threading
from pathlib import Path

from maia.demo.processes import start, stop_all
from maia.testing.refusals import raises


def test_a_broker_that_is_spawned_beside_another_thread_writes_what_it_receives(tmp_path: Path) -> None:
    done, heard = threading.Event(), tmp_path / "received"
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        child = start("broker", ["broker", "--config", "nowhere.toml"], tmp_path / "log", heard=heard)
        with raises("UNAVAILABLE-BROKER-NOT-STARTED", match="nowhere.toml"):
            child.ready()
        stop_all([child])
    finally:
        done.set()
        other.join()
    assert heard.exists()
