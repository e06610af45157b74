"""The troublemaker makes every kind of trouble, repairs what it broke, and prints how it comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from maia.testing.simulation import Simulation, Trouble, Troublemaker
from support.echo_nodes import add_echo
from support.seeds import replay_command, with_seeds

NAMES = ("a", "b", "c", "d", "e")


def run(seed: int, trouble: Trouble, seconds: float = 2000):
    network = Simulation(seed)
    for name in NAMES:
        add_echo(network, name, dials=[other for other in NAMES if other != name], answers=False)
    maker = Troublemaker(network, NAMES, trouble)
    maker.begin()
    network.run_for(seconds)
    return network, maker


def test_there_is_trouble_of_every_kind():
    _network, maker = run(1, Trouble())
    kinds = {what.split()[0] for what in maker.made}
    assert kinds == {"kill", "tear", "darken", "cut", "set", "slow", "put"}


# 50011: a host that was to fail between two effects did so after the end.
@with_seeds(5, also=[50_011])
def test_when_it_ends_everything_runs_and_stays_up(seed):
    network, maker = run(seed, Trouble(down_most=3))
    maker.end()
    made = len(maker.made)
    lives = [host.life for host in network.hosts.values()]
    network.run_for(2000)
    assert len(maker.made) == made
    assert [host.life for host in network.hosts.values()] == lives
    assert all(host.node is not None and host.skew == 0 for host in network.hosts.values())


def most_hosts_down(seed: int, trouble: Trouble) -> int:
    network = Simulation(seed)
    for name in NAMES:
        add_echo(network, name)
    Troublemaker(network, NAMES, trouble).begin()
    worst = 0
    for _ in range(300):
        network.run_for(1)
        worst = max(worst, sum(host.node is None for host in network.hosts.values()))
    return worst


# 50049: hosts that are to fail between two effects count as down, and may never come to it.
@with_seeds(5, also=[50_049])
def test_no_more_hosts_are_down_than_was_agreed(seed):
    often = Trouble(every_s=1, repaired_after_s=60, down_most=2)
    assert most_hosts_down(seed, often) <= 2
    assert most_hosts_down(seed, replace(often, torn=0)) == 2


def test_a_failure_prints_the_command_that_repeats_it(tmp_path):
    tests = Path(__file__).resolve().parents[1]
    lines = [
        f"import sys; sys.path.insert(0, {str(tests)!r})",
        "from support.seeds import pytest_runtest_makereport",
    ]
    (tmp_path / "conftest.py").write_text("\n".join(lines))
    (tmp_path / "test_x.py").write_text(
        "from support.seeds import with_seeds\n\n@with_seeds(2)\ndef test_y(seed): assert seed != 48114\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    env = {name: value for name, value in os.environ.items() if name not in ("MAIA_SEED", "MAIA_SEEDS")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert "1 failed, 1 passed" in done.stdout
    assert replay_command("test_x.py::test_y[48114]", 48114) in done.stdout
