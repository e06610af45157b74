"""Where the servers of an organisation listen."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from maia.demo.report import story_named
from maia.demo.world import StoryWorld
from maia.organisation import Organisation
from maia.organisation import organisation as module


def test_organisations_in_one_folder_choose_different_ports_before_any_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so few ports, choices that do not know of each other would share some nearly always."""
    monkeypatch.setattr(module, "_PORTS", range(15_000, 15_030))
    monkeypatch.setattr(module, "_PORTS_TRIED", 30)
    made = [Organisation.create(tmp_path / f"port-{number}").addresses for number in range(6)]
    chosen = [address for one in made for address in one.values()]
    assert len(set(chosen)) == len(chosen) == 18


def test_a_port_that_another_process_has_chosen_for_later_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two demonstrations that were set up at one time had a port in common: one server did not start."""
    monkeypatch.setattr(module, "_PORTS", range(15_000, 15_030))
    monkeypatch.setattr(module, "_PORTS_TRIED", 30)
    monkeypatch.chdir(tmp_path)
    world = StoryWorld(story_named("ticker"), tmp_path, holds_ports=True)
    with ExitStack() as stack:
        stack.callback(world.let_go)
        for name in ("one", "two"):
            world.maia(f"org new {name}")
        chosen = {
            address for one in ("one", "two") for address in Organisation(tmp_path / one).addresses.values()
        }
        held = {f"127.0.0.1:{port}" for port in range(15_000, 15_030) if is_held(port)}
        assert chosen <= held
        elsewhere = [Organisation.create(tmp_path / f"elsewhere-{at}" / "org").addresses for at in range(6)]
        assert not chosen & {address for one in elsewhere for address in one.values()}
    assert not any(is_held(int(re.findall(r"\d+$", one)[0])) for one in chosen)


def is_held(port: int) -> bool:
    with socket.socket(type=socket.SOCK_DGRAM) as one, suppress(OSError):
        one.bind(("127.0.0.1", port))
        return False
    return True
