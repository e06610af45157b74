"""A sealed log is read by command: wallet, log and the key server's address are all that a reader needs.

Real processes: a key server that keeps history, and a broker that records and
seals. Commands use the session of the suite. Keys change meanwhile, and the broker
whose signatures are in the log is gone when the log is read.
"""

from __future__ import annotations

import json
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from maia.spark.keys.reading_keys import fetch_reading_keys
from maia.testing import wait_until
from support.processes import maia, running_maia

NETWORK = "UK Police Network"
DOMAIN = f"""\
key = "keys.key"
network = "{NETWORK}"
coordinator = "pito.pub"
credentials = "keys-certs"
listen = "127.0.0.1:0"
data = "keys-data"
history = ["np.type"]
refresh_s = 3
drift_s = 1
back_dating_s = 1
"""
BROKER = f"""\
key = "broker.key"
network = "{NETWORK}"
coordinator = "pito.pub"
credentials = "broker-certs"
listen = "127.0.0.1:0"
data = "data"
keys = ["KEYS"]

[log]
folder = "log"
types = ["Numberplate"]
roll_s = 1
"""
ATTRIBUTES = ("numberplate:string", "timestamp:timestamp", "location:string")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One network with a key server, a broker, a camera, an office and another client, as files."""
    for who in ("pito", "keys", "broker", "camera", "office", "stranger"):
        assert maia("key", "new", f"{who}.key", cwd=tmp_path).returncode == 0
    named = [word for one in ATTRIBUTES for word in ("-a", one)]
    defined = maia(
        "type", "define", "-k", "pito.key", "--name", "Numberplate", *named,
        "--sealing", "attribute", "--keys", "keys.pub", "-o", "np.type", cwd=tmp_path,
    )  # fmt: skip
    assert defined.returncode == 0, defined.stderr
    rights = {
        "keys": (),
        "broker": ("publish", "subscribe"),
        "camera": ("publish",),
        "office": ("subscribe",),
    }
    for who in (*rights, "stranger"):
        (tmp_path / f"{who}-certs").mkdir()
        as_broker = ("--action", "serve", "--action", "broker") if who == "broker" else ()
        issue(tmp_path, who, "connect", *as_broker, "--owner", "pito.pub", "--network", NETWORK)
        for action in rights.get(who, ()):
            issue(tmp_path, who, action, "-d", "np.type")
    (tmp_path / "domain.toml").write_text(DOMAIN)
    for process in ("domain", "broker"):
        (tmp_path / f"{process}-run").mkdir()
    return tmp_path


def issue(home: Path, who: str, action: str, *about: object) -> None:
    words = ("--subject", f"{who}.pub", "--action", action, "--days", 2, "-o", f"{who}-certs/{action}.cert")
    issued = maia("cert", "issue", "-k", "pito.key", *words, *about, cwd=home)
    assert issued.returncode == 0, issued.stderr


@contextmanager
def running(home: Path, process: str, *words: str):
    """Run a server with output of its own; yields it and the address at which it listens."""
    folder = home / f"{process}-run"
    (folder / "out.log").unlink(missing_ok=True)
    with running_maia(*words, "-c", f"../{process}.toml", cwd=folder) as started:
        wait_until(lambda: "listening on" in (folder / "out.log").read_text())
        yield started, re.findall(r"listening on (\S+) as", (folder / "out.log").read_text())[-1]


@contextmanager
def broker(home: Path, keys: str):
    """Run the recording broker, and end it as an operator does."""
    (home / "broker.toml").write_text(BROKER.replace("KEYS", keys))
    with running(home, "broker", "broker") as (started, address):
        yield address
        started.send_signal(signal.SIGTERM)
        assert started.wait(180) == 0


def publish(home: Path, address: str, *plates: str) -> None:
    for plate in plates:
        said = maia(
            "publish", "-d", "np.type", "-k", "camera.key", "--credentials", "camera-certs",
            "--network", NETWORK, "--coordinator", "pito.pub", "--broker", address, "--wait", 30,
            "--set", f"numberplate={plate}", "--set", "timestamp=2026-11-16T09:00:00Z",
            "--set", "location=Victoria", cwd=home,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr


def epoch(home: Path) -> int:
    shown = maia("domain", "status", "--data", "keys-data", "--json", cwd=home)
    return max([0, *(int(found) for found in re.findall(r'"epoch": (\d+)', shown.stdout))])


def wait_for_epoch(home: Path, number: int) -> None:
    wait_until(lambda: epoch(home) >= number)


def wallet(who: str, keys: str) -> tuple[str, ...]:
    return (
        "--log",
        "log",
        "-d",
        "np.type",
        "-k",
        f"{who}.key",
        "--credentials",
        f"{who}-certs",
        "--keys-at",
        keys,
    )


def test_a_sealed_log_is_run_explained_and_verified_by_command(home: Path, sparkling, monkeypatch) -> None:
    """D1, D2: keys of three epochs, one of them the present, and a signer that is gone."""
    with running(home, "domain", "domain", "serve") as (_, keys):
        with broker(home, keys) as address:
            publish(home, address, "A1", "B2")
            wait_for_epoch(home, epoch(home) + 1)
            publish(home, address, "B2")
        wait_for_epoch(home, 2)
        with broker(home, keys) as address:
            publish(home, address, "C3")
        assert maia("log", "roll", "log", cwd=home).returncode == 0
        office = wallet("office", keys)
        ran = maia("pipeline", "run", "billing", *office, "--json", cwd=home)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["charges"] == 3
        explained = maia("pipeline", "explain", "billing", *office, "--json", cwd=home)
        assert explained.returncode == 0, explained.stderr
        assert json.loads(explained.stdout)["reads"] == ["numberplate", "timestamp"]
        verified = maia("pipeline", "verify", "billing", *office, "--json", cwd=home)
        assert verified.returncode == 0, verified.stderr
        told = json.loads(verified.stdout)
        assert (told["rows"], told["holds"]) == (3, True)
        refused(home, keys)
    monkeypatch.setitem(fetch_reading_keys.__kwdefaults__, "timeout_s", 2.0)  # no server will answer
    gone = maia("pipeline", "run", "billing", *wallet("office", keys), cwd=home)
    assert "[UNAVAILABLE-HISTORY-KEYS]" in gone.stderr


def taken(home: Path, address: str, *, count: int | None = None, seconds: float = 60.0) -> list[str]:
    """Let the office go on with its durable subscription, and return the plates that it is shown."""
    limit = ("--count", count) if count else ()
    got = maia(
        "subscribe", "-d", "np.type", "-k", "office.key", "--credentials", "office-certs",
        "--network", NETWORK, "--coordinator", "pito.pub", "--broker", address, "--wait", 30,
        "--durable", "nightly", *limit, "--for", seconds, cwd=home,
    )  # fmt: skip
    assert got.returncode == 0, got.stderr
    return [json.loads(line)["numberplate"] for line in got.stdout.splitlines()]


def test_a_durable_office_that_was_away_while_keys_changed_gets_what_it_missed(home: Path) -> None:
    """B8: the keys of its time are not held any more; the broker is handed them again."""
    with running(home, "domain", "domain", "serve") as (_, keys), broker(home, keys) as address:
        assert taken(home, address, seconds=0.5) == []
        publish(home, address, "A1", "B2")
        before = epoch(home)
        wait_for_epoch(home, before + 2)
        publish(home, address, "C3")
        wait_for_epoch(home, before + 4)
        assert taken(home, address, count=3) == ["A1", "B2", "C3"]


def refused(home: Path, keys: str) -> None:
    """Neither a stranger nor a client whose certificates name no network gets anything."""
    stranger = maia("pipeline", "run", "billing", *wallet("stranger", keys), cwd=home)
    assert stranger.returncode != 0
    assert "[POLICY-" in stranger.stderr
    (home / "office-certs" / "connect.cert").rename(home / "connect.cert")
    unnamed = maia("pipeline", "run", "billing", *wallet("office", keys), cwd=home)
    assert "[INPUT-PIPELINE-SOURCE]" in unnamed.stderr
    (home / "connect.cert").rename(home / "office-certs" / "connect.cert")
