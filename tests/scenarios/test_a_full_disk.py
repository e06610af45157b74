"""The disk of a broker's event log is full: publishers read why, lists go on, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import maia
from maia.net.status_endpoint import fetch_status, read_door
from maia.testing import wait_until
from support.processes import running_maia

PERIOD_S, LEAD_S = 6, 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_publishers_read_that_the_log_is_full_and_lists_go_on(tmp_path: Path, disk: Path) -> None:
    hospital = maia.Organisation.create(tmp_path / "hospital")
    hospital.define("LabResult", ward="string")
    hospital.add_member("lab", may="publish:LabResult")
    hospital.add_member("office", may="subscribe:LabResult")
    (hospital.folder / "broker.toml").write_text(f'[log]\nfolder = "{disk / "log"}"\n')
    (hospital.folder / "domain.toml").write_text(f"[statements]\nperiod_s = {PERIOD_S}\nlead_s = {LEAD_S}\n")
    with ExitStack() as stack:
        for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
            output = hospital.folder / f"{name}-output"
            output.mkdir()
            stack.enter_context(running_maia(*words, "--config", f"../{name}.toml", cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        lab = stack.enter_context(maia.connect(hospital.folder / "lab.maia"))
        lab.publish("LabResult", ward="before")
        filler = disk / "filler"
        fill(filler)

        def reads_why() -> bool:
            try:
                lab.publish("LabResult", ward="while full" * 10_000, timeout_s=3)
            except maia.Unavailable as problem:
                return problem.code == "UNAVAILABLE-LOG-FULL"
            return False

        wait_until(reads_why)
        (line,) = [one for one in notes(hospital, "broker") if one["event"] == "log-full"]
        assert line["level"] == "warning"
        assert ready(hospital) == (
            503,
            "not ready: nothing is recorded: the event log cannot write: No space left on device\n",
        )
        carried = statements_carried(hospital)
        wait_until(lambda: statements_carried(hospital) >= carried + 2)  # more than one period
        with maia.connect(hospital.folder / "office.maia") as office:
            seen = iter(office.subscribe("LabResult"))
            assert not [one for one in notes(hospital, "domain") if one["level"] == "warning"]
            filler.unlink()
            lab.publish("LabResult", ward="after")
            while next(seen)["ward"] != "after":
                pass
        wait_until(lambda: ready(hospital)[0] == 200)


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def notes(hospital: maia.Organisation, server: str) -> list[dict[str, str]]:
    text = (hospital.folder / f"{server}-output" / "err.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


def statements_carried(hospital: maia.Organisation) -> int:
    found = fetch_status(read_door(hospital.folder / "domain-data"))["statements_carried"]
    assert isinstance(found, int)
    return found


def ready(hospital: maia.Organisation) -> tuple[int, str]:
    address = read_door(hospital.folder / "broker-data").address
    try:
        with urllib.request.urlopen(f"http://{address}/ready", timeout=180) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
