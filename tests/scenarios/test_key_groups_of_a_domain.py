"""A domain's server runs key groups for members whose rights it grants, and may take back.

The certificates come from `maia login`, so they must be vouched for by the
domain; the key server hears the domain's own lists in the same process.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from maia.credentials import NetworkName, RevocationList, Standing
from maia.events import Instant
from maia.runtime.clock import system_now
from maia.runtime.domain_api import answers, bodies
from maia.runtime.domain_client import DomainClient
from maia.runtime.input_files import read_certificates, read_definition, read_principal
from maia.runtime.key_files import load_signing_key
from maia.runtime.node_runner import NodeRunner
from maia.runtime.wallet_folder import WalletFolder
from maia.sealing.member import KeyMember
from maia.sealing.member_settings import MemberSettings
from maia.types import VerifiedType, verify_definition
from support.processes import maia, running_maia, until
from support.waiting import until as until_in_loop

POLICY = """\
policy "Police"
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe to Numberplate(plate)
end
"""
CONFIG = """\
key = "met.key"
network = "Met"
coordinator = "met.pub"
credentials = "met-certs"
listen = "127.0.0.1:0"
data = "data"
[api]
listen = "127.0.0.1:0"
[policy]
file = "met.policy"
types = ["np.type"]
[statements]
period_s = 6
lead_s = 3
"""
PEOPLE = ("smith", "jones")


def made(home: Path) -> None:
    for who in ("met", "desk", *PEOPLE):
        assert maia("key", "new", f"{who}.key", cwd=home).returncode == 0
    for name in ("met-certs", "desk-certs"):
        (home / name).mkdir()
    issue(
        "desk",
        home,
        "--topic",
        "/admin/*",
        "--action",
        "publish",
        "--action",
        "subscribe",
        "-o",
        "desk-certs/a.cert",
    )
    for who in PEOPLE:
        issue(who, home, "--network", "Met", "--action", "connect", "-o", f"{who}-connect.cert")
    defined = maia(
        "type", "define", "-k", "met.key", "--name", "Numberplate", "-a", "plate:string", "-a",
        "place:string", "--sealing", "attribute", "--keys", "met.pub", "-o", "np.type", cwd=home,
    )  # fmt: skip
    assert defined.returncode == 0, defined.stderr
    (home / "met.policy").write_text(POLICY)
    (home / "met.toml").write_text(CONFIG)


def issue(subject: str, home: Path, *words: str) -> None:
    issued = maia(
        "cert", "issue", "-k", "met.key", "--subject", f"{subject}.pub", "--owner", "met.pub", "--days", 2,
        *words, cwd=home,
    )  # fmt: skip
    assert issued.returncode == 0, issued.stderr


@contextmanager
def server(home: Path) -> Iterator[tuple[str, str]]:
    """Run the server; yield where its key groups and its interface answer."""
    with running_maia("domain", "serve", "-c", "met.toml", cwd=home) as process:
        out = home / "out.log"
        until(lambda: "answering at" in out.read_text() or process.poll() is not None)
        told = out.read_text()
        assert "answering at" in told, (home / "err.log").read_text()[-2000:]
        yield (
            re.findall(r"listening on (\S+) as", told)[-1],
            re.findall(r"answering at https://(\S+)", told)[-1],
        )


def calling(home: Path, address: str, who: str) -> DomainClient:
    shown = home / f"{who}-certs"
    return DomainClient(
        address,
        domain=read_principal(str(home / "met.pub")),
        key=load_signing_key(home / f"{who}.key"),
        credentials=read_certificates([shown]) if shown.exists() else (),
    )


def log_in(home: Path, address: str, who: str) -> None:
    done = maia(
        "login", "--server", address, "--domain", "met.pub", "-k", f"{who}.key", "-w", f"{who}-wallet",
        cwd=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def vouched_until(home: Path) -> Instant:
    """Return the last moment of the lists that came with the logins."""
    kept = [one for who in PEOPLE for one in WalletFolder(home / f"{who}-wallet").read().statements]
    periods = [one.statement.period for one in kept if isinstance(one.statement, RevocationList)]
    return max(one.not_after for one in periods if one is not None and one.not_after is not None)


def numberplate(home: Path) -> VerifiedType:
    return verify_definition(read_definition(home / "np.type"), at=system_now())


@asynccontextmanager
async def member_of(home: Path, address: str, who: str):
    """Run the key member of somebody who has logged in."""
    key, wallet, standing = (
        load_signing_key(home / f"{who}.key"),
        WalletFolder(home / f"{who}-wallet"),
        Standing(),
    )
    kept = wallet.read()
    for one in kept.statements:
        standing.hear(one, system_now())
    shown = (*read_certificates([home / f"{who}-connect.cert"]), *kept.certificates)
    assert Standing.testers(shown), "what a login gives must be vouched for"
    network = NetworkName(read_principal(str(home / "met.pub")), "Met")
    member = KeyMember(
        key, MemberSettings(network, shown, addresses=(address,)), random=os.urandom, standing=standing
    )
    runner = NodeRunner(member, key)
    async with runner.running():
        runner.perform(member.need([numberplate(home)], system_now()))
        yield member
        runner.perform(member.leave())


def test_a_member_whose_right_the_domain_takes_back_is_put_out_without_a_restart(tmp_path: Path) -> None:
    """P7, A35: certificates of a login open key groups; the revocation changes keys for those who stay."""
    made(tmp_path)
    type_id = numberplate(tmp_path).type_id

    async def story(keys: str, interface: str) -> None:
        with calling(tmp_path, interface, "desk") as desk:
            for who in PEOPLE:
                said = bodies.TypedArgument(principal=(tmp_path / f"{who}.pub").read_text().strip())
                desk.call("POST", "/v1/facts", bodies.FactBody("detective", [said]), answer=answers.News)
                log_in(tmp_path, interface, who)
            async with (
                member_of(tmp_path, keys, "smith") as smith,
                member_of(tmp_path, keys, "jones") as jones,
            ):
                for one in (smith, jones):
                    await until_in_loop(lambda one=one: one.groups(type_id), "a member joins")
                await until_in_loop(lambda: system_now() > vouched_until(tmp_path), "those lists are over")
                await asyncio.sleep(0.1)  # whoever nobody vouches for is out by now
                assert all(one.groups(type_id) for one in (smith, jones))
                before = smith.ring(type_id).newest
                ids = [one.id.hex() for one in WalletFolder(tmp_path / "smith-wallet").read().certificates]
                body = bodies.Revocation(ids, "the case is closed")
                await asyncio.to_thread(
                    desk.call, "POST", "/v1/revocations", body, answer=answers.RevokedAnswer
                )
                await until_in_loop(lambda: not smith.groups(type_id), "smith is put out")
                await until_in_loop(lambda: jones.ring(type_id).newest > before, "jones has a new key")
                assert jones.groups(type_id)
                assert smith.ring(type_id).newest <= before

    with server(tmp_path) as (keys, interface):
        asyncio.run(story(keys, interface))
