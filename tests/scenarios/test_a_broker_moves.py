"""A broker moves to another address, and to a name: members here and elsewhere, and a partner, follow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import maia
from maia.testing import free_ports, wait_until
from support.processes import maia as command
from support.processes import running_maia


@dataclass(frozen=True)
class World:
    """Hamburg, through whose broker Rotterdam has joined; both have servers that run."""

    home: Path
    hamburg: maia.Organisation
    rotterdam: maia.Organisation

    def move(self) -> str:
        (port,) = free_ports(1)
        answer = command("org", "move", "--listen", f"localhost:{port}", "--org", "hamburg", cwd=self.home)
        assert answer.returncode == 0, answer.stderr
        return f"localhost:{port}"

    def restarts(self) -> int:
        return (self.home / "hamburg" / "err.log").read_text().count("listening on localhost")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("ports")
    made = World(home, *(maia.Organisation.create(home / name) for name in ("hamburg", "rotterdam")))
    made.hamburg.define("Notice", text="string")
    made.hamburg.add_member("desk", may=("publish:Notice", "subscribe:Notice"))
    invited = made.hamburg.grant(made.rotterdam.principal, may="subscribe:Notice", delegable=True)
    made.rotterdam.join(invited.save(home / "rotterdam.grant"))
    made.rotterdam.add_member("pilot", may="subscribe:Notice")
    # A profile on another machine, which no command here can write to.
    shutil.copytree(made.hamburg.folder / "desk.maia", home / "laptop" / "desk.maia")
    (home / "laptop").chmod(0o700)
    with ExitStack() as stack:
        for ours in (made.hamburg, made.rotterdam):
            stack.enter_context(running_maia("up", "--org", ours.folder, cwd=home / ours.name))
            wait_until(lambda out=home / ours.name / "out.log": bool(out.read_text()))
        yield made


def test_a_broker_moves_and_everybody_follows(world: World) -> None:
    """Members that are connected and those that come, a profile elsewhere, and the brokers of a partner."""
    laptop = world.home / "laptop" / "desk.maia"
    with (
        maia.connect(laptop) as connected,
        maia.connect(world.rotterdam.folder / "pilot.maia") as pilot,
    ):
        notices = pilot.subscribe("Notice")

        def arrives(client: maia.BlockingClient, text: str) -> bool:
            with suppress(maia.Unavailable):
                client.publish("Notice", text=text)
            return text in [one["text"] for one in notices.some(timeout_s=1)]

        wait_until(lambda: arrives(connected, "before"))
        before = world.hamburg.addresses["broker"]
        now = world.move()
        wait_until(lambda: now in (world.home / "hamburg" / "err.log").read_text())
        wait_until(lambda: arrives(connected, "of one that was connected"))

        with maia.connect(laptop) as comes:
            wait_until(lambda: arrives(comes, "of one that comes"))
        words = ("publish", "Notice", "--as", laptop, "--set", "text=by a command", "--wait", "30")
        published = command(*words, cwd=world.home)
        assert published.returncode == 0, published.stderr
        assert "by a command" in [one["text"] for one in notices.some(timeout_s=30)]
    profile = command("profile", "show", world.hamburg.folder / "desk.maia", "--json", cwd=world.home)
    assert json.loads(profile.stdout)["brokers"] == [now]
    assert before not in (world.hamburg.folder / "organisation.toml").read_text()
    assert now in maia.Organisation(world.rotterdam.folder).joined_through


def test_a_mistaken_address_moves_nothing(world: World) -> None:
    before = maia.Organisation(world.hamburg.folder).addresses
    answer = command("org", "move", "--listen", "broker.example", "--org", "hamburg", cwd=world.home)
    assert (answer.returncode, "[INPUT-ADDRESS]" in answer.stderr) == (2, True)
    assert maia.Organisation(world.hamburg.folder).addresses == before
