"""A broker that records: what was published is on disk before its publisher hears of it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from maia.runtime.event_log import EventLog
from maia.wire.codec import decode
from maia.wire.messages import Carried
from support.processes import Answer, maia, running_maia, until

NETWORK = "UK Police Network"
CONFIG = f"""\
key = "broker.key"
network = "{NETWORK}"
coordinator = "pito.pub"
credentials = "broker-certs"
listen = "127.0.0.1:0"
data = "data"

[log]
folder = "log"
types = ["Numberplate"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One network with one broker that records, a camera and an office, as files."""
    for who in ("pito", "broker", "camera", "office"):
        assert maia("key", "new", f"{who}.key", cwd=tmp_path).returncode == 0
    attributes = ("-a", "numberplate:string", "-a", "location:string")
    for name, file in (("Numberplate", "np.type"), ("Weather", "weather.type")):
        maia("type", "define", "-k", "pito.key", "--name", name, *attributes, "-o", file, cwd=tmp_path)
    for who, action in (("broker", "subscribe"), ("camera", "publish"), ("office", "subscribe")):
        (tmp_path / f"{who}-certs").mkdir()
        issue(tmp_path, who, "connect", "--owner", "pito.pub", "--network", NETWORK)
        for file in ("np", "weather"):
            issue(tmp_path, who, action, "-d", f"{file}.type", name=f"{action}-{file}")
    (tmp_path / "broker.toml").write_text(CONFIG)
    return tmp_path


def issue(home: Path, who: str, action: str, *about: object, name: str | None = None) -> None:
    words = ("--subject", f"{who}.pub", "--action", action, "--days", 2)
    out = f"{who}-certs/{name or action}.cert"
    issued = maia("cert", "issue", "-k", "pito.key", *words, *about, "-o", out, cwd=home)
    assert issued.returncode == 0, issued.stderr


def address_of(home: Path, start: int = 1) -> str:
    out = home / "out.log"
    until(lambda: out.read_text().count("listening on") == start)
    return re.findall(r"listening on (\S+) as", out.read_text())[-1]


def member(home: Path, who: str, *words: object) -> Answer:
    about = ("--network", NETWORK, "--coordinator", "pito.pub", "--credentials", f"{who}-certs")
    return maia(*words, "-k", f"{who}.key", *about, "--wait", 20, cwd=home)


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


def test_what_was_acknowledged_survives_a_kill_and_the_rest_of_the_types_is_not_recorded(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        publish(home, address, "AE05 XYZ", "BD51 SMR")
        publish(home, address, "sunny", file="weather.type")
        status = json.loads(maia("status", "--data", "data", "--json", cwd=home).stdout)
        assert (status["log"]["position"], status["log"]["unsafe"]) == (2, 0)
        broker.send_signal(signal.SIGKILL)
        broker.wait(30)
    frames = recorded(home)
    assert [frame.rows for frame in frames] == [1, 1]
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        publish(home, address_of(home, 2), "CE02 ABC")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) == 0
    again = recorded(home)
    assert again[:2] == frames
    assert len(again) == 3
    assert len({frame.type_id for frame in again}) == 1
