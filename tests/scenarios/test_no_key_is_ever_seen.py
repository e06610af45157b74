"""Does a key show itself anywhere, while brokers and a key server run, rotate keys, break and crash?

Five real processes play the numberplate story with logs at their most
talkative and a new key every second. Each of them notes every secret that it
ever holds. Afterwards everything else that it left is searched for each of
them: logs, status, metrics, kept files, messages, the text of its objects, a
traceback with local variables, and a crash dump.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.demo.live_network import LiveBroker, LiveNodes, connected, starting_nodes
from support.numberplate import CARRIER, KEY_SERVER, add_carrier, tell_numberplate_story
from maia.demo.processes import Child, Starting, config_in
from maia.net.status_endpoint import fetch_status, read_door
from support.processes import until

TESTS = Path(__file__).resolve().parents[1]
KEY_HOLDERS = ("PITO broker", "CCS broker", "Met broker")
SECOND_BY_SECOND = {"refresh_s": 1, "overdue_s": 60, "drift_s": 20, "back_dating_s": 10}
KEY_FILE = "node.key"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[bytes]], dict[str, bytes]]:
    """Run the story; return the secrets that there were, by kind, and all that the processes left."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "notes").mkdir()
    seed = os.urandom(32)
    story = tell_numberplate_story(seed, now=system_now())
    cast = add_carrier(story, seed)
    settings = {name: {"log_level": "debug"} for name in cast.keys}
    settings[KEY_SERVER] |= SECOND_BY_SECOND

    def start(name: str, home: Path) -> Starting:
        return watched(name, home, folder / "notes" / name)

    with starting_nodes(story, cast, folder / "nodes", start=start, settings=settings) as starting:
        nodes = starting.ready()
        asyncio.run(played(nodes))
        shown = dict(page for one in everybody(nodes) for page in pages_of(one))
        look_inside(nodes)
        crash(nodes)
    return secrets_in(folder / "notes"), {**shown, **files_in(folder / "nodes")}


def watched(name: str, home: Path, notes: Path) -> Starting:
    reading, writing = os.pipe()
    with (home / "errors.log").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.watched_node", str(home), str(notes)],
            cwd=TESTS,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=errors,
        )
    process.returncode = 0  # `Child` waits for it
    os.close(writing)
    return Starting(name, config_in(home), Child(process.pid), reading)


def everybody(nodes: LiveNodes) -> list[LiveBroker]:
    return [nodes.key_server, *nodes.brokers.values()]


async def played(nodes: LiveNodes) -> None:
    """Publish until every client has seen events before and after keys were changed, with one broker less."""
    async with connected(nodes, lambda *_told: None) as network, asyncio.timeout(180):
        await network.settle()
        begun = epoch_of(nodes)
        while epoch_of(nodes) < begun + 2:
            await network.settle()
            await asyncio.sleep(0.1)
        await network.settle()


def epoch_of(nodes: LiveNodes) -> int:
    groups = fetch_status(read_door(nodes.key_server.folder / "data"))["groups"]
    assert isinstance(groups, Mapping)
    return max(record["epoch"] for record in groups.values())


def pages_of(node: LiveBroker) -> list[tuple[str, bytes]]:
    """Return what a node tells its operator."""
    door = read_door(node.folder / "data")
    host, _, port = door.address.rpartition(":")
    pages = [(f"status of {node.name}", json.dumps(fetch_status(door)).encode())]
    for path in ("/metrics", "/health", "/ready"):
        connection = http.client.HTTPConnection(host, int(port), timeout=180)
        connection.request("GET", path)
        pages.append((f"{path} of {node.name}", connection.getresponse().read()))
        connection.close()
    return pages


def look_inside(nodes: LiveNodes) -> None:
    """Let every process write its objects down, and break in the middle of a key."""
    for node in everybody(nodes):
        node.process.tell(signal.SIGUSR1)
    for node in everybody(nodes):
        until(lambda at=node.folder: (at / "reprs.txt").exists())
    # The next new key is a second away. The key server breaks last: there is no other one after it.
    for some in ([nodes.brokers[name] for name in KEY_HOLDERS], [nodes.key_server]):
        for node in some:
            node.process.tell(signal.SIGUSR2)
        for node in some:
            until(lambda at=node.folder: (at / "traceback.txt").exists())


def crash(nodes: LiveNodes) -> None:
    # The key server ends by itself, with a last line in its log, and may take a while on a busy machine.
    assert nodes.key_server.process.wait(180)
    for node in nodes.brokers.values():
        node.process.tell(signal.SIGABRT)
        assert node.process.wait(180)


def secrets_in(notes: Path) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {}
    for line in (line for path in notes.iterdir() for line in path.read_text().splitlines()):
        kind, secret = line.split()
        found.setdefault(kind, set()).add(bytes.fromhex(secret))
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file except the key files, which are where a seed belongs."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != KEY_FILE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def ways_to_write(secret: bytes) -> list[bytes]:
    """Return how a log, a text or a file could show these bytes."""
    return [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        base64.b64encode(secret)[:-2],
        base64.urlsafe_b64encode(secret)[:-2],
        repr(secret)[2:-1].encode(),
        str(list(secret))[1:-1].encode(),
    ]


def shown_in(left: Mapping[str, bytes], secrets: set[bytes]) -> list[str]:
    """Return where a secret is to be seen; only the place is told, never the secret."""
    whole = b"\x00".join(left.values())
    seen = [secret for secret in secrets if any(way in whole for way in ways_to_write(secret))]
    return sorted({
        name for secret in seen for way in ways_to_write(secret) for name, data in left.items() if way in data
    })  # fmt: skip


def test_no_secret_is_in_anything_that_a_process_shows_or_leaves(left) -> None:
    """Content keys, group and tree secrets, private keys of deliveries, seeds: none of them, nowhere."""
    secrets, files = left
    # It was a real run: keys of every kind, and in number.
    assert {"secret", "tree", "hpke", "seed"} <= secrets.keys()
    assert len(secrets["secret"]) > 50
    for kind, some in secrets.items():
        places = shown_in(files, some)
        assert places == [], f"a {kind} is to be seen"


def test_what_was_searched_is_what_there_is_to_search(left) -> None:
    _, files = left
    for home in ("pito-keys", "ccs-broker", "met-broker", "pito-broker", "highways-broker"):
        assert b"Secret(" in files[f"{home}/reprs.txt"] or home == "highways-broker"
    # The key server does not wait to be aborted: it ends with its first failure.
    for home in ("ccs-broker", "met-broker", "pito-broker", "highways-broker"):
        assert b"Fatal Python error: Aborted" in files[f"{home}/crash.txt"]
    for home in ("pito-keys", "ccs-broker", "met-broker", "pito-broker"):
        assert b"thrown on purpose, with Secret(" in files[f"{home}/traceback.txt"]
    assert b'"event": "failed"' in files["pito-keys/domain.log"]
    assert files["pito-keys/data/groups.sqlite"]
    assert b"maia_" in files[f"/metrics of {CARRIER}"]
    assert b'"epoch"' in files[f"status of {KEY_SERVER}"]


def test_the_search_finds_a_secret_however_it_is_written() -> None:
    secret = bytes(range(100, 132))
    for way in ways_to_write(secret):
        assert shown_in({"clean": b"nothing", "log": b"so: " + way + b"."}, {secret}) == ["log"]
    assert shown_in({"log": b"nothing"}, {secret}) == []
