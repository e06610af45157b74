"""What do all acts of the demonstration share, and what does each of them leave behind?"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.acts import LivePlay
    from maia.demo.carriage import Carriage
    from maia.demo.live_processes import LiveNodes, Recording, StartingNodes
    from maia.demo.met_domain import MetDesk
    from maia.demo.numberplate import NumberplateStory
    from maia.demo.spark_start import SparkRun


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    rows: int
    seed: int
    plot: Path
    keep: bool
    details: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an act: fields of the record, and claims that do not hold."""

    record: Mapping[str, object] = field(default_factory=dict)
    broken: tuple[str, ...] = ()


@dataclass
class Demonstration:
    """What all acts share, and what the live acts have left for those after them."""

    options: Options
    starting: StartingNodes
    spark: SparkRun | None
    folder: Path
    now: Instant
    started_at: float
    live: LivePlay = field(init=False)
    story: NumberplateStory = field(init=False)
    """With the certificates that counted when the live acts ended."""
    desk: MetDesk = field(init=False)
    nodes: LiveNodes = field(init=False)
    recording: Recording = field(init=False)

    @cached_property
    def screen(self) -> Console:
        """Return the screen; what draws on it takes its time to load, so the network starts before."""
        from rich.console import Console

        return Console(quiet=self.options.quiet, highlight=False, emoji=False)

    @cached_property
    def details(self) -> Console:
        """Return the screen for what is shown with `--details` alone."""
        from rich.console import Console

        quiet = self.options.quiet or not self.options.details
        return Console(quiet=quiet, highlight=False, emoji=False)

    @property
    def lake(self) -> Path:
        """Return the folder into which Spark writes what the offices found in the log."""
        return self.folder / "lake"


# What does a newcomer read before the demonstration begins, and after it has ended?


BEFORE: Final = """\
Cameras in London publish sightings of cars: numberplate, time, place. PITO owns
this type of event, CCS runs the cameras, the Met is the police. By certificates
  the billing office     sees plates, never a place
  the statistics office  sees places, never a plate
  Detective Smith        sees one car, while a court order is in force
Between their brokers is that of the Highways, which may read nothing.

"""


def after(command: str) -> list[str]:
    """Return the lines that say what to try next; `command` is how this user calls Maia."""
    steps = (
        (f"{command} demo --keep", "the network stays, with commands to try on it"),
        (f"{command} demo --details", "certificates, each delivery, each refusal"),
        (f"{command} demo --spark", "Spark reads the log, by the same rights"),
        ("docs/quickstart.md", "two organisations of your own, in ten commands"),
        ("docs/limitations.md", "what Maia does not protect against"),
    )
    width = max(len(what) for what, _ in steps)
    return ["Next:", *(f"  {what:<{width}}  {why}" for what, why in steps)]


def typed_command(arguments: Sequence[str] = sys.argv) -> str:
    """Return how Maia was called, as it can be typed again."""
    called = Path(arguments[0])
    if called.name != "maia":
        return "python -m maia.cli"
    found = shutil.which("maia")
    return "maia" if found is not None and Path(found).absolute() == called.absolute() else str(called)


# What could the broker in the middle see, and would the search have found it?


@dataclass(frozen=True, slots=True)
class Searched:
    """What the broker in the middle could see, and what CCS's broker could."""

    carrier: Carriage
    reader: Carriage

    def broken_claims(self) -> Iterator[str]:
        """Say what the broker in the middle saw that it must not see, or why the search proves nothing."""
        yield from self.carrier.broken_claims()
        missed = self.carrier.looked_for - len(self.reader.found)
        if missed:
            yield f"{missed} of the words that were looked for were not found where they are"


def searched(demo: Demonstration) -> Searched:
    """Search what two brokers received and kept for everything that was written."""
    from maia.demo.brokers import CARRIER
    from maia.demo.carriage import carriage_of, words_to_look_for
    from maia.types import validity_type_id

    words = words_to_look_for(demo.story, demo.live.expected.written)
    brokers, public = demo.nodes.brokers, {validity_type_id(demo.nodes.story.principal("Met"))}
    carrier, reader = (
        carriage_of(name, brokers[name].folder, words, public=public) for name in (CARRIER, "CCS broker")
    )
    return Searched(carrier, reader)
