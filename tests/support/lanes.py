"""Which tests stay together when the suite runs in lanes side by side?

`make test` runs the suite in lanes. Tests are collected once, by the process
that hands them out; each lane is a copy of it, which has imported everything,
and asks for one unit of work after another. The tests of one file stay in one
lane and in order, so what a file shares is made once. Whatever asks for a Spark
session goes to one lane of four only, because a session takes long to start, to
warm up, and a gigabyte to keep. That lane has the longest way to go, so the
others are nicer to it. All that is read off the tests, so a new file
needs no entry anywhere. A lane that crashes or hangs costs the test it was at,
and a new copy goes on behind it.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import pytest

SPARK = "spark"
QUICK = ("tests/unit/", "tests/laws/", "tests/vectors/")
NOT_QUICK = "tests/unit/project/"
NICER = 10
"""By how much: a lane with a session has almost a processor, and the others share what is left."""
END_S: Final = 60.0
LOOK_S: Final = 5.0
_FORK: Final = multiprocessing.get_context("fork")


def unit_of(item: pytest.Item) -> str:
    """Return what a test is not parted from: its file, or what needs a Spark session in its file."""
    file = item.nodeid.partition("::")[0]
    return f"{SPARK} {file}" if SPARK in getattr(item, "fixturenames", ()) else file


def needs_spark(unit: str) -> bool:
    return unit.startswith(f"{SPARK} ")


def sessions(lanes: int) -> int:
    """Return how many lanes may have a Spark session: a quarter of them, and at least one."""
    return max(1, lanes // 4)


def in_order(units: Sequence[str], functions: Sequence[str]) -> list[int]:
    """Return the order in which lanes take up tests of these units, with what takes longest first.

    What needs a Spark session takes longest. Scenarios and attacks start
    processes, and so do files with few tests and those about the project;
    units, laws and vectors with many tests are quick, and even out the end.
    A function that is asked about many things is one test here: what it asks
    about may have been made at once, which took long.
    """
    sizes = Counter(unit for unit, _ in set(zip(units, functions, strict=True)))

    def place(at: int) -> tuple[bool, bool, int, str]:
        unit = units[at]
        is_quick = unit.startswith(QUICK) and not unit.startswith(NOT_QUICK)
        return not needs_spark(unit), is_quick, sizes[unit], unit

    return sorted(range(len(units)), key=place)


def next_unit(waiting: Iterable[str], *, may_have_session: bool) -> str | None:
    """Return the first of the units that wait which a lane may take, or None if there is none for it."""
    return next((unit for unit in waiting if may_have_session or not needs_spark(unit)), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the number of lanes."""
    parser.addoption("--lanes", type=int, default=1, help="run the tests in so many processes side by side")


# ---------------------------------------------------------------- in a lane


class Lane:
    """One copy: runs units until there are no more, and reports on each test when it is done with it."""

    def __init__(self, session: pytest.Session, number: int, link: Connection) -> None:
        self.session, self.number, self.link = session, number, link
        self.reports: list[Any] = []

    def run(self, units: dict[str, list[pytest.Item]], *, is_nicer: bool) -> None:
        """Be a lane, from the copy to its end."""
        atexit._clear()  # what the process before the copy has to clean up, it still will
        if is_nicer:
            os.nice(NICER)
        self._take_over(self.session.config)
        try:
            try:
                self._run_units(units)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # an end that is interrupted leaves processes
                self.session._setupstate.teardown_exact(None)  # what lives as long as the session
                self.session.config._ensure_unconfigure()
        except BaseException:  # noqa: BLE001 - whatever it is, it is reported, and fails the run
            with suppress(OSError):  # where the run has ended, nobody reads it
                self.link.send(("problem", traceback.format_exc()))
        atexit._run_exitfuncs()
        with suppress(OSError):
            self.link.send(("end", None))

    def _take_over(self, config: pytest.Config) -> None:
        """Part from the other copies: reports go to the link, and files are this lane's own."""
        config.pluginmanager.unregister(name="terminalreporter")
        # It starts a thread for each test, and waits for its end. A lane that hangs is seen from outside.
        config.pluginmanager.unregister(name="faulthandler")
        config.pluginmanager.register(self, "lane")
        capturing = config.pluginmanager.getplugin("capturemanager")
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        folders = config._tmp_path_factory
        folders._basetemp = folders.getbasetemp() / f"{self.number}-{os.getpid()}"
        folders._basetemp.mkdir(mode=0o700)

    def _run_units(self, units: dict[str, list[pytest.Item]]) -> None:
        while True:
            self.link.send(("unit", None))
            unit, done = self.link.recv()
            if unit is None:
                return
            items = units[unit][done:]
            # Between units only what lives as long as the session is kept.
            for item, after in zip(items, [*items[1:], self.session], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if self.session.shouldfail or self.session.shouldstop:
                    return

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what counts: one report on a test that passes, unless durations are asked for."""
        config = self.session.config
        if report.when == "call" or not report.passed or config.option.durations:
            self.reports.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        """Send everything about one test at once."""
        self.link.send(("test", self.reports))
        self.reports = []


# ---------------------------------------------------------------- where tests are handed out


@dataclass
class Copy:
    """A lane as seen by the process that hands out tests: its process, and where it is."""

    process: Any
    link: Connection
    unit: str | None = None
    done: int = 0
    has_ended: bool = False
    last: float = field(default_factory=time.monotonic)
    """When it last sent something."""

    def end(self) -> None:
        """Wait for the process, which has no more to say; a thread that it left behind ends with it."""
        self.link.close()
        self.process.join(END_S)
        self.process.kill()
        self.process.join()


@dataclass
class Lanes:
    """What is left to do, and who is at it."""

    session: pytest.Session
    size: int
    units: dict[str, list[pytest.Item]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    """Units that nobody is at, in order, each with the number of its tests that are done."""
    copies: dict[int, Copy] = field(default_factory=dict)

    def run(self) -> None:
        """Run all tests."""
        items = self.session.items
        units = [unit_of(item) for item in items]
        functions = [item.nodeid.partition("[")[0] for item in items]
        for at in in_order(units, functions):
            self.units.setdefault(units[at], []).append(items[at])
        self.waiting = dict.fromkeys(self.units, 0)
        self.session.config._tmp_path_factory.getbasetemp()  # one for all, before there are copies
        gc.collect()
        gc.freeze()
        for number in range(self.size):
            self._start(number)
        looked = time.monotonic()
        try:
            while self.copies and not (self.session.shouldfail or self.session.shouldstop):
                by_link = {copy.link: number for number, copy in self.copies.items()}
                for link in wait(list(by_link), LOOK_S):
                    self._listen(by_link[link])
                if time.monotonic() > looked + LOOK_S:
                    self._look_after(list(self.copies))
                    looked = time.monotonic()
        finally:
            self._end()

    def _start(self, number: int) -> None:
        ours, theirs = _FORK.Pipe()
        lane = Lane(self.session, number, theirs)

        def be() -> None:
            for copy in self.copies.values():
                copy.link.close()
            ours.close()
            lane.run(self.units, is_nicer=number >= sessions(self.size))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from 3.12 on: there are threads of libraries, which are idle
            process = _FORK.Process(target=be, name=f"lane {number}")
            process.start()
        theirs.close()
        self.copies[number] = Copy(process, ours)

    def _look_after(self, numbers: Sequence[int]) -> None:
        """Bury lanes whose end was not seen; end those that hang, with the stacks of all their threads."""
        longest = float(self.session.config.getini("faulthandler_timeout") or "inf")
        for number in numbers:
            copy = self.copies[number]
            if copy.process.exitcode is not None and not copy.link.poll():
                self._bury(number)  # what it left behind may keep its end of the link open
            elif time.monotonic() > copy.last + longest:
                os.kill(copy.process.pid, signal.SIGABRT)

    def _listen(self, number: int) -> None:
        copy = self.copies[number]
        copy.last = time.monotonic()
        try:
            kind, value = copy.link.recv()
        except (EOFError, ConnectionResetError):
            self._bury(number)
            return
        match kind:
            case "unit":
                copy.unit = self._next(number)
                copy.done = self.waiting.pop(copy.unit, 0) if copy.unit is not None else 0
                with suppress(OSError):  # it has crashed since, and is buried next
                    copy.link.send((copy.unit, copy.done))
            case "test":
                self._report(copy, value)
            case "problem":
                self._fail(f"lane {number}", value)
            case "end":
                copy.has_ended = True

    def _report(self, copy: Copy, reports: Sequence[Any]) -> None:
        config, item = self.session.config, self.units[copy.unit or ""][copy.done]
        copy.done += 1
        for data in reports:
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _bury(self, number: int) -> None:
        """Take leave of a lane; where it crashed, give up the test it was at, and let another go on."""
        copy = self.copies.pop(number)
        copy.end()
        left = self.units[copy.unit][copy.done :] if copy.unit is not None else []
        if not copy.has_ended:
            at = left[0].nodeid if left else f"lane {number}"
            self._fail(at, f"lane {number} has crashed with status {copy.process.exitcode}")
        if left[1:]:
            self.waiting = {copy.unit or "": copy.done + 1, **self.waiting}
        if self._next(number) is not None:
            self._start(number)

    def _next(self, number: int) -> str | None:
        return next_unit(self.waiting, may_have_session=number < sessions(self.size))

    def _fail(self, name: str, what: str) -> None:
        report = pytest.TestReport(name, (name, None, name), {}, "failed", what, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)

    def _end(self) -> None:
        """End the lanes that still run, as a user would."""
        for copy in self.copies.values():
            with suppress(ProcessLookupError):
                os.kill(copy.process.pid, signal.SIGINT)
        for copy in self.copies.values():
            copy.end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in lanes, if there is to be more than one."""
    option = session.config.option
    if option.lanes < 2 or option.collectonly or session.testsfailed:
        return None
    Lanes(session, option.lanes).run()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True
