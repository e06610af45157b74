"""How do the brokers, the key server and the Met's server of the numberplate story come to run, side by side?

Each is a process with files of its own (`processes.py`). One broker records
what it carries, so that Spark can read it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from maia.clock import system_now
from maia.demo.brokers import CARRIER, KEY_SERVER, SealedCast, sealed_story
from maia.demo.met_domain import MET_DOMAIN, domain_files
from maia.demo.numberplate import NumberplateStory
from maia.demo.processes import (
    BROKER_FILE,
    DOMAIN_FILE,
    RECEIVED_FILE,
    Child,
    Starting,
    home_of,
    start,
    stop_all,
    write_node,
)
from maia.types import definition_to_text

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
        home = home_of(self.folder, name)
        lines = dict(self.settings.get(name, {}))
        if definition is not None:
            (home / "types").mkdir(parents=True)
            (home / "types" / "numberplate.type").write_text(definition, encoding="utf-8")
            lines |= {"types": "types", "join": join}
        self._write(home, name, lines)
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

    def restarted(self, broker: LiveBroker) -> LiveBroker:
        """Start a broker that was killed again, from its own files, and return when it listens."""
        self.begun[broker.name] = self.start(broker.name, broker.folder)
        return self._listening(broker.name)

    def _begun_domain(self, definition: str, brokers: Mapping[str, LiveBroker]) -> Starting:
        """Start the Met's server, which publishes through the Met's broker."""
        home = home_of(self.folder, MET_DOMAIN)
        lines = domain_files(home, self.story, definition, broker=brokers["Met broker"].address)
        self._write(home, MET_DOMAIN, lines | dict(self.settings.get(MET_DOMAIN, {})))
        self.begun[MET_DOMAIN] = self.start(MET_DOMAIN, home)
        return self.begun[MET_DOMAIN]

    def _write(self, home: Path, name: str, settings: Mapping[str, object]) -> None:
        write_node(
            home,
            file=DOMAIN_FILE if name in {KEY_SERVER, MET_DOMAIN} else BROKER_FILE,
            key=self.cast.keys[name],
            network=self.story.network,
            certificates=self.cast.credentials[name],
            settings=settings,
        )
        if name in LISTENED_TO:
            (home / RECEIVED_FILE).touch()

    def _listening(self, name: str) -> LiveBroker:
        begun = self.begun[name]
        return LiveBroker(name, begun.address(), begun.home, begun.process)


# How is the live network set up so that Spark can read what it carried?


RECORDER: Final = "CCS broker"
"""The broker that records; the cameras are connected to it."""

_LOG: Final = "log"


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that was rolled, and what the broker had written into it."""

    folder: Path
    frames: int
    events: int
    written: bytes
    """All frames as they were recorded: nothing in them is compressed, so they can be searched."""


def recording_settings(story: NumberplateStory, folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the additional settings of CCS's broker and the key server."""
    definition = folder / "recorded.type"
    definition.write_text(definition_to_text(story.definition), encoding="utf-8")
    name = story.definition.definition.name.name
    return {
        RECORDER: {"log.folder": _LOG, "log.types": [name]},
        KEY_SERVER: {"history": [str(definition)]},
    }


def rolled(nodes: LiveNodes) -> Recording:
    """Roll the log of the broker that recorded, which has stopped."""
    from maia.log.disk.event_log import EventLog

    folder = nodes.brokers[RECORDER].folder / _LOG
    with EventLog.open(folder) as log:
        written = b"".join(record.message for record in log.read())
        segments = log.roll(system_now())
    frames, events = sum(one.frames for one in segments), sum(one.events for one in segments)
    return Recording(folder, frames, events, written)
