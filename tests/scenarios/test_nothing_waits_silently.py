"""Each way in which an event cannot arrive, as the person who would wait meets it: in a shell, and in Python.

One organisation with its real servers. A broker without a key of a sealed type, without a link to the
network or without a key server is in `test_a_broker_that_cannot_serve.py`.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

import maia
from maia import clock
from maia.testing import wait_until
from support.nursery import maia_command
from support.processes import maia as command
from support.processes import running_maia


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> maia.Organisation:
    """A hospital whose lab publishes and whose office reads; a ward reads by a right that was passed on."""
    made = maia.Organisation.create(tmp_path_factory.mktemp("home") / "hospital")
    made.define("LabResult", ward="string", value="int")
    made.add_member("lab", may="publish:LabResult")
    made.add_member("office", may="subscribe:LabResult")
    made.add_member("ward")
    home, about = made.folder, ("-d", "types/LabResult.type", "--action", "subscribe", "--days", 2)
    for words in (
        ("key", "new", "middle.key"),
        ("cert", "issue", "-k", "hospital.key", "--subject", "middle.pub", *about, "--may-delegate", "-o",
         "ward.maia/certs/to-middle.cert"),
        ("cert", "issue", "-k", "middle.key", "--subject", "ward", *about, "-o",
         "ward.maia/certs/to-ward.cert"),
    ):  # fmt: skip
        answer = command(*words, cwd=home)
        assert answer.returncode == 0, answer.stderr
    for file in (home / "types").glob("*.type"):
        (home / "ward.maia" / "types" / file.name).write_text(file.read_text())
    return made


@contextmanager
def serving(ours: maia.Organisation, name: str, *words: str) -> Iterator[None]:
    """Run one server of an organisation, from the moment at which it listens."""
    folder = ours.folder / f"{name}-output"
    folder.mkdir(exist_ok=True)
    out = folder / "out.log"
    before = out.read_text().count("listening") if out.exists() else 0
    with running_maia(*words, "--config", ours.folder / f"{name}.toml", cwd=folder):
        wait_until(lambda: out.exists() and out.read_text().count("listening") > before)
        yield


def broker(ours: maia.Organisation) -> AbstractContextManager[None]:
    return serving(ours, "broker", "broker")


@pytest.fixture(scope="module")
def served(hospital: maia.Organisation) -> Iterator[maia.Organisation]:
    with serving(hospital, "domain", "domain", "serve"):
        yield hospital


class Waiting:
    """`maia subscribe`, or `publish`, of a member, and what it has said on standard error so far."""

    def __init__(self, ours: maia.Organisation, file: Path, *words: str) -> None:
        self.file = file
        with file.open("w") as err:
            self.process = subprocess.Popen(
                [str(maia_command()), *words], cwd=ours.folder, stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=err, text=True,
            )  # fmt: skip

    def says(self, sentence: str) -> None:
        try:
            wait_until(lambda: sentence in self.file.read_text(), within_s=60)
        except AssertionError:
            raise AssertionError(f"`{sentence}` was not said, but: {self.file.read_text()}") from None

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_right_for_which_no_statement_comes_is_told_to_both_sides(
    hospital: maia.Organisation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The domain's server does not run, so that nobody says whether the certificates were revoked."""
    why = "UNAVAILABLE-STATEMENT-AWAITED"
    with (
        broker(hospital),
        Waiting(hospital, tmp_path / "read", "subscribe", "LabResult", "--as", "office") as office,
        Waiting(hospital, tmp_path / "write", "publish", "LabResult", "--as", "lab") as lab,
        maia.connect(hospital.folder / "lab.maia") as program,
    ):
        with pytest.raises(maia.Unavailable) as raised:
            program.publish("LabResult", value=1, timeout_s=3)
        assert raised.value.code == why
        wait_until(lambda: why in caplog.text)
        office.says(f"[{why}]")
        lab.says(f"[{why}]")


def test_a_broker_that_goes_and_comes_back_is_told_to_both_sides(
    served: maia.Organisation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="maia")
    with ExitStack() as stack:
        with broker(served):
            asked = (tmp_path / "read", "subscribe", "LabResult", "--as", "office")
            office = stack.enter_context(Waiting(served, *asked))
            lab = stack.enter_context(
                Waiting(served, tmp_path / "write", "publish", "LabResult", "--as", "lab")
            )
            program = stack.enter_context(maia.connect(served.folder / "office.maia"))
            subscription = program.subscribe("LabResult")
            writer = stack.enter_context(maia.connect(served.folder / "lab.maia"))
            writer.publish("LabResult", value=0)
            assert next(iter(subscription))["value"] == 0
            office.says("subscribed to LabResult")
            assert lab.process.stdin is not None
            lab.process.stdin.write('{"value": 1}\n')
            lab.process.stdin.flush()
            assert next(iter(subscription))["value"] == 1
        office.says("; trying again [UNAVAILABLE-")
        lab.says("; trying again [UNAVAILABLE-")
        with pytest.raises(maia.Unavailable, match="within 1 seconds, and still under way: ") as late:
            writer.publish("LabResult", value=2, timeout_s=1)
        assert "trying again" not in str(late.value)
        wait_until(lambda: subscription.warning is not None and subscription.warning.code in caplog.text)
        with broker(served):
            office.says("maia: events can arrive again")
            lab.says("maia: events can be sent on again")
            wait_until(lambda: subscription.warning is None and "arrive again" in caplog.text)


AT_ONCE = {
    "no right": (
        ("--as", "lab"), 3, "maia: you may not subscribe to `LabResult`: ", "--action subscribe` says why"
    ),
    "another network": (("--as", "office", "--network", "elsewhere"), 5, "`elsewhere`: compare the names"),
}  # fmt: skip


def test_what_can_never_arrive_is_refused_at_once(
    served: maia.Organisation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with broker(served):
        for words, status, *sentences in AT_ONCE.values():
            answer = command("subscribe", "LabResult", *words, "--wait", 60, cwd=served.folder)
            assert [one for one in sentences if one not in answer.stderr] == [], answer.stderr
            assert answer.returncode == status
        revoked_further_up(served, tmp_path)
        for ahead_s in (3600, -3600):
            with monkeypatch.context() as patched:
                clock_is_off(served, ahead_s, patched)


def clock_is_off(ours: maia.Organisation, ahead_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is wrong is what a person reads of, whoever finds out first."""
    real = time.time_ns
    monkeypatch.setattr(clock.time, "time_ns", lambda: real() + ahead_s * 1_000_000_000)
    answer = command("subscribe", "LabResult", "--as", "office", "--wait", 60, cwd=ours.folder)
    assert ("clock" in answer.stderr, answer.returncode) == (True, 3), answer.stderr
    with pytest.raises(maia.Refusal, match="clock"), maia.connect(ours.folder / "lab.maia") as lab:
        lab.publish("LabResult", value=1)


def revoked_further_up(ours: maia.Organisation, tmp_path: Path) -> None:
    """A right ends with the certificate that it was passed on from, for a command and for a program."""
    with (
        maia.connect(ours.folder / "ward.maia") as program,
        Waiting(ours, tmp_path / "ward", "subscribe", "LabResult", "--as", "ward") as ward,
    ):
        subscription = program.subscribe("LabResult")
        ward.says("subscribed to LabResult")
        revoke = ("cert", "revoke", "ward.maia/certs/to-middle.cert", "-k", "hospital.key")
        revoked = command(*revoke, "--server", ours.addresses["server"], cwd=ours.folder)
        assert revoked.returncode == 0, revoked.stderr
        ward.says("[POLICY-REVOKED]")
        assert ward.process.wait(60) == 3
        with pytest.raises(maia.Refusal):
            next(iter(subscription))
