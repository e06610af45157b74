"""One broker, two processes: one address, a process for each type, and one that is killed and comes back."""

from __future__ import annotations

import json
import os
import re
import signal
from itertools import pairwise
from pathlib import Path

import pytest

import maia
from maia.client.api.blocking_client import BlockingSubscription
from maia.config.input_files import read_certificates, read_definitions, read_principal
from maia.credentials import NetworkName
from maia.keystore.key_files import load_signing_key
from maia.testing import wait_until
from maia.types import type_id
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import maia as command
from support.processes import running_maia

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
        issue(home, "broker", "publish", "-d", f"{name}.type", "--may-delegate", name=f"b-{name}")  # it signs
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


def is_back(home: Path, part: str, before: int) -> bool:
    """Return whether a process runs again, and is linked with the others."""
    found = parts(home)[part]
    return found.get("pid", before) != before and found["peers"] >= 1


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
    """Durable names are found again, nothing is left out, and no process outlives its broker."""
    home = tmp_path
    names = make_city(home)
    about = ("--owner", "pito.pub", "--network", NETWORK)
    issue(home, "broker", "connect", "--action", "serve", *about, "--may-delegate", name="may-delegate")
    for number in (1, 2):  # each process is a broker, and is named by its key when it is none
        refused = command("broker", "-c", "broker.toml", "--processes", 2, cwd=home)
        assert refused.returncode == 2, refused.stderr
        (key,) = re.findall(r"do not make `(ed25519:[0-9a-f]{64})` a broker", refused.stderr)
        words = ("--subject", key, "--action", "connect", "--action", "broker", "--days", 2)
        out = f"broker-certs/process-{number}.cert"
        made = command("cert", "issue", "-k", "pito.key", *words, *about, "-o", out, cwd=home)
        assert made.returncode == 0, made.stderr
    with running_maia("broker", "-c", "broker.toml", "--processes", 2, cwd=home) as broker:
        address, last = address_of(home), EVENTS + 1
        with connected(home, "writer", address) as writer, connected(home, "reader", address) as reader:
            streams = [reader.subscribe(name, durable="nightly", timeout_s=120) for name in names]
            for number in range(EVENTS):
                for name in names:
                    writer.publish(name, n=number, timeout_s=120)
            for stream in streams:
                assert numbers(stream, EVENTS - 1) == [*range(EVENTS)], logs(home)
            served = parts(home)
            assert {name: one["types"] for name, one in served.items()} == {"process-1": 1, "process-2": 1}
            assert all(one["peers"] >= 1 for one in served.values()), "the processes are linked"
            for number, killed in enumerate(served):
                before = served[killed]["pid"]
                os.kill(before, signal.SIGKILL)
                for name in names:
                    writer.publish(name, n=EVENTS + number, timeout_s=120)
                wait_until(lambda one=killed, was=before: is_back(home, one, was), within_s=60)
            for stream in streams:
                seen = numbers(stream, last)
                assert seen[-2:] == [EVENTS, last], logs(home)
                # What was not acknowledged when its process ended comes again, and nothing is left out.
                assert all(after <= before + 1 for before, after in pairwise(seen)), logs(home)
            for name in names:
                writer.publish(name, n=last + 1, timeout_s=120)
        with connected(home, "reader", address) as again:
            for name in names:
                seen = numbers(again.subscribe(name, durable="nightly", timeout_s=120), last + 1)
                assert seen == [*range(seen[0], last + 2)], logs(home)
        children = [one["pid"] for one in parts(home).values()]
        broker.kill()
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in children), within_s=60)


def test_sealed_types_and_revocations_are_those_of_one_organisation_in_all_its_processes(
    tmp_path: Path,
) -> None:
    """`maia org new --processes 2`: key groups admit the processes, and a revocation ends a right at both."""
    homes: dict[int, str] = {}
    assert command("org", "new", "hospital", "--processes", 2, cwd=tmp_path).returncode == 0
    owner = read_principal(str(tmp_path / "hospital" / "hospital.pub"))
    for name in (f"Result{number}" for number in range(100)):
        homes.setdefault(int.from_bytes(type_id(owner, name)[:8], "big") % 2, name)
    names = [homes[0], homes[1]]
    for name in names:
        made = command("type", "define", name, "n:int", "ward:int", "--sealed", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    for who, action in (("lab", "publish"), ("desk", "subscribe")):
        may = [word for name in names for word in ("--may", f"{action}:{name}")]
        added = command("member", "add", who, *may, cwd=tmp_path)
        assert added.returncode == 0, added.stderr
    (tmp_path / "up").mkdir()
    output = tmp_path / "up"
    with running_maia("up", "--org", tmp_path / "hospital", cwd=output) as up:
        try:
            wait_until(lambda: (output / "out.log").read_text().startswith("up "), within_s=120)
            profiles = [tmp_path / "hospital" / f"{who}.maia" for who in ("lab", "desk")]
            with (
                maia.connect(profiles[0], timeout_s=120) as writer,
                maia.connect(profiles[1], timeout_s=120) as reader,
            ):
                streams = [reader.subscribe(name, timeout_s=120) for name in names]
                for name in names:
                    writer.publish(name, n=7, ward=3, timeout_s=120)
                assert [numbers(stream, 7) for stream in streams] == [[7], [7]], logs(output)
                revoked = command("revoke", "desk", "--org", "hospital", cwd=tmp_path)
                assert revoked.returncode == 0, revoked.stderr
                for stream in streams:
                    with pytest.raises(maia.MaiaError) as ended:
                        stream.some(1, timeout_s=60)
                    assert ended.value.code == "POLICY-REVOKED", logs(output)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)
