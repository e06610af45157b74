"""The numberplate story of the dissertation (1.2.2, 3.7, 5.2, 6.1.1) as `make demo` tells it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from maia.broker.server.server import TapFile
from maia.demo.numberplate import CARRIER, DETECTIVE, STORY, SUSPECT, carried_by, found_in, words_to_look_for
from maia.demo.report import Showing
from maia.demo.stage import Stage, play
from maia.demo.world import HEARD, world_at_work
from maia.events import Instant
from maia.testing import wait_until
from support.nursery import maia_command
from support.processes import Answer, maia, running_maia

BILLING, STATISTICS = "billing office", "statistics office"


@pytest.fixture(scope="module")
def demonstrated() -> dict:
    """Run the demonstration over real processes, with Spark."""
    command = [maia_command(), "demo", "--spark", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_the_network_delivers_what_the_kernel_says_although_a_broker_is_killed(demonstrated) -> None:
    """B4, K2: sealed events over four organisations; a reader's broker dies, and no subscription is lost."""
    assert demonstrated["failed"] == []
    readers = demonstrated["readers"]
    assert {who: one["delivered"] for who, one in readers.items()} == {
        BILLING: 2005, STATISTICS: 2005, DETECTIVE: 9
    }  # fmt: skip
    assert (readers[BILLING]["values"]["location"], readers[STATISTICS]["values"]["numberplate"]) == (0, 0)
    assert readers[DETECTIVE]["values"]["numberplate"] == 1
    assert demonstrated["repaired_s"] > 0
    assert all(one["disclosed"] > one["delivered"] for one in readers.values()), "in the ledgers, probes too"


def test_each_reader_sees_exactly_its_part_and_a_camera_is_where_its_certificate_says(demonstrated) -> None:
    before, after = demonstrated["close_up"]
    assert before["event"]["location"] == "Victoria", "the camera wrote Euston"
    seen = {who: (one["numberplate"], one["location"]) for who, one in before["seen"].items()}
    assert seen == {
        BILLING: (SUSPECT, None),
        STATISTICS: (None, "Victoria"),
        DETECTIVE: (SUSPECT, "Victoria"),
    }
    assert after["seen"].keys() == {BILLING, STATISTICS}


def test_a_court_order_is_revoked_and_the_detectives_stream_ends_while_billing_goes_on(demonstrated) -> None:
    """P7, A35: over the Met's HTTP interface, the network, and the detective's own broker."""
    revocation = demonstrated["revocation"]
    assert (revocation["code"], revocation["suspect_seen"]) == ("POLICY-REVOKED", 8)
    assert revocation["delay_ms"] > 0
    assert revocation["after"] == {BILLING: 1001, STATISTICS: 1001, DETECTIVE: 0}


def test_those_who_try_for_more_are_refused_by_brokers(demonstrated) -> None:
    assert list(demonstrated["refused"].values()) == [
        "POLICY-ATTRIBUTE-NOT-READABLE", "POLICY-NO-CHAIN", "POLICY-REVOKED"
    ]  # fmt: skip


def test_each_office_finds_in_the_log_what_it_saw_live_and_makes_the_same_of_both(demonstrated) -> None:
    """D10: the log was recorded sealed, by the very network; a broker died in between."""
    tables = {one["reader"]: one for one in demonstrated["tables"]}
    for office, columns, application in (
        (BILLING, ["numberplate", "timestamp"], "billing"),
        (STATISTICS, ["location", "timestamp"], "statistics"),
    ):
        one = tables[office]
        assert (one["rows"], one["columns"], one["application"]) == (2005, columns, application)
        assert (one["is_same"], one["is_as_received"], one["results_same"]) == (True, True, True)
        assert one["results"] > 100


def test_the_log_is_no_way_around_a_revocation(demonstrated) -> None:
    """A44: the detective saw some of these events live, and reads none of them now."""
    detective = demonstrated["tables"][-1]
    assert (detective["reader"], detective["refused"]) == (DETECTIVE, "POLICY-REVOKED")
    assert (detective["rows"], detective["columns"]) == (0, [])


def test_no_place_was_ever_in_what_spark_made_for_the_billing_office(demonstrated) -> None:
    assert demonstrated["places"] == {"billing": 0, "statistics": 20}


def test_a_broker_without_rights_carries_the_events_and_can_read_nothing(demonstrated) -> None:
    """Computed from every byte that its process received and kept."""
    carrier = demonstrated["carrier"]
    assert carrier["found"] == []
    assert carrier["events"] >= 4, "it was not on the way"
    # The same search finds every word where it may be read.
    assert carrier["found_elsewhere"] == carrier["looked_for"] > 3000


def test_neither_the_broker_in_the_middle_nor_the_key_server_is_missed(tmp_path: Path) -> None:
    """The rendezvous of a sealed type dies, then the key server, then a reader's broker: none is lost."""

    def kill_three(stage: Stage) -> None:
        for name in ("broker of highways", "server of pito", "offices of ccs"):
            stage.world.children[name].kill()
            stage.settle()

    with world_at_work(replace(STORY, acts=(kill_three,)), tmp_path) as world:
        assert play(world, Showing(0.0, quiet=True), keep=True).broken == []


def test_every_command_of_the_playground_can_be_typed_and_all_processes_end_with_it() -> None:
    """`--keep` prints commands for the profile of each person; here they are typed, one by one."""
    with started("demo", "--keep") as demo:
        try:
            printed = _lines_until(demo, "status --data")
            shown = printed[: next(at for at, line in enumerate(printed) if line.startswith("Next:"))]
            assert (len(shown) <= 50, max(map(len, shown)) <= 80) == (True, True), "\n".join(printed)
            processes = _children_of(demo.pid)
            folder = Path(next(line for line in printed if line.startswith("cd "))[3:])
            typing = printed.index(f"cd {folder}")
            _type_all(folder, [found[1] for one in printed[typing:] if (found := _COMMAND.match(one))])
            demo.send_signal(signal.SIGINT)
            assert demo.wait(180) == 130
        finally:
            demo.kill()
    assert len(processes) == 8
    assert not [pid for pid in processes if _is_there(pid)]
    assert not folder.exists()


_COMMAND = re.compile(r"(?:\S*maia|python -m maia\.cli) (.*)")


def _type_all(folder: Path, commands: list[str]) -> None:
    billing, statistics, smith, publish, explain, revoke, appoint, status = commands
    for words, hidden in ((billing, "location"), (statistics, "numberplate")):
        answer = typed(folder, words)
        events = [json.loads(line) for line in answer.stdout.splitlines()]
        assert [(len(one), one[hidden]) for one in events] == [(3, None)] * 3, answer
    with running_maia(*shlex.split(smith), cwd=folder) as stream:
        wait_until(lambda: read(folder / "out.log") != "")  # from now on there is a way to her broker
        assert typed(folder, publish).returncode == 0
        wait_until(lambda: '"Victoria"' in read(folder / "out.log"))
        assert typed(folder, explain).stdout.startswith("no [POLICY-ATTRIBUTE-NOT-READABLE]")
        assert "the broker has acted on it" in typed(folder, revoke).stdout
        assert stream.wait(60) == 3
    assert "POLICY-REVOKED" in read(folder / "err.log")
    seen = [json.loads(line) for line in read(folder / "out.log").splitlines()]
    assert {event["numberplate"] for event in seen} == {SUSPECT}
    order, login = appoint.split(" && ")
    assert typed(folder, order).returncode == 0
    assert "np_tracker(AE05 XYZ)" in typed(folder, _COMMAND.match(login)[1]).stdout
    assert typed(folder, f"{smith} --count 1").returncode == 0
    assert "pito" in typed(folder, status).stdout


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_demonstration_that_is_ended_leaves_no_process(number: signal.Signals, status: int) -> None:
    with started("demo") as demo:
        try:
            _lines_until(demo, "each a process")
            processes = _children_of(demo.pid)
            demo.send_signal(number)
            assert demo.wait(180) == status
        finally:
            demo.kill()
    assert len(processes) == 8
    wait_until(lambda: not [pid for pid in processes if _is_there(pid)], within_s=60)


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "maia.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def typed(folder: Path, words: str) -> Answer:
    """Run a command as it was printed; it ends by itself."""
    answer = maia(*shlex.split(words), cwd=folder)
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _lines_until(demo: subprocess.Popen[str], last: str) -> list[str]:
    printed = []
    for line in demo.stdout or ():
        printed.append(line.rstrip("\n"))
        if last in line:
            return printed
    raise AssertionError("\n".join(printed))


def _children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


NOON = Instant.parse("2026-11-15T12:00:00Z")
KEY = SimpleNamespace(principal=SimpleNamespace(key=bytes(range(32))))


def test_the_search_would_notice_whatever_must_not_be_there(tmp_path: Path) -> None:
    """Each word, in each way of writing it, in a file that is kept or among what was received."""
    sighting = {"numberplate": "LB02 KRT", "timestamp": NOON, "location": None}
    published = [SimpleNamespace(is_probe=False, event=sighting)]
    members = dict.fromkeys(("billing", "statistics", "smith"), KEY)
    words = words_to_look_for(SimpleNamespace(members=members, published=published))
    assert {"Numberplate", "LB02 KRT", str(NOON), "the key of smith"} <= words.keys()
    for word, ways in words.items():
        for way in ways:
            (file := tmp_path / "kept").write_bytes(b"\x00\x01" + way + b"\x02")
            assert word in found_in([file], words)[0]
    file.write_bytes(b"nothing")
    assert found_in([file], words) == (set(), 7)


def test_a_record_that_is_not_whole_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / CARRIER).mkdir()
    with TapFile(tmp_path / CARRIER / HEARD, bytes_max=4) as full:
        full.write(b"longer than that")
    with pytest.raises(AssertionError, match="not everything"):
        list(carried_by(tmp_path / CARRIER))
