"""A key server as its operator knows it: started, checked, asked, killed, started again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.config.input_files import read_certificates, read_definition, read_owner
from maia.credentials import NetworkName
from maia.domain.storage.fenced_store import FencedStore, StoreFenced
from maia.keystore.key_files import load_signing_key
from maia.net.node_runner import NodeRunner
from maia.sealing.groups.key_group import GroupId
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings
from maia.types import VerifiedType, verify_definition
from support.network_process import NETWORK, address_of, config, issue, lets_connect, make_keys
from support.processes import maia, running_maia

CONFIG = config("keys", "drift_s = 30\nback_dating_s = 10\n")


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network with a key server and a broker, as files."""
    folder = tmp_path_factory.mktemp("city")
    make_keys(folder, "keys", "broker")
    lets_connect(folder, "keys", "broker", days=2)
    defined = maia(
        "type", "define", "-k", "pito.key", "--name", "Numberplate", "-a", "plate:string", "-a",
        "place:string", "--sealing", "attribute", "--keys", "keys.pub", "-o", "np.type", cwd=folder,
    )  # fmt: skip
    assert defined.returncode == 0, defined.stderr
    issue(folder, "broker", "subscribe", "-d", "np.type")
    (folder / "domain.toml").write_text(CONFIG)
    return folder


@pytest.fixture
def home(city: Path, tmp_path: Path) -> Path:
    """A copy of the city for one test."""
    shutil.copytree(city, tmp_path, dirs_exist_ok=True)
    return tmp_path


def numberplate(home: Path) -> VerifiedType:
    return verify_definition(read_definition(home / "np.type"), at=system_now())


@asynccontextmanager
async def member_of(home: Path, address: str):
    """Run a broker's key member over real links."""
    key = load_signing_key(home / "broker.key")
    network = NetworkName(read_owner(str(home / "pito.pub")), NETWORK)
    credentials = tuple(read_certificates([home / "broker-certs"]))
    settings = MemberSettings(network, credentials, addresses=(address,))
    member = KeyMember(key, settings, random=os.urandom)
    runner = NodeRunner(member, key)
    async with runner.running():
        runner.perform(member.need([numberplate(home)], system_now()))
        yield member
        runner.perform(member.leave())


async def keys_of(home: Path, address: str) -> tuple[int, bytes]:
    """Join as a broker, and return the newest epoch and the content key of a group in it."""
    type_id = numberplate(home).type_id
    async with member_of(home, address) as member, asyncio.timeout(180):
        while not member.groups(type_id):
            await asyncio.sleep(0.02)
        ring = member.ring(type_id)
        epoch = ring.sealing_epoch(system_now())
        return epoch, ring.key(GroupId(type_id), epoch).reveal()


def test_a_server_is_checked_before_it_runs(home):
    checked = maia("domain", "serve", "-c", "domain.toml", "--check", cwd=home)
    assert checked.returncode == 0
    assert "the key server can run with this configuration" in checked.stdout
    (home / "domain.toml").write_text(CONFIG + "refresh = 5\n")
    wrong = maia("domain", "serve", "-c", "domain.toml", "--check", cwd=home)
    assert wrong.returncode == 2
    assert "line 9" in wrong.stderr
    assert "did you mean `refresh_s`?" in wrong.stderr


def test_a_check_reports_a_policy_that_cannot_be_read(home):
    said = '[policy]\nfile = "met.policy"\nparents = { home = "home.policy" }\n'
    (home / "domain.toml").write_text(CONFIG + said)
    for file, text, code in (
        ("met.policy", 'policy "Met"\nend\n', "INPUT-FILE"),
        ("home.policy", 'policy "Home"\nend\n', "INPUT-FILE"),
    ):
        missing = maia("domain", "serve", "-c", "domain.toml", "--check", cwd=home)
        assert missing.returncode == 2
        assert f"no file `{file}` [{code}]" in missing.stderr
        assert "line 10: `policy.file`" in missing.stderr
        (home / file).write_text(text)
    assert maia("domain", "serve", "-c", "domain.toml", "--check", cwd=home).returncode == 0
    (home / "met.policy").write_text(" \n")
    empty = maia("domain", "serve", "-c", "domain.toml", "--check", cwd=home)
    assert "INPUT-POLICY-EMPTY" in empty.stderr


def test_a_server_without_a_data_folder_or_with_impossible_terms_does_not_start(home):
    (home / "domain.toml").write_text(CONFIG.replace('data = "data"\n', ""))
    assert "`data` is missing" in maia("domain", "serve", "-c", "domain.toml", cwd=home).stderr
    (home / "domain.toml").write_text(CONFIG.replace("drift_s = 30", "drift_s = 5"))
    refused = maia("domain", "serve", "-c", "domain.toml", cwd=home)
    assert "INPUT-DOMAIN-SETTINGS" in refused.stderr


def test_members_join_over_real_links_and_a_killed_server_goes_on_where_it_was(home):
    with running_maia("domain", "serve", "-c", "domain.toml", cwd=home) as process:
        first = asyncio.run(keys_of(home, address_of(home)))
        process.send_signal(signal.SIGKILL)
        process.wait()
    with running_maia("domain", "serve", "-c", "domain.toml", cwd=home):
        second = asyncio.run(keys_of(home, address_of(home, starts=2)))
        shown = maia("domain", "status", "--data", "data", cwd=home)
    assert first == second
    assert first[0] == 1
    assert "epoch 1" in shown.stdout
    secret = first[1]
    for file in (home / "data").rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes()
    assert secret.hex() not in (home / "err.log").read_text()
    mode = (home / "data" / "groups.sqlite").stat().st_mode
    assert mode & 0o077 == 0


def test_a_second_server_on_the_same_folder_refuses(home):
    with running_maia("domain", "serve", "-c", "domain.toml", cwd=home):
        address_of(home)
        second = maia("domain", "serve", "-c", "domain.toml", cwd=home)
        assert second.returncode != 0
        assert "UNAVAILABLE-DATA-FOLDER" in second.stderr


def test_a_server_says_goodbye_when_it_is_told_to_stop(home):
    with running_maia("domain", "serve", "-c", "domain.toml", "--log-format", "json", cwd=home) as process:
        address = address_of(home)

        async def stay() -> list[str]:
            async with member_of(home, address) as member, asyncio.timeout(180):
                type_id = numberplate(home).type_id
                while not member.groups(type_id):
                    await asyncio.sleep(0.02)
                process.send_signal(signal.SIGTERM)
                while "idle" not in member.status()["managers"].values():
                    await asyncio.sleep(0.02)
                # It goes on with what it has.
                return [str(member.ring(type_id).sealing_epoch(system_now()))]

        assert asyncio.run(stay()) == ["1"]
        assert process.wait(180) == 0
    events = [json.loads(line) for line in (home / "err.log").read_text().splitlines()]
    assert {"started", "expiring", "connected", "joined", "epoch", "stopping"} <= {
        one["event"] for one in events
    }
    assert not (home / "data" / "status.door").exists()


def test_two_processes_that_share_a_store_cannot_both_write(tmp_path):
    """A54: where locks do not hold, the second writer is stopped by the fence."""
    one, other = FencedStore(tmp_path / "s"), FencedStore(tmp_path / "s")
    one.keep({"a": b"1"})
    with pytest.raises(StoreFenced):
        other.keep({"a": b"2", "b": b"3"})
    assert dict(FencedStore(tmp_path / "s").load()) == {"a": b"1"}
    one.keep({"a": None, "c": b"4"})
    assert dict(one.load()) == {"c": b"4"}
