"""P9 in processes: a role that is activated and used from one network, or at one computer.

A relay with another address of this machine is the laptop that leaves the ward.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import maia
from maia.profile import find_profile
from maia.testing import wait_until
from support.line import Line
from support.processes import maia as command
from support.processes import running_maia

POLICY = """policy "County hospital"
key ward_pc = {computer}
fact works_here(who: principal)
role porter
role nurse
rule porter
    while works_here(holder)
    where address in {network}
    for 1 day
rule nurse
    while works_here(holder)
    where computer == ward_pc
grant porter
    may subscribe to Alarm(place, ward)
grant nurse
    may publish Note(text)
end
"""


def done(home: Path, *words: object) -> str:
    answer = command(*words, cwd=home)
    assert answer.returncode == 0, (words, answer.stdout, answer.stderr)
    return answer.stdout


def load(home: Path, network: str) -> None:
    text = POLICY.format(computer=(home / "pc.pub").read_text().strip(), network=network)
    (home / "hospital.policy").write_text(text)
    done(home, "domain", "policy", "load", "hospital.policy", "--as", "hospital")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hospital")
    for words in (
        ("org", "new", "hospital"),
        ("type", "define", "Alarm", "place:string", "ward:string", "--org", "hospital"),
        ("type", "define", "Note", "text:string", "--org", "hospital"),
        ("member", "add", "desk", "--may", "publish:Alarm", "--may", "subscribe:Note", "--org", "hospital"),
        ("member", "add", "ann", "--org", "hospital"),
        ("key", "new", "pc.key"),
    ):
        done(folder, *words)
    with ExitStack() as stack:
        for name, words in (("domain", ("domain", "serve")), ("broker", ("broker",))):
            output = folder / "hospital" / f"{name}-output"
            output.mkdir()
            config = ("--config", folder / "hospital" / f"{name}.toml")
            stack.enter_context(running_maia(*words, *config, cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        load(folder, "127.0.0.1")
        ann = "hospital/ann.maia/ann.pub"
        done(folder, "domain", "fact", "assert", "works_here", ann, "--as", "hospital")
        yield folder


def test_a_role_is_used_from_its_network_and_from_nowhere_else(home: Path, monkeypatch) -> None:
    monkeypatch.chdir(home)
    done(home, "login", "--as", "ann")
    with maia.connect("desk") as desk, maia.connect("ann") as ann:
        alarms = ann.subscribe("Alarm")
        desk.publish("Alarm", place="CB3 0FD", ward="A")
        assert alarms.some(timeout_s=60)[0]["ward"] == "A"
    (broker,) = find_profile("ann").brokers()
    host, _, port = broker.rpartition("@")[2].rpartition(":")
    with (
        closing(Line(int(port), host=host, comes_from="127.0.0.7")) as laptop,
        maia.connect("ann", address=laptop.address) as ann,
        pytest.raises(maia.Refusal, match="condition"),
    ):
        ann.subscribe("Alarm")  # the same key and wallet, from another address


def test_from_another_network_the_role_is_not_activated(home: Path) -> None:
    load(home, "10.2.0.0/16")
    refused = command("login", "--as", "ann", cwd=home)
    assert (refused.returncode, "REFUSED-LOGIN" in refused.stderr) == (3, True), refused
    load(home, "127.0.0.1")
    assert "porter" in done(home, "login", "--as", "ann")


def test_a_role_at_a_computer_is_there_for_as_long_as_the_computer_says(home: Path, monkeypatch) -> None:
    """The computer's key signs who is at it; the role, and its right, end with that word."""
    monkeypatch.chdir(home)
    ann = "hospital/ann.maia/ann.pub"
    assert "nurse" not in done(home, "login", "--as", "ann")
    done(home, "key", "new", "other.key")
    done(home, "cert", "at-computer", "-k", "other.key", "--subject", ann, "-o", "other.appointment")
    assert "nurse" not in done(home, "login", "--as", "ann", "--show", "other.appointment")
    done(home, "cert", "at-computer", "-k", "pc.key", "--subject", ann, "-o", "here.appointment")
    assert "nurse" in done(home, "login", "--as", "ann", "--show", "here.appointment")
    with maia.connect("desk") as desk, maia.connect("ann") as nurse:
        notes = desk.subscribe("Note")
        nurse.publish("Note", text="seen")
        assert notes.some(timeout_s=60)[0] == {"text": "seen"}
