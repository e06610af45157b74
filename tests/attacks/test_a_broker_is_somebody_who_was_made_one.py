"""A118: keys that nobody has made a broker run one, in a program that does not ask itself whether it may be.

A hospital publishes; an auditor's organisation was invited, and a clerk of the hospital's may see drugs
alone; the hospital has a gateway and a key server beside, and the auditor's organisation a replica. Each key
runs a broker that records what it is sent, within the organisation or beyond a border: with its own
certificates, and with those of a true broker beside them. None becomes a neighbour; nothing is sent to it,
recorded by it, retained, caught up with or announced, and no client takes it for a broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pytest

import maia
from maia.credentials import Action, TestKind
from maia.gateway.accounts import account_from_bytes, open_account, secret_of_token
from maia.keystore.key_files import create_key_file
from maia.testing import Issuer, Program, wait_until
from support.network_process import address_of
from support.numberplate import Net, camera_and_reader, sighting
from support.process_memory import memory_of
from support.processes import maia as command
from support.processes import running_maia

REFUSED = "REFUSED-NOT-A-BROKER"
KINDS = "Prescription", "Notice"
INSIDE, BEYOND = "hospital/broker-certs", "audit/broker-certs"
DESK = "hospital/gateway-data/accounts/desk"
SELF_MADE = {
    "B1: the key of an invited organisation": ("audit/audit.key", [BEYOND]),
    "the key of the network's own organisation": ("hospital/hospital.key", []),
    "that key, with a broker's certificates": ("hospital/hospital.key", [INSIDE]),
    "B2: a member's key": ("hospital/clerk.maia/clerk.key", ["hospital/clerk.maia/certs"]),
    "a member's key, with a broker's certificates": (
        "hospital/clerk.maia/clerk.key", ["hospital/clerk.maia/certs", INSIDE],
    ),
    "a key of the other organisation": (
        "audit/auditor.maia/auditor.key", ["audit/auditor.maia/certs", BEYOND, INSIDE],
    ),
    "a gateway's key": ("hospital/desk.key", [DESK]),
    "the same, with a broker's certificates": ("hospital/desk.key", [DESK, INSIDE]),
    "the key of the organisation's server, with all that it has": (
        "hospital/hospital.key", ["hospital/server-certs", "hospital/issued", INSIDE],
    ),
    "the key of a key server of its own": ("hospital/keys.key", ["hospital/keys.cert"]),
    "that one, with a broker's certificates": ("hospital/keys.key", ["hospital/keys.cert", INSIDE, BEYOND]),
    "the key of a replica beyond the border": ("audit/mirror.maia/mirror.key", ["audit/mirror.maia/certs"]),
    "it too, with brokers' certificates": (
        "audit/mirror.maia/mirror.key", ["audit/mirror.maia/certs", BEYOND, INSIDE],
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
        ("broker", "add", "south", "--org", "hospital"),
        ("network", "invite", "audit/audit.pub", "--org", "hospital", "-o", "audit.invite"),
        ("network", "join", "audit.invite", "--org", "audit"),
        ("grant", "audit/audit.pub", "--org", "hospital", *reads, "--only", "drug", "--delegable",
         "-o", "audit.grant"),
        ("org", "join", "audit.grant", "--org", "audit"),
        ("member", "add", "auditor", *reads, "--org", "audit"),
        ("member", "add", "mirror", *reads, "--org", "audit"),
        ("key", "new", "hospital/keys.key"),
        ("cert", "issue", "-k", "hospital/hospital.key", "--subject", "hospital/keys.pub", "--days", 9,
         "--owner", "hospital/hospital.pub", "--network", "hospital", "--action", "connect",
         "--action", "install", "--may-delegate", "-o", "hospital/keys.cert"),
    ):  # fmt: skip
        answer = command(*words, cwd=folder)
        assert answer.returncode == 0, (words, answer.stderr)
    account = command("gateway", "account", "desk", "--org", "hospital", *reads, "--only", "drug", "--json",
                      cwd=folder)  # fmt: skip
    secret = secret_of_token(json.loads(account.stdout)["token"].encode())
    desk = account_from_bytes((folder / DESK / "account.json").read_bytes())
    create_key_file(folder / "hospital/desk.key", open_account(desk, secret))
    with ExitStack() as stack:
        for name in ("broker", "domain"):
            run(stack, folder / "hospital" / f"{name}.toml")
        yield folder


def run(stack: ExitStack, config: Path) -> Path:
    """Run a server with its own settings; return the folder with what it writes."""
    output = config.parent.parent / f"{config.parent.name}-{config.stem}"
    output.mkdir()
    words = ("domain", "serve") if config.stem == "domain" else ("broker",)
    stack.enter_context(running_maia(*words, "--config", config, cwd=output))
    wait_until(lambda: "listening" in (output / "out.log").read_text())
    return output


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
    before, now, wanted = (f"needle-{uuid4().hex}" for _ in range(3))
    with maia.connect("doctor") as doctor, maia.connect("clerk") as clerk:
        for kind in KINDS:
            doctor.publish(kind, drug="MORPHINE", patient=before)
            clerk.subscribe(kind, f'drug == "{wanted}"')
        with broker(place, key, credentials) as (process, output):

            def is_answered() -> bool:
                for kind in KINDS:
                    doctor.publish(kind, drug="MORPHINE", patient=now)
                return REFUSED in (output / "err.log").read_text() or holds(process, output, now)

            wait_until(is_answered)
            assert "maia broker add" in (output / "err.log").read_text(), "it is told what to do"
            with pytest.raises(maia.Refusal, match="no organisation has made its key a broker"):
                maia.connect("doctor", address=address_of(output)).open()
            assert '"connected"' not in (output / "err.log").read_text(), "nobody has said who they are"
            assert not [one for one in (before, now, wanted) if holds(process, output, one)]


def test_the_same_with_a_key_that_was_made_a_broker_is_inside(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else what is refused above would show nothing."""
    monkeypatch.chdir(place)
    made = broker(place, "hospital/north.key", ["hospital/north-certs"])
    patient, wanted = (f"needle-{uuid4().hex}" for _ in range(2))
    with maia.connect("doctor") as doctor, maia.connect("clerk") as clerk, made as (process, output):
        clerk.subscribe("Prescription", f'drug == "{wanted}"')

        def has_it() -> bool:
            doctor.publish("Prescription", drug="MORPHINE", patient=patient)
            return holds(process, output, patient)

        wait_until(has_it)
        with maia.connect("doctor", address=address_of(output)) as there:
            there.publish("Prescription", drug="MORPHINE", patient=patient)
            wait_until(lambda: holds(process, output, wanted), "interests go to where events are offered")


def test_a_client_talks_to_no_broker_of_another_organisation_unless_that_is_wanted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    theirs = maia.Organisation(place / "audit").principal
    with broker(place, "audit/broker.key", [BEYOND]) as (_, output):
        with pytest.raises(maia.Refusal, match=f"a broker of `{theirs}`") as refused:
            maia.connect("doctor", address=address_of(output)).open()
        assert refused.value.code == "REFUSED-BROKER-NOT-TRUSTED"
        maia.connect("doctor", address=address_of(output), brokers_of=[theirs]).open().close()


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


def test_a_broker_that_is_one_no_more_serves_nobody_and_its_clients_go_elsewhere() -> None:
    net = Net()
    net.broker()
    key = net.cast.identity("Met broker")[0]
    made = net.cast.broker_right(key, test=TestKind.FOLLOWED_CRL)
    net.broker("Met broker", seeds=["CCS broker"], credentials=(made,))
    net.settle()
    issuer = Issuer(net, "PITO")
    issuer.vouch(3600)
    reader = net.client("billing office", "Met broker")
    assert reader.was_accepted(reader.subscribe())
    issuer.revoke(made)
    net.settle()
    assert reader.bye == "UNAVAILABLE-NOT-A-BROKER"
    assert net.client("camera at Victoria", "Met broker").bye == "UNAVAILABLE-NOT-A-BROKER"


def neighbours(organisation: Path) -> set[str]:
    """Return the keys of the brokers that an organisation's first broker has a link to."""
    said = command("status", "--org", organisation, "--json", cwd=organisation.parent)
    return {one["peer"] for one in json.loads(said.stdout)["links"] if one["role"] == "broker"}


def invite(place: Path, name: str) -> None:
    """Make an organisation that the hospital invites, and grants nothing."""
    for words in (
        ("org", "new", name),
        ("network", "invite", f"{name}/{name}.pub", "--org", "hospital", "-o", f"{name}.invite"),
        ("network", "join", f"{name}.invite", "--org", name),
    ):
        answer = command(*words, cwd=place)
        assert answer.returncode == 0, (words, answer.stderr)


def test_the_brokers_of_an_organisation_that_is_put_out_are_none_for_the_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for name in ("visitor", "witness"):
        invite(place, name)
    key = (place / "visitor/broker.pub").read_text().strip()
    with ExitStack() as stack:
        for name in ("visitor", "witness"):
            run(stack, place / name / "broker.toml")
        wait_until(lambda: key in neighbours(place / "witness"), "they are neighbours")
        answer = command("network", "revoke", "visitor/visitor.pub", "--org", "hospital", cwd=place)
        assert answer.returncode == 0, answer.stderr
        assert key not in neighbours(place / "hospital")
        wait_until(lambda: key not in neighbours(place / "witness"), "they have parted", within_s=10)


def test_a_broker_that_is_removed_is_none_at_once_for_its_own_organisation_and_for_partners(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one that was invited and granted nothing, and so has no other need of that one's lists."""
    monkeypatch.chdir(place)
    hospital, guest = place / "hospital", place / "guest"
    invite(place, "guest")
    key = (hospital / "south.pub").read_text().strip()
    with ExitStack() as stack:
        south = run(stack, hospital / "south.toml")
        run(stack, guest / "broker.toml")
        for one in (hospital, guest):
            wait_until(lambda one=one: key in neighbours(one), "the broker is a neighbour")
        answer = command("broker", "remove", "south", "--org", "hospital", cwd=place)
        assert answer.returncode == 0, answer.stderr
        assert key not in neighbours(hospital)
        wait_until(lambda: key not in neighbours(guest), "the partner has parted from it", within_s=10)
        wait_until(lambda: (south / "err.log").read_text().count("POLICY-REVOKED") >= 2)
        assert not (hospital / "south.key").exists()
        assert key not in neighbours(hospital) | neighbours(guest), "it does not come back"
