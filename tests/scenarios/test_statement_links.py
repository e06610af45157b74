"""A reader and a camera reach a broker process by statement links, as its operator configured."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from maia.credentials import SigningKey
from maia.credentials.identity import identity_to_text
from maia.keystore.key_files import load_signing_key
from maia.testing import wait_until
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import Answer, maia, running_maia
from support.two_message import live_statement

IDENTITY = """\
[identity]
listen = "127.0.0.1:0"
statement = "broker.identity"
providers = ["norway.pub"]
"""


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with a broker, a reader and a camera, and the statements of their provider."""
    folder = tmp_path_factory.mktemp("city")
    make_keys(folder, "broker", "reader", "camera", "norway", "sweden")
    lets_connect(folder, "broker", "reader", "camera")
    attributes = ("-a", "numberplate:string", "-a", "location:string")
    maia(
        "type", "define", "-k", "pito.key", "--name", "Numberplate", *attributes, "-o", "np.type", cwd=folder
    )
    for who, action in (("reader", "subscribe"), ("camera", "publish")):
        issue(folder, who, action, "-d", "np.type")
    for who in ("broker", "reader", "camera"):
        state(folder, who)
    (folder / "broker.toml").write_text(config("broker", IDENTITY))
    return folder


@pytest.fixture
def home(city: Path, tmp_path: Path) -> Path:
    """A copy of the city for one test."""
    subprocess.run(["cp", "-r", f"{city}/.", str(tmp_path)], check=True)
    return tmp_path


def key_of(home: Path, who: str) -> SigningKey:
    return load_signing_key(home / f"{who}.key")


def state(home: Path, who: str, *, by: str = "norway", **about: float) -> None:
    """Let a provider make a statement about a member."""
    signed = live_statement(key_of(home, who), by=key_of(home, by), **about)
    (home / f"{who}.identity").write_text(identity_to_text(signed))


def options(who: str, broker: str) -> tuple[object, ...]:
    network = ("--network", NETWORK, "--coordinator", "pito.pub", "-d", "np.type")
    identity = ("--identity", f"{who}.identity", "--provider", "norway.pub")
    return ("-k", f"{who}.key", "--credentials", f"{who}-certs", *network, "--broker", broker, *identity)


def publish(home: Path, broker: str, plate: str, *, wait_s: float = 60) -> Answer:
    words = ("--set", f"numberplate={plate}", "--set", "location=Victoria", "--wait", wait_s)
    return maia("publish", *options("camera", broker), *words, cwd=home)


def statement_address(home: Path) -> str:
    """Wait for the line that says where statement links are accepted."""
    out = home / "out.log"
    wait_until(lambda: "statement links at" in out.read_text())
    return re.findall(r"statement links at (ed25519:[0-9a-f]{64}@\S+)", out.read_text())[-1]


def refusals(home: Path) -> str:
    door = json.loads((home / "data" / "status.door").read_text())
    connection = http.client.HTTPConnection(door["address"], timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return "\n".join(line for line in text.splitlines() if line.startswith("maia_handshakes_failed_total"))


def test_a_client_subscribes_and_receives_by_a_statement_link(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        tls, by_statement = address_of(home), statement_address(home)
        assert not by_statement.endswith(tls)
        words = ("--count", 2, "--for", 120, "--wait", 60)
        with running_maia("subscribe", *options("reader", by_statement), *words, cwd=home) as reader:
            wait_until(lambda: "subscribed" in (home / "err.log").read_text().lower())
            assert publish(home, by_statement, "AE05 XYZ").returncode == 0
            # TLS links and statement links meet in one broker.
            assert publish(home, tls, "BD51 SMR").returncode == 0
            assert reader.wait(180) == 0
        assert [plate in (home / "out.log").read_text() for plate in ("AE05 XYZ", "BD51 SMR")] == [True, True]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0


def test_an_expired_statement_and_one_of_another_provider_do_not_get_in(home: Path) -> None:
    """A96, from a client's process to a broker's."""
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        by_statement = statement_address(home)
        state(home, "camera", from_s=-120, until_s=-60)
        late = publish(home, by_statement, "AE05 XYZ", wait_s=2)
        assert (late.returncode, "CREDENTIAL-IDENTITY-EXPIRED" in late.stderr) == (4, True)  # it knows itself
        assert 'code="CREDENTIAL-IDENTITY-EXPIRED"' in refusals(home)
        state(home, "camera", by="sweden")
        assert publish(home, by_statement, "AE05 XYZ", wait_s=2).returncode == 6
        assert 'code="CREDENTIAL-IDENTITY-PROVIDER"' in refusals(home)
        state(home, "camera")
        assert publish(home, by_statement, "AE05 XYZ").returncode == 0


def test_a_renewed_statement_of_the_broker_is_shown_on_the_next_link(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        by_statement = statement_address(home)
        state(home, "broker", by="sweden")
        assert publish(home, by_statement, "AE05 XYZ", wait_s=2).returncode == 6
        state(home, "broker", until_s=7200)
        assert publish(home, by_statement, "AE05 XYZ").returncode == 0


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ('statement = "broker.identity"\n', "", "needs `statement` beside it"),
        ("broker.identity", "reader.identity", "is a statement about `ed25519:"),
        ("norway.pub", "nowhere.pub", "does not work: there is no file"),
    ],
)
def test_a_wrong_identity_is_found_before_the_broker_starts(
    home: Path, right: str, wrong: str, problem: str
) -> None:
    (home / "broker.toml").write_text(config("broker", IDENTITY.replace(right, wrong)))
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    assert checked.returncode != 0
    assert problem in checked.stderr
    assert "INPUT-CONFIG" in checked.stderr


def test_an_expired_statement_of_the_broker_is_found_before_it_starts(home: Path) -> None:
    state(home, "broker", from_s=-120, until_s=-60)
    checked = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    assert (checked.returncode != 0, "renew it" in checked.stderr) == (True, True)


def test_a_statement_link_without_a_statement_is_refused_at_once(home: Path) -> None:
    key = key_of(home, "broker").principal
    words = options("reader", f"{key}@127.0.0.1:1")[:-4]
    refused = maia("subscribe", *words, cwd=home)
    assert "INPUT-LINK-IDENTITY" in refused.stderr
    assert "--identity" in refused.stderr
