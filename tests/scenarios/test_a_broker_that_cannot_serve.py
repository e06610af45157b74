"""A sealed type whose broker has no key, or whose key server is away, as its clients meet it.

Real processes and sockets: each client is told why nothing can be
published or arrive, and what helps; and it is told again when that changes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from maia.client.api.client import connect
from maia.client.errors import BrokerUnavailable
from maia.config.input_files import read_certificates, read_definition, read_owner
from maia.credentials import NetworkName
from maia.keystore.key_files import load_signing_key
from maia.testing import free_ports, wait_until
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.nursery import maia_command
from support.processes import Answer, maia, running_maia

KEYS_CONFIG = "drift_s = 30\nback_dating_s = 10\n"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network with a sealed type: a key server, a broker with a right to it, and one without."""
    folder = tmp_path_factory.mktemp("city")
    make_keys(folder, "keys", "broker", "outsider", "camera", "reader")
    lets_connect(folder, "keys", "broker", "outsider", "camera", "reader", brokers=("broker", "outsider"))
    defined = maia(
        "type", "define", "-k", "pito.key", "--name", "LabResult", "-a", "plate:string", "--sealing",
        "attribute", "--keys", "keys.pub", "-o", "lab.type", cwd=folder,
    )  # fmt: skip
    assert defined.returncode == 0, defined.stderr
    for who, action in (("broker", "subscribe"), ("reader", "subscribe"), ("camera", "publish")):
        issue(folder, who, action, "-d", "lab.type")
    issue(folder, "broker", "publish", "-d", "lab.type")
    return folder


@pytest.fixture
def home(city: Path, tmp_path: Path) -> Path:
    """A copy of the city for one test."""
    shutil.copytree(city, tmp_path, dirs_exist_ok=True)
    return tmp_path


def words(who: str, action: str, address: str, *more: object) -> list[str]:
    about = ("--network", NETWORK, "--coordinator", "pito.pub", "--broker", address, "--wait", 60)
    asked = (action, "-d", "lab.type", "-k", f"{who}.key", "--credentials", f"{who}-certs", *about, *more)
    return [str(word) for word in asked]


@contextmanager
def node(home: Path, place: str, who: str, text: str, *command: str) -> Iterator[str]:
    """Run a broker or a key server in its own folder, where it may have run before; yield its address."""
    folder = home / place
    if not folder.exists():
        folder.mkdir()
        shutil.copytree(home / f"{who}-certs", folder / f"{who}-certs")
        for file in (f"{who}.key", "pito.pub"):
            shutil.copy(home / file, folder)
    (folder / "node.toml").write_text(text)
    out = folder / "out.log"
    starts = out.read_text().count("listening on") if out.exists() else 0
    with running_maia(*command, "-c", "node.toml", cwd=folder):
        yield address_of(folder, starts=starts + 1)


def broker(home: Path, more: str = "", who: str = "broker") -> AbstractContextManager[str]:
    return node(home, "at-broker", who, config(who, more), "broker")


def key_server(home: Path, port: int) -> AbstractContextManager[str]:
    text = config("keys", KEYS_CONFIG).replace("127.0.0.1:0", f"127.0.0.1:{port}")
    return node(home, "at-keys", "keys", text, "domain", "serve")


@contextmanager
def reading(home: Path, address: str, *more: object) -> Iterator[subprocess.Popen[str]]:
    with (home / "heard").open("w") as out, (home / "said").open("w") as err:
        command = [str(maia_command()), *words("reader", "subscribe", address, *more)]
        process = subprocess.Popen(command, cwd=home, stdout=out, stderr=err, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def published(home: Path, address: str, *more: object) -> Answer:
    return maia(*words("camera", "publish", address, "--set", "plate=AE05", *more), cwd=home)


def log_of(home: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (home / "at-broker" / "err.log").read_text().splitlines()]


def test_a_broker_without_a_certificate_for_a_sealed_type_says_so_at_once(home: Path) -> None:
    with broker(home, who="outsider") as address, reading(home, address, "--json"):
        answer = published(home, address)
        key = (home / "outsider.pub").read_text().strip()
        why = (
            "this broker holds no key of `LabResult`: it has no certificate for it, or one that transforms; "
            f"issue one to `{key}`, or connect to a broker that has one"
        )
        assert answer.stderr == f"maia: {why} [UNAVAILABLE-NO-KEYS]\n"
        assert answer.returncode == 6
        wait_until(lambda: "warning" in (home / "heard").read_text())
        said = (home / "said").read_text()
    assert said == f"subscribed to LabResult\nmaia: warning: {why} [UNAVAILABLE-NO-KEYS]\n"
    (record,) = map(json.loads, (home / "heard").read_text().splitlines())
    assert record == {"warning": {"code": "UNAVAILABLE-NO-KEYS", "message": why}}
    lines = [line for line in log_of(home) if line["event"] == "impaired"]
    assert [(line["level"], line["code"]) for line in lines] == [("warning", "UNAVAILABLE-NO-KEYS")]


def test_a_key_server_that_is_down_is_told_to_both_sides_and_so_is_its_return(home: Path) -> None:
    (port,) = free_ports(1)
    why = f"the key server of `LabResult` at `127.0.0.1:{port}` does not answer"
    with broker(home, f'keys = ["127.0.0.1:{port}"]\n') as address, reading(home, address, "--count", 1):
        wait_until(lambda: why in (home / "said").read_text())
        answer = published(home, address, "--wait", 10)
        assert why in answer.stderr
        assert "[UNAVAILABLE-KEY-SERVER]" in answer.stderr
        assert answer.returncode == 6
        assert not (home / "heard").read_text()
        with key_server(home, port):
            wait_until(lambda: "events can arrive again" in (home / "said").read_text())
            answer = published(home, address)
            assert answer.stdout == "published 1 event\n", answer.stderr
            wait_until(lambda: (home / "heard").read_text() == '{"plate": "AE05"}\n')
    lines = [(line["event"], line.get("code")) for line in log_of(home) if "impaired" in line["event"]]
    assert (lines[0], lines[-1]) == (("impaired", "UNAVAILABLE-KEY-SERVER"), ("unimpaired", None)), lines


def test_what_is_published_before_the_key_server_has_started_waits_for_it(home: Path) -> None:
    (port,) = free_ports(1)
    said = home / "publisher-said"
    with broker(home, f'keys = ["127.0.0.1:{port}"]\n') as address, said.open("w") as err:
        command = [str(maia_command()), *words("camera", "publish", address, "--set", "plate=AE05")]
        process = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=err, text=True)
        wait_until(lambda: "[UNAVAILABLE-KEY-SERVER]" in said.read_text())
        with key_server(home, port):
            assert process.communicate(timeout=120)[0] == "published 1 event\n", said.read_text()


def test_a_program_is_told_by_an_exception_and_what_it_published_leaves_when_the_keys_come(
    home: Path,
) -> None:
    (port,) = free_ports(1)

    async def publish(address: str) -> None:
        network = NetworkName(read_owner(str(home / "pito.pub")), NETWORK)
        shown = tuple(read_certificates([home / "camera-certs"]))
        key = load_signing_key(home / "camera.key")
        async with connect([address], key=key, network=network, credentials=shown, timeout_s=60) as client:
            definition = read_definition(home / "lab.type")
            publisher = None
            while publisher is None:
                with suppress(BrokerUnavailable):
                    # the broker dials the key server again for each new publisher
                    publisher = await client.advertise([definition], timeout_s=60)
            await publisher.publish(plate="AE05")
            with pytest.raises(BrokerUnavailable) as told:
                await publisher.flush(timeout_s=5)
            assert told.value.code == "UNAVAILABLE-KEY-SERVER"
            with key_server(home, port):
                async with asyncio.timeout(180):
                    refused = 0
                    while not publisher.published_rows:
                        if publisher.refused_rows > refused:  # the broker holds a frame for ten seconds
                            refused = publisher.refused_rows
                            await publisher.publish(plate="AE05")
                        await asyncio.sleep(0.05)

    with broker(home, f'keys = ["127.0.0.1:{port}"]\n') as address:
        asyncio.run(publish(address))


def test_a_broker_that_should_have_a_link_to_the_network_and_has_none_warns(home: Path) -> None:
    (port,) = free_ports(1)
    define = ("type", "define", "-k", "pito.key", "--name", "Plain", "-a", "plate:string")
    assert maia(*define, "-o", "lab.type", "--force", cwd=home).returncode == 0
    issue(home, "reader", "subscribe", "-d", "lab.type", name="plain")
    issue(home, "camera", "publish", "-d", "lab.type", name="plain")
    with broker(home, f'join = ["127.0.0.1:{port}"]\n') as address, reading(home, address, "--count", 1):
        why = (
            f"warning: this broker has no link to the network, since no broker answers at `127.0.0.1:{port}`"
        )
        wait_until(lambda: why in (home / "said").read_text())
        answer = published(home, address)
        assert answer.stdout == "published 1 event\n"
        assert why in answer.stderr
        wait_until(lambda: (home / "heard").read_text() == '{"plate": "AE05"}\n')
    assert "UNAVAILABLE-CUT-OFF" in [line.get("code") for line in log_of(home) if line["event"] == "impaired"]


def test_a_broker_and_a_client_that_are_refused_say_so_and_why(home: Path) -> None:
    """The broker at `join` is of another network; the client has no certificate to connect."""
    about = ("--action", "broker", "--owner", "pito.pub", "--network", "Elsewhere")
    issue(home, "outsider", "connect", *about, name="elsewhere")
    other_network = config("outsider").replace(NETWORK, "Elsewhere")
    with (
        node(home, "elsewhere", "outsider", other_network, "broker") as other,
        broker(home, f'join = ["{other}"]\n') as address,
    ):
        wait_until(lambda: any(line.get("code") == "UNAVAILABLE-CUT-OFF" for line in log_of(home)))
        (cut_off,) = [line["message"] for line in log_of(home) if line.get("code") == "UNAVAILABLE-CUT-OFF"]
        assert f"there is none with `{other}` (" in cut_off
        assert "no broker answers" not in cut_off
        asked = words("reader", "subscribe", address)
        asked[asked.index("--credentials") + 1] = "reader-certs/subscribe.cert"
        refused = maia(*asked, cwd=home)
    assert refused.stderr.startswith(f"maia: you may not connect to the network `{NETWORK}`: no certificates")
    assert "[POLICY-NO-CHAIN]" in refused.stderr
    assert refused.returncode == 3
