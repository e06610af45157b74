"""Of which acts does the demonstration consist?

Each act does something or checks what was done, shows it, and returns an
outcome: fields for programs, and the claims that do not hold. What happens on
the live network has acts of its own (`maia.demo.acts`).
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.events import Instant, Value

if TYPE_CHECKING:
    from rich.console import Console

    from maia.demo.acts import LivePlay
    from maia.demo.carriage import Carriage
    from maia.demo.live_network import LiveNodes, StartingNodes
    from maia.demo.met_domain import MetDesk
    from maia.demo.million import Comparison
    from maia.demo.numberplate import NumberplateStory
    from maia.demo.processes import Recording
    from maia.demo.spark_process import SparkRun


# What do all acts of the demonstration share, and what does each of them leave behind?


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


def after(command: str, *, with_spark: bool) -> list[str]:
    """Return the lines that say what to try next; `command` is how this user calls Maia."""
    spark = (f"{command} demo --spark", "Spark reads the log, by the same rights")
    steps = (
        (f"{command} demo --keep", "the network stays, with commands to try on it"),
        (f"{command} demo --details", "certificates, each delivery, each refusal"),
        *(() if with_spark else (spark,)),
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
    from maia.demo.carriage import carriage_of, words_to_look_for
    from maia.demo.numberplate import CARRIER
    from maia.types import validity_type_id

    words = words_to_look_for(demo.story, demo.live.expected.written)
    brokers, public = demo.nodes.brokers, {validity_type_id(demo.nodes.story.principal("Met"))}
    carrier, reader = (
        carriage_of(name, brokers[name].folder, words, public=public) for name in (CARRIER, "CCS broker")
    )
    return Searched(carrier, reader)


Act = Callable[[Demonstration], Outcome]


def the_network_plays(demo: Demonstration) -> Outcome:
    """Run brokers, domain and clients, kill a broker, revoke a right; compare deliveries with the kernel."""
    from maia.demo.program import play_on_the_network

    play_on_the_network(demo)
    live, first = demo.live, demo.live.first_event_at
    record = {
        "received": {one.office: [dict(event) for event in one.events] for one in live.seen_close_up()},
        "deliveries": {one.office: len(one.events) for one in live.received},
        "killed": live.killed,
        "lost": live.lost(),
        "first_event_s": None if first is None else round(first - demo.started_at, 3),
        "ready_s": round(live.ready_s, 3),
        "repaired_s": round(live.repaired_s, 3),
        "revocation": None if live.revocation is None else live.revocation.record(),
    }
    return Outcome(record, tuple(live.differences()))


def the_log_goes_to_spark(demo: Demonstration) -> Outcome:
    """Stop the brokers and roll the log; Spark works on it while the next acts are shown."""
    from maia.demo.live_network import RECORDER
    from maia.demo.processes import rolled

    if demo.options.keep:
        return Outcome()
    demo.nodes.stop_brokers()
    demo.recording = rolled(demo.nodes.brokers[RECORDER].folder)
    if demo.spark is not None:
        from maia.demo.lake_jobs import LakeOrder

        plot = str(demo.options.plot.resolve())
        keys_at = demo.nodes.key_server.address
        right = demo.live.right
        shown, statements = ((), ()) if right is None else right.as_hex()
        demo.spark.give_log(
            LakeOrder(str(demo.recording.folder), keys_at, str(demo.lake), plot, shown, statements)
        )
    return Outcome({"recorded": {"events": demo.recording.events, "frames": demo.recording.frames}})


def who_granted_what(demo: Demonstration) -> Outcome:
    """Show the certificates."""
    from maia.demo.screens import show_story

    show_story(demo.details, demo.story)
    return Outcome()


def who_saw_what(demo: Demonstration) -> Outcome:
    """Show some deliveries one by one, and check all of them for what an office must not see."""
    from maia.demo.numberplate import SUSPECT
    from maia.demo.screens import NOBODY_MAY_SEE, show_performance

    show_performance(demo.details, demo.live)
    broken = [
        f"the {office} saw a {attribute}"
        for office, attribute in NOBODY_MAY_SEE
        if demo.live.of(office).values_of(attribute)
    ]
    if demo.live.of("Detective Smith").values_of("numberplate") != {SUSPECT}:
        broken.append("Detective Smith did not see exactly the suspect's car")
    if any(event["location"] != "Victoria" for event in demo.live.close_up.sent):
        broken.append("the camera at Victoria published from another place")
    return Outcome({}, tuple(broken))


def what_the_broker_in_the_middle_saw(demo: Demonstration) -> Outcome:
    """Search all that a broker without rights received and kept."""
    from maia.demo.program import searched
    from maia.demo.screens import show_carriage, show_one_event

    found = searched(demo)
    show_one_event(demo.screen, demo.live, found)
    show_carriage(demo.details, demo.live, found)
    carrier = found.carrier
    record = {**asdict(carrier), "events": carrier.events, "found_elsewhere": len(found.reader.found)}
    # A broker that goes on running has not written everything that it keeps.
    broken = found.carrier.broken_claims() if demo.options.keep else found.broken_claims()
    return Outcome({"carrier": record}, tuple(broken))


def who_tried_for_more(demo: Demonstration) -> Outcome:
    """Show those who asked for more than they were given, over the network and of the kernel."""
    from maia.demo.acts import attempts
    from maia.demo.screens import show_attempts

    tried = [*attempts(demo.story, now=demo.now), *demo.live.refused]
    show_attempts(demo.details, tried)
    succeeded = tuple(one.title for one in tried if not one.was_refused)
    return Outcome({"attempts": [asdict(one) for one in tried]}, succeeded)


def the_same_over_a_million(demo: Demonstration) -> Outcome:
    """Show that Spark and the kernel agree about each office, row by row."""
    if demo.spark is None:
        return Outcome({"spark": [], "spark_result_s": None})
    from maia.demo.screens import show_comparisons

    with _progress(demo) as step:
        done = demo.spark.million(step)
    show_comparisons(demo.details, done.comparisons, rows=demo.options.rows)
    seconds = round(done.finished_at - demo.started_at, 3)
    record = {"spark": [asdict(one) for one in done.comparisons], "spark_result_s": seconds}
    return Outcome(record, tuple(_disagreements(done.comparisons)))


def what_the_offices_made_of_the_log(demo: Demonstration) -> Outcome:
    """Show the bill, the traffic, and that no place reached the bill: all made by Spark from the log."""
    if demo.spark is None:
        return Outcome({"lake": None, "lake_result_s": None})
    from maia.demo.lake import compared_with_live
    from maia.demo.screens import show_lake

    with _progress(demo) as step:
        done = demo.spark.lake(step)
    found = compared_with_live(
        demo.live, done.works, demo.recording, out=demo.lake, plot=demo.options.plot, no_plot=done.no_plot
    )
    show_lake(demo.screen, demo.details, found)
    seconds = round(done.finished_at - demo.started_at, 3)
    return Outcome({"lake": asdict(found), "lake_result_s": seconds}, tuple(found.broken_claims()))


ACTS: Final[tuple[Act, ...]] = (
    the_network_plays,
    the_log_goes_to_spark,
    who_granted_what,
    who_saw_what,
    what_the_broker_in_the_middle_saw,
    who_tried_for_more,
    the_same_over_a_million,
    what_the_offices_made_of_the_log,
)


def _disagreements(compared: list[Comparison]) -> Iterator[str]:
    from maia.demo.screens import NOBODY_MAY_SEE

    for one in compared:
        if not one.same:
            yield f"Spark and the kernel disagree about the {one.office}"
    for office, attribute in NOBODY_MAY_SEE:
        if any(one.office == office and one.values_seen[attribute] for one in compared):
            yield f"the {office} saw a {attribute} in Spark"


@contextmanager
def _progress(demo: Demonstration) -> Iterator[Callable[[str], None]]:
    """Show one step at a time on standard error, where a person is watching."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    watched = sys.stderr.isatty() and not demo.options.quiet
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bars:

        def step(title: str) -> None:
            for done in bars.task_ids:
                bars.remove_task(done)
            bars.add_task(title, total=None)

        yield step


# How does the live part of the demonstration run, and what does a watcher see of it?
#
# Four brokers, a key server and the Met's domain in processes of their own, five
# clients, a broker that dies, a right that is revoked. With `--details`, deliveries
# of the sightings at Victoria are one line each, as they happen.


_TRAFFIC: Final = 2_000
"""How many sightings of the other cameras there are."""
_SHORT: Final = 18
_BEFORE_THEY_START: Final = (
    "concurrent.futures.thread",
    "encodings.idna",
    "maia.broker.server.process",
    "maia.net.telemetry",
)
"""What all brokers need, so that each of them starts at once; a domain loads what it alone needs itself."""
_WHILE_THEY_START: Final = ("maia.client.api.client", "maia.demo.acts")


@contextmanager
def starting_network(*, seed: bytes, now: Instant, folder: Path) -> Iterator[StartingNodes]:
    """Start the first nodes, and end all of them when the body has ended."""
    from maia.demo.numberplate import add_control_room, tell_numberplate_story

    story = add_control_room(tell_numberplate_story(seed, now=now), seed)
    _load(_BEFORE_THEY_START)
    from maia.demo.live_network import recording_settings, starting_nodes
    from maia.demo.met_domain import add_met_domain
    from maia.demo.numberplate import add_carrier

    settings = recording_settings(story, folder)
    story, cast = add_met_domain(story, add_carrier(story, seed), seed)
    with starting_nodes(story, cast, folder, settings=settings) as starting:
        _load(_WHILE_THEY_START)
        yield starting


def _load(modules: tuple[str, ...]) -> None:
    """Load modules without looking for garbage among them, now or in the processes that are forked."""
    gc.disable()
    for name in modules:
        import_module(name)
    gc.freeze()
    gc.enable()


def play_on_the_network(demo: Demonstration) -> None:
    """Start the other nodes and play the live acts."""
    import asyncio  # not for `maia demo --help`

    demo.screen  # noqa: B018 - loaded while the first nodes start
    demo.nodes = demo.starting.ready()
    _show_nodes(demo, demo.nodes)
    asyncio.run(_played(demo))


async def _played(demo: Demonstration) -> None:
    from maia.demo.acts import Stage, play_live
    from maia.demo.live_network import connected
    from maia.demo.met_domain import DETECTIVE
    from maia.demo.numberplate import OFFICES

    at_once = [office for office in OFFICES if office != DETECTIVE]
    watcher = _Watcher(demo)
    async with connected(demo.nodes, watcher.tell, offices=at_once) as network:
        stage = Stage(
            network,
            demo.nodes.brokers,
            demo.nodes.story,
            now=demo.now,
            say=watcher.say,
            say_more=watcher.say_more,
            traffic=_TRAFFIC,
            seed=demo.options.seed,
        )
        demo.live = await play_live(stage)
        assert stage.desk is not None  # noqa: S101 - the detective has logged in
        demo.story, demo.desk = stage.story, stage.desk
    demo.screen.print()


class _Watcher:
    """Tells what happens, with the seconds since the demonstration was started."""

    def __init__(self, demo: Demonstration) -> None:
        from maia.demo.numberplate import close_up

        self._demo = demo
        self._moments = {event["timestamp"] for event in close_up()}
        self._is_first = True

    def tell(self, office: str, kind: str, event: Mapping[str, Value]) -> None:
        """Show a delivery: the first one, and those that are shown one by one."""
        if self._is_first:
            self._is_first = False
            self.say(f"the first event is delivered, to the {office}")
        if kind == "sighting" and event["timestamp"] in self._moments:
            self._line(self._demo.details, f"{office:<{_SHORT}} {_shown(event)}")

    def say(self, sentence: str) -> None:
        """Tell what happened to the network."""
        self._line(self._demo.screen, sentence)

    def say_more(self, sentence: str) -> None:
        """Tell what only those read who want the details."""
        self._line(self._demo.details, sentence)

    def _line(self, screen: Console, text: str) -> None:
        screen.print(f"  {time.time() - self._demo.started_at:6.2f} s  {text}")


# ------------------------------------------------------------ times and lines


def process_started_at() -> float:
    """Return when this process began, interpreter and imports included; now, where that is unknown."""
    try:
        after_boot = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        import os

        return time.time() - (up - after_boot / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time()


_DRAWING: Final = """\
  camera ──────────┐                                 ┌─ PITO broker ─ statistics
                   ├─ CCS broker ── Highways broker ─┤  {PITO broker}
  billing office ──┘  {CCS broker}        {Highways broker}           └─ Met broker ── Det. Smith
                                    without rights      {Met broker}
  PITO keys {PITO keys} gives keys to those who may read; Met domain can revoke
"""


def _show_nodes(demo: Demonstration, nodes: LiveNodes) -> None:
    """Draw the processes, each with the port at which it says that it answers."""
    running = (nodes.key_server, *nodes.brokers.values())
    ports = {one.name: f":{one.address.rpartition(':')[2]:<5}" for one in running}
    demo.screen.print(_DRAWING.format_map(ports))
    for one in running:
        demo.details.print(f"  {one.name:<16} {one.address:<16} process {one.process.pid}")
    if nodes.domain is not None:
        demo.details.print(f"  {nodes.domain.name:<16} {'starting':<16} process {nodes.domain.process.pid}")
    demo.screen.print("What happens, by seconds since the start; · is what a reader may not see:")


def _shown(event: Mapping[str, Value]) -> str:
    cells = (event.get(name) for name in ("numberplate", "location"))
    return "  ".join(f"{'·' if value is None else value!s:<10}" for value in cells)
