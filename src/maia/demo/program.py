"""Of which acts does the demonstration consist?

Each act does something or checks what was done, shows it, and returns an
outcome: fields for programs, and the claims that do not hold. What happens on
the live network has acts of its own (`maia.demo.acts`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from maia.demo.screens.shared import Demonstration, Outcome

if TYPE_CHECKING:
    from maia.demo.million import Comparison


Act = Callable[[Demonstration], Outcome]


def the_network_plays(demo: Demonstration) -> Outcome:
    """Run brokers, domain and clients, kill a broker, revoke a right; compare deliveries with the kernel."""
    from maia.demo.screens.live import play_on_the_network

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
    from maia.demo.live_processes import rolled

    if demo.options.keep:
        return Outcome()
    demo.nodes.stop_brokers()
    demo.recording = rolled(demo.nodes)
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
    from maia.demo.screens.tables import show_story

    show_story(demo.details, demo.story)
    return Outcome()


def who_saw_what(demo: Demonstration) -> Outcome:
    """Show some deliveries one by one, and check all of them for what an office must not see."""
    from maia.demo.numberplate import SUSPECT
    from maia.demo.screens.tables import NOBODY_MAY_SEE, show_performance

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
    from maia.demo.screens.shared import searched
    from maia.demo.screens.tables import show_carriage, show_one_event

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
    from maia.demo.screens.tables import show_attempts

    tried = [*attempts(demo.story, now=demo.now), *demo.live.refused]
    show_attempts(demo.details, tried)
    succeeded = tuple(one.title for one in tried if not one.was_refused)
    return Outcome({"attempts": [asdict(one) for one in tried]}, succeeded)


def the_same_over_a_million(demo: Demonstration) -> Outcome:
    """Show that Spark and the kernel agree about each office, row by row."""
    if demo.spark is None:
        return Outcome({"spark": [], "spark_result_s": None})
    from maia.demo.screens.tables import show_comparisons

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
    from maia.demo.screens.tables import show_lake

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
    from maia.demo.screens.tables import NOBODY_MAY_SEE

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
