"""C8, dissertation 5.4: PITO is wound up, and an agency becomes the root of its network and types for good.

Names keep PITO's key, so everything made under them goes on; from now on the
agency signs, and PITO's certificate begins each of its chains.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from maia.testing import wait_until
from support.network_process import BROKER, NETWORK, OPEN, address_of, config
from support.processes import Answer, maia, running_maia

POLICY = """\
policy "Agency"
fact officer(who: principal)
role reader
rule reader
    while officer(holder)
    for 8 hours
grant reader
    may subscribe to Numberplate(*)
grant reader
    may connect to network "{network}" of pito
end
"""


def done(home: Path, *words: object) -> Answer:
    answered = maia(*words, cwd=home)
    assert answered.returncode == 0, answered.stderr
    return answered


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What PITO left behind, as files: a type, a hand-over, and nothing else."""
    home = tmp_path_factory.mktemp("agency")
    for who in ("pito", "agency", "broker", "reader", "camera"):
        done(home, "key", "new", f"{who}.key")
    attributes = ("-a", "numberplate:string", "-a", "location:string")
    named = ("--name", "Numberplate")
    done(home, "type", "define", "-k", "pito.key", *named, *attributes, "-o", "np.type")
    done(
        home, "cert", "hand-over", "-k", "pito.key", "--subject", "agency.pub", "--for-good",
        "-o", "handover.cert",
    )  # fmt: skip
    for who, more in (("broker", ()), ("reader", ("subscribe",)), ("camera", ("publish",))):
        (home / f"{who}-certs").mkdir()
        subprocess.run(["cp", "handover.cert", f"{who}-certs/"], cwd=home, check=True)
        words = ("cert", "issue", "-k", "agency.key", "--subject", f"{who}.pub", "--days", 2)
        about = ("--owner", "pito.pub", "--network", NETWORK)
        done(
            home,
            *words,
            "--action",
            "connect",
            *((*OPEN, *BROKER) if who == "broker" else ()),
            *about,
            "-o",
            f"{who}-certs/connect.cert",
        )
        for action in more:
            done(home, *words, "--action", action, "-d", "np.type", "-o", f"{who}-certs/{action}.cert")
    (home / "broker.toml").write_text(config("broker"))
    return home


@pytest.fixture
def home(agency: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-r", f"{agency}/.", str(tmp_path)], check=True)
    return tmp_path


def member(home: Path, who: str, address: str, *words: object, credentials: str = "") -> Answer:
    about = (
        "--network",
        NETWORK,
        "--coordinator",
        "pito.pub",
        "--credentials",
        credentials or f"{who}-certs",
    )
    return maia(
        words[0], "-k", f"{who}.key", *about, "--broker", address, "--wait", 60, *words[1:], cwd=home
    )  # fmt: skip


def test_a_broker_and_its_clients_live_by_the_word_of_the_successor(home: Path) -> None:
    done(
        home, "type", "change", "np.type", "-k", "agency.key", "-c", "handover.cert",
        "--add", "lane:int", "-o", "v2.type",
    )  # fmt: skip
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        newer = ("-d", "v2.type", "--previous", "np.type")
        sent = member(home, "camera", address, "publish", *newer, "--set", "lane=2")
        assert sent.returncode == 0, sent.stderr
        read = member(home, "reader", address, "subscribe", *newer, "--for", 0.2)
        assert read.returncode == 0, read.stderr
        (home / "reader-certs" / "handover.cert").unlink()
        alone = member(home, "reader", address, "subscribe", *newer, "--for", 0.2)
        assert (alone.returncode, "POLICY-NO-CHAIN" in alone.stderr) == (3, True)


def test_the_domain_of_the_successor_passes_on_what_the_owner_had(home: Path) -> None:
    pito = (home / "pito.pub").read_text().strip()
    policy = POLICY.format(network=NETWORK).replace('"Agency"\n', f'"Agency"\nkey pito = {pito}\n')
    (home / "agency.policy").write_text(policy)
    domain = config("agency", '[api]\nlisten = "127.0.0.1:0"\n').replace("agency-certs", "handover.cert")
    domain = domain.replace('data = "data"', 'data = "domain-data"')
    domain += '[policy]\nfile = "agency.policy"\ntypes = "np.type"\nheld = "handover.cert"\n'
    (home / "domain.toml").write_text(domain)
    with running_maia("domain", "serve", "-c", "domain.toml", "--json", cwd=home):
        wait_until(lambda: "listening" in (home / "out.log").read_text())
        api = json.loads((home / "out.log").read_text().splitlines()[0])["api"]
        asked = ("--server", api, "--domain", "agency.pub")
        done(home, "domain", "fact", "assert", "officer", "reader.pub", *asked, "-k", "agency.key")
        done(home, "login", *asked, "-k", "reader.key", "--wallet", "wallet")
    for action, about in (("subscribe", ("--type", "Numberplate")), ("connect", ("--network", NETWORK))):
        found = ("cert", "find", "wallet", "--root", "pito.pub", "--subject", "reader.pub")
        done(home, *found, "--action", action, *about)


def test_the_old_owner_cannot_take_it_back(home: Path) -> None:
    """Neither by its own domain, which refuses, nor by a list of its own making: see test_standing."""
    domain = config("pito", '[api]\nlisten = "127.0.0.1:0"\n').replace("pito-certs", "np-certs")
    (home / "np-certs").mkdir()
    (home / "domain.toml").write_text(domain.replace('data = "data"', 'data = "domain-data"'))
    shown = json.loads(done(home, "cert", "show", "handover.cert", "--json").stdout)
    with running_maia("domain", "serve", "-c", "domain.toml", "--json", cwd=home):
        wait_until(lambda: "listening" in (home / "out.log").read_text())
        api = json.loads((home / "out.log").read_text().splitlines()[0])["api"]
        asked = ("--server", api, "--domain", "pito.pub", "-k", "pito.key")
        done(home, "domain", "hold", "handover.cert", *asked)
        refused = maia("domain", "revoke", shown["certificates"][0]["id"], *asked, cwd=home)
        assert (refused.returncode, "REFUSED-HANDED-OVER" in refused.stderr) == (3, True)


def test_nothing_is_handed_over_by_a_slip(home: Path) -> None:
    words = ("cert", "hand-over", "-k", "pito.key", "--subject", "agency.pub", "-o", "again.cert")
    asked = maia(*words, cwd=home)
    assert (asked.returncode, "--for-good" in asked.stderr) == (2, True)
    assert not (home / "again.cert").exists()
    assert "for good" in done(home, *words, "--for-good", "--network", NETWORK).stdout
