"""Does a key show itself anywhere, while brokers and a key server run, rotate keys, break and crash?

Eight real processes play the numberplate story with logs at their most
talkative and a new key every second. Each of them notes every secret that it
ever holds. Afterwards everything else that it left is searched for each of
them: logs, status, metrics, kept files, messages, the text of its objects, a
traceback with local variables, and a crash dump.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from maia.demo import world as demo_world
from maia.demo.numberplate import STORY
from maia.demo.processes import Child
from maia.demo.report import Showing
from maia.demo.stage import Stage, play
from maia.demo.world import StoryWorld, world_at_work
from maia.net.process import STOP_WITH_INPUT
from maia.net.status_endpoint import fetch_status, read_door
from maia.testing import wait_until

TESTS = Path(__file__).resolve().parents[1]
KEY_HOLDERS = ("broker of ccs", "offices of ccs", "broker of met")
KEY_SERVER, CARRIER = "server of pito", "broker of highways"
SECOND_BY_SECOND = "refresh_s = 1\noverdue_s = 60\ndrift_s = 20\nback_dating_s = 10\n"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[bytes]], dict[str, bytes]]:
    """Run the story; return the secrets that there were, by kind, and all that the processes left."""
    folder = tmp_path_factory.mktemp("secrets")
    for name in ("notes", "nodes"):
        (folder / name).mkdir()

    def watched(name: str, words: list[str], log: Path, **_more: object) -> Child:
        (says, writing), (reading, holds) = os.pipe(), os.pipe()
        (home := folder / "nodes" / "watched" / name).mkdir(parents=True)
        command = [
            sys.executable,
            "-m",
            "support.watched_node",
            str(home),
            str(folder / "notes" / name),
            *words,
        ]
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [*command, "--log-format", "json"],
                cwd=TESTS, stdin=reading, stdout=writing, stderr=errors,
                env=os.environ | {STOP_WITH_INPUT: "yes"},
            )  # fmt: skip
        process.returncode = 0  # `Child` waits for it
        os.close(writing)
        os.close(reading)
        return Child(name, process.pid, says, holds, log)

    def prepare(world: StoryWorld) -> None:
        STORY.prepare(world)
        for one in world.organisations():
            for file in ("broker.toml", "domain.toml"):
                world.settings(f"{one}/{file}", 'log_level = "debug"\n')
        world.settings("pito/domain.toml", SECOND_BY_SECOND)

    logs_in, *_ = STORY.acts
    story = replace(STORY, prepare=prepare, acts=(logs_in, keys_change), listened_to=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_world, "start", watched)
        with world_at_work(story, folder / "nodes") as world:
            stage = play(world, Showing(0.0, quiet=True), keep=True)
            assert stage.broken == []
            shown = dict(page for name in world.children for page in pages_of(name))
            look_inside(world, folder / "nodes" / "watched")
            crash(world)
    return secrets_in(folder / "notes"), {**shown, **files_in(folder / "nodes")}


def keys_change(stage: Stage) -> None:
    """Publish until every reader has seen events before and after keys were changed."""
    begun = epoch()
    while epoch() < begun + 2:
        stage.settle()
    stage.settle()


def epoch() -> int:
    groups = fetch_status(read_door(Path("pito/domain-data")))["groups"]
    assert isinstance(groups, Mapping)
    return max(record["epoch"] for record in groups.values())


def pages_of(name: str) -> list[tuple[str, bytes]]:
    """Return what a server tells its operator."""
    what, _, organisation = name.partition(" of ")
    door = read_door(Path(organisation, "domain-data" if what == "server" else f"{what}-data"))
    host, _, port = door.address.rpartition(":")
    pages = [(f"status: {name}", json.dumps(fetch_status(door)).encode())]
    for path in ("/metrics", "/health", "/ready"):
        connection = http.client.HTTPConnection(host, int(port), timeout=180)
        connection.request("GET", path)
        pages.append((f"{path}: {name}", connection.getresponse().read()))
        connection.close()
    return pages


def look_inside(world: StoryWorld, watched: Path) -> None:
    """Let every process write its objects down, and break in the middle of a key."""
    for child in world.children.values():
        child.tell(signal.SIGUSR1)
    for name in world.children:
        wait_until(lambda at=watched / name: (at / "reprs.txt").exists())
    # The next new key is a second away. The key server breaks last: there is no other one after it.
    for some in (KEY_HOLDERS, (KEY_SERVER,)):
        for name in some:
            world.children[name].tell(signal.SIGUSR2)
        for name in some:
            wait_until(lambda at=watched / name: (at / "traceback.txt").exists())


def crash(world: StoryWorld) -> None:
    # The key server ends by itself, with a last line in its log, and may take a while on a busy machine.
    assert world.children[KEY_SERVER].wait(180)
    for child in world.children.values():
        child.tell(signal.SIGABRT)
        assert child.wait(180)


def secrets_in(notes: Path) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {}
    for line in (line for path in notes.iterdir() for line in path.read_text().splitlines()):
        kind, secret = line.split()
        found.setdefault(kind, set()).add(bytes.fromhex(secret))
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file except the key files, which are where a seed belongs."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".key")
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
    """Return where a secret is to be seen; only the place is told, never the secret.

    Of so many ways of writing, how each begins is looked up at every byte; only what begins so is compared.
    """
    ways = tuple({way for secret in secrets for way in ways_to_write(secret)})
    size = min(map(len, ways))
    begins = {way[:size] for way in ways}
    return sorted(
        name
        for name, data in left.items()
        if any(
            data[at : at + size] in begins and data.startswith(ways, at) for at in range(len(data) - size + 1)
        )
    )


def test_no_secret_is_in_anything_that_a_process_shows_or_leaves(left) -> None:
    """Content keys, group and tree secrets, private keys of deliveries, seeds: none of them, nowhere."""
    secrets, files = left
    # It was a real run: keys of every kind, and in number.
    assert {"secret", "tree", "hpke", "seed"} <= secrets.keys()
    assert len(secrets["secret"]) > 50
    assert shown_in(files, set().union(*secrets.values())) == [], {
        kind: shown_in(files, some) for kind, some in secrets.items()
    }


def test_what_was_searched_is_what_there_is_to_search(left) -> None:
    _, files = left
    for name in (KEY_SERVER, *KEY_HOLDERS):
        assert b"Secret(" in files[f"watched/{name}/reprs.txt"]
        assert b"thrown on purpose, with Secret(" in files[f"watched/{name}/traceback.txt"]
    # The key server does not wait to be aborted: it ends with its first failure.
    for name in (*KEY_HOLDERS, CARRIER):
        assert b"Fatal Python error: Aborted" in files[f"watched/{name}/crash.txt"]
    assert b'"event": "failed"' in files["pito/server.log"]
    assert files["pito/domain-data/groups.sqlite"]
    assert b"maia_" in files[f"/metrics: {CARRIER}"]
    assert b'"epoch"' in files[f"status: {KEY_SERVER}"]


def test_the_search_finds_a_secret_however_it_is_written() -> None:
    secret = bytes(range(100, 132))
    for way in ways_to_write(secret):
        assert shown_in({"clean": b"nothing", "log": b"so: " + way + b"."}, {secret}) == ["log"]
    assert shown_in({"log": b"nothing"}, {secret}) == []
