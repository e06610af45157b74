"""A tree of topics that is sealed and blinded: a key server, two brokers and their clients as processes.

The reader's broker gets keys from the server, and records what it may read. The reader comes back for
what was published while it was away, on the topics of its certificate alone.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from maia.config.input_files import read_definition
from maia.types import type_id
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import maia, running_maia

ON_THE_NETWORK = ("--network", NETWORK, "--coordinator", "pito.pub")
TOPICS = ("/news/uk/sport", "/news/uk/politics", "/news/fr/sport/cycling")


@pytest.fixture
def city(tmp_path: Path) -> Path:
    make_keys(tmp_path, "keys", "north", "south", "desk", "reader")
    lets_connect(tmp_path, "keys", "north", "south", "desk", "reader", brokers=("north", "south"))
    (tmp_path / "domain.toml").write_text(config("keys", "drift_s = 30\nback_dating_s = 10\n"))
    return tmp_path


def read(home: Path, *words: object) -> list[dict[str, object]]:
    done = maia(*words, *ON_THE_NETWORK, cwd=home)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_reader_gets_its_topics_sealed_and_comes_back_for_what_it_missed(city: Path) -> None:
    """A1, A2, A99: live and from the log, a durable name gets what the right opens of what it asks for."""
    with ExitStack() as stack:
        stack.enter_context(running_maia("domain", "serve", "-c", "domain.toml", cwd=city))
        keys_at = address_of(city)
        declared = maia(
            "topic", "declare", "/news", "-k", "pito.key", "--sealing", "event", "--keys", "keys.pub",
            "--keys-at", keys_at, "--blinded", "-o", "news.type", cwd=city,
        )  # fmt: skip
        assert declared.returncode == 0, declared.stderr
        for who, actions in {"north": ("publish", "subscribe"), "south": ("subscribe",)}.items():
            for action in actions:
                issue(city, who, action, "-d", "news.type")
        issue(city, "desk", "publish", "-d", "news.type", "--topic", "/news/#")
        issue(city, "reader", "subscribe", "-d", "news.type", "--topic", "/news/+/sport")
        (city / "types").mkdir()
        (city / "types" / "news.type").write_bytes((city / "news.type").read_bytes())

        def broker(who: str, *more: str) -> str:
            home = city / who
            home.mkdir()
            own = (
                "--key",
                f"../{who}.key",
                "--credentials",
                f"../{who}-certs",
                "--coordinator",
                "../pito.pub",
            )
            here = ("--network", NETWORK, "--listen", "127.0.0.1:0", "--data", "data", "--status", "off")
            words = ("broker", *own, *here, "--types", "../types", *more)
            stack.enter_context(running_maia(*words, cwd=home))
            return address_of(home)

        north = broker("north")
        south = broker("south", "--join", north, "--log-folder", "log", "--log-types", "*")
        desk = ("-d", "news.type", "-k", "desk.key", "--credentials", "desk-certs", "--broker", north)
        often = ("--payload", "a story", "--rate", "3", "--count", "3000", *ON_THE_NETWORK)
        for topic in TOPICS:
            stack.enter_context(running_maia("publish", *desk, "--topic", topic, *often, cwd=city))
        reader = ("-d", "news.type", "-k", "reader.key", "--credentials", "reader-certs", "--broker", south)
        ask = ("subscribe", *reader, "--topic", "/news/#", "--durable", "mine", "--for", "150")
        live = read(city, *ask, "--count", "4")
        missed = read(city, *ask, "--count", "8")
    sport = {TOPICS[0], TOPICS[2]}
    assert {one["topic"] for one in live} <= sport
    assert {one["topic"] for one in missed} == sport
    definition = read_definition(city / "news.type").definition
    own = type_id(definition.name.owner, definition.name.name)
    recorded = b"".join(one.read_bytes() for one in (city / "south" / "log").rglob("*") if one.is_file())
    assert own in recorded
    assert b"a story" not in recorded
