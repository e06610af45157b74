"""What do all acts of the demonstration share, and what does each of them leave behind?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from maia.events import Instant

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.acts import LivePlay
    from maia.demo.live_brokers import LiveNodes, StartingNodes
    from maia.demo.numberplate import NumberplateStory
    from maia.demo.recording import Recording
    from maia.demo.spark_start import SparkRun

__all__ = ["Demonstration", "Options", "Outcome"]


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    rows: int
    seed: int
    plot: Path
    keep: bool
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
    nodes: LiveNodes = field(init=False)
    recording: Recording = field(init=False)

    @cached_property
    def screen(self) -> Console:
        """Return the screen; what draws on it takes its time to load, so the network starts before."""
        from rich.console import Console

        return Console(quiet=self.options.quiet, highlight=False, emoji=False)

    @property
    def lake(self) -> Path:
        """Return the folder into which Spark writes what the offices found in the log."""
        return self.folder / "lake"
