"""The disk of a broker's event log fails (EIO), or may not be written (EROFS): only recording stops."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import maia
from maia.log.disk.event_log import EventLog
from maia.testing import Program, Server, wait_until
from maia.testing.processes import start_program
from support.processes import maia as command
from support.processes import running_maia

FAULTS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is done to files in $FAULTY_FOLDER fails with the number in the file $FAULT, while that is there. */
static int fault(int number) {
    char name[64], path[4096] = {0}, said[8] = {0};
    snprintf(name, sizeof name, "/proc/self/fd/%d", number);
    if (readlink(name, path, sizeof path - 1) < 0 || !strstr(path, getenv("FAULTY_FOLDER"))) return 0;
    int file = open(getenv("FAULT"), O_RDONLY);
    if (file < 0) return 0;
    if (read(file, said, sizeof said - 1) < 0) said[0] = 0;
    close(file);
    return atoi(said);
}
#define FAILING(kind, name, given, handed) \
    kind name given { \
        int found = fault(fd); \
        if (found) { errno = found; return -1; } \
        return ((kind (*) given) dlsym(RTLD_NEXT, #name)) handed; \
    }
FAILING(int, fsync, (int fd), (fd))
FAILING(int, fdatasync, (int fd), (fd))
FAILING(int, ftruncate, (int fd, off_t to), (fd, to))
FAILING(int, ftruncate64, (int fd, off_t to), (fd, to))
FAILING(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
FAILING(ssize_t, pwrite64, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that is put between a process and its disk."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler here, or another system than Linux")
    source = tmp_path_factory.mktemp("faults") / "faults.c"
    source.write_text(FAULTS)
    made = source.with_suffix(".so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made


def test_a_disk_that_fails_stops_recording_and_nothing_else(tmp_path: Path, faults: Path) -> None:
    hospital = maia.Organisation.create(tmp_path / "hospital")
    hospital.define("LabResult", ward="string")
    hospital.add_member("lab", may="publish:LabResult")
    hospital.add_member("office", may="subscribe:LabResult")
    fault, data = tmp_path / "fault", hospital.folder / "broker-data"
    log = hospital.folder / "log"

    def begin(words: Sequence[object], cwd: Path, variables: Mapping[str, str], to: Sequence[int]) -> Program:
        more = {"LD_PRELOAD": str(faults), "FAULTY_FOLDER": str(log), "FAULT": str(fault)}
        return start_program(words, cwd, {**variables, **more}, to)

    broker = Server(("broker", "--config", "../broker.toml"), hospital.folder / "broker-output", begin)
    output = hospital.folder / "domain-output"
    output.mkdir()
    try:
        broker.ready()
        with (
            running_maia("domain", "serve", "--config", "../domain.toml", cwd=output),
            maia.connect(hospital.folder / "lab.maia", timeout_s=60) as lab,
            maia.connect(hospital.folder / "office.maia", timeout_s=60) as office,
        ):
            stream = office.subscribe("LabResult", timeout_s=60)

            def seen() -> str:
                (event,) = stream.some(1, timeout_s=60)
                return str(event["ward"])

            lab.publish("LabResult", ward="before", timeout_s=60)
            assert seen() == "before"
            for number in (errno.EIO, errno.EROFS):
                fault.write_text(str(number))
                with pytest.raises(maia.Unavailable) as told:
                    lab.publish("LabResult", ward=f"during {number}", timeout_s=5)
                assert told.value.code == "UNAVAILABLE-LOG-FULL"
                assert seen() == f"during {number}", "a live subscriber does not wait for the disk"
                status = command("status", "--data", data, cwd=tmp_path)
                assert "not recorded         the event log cannot" in status.stdout, status
                fault.unlink()
                lab.publish("LabResult", ward=f"after {number}", timeout_s=60)
                assert seen() == f"after {number}"
            wait_until(lambda: "not recorded" not in command("status", "--data", data, cwd=tmp_path).stdout)
        assert broker.process.poll() is None
        assert broker.output.count("listening on") == 1
        broker.process.terminate()
        assert broker.process.wait(60) == 0
    finally:
        broker.process.kill()
    assert broker.errors.count('"log-goes-on"') == 2
    with EventLog.open(log) as found:
        assert len(list(found.read())) == 5
