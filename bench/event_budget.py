"""Where do the microseconds of one event go inside a broker, stage by stage?

    make profile                 measure, keep the answer, and rewrite docs/performance.md
    make profile ARGS=--quick    a smoke test: nothing is kept

`maia broker` runs as a process of its own, with a clock that interrupts it every
millisecond of CPU time and notes what it is doing. A publisher and a subscriber keep it busy
over mutual TLS: with one event at a time, with many single events, and with frames of 256. The time
inside a call to the
kernel or to OpenSSL is shown apart: whatever language a broker is written in, it pays that.
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from time import monotonic, process_time, sleep
from types import CodeType, FrameType

from rich.console import Console
from rich.table import Table

from harness import busy_cores, load_average
from harness_report import BUDGET_FILE, budget_rows, keep_record, this_machine
from live_network import WINDOW_EVENTS, BrokerProcess, broker_process, maia_line, new_world
from performance_page import write_page

SAMPLE_S = 0.001
WHERE = "MAIA_BENCH_SAMPLES"
READ = (
    "_decod",
    "decod",
    "columns_to_frame",
    "_read",
    "layout",
    "single_event",
    "events_to_frame",
    "_may_hold",
    "_as_instants",
    "<listcomp>",
    "_refuse",
    "from_carried",
    "check_kinds",
)
STAGES = (
    ("system calls", "net/tls_stream.py", ("_receive", "_send", "_send_backlog")),
    ("TLS", "net/tls_stream.py", ()),
    ("event loop", "asyncio/", ()),
    ("event loop", "selectors.py", ()),
    ("event loop", "net/event_loop.py", ()),
    ("framing", "wire/framing.py", ()),
    ("framing", "net/links.py", ()),
    ("decoding", "wire/codec.py", READ),
    ("decoding", "wire/columns.py", READ),
    ("decoding", "links/transit.py", READ),
    ("encoding", "wire/codec.py", ()),
    ("encoding", "wire/columns.py", ()),
    ("encoding", "links/transit.py", ()),
    ("authorisation", "broker/rights/", ()),
    ("authorisation", "links/authors.py", ()),
    ("authorisation", "rights/publisher_view.py", ()),
    ("authorisation", "interests/expected_sources.py", ()),
    ("duplicates and retained frames", "routing/duplicates.py", ()),
    ("duplicates and retained frames", "log/retained", ()),
    ("duplicates and retained frames", "broker/interests/routes.py", ()),
    ("matching", "maia/routing/", ()),
    ("matching", "broker/interests/", ()),
    ("matching", "maia/predicates/", ()),
    ("matching", "audiences/local_subscribers.py", ("_matched",)),
    ("View and delivery", "broker/audiences/", ()),
    ("View and delivery", "maia/views/", ()),
    ("View and delivery", "streams/records.py", ()),
    ("the path, turns and effects", "maia/", ()),
)
"""A stage is that of the innermost function which one of these names: part of its file's name, its name."""
KERNEL = (
    "recv_into(",
    "_socket.send(",
    ".tls.",
    "tls.read(",
    "incoming.write(",
    "_outgoing.read(",
    ".poll(",
)
"""What a line calls that is the kernel's, or OpenSSL's, work."""


# ------------------------------------------------------------ inside the broker


def _sampled_broker(arguments: list[str]) -> None:
    """Run `maia broker`, noting what it does; SIGUSR1 has the notes written."""
    stages: dict[CodeType, str | None] = {}
    noted: Counter[str] = Counter()
    folder = Path(os.environ[WHERE])

    def note(_signal: int, frame: FrameType | None) -> None:
        found = None
        while frame is not None and found is None:
            code = frame.f_code
            if code not in stages:
                stages[code] = _stage_of(code)
            found, here, frame = stages[code], frame, frame.f_back
        if found is not None:
            noted[f"{found}/{_whose(here.f_code.co_filename, here.f_lineno or 0)}"] += 1

    def write(_signal: int, _frame: FrameType | None) -> None:
        made = folder / "new"
        made.write_text(json.dumps({"cpu_s": process_time(), "noted": noted}), encoding="utf-8")
        made.rename(folder / "samples")

    from maia.cli import main

    signal.signal(signal.SIGUSR1, write)
    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    sys.exit(main(arguments))


@cache
def _whose(file: str, line: int) -> str:
    return "kernel" if any(one in linecache.getline(file, line) for one in KERNEL) else "own"


def _stage_of(code: CodeType) -> str | None:
    for stage, file, functions in STAGES:
        if file in code.co_filename and (not functions or code.co_name.startswith(functions)):
            return stage
    return None


# ------------------------------------------------------------ outside


def _samples(broker: BrokerProcess, folder: Path) -> tuple[float, Counter[str]]:
    found, patience = folder / "samples", monotonic() + 60
    found.unlink(missing_ok=True)
    os.kill(broker.pid, signal.SIGUSR1)
    while not found.exists():
        assert monotonic() < patience, "the broker wrote no samples within a minute"
        sleep(0.01)
    read = json.loads(found.read_text(encoding="utf-8"))
    return read["cpu_s"], Counter(read["noted"])


def budget(rows: int, total: int, window: int = WINDOW_EVENTS) -> dict[str, tuple[float, float]]:
    """Return the microseconds of one event by stage, and how many of them are the kernel's or OpenSSL's.

    At most `window` events are under way at one time.
    """
    world = new_world()
    with tempfile.TemporaryDirectory(prefix="maia-bench-") as name:
        os.environ[WHERE] = name
        runs = [str(Path(__file__).resolve()), "--inside"]
        with broker_process(world, runs=runs) as broker, maia_line(world, broker, rows=rows) as line:
            line.carry(total // 4, window)  # so that everything is warm
            cpu_before, noted_before = _samples(broker, Path(name))
            line.carry(total, window)
            cpu_after, noted_after = _samples(broker, Path(name))
    noted = noted_after - noted_before
    each_us = (cpu_after - cpu_before) * 1e6 / total / max(noted.total(), 1)
    stages = dict.fromkeys(stage for stage, _, _ in STAGES)
    return {
        stage: (
            (noted[f"{stage}/own"] + noted[f"{stage}/kernel"]) * each_us,
            noted[f"{stage}/kernel"] * each_us,
        )
        for stage in stages
    }


def _print(budgets: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    table = Table(title="where the microseconds of one event go, in one broker", title_justify="left")
    for at, heading in enumerate(
        ("stage", *(f"{one}{of}" for one in budgets for of in (", µs", ", of them kernel and OpenSSL")))
    ):
        table.add_column(heading, justify="right" if at else "left")
    for row in budget_rows(budgets):
        table.add_row(*row)
    Console().print(table)


def main() -> None:
    """Measure, print, and keep what was found."""
    if sys.argv[1:2] == ["--inside"]:
        _sampled_broker(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="smoke test: few events, nothing is kept")
    quick = parser.parse_args().quick
    load_before, busy = load_average(), busy_cores()
    budgets = {
        "one at a time": budget(1, 500 if quick else 50_000, window=1),
        "single events": budget(1, 2_000 if quick else 200_000),
        "in frames of 256": budget(256, 51_200 if quick else 5_120_000),
    }
    _print(budgets)
    if not quick:
        machine = this_machine(load_before=load_before, load_after=load_average(), busy=busy)
        keep_record(BUDGET_FILE, {"budgets": budgets, "machine": asdict(machine)})
        write_page()


if __name__ == "__main__":
    main()
