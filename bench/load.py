"""Does one broker carry a thousand connections and a hundred thousand subscriptions, for minutes on end?

    python bench/load.py --minutes 10        the whole test; `make load` does the same
    python bench/load.py --quick             50 connections, 2,000 subscriptions, 10 seconds

Everything stays on loopback, and is bounded in number and in time. One broker
process gets connections over mutual TLS, each with a key and certificates of
its own; every subscription is a signed request with a filter that no other
has, but for one on each connection that wants every event. Four things are
then asked:

- Does the broker stay within the memory that is stated before the start?
- Does a subscriber that never reads slow the others? Bursts run in turns,
  without one and with one, and the rates are compared.
- Does every subscriber get every event that is published, at a steady pace,
  while all subscriptions are renewed within the usual lease, until the time is
  over? All that a connection holds is renewed by one message, as clients do.
- Do honest clients keep their rate while strangers and peers with nothing but
  a right to connect attack a second broker for a minute (`b38_hostile_minute.py`)?

The exit code is 0 if every answer is the good one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from b38_hostile_minute import hostile_minute
from harness import busy_cores, load_average
from harness_report import LOAD_FILE, keep_record, this_machine
from hostile_measures import Found
from live_network import (
    EVERY_EVENT,
    FRAME_ROWS,
    BrokerProcess,
    Line,
    MaiaConnection,
    World,
    broker_process,
    new_world,
    read_waiting,
)
from maia.credentials import Action
from maia.predicates import Predicate
from maia.wire.messages import Accepted, Advertise, RenewAll, Subscribe
from maia.wire.requests import digest_of_request, digest_of_standing

BASE_BYTES, CONNECTION_BYTES, SUBSCRIPTION_BYTES = 200_000_000, 60_000, 8_000
"""The memory bound: so much for the broker itself, and so much for each of those that it holds."""
OTHERS_KEEP_AT_LEAST = 0.9
"""The share of their rate that the others must keep beside a subscriber that does not read."""
STUCK_BURSTS_MAX, STUCK_FOLD = 200, 20
"""A stuck reader gets each event so many times, so that its outbox is full before the others get tired."""
RENEWAL = 1 << 32
"""The number of a renewal, which is nobody's reference."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much and for how long."""

    connections: int = 1000
    subscriptions: int = 100_000
    seconds: float = 600.0
    lease_s: int = 60
    """As usual: filling the broker takes longer, so what stands is renewed meanwhile."""
    frames_per_second: float = 2.0
    rounds: int = 5
    burst_frames: int = 8
    attacks: int = 6
    attack_s: float = 10.0
    rows: int = FRAME_ROWS

    @property
    def memory_bound(self) -> int:
        """Return how many bytes the broker may take."""
        held = self.connections * CONNECTION_BYTES + self.subscriptions * SUBSCRIPTION_BYTES
        return BASE_BYTES + held


QUICK = Plan(
    connections=50,
    subscriptions=2000,
    seconds=10,
    frames_per_second=10,
    rounds=3,
    burst_frames=40,
    attacks=1,
    attack_s=2.0,
)


@dataclass(slots=True)
class Report:
    """What was found; each check is true if all went well."""

    plan: Plan
    memory_bound_mb: float
    memory_at_start_mb: float = 0.0
    memory_with_all_mb: float = 0.0
    memory_most_mb: float = 0.0
    connected_s: float = 0.0
    subscriptions_per_s: float = 0.0
    burst_deliveries_per_s: float = 0.0
    others_beside_a_stuck_reader: float = 0.0
    stuck_reader_was_closed: bool = False
    steady_deliveries: int = 0
    steady_frames: int = 0
    frame_to_all_p50_ms: float = 0.0
    frame_to_all_p99_ms: float = 0.0
    renewals: int = 0
    """Subscriptions renewed, over all connections and the whole test."""
    broker_cores: float = 0.0
    """Processors that the broker used at the steady pace."""
    hostile: Found | None = None
    load_average: float = 0.0

    def checks(self) -> dict[str, bool]:
        """Return the promises, and whether each was kept."""
        share = self.others_beside_a_stuck_reader
        return {
            f"memory stays within {self.memory_bound_mb:.0f} MB": self.memory_most_mb <= self.memory_bound_mb,
            f"the others keep {OTHERS_KEEP_AT_LEAST:.0%} of their rate": share >= OTHERS_KEEP_AT_LEAST,
            "the broker closed the reader that was stuck": self.stuck_reader_was_closed,
            "every subscriber got every event": self.steady_frames > 0,
            **({} if self.hostile is None else self.hostile.checks()),
        }


class Holder:
    """One connection with what stands on it, which it renews together before the lease ends."""

    def __init__(self, connection: MaiaConnection, asked: Sequence[Subscribe | Advertise]) -> None:
        """Take over a connection on which these requests were made."""
        self.connection = connection
        self.renewed_at = time.monotonic()
        self.held = len(asked)
        self._digest = digest_of_standing((one.id, digest_of_request(one.request)) for one in asked)

    def wait(self) -> None:
        """Wait until everything stands; from then on the connection is read only when something is there."""
        for _ in range(self.held):
            self.connection.wait_for(Accepted)
        self.connection.socket.setblocking(False)

    def renew(self) -> None:
        """Say that all is still wanted."""
        self.connection.say(RenewAll(RENEWAL, self.held, self._digest))
        self.renewed_at = time.monotonic()


def subscriber(world: World, broker: BrokerProcess, name: str, filters: Sequence[Predicate]) -> Holder:
    """Connect, and ask for everything in one write; the answers are still to be waited for."""
    connection = _connected(world, broker, name, Action.SUBSCRIBE)
    asked = [connection.request(Action.SUBSCRIBE, one) for one in filters]
    connection.say(*asked)
    return Holder(connection, asked)


def publisher(world: World, broker: BrokerProcess, name: str, rows: int) -> Holder:
    """Connect somebody whose frames are ready."""
    connection = _connected(world, broker, name, Action.PUBLISH)
    return Holder(connection, [connection.advertise(rows)])


def _connected(world: World, broker: BrokerProcess, name: str, action: Action) -> MaiaConnection:
    key = world.key(name)
    rights = [world.connect_right(key.principal), world.type_right(key.principal, action)]
    return MaiaConnection(world, broker, key, rights)


class Upkeep:
    """Renews what the connections hold, and answers the broker's pings, whatever else is going on."""

    def __init__(self, holders: Sequence[Holder], lease_s: float) -> None:
        """Watch over `holders`, which may become more."""
        self._holders, self._lease_s = holders, lease_s
        self._looked_at = 0.0
        self.renewals = 0

    def look(self) -> None:
        """Renew what is due; while nobody else reads the connections, read them."""
        now = time.monotonic()
        if now - self._looked_at < self._lease_s / 30:
            return
        self._looked_at = now
        for holder in self._holders:
            if holder.connection.socket.gettimeout() != 0.0:
                continue  # somebody waits for its first answers
            read_waiting(holder.connection)
            if now - holder.renewed_at > 0.4 * self._lease_s:
                holder.renew()
                self.renewals += holder.held


def main() -> int:
    """Run the test that the command line asks for; return the exit code."""
    asked = _parser().parse_args()
    plan = (
        QUICK
        if asked.quick
        else replace(
            Plan(),
            connections=asked.connections,
            subscriptions=asked.subscriptions,
            seconds=asked.minutes * 60,
        )
    )
    before, busy = load_average(), busy_cores()
    report = run(plan)
    if asked.json:
        print(json.dumps(asdict(report) | {"checks": report.checks()}))
    else:
        _print(report)
    if not asked.quick and plan == Plan():
        machine = this_machine(load_before=before, load_after=load_average(), busy=busy)
        found = {"found": _found(report), "kept": report.checks(), "machine": asdict(machine)}
        keep_record(LOAD_FILE, found)
    return 0 if all(report.checks().values()) else 1


def run(plan: Plan) -> Report:
    """Play the whole test and return what was found."""
    world = new_world()
    report = Report(plan, plan.memory_bound / 1e6)
    limits = {"lease_s": plan.lease_s, "limits": {"links": plan.connections + 64}}
    limits["proof_age_s"] = 86_400  # what is asked for is renewed here, and not signed again
    with broker_process(world, **limits) as broker:
        report.memory_at_start_mb = _resident_mb(broker)
        holders: list[Holder] = []
        upkeep = Upkeep(holders, plan.lease_s)
        _fill(world, broker, holders, upkeep, plan, report)
        source = publisher(world, broker, "publisher", plan.rows)
        with closing(Line(source.connection, [holder.connection for holder in holders])) as line:
            holders.append(source)
            _beside_a_stuck_reader(world, broker, line, upkeep, plan, report)
            _steady(line, upkeep, broker, plan, report)
        report.renewals = upkeep.renewals
    _progress("attackers at work")
    report.hostile = hostile_minute(slices=plan.attacks, slice_s=plan.attack_s, peace_s=plan.attack_s / 2)
    report.load_average = load_average()
    return report


def _fill(
    world: World, broker: BrokerProcess, holders: list[Holder], upkeep: Upkeep, plan: Plan, report: Report
) -> None:
    each = plan.subscriptions // plan.connections
    started = time.monotonic()
    for number in range(plan.connections):
        own = [_selective(world, number * each + one) for one in range(each - 1)]
        holders.append(subscriber(world, broker, f"holder {number}", [world.filter(EVERY_EVENT), *own]))
        # The next one's requests are signed while the broker is busy with these.
        if number:
            holders[-2].wait()
        upkeep.look()
        _progress(f"connected {number + 1} of {plan.connections}")
    holders[-1].wait()
    report.connected_s = time.monotonic() - started
    report.subscriptions_per_s = plan.subscriptions / report.connected_s
    report.memory_with_all_mb = report.memory_most_mb = _resident_mb(broker)


def _selective(world: World, number: int) -> Predicate:
    return world.filter(f'numberplate == "ZZ{number} AAA" and speed > {number % 60}')


# ---------------------------------------------------------------- a subscriber that never reads


def _beside_a_stuck_reader(
    world: World, broker: BrokerProcess, line: Line, upkeep: Upkeep, plan: Plan, report: Report
) -> None:
    """Compare the others' rate in turns; then fill the outbox of one until the broker has had enough."""
    readers, rates, shares = plan.connections, [], []
    sockets = _sockets_of(broker)
    _rate(line, plan, readers)  # once before anything counts
    for number in range(plan.rounds):
        _progress(f"bursts, round {number + 1} of {plan.rounds}")
        upkeep.look()
        without = _rate(line, plan, readers)
        with closing(_stuck(world, broker, f"stuck {number}", 1)):
            shares.append(_rate(line, plan, readers) / without)
        rates.append(without)
    report.burst_deliveries_per_s = statistics.median(rates)
    report.others_beside_a_stuck_reader = statistics.median(shares)
    with closing(_stuck(world, broker, "stuck for good", STUCK_FOLD)):
        for number in range(STUCK_BURSTS_MAX):
            _progress(f"burst {number + 1} to a reader that is stuck")
            line.carry(plan.rows * 20)
            upkeep.look()
            report.memory_most_mb = max(report.memory_most_mb, _resident_mb(broker))
            report.stuck_reader_was_closed = _sockets_of(broker) <= sockets
            if report.stuck_reader_was_closed:
                break


def _stuck(world: World, broker: BrokerProcess, name: str, fold: int) -> MaiaConnection:
    """Connect somebody who wants every event so many times over, and reads none of them."""
    wide = [world.filter(f"speed > -{number}") for number in range(1, fold)]
    holder = subscriber(world, broker, name, [world.filter(EVERY_EVENT), *wide])
    holder.wait()
    return holder.connection


def _rate(line: Line, plan: Plan, readers: int) -> float:
    events = plan.burst_frames * plan.rows
    started = time.perf_counter()
    line.carry(events, 2 * plan.rows)
    return events * readers / (time.perf_counter() - started)


# ---------------------------------------------------------------- a steady pace


def _steady(line: Line, upkeep: Upkeep, broker: BrokerProcess, plan: Plan, report: Report) -> None:
    """Publish at a steady pace, renew what stands, and watch the memory, until the time is over."""
    started, took, busy = time.monotonic(), list[float](), _busy_s(broker)
    while (passed := time.monotonic() - started) < plan.seconds:
        began = time.perf_counter()
        line.carry(plan.rows)  # raises unless every subscriber gets every row
        took.append((time.perf_counter() - began) * 1000)
        report.steady_deliveries += plan.rows * plan.connections
        upkeep.look()
        report.memory_most_mb = max(report.memory_most_mb, _resident_mb(broker))
        _progress(f"{passed:.0f} of {plan.seconds:.0f} s, {report.memory_most_mb:.0f} MB")
        time.sleep(max(0.0, len(took) / plan.frames_per_second - (time.monotonic() - started)))
    report.steady_frames = len(took)
    report.broker_cores = (_busy_s(broker) - busy) / (time.monotonic() - started)
    report.frame_to_all_p50_ms, report.frame_to_all_p99_ms = _quantiles(took)


def _quantiles(took: Sequence[float]) -> tuple[float, float]:
    hundredths = statistics.quantiles(took, n=100, method="inclusive")
    return hundredths[49], hundredths[98]


# ---------------------------------------------------------------- the broker from outside, and people


def _resident_mb(broker: BrokerProcess) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text(encoding="ascii")
    (line,) = [one for one in status.splitlines() if one.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024 / 1e6


def _busy_s(broker: BrokerProcess) -> float:
    """Return how many seconds of processor time the broker has used."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _sockets_of(broker: BrokerProcess) -> int:
    """Return how many sockets the broker's process holds: its connections, and a few of its own."""
    sockets = 0
    for descriptor in Path(f"/proc/{broker.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            sockets += str(descriptor.readlink()).startswith("socket:")
    return sockets


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _found(report: Report) -> dict[str, str]:
    plan = report.plan
    memory = (
        f"{report.memory_at_start_mb:.0f}, {report.memory_with_all_mb:.0f}, {report.memory_most_mb:.0f} MB"
    )
    latency = f"{report.frame_to_all_p50_ms:.1f} ms, {report.frame_to_all_p99_ms:.1f} ms"
    hostile = report.hostile
    assert hostile is not None
    return {
        "connections": f"{plan.connections:,}",
        "subscriptions": f"{plan.subscriptions:,}, made {report.subscriptions_per_s:,.0f} a second",
        "memory at start, with all, most": f"{memory} of {report.memory_bound_mb:.0f} MB",
        "bursts to all": f"{report.burst_deliveries_per_s:,.0f} deliveries a second",
        "others beside a stuck reader": f"{report.others_beside_a_stuck_reader:.2f} of their rate without it",
        "steady pace": f"{report.steady_deliveries:,} deliveries in {plan.seconds:.0f} s",
        "a frame to all, p50 and p99": latency,
        "renewals": f"{report.renewals:,}, with a lease of {plan.lease_s} s",
        "broker at the steady pace": f"{report.broker_cores:.2f} processors",
        "honest rate under attack": f"{statistics.median(hostile.shares):.2f} of that in peace",
        "a revocation under attack, p99": f"{hostile.revoked_p99_ms:.1f} ms",
        "newcomers under attack": f"{hostile.newcomers}, of whom {hostile.kept_out} were kept out",
        "memory under attack, most": f"{hostile.memory_most / 1e6:.0f} MB",
        "load average": f"{report.load_average:.2f}",
    }


def _print(report: Report) -> None:
    _progress("")
    rows = [f"{name:<34}{value}" for name, value in _found(report).items()]
    rows += [f"{'kept' if kept else 'BROKEN':<8}{promise}" for promise, kept in report.checks().items()]
    print("\n".join(rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Put one broker under load, on loopback, for some minutes.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the steady pace lasts")
    parser.add_argument("--connections", type=int, default=Plan().connections, help="default: 1000")
    parser.add_argument("--subscriptions", type=int, default=Plan().subscriptions, help="default: 100000")
    parser.add_argument("--quick", action="store_true", help="50 connections, 2,000 subscriptions, 10 s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
