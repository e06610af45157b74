"""A broker that records: what was published is on disk before its publisher receives of it."""

from __future__ import annotations

import http.client
import json
import signal
from contextlib import closing
from pathlib import Path

import pytest

from maia.log.disk.event_log import EventLog
from maia.testing import wait_until
from maia.wire.codec import decode
from maia.wire.messages import Carried
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import Answer, maia, running_maia

CONFIG = config(
    "broker",
    """
[log]
folder = "log"
types = ["Numberplate"]
""",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One network with one broker that records, a camera and an office, as files."""
    make_keys(tmp_path, "broker", "camera", "office")
    lets_connect(tmp_path, "broker", "camera", "office")
    attributes = ("-a", "numberplate:string", "-a", "location:string")
    for name, file in (("Numberplate", "np.type"), ("Weather", "weather.type")):
        maia("type", "define", "-k", "pito.key", "--name", name, *attributes, "-o", file, cwd=tmp_path)
    for who, action in (("broker", "subscribe"), ("camera", "publish"), ("office", "subscribe")):
        for file in ("np", "weather"):
            issue(tmp_path, who, action, "-d", f"{file}.type", name=f"{action}-{file}")
    (tmp_path / "broker.toml").write_text(CONFIG)
    return tmp_path


def member(home: Path, who: str, *words: object) -> Answer:
    about = ("--network", NETWORK, "--coordinator", "pito.pub", "--credentials", f"{who}-certs")
    return maia(*words, "-k", f"{who}.key", *about, "--wait", 60, cwd=home)


def publish(home: Path, address: str, *plates: str, file: str = "np.type") -> None:
    for plate in plates:
        said = member(
            home, "camera", "publish", "-d", file, "--broker", address,
            "--set", f"numberplate={plate}", "--set", "location=Victoria",
        )  # fmt: skip
        assert said.returncode == 0, said.stderr


def recorded(home: Path) -> list[Carried]:
    with EventLog.open(home / "log") as log:
        frames = [decode(one.message) for one in log.read()]
    assert all(isinstance(frame, Carried) for frame in frames)
    return frames


def metrics(home: Path) -> str:
    door = json.loads((home / "data" / "status.door").read_text())
    connection = http.client.HTTPConnection(door["address"], timeout=60)
    with closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def test_what_was_acknowledged_survives_a_kill_and_the_rest_of_the_types_is_not_recorded(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        publish(home, address, "AE05 XYZ", "BD51 SMR")
        publish(home, address, "sunny", file="weather.type")
        status = json.loads(maia("status", "--data", "data", "--json", cwd=home).stdout)
        assert (status["log"]["position"], status["log"]["unsafe"]) == (2, 0)
        assert "position 2, 0 on the way" in maia("status", "--data", "data", cwd=home).stdout
        assert "maia_log_position 2.0" in metrics(home)
        broker.send_signal(signal.SIGKILL)
        broker.wait(180)
    frames = recorded(home)
    assert [frame.rows for frame in frames] == [1, 1]
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        publish(home, address_of(home, 2), "CE02 ABC")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0
    again = recorded(home)
    assert again[:2] == frames
    assert len(again) == 3
    assert len({frame.type_id for frame in again}) == 1


def taken(home: Path, address: str, *, count: int | None = None, seconds: float = 60.0) -> list[str]:
    """Let the office go on with its durable subscription, and return the plates that it is shown."""
    limit = ("--count", count) if count else ()
    got = member(
        home, "office", "subscribe", "-d", "np.type", "--broker", address,
        "--durable", "nightly", *limit, "--for", seconds,
    )  # fmt: skip
    assert got.returncode == 0, got.stderr
    return [json.loads(line)["numberplate"] for line in got.stdout.splitlines()]


def test_an_office_that_was_away_gets_what_it_missed_once_and_in_order_whatever_was_killed(
    home: Path,
) -> None:
    """B8: the broker is killed twice, the office once; nothing acknowledged is lost or comes again."""
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        assert taken(home, address, seconds=0.2) == []
        publish(home, address, "A1", "B2")
        broker.send_signal(signal.SIGKILL)
        broker.wait(180)
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home, 2)
        assert taken(home, address, count=1) == ["A1"]
        publish(home, address, "C3")
        assert killed_while_reading(home, address, upto="C3") == ["B2", "C3"]
        broker.send_signal(signal.SIGKILL)
        broker.wait(180)
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home, 3)
        publish(home, address, "D4")
        again: list[str] = []
        while "D4" not in again:
            again += taken(home, address, count=1)
        # The office was killed when it had shown both; what it had not asked past by then comes again.
        assert again in (["B2", "C3", "D4"], ["C3", "D4"], ["D4"])
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0


def killed_while_reading(home: Path, address: str, *, upto: str) -> list[str]:
    """Kill the office when it has shown a plate; return all that it showed."""
    about = ("--network", NETWORK, "--coordinator", "../pito.pub", "--credentials", "../office-certs")
    folder = home / "killed"
    folder.mkdir()
    with running_maia(
        "subscribe", "-d", "../np.type", "-k", "../office.key", *about, "--broker", address,
        "--durable", "nightly", cwd=folder,
    ) as office:  # fmt: skip
        wait_until(lambda: upto in (folder / "out.log").read_text())
        office.send_signal(signal.SIGKILL)
        office.wait(180)
    return [json.loads(line)["numberplate"] for line in (folder / "out.log").read_text().splitlines()]


def test_a_name_that_was_forgotten_begins_anew(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        words = ("subscribe", "-d", "np.type", "--broker", address, "--durable", "nightly", "--for", 0.2)
        assert member(home, "office", *words, "--forget").returncode == 0
        publish(home, address, "A1")
        assert member(home, "office", *words).stdout == ""
        wrong = member(home, "office", "subscribe", "-d", "np.type", "--broker", address, "--forget")
        assert "INPUT-NOTHING-TO-FORGET" in wrong.stderr


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('folder = "log"', "line 10: `log.types` says how to record, and `log.folder` does not say where"),
        ('data = "data"\n', "`log.folder` needs `data` too"),
        ('types = ["Numberplate"]', None),
    ],
)
def test_a_log_that_cannot_work_is_found_before_the_broker_starts(
    home: Path, change: str, complaint: str | None
) -> None:
    (home / "broker.toml").write_text(CONFIG.replace(change, ""))
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    if complaint is None:
        assert "log: *; publishers are answered when they are on disk" in checked.stdout
    else:
        assert checked.returncode != 0
        assert complaint in checked.stderr
