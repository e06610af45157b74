"""What `maia publish` and `maia subscribe` say when something is wrong, over real sockets and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from maia.testing import wait_until
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.nursery import maia_command
from support.processes import Answer, maia, running_maia

GOOD = 10


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network with one broker, one publisher and one reader, as files."""
    folder = tmp_path_factory.mktemp("city")
    make_keys(folder, "broker", "camera", "reader")
    lets_connect(folder, "broker", "camera", "reader")
    words = ("type", "define", "-k", "pito.key", "--name", "Numberplate", "-a", "numberplate:string")
    assert maia(*words, "-o", "np.type", cwd=folder).returncode == 0
    issue(folder, "reader", "subscribe", "-d", "np.type")
    issue(folder, "camera", "publish", "-d", "np.type")
    (folder / "broker.toml").write_text(config("broker"))
    return folder


def member(who: str, action: str, address: str, *words: object) -> list[str]:
    about = ("--network", NETWORK, "--coordinator", "pito.pub", "--broker", address, "--wait", 60)
    command = (action, "-d", "np.type", "-k", f"{who}.key", "--credentials", f"{who}-certs", *about, *words)
    return [str(maia_command()), *map(str, command)]


def lines(count: int) -> str:
    return "".join(json.dumps({"numberplate": f"AE05 {number}"}) + "\n" for number in range(count))


def published_from(folder: Path, address: str, text: bytes) -> tuple[Answer, list[str]]:
    """Publish what is on standard input; return the answer, and what a reader had of it."""
    words = ("--count", GOOD, "--for", 120)
    with subprocess.Popen(
        member("reader", "subscribe", address, *words),
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stderr is not None
        assert "subscribed" in reader.stderr.readline()
        # An interpreter of its own, which reads how its input is encoded.
        done = subprocess.run(
            [sys.executable, "-m", "maia.cli", *member("camera", "publish", address)[1:]],
            cwd=folder, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
            input=text, capture_output=True, check=False,
        )  # fmt: skip
        heard, _ = reader.communicate()
    answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
    return answer, [json.loads(line)["numberplate"] for line in heard.splitlines()]


BAD = {
    "not JSON": (b"nonsense\n", "event 11: `nonsense` is not a line of JSON"),
    "of another kind": (b'{"numberplate": 5}\n', "event 11: `numberplate` is of kind string, and `5` is not"),
    "not text": (b'"\xff\xfe"\n', 'event 11: `"\\xff\\xfe"` is not a line of JSON'),
}


@pytest.mark.parametrize("bad", BAD)
def test_good_events_before_a_bad_line_are_published_and_counted(
    city: Path, tmp_path: Path, bad: str
) -> None:
    subprocess.run(["cp", "-r", f"{city}/.", str(tmp_path)], check=True)
    line, sentence = BAD[bad]
    with running_maia("broker", "-c", "broker.toml", cwd=tmp_path):
        answer, heard = published_from(tmp_path, address_of(tmp_path), lines(GOOD).encode() + line)
    assert heard == [f"AE05 {number}" for number in range(GOOD)]
    assert f"{sentence}; the {GOOD} before it were published [INPUT-EVENT]" in answer.stderr
    assert answer.returncode == 2


def test_ctrl_c_says_how_many_went_out(city: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", f"{city}/.", str(tmp_path)], check=True)
    with running_maia("broker", "-c", "broker.toml", cwd=tmp_path):
        address = address_of(tmp_path)
        with (
            (tmp_path / "heard").open("w") as heard,
            subprocess.Popen(
                member("reader", "subscribe", address),
                cwd=tmp_path, stdout=heard, stderr=subprocess.PIPE, text=True,
            ) as reader,
            subprocess.Popen(
                member("camera", "publish", address),
                cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ) as camera,
        ):  # fmt: skip
            assert reader.stderr is not None
            assert camera.stdin is not None
            assert camera.stderr is not None
            assert "subscribed" in reader.stderr.readline()
            camera.stdin.write(lines(GOOD))
            camera.stdin.flush()
            wait_until(lambda: (tmp_path / "heard").read_text().count("\n") == GOOD)
            os.kill(camera.pid, signal.SIGINT)
            said = camera.stderr.read()
            reader.kill()
    assert said == f"maia: {GOOD} of {GOOD} events had been published\nmaia: interrupted\n"
    assert camera.returncode == 130
