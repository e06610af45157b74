"""A broker whose clock was an hour ahead and is right again starts anew: nothing waits for that hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.network import started
from chaos.shim import Control, NoShim, compiled
from maia.net.process import ClockSetBack
from maia.testing import Cast, Processes


def test_it_ends_with_its_code_and_can_be_started_again(tmp_path: Path):
    try:
        control = Control(compiled(tmp_path), tmp_path / "control", tmp_path)
    except NoShim as why:
        pytest.skip(str(why))

    def start(words, cwd, environment, descriptors):
        return started(words, cwd, {**environment, **control.environment}, descriptors)

    with Processes(
        tmp_path, Cast.of("hospital", "lab", of_type="LabResult", value="int"), start=start
    ) as made:
        control.show(clock_s=3600)
        broker = made.broker("north")
        control.show()
        assert broker.process.wait(60) != 0
        assert f"[{ClockSetBack.code}]" in broker.errors
        made.restart(broker)
