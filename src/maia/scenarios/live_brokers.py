"""How do the story's brokers and its key server come to run, side by side?

Each gets a folder with its key, its certificates and a configuration, the
files that an operator would have. The key server and the broker of the third
domain come first, because the others are told where those are; then the
three others start together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.credentials import certificate_to_text
from maia.runtime.key_files import create_key_file
from maia.scenarios.carriers import CARRIER, KEY_SERVER, SealedCast, sealed_story
from maia.scenarios.live_processes import (
    BROKER_FILE,
    HEARD_FILE,
    KEYS_FILE,
    Child,
    Starting,
    start,
    stop_all,
)
from maia.scenarios.numberplate import NumberplateStory
from maia.types import definition_to_text

__all__ = ["LiveBroker", "LiveNodes", "running_nodes"]

LISTENED_TO: Final = (CARRIER, "CCS broker")
"""The brokers that write down what they hear: the one that must not read, and one that may."""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker or key server that runs: whose it is, where it listens, and its process."""

    name: str
    address: str
    folder: Path
    process: Child

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.kill()


@dataclass(frozen=True, slots=True)
class LiveNodes:
    """The brokers and the key server that run, and the story with the type that names the key server."""

    story: NumberplateStory
    brokers: Mapping[str, LiveBroker]
    key_server: LiveBroker


@contextmanager
def running_nodes(
    story: NumberplateStory, cast: SealedCast, folder: Path, *, log_level: str = "info"
) -> Iterator[LiveNodes]:
    """Run the key server and the four brokers while the body runs; all have ended when this returns."""
    children: list[Child] = []

    def begin(name: str, **more: object) -> Starting:
        home = folder / name.replace(" ", "-").lower()
        sealed = more.pop("type", None)
        _write(home, story, cast, name, {"log_level": log_level, **more})
        if isinstance(sealed, str):
            (home / "types").mkdir()
            (home / "types" / "numberplate.type").write_text(sealed, encoding="utf-8")
        starting = start(name, home)
        children.append(starting.process)
        return starting

    try:
        server, carrier = (_ready(one) for one in [begin(KEY_SERVER), begin(CARRIER)])
        sealed = sealed_story(story, cast, keys_at=server.address)
        text, join = definition_to_text(sealed.definition), [carrier.address]
        others = [begin(name, join=join, types="types", type=text) for name in cast.brokers]
        brokers = {carrier.name: carrier, **{one.name: _ready(one) for one in others}}
        yield LiveNodes(sealed, brokers, server)
    finally:
        stop_all(children)


def _ready(starting: Starting) -> LiveBroker:
    return LiveBroker(starting.name, starting.address(), starting.home, starting.process)


def _write(
    home: Path, story: NumberplateStory, cast: SealedCast, name: str, more: Mapping[str, object]
) -> None:
    """Write what a node needs: the files that an operator would have."""
    (home / "certs").mkdir(parents=True)
    create_key_file(home / "node.key", cast.keys[name])
    for number, signed in enumerate(cast.credentials[name]):
        (home / "certs" / f"{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    lines = {
        "key": "node.key",
        "network": story.network.name,
        "coordinator": str(story.network.owner),
        "credentials": "certs",
        "listen": "127.0.0.1:0",
        "data": "data",
        "log_format": "json",
        **more,
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    (home / (KEYS_FILE if name == KEY_SERVER else BROKER_FILE)).write_text(text, encoding="utf-8")
    if name in LISTENED_TO:
        (home / HEARD_FILE).touch()
