"""The disk of a broker fails (EIO), is full (ENOSPC) or read-only (EROFS): what needs it stops alone."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import maia
from chaos.shim import Control, NoShim, compiled
from maia.log.disk.event_log import EventLog
from maia.testing import Program, Server, wait_until
from maia.testing.processes import start_program
from support.processes import maia as command
from support.processes import running_maia

FAULTS = (errno.EIO, errno.ENOSPC, errno.EROFS)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that is put between a process and its disk."""
    try:
        return compiled(tmp_path_factory.mktemp("shim"))
    except NoShim as why:
        pytest.skip(str(why))


class Hospital:
    """An organisation whose broker sees a disk that fails, in one of its folders."""

    def __init__(self, folder: Path, shim: Path, *, failing: str = ".") -> None:
        self.ours = maia.Organisation.create(folder / "hospital")
        self.ours.define("LabResult", ward="string")
        self.ours.add_member("lab", may="publish:LabResult")
        self.ours.add_member("office", may="subscribe:LabResult")
        self.data = self.ours.folder / "broker-data"
        self.disk = Control(shim, folder / "control", (self.ours.folder / failing).resolve())
        words = ("broker", "--config", self.ours.folder / "broker.toml")
        self.broker = Server(words, folder / "broker", self._begin)
        self.domain_output = folder / "domain"
        self.domain_output.mkdir()

    def _begin(
        self, words: Sequence[object], cwd: Path, variables: Mapping[str, str], to: Sequence[int]
    ) -> Program:
        return start_program(words, cwd, {**variables, **self.disk.environment}, to)

    def status(self) -> str:
        return command("status", "--data", self.data, cwd=self.domain_output).stdout

    def profile(self, member: str) -> Path:
        return self.ours.folder / f"{member}.maia"


def test_a_disk_that_fails_stops_recording_and_nothing_else(tmp_path: Path, shim: Path) -> None:
    hospital = Hospital(tmp_path, shim, failing="log")
    broker = hospital.broker
    try:
        broker.ready()
        with (
            running_maia(
                "domain",
                "serve",
                "--config",
                hospital.ours.folder / "domain.toml",
                cwd=hospital.domain_output,
            ),
            maia.connect(hospital.profile("lab"), timeout_s=60) as lab,
            maia.connect(hospital.profile("office"), timeout_s=60) as office,
        ):
            stream = office.subscribe("LabResult", timeout_s=60)

            def seen() -> str:
                (event,) = stream.some(1, timeout_s=60)
                return str(event["ward"])

            lab.publish("LabResult", ward="before", timeout_s=60)
            assert seen() == "before"
            for number in FAULTS:
                hospital.disk.show(error=number)
                with pytest.raises(maia.Unavailable) as told:
                    lab.publish("LabResult", ward=f"during {number}", timeout_s=5)
                assert told.value.code == "UNAVAILABLE-LOG-FULL"
                assert seen() == f"during {number}", "a live subscriber does not wait for the disk"
                assert "not recorded" in hospital.status()
                hospital.disk.show()
                lab.publish("LabResult", ward=f"after {number}", timeout_s=60)
                assert seen() == f"after {number}"
            wait_until(lambda: "not recorded" not in hospital.status())
        assert broker.process.poll() is None
        assert broker.output.count("listening on") == 1
        broker.process.terminate()
        assert broker.process.wait(60) == 0
    finally:
        broker.kill()
    assert broker.errors.count('"log-goes-on"') == len(FAULTS)
    with EventLog.open(hospital.ours.folder / "log") as found:
        assert len(list(found.read())) == 1 + 2 * len(FAULTS)


def test_a_disk_of_log_and_data_that_fails_takes_no_new_request_and_ends_nothing(
    tmp_path: Path, shim: Path
) -> None:
    hospital = Hospital(tmp_path, shim)
    broker = hospital.broker
    try:
        broker.ready()
        with (
            running_maia(
                "domain",
                "serve",
                "--config",
                hospital.ours.folder / "domain.toml",
                cwd=hospital.domain_output,
            ),
            maia.connect(hospital.profile("lab"), timeout_s=60) as lab,
            maia.connect(hospital.profile("office"), timeout_s=60) as office,
        ):
            lab.publish("LabResult", ward="before", timeout_s=60)
            stream = office.subscribe("LabResult", timeout_s=60)
            for number in FAULTS:
                hospital.disk.show(error=number)
                with maia.connect(hospital.profile("office"), timeout_s=60) as late:
                    for name in (None, f"archive-{number}"):
                        with pytest.raises(maia.Unavailable, match="ask again later") as told:
                            late.subscribe("LabResult", durable=name, timeout_s=60)
                        assert told.value.code == "UNAVAILABLE-STORE"
                    assert "not kept" in hospital.status()
                    with pytest.raises(maia.Unavailable):
                        lab.publish("LabResult", ward=f"during {number}", timeout_s=2)
                    (event,) = stream.some(1, timeout_s=60)
                    assert event["ward"] == f"during {number}", "what was accepted before goes on"
                    hospital.disk.show()
                    wait_until(lambda: not re.search("not kept|not recorded", hospital.status()))
                    late.subscribe("LabResult", durable=f"archive-{number}", timeout_s=60)
                lab.publish("LabResult", ward=f"after {number}", timeout_s=60)
                (event,) = stream.some(1, timeout_s=60)
                assert event["ward"] == f"after {number}"
            assert broker.process.poll() is None
            assert broker.output.count("listening on") == 1
            broker.kill()
            broker.begin()
            broker.ready()
            for number in FAULTS:
                archive = office.subscribe("LabResult", durable=f"archive-{number}", timeout_s=60)
                (event,) = archive.some(1, timeout_s=60)
                assert event["ward"] == f"after {number}", "what was accepted is kept"
    finally:
        broker.kill()
    assert broker.errors.count('"store-failed"') == broker.errors.count('"store-goes-on"') == len(FAULTS)
