"""What does ten times as much cost? Six subjects, measured at several sizes, and the exponent of each.

    make growth                              all subjects; keeps the answer and rewrites docs/performance.md
    make growth NAMES="wallets key-groups"   some of them, the others stay as they were
    make growth ARGS=--quick                 a smoke test of seconds: small sizes, nothing is kept

In-process work is counted in processor time, so that other work on the machine
hardly shows; what Spark does is the median of several runs by the clock. What
was not measured is extrapolated along a straight line (cost = fixed + slope times
size) through what was, and is called so. This is no comparison with a peer, so it
is not one of the numbered benchmarks.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import cycle, pairwise
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from harness import busy_cores, load_average
from harness_report import GROWTH_FILE, RESULTS, duration, keep_record, number, this_machine
from performance_page import write_page
from plots import Line, draw_growth

Points = Sequence[tuple[int, float]]
"""Sizes, and what each cost."""


def exponent(points: Points) -> float:
    """Return the slope of the straight line through the logarithms, by least squares: 1 is proportional.

    What was too cheap to be counted is left out; where less than two points are left, nothing grows.
    """
    counted = [(log(size), log(cost)) for size, cost in points if cost > 0]
    return statistics.linear_regression(*zip(*counted, strict=True)).slope if len(counted) > 1 else 0.0


def extrapolated(points: Points, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Return what other sizes would cost on the straight line through these points."""
    slope, fixed = statistics.linear_regression(*zip(*points, strict=True))
    return [(size, fixed + slope * size) for size in sizes]


@dataclass(frozen=True, slots=True)
class Curve:
    """One cost at several sizes; `reason` says why it may grow more than the size does."""

    name: str
    unit: str
    points: Points
    reason: str = ""
    beyond: Sequence[tuple[int, float]] = ()

    def as_record(self) -> dict[str, object]:
        """Return what is kept of it."""
        points = [(size, float(f"{cost:.4g}")) for size, cost in self.points]
        return {
            "name": self.name,
            "unit": self.unit,
            "points": points,
            "exponent": round(exponent(points), 3),
            "at_the_end": round(exponent(points[-2:]), 3),
            "extrapolated": [(size, float(f"{cost:.3g}")) for size, cost in self.beyond],
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """Something there may be more of."""

    name: str
    title: str
    along: str
    about: str
    measure: Callable[[bool], Iterator[Curve]]
    """Called with True for a smoke run."""


def cpu_s(run: Callable[[], object], *, at_least_s: float = 0.02) -> float:
    """Return the processor time of one call, over as many calls as a measurement needs."""
    run()
    gc.collect()
    calls = 0
    started = process_time()
    while (taken := process_time() - started) < at_least_s or not calls:
        run()
        calls += 1
    return taken / calls


# ---------------------------------------------------------------- subscriptions


def subscriptions(quick: bool) -> Iterator[Curve]:
    """Match a frame, take subscriptions in, and let one come and go among others."""
    from b09_matching import UIDS, frame_of_points, points, ranges
    from b10_matching_by_type import _resident
    from b11_cover_table import by_table
    from b11_cover_table import subscriptions as covering
    from maia.predicates import AllOf, Comparison, Operator
    from maia.routing.matching.index import MatchIndex

    rng, compared = random.Random(18), cache(Comparison)  # comparisons are shared, as interned ones are
    frame = frame_of_points(points(256, 5))
    matching, adding, memory = [], [], []
    for size in (100, 1_000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        index: MatchIndex[int] = MatchIndex()
        before, spent = _resident(), 0.0
        for start in range(0, size, 10_000):
            some = [
                AllOf(
                    tuple(
                        compared(uid, operator, end)
                        for uid, ends in zip(UIDS, ranges(rng), strict=True)
                        for operator, end in zip((Operator.GE, Operator.LE), ends, strict=True)
                    )
                )
                for _ in range(start, min(start + 10_000, size))
            ]
            began = process_time()
            for at, one in enumerate(some, start):
                index.add(at, one)
            spent += process_time() - began
        began = process_time()
        index.match({})  # which builds the bitmaps
        adding.append((size, (spent + process_time() - began) / size * 1e6))
        memory.append((size, (_resident() - before) / 1e6))
        matching.append((size, cpu_s(lambda index=index: index.match_frame(frame)) / 256 * 1e6))
    yield Curve("an event finds its subscriptions, all of one type, in frames of 256", "µs", matching)
    yield Curve("taking in one of so many at once", "µs", adding)
    weighed = [point for point in memory if point[1] > 1]  # a thousand fit into what the process had free
    if len(weighed) > 1:
        yield Curve("memory of the index", "MB", weighed)
    coming = []
    for size in (100, 300) if quick else (1_000, 3_000, 10_000):
        table = covering(size)
        newcomers = cycle(table.newcomers(200))
        coming.append((size, cpu_s(lambda t=table, n=newcomers: by_table(t, next(n)), at_least_s=0.3) * 1e6))
    yield Curve("a subscription comes and goes in the routing table", "µs", coming)


# ---------------------------------------------------------------- wallets


def wallets(quick: bool) -> Iterator[Curve]:
    """Choose what to show from a wallet, and decide over all of it."""
    from b33_closure import NOW, _certificates, _key, _levels, _type
    from maia.client.wallet import Wallet
    from maia.credentials import Action, VerificationCache
    from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence

    sizes = (10, 30) if quick else (10, 30, 100, 300, 1_000)
    owner, holders = _key(0), [_key(number) for number in range(1, 101)]
    levels, chance = _levels(holders), random.Random(18)
    office = holders[-1]
    many = [_type(owner, at) for at in range(-(-max(sizes) // 4))]
    chains = [one for event_type in many for one in _chain(owner, levels, office, event_type, chance)]
    request = Request(office.principal, Action.SUBSCRIBE, many[0].name, many[0])
    first, again = [], []
    for size in sizes:
        held = chains[:size]

        def choose(held: list[Any] = held) -> object:
            return Wallet(held).needed_for(request, NOW)

        wallet = Wallet(held)
        first.append((size, cpu_s(choose) * 1e6))
        again.append((size, cpu_s(lambda wallet=wallet: wallet.needed_for(request, NOW)) * 1e6))
    yield Curve("a client chooses what to show, certificates of many types, first time", "µs", first)
    yield Curve("the same again, as renewals do", "µs", again)
    for title, holders_of, reason in (
        ("a decision over certificates of one type, two for each of its holders", lambda size: size // 2, ""),
        (
            "the same where a hundred holders get ever more of them",
            lambda size: min(size // 2, len(holders)),
            "the more certificates each holder has, the more ways grant something of their own, "
            "until most of them are needless; five requesters on average",
        ),
    ):
        deciding = []
        for size in sizes if quick else (*sizes, 3_000):
            crowd = [_key(number) for number in range(1, holders_of(size) + 1)]
            pool = list(_certificates(owner, _levels(crowd), many[0], size, random.Random(18)))
            known = VerificationCache(certificates_max=1 << 16, bytes_max=1 << 28)
            asked = [Request(one.principal, Action.SUBSCRIBE, many[0].name, many[0]) for one in crowd[-5:]]

            def ask(
                asked: list[Request] = asked, pool: list[Any] = pool, known: VerificationCache = known
            ) -> int:
                found = [gather_evidence(one, pool, at=NOW, cache=known) for one in asked]
                permits = [decide(*pair, NO_FACTS, NOW) for pair in zip(asked, found, strict=True)]
                return sum(isinstance(one, Permit) for one in permits)

            assert ask()
            deciding.append((size, cpu_s(ask) / len(asked) * 1e6))
        yield Curve(f"{title}, signatures known", "µs", deciding, reason)


# Any: keys and certificates are imported where they are used.
def _chain(
    owner: Any, levels: Sequence[Sequence[Any]], holder: Any, event_type: Any, chance: random.Random
) -> list[Any]:
    """Return four certificates from the owner of a type over three levels to one holder."""
    from b33_closure import _certificate

    path = [owner, *(chance.choice(level) for level in levels[:3]), holder]
    return [_certificate(upper, lower, event_type, chance) for upper, lower in pairwise(path)]


# ---------------------------------------------------------------- key groups


def key_groups(quick: bool) -> Iterator[Curve]:
    """Take members out and in: of groups of many sizes, and of many groups."""
    from b17_rekey import Scheme, changing, founded, people, sizes_of

    taken, sent = [], []
    for size in (16, 64) if quick else (16, 64, 256, 1_024, 4_096, 16_384, 65_536):
        members = people(size)
        tree = founded(Scheme.LKH, members)
        taken.append((size, cpu_s(changing(tree, members)) / 2 * 1e6))
        sent.append((size, sizes_of(tree, members)[0]))
    yield Curve("the manager takes a member out or in, by members of the group", "µs", taken)
    yield Curve("what it sends to all of them for one that leaves", "bytes", sent)
    members, leaving = people(64), []
    for groups in (1, 4) if quick else (1, 10, 100, 1_000):
        changes = [changing(founded(Scheme.LKH, members), members) for _ in range(groups)]
        leaving.append((groups, cpu_s(lambda changes=changes: [one() for one in changes]) / 2 * 1e6))
    yield Curve("the same in so many groups of 64, one for each attribute", "µs", leaving)


# ---------------------------------------------------------------- brokers


def brokers(quick: bool) -> Iterator[Curve]:
    """Count hops and neighbours in large networks, and let brokers idle in the simulator."""
    import numpy as np

    from hop_counting import OurNetwork, hops, kept_sizes, random_ids, routes

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.city import City

    walked, kept = [], []
    for size in (10, 30) if quick else (10, 30, 100, 300, 1_000):
        chance = np.random.default_rng((18, size))
        network = OurNetwork(random_ids(size, chance), chance)
        starts = chance.integers(0, size, size=5_000)
        paths = routes(network, starts, chance.integers(0, 2**64, size=5_000, dtype=np.uint64))
        walked.append((size, float(hops(paths).mean())))
        kept.append((size, float(kept_sizes(network.kept).mean())))
    yield Curve("hops to the rendezvous node", "on average", walked)
    yield Curve("other brokers that one broker knows", "on average", kept)
    linked, starting, idling = [], [], []
    for size in (4, 8) if quick else (10, 20, 40, 80):
        began = process_time()
        city = City(1, brokers=size, lease_s=60)
        city.network.run_for(30 if quick else 300)
        starting.append((size, (process_time() - began) / size * 1e6))
        status = [city.network.node(one).status(city.network.now) for one in city.brokers]
        linked.append((size, statistics.mean(len(one["links"]) for one in status)))
        seconds = 10 if quick else 120
        began = process_time()
        city.network.run_for(seconds)
        idling.append((size, (process_time() - began) / seconds / size * 1e6))
    yield Curve("links of one broker", "on average", linked)
    yield Curve("a broker's first five minutes, all start at once", "µs", starting)
    yield Curve("an idle broker, a second", "µs", idling)


# ---------------------------------------------------------------- rows


def log_rows(quick: bool) -> Iterator[Curve]:
    """Read governed tables of growing logs, and run a user's applications over growing files."""
    from bench_spark import bench_session
    from governed_log import record
    from maia.spark.applications import APPLICATIONS
    from maia.spark.applications.runs import parquet_source, run
    from maia.spark.generators import SIGHTINGS, Order
    from maia.spark.generators.files import write_generated
    from maia.spark.governed.table import governed
    from maia.spark.keys.key_server import job_desk
    from maia.types import SealingLevel

    sizes = (1_000, 3_000) if quick else (100_000, 300_000, 1_000_000)
    beyond = (10_000_000, 100_000_000)
    with (
        tempfile.TemporaryDirectory(prefix="maia-growth-") as name,
        bench_session("growth", quick=quick, memory_mib=2048) as spark,
        job_desk() as desk,
    ):
        folder = Path(name)

        def measured(runs: dict[int, Callable[[], object]]) -> Points:
            """Return the median of each size, after one run that nobody counts, measured in turns."""
            next(iter(runs.values()))()
            taken: dict[int, list[float]] = {size: [] for size in runs}
            for _ in range(1 if quick else 3):
                for size, run_one in runs.items():
                    began = perf_counter()
                    run_one()
                    taken[size].append(perf_counter() - began)
            return [(size, statistics.median(seconds)) for size, seconds in taken.items()]

        for what, level in (("in clear", None), ("ten sealed attributes", SealingLevel.ATTRIBUTE)):
            tables = {}
            for size in sizes if level is None else [one // 3 for one in sizes]:
                log = record(folder / f"{what} {size}", rows=size, frame_rows=1_024, level=level)
                tables[size] = governed(spark, **log.known(desk))
            points = measured(
                {
                    size: lambda table=table: table.write.format("noop").mode("overwrite").save()
                    for size, table in tables.items()
                }
            )
            yield Curve(
                f"a governed table is read whole, {what}", "s", points, beyond=extrapolated(points, beyond)
            )
        for size in sizes:
            write_generated(folder / f"sightings {size}", SIGHTINGS, Order(size, 2003))
        for title in ("billing", "statistics"):
            application, turn = APPLICATIONS[title], iter(range(1_000))

            def once(size: int, application: Any = application, turn: Iterator[int] = turn) -> object:
                result = folder / f"{application.name} {next(turn)}"
                source = parquet_source(spark, folder / f"sightings {size}")
                return run(spark, application, application.terms, source, result=result)

            points = measured({size: lambda size=size, once=once: once(size) for size in sizes})
            yield Curve(
                f"the application `{title}` over so many events",
                "s",
                points,
                beyond=extrapolated(points, beyond),
            )


# ---------------------------------------------------------------- sealed events


def sealed_log(quick: bool) -> Iterator[Curve]:
    """Seal and record many events, and read them: how long, in how much memory, from how many bytes."""
    from bench_spark import bench_session
    from governed_log import NOON, log_of, record_many
    from maia.events import SECOND, Instant
    from maia.spark.governed.plan import TableQuery
    from maia.spark.governed.table import governed
    from maia.spark.keys.key_server import job_desk
    from maia.types import SealingLevel

    sizes = (16_384, 65_536) if quick else (1_000_448, 3_000_320, 10_000_384)
    rows_of_frame, beyond = 1_024, (100_000_000,)
    three = ("numberplate", "speed", "lane")
    found: dict[str, list[tuple[int, float]]] = {}

    def note(what: str, size: int, cost: float) -> None:
        found.setdefault(what, []).append((size, cost))
        print(f"  {size:,} rows, {what}: {number(cost)}", file=sys.stderr, flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="maia-growth-") as name,
        bench_session("growth", quick=quick, memory_mib=2048) as spark,
        job_desk() as desk,
    ):
        for size in sizes:
            folder = Path(name) / str(size)
            taken = _apart(record_many, folder, size, rows_of_frame)
            note("events are sealed, signed and recorded, processor s", size, taken)
            log = log_of(folder, SealingLevel.ATTRIBUTE)
            stored = sum(one.stat().st_size for one in folder.rglob("*.parquet"))
            note("in the log, bytes an event", size, stored / size)
            tenth = Instant(NOON + (size // rows_of_frame // 10 - 1) * SECOND)
            known = log.known(desk)
            for what, query in (
                ("all ten attributes", TableQuery()),
                ("three attributes", TableQuery(columns=three)),
                ("three attributes of a tenth of the time", TableQuery(columns=three, until=tenth)),
            ):
                table = governed(spark, **known, query=query)
                if size == sizes[0]:
                    _drained(table)  # what starts late is not counted
                with _Watched() as seen:
                    _drained(table)
                note(f"Spark reads {what}, processor s", size, seen.cpu_s)
                note(f"Spark reads {what}, bytes read an event in the log", size, seen.bytes_read / size)
                if query.columns is None:
                    for process, mib in seen.peaks().items():
                        note(f"Spark reads {what}: {process}, MiB", size, mib)
            taken = _apart(_read_alone, folder, size, three)
            note("Arrow alone reads three attributes, processor s", size, taken)
            shutil.rmtree(folder)
    for what, points in found.items():
        title, _, unit = what.rpartition(", ")
        # The others hardly change, which no straight line says better than their points.
        grows = unit == "processor s" and "tenth" not in title
        yield Curve(title, unit, points, beyond=extrapolated(points, beyond) if grows else ())


def _drained(table: Any) -> None:
    table.write.format("noop").mode("overwrite").save()


def _read_alone(folder: Path, size: int, columns: tuple[str, ...]) -> None:
    from governed_log import log_of
    from maia.spark.governed.arrow_table import ArrowTable
    from maia.spark.governed.plan import TableQuery, governed_read
    from maia.spark.keys.key_server import job_desk
    from maia.types import SealingLevel

    with job_desk() as desk:
        known = log_of(folder, SealingLevel.ATTRIBUTE).known(desk)
        table = ArrowTable(governed_read(known["access"], TableQuery(columns=columns)), log=known["log"])
        assert sum(batch.num_rows for batch in table.batches()) == size


def _apart(work: Callable[..., object], *given: object) -> float:
    """Return the processor time of work in a process of its own: this one's memory is that of a driver."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_cpu_of, work, *given).result()


def _cpu_of(work: Callable[..., object], *given: object) -> float:
    began = process_time()
    work(*given)
    return process_time() - began


class _Watched:
    """The processes of a Spark session on this machine: their work, what they read, and their peaks."""

    def __enter__(self) -> _Watched:
        for pid in self._all():
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        self._before, self._cpu_before = self._read(), self._ticks()
        return self

    def __exit__(self, *_: object) -> None:
        after = self._read()
        self.bytes_read = sum(count - self._before.get(pid, 0) for pid, count in after.items())
        self.cpu_s = (self._ticks() - self._cpu_before) / os.sysconf("SC_CLK_TCK")
        self._processes = self._all()

    def peaks(self) -> dict[str, float]:
        """Return the peaks of the program, of the JVM, and of the largest worker."""
        sizes: dict[str, float] = {}
        for pid, kind in self._processes.items():
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
                mib = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
                sizes[kind] = max(sizes.get(kind, 0), mib)
        return sizes

    def _read(self) -> dict[int, int]:
        """Return the bytes that each worker has read: the JVM reads no log."""
        counts = {}
        for pid, kind in self._all().items():
            with suppress(OSError):
                if kind == _WORKER:
                    counts[pid] = int(Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()[1])
        return counts

    def _ticks(self) -> int:
        """Return the processor time of all of them, and of those that they have waited for."""
        ticks = 0
        for pid in self._all():
            with suppress(OSError):
                text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
                ticks += sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))
        return ticks

    def _all(self) -> dict[int, str]:
        parents, names = {}, {}
        for one in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                text = (one / "stat").read_text(encoding="utf-8", errors="replace")
                names[int(one.name)] = text[text.index("(") + 1 : text.rindex(")")]
                parents[int(one.name)] = int(text[text.rindex(")") + 2 :].split()[1])
        found = {os.getpid(): "memory of the driver's program"}
        for pid in sorted(parents):
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above]
            if above == os.getpid() and pid != above:
                found[pid] = _JVM if names[pid] == "java" else _WORKER
        return found


_JVM = "memory of the JVM, driver and executor"
_WORKER = "memory of the largest worker"


# ---------------------------------------------------------------- all of it

SUBJECTS = (
    Subject(
        "subscriptions",
        "Subscriptions",
        "subscriptions",
        "Filters over five attributes that all differ. The routing table is filled one by "
        "one, so it is measured to 10,000 only.",
        subscriptions,
    ),
    Subject(
        "wallets",
        "Wallets",
        "certificates",
        "Delegated in four levels, as in #33.",
        wallets,
    ),
    Subject(
        "key-groups",
        "Key groups",
        "members, or groups",
        "The tree that a key group's manager keeps, as in #17.",
        key_groups,
    ),
    Subject(
        "brokers",
        "Brokers",
        "brokers",
        "Hops and neighbours are counted in networks of a thousand, with the rule by which brokers choose "
        "them; links and times are those of real brokers in the simulator, each broker's own. Up to some "
        "fifty brokers each is linked to all others, so those grow most at first.",
        brokers,
    ),
    Subject(
        "log-rows",
        "Log rows",
        "rows",
        "Governed tables of a recorded log, and the applications of `maia pipeline run`, in Spark on this "
        "machine.",
        log_rows,
    ),
    Subject(
        "sealed-log",
        "Sealed events",
        "events",
        "Frames of 1,024 events with ten sealed attributes, signed, in segments of about 150 MB, read by "
        "Spark's two workers and by Arrow in one process. Bytes are those that the workers asked the "
        "disk's files for: fewer attributes are fewer columns, and a tenth of the time is a tenth of the "
        "row groups. Spark's processor time is that of driver, JVM and workers together, about twice the "
        "time that it takes on two free cores.",
        sealed_log,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the subjects that the command line names, or all; print a line for each curve."""
    parser = argparse.ArgumentParser(prog="growth", description=__doc__.partition("\n")[0] if __doc__ else "")
    known = [subject.name for subject in SUBJECTS]
    parser.add_argument("names", nargs="*", metavar="SUBJECT", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smoke test: small sizes, nothing is kept")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(known):
        parser.error(f"no subject is called `{min(unknown)}`; there are: {', '.join(known)}")
    path = RESULTS / GROWTH_FILE
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"subjects": []}
    kept = {one["name"]: one for one in kept["subjects"]}
    wanted = [subject for subject in SUBJECTS if not asked.names or subject.name in asked.names]
    if not asked.quick:
        took = [kept[one.name]["took_s"] for one in wanted if one.name in kept]
        about = f"about {duration(sum(took))}" if len(took) == len(wanted) else "some minutes"
        print(f"{len(wanted)} subjects: {about}", file=sys.stderr, flush=True)
    for subject in wanted:
        found = _measured(subject, quick=asked.quick, as_json=asked.json)
        if not asked.quick:
            kept[subject.name] = found
            keep_record(GROWTH_FILE, {"subjects": [kept[name] for name in known if name in kept]})
            _draw(found)
            write_page()
    return 0


def _measured(subject: Subject, *, quick: bool, as_json: bool) -> dict[str, Any]:
    print(f"{subject.name} …", file=sys.stderr, flush=True)
    load_before, busy = load_average(), busy_cores()
    began, curves = perf_counter(), []
    for curve in subject.measure(quick):
        record = curve.as_record()
        curves.append(record)
        if as_json:
            print(json.dumps({"subject": subject.name, **record}, ensure_ascii=False), flush=True)
        else:
            points = ", ".join(f"{size:,}: {number(cost)}" for size, cost in curve.points)
            ends = f"{record['exponent']} ({record['at_the_end']} at the end)"
            print(f"{subject.name}: {curve.name}, {curve.unit}: {points}; exponent {ends}", flush=True)
    about = {name: value for name, value in asdict(subject).items() if name != "measure"}
    machine = this_machine(load_before=load_before, load_after=load_average(), busy=busy)
    took_s = round(perf_counter() - began, 1)
    return {**about, "curves": curves, "took_s": took_s, "machine": asdict(machine)}


def _draw(subject: dict[str, Any]) -> None:
    by_unit: dict[str, list[Line]] = {}
    for curve in subject["curves"]:
        points = curve["points"]
        middle = statistics.fmean(log(cost) - curve["exponent"] * log(size) for size, cost in points)
        fit = [(size, exp(middle + curve["exponent"] * log(size))) for size, _ in points]
        label = f"{curve['name']}: exponent {curve['exponent']:.2f}"
        by_unit.setdefault(curve["unit"], []).append(Line(label, points, fit, curve["extrapolated"]))
    draw_growth(f"growth-{subject['name']}", subject["title"], subject["along"], by_unit)


if __name__ == "__main__":
    sys.exit(main())
