"""One broker, two processes: one address, a process for each type, and one that is killed and comes back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import maia
from maia.client.api.blocking import BlockingSubscription
from maia.config.input_files import read_certificates, read_definitions, read_principal
from maia.credentials import NetworkName
from maia.keystore.key_files import load_signing_key
from maia.types import type_id
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import maia as command
from support.processes import running_maia, until

CONFIG = config("broker") + '[log]\nfolder = "log"\n'
EVENTS = 40


def make_city(home: Path) -> list[str]:
    """Make a broker that may pass its right to connect on, two clients, and a type for each process."""
    make_keys(home, "broker", "writer", "reader")
    lets_connect(home, "broker", "writer", "reader")
    owner, homes = read_principal(str(home / "pito.pub")), {}
    for name in (f"Sighting{number}" for number in range(100)):
        homes.setdefault(int.from_bytes(type_id(owner, name)[:8], "big") % 2, name)
    for name in homes.values():
        made = command(
            "type", "define", "-k", "pito.key", "--name", name, "-a", "n:int", "-o", f"{name}.type", cwd=home
        )
        assert made.returncode == 0, made.stderr
        issue(home, "writer", "publish", "-d", f"{name}.type", name=f"w-{name}")
        issue(home, "reader", "subscribe", "-d", f"{name}.type", name=f"r-{name}")
    (home / "broker.toml").write_text(CONFIG)
    return [homes[0], homes[1]]


def connected(home: Path, who: str, address: str) -> maia.Connection:
    return maia.connect(
        address,
        key=load_signing_key(home / f"{who}.key"),
        network=NetworkName(read_principal(str(home / "pito.pub")), NETWORK),
        credentials=read_certificates([home / f"{who}-certs"]),
        types=read_definitions(sorted(home.glob("*.type"))),
        dial_again_s=0.05,
        timeout_s=120,
    )


def parts(home: Path) -> dict[str, dict]:
    return json.loads(command("status", "--data", "data", "--json", cwd=home).stdout)["processes"]


def numbers(stream: BlockingSubscription, last: int) -> list[int]:
    """Read until an event has come, or none does."""
    found: list[int] = []
    while not found or found[-1] != last:
        some = stream.some(EVENTS, timeout_s=60)
        if not some:
            break
        found += [event["n"] for event in some]
    return found


def logs(home: Path) -> str:
    return (home / "out.log").read_text()[-2000:] + (home / "err.log").read_text()[-4000:]


def test_types_are_shared_among_the_processes_of_a_broker_and_a_killed_one_comes_back(tmp_path: Path) -> None:
    """Durable names are found again, nothing is lost or doubled, and no process outlives its broker."""
    home = tmp_path
    names = make_city(home)
    refused = command("broker", "-c", "broker.toml", "--processes", 2, cwd=home)
    assert (refused.returncode, "may pass on" in refused.stderr) == (2, True), refused.stderr
    about = ("--owner", "pito.pub", "--network", NETWORK)
    issue(home, "broker", "connect", *about, "--may-delegate", name="may-delegate")
    with running_maia("broker", "-c", "broker.toml", "--processes", 2, cwd=home) as broker:
        address = address_of(home)
        with connected(home, "writer", address) as writer, connected(home, "reader", address) as reader:
            streams = {name: reader.subscribe(name, durable="nightly", timeout_s=120) for name in names}
            for number in range(EVENTS):
                for name in names:
                    writer.publish(name, n=number, timeout_s=120)
            for stream in streams.values():
                assert numbers(stream, EVENTS - 1) == [*range(EVENTS)], logs(home)
            served = parts(home)
            assert {name: one["types"] for name, one in served.items()} == {"process-1": 1, "process-2": 1}
            assert all(one["peers"] >= 1 for one in served.values()), "the processes are linked"
            before = {name: one["pid"] for name, one in served.items()}
            os.kill(before["process-1"], signal.SIGKILL)
            for name in names:
                writer.publish(name, n=EVENTS, timeout_s=120)
            until(lambda: parts(home)["process-1"].get("pid") not in {None, before["process-1"]}, seconds=60)
            until(lambda: parts(home)["process-1"].get("peers", 0) >= 1, seconds=60)
            assert parts(home)["process-2"]["pid"] == before["process-2"]
        with connected(home, "reader", address) as again:
            for name in names:
                seen = numbers(again.subscribe(name, durable="nightly", timeout_s=120), EVENTS)
                assert seen == [*range(seen[0], EVENTS + 1)], logs(home)
        children = [one["pid"] for one in parts(home).values()]
        broker.kill()
        until(lambda: not any(Path(f"/proc/{one}").exists() for one in children), seconds=60)
