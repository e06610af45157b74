"""A broker as its operator knows it: started, checked, asked, stopped, started again."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from maia.net.process import STOP_WITH_INPUT, own_folder
from maia.testing import wait_until
from support import nursery
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import Answer, maia, running_maia

CONFIG = config("broker")


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network with one broker and one reader, as files."""
    folder = tmp_path_factory.mktemp("city")
    make_keys(folder, "broker", "reader", "stranger")
    lets_connect(folder, "broker", "reader", days=2)
    attributes = ("-a", "numberplate:string", "-a", "location:string")
    maia(
        "type", "define", "-k", "pito.key", "--name", "Numberplate", *attributes, "-o", "np.type", cwd=folder
    )
    issue(folder, "reader", "subscribe", "-d", "np.type")
    (folder / "broker.toml").write_text(CONFIG)
    return folder


@pytest.fixture
def home(city: Path, tmp_path: Path) -> Path:
    """A copy of the city for one test."""
    subprocess.run(["cp", "-r", f"{city}/.", str(tmp_path)], check=True)
    return tmp_path


def member(home: Path, *words: object, who: str = "reader") -> Answer:
    credentials = ("--credentials", f"{who}-certs") if (home / f"{who}-certs").exists() else ()
    about = ("--network", NETWORK, "--coordinator", "pito.pub")
    return maia(*words, "-k", f"{who}.key", *credentials, *about, "--wait", 60, cwd=home)


def get(home: Path, page: str) -> tuple[int, str]:
    door = json.loads((home / "data" / "status.door").read_text())
    connection = http.client.HTTPConnection(door["address"], timeout=60)
    with closing(connection):
        connection.request("GET", page)
        response = connection.getresponse()
        return response.status, response.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_cleanly(home: Path, number: signal.Signals) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address_of(home)
        assert [get(home, page)[0] for page in ("/health", "/ready", "/status")] == [200, 200, 401]
        metrics = get(home, "/metrics")[1]
        broker.send_signal(number)
        assert broker.wait(180) == 0
    log = [json.loads(line) for line in (home / "err.log").read_text().splitlines()]
    assert [line["event"] for line in log if line["event"] != "expiring"] == ["started", "stopping"]
    (warning,) = (line for line in log if line["event"] == "expiring")  # the certificate holds for two days
    assert (warning["level"], warning["actions"]) == ("warning", ["broker", "connect", "serve"])
    assert "\nmaia_certificates_expiring 1.0\n" in metrics
    assert not (home / "data" / "status.door").exists()


def test_a_limit_of_the_configuration_that_cuts_a_right_is_told_and_counted(home: Path) -> None:
    (home / "reader-certs" / "subscribe.cert").unlink()
    for number in range(3):
        where = ("-d", "np.type", "--where", f'numberplate == "car {number}"')
        issue(home, "reader", "subscribe", *where, name=f"case-{number}")
    (home / "broker.toml").write_text(CONFIG + "[limits]\nchains_per_request = 2\n")
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        told = member(home, "subscribe", "-d", "np.type", "--broker", address, "--for", 2)
        assert told.returncode == 0, told.stderr
        assert "only 2 of at least 3 grants were counted" in told.stderr
        assert "[POLICY-GRANTS-LEFT-OUT]" in told.stderr
        assert "maia_grants_left_out_total 1.0" in get(home, "/metrics")[1]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0


def test_types_and_counters_survive_or_are_seen(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home) as broker:
        address = address_of(home)
        subscribed = member(home, "subscribe", "-d", "np.type", "--broker", address, "--for", 0.2)
        assert subscribed.returncode == 0, subscribed.stderr
        refused = member(home, "publish", "-d", "np.type", "--broker", address, "--set", "numberplate=X")
        assert refused.returncode == 3
        shown = maia("status", "--data", "data", "--json", cwd=home)
        status = json.loads(shown.stdout)
        assert (status["types"], status["network"]) == (1, NETWORK)
        assert "maia_types 1.0" in get(home, "/metrics")[1]
        assert "ed25519:" not in get(home, "/metrics")[1]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(180) == 0
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home, starts=2)
        fetched = member(
            home, "type", "fetch", "Numberplate", "--owner", "pito.pub", "--from", address, "-o", "f.type",
        )  # fmt: skip
        assert fetched.returncode == 0, fetched.stderr
    assert (home / "f.type").read_text() == (home / "np.type").read_text()


def test_a_type_folder_answers_for_the_owner_and_for_no_other_client(home: Path) -> None:
    (home / "types").mkdir()
    (home / "np.type").rename(home / "types" / "np.type")
    with running_maia("broker", "-c", "broker.toml", "--types", "types", cwd=home):
        address = address_of(home)
        asked = ("type", "fetch", "Numberplate", "--from", address, "-o", "f.type", "--owner")
        assert member(home, *asked, "pito.pub").returncode == 0
        other = member(home, *asked, "stranger.pub")
        assert (other.returncode, "UNAVAILABLE-TYPE" in other.stderr) == (6, True)


def test_a_client_that_may_not_connect_is_told_so(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        stranger = member(
            home, "type", "fetch", "Numberplate", "--owner", "pito.pub", "--from", address, "-o", "f.type",
            who="stranger",
        )  # fmt: skip
    assert (stranger.returncode, "POLICY-NO-CHAIN" in stranger.stderr) == (3, True)


def test_one_data_folder_and_one_address_are_for_one_broker(home: Path) -> None:
    with running_maia("broker", "-c", "broker.toml", cwd=home):
        address = address_of(home)
        same_folder = maia("broker", "-c", "broker.toml", cwd=home)
        assert (same_folder.returncode, "UNAVAILABLE-DATA-FOLDER" in same_folder.stderr) == (6, True)
        same_address = maia("broker", "-c", "broker.toml", "--listen", address, "--data", "d2", cwd=home)
        assert (same_address.returncode, "UNAVAILABLE-ADDRESS" in same_address.stderr) == (6, True)


def test_a_start_waits_for_a_data_folder_whose_owner_is_ending_and_says_so(home: Path) -> None:
    (home / "data").mkdir(mode=0o700)
    with ExitStack() as stack:
        with own_folder(home / "data"):
            broker = stack.enter_context(running_maia("broker", "-c", "broker.toml", cwd=home))
            wait_until(lambda: "data-folder-in-use" in read(home / "err.log") or broker.poll() is not None)
            assert broker.poll() is None, read(home / "err.log")
        address_of(home)


def test_a_broker_whose_parent_was_killed_dies_at_once_and_says_no_goodbye(home: Path) -> None:
    """As `maia up` starts it. Whoever starts both again finds the data folder free."""
    held, holds = os.pipe()
    with (home / "out.log").open("w") as out, (home / "err.log").open("w") as err:
        words, variables = ("broker", "-c", "broker.toml"), os.environ | {STOP_WITH_INPUT: "yes"}
        descriptors = (held, out.fileno(), err.fileno())
        broker = nursery.forked(words, cwd=home, environment=variables, descriptors=descriptors)
    os.close(held)
    try:
        address_of(home)
        os.close(holds)
        assert broker.wait(60) != 0
    finally:
        broker.kill()
    assert '"stopping"' not in read(home / "err.log")
    with own_folder(home / "data"):
        pass


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


WRONG = [
    (("--key", "stranger.key"), "`credentials` do not let `ed25519:", "POLICY-NO-CHAIN"),
    (("--key", "none.key"), "the option `--key`: `key` does not work", "UNAVAILABLE-KEY-FILE"),
    (("--coordinator", "none.pub"), "the option `--coordinator`: `coordinator` does not work", "INPUT-FILE"),
    (("--credentials", "pito.pub"), "the option `--credentials`: `credentials` does not work", "INPUT-FILE"),
    (("--types", "nowhere"), "the option `--types`: `types` does not work", "UNAVAILABLE-TYPE"),
    (("--data", "pito.pub"), "`data` cannot be used", "INPUT-CONFIG"),
    (("--status", "0.0.0.0:80"), "`status` must be on this machine's loopback", "INPUT-CONFIG"),
]


@pytest.mark.parametrize(("flags", "sentence", "code"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_what_cannot_work_is_found_before_a_port_opens(
    city: Path, flags: tuple[str, ...], sentence: str, code: str
) -> None:
    checked = maia("broker", "-c", "broker.toml", *flags, "--check", cwd=city)
    assert checked.returncode == 2
    assert sentence in checked.stderr
    assert code in checked.stderr


def test_an_error_in_the_file_names_its_line(city: Path) -> None:
    (city / "wrong.toml").write_text(CONFIG.replace('"broker.key"', '"nowhere.key"'))
    checked = maia("broker", "-c", "wrong.toml", "--check", cwd=city)
    assert checked.returncode == 2
    assert "`wrong.toml` line 1: `key` does not work" in checked.stderr


def test_a_good_configuration_is_checked_without_opening_a_port(city: Path) -> None:
    checked = maia("broker", "-c", "broker.toml", "--check", "--json", cwd=city)
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["checked"] is True
