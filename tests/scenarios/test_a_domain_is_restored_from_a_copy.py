"""A domain's server is put back from an old copy of its data, while a broker knows what it said since.

Everything here is real: a broker and a domain's server in processes of their
own, and clients over TLS. The copy was made before Smith's right was taken
back, so its numbers lie behind those that the broker has received, and its
register believes in a right that is gone. The server receives on its own stream
how far it had come. Nothing comes back to life, Jones is not disturbed, and
what the server revokes from then on is accepted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree

import pytest

import maia as maia_api
from maia.api import requests as bodies
from maia.api import responses as answers
from maia.client.api.client import Client
from maia.client.api.subscription import Subscription
from maia.config.input_files import read_certificates, read_definition, read_principal
from maia.credentials import NetworkName
from maia.errors import MaiaError
from maia.keystore.key_files import load_signing_key
from maia.keystore.wallet_folder import WalletFolder
from maia.testing import Server, free_ports, in_a_loop, soon, wait_until
from support.met_process import client, issue, make_detective, make_met, serving
from support.police_policy import police_policy
from support.processes import maia, running_maia

REVOKED = "POLICY-REVOKED"
POLICY = police_policy("may subscribe to Call(street)").replace(
    "fact detective", "type Call = Call\nfact detective"
)
CONFIG = """\
types = "call.type"
[broker]
addresses = "127.0.0.1:{port}"
carry_s = 120
[statements]
period_s = 3600
"""


@dataclass
class Town:
    """The files of the town, and where its broker listens."""

    home: Path
    broker: str
    stack: AsyncExitStack

    async def connected(self, who: str, *, wallet: bool = True) -> Client:
        """Connect a client with what is in its folders, as it was at the login."""
        home = self.home
        held = WalletFolder(home / f"{who}-wallet").read() if wallet else None
        shown = read_certificates([home / f"{who}-certs"])
        return await self.stack.enter_async_context(
            maia_api.connect(
                self.broker,
                key=load_signing_key(home / f"{who}.key"),
                network=NetworkName(read_principal(str(home / "met.pub")), "Met"),
                credentials=[*shown, *(() if held is None else held.certificates)],
                statements=() if held is None else held.statements,
                types=[read_definition(home / "call.type")],
            )
        )


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    (port,) = free_ports(1)
    make_met(
        tmp_path, "smith", "jones", "camera", "broker", policy=POLICY, more_config=CONFIG.format(port=port)
    )
    made = (
        ("type", "define", "--name", "Call", "-a", "street:string", "-o", "call.type"),
        ("cert", "issue", "--subject", "camera.pub", "-d", "call.type", "--action", "publish", "--days", 2,
         "-o", "camera-certs/publish.cert"),
    )  # fmt: skip
    for who in ("smith", "jones", "camera", "broker"):
        (tmp_path / f"{who}-certs").mkdir()
        issue(
            tmp_path,
            who,
            "--network",
            "Met",
            "--action",
            "connect",
            *(("--action", "serve", "--action", "broker") if who == "broker" else ()),
            "-o",
            f"{who}-certs/connect.cert",
        )
    for words in made:
        answer = maia(*words, "-k", "met.key", cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
    (tmp_path / "broker-run").mkdir()
    words = (
        "broker", "-k", "../broker.key", "--network", "Met", "--coordinator", "../met.pub",
        "--credentials", "../broker-certs", "--listen", f"127.0.0.1:{port}", "--data", "../broker-data",
    )  # fmt: skip
    with running_maia(*words, cwd=tmp_path / "broker-run"):
        wait_until(lambda: "listening on" in (tmp_path / "broker-run" / "out.log").read_text())
        yield Town(tmp_path, f"127.0.0.1:{port}", AsyncExitStack())


def logged_in(town: Town, met: Server, who: str) -> None:
    make_detective(town.home, met.interface, who)
    words = ("--server", met.interface, "--domain", "met.pub", "-k", f"{who}.key", "-w", f"{who}-wallet")
    answer = maia("login", *words, cwd=town.home)
    assert answer.returncode == 0, answer.stderr


def rights_of(town: Town, met: Server, who: str) -> list[answers.EntryAnswer]:
    with client(town.home, met.interface, who) as caller:
        whose = (town.home / f"{who}.pub").read_text().strip()
        return list(caller.call("GET", f"/v1/principals/{whose}/rights", answer=answers.EntryPage).items)


def revoke(town: Town, met: Server, who: str) -> None:
    """Take back whatever a client holds; the broker has acted on it when this returns."""
    ids = [one.id for one in rights_of(town, met, who) if one.revoked_at is None]
    with client(town.home, met.interface, "desk") as desk:
        body = bodies.Revocation(ids, "appeal")
        found = desk.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer)
        assert set(ids) <= set(found.ids)
        assert desk.last.is_published is True


def newest_list(town: Town, met: Server) -> int:
    words = ("--server", met.interface, "--domain", "met.pub", "-k", "desk.key")
    shown = json.loads(maia("domain", "statements", "--json", *words, cwd=town.home).stdout)["statements"]
    return max(one["sequence"] for one in shown if one["kind"] == "RevocationList")


async def hears(lens: maia_api.Publisher, street: str, *calls: Subscription) -> None:
    await lens.publish(street=street)
    await lens.flush()
    for one in calls:
        assert (await soon(anext(one)))["street"] == street


async def ending_of(calls: Subscription) -> str:
    """Take whatever comes, and return the code with which the subscription ends."""
    with pytest.raises(MaiaError) as ended:
        async for _ in calls:
            pass
    return ended.value.code


@in_a_loop
async def test_nothing_comes_back_to_life_and_no_other_client_is_disturbed(town: Town) -> None:
    """A39, A82, P6: the numbers never go back, and who was revoked is told so again."""
    async with town.stack:
        await story(town)


async def story(town: Town) -> None:
    home, call = town.home, read_definition(town.home / "call.type")
    with serving(home) as met:
        for who in ("smith", "jones"):
            await asyncio.to_thread(logged_in, town, met, who)
    copytree(home / "data", home / "copy")

    with serving(home) as met:
        camera, smith, jones = [
            await town.connected("camera", wallet=False),
            await town.connected("smith"),
            await town.connected("jones"),
        ]
        lens = await camera.advertise(call)
        smiths, joneses = await smith.subscribe(call), await jones.subscribe(call)
        await hears(lens, "Fleet Street", smiths, joneses)
        await asyncio.to_thread(revoke, town, met, "smith")
        assert await soon(ending_of(smiths)) == REVOKED
        said = await asyncio.to_thread(newest_list, town, met)
    rmtree(home / "data")
    (home / "copy").rename(home / "data")

    with serving(home) as met:
        again = await town.connected("smith")
        with pytest.raises(MaiaError) as refused:
            await soon(again.subscribe(call))
        assert refused.value.code == REVOKED
        await asyncio.to_thread(
            wait_until, lambda: all(one.revoked_at is not None for one in rights_of(town, met, "smith"))
        )
        assert await asyncio.to_thread(newest_list, town, met) > said
        await hears(lens, "Bow Street", joneses)
        await asyncio.to_thread(revoke, town, met, "jones")
        assert await soon(ending_of(joneses)) == REVOKED
