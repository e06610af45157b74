"""Where the servers of an organisation listen."""

from __future__ import annotations

from pathlib import Path

import pytest

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
