"""C4, dissertation 2.6.4, 3.4 and 5.4: three police forces own a network and a type together.

Two of three must sign whatever counts. Later two of them put a fourth in the
place of the third, while brokers run, and what depended on the third ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from maia.testing import wait_until
from support.network_process import BROKER, NETWORK, OPEN, address_of
from support.processes import Answer, maia, running_maia

CONFIG = f"""\
key = "broker.key"
network = "{NETWORK}"
coordinator = "police.quorum"
credentials = "broker-certs"
listen = "127.0.0.1:0"
data = "data"
"""
DOMAIN = f"""\
key = "domain.key"
network = "{NETWORK}"
coordinator = "police.quorum"
credentials = "domain-certs"
data = "domain-data"
listen = "127.0.0.1:0"
[api]
listen = "127.0.0.1:0"
[policy]
file = "met.policy"
types = "np.type"
held = "domain-certs"
"""
POLICY = """\
policy "Metropolitan Police"
fact detective(who: principal)
role tracker
rule tracker
    while detective(holder)
    for 8 hours
grant tracker
    may subscribe to Numberplate(*)
grant tracker
    may connect to network "UK Police Network" of QUORUM
end
"""
FORCES = ("met", "kent", "essex")
PEOPLE = ("surrey", "manager", "broker", "edge", "domain", "early", "late", "loner", "outsider", "camera")


def done(home: Path, *words: object) -> Answer:
    answered = maia(*words, cwd=home)
    assert answered.returncode == 0, answered.stderr
    return answered


def allow(home: Path, who: str, members: tuple[str, ...], action: str, *about: object) -> None:
    """Let each of some members sign its share of a right."""
    (home / f"{who}-certs").mkdir(exist_ok=True)
    for member in members:
        out = f"{who}-certs/{action}-{member}.cert"
        words = ("--subject", f"{who}.pub", "--action", action, "--days", 2, "--owner", "police.quorum")
        done(home, "cert", "issue", "-k", f"{member}.key", *words, *about, "-o", out)


def connected(home: Path, who: str, members: tuple[str, ...], *, may: str = "subscribe") -> None:
    """Let a client read, or write, by the word of some members; two that stay let every client connect."""
    allow(home, who, ("met", "kent"), "connect", "--action", "serve", "--network", NETWORK)
    allow(home, who, members, may, "--type", "Numberplate")
    subprocess.run(["cp", "police.quorum", f"{who}-certs/"], cwd=home, check=True)


@pytest.fixture(scope="module")
def forces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network and a type of a quorum of two of three, as files."""
    home = tmp_path_factory.mktemp("forces")
    for who in (*FORCES, *PEOPLE):
        done(home, "key", "new", f"{who}.key")
    members = [word for force in FORCES for word in ("--member", f"{force}.pub")]
    done(home, "quorum", "found", "--needed", 2, *members, "-o", "police.quorum")
    allow(home, "manager", ("met", "kent"), "manage", "--type", "*")
    allow(home, "manager", ("met", "kent"), "install", "--network", NETWORK)
    attributes = ("-a", "numberplate:string", "-a", "location:string", "-a", "timestamp:timestamp")
    owned = ("--owner", "police.quorum", "-c", "manager-certs", "--name", "Numberplate")
    done(home, "type", "define", "-k", "manager.key", *owned, *attributes, "-o", "np.type")
    done(home, "type", "verify", "np.type", "--constitution", "police.quorum")
    allow(home, "broker", ("met", "kent"), "connect", *OPEN, *BROKER, "--network", NETWORK)
    allow(home, "broker", ("met", "kent"), "publish", "--type", "Numberplate")  # it signs what is published
    connected(home, "camera", ("met", "kent"), may="publish")
    connected(home, "early", ("met", "essex"))
    connected(home, "late", ("met", "surrey"))
    connected(home, "loner", ("met",))
    allow(home, "outsider", ("essex",), "connect", *OPEN, *BROKER, "--network", NETWORK)
    allow(home, "outsider", ("met", "kent"), "subscribe", "--type", "Numberplate")
    subprocess.run(["cp", "police.quorum", "outsider-certs/"], cwd=home, check=True)
    subprocess.run(["cp", "police.quorum", "broker-certs/"], cwd=home, check=True)
    (home / "broker.toml").write_text(CONFIG)
    return home


@pytest.fixture
def home(forces: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-r", f"{forces}/.", str(tmp_path)], check=True)
    return tmp_path


def member(home: Path, who: str, address: str, *words: object) -> Answer:
    about = ("--network", NETWORK, "--coordinator", "police.quorum", "--credentials", f"{who}-certs")
    return maia(
        words[0], "-k", f"{who}.key", *about, "-d", "np.type", "--broker", address, "--wait", 20,
        *words[1:], cwd=home,
    )  # fmt: skip


def reads(home: Path, who: str, address: str) -> Answer:
    return member(home, who, address, "subscribe", "--for", 0.2)


def noted(home: Path, event: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (home / "err.log").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def replace_essex(home: Path) -> None:
    """Let two members put Surrey in the place of Essex; with one signature nothing has changed yet."""
    members = [word for force in ("met", "kent", "surrey") for word in ("--member", f"{force}.pub")]
    done(
        home, "quorum", "change", "police.quorum", "--needed", 2, *members, "-k", "met.key", "-o", "2.quorum"
    )
    proposed = json.loads(done(home, "quorum", "show", "2.quorum", "--json").stdout)
    assert (proposed["sequence"], proposed["agreed"], proposed["signatures"]) == (0, False, 1)
    stranger = maia("quorum", "sign", "2.quorum", "-k", "surrey.key", cwd=home)
    assert stranger.returncode != 0  # it is no member before the others have agreed
    done(home, "quorum", "sign", "2.quorum", "-k", "kent.key")
    agreed = json.loads(done(home, "quorum", "show", "2.quorum", "--json").stdout)
    assert (agreed["sequence"], agreed["agreed"]) == (1, True)


def test_two_of_three_let_people_read_and_one_does_not(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        assert reads(home, "early", address).returncode == 0
        values = ("--set", "numberplate=AE05 XYZ", "--set", "location=A14")
        published = member(home, "camera", address, "publish", *values)
        assert published.returncode == 0, published.stderr
        alone = reads(home, "loner", address)
        assert (alone.returncode, "POLICY-NO-CHAIN" in alone.stderr) == (3, True)
        assert reads(home, "late", address).returncode == 3  # Surrey is no member yet


def test_one_of_three_lets_no_client_into_the_network(home: Path) -> None:
    """Two have let it read the type; that it may connect, only one has said."""
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        kept_out = reads(home, "outsider", address)
        assert kept_out.returncode == 3, kept_out.stderr
        assert "POLICY-NO-CHAIN" in kept_out.stderr
        assert "UK Police Network" in kept_out.stderr
        allow(home, "outsider", ("kent",), "connect", *OPEN, *BROKER, "--network", NETWORK)
        assert reads(home, "outsider", address).returncode == 0


def test_a_replaced_member_counts_no_more_at_a_broker_that_runs(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        assert reads(home, "early", address).returncode == 0
        replace_essex(home)
        subprocess.run(["cp", "2.quorum", "broker-certs/"], cwd=home, check=True)
        wait_until(lambda: bool(noted(home, "constitutions")))
        refused = reads(home, "early", address)
        assert (refused.returncode, "POLICY-NO-CHAIN" in refused.stderr) == (3, True)
        subprocess.run(["cp", "2.quorum", "late-certs/"], cwd=home, check=True)
        assert reads(home, "late", address).returncode == 0
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0


def test_an_open_subscription_ends_with_the_member_that_it_depends_on(home: Path) -> None:
    about = ("--network", NETWORK, "--coordinator", "police.quorum", "--credentials", "early-certs")
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        (home / "reader").mkdir()
        reader = [f"../{word}" if "." in str(word) or "certs" in str(word) else word for word in about]
        words = ("subscribe", "-k", "../early.key", *reader, "-d", "../np.type", "--broker", address)
        with running_maia(*words, "--wait", 20, cwd=home / "reader") as early:
            wait_until(lambda: "subscribed to" in (home / "reader" / "err.log").read_text())
            replace_essex(home)
            subprocess.run(["cp", "2.quorum", "broker-certs/"], cwd=home, check=True)
            assert early.wait(180) == 3
            assert "POLICY-NO-CHAIN" in (home / "reader" / "err.log").read_text()


def test_a_broker_does_not_serve_an_edge_that_goes_by_the_old_constitution(home: Path) -> None:
    """The subscriber's own broker was not given the change, or does not want to know of it."""
    allow(home, "edge", ("met", "kent"), "connect", *OPEN, *BROKER, "--network", NETWORK)
    subprocess.run(["cp", "police.quorum", "edge-certs/"], cwd=home, check=True)
    edge, reader = home / "edge", home / "reader"
    for folder in (edge, reader):
        folder.mkdir()
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        joined = f'join = "{address_of(home)}"\n'
        text = CONFIG.replace('"broker', '"../edge').replace('"police', '"../police') + joined
        (edge / "broker.toml").write_text(text)
        with running_maia("broker", "-c", "broker.toml", cwd=edge):
            address = address_of(edge)
            about = ("--network", NETWORK, "--coordinator", "../police.quorum", "-d", "../np.type")
            early = ("-k", "../early.key", "--credentials", "../early-certs", "--broker", address)
            camera = ("-k", "../camera.key", "--credentials", "../camera-certs", "--broker", address_of(home))
            often = ("--set", "location=A14", "--rate", 4, "--count", 4000)
            with (
                running_maia("subscribe", *about, *early, cwd=reader) as served,
                running_maia("publish", *about, *camera, *often, cwd=edge),
            ):
                wait_until(lambda: "A14" in (reader / "out.log").read_text())
                replace_essex(home)
                subprocess.run(["cp", "2.quorum", "broker-certs/"], cwd=home, check=True)
                wait_until(lambda: any(note["asked"] == "Interest" for note in noted(home, "refused")))
                assert served.poll() is None  # its own broker has not received of it


def test_an_old_constitution_in_the_place_of_the_new_one_brings_no_client_back(home: Path) -> None:
    replace_essex(home)
    subprocess.run(["cp", "2.quorum", "broker-certs/police.quorum"], cwd=home, check=True)
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        assert reads(home, "early", address).returncode == 3
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0
    subprocess.run(["cp", "police.quorum", "broker-certs/police.quorum"], cwd=home, check=True)
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home, starts=2)
        assert reads(home, "early", address).returncode == 3


def test_a_broker_does_not_start_by_half_a_change_or_without_the_constitution(home: Path) -> None:
    members = [word for force in ("met", "surrey") for word in ("--member", f"{force}.pub")]
    change = ("quorum", "change", "police.quorum", "--needed", 1, *members, "-k", "met.key")
    done(home, *change, "-o", "broker-certs/half.quorum")
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    assert (checked.returncode, "CREDENTIAL-QUORUM" in checked.stderr) == (2, True)
    (home / "broker-certs" / "half.quorum").unlink()
    done(home, "broker", "-c", "broker.toml", "--check")
    (home / "broker-certs" / "police.quorum").unlink()
    unknown = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    assert (unknown.returncode, "POLICY-NO-CHAIN" in unknown.stderr) == (2, True)


def test_the_keys_of_a_sealed_type_go_to_those_whom_two_of_three_let_in(home: Path) -> None:
    keys, work = home / "keys", home / "reader"
    for folder in (keys, work, home / "domain-certs"):
        folder.mkdir()
    allow(home, "domain", ("met", "kent"), "connect", "--action", "serve", "--network", NETWORK)
    subprocess.run(["cp", "police.quorum", "domain-certs/"], cwd=home, check=True)
    allow(home, "broker", ("met", "kent"), "subscribe", "--type", "Numberplate")
    sealed = ("--sealing", "attribute", "--keys", "domain.pub", "--add", "lane:int", "-o", "sealed.type")
    done(home, "type", "change", "np.type", "-k", "manager.key", "-c", "manager-certs", *sealed)
    server = (
        "\n".join(DOMAIN.splitlines()[:6])
        .replace('= "domain', '= "../domain')
        .replace('"police', '"../police')
    )
    (keys / "keys.toml").write_text(server)
    typed = ("-d", "sealed.type", "--previous", "np.type")
    with running_maia("domain", "serve", "-c", "keys.toml", cwd=keys):
        (home / "broker.toml").write_text(f'{CONFIG}keys = "{address_of(keys)}"\n')
        with running_maia("broker", "-c", "broker.toml", cwd=home):
            address = address_of(home)
            about = (
                "--network",
                NETWORK,
                "--coordinator",
                "../police.quorum",
                "--credentials",
                "../early-certs",
            )
            words = (
                "subscribe",
                "-k",
                "../early.key",
                *about,
                "-d",
                "../sealed.type",
                "--previous",
                "../np.type",
            )
            with running_maia(*words, "--broker", address, "--count", 1, "--for", 120, cwd=work) as reader:
                wait_until(lambda: "subscribed to" in (work / "err.log").read_text())
                about = (
                    "--network",
                    NETWORK,
                    "--coordinator",
                    "police.quorum",
                    "--credentials",
                    "camera-certs",
                )
                done(
                    home, "publish", "-k", "camera.key", *about, *typed, "--broker", address, "--wait", 60,
                    "--set", "lane=2",
                )  # fmt: skip
                assert reader.wait(180) == 0
    assert json.loads((work / "out.log").read_text())["lane"] == 2


def test_a_domain_passes_on_what_two_of_three_gave_it(home: Path) -> None:
    (home / "domain-certs").mkdir()
    allow(
        home,
        "domain",
        ("met", "kent"),
        "connect",
        "--action",
        "serve",
        "--network",
        NETWORK,
        "--may-delegate",
    )
    allow(home, "domain", ("met", "kent"), "subscribe", "--type", "Numberplate", "--may-delegate")
    subprocess.run(["cp", "police.quorum", "domain-certs/"], cwd=home, check=True)
    (home / "domain.toml").write_text(DOMAIN)
    shown = json.loads(done(home, "quorum", "show", "police.quorum", "--json").stdout)
    (home / "met.policy").write_text(POLICY.replace("QUORUM", shown["quorum"]))
    with running_maia("domain", "serve", "-c", "domain.toml", "--json", cwd=home):
        wait_until(lambda: "listening" in (home / "out.log").read_text())
        api = json.loads((home / "out.log").read_text().splitlines()[0])["api"]
        asked = ("--server", api, "--domain", "domain.pub")
        done(home, "domain", "fact", "assert", "detective", "late.pub", *asked, "-k", "domain.key")
        done(home, "login", *asked, "-k", "late.key", "--wallet", "wallet")
        can = done(home, "domain", "who-can", "subscribe", "Numberplate", *asked, "-k", "domain.key")
        assert (home / "late.pub").read_text().strip() in can.stdout
    for action, about in (("subscribe", ("--type", "Numberplate")), ("connect", ("--network", NETWORK))):
        found = (
            "cert",
            "find",
            "wallet",
            "police.quorum",
            "--root",
            "police.quorum",
            "--subject",
            "late.pub",
        )
        done(home, *found, "--action", action, *about)


def test_a_job_reads_the_past_by_the_constitution_in_its_wallet(home: Path, sparkling) -> None:
    (home / "broker.toml").write_text(f'{CONFIG}[log]\nfolder = "log"\n')
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        values = ("--set", "numberplate=AE05 XYZ", "--set", "timestamp=2026-11-16T09:00:00Z")
        published = member(home, "camera", address_of(home), "publish", *values)
        assert published.returncode == 0, published.stderr
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0
    done(home, "log", "roll", "log")
    job = ("pipeline", "run", "billing", "--log", "log", "-d", "np.type", "-k", "early.key", "--json")
    ran = done(home, *job, "--credentials", "early-certs")
    assert json.loads(ran.stdout)["charges"] == 1
    replace_essex(home)
    subprocess.run(["cp", "2.quorum", "early-certs/"], cwd=home, check=True)
    refused = maia(*job, "--credentials", "early-certs", cwd=home)
    # Of all moments that it asks about, the last decides on the word: by then the definition has ended too.
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (3, "POLICY-TYPE-NOT-VALID")
