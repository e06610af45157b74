"""A domain's server runs key groups for members whose rights it grants, and may take back.

The certificates come from `maia login`, so they must be confirmed by the
domain; the key server receives the domain's own lists in the same process.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.clock import system_now
from maia.config.input_files import read_certificates, read_definition, read_principal
from maia.credentials import NetworkName, RevocationList
from maia.events import Instant
from maia.keystore.key_files import load_signing_key
from maia.keystore.wallet_folder import WalletFolder
from maia.net.node_runner import NodeRunner
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings
from maia.testing import until as until_in_loop
from maia.types import VerifiedType, verify_definition
from maia.validity import Monitor, named_testers
from support.met_process import client, issue, make_detective, make_met, serving
from support.police_policy import police_policy
from support.processes import maia

POLICY = police_policy("may subscribe to Numberplate(plate)")
CONFIG = """\
types = ["np.type"]
[statements]
period_s = 15
lead_s = 14
"""
PEOPLE = ("smith", "jones")


def made(home: Path) -> None:
    make_met(home, *PEOPLE, policy=POLICY, more_config=CONFIG)
    for who in PEOPLE:
        issue(home, who, "--network", "Met", "--action", "connect", "-o", f"{who}-connect.cert")
    defined = maia(
        "type", "define", "-k", "met.key", "--name", "Numberplate", "-a", "plate:string", "-a",
        "place:string", "--sealing", "attribute", "--keys", "met.pub", "-o", "np.type", cwd=home,
    )  # fmt: skip
    assert defined.returncode == 0, defined.stderr


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
    """Run the key member of a client who has logged in."""
    key, wallet, standing = (
        load_signing_key(home / f"{who}.key"),
        WalletFolder(home / f"{who}-wallet"),
        Monitor(),
    )
    kept = wallet.read()
    for one in kept.statements:
        standing.receive(one, system_now())
    shown = (*read_certificates([home / f"{who}-connect.cert"]), *kept.certificates)
    assert named_testers(shown), "what a login gives must be vouched for"
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
        with client(tmp_path, interface, "desk") as desk:
            for who in PEOPLE:
                make_detective(tmp_path, interface, who)
                await asyncio.to_thread(log_in, tmp_path, interface, who)
            async with (
                member_of(tmp_path, keys, "smith") as smith,
                member_of(tmp_path, keys, "jones") as jones,
            ):
                for one in (smith, jones):
                    await until_in_loop(lambda one=one: one.groups(type_id), "a member joins")
                await until_in_loop(lambda: system_now() > vouched_until(tmp_path), "those lists are over")
                await asyncio.sleep(0.1)  # a client that no client confirms is out by now
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

    with serving(tmp_path) as met:
        asyncio.run(story(met.address, met.interface))
