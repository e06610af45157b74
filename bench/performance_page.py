"""What does a newcomer read about speed, and in which order?

`docs/performance.md` is written from the files in `results/` alone: ten
numbers and two pictures, where the microseconds go, which benchmark is at its
targets, how cost grows, and then every benchmark. No figure is written here;
one whose file is not there is "not measured".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from ages import COMMITS_MAX, file_of, say_what_is_old
from harness_report import (
    BUDGET_FILE,
    GROWTH_FILE,
    LOAD_FILE,
    RESULTS,
    Budgets,
    budget_rows,
    measured_at,
    number,
)
from plots import Bar, draw_bars

PAGE = RESULTS.parent.parent / "docs" / "performance.md"
NOT_MEASURED = "not measured"
FRAMES, SINGLY = "in frames of 256", "single events"
SUPERLINEAR = 1.1
"""An exponent above this is more than proportional; what is below may be noise."""

# Any: a row is what JSON holds.
Row = Mapping[str, Any]


class Kept:
    """The kept results of one folder; what is not there raises LookupError."""

    def __init__(self, folder: Path = RESULTS) -> None:
        """Read every benchmark's last result."""
        self._folder = folder
        self.records: list[dict[str, Any]] = [
            json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9][0-9]-*.json"))
        ]

    def other(self, name: str) -> dict[str, Any] | None:
        """Return what another command has kept, if it was run."""
        path = self._folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def machine(self, source: str) -> dict[str, Any] | None:
        """Return where and at which commit what a headline names was measured."""
        path = file_of(source, self._folder)
        record = None if path is None else self.other(path.name)
        return None if record is None else record["machine"]

    def row(self, bench: int, *parts: str) -> Row:
        """Return the first measured case of a benchmark that has all these parts in its name."""
        rows = (row for record in self.records if record["bench"] == bench for row in record["rows"])
        found: list[Row] = [
            row for row in rows if "ratio" in row and all(part in row["case"] for part in parts)
        ]
        if not found:
            raise LookupError(f"no case of #{bench} with {parts}")
        return found[0]

    def case(self, bench: int, case: str) -> Row | None:
        """Return a case of a benchmark by its whole name; None if it was not measured."""
        rows = (row for record in self.records if record["bench"] == bench for row in record["rows"])
        return next((row for row in rows if "ratio" in row and row["case"] == case), None)

    def us(self, side: str, bench: int, *parts: str) -> float:
        """Return the microseconds of one side of a case."""
        return float(self.row(bench, *parts)[f"{side}_us"])

    def ratio(self, bench: int, *parts: str) -> float:
        """Return the ratio of a case."""
        return float(self.row(bench, *parts)["ratio"])

    @cached_property
    def _budgets(self) -> Budgets:
        record = self.other(BUDGET_FILE)
        return {} if record is None else record["budgets"]

    def core_us(self, way: str) -> float:
        """Return the CPU time of one event in one broker, published in this way."""
        return sum(stage[0] for stage in self._budgets[way].values())


# ---------------------------------------------------------------- ten numbers


@dataclass(frozen=True, slots=True)
class Headline:
    """A question that users ask, our number, and the same of somebody else."""

    question: str
    ours: Callable[[Kept], str]
    beside: Callable[[Kept], str]
    source: str
    """The results that it is read from, as `ages.MEASURED` names them."""

    @property
    def sources(self) -> list[str]:
        """Return each of the results that it is read from."""
        return self.source.split(", ")


def _rate(us: float) -> str:
    return f"{float(f'{1e6 / us:.3g}'):,.0f}"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


SEALED = "10 attributes, {}, attribute level"
SEALED_FRAMES, SEALED_SINGLY = SEALED.format("frames of 256"), SEALED.format("single events")
SIGNED_FRAMES = "frames of 256, eight with one read"
SIGNED_SINGLY, SIGNED_ALONE = "single events, 64 with one read", "single events, each alone"
JOB = "sealed by attribute, against nats-server and nats-py that encrypt"
HEADLINES = (
    Headline(
        "events a second of a type of the default protection, `signed`, in frames of 256; publisher, three "
        "brokers and subscriber on one core",
        lambda kept: _rate(kept.us("ours", 42, SIGNED_FRAMES)),
        lambda kept: f"{_short(kept.ratio(42, SIGNED_FRAMES))} times the same of protection `none`",
        "#42",
    ),
    Headline(
        "the same singly, 64 with one read; each alone",
        lambda kept: (
            f"{_rate(kept.us('ours', 42, SIGNED_SINGLY))}; {_rate(kept.us('ours', 42, SIGNED_ALONE))}"
        ),
        lambda kept: (
            f"{_short(kept.ratio(42, SIGNED_SINGLY))} and {_short(kept.ratio(42, SIGNED_ALONE))} times the "
            "same of protection `none`"
        ),
        "#42",
    ),
    Headline(
        "events a second and core of one broker, protection `none`, frames of 256",
        lambda kept: _rate(kept.core_us(FRAMES)),
        lambda kept: (
            f"{_short(kept.ratio(12, 'frames', 'mosquitto'))} times mosquitto, "
            f"{_short(kept.ratio(12, 'frames', 'nats-server'))} times nats-server, without TLS and rights"
        ),
        "profile, #12",
    ),
    Headline(
        "the same singly",
        lambda kept: _rate(kept.core_us(SINGLY)),
        lambda kept: (
            f"{_short(kept.us('peer', 12, 'frames', 'mosquitto') / kept.core_us(SINGLY))} times mosquitto, "
            f"{_short(kept.us('peer', 12, 'frames', 'nats-server') / kept.core_us(SINGLY))} times "
            "nats-server; from two runs"
        ),
        "profile, #12",
    ),
    Headline(
        "events a second in frames, each attribute sealed; publisher, two brokers and subscriber on one core",
        lambda kept: _rate(kept.us("ours", 5, SEALED_FRAMES)),
        lambda kept: f"{_short(kept.ratio(5, SEALED_FRAMES))} times the same in clear",
        "#5",
    ),
    Headline(
        "the same singly, sealed",
        lambda kept: _rate(kept.us("ours", 6, SEALED_SINGLY)),
        lambda kept: f"{_short(kept.ratio(6, SEALED_SINGLY))} times the same in clear",
        "#6",
    ),
    Headline(
        "events a second of a job with three rights, sealed and signed",
        lambda kept: _rate(kept.us("ours", 25, JOB)),
        lambda kept: f"{_short(kept.ratio(25, JOB))} times what one builds with nats-server and nats-py",
        "#25",
    ),
    Headline(
        "one event from publisher to subscriber, p50 and p99",
        lambda kept: (
            f"{_short(kept.us('ours', 13, 'p50', 'nats') / 1000)} and "
            f"{_short(kept.us('ours', 13, 'p99', 'mosquitto') / 1000)} ms"
        ),
        lambda kept: (
            f"{_short(kept.ratio(13, 'p50', 'nats'))} times nats-server's p50, "
            f"{_short(kept.ratio(13, 'p99', 'mosquitto'))} times mosquitto's p99"
        ),
        "#13",
    ),
    Headline(
        "memory of a subscription; with a certificate of its own",
        lambda kept: (
            f"{_short(kept.ratio(24, 'kilobytes a subscription'))} kB; "
            f"{_short(kept.ratio(24, 'capability of its own'))} kB"
        ),
        lambda kept: (
            f"aim {kept.row(24, 'kilobytes a subscription')['target'].lstrip('<= ')} kB; "
            f"{kept.row(24, 'capability of its own')['target'].lstrip('<= ')} kB"
        ),
        "#24",
    ),
    Headline(
        "memory of a connection",
        lambda kept: (
            kept.row(24, "connection", "mosquitto over mutual")["note"]
            .partition(",")[0]
            .removeprefix("ours ")
        ),
        lambda kept: (
            f"{_short(kept.ratio(24, 'connection', 'mosquitto over mutual'))} times mosquitto over TLS, "
            f"{_short(kept.ratio(24, 'connection', 'nats-server'))} times nats-server without"
        ),
        "#24",
    ),
    Headline(
        "Spark rows a second under a View; of ten sealed attributes",
        lambda kept: f"{_rate(kept.us('ours', 18, 'in SQL'))}; {_rate(kept.us('ours', 19, '16384'))}",
        lambda kept: (
            f"{_short(kept.ratio(18, 'in SQL'))} of the time of SQL by hand; "
            f"{_short(kept.ratio(19, '16384'))} times aes_decrypt"
        ),
        "#18, #19",
    ),
    Headline(
        "from a revocation to the last delivery over three brokers, p99",
        lambda kept: f"{_short(kept.ratio(16, 'milliseconds'))} ms",
        lambda kept: (
            f"at one broker {_short(kept.ratio(16, 'at the local broker /'))} times mosquitto that reads its "
            "file again"
        ),
        "#16",
    ),
)


def _or_not_measured(read: Callable[[Kept], str], kept: Kept) -> str:
    try:
        return read(kept)
    except LookupError:
        return NOT_MEASURED


def _ages(one: Headline, kept: Kept) -> str:
    machines = [found for source in one.sources if (found := kept.machine(source)) is not None]
    said = {
        f"`{machine['commit']}`, {machine['measured_on']}" + ("; **old**" if machine.get("is_old") else "")
        for machine in machines
        if "commit" in machine
    }
    return " · ".join(sorted(said))


def _headlines(kept: Kept) -> list[str]:
    rows = [
        f"| {one.question} | {_or_not_measured(one.ours, kept)} | "
        f"{_or_not_measured(one.beside, kept)} | {one.source} | {_ages(one, kept)} |"
        for one in HEADLINES
    ]
    return [
        "## In short",
        "",
        "| | Maia | beside | from | measured at |",
        "| --- | ---: | --- | --- | --- |",
        *rows,
        "",
        f"**Old**: more than {COMMITS_MAX} commits have changed the measured code since. The number says how",
        "fast Maia was, and waits to be measured again. A Python that its distribution built with PGO and",
        "LTO does the same work in 0.63 to 0.87 of the time of one that was built without. Each run names",
        "its Python below; where nothing is said of how that was built, it was without ([which",
        "Python](operations/README.md#which-python)). Ratios are of one machine: on another one both",
        "sides change, and not alike.",
        "",
        "Ours is over mutual TLS with access control, filter and restriction, ten attributes, unless the",
        "line says otherwise; the peers encrypt nothing and ask for no rights, as they are fastest.",
        "",
        *(f"![{title}](images/{name}.svg)\n" for name, (title, _, _) in PICTURES.items()),
    ]


# ---------------------------------------------------------------- two pictures

Read = Callable[[Kept], float]
PICTURES: dict[str, tuple[str, str, Sequence[tuple[str, bool, Read]]]] = {
    "events-a-second": (
        "Events a second through one broker",
        "events a second",
        (
            ("nats-server, no protection", False, lambda k: 1e6 / k.us("peer", 12, "frames", "nats-server")),
            ("redis, no protection", False, lambda k: 1e6 / k.us("peer", 12, "frames", "redis")),
            ("Maia, frames of 256", True, lambda k: 1e6 / k.us("ours", 12, "frames", "nats-server")),
            ("Maia, frames, signed, three brokers", True, lambda k: 1e6 / k.us("ours", 42, SIGNED_FRAMES)),
            ("Maia, frames, sealed, two brokers", True, lambda k: 1e6 / k.us("ours", 5, SEALED_FRAMES)),
            ("mosquitto, no protection", False, lambda k: 1e6 / k.us("peer", 12, "frames", "mosquitto")),
            ("Maia, single events", True, lambda k: 1e6 / k.core_us(SINGLY)),
            (
                "Maia, single events, signed, three brokers",
                True,
                lambda k: 1e6 / k.us("ours", 42, SIGNED_SINGLY),
            ),
            ("MQTT clients through Maia's gateway", True, lambda k: 1e6 / k.us("ours", 36, "QoS 0")),
            ("protected by nats-py clients", False, lambda k: 1e6 / k.us("peer", 25, JOB)),
            (
                "Maia, single events, sealed, two brokers",
                True,
                lambda k: 1e6 / k.us("ours", 6, SEALED_SINGLY),
            ),
        ),
    ),
    "how-long-it-takes": (
        "How long it takes",
        "milliseconds",
        (
            ("one event, nats-server, p50", False, lambda k: k.us("peer", 13, "p50", "nats") / 1e3),
            ("one event, mosquitto, p99", False, lambda k: k.us("peer", 13, "p99", "mosquitto") / 1e3),
            ("one event, Maia, p50", True, lambda k: k.us("ours", 13, "p50", "nats") / 1e3),
            ("one event, Maia, p99", True, lambda k: k.us("ours", 13, "p99", "mosquitto") / 1e3),
            ("one event, Maia's Python client, p50", True, lambda k: k.us("ours", 13, "Python client") / 1e3),
            ("one MQTT message, Maia's gateway, p50", True, lambda k: k.us("ours", 36, "p50, QoS 0") / 1e3),
            ("a right ends at three brokers, p99", True, lambda k: k.ratio(16, "milliseconds")),
            ("an event in a Spark batch, no policy, p99", False, lambda k: k.us("peer", 21, "without") / 1e3),
            ("an event in a governed Spark batch, p99", True, lambda k: k.us("ours", 21, "without") / 1e3),
        ),
    ),
}


def draw_pictures(kept: Kept) -> None:
    """Draw what the page opens with; what was not measured has no bar."""
    for name, (title, unit, wanted) in PICTURES.items():
        bars = []
        for label, is_ours, read in wanted:
            try:
                bars.append(Bar(label, read(kept), is_ours))
            except LookupError:
                continue
        if bars:
            draw_bars(name, title, bars, unit)


# ---------------------------------------------------------------- the page


def write_page() -> None:
    """Write the page and its pictures from what is kept now."""
    say_what_is_old()
    kept = Kept()
    PAGE.write_text(performance_page(kept), encoding="utf-8")
    draw_pictures(kept)


def performance_page(kept: Kept) -> str:
    """Return the performance page."""
    parts = [
        "# Performance",
        "",
        "<!-- Written by `make bench` from bench/results/. Edit the benchmarks, not this page. -->",
        "",
        *_headlines(kept),
        *_budget_section(kept.other(BUDGET_FILE)),
        *_targets_section(kept.records),
        *growth_section(kept.other(GROWTH_FILE)),
    ]
    for record in kept.records:
        parts += _section(record)
    parts += _load_section(kept.other(LOAD_FILE))
    return "\n".join(parts).rstrip() + "\n"


def _budget_section(record: dict[str, Any] | None) -> list[str]:
    if record is None:
        return []
    budgets: Budgets = record["budgets"]
    heads = [cell for one in budgets for cell in (f"{one}, µs", "kernel and OpenSSL, µs")]
    lines = [
        "## Where the microseconds go",
        "",
        "CPU time of one event of ten attributes in one broker, from a publisher to a subscriber over",
        "mutual TLS, with access control, filter and restriction: `make profile`. What the kernel and",
        "OpenSSL take is the floor: a broker in any language pays it.",
        "",
        f"| stage | {' | '.join(heads)} |",
        f"| --- |{' ---: |' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in budget_rows(budgets)),
    ]
    return [*lines, "", _measured(record["machine"]), ""]


def _targets_section(records: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [row for record in records for row in record["rows"]]
    untried = sum("not_measured" in row for row in rows)
    met = sum(row["met"] for row in rows)
    lines = [
        "## Targets, met and missed",
        "",
        "Each benchmark times two ways of doing one job in turns, on one machine, in one run. A result is",
        "the median ratio with an interval that holds the true median with 95 % confidence. Absolute times",
        "stand beside their ratio and mean little elsewhere. Run one yourself: `make bench NAMES=3`.",
        "",
        f"{len(rows)} cases, {met} at their target, {len(rows) - met - untried} below it, "
        f"{untried} not measured.",
        "",
        "| benchmark | cases | met | missed | not measured | farthest from its target |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for record in records:
        of_one = record["rows"]
        tried = [row for row in of_one if "ratio" in row]
        missed = [row for row in tried if not row["met"]]
        worst = max(missed, key=_shortfall, default=None)
        far = "" if worst is None else f"{worst['case']}: {number(worst['ratio'])}, wanted {worst['target']}"
        counts = (len(of_one), len(tried) - len(missed), len(missed), len(of_one) - len(tried))
        cells = [f"#{record['bench']} {record['name']}", *(str(one or "") for one in counts), far]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _shortfall(row: Row) -> float:
    sign, bound = row["target"].split()
    over, under = (float(bound), row["ratio"]) if sign == ">=" else (row["ratio"], float(bound))
    return over / under if under else inf


def growth_section(record: dict[str, Any] | None) -> list[str]:
    """Return how cost grows with size, by subject, with every point; more than proportional has a reason."""
    if record is None:
        return []
    lines = [
        "## Growth",
        "",
        "What does ten times as much cost? `make growth` measures a cost at several sizes. The exponent is",
        "the slope of the straight line through the logarithms (0: it does not grow, 1: proportional, 2:",
        "quadratic); at the end is that of the last two points alone, where fixed costs hide least. Above",
        f"{SUPERLINEAR} is more than proportional: its reason stands beside it, or it is called a defect.",
        "",
    ]
    for subject in record["subjects"]:
        lines += [
            f"### {subject['title']}",
            "",
            subject["about"],
            "",
            "| cost | measured | exponent | at the end | |",
            "| --- | --- | ---: | ---: | --- |",
            *map(_growth_row, subject["curves"]),
            "",
            f"![{subject['title']}](images/growth-{subject['name']}.svg)",
            "",
            _measured(subject["machine"]),
            "",
        ]
    return lines


def _growth_row(curve: Mapping[str, Any]) -> str:
    points = ", ".join(f"{size:,}: {number(cost)}" for size, cost in curve["points"])
    beyond = ", ".join(f"{size:,}: about {number(cost)}" for size, cost in curve["extrapolated"])
    if beyond:
        points += f"; **extrapolated** from the slope: {beyond}"
    is_above = max(curve["exponent"], curve["at_the_end"]) > SUPERLINEAR
    remark = curve["reason"] or ("**more than proportional, without a reason: a defect**" if is_above else "")
    return (
        f"| {curve['name']}, {curve['unit']} | {points} | {curve['exponent']:.2f} | "
        f"{curve['at_the_end']:.2f} | {remark if is_above else ''} |"
    )


def _section(record: Mapping[str, Any]) -> list[str]:
    lines = [f"## #{record['bench']} {record['name']}", "", f"{record['about']}", ""]
    lines += [f"Where it stood: {record['stood']}.", ""] if record["stood"] else []
    lines += [f"What the peer does not do: {record['peer_lacks']}.", ""] if record["peer_lacks"] else []
    lines += [f"What cannot be less: {record['floor']}.", ""] if record.get("floor") else []
    lines += [
        "| case | ratio | interval | target | met | ours µs | peer µs |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
        *map(_page_row, record["rows"]),
    ]
    return [*lines, "", _measured(record["machine"]), ""]


def _load_section(record: dict[str, Any] | None) -> list[str]:
    if record is None:
        return []
    lines = [
        "## Load",
        "",
        "One broker process, everything over mutual TLS on loopback, every filter its own: `make load`.",
        "",
        "| what | found |",
        "| --- | --- |",
        *(f"| {what} | {found} |" for what, found in record["found"].items()),
        "",
        *(f"- {'Kept' if kept else '**Broken**'}: {promise}." for promise, kept in record["kept"].items()),
    ]
    return [*lines, "", _measured(record["machine"]), ""]


def _measured(machine: Mapping[str, object]) -> str:
    return (
        f"{measured_at(machine)}, load {machine['load_before']} before and "
        f"{machine['load_after']} after, {machine['busy_cores']} cores busy with other work."
    )


def _page_row(row: Row) -> str:
    if "not_measured" in row:
        return f"| {row['case']} | not measured | {row['not_measured']} | {row['target']} | **no** | | |"
    low, high = row["interval"]
    times = [number(row[side]) if side in row else "" for side in ("ours_us", "peer_us")]
    note = f"; {row['note']}" if "note" in row else ""
    cells = [
        f"{row['case']}{note}",
        number(row["ratio"]),
        f"{number(low)} – {number(high)}",
        row["target"],
        "yes" if row["met"] else "**no**",
        *times,
    ]
    return f"| {' | '.join(cells)} |"
