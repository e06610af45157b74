"""How do the story's brokers and its key server come to run, side by side?

Each gets a folder with its key, its certificates and a configuration, the
files that an operator would have. The key server and the broker of the third
domain come first, because the others need their addresses; then the
three others start together. The Met's own server, if the cast has it, is
started last, and no act waits for it yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from maia.credentials import certificate_to_text
from maia.demo.carriers import CARRIER, KEY_SERVER, SealedCast, sealed_story
from maia.demo.live_processes import (
    BROKER_FILE,
    DOMAIN_FILE,
    RECEIVED_FILE,
    Child,
    Starting,
    start,
    stop_all,
)
from maia.demo.met_domain import MET_DOMAIN, domain_files
from maia.demo.numberplate import NumberplateStory
from maia.keystore.key_files import create_key_file
from maia.types import definition_to_text

__all__ = ["LiveBroker", "LiveNodes", "StartingNodes", "starting_nodes"]

Start = Callable[[str, Path], Starting]
"""How a node is started from its folder."""

LISTENED_TO: Final = (CARRIER, "CCS broker")
"""The brokers that record what they receive: the one that must not read, and one that may."""


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
    domain: Starting | None = None
    """The Met's own server, which may still be starting."""

    def stop_brokers(self) -> None:
        """Ask every broker, and the Met's server, to stop; return when all have. The key server goes on."""
        domain = () if self.domain is None else (self.domain.process,)
        stop_all([*domain, *(one.process for one in self.brokers.values())])


@contextmanager
def starting_nodes(
    story: NumberplateStory,
    cast: SealedCast,
    folder: Path,
    *,
    start: Start = start,
    settings: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[StartingNodes]:
    """Start the key server and the third domain's broker; whatever runs has ended when the body has.

    The body has a moment for other things before it asks for the rest with
    `ready`. Tests give some nodes other settings, and start them otherwise.
    """
    starting = StartingNodes(story, cast, folder, start, settings)
    try:
        starting.begin(KEY_SERVER)
        starting.begin(CARRIER)
        yield starting
    finally:
        stop_all([one.process for one in starting.begun.values()])


@dataclass(frozen=True, slots=True)
class StartingNodes:
    """Nodes of which some have been started."""

    story: NumberplateStory
    cast: SealedCast
    folder: Path
    start: Start
    settings: Mapping[str, Mapping[str, object]]
    begun: dict[str, Starting] = field(default_factory=dict)

    def begin(self, name: str, *, join: tuple[str, ...] = (), definition: str | None = None) -> None:
        """Start one node, which joins the network through `join` and knows the type by its definition."""
        home = self.folder / name.replace(" ", "-").lower()
        lines = dict(self.settings.get(name, {}))
        if definition is not None:
            (home / "types").mkdir(parents=True)
            (home / "types" / "numberplate.type").write_text(definition, encoding="utf-8")
            lines |= {"types": "types", "join": join}
        _write(home, self.story, self.cast, name, lines)
        self.begun[name] = self.start(name, home)

    def ready(self) -> LiveNodes:
        """Start the three other brokers together, and return when all of them listen."""
        server, carrier = self._listening(KEY_SERVER), self._listening(CARRIER)
        sealed = sealed_story(self.story, self.cast, keys_at=server.address)
        text = definition_to_text(sealed.definition)
        # A broker with more configuration loads more, and starts first.
        for name in sorted(self.cast.brokers, key=lambda one: one not in self.settings):
            self.begin(name, join=(carrier.address,), definition=text)
        others = {name: self._listening(name) for name in self.cast.brokers}
        domain = self._begun_domain(text, others) if MET_DOMAIN in self.cast.keys else None
        return LiveNodes(sealed, {CARRIER: carrier, **others}, server, domain)

    def _begun_domain(self, definition: str, brokers: Mapping[str, LiveBroker]) -> Starting:
        """Start the Met's server, which publishes through the Met's broker."""
        home = self.folder / MET_DOMAIN.replace(" ", "-").lower()
        lines = domain_files(home, self.story, definition, broker=brokers["Met broker"].address)
        _write(home, self.story, self.cast, MET_DOMAIN, lines | dict(self.settings.get(MET_DOMAIN, {})))
        self.begun[MET_DOMAIN] = self.start(MET_DOMAIN, home)
        return self.begun[MET_DOMAIN]

    def _listening(self, name: str) -> LiveBroker:
        begun = self.begun[name]
        return LiveBroker(name, begun.address(), begun.home, begun.process)


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
    (home / (DOMAIN_FILE if name in {KEY_SERVER, MET_DOMAIN} else BROKER_FILE)).write_text(
        text, encoding="utf-8"
    )
    if name in LISTENED_TO:
        (home / RECEIVED_FILE).touch()
