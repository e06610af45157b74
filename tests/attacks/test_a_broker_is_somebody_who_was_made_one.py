"""A118: keys that nobody has made a broker run one, in a program that does not ask itself whether it may be.

A hospital publishes; an auditor's organisation was invited, and a clerk of the hospital's may see drugs
alone. Each key runs a broker that records what it is sent, within the organisation or beyond a border: with
its own certificates, and with those of a true broker beside them. None becomes a neighbour; nothing is sent
to it, recorded by it, retained, caught up with or announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pytest

import maia
from maia.credentials import Action, TestKind
from maia.testing import Issuer, Program, wait_until
from support.numberplate import Net, camera_and_reader, sighting
from support.process_memory import memory_of
from support.processes import maia as command
from support.processes import running_maia

REFUSED = "REFUSED-NOT-A-BROKER"
INSIDE, BEYOND = "hospital/broker-certs", "audit/broker-certs"
SELF_MADE = {
    "B1: the key of an invited organisation": ("audit/audit.key", [BEYOND]),
    "the key of the network's own organisation": ("hospital/hospital.key", []),
    "the same, with a broker's certificates": ("hospital/hospital.key", [INSIDE]),
    "B2: a member's key": ("hospital/clerk.maia/clerk.key", ["hospital/clerk.maia/certs"]),
    "a member's key, with a broker's certificates": (
        "hospital/clerk.maia/clerk.key", ["hospital/clerk.maia/certs", INSIDE],
    ),
    "a key of the other organisation": (
        "audit/auditor.maia/auditor.key", ["audit/auditor.maia/certs", BEYOND, INSIDE],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with two organisations; the servers of the hospital run."""
    folder = tmp_path_factory.mktemp("brokers")
    reads = ("--may", "subscribe:Prescription", "--may", "subscribe:Notice")
    shape = "drug:string", "patient:string"
    for words in (
        ("org", "new", "hospital"),
        ("org", "new", "audit"),
        ("type", "define", "Prescription", *shape, "--org", "hospital"),
        ("type", "define", "Notice", *shape, "--protection", "none", "--org", "hospital"),
        ("member", "add", "doctor", "--may", "publish:Prescription", "--may", "publish:Notice",
         "--org", "hospital"),
        ("member", "add", "clerk", *reads, "--only", "drug", "--org", "hospital"),
        ("broker", "add", "north", "--org", "hospital"),
        ("network", "invite", "audit/audit.pub", "--org", "hospital", "-o", "audit.invite"),
        ("network", "join", "audit.invite", "--org", "audit"),
        ("grant", "audit/audit.pub", "--org", "hospital", *reads, "--only", "drug", "--delegable",
         "-o", "audit.grant"),
        ("org", "join", "audit.grant", "--org", "audit"),
        ("member", "add", "auditor", *reads, "--org", "audit"),
    ):  # fmt: skip
        answer = command(*words, cwd=folder)
        assert answer.returncode == 0, (words, answer.stderr)
    with ExitStack() as stack:
        for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
            output = folder / f"hospital-{name}"
            output.mkdir()
            config = folder / "hospital" / f"{name}.toml"
            stack.enter_context(running_maia(*words, "--config", config, cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        yield folder


@contextmanager
def broker(place: Path, key: str, credentials: list[str]) -> Iterator[tuple[Program, Path]]:
    """Run a broker with a key that joins the hospital's, records all it can, and asks itself nothing."""
    output = place / uuid4().hex
    output.mkdir()
    ours = maia.Organisation(place / "hospital")
    words = ["--key", place / key, "--network", "hospital", "--coordinator", place / "hospital/hospital.pub",
             "--listen", "127.0.0.1:0", "--join", ours.addresses["broker"],
             "--types", place / "hospital/types", "--data", output / "data",
             "--log-folder", output / "log", "--log-types", "*"]  # fmt: skip
    for one in [*credentials, "audit/certs"]:
        words += ["--credentials", place / one]
    with running_maia("broker", *words, cwd=output, module="support.self_made") as process:
        wait_until(lambda: "listening" in (output / "out.log").read_text() or process.poll() is not None)
        assert process.poll() is None, (output / "err.log").read_text()
        yield process, output


def holds(process: Program, output: Path, secret: str) -> bool:
    files = (one.read_bytes() for one in output.rglob("*") if one.is_file())
    return any(secret.encode() in some for some in chain(files, memory_of(process.pid)))


@pytest.mark.parametrize(("key", "credentials"), SELF_MADE.values(), ids=SELF_MADE)
def test_who_was_not_made_a_broker_is_refused_and_gets_nothing(
    place: Path, key: str, credentials: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with maia.connect("doctor") as doctor, broker(place, key, credentials) as (process, output):
        told = [f"patient-{uuid4().hex}"]

        def is_answered() -> bool:
            for kind in ("Prescription", "Notice"):
                doctor.publish(kind, drug="MORPHINE", patient=told[0])
            return REFUSED in (output / "err.log").read_text() or holds(process, output, told[0])

        wait_until(is_answered)
        assert not holds(process, output, told[0])
        assert "maia broker add" in (output / "err.log").read_text(), "it is told what to do"


def test_the_same_with_a_key_that_was_made_a_broker_is_inside(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else what is refused above would show nothing."""
    monkeypatch.chdir(place)
    made = broker(place, "hospital/north.key", ["hospital/north-certs"])
    with maia.connect("doctor") as doctor, made as (process, output):
        patient = f"patient-{uuid4().hex}"

        def has_it() -> bool:
            doctor.publish("Prescription", drug="MORPHINE", patient=patient)
            return holds(process, output, patient)

        wait_until(has_it)


@pytest.mark.parametrize(("key", "credentials"), SELF_MADE.values(), ids=SELF_MADE)
def test_who_was_not_made_a_broker_does_not_start(place: Path, key: str, credentials: list[str]) -> None:
    words = ["--key", key, "--network", "hospital", "--coordinator", "hospital/hospital.pub"]
    for one in [*credentials, "audit/certs"]:
        words += ["--credentials", one]
    for check in (["--check"], []):
        answer = command("broker", *words, *check, cwd=place)
        assert (answer.returncode, REFUSED in answer.stderr) == (2, True), answer.stderr
        assert "maia broker add" in answer.stderr


def test_a_broker_is_one_no_more_when_that_is_revoked_whatever_else_it_holds() -> None:
    """Its right to connect stays, as a client; its links end with the statement."""
    net = Net()
    net.broker()
    key = net.cast.identity("Met broker")[0]
    made = net.cast.broker_right(key, test=TestKind.TIMED_CRL)
    stays = net.cast.grant("PITO", key, net.cast.network, Action.CONNECT, may_delegate=True)
    issuer = Issuer(net, "PITO")
    issuer.vouch(3600)
    net.broker("Met broker", seeds=["CCS broker"], credentials=(made, stays))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert len(office.events()) == 1
    issuer.revoke(made)
    camera.publish(1, sighting("LC05 DEF"))
    assert len(office.events()) == 1
    assert not [link for link in net.brokers["CCS broker"].parts.links.values() if link.peer == key.principal]
