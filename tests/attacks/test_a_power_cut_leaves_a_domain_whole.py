"""A power cut at any write leaves register, lists and policy as they were before the act, or after it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from maia.domain.storage.store import Tables, postgres_store, sqlite_store
from maia.domain.storage.tables import ALL_TABLES
from support.access_control import (
    BROWN,
    DAY,
    MET,
    POLICY,
    SMITH,
    Station,
    check_consistent,
    court,
    later,
    met,
    order,
    told,
    until,
)
from support.random_cases import usually

ACTS = {
    "login": lambda station, order: station.login(SMITH.principal, [order]),
    "retract": lambda station, order: station.retract_fact("detective", [SMITH.principal]),
    "replace": lambda station, order: station.replace_facts("detective", []),
    "policy": lambda station, order: station.load_policy(POLICY.replace("8 hours", "7 hours")),
    "appoint": lambda station, order: station.appoint(SMITH.principal, "medal", [], until(DAY)),
    "beat": lambda station, order: station.access.due(later(28)),
    "once": lambda station, order: station.once(
        "k", b"d", lambda: b"%d" % station.assert_fact("detective", [BROWN.principal])
    ),
}


KILLS = int(os.environ.get("MAIA_KILLS", "3"))
EVERY = usually(3, laws=1)


class PowerCut(BaseException):
    """No peer can catch this one."""


class CutStore:
    """A store whose machine loses its power at one of the writes."""

    def __init__(self, inner, writes_left):
        self.inner, self.writes_left = inner, writes_left

    @contextmanager
    def transaction(self):
        with self.inner.transaction() as tables:
            yield CutTables(tables._connection, self)

    @contextmanager
    def reading(self):
        with self.inner.reading() as tables:
            yield tables

    def count(self):
        if self.writes_left == 0:
            raise PowerCut
        self.writes_left -= 1


class CutTables(Tables):
    __slots__ = ("_cut",)

    def __init__(self, connection, cut):
        super().__init__(connection)
        self._cut = cut

    def put(self, *rows):
        self._cut.count()
        super().put(*rows)

    def delete(self, table, *where):
        self._cut.count()
        return super().delete(table, *where)


def contents(store) -> dict:
    """Everything that a store holds."""
    with store.reading() as tables:
        return {
            table.sql.name.removeprefix("domain_"): tables.find(table, limit=100_000) for table in ALL_TABLES
        }


def prepared(store, *, logged_in: bool = True) -> tuple[Station, object]:
    """The Met in the middle of its work."""
    courts, station = court(), met(store)
    told(station, courts)
    shown = order(courts, SMITH, "42", "AE05 XYZ")
    station.beat()
    if logged_in:
        station.login(SMITH.principal, [shown])
    return station, shown


@pytest.mark.laws
@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_is_cut_at_any_write_never_happened(act: str, tmp_path: Path) -> None:
    """A82: the store is opened again after each cut, and the act is then done in full.

    The cuts are at every third write, and at every one under `make laws`.
    """
    file = tmp_path / "domain.sqlite"
    with closing(sqlite_store(file)) as store:
        station, shown = prepared(store, logged_in=act != "login")
        check_consistent(station)
        before = contents(store)
    cuts = 0
    while True:
        with closing(sqlite_store(file)) as store:
            again = Station(MET, CutStore(store, cuts))
            again.now = station.now
            try:
                ACTS[act](again, shown)
            except PowerCut:
                assert contents(store) == before
                cuts += EVERY
                continue
            break
    with closing(sqlite_store(file)) as store:
        assert contents(store) != before
        check_consistent(Station(MET, store))
    assert cuts > 0


@pytest.mark.postgres
def test_the_same_holds_on_postgres(postgres_server: str) -> None:
    """A82: two acts, cut at every write."""
    for act in ("retract", "beat"):
        with closing(postgres_store(postgres_server, f"cut_{act}")) as store:
            station, shown = prepared(store)
            before, cuts = contents(store), 0
            while True:
                again = Station(MET, CutStore(store, cuts))
                again.now = station.now
                try:
                    ACTS[act](again, shown)
                except PowerCut:
                    assert contents(store) == before
                    cuts += 1
                    continue
                break
            assert contents(store) != before
            check_consistent(Station(MET, store))


@pytest.mark.laws
@pytest.mark.parametrize("act", ["login", "retract", "policy", "beat"])
def test_the_files_as_they_are_at_any_write_open_as_before_or_as_after(act: str, tmp_path: Path) -> None:
    """A82: what the disk holds at each write is copied, as if the machine had stopped there."""
    file, copies = tmp_path / "domain.sqlite", []

    class Copying(CutStore):
        def count(self):
            folder = tmp_path / f"copy {len(copies)}"
            folder.mkdir()
            for one in tmp_path.glob("domain.sqlite*"):
                shutil.copy(one, folder)
            copies.append(folder)

    with closing(sqlite_store(file)) as store:
        station, shown = prepared(store, logged_in=act != "login")
        before = contents(store)
        again = Station(MET, Copying(store, -1))
        again.now = station.now
        ACTS[act](again, shown)
        again.store.count()
        check_consistent(again)
        after = contents(store)
    for folder in {*copies[::EVERY], copies[-1]}:
        with closing(sqlite_store(folder / "domain.sqlite")) as store:
            assert contents(store) == (after if folder is copies[-1] else before)


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from maia.events import Instant
from maia.domain.storage.store import sqlite_store
from support.access_control import COURT, MET, POLICY, SMITH, Station, later, met, order, told

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

store = sqlite_store(Path(sys.argv[1]))
courts = Station(COURT, sqlite_store(Path(sys.argv[1] + ".courts")))
fresh = sys.argv[2] == "0"
station = met(store) if fresh else Station(MET, store)
station.now = later(100_000 * int(sys.argv[2]))
told(station, courts)
say("ready")
shown = order(courts, SMITH, "42", "A", days=30)
number = 0
while True:
    number += 1
    station.assert_fact("detective", [SMITH.principal])
    station.login(SMITH.principal, [shown])
    gone = station.retract_fact("detective", [SMITH.principal])
    say("revoked", gone.statement.statement.sequence, *[one.hex() for one in gone.ids])
    loaded = station.load_policy(POLICY.replace("8 hours", f"{{1 + number % 20}} hours"))
    say("policy", loaded.version, loaded.digest.hex())
    say("audit", station.audit_head().length, station.audit_head().digest.hex())
    station.now = Instant(station.now + 26_000_000)
    told(station, courts)
    for signed in station.beat():
        say("list", signed.statement.sequence)
"""


def test_a_process_that_is_killed_at_any_moment_has_lost_nothing_that_it_said(tmp_path: Path) -> None:
    """A82: kill -9, again and again on one file; what was printed before is still there."""
    file, chance = tmp_path / "domain.sqlite", random.Random(6)  # noqa: S311 - a moment to be killed at is no secret
    said = Said()
    for life in range(KILLS):
        lines, seconds = chance.randint(1, 30), chance.uniform(0, 0.1)
        said.hear(one_life(file, life, tmp_path / f"life {life}", lines=lines, seconds=seconds))
        with closing(sqlite_store(file)) as store:
            station = Station(MET, store)
            check_consistent(station)
            said.check(station)
    assert said.sequence > 5
    assert said.revoked


class Said:
    """What the killed processes have printed: promises."""

    def __init__(self):
        self.sequence, self.policy, self.audit, self.revoked = 0, (0, ""), (0, ""), set()

    @property
    def version(self) -> int:
        return self.policy[0]

    def hear(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["revoked", sequence, *ids]:
                    assert int(sequence) > self.sequence, "a number was given twice"
                    self.sequence = int(sequence)
                    self.revoked |= set(ids)
                case ["list", sequence]:
                    assert int(sequence) > self.sequence, "a number was given twice"
                    self.sequence = int(sequence)
                case ["policy", version, digest]:
                    # The policy that is in force already keeps its number.
                    assert int(version) > self.version or (int(version), digest) == self.policy
                    self.policy = int(version), digest
                case ["audit", length, digest]:
                    assert int(length) > self.audit[0]
                    self.audit = int(length), digest

    def check(self, station: Station) -> None:
        held = contents(station.store)
        assert {row.id.hex() for row in held["revoked"]} >= self.revoked
        assert max(row.version for row in held["policies"]) >= self.version
        if self.audit[0]:
            assert held["audit"][self.audit[0] - 1].digest.hex() == self.audit[1]
        numbers = {row.name: row.number for row in held["meta"]}
        assert numbers.get("lists", 0) >= self.sequence


def one_life(file: Path, life: int, output: Path, *, lines: int, seconds: float) -> list[str]:
    """Run a domain until it is killed, some time after so many lines; return the whole lines it printed."""
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
    with output.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(path=path), str(file), str(life)], stdout=out
        )
        try:
            while output.read_bytes().count(b"\n") <= lines:  # the first says that it is ready
                assert child.poll() is None, "the domain ended by itself"
                time.sleep(0.02)
            time.sleep(seconds)
        finally:
            child.kill()
            child.wait()
    return output.read_text().split("\n")[:-1]
