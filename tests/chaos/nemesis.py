"""What happens to a network while faults strike it, and what do its participants have to show for it?

The nemesis causes the faults of a schedule in a running network, mends all of them, waits until everything
has arrived or no more comes, and hands the journals to the checker.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chaos import history
from chaos.checker import Reader, Verdict, check, joined, recovered_after
from chaos.network import NAMES, PUBLISHES, TYPES, Network, Organisation, pause, resume
from chaos.schedule import LOSES_DATA, Fault, Kind
from maia.clock import system_now
from maia.events import Instant
from maia.testing import Server, wait_until

ERRORS = {Kind.EIO: errno.EIO, Kind.ENOSPC: errno.ENOSPC, Kind.EROFS: errno.EROFS}
SLOW_MS = 300
LOOK_S = 0.2
HOG = "import os; ours = os.getppid()\nwhile os.getppid() == ours: pass"
"""Computes for as long as whoever started it lives."""


@dataclass(frozen=True)
class Plan:
    """How much is published, and how long is waited."""

    pace: float = 20.0
    """Events a second of each publisher."""
    burst: int = 20_000
    load: int = 4
    """How many processes compute beside a broker that is killed under load."""
    settle_s: float = 120.0
    """For how long nothing more has to arrive before the rest counts as lost."""


@dataclass(slots=True)
class Struck:
    """A fault that was caused, and when."""

    fault: Fault
    began_at: float
    healed_at: float = 0.0
    put_back_at: float = 0.0
    """When nothing of the lost log was under way any more, and nothing of the other one had been sent."""
    note: str = ""


@dataclass(slots=True)
class Nemesis:
    """A network whose faults are caused here."""

    network: Network
    plan: Plan = Plan()
    say: Callable[[str], None] = lambda _: None
    struck: list[Struck] = field(default_factory=list)
    ended_by_themselves: list[str] = field(default_factory=list)
    counts_from: dict[str, int] = field(default_factory=dict)
    """The first number of each publisher that was sent when every reader was served."""
    guests: dict[str, float] = field(default_factory=dict)
    """Readers whose right was revoked, and until when somebody who hears nothing may accept it."""
    bursts: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, Any] = field(default_factory=dict)
    """What each broker says of itself when the run ends: why something has not arrived is in there."""
    _places: dict[str, threading.RLock] = field(default_factory=lambda: defaultdict(threading.RLock))
    _stops: threading.Event = field(default_factory=threading.Event)

    # ------------------------------------------------------------ the whole run

    def begin(self) -> None:
        """Start everything, and wait until each reader is handed what each publisher publishes."""
        net = self.network
        net.start_servers()
        for name in NAMES:
            net.read(f"{name}-desk", name, "desk", TYPES, ["Reading"])
            net.publish(name, name, pace=self.plan.pace)
        wait_until(self._all_served, "every reader is served", within_s=180)
        self.counts_from = {name: history.highest(self._lines(name), "sent") + 1 for name in NAMES}
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def strike(self, faults: Iterable[Fault]) -> None:
        """Cause faults, each at its time, and return when all are mended."""
        began = time.monotonic()
        with ThreadPoolExecutor(16, thread_name_prefix="fault") as pool:
            struck = []
            for fault in faults:
                time.sleep(max(0.0, began + fault.begins_s - time.monotonic()))
                struck.append(pool.submit(self._strike, fault))
            for one in struck:
                one.result()

    def settle(self) -> Verdict:
        """Let the publishers leave, wait until everything has arrived or no more comes, and check."""
        for name in NAMES:
            self.network.leave(name)
        self.say("the publishers have left")
        delivered, since = -1, time.monotonic()
        while not (verdict := self.check()).is_good or verdict.lost:
            now = time.monotonic()
            if verdict.delivered > delivered:
                delivered, since = verdict.delivered, now
            if now - since > self.plan.settle_s:
                break
            time.sleep(2.0)
        self._stops.set()
        if not verdict.is_good or verdict.lost:
            self.statuses = {name: self._status(one) for name, one in self.network.organisations.items()}
        return verdict

    def check(self) -> Verdict:
        """Compare what is in the journals now."""
        acked, readers = self._history()
        return check(acked, readers, sent=[*NAMES, *self.bursts])

    def report(self, verdict: Verdict, seconds: float) -> dict[str, Any]:
        """Return all figures of the run."""
        acked, readers = self._history()
        by_kind: dict[str, list[float | None]] = defaultdict(list)
        for one in self.struck:
            by_kind[one.fault.kind].append(recovered_after(one.healed_at, acked, readers))
        return {
            "seconds": round(seconds, 1),
            "faults": len(self.struck),
            "acknowledged": verdict.acknowledged,
            "expected": verdict.expected,
            "delivered": verdict.delivered,
            "lost": verdict.lost,
            "reported": verdict.reported,
            "unnumbered": verdict.count("unnumbered"),
            "held_up": verdict.count("held up"),
            "silent": verdict.count("silent"),
            "late": verdict.late,
            "repeated": verdict.repeated,
            "doubled": verdict.count("doubled"),
            "disorder": verdict.count("disorder"),
            "after_the_end": verdict.count("after the end"),
            "invented": verdict.count("invented"),
            "ended_by_themselves": dict(Counter(self.ended_by_themselves)),
            "by_kind": {
                kind: {
                    "faults": len(waits),
                    "recovered_median_s": _median([one for one in waits if one is not None]),
                    "recovered_most_s": max(
                        (round(one, 1) for one in waits if one is not None), default=None
                    ),
                    "not_recovered": waits.count(None),
                }
                for kind, waits in sorted(by_kind.items())
            },
            "findings": [str(one) for one in joined(verdict.findings)[:200]],
            "brokers": self.statuses,
            "struck": [
                f"{one.began_at:.1f} to {one.healed_at:.1f}: {one.fault}{one.note and f' ({one.note})'}"
                for one in self.struck
            ],
        }

    def _status(self, ours: Organisation) -> object:
        try:
            data = ("--data", ours.kept[1], "--json")
            return json.loads(self.network.run("status", *data))
        except (RuntimeError, ValueError) as problem:
            return str(problem)

    # ------------------------------------------------------------ faults

    def _strike(self, fault: Fault) -> None:
        ours = self.network.organisations[fault.at]
        with self._places[fault.place]:
            one = Struck(fault, time.monotonic())
            self.struck.append(one)
            self.say(f"{time.monotonic():.1f}: {fault}")
            try:
                self._cause(fault, ours, one)
            except Exception as problem:  # noqa: BLE001 - one fault that fails is a note of its own
                one.note += f"{type(problem).__name__}: {problem}"
                self.say(f"fault {fault.number} failed: {problem}")
            one.healed_at = time.monotonic()

    def _cause(self, fault: Fault, ours: Organisation, struck: Struck) -> None:
        match fault.kind:
            case Kind.KILL | Kind.KILL_DOMAIN:
                self._kill(ours.broker if fault.kind is Kind.KILL else ours.domain, fault.holds_s)
            case Kind.KILL_UNDER_LOAD:
                with _load(self.plan.load):
                    self._kill(ours.broker, fault.holds_s)
            case Kind.PAUSE | Kind.PAUSE_DOMAIN:
                with _paused(ours.broker if fault.kind is Kind.PAUSE else ours.domain):
                    time.sleep(fault.holds_s)
            case Kind.CUT | Kind.CUT_ONE_WAY:
                ways = [(fault.at, fault.other), (fault.other, fault.at)]
                for way in ways[: 2 if fault.kind is Kind.CUT else 1]:
                    self.network.relay.cut(*way)
                time.sleep(fault.holds_s)
                for way in ways:
                    self.network.relay.mend(*way)
            case Kind.LEAVE | Kind.PUBLISHER_KILLED:
                is_kind = fault.kind is Kind.LEAVE
                self.network.leave(fault.at, signal.SIGTERM if is_kind else signal.SIGKILL)
                time.sleep(fault.holds_s)
                self.network.publish(fault.at, fault.at)
            case Kind.BURST:
                self._burst(fault, struck)
            case Kind.LOST_LOG | Kind.OLD_BACKUP:
                self._lose(fault, ours, struck)
            case Kind.REVOKED:
                self._revoke(fault, ours)
            case _:
                self._deceive(fault, ours)

    def _kill(self, server: Server, down_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        server.kill()
        meanwhile()
        time.sleep(down_s)
        server.begin()
        server.ready()

    def _burst(self, fault: Fault, struck: Struck) -> None:
        """Publish as much as fast as possible, pause another broker in the middle, and leave."""
        who = f"burst-{fault.number}"
        self.bursts[who] = PUBLISHES[fault.at]
        self.network.publish(who, fault.at, count=self.plan.burst, rows=512)
        wait_until(lambda: history.highest(self._lines(who), "acked") >= 0, who, within_s=120)
        with _paused(self.network.organisations[fault.other].broker):
            time.sleep(fault.holds_s)
        try:
            self.network.participants[who].process.wait(300)
        except subprocess.TimeoutExpired:
            struck.note = "the burst was not all acknowledged in 300 s"
            self.network.leave(who, signal.SIGKILL)

    def _lose(self, fault: Fault, ours: Organisation, struck: Struck) -> None:
        log, data = ours.kept
        backup = self.network.folder / f"{ours.name}.backup"

        def lose() -> None:
            if fault.kind is Kind.LOST_LOG:
                shutil.rmtree(log)
            elif not backup.exists():  # there is no older one: this is the one to restore next time
                struck.note = "backup made"
                for folder in (log, data):
                    shutil.copytree(folder, backup / folder.name)
                return
            else:
                for folder in (log, data):
                    shutil.rmtree(folder)
                    (backup / folder.name).rename(folder)
                shutil.rmtree(backup)
            struck.put_back_at = time.monotonic() + fault.holds_s

        self._kill(ours.broker, fault.holds_s, lose)

    def _revoke(self, fault: Fault, ours: Organisation) -> None:
        """Give somebody a right, wait until it is used, take it back, and let the reader go on trying."""
        who = f"guest-{fault.number}"
        self.network.run("member", "add", who, "--org", ours.name, "--may", "subscribe:Reading")
        reader = self.network.read(who, ours.name, who, [], ["Reading"])
        wait_until(lambda: '"got"' in self._text(who) or self._stops.is_set(), who, within_s=120)
        answer = json.loads(self.network.run("revoke", who, "--org", ours.name, "--json"))
        closes_in_s = (Instant.parse(answer["closes_at"]) - system_now()) / 1e6
        self.guests[who] = time.monotonic() + max(0.0, closes_in_s)
        time.sleep(fault.holds_s + max(0.0, closes_in_s))
        reader.kill()

    def _deceive(self, fault: Fault, ours: Organisation) -> None:
        assert ours.control is not None, "the shim is needed"
        match fault.kind:
            case Kind.CLOCK_SECONDS:
                ours.control.show(clock_s=20 * fault.sign)
            case Kind.CLOCK_HOUR:
                ours.control.show(clock_s=3600 * fault.sign)
            case Kind.SLOW_DISK:
                ours.control.show(delay_ms=SLOW_MS)
            case _:
                ours.control.show(error=ERRORS[fault.kind])
        try:
            time.sleep(fault.holds_s)
        finally:
            ours.control.show()
        self._start_again(ours.name, "broker", ours.broker)

    # ------------------------------------------------------------ beside the faults

    def _watch(self) -> None:
        """Start again what has ended by itself, as a service manager does."""
        while not self._stops.wait(LOOK_S):
            for one in self.network.organisations.values():
                for name, server in (("broker", one.broker), ("domain", one.domain)):
                    place = self._places[f"{name} of {one.name}"]
                    if place.acquire(blocking=False):
                        try:
                            self._start_again(one.name, name, server)
                        finally:
                            place.release()

    def _start_again(self, who: str, name: str, server: Server) -> None:
        if server.process.poll() is None:
            return
        last = (server.errors.splitlines() or [""])[-1][:300]
        self.ended_by_themselves.append(f"{who}-{name}")
        self.say(f"{time.monotonic():.1f}: {name} of {who} has ended by itself: {last}")
        time.sleep(1.0)
        server.begin()
        try:
            server.ready()
        except AssertionError as problem:
            self.say(f"{name} of {who} did not start: {problem}")

    def _all_served(self) -> bool:
        for who, one in self.network.participants.items():
            assert one.process.poll() is None, f"{who}: {one.errors[-1000:]}"
        _, readers = self._history()
        served = [one for one in readers if {told.publisher for told in one.delivered} == one.wants]
        return len(served) == len(NAMES) * (len(TYPES) + 1)

    # ------------------------------------------------------------ journals

    def _text(self, who: str) -> str:
        path = self.network.journal(who)
        return path.read_text() if path.exists() else ""

    def _lines(self, who: str) -> list[dict[str, Any]]:
        return history.lines_of(self._text(who))

    def _history(self) -> tuple[list[Any], list[Reader]]:
        publishes = {**PUBLISHES, **self.bursts}
        wants = {kind: frozenset(who for who, one in publishes.items() if one == kind) for kind in TYPES}
        acked = [
            one
            for who in publishes
            for one in history.acknowledged(who, self._lines(who), counts_from=self.counts_from.get(who, 0))
        ]
        readers: list[Reader] = []
        frames = {
            key: one for who in publishes for key, one in history.frames_of(who, self._lines(who)).items()
        }
        for name in NAMES:
            ours = (one for one in self.struck if one.fault.at == name and one.fault.kind in LOSES_DATA)
            about = {"wants": wants, "frames": frames, "put_back_at": [one.put_back_at for one in ours]}
            readers += history.readers(name, self._lines(f"{name}-desk"), **about)
        for who, ended_at in self.guests.items():
            readers += history.readers(who, self._lines(who), wants=wants, right_ended_at=ended_at)
        return acked, readers


@contextmanager
def _paused(server: Server) -> Iterator[None]:
    pause(server)
    try:
        yield
    finally:
        resume(server)


@contextmanager
def _load(processes: int) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in hogs:
            one.kill()
            one.wait()


def _median(numbers: list[float]) -> float | None:
    return round(sorted(numbers)[len(numbers) // 2], 1) if numbers else None
