"""How is the live network set up so that Spark can read what it carried?

CCS's broker records: it keeps the sealed frames in a log of its own. PITO's
key server keeps old keys for those who had the right to them. When the
brokers have stopped, the log is rolled: Spark reads segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.clock import system_now
from maia.demo.carriers import KEY_SERVER
from maia.demo.live_brokers import LiveNodes
from maia.demo.numberplate import NumberplateStory
from maia.types import definition_to_text

__all__ = ["RECORDER", "Recording", "recording_settings", "rolled"]

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
