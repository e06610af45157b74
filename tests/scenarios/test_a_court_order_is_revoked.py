"""The detective's story (dissertation 6.1.1) with real servers: the court's, the Met's and a broker.

Detective Smith gets a court order, logs in at the Met and follows one
numberplate. The court takes the order back over its HTTP interface: when that
call returns, the court's statement is on the network; the Met receives it, lets
the role fall, and Smith's open subscription ends. No other client is disturbed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import maia as maia_api
from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.client.api.subscription import Subscription
from maia.config.input_files import read_certificates, read_definition, read_principal
from maia.credentials import NetworkName
from maia.credentials.statements import statement_from_bytes
from maia.errors import MaiaError
from maia.keystore.key_files import load_signing_key
from maia.keystore.wallet_folder import WalletFolder
from maia.testing import free_ports, wait_until
from maia.types import validity_type_name
from support.processes import maia, running_maia

NETWORK = "UK Police Network"
DOMAIN = """\
key = "{who}.key"
network = "{network}"
coordinator = "pito.pub"
credentials = "{who}-certs"
listen = "127.0.0.1:0"
data = "{who}-data"
[api]
listen = "127.0.0.1:0"
[broker]
addresses = "127.0.0.1:{port}"
carry_s = 120
[statements]
period_s = 600
"""
MET_POLICY = """
[policy]
file = "met.policy"
types = "np.type"
held = "met-held"
[[facts]]
name = "case_assignment"
source = "file"
path = "cases.csv"
columns = ["officer", "case"]
kinds = ["principal", "string"]
every_s = 1
stale_s = 30
"""
POLICY = Path(__file__).resolve().parents[2] / "examples" / "policies" / "metropolitan-police.policy"


@dataclass
class City:
    """The files of the city, and where its servers answer."""

    folder: Path
    broker: str
    servers: dict[str, str]

    def run(self, *words: object) -> str:
        answer = maia(*words, cwd=self.folder)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def at(self, domain: str, who: str) -> tuple[object, ...]:
        shown = ("--credentials", f"{who}-certs") if (self.folder / f"{who}-certs").exists() else ()
        return ("--server", self.servers[domain], "--domain", f"{domain}.pub", "-k", f"{who}.key", *shown)

    def client(self, domain: str, who: str) -> DomainClient:
        return DomainClient(
            self.servers[domain],
            domain=read_principal(str(self.folder / f"{domain}.pub")),
            key=load_signing_key(self.folder / f"{who}.key"),
            credentials=read_certificates([self.folder / f"{who}-certs"]),
            timeout_s=180,
        )


def made(folder: Path, port: int) -> None:
    """Make keys, certificates, the type and the configurations."""

    def run(*words: object) -> None:
        answer = maia(*words, cwd=folder)
        assert answer.returncode == 0, answer.stderr

    for who in ("pito", "broker", "court", "met", "judge", "desk", "smith", "camera"):
        run("key", "new", f"{who}.key")
    of_pito = ("cert", "issue", "-k", "pito.key", "--days", 2)
    for who, actions in {
        "broker": ["broker", "serve"], "court": ["connect", "install"], "met": ["connect", "install"],
        "smith": ["connect"], "camera": ["connect"],
    }.items():  # fmt: skip
        (folder / f"{who}-certs").mkdir()
        for action in actions:
            run(*of_pito, "--subject", f"{who}.pub", "--owner", "pito.pub", "--network", NETWORK,
                *(("--action", "connect") if action == "broker" else ()), "--action", action,
                "-o", f"{who}-certs/{action}.cert")  # fmt: skip
    run("type", "define", "-k", "pito.key", "--name", "uk.gov.pito.Numberplate", "-a", "numberplate:string",
        "-a", "location:string", "-a", "timestamp:timestamp", "-o", "np.type")  # fmt: skip
    (folder / "met-held").mkdir()
    run(*of_pito, "--subject", "met.pub", "-d", "np.type", "--action", "subscribe", "--may-delegate",
        "-o", "met-held/np.cert")  # fmt: skip
    run(*of_pito, "--subject", "camera.pub", "-d", "np.type", "--action", "publish",
        "-o", "camera-certs/publish.cert")  # fmt: skip
    for domain, who in (("court", "judge"), ("met", "desk")):
        (folder / f"{who}-certs").mkdir()
        run("cert", "issue", "-k", f"{domain}.key", "--subject", f"{who}.pub", "--owner", f"{domain}.pub",
            "--topic", "/admin/*", "--action", "publish", "--action", "subscribe", "--days", 2,
            "-o", f"{who}-certs/admin.cert")  # fmt: skip
    court = (folder / "court.pub").read_text().strip()
    (folder / "met.policy").write_text(
        re.sub("(?m)^key courts = .*$", f"key courts = {court}", POLICY.read_text())
    )
    smith = (folder / "smith.pub").read_text().strip()
    (folder / "cases.csv").write_text(f"officer,case\n{smith},case 7\n")
    for who, more in (("court", ""), ("met", MET_POLICY)):
        (folder / f"{who}.toml").write_text(DOMAIN.format(who=who, network=NETWORK, port=port) + more)
        (folder / f"{who}-run").mkdir()
    (folder / "broker-run").mkdir()


@pytest.fixture
def city(tmp_path: Path) -> Iterator[City]:
    (port,) = free_ports(1)
    made(tmp_path, port)
    with ExitStack() as stack:
        stack.enter_context(
            running_maia(
                "broker", "-k", "../broker.key", "--network", NETWORK, "--coordinator", "../pito.pub",
                "--credentials", "../broker-certs", "--listen", f"127.0.0.1:{port}",
                "--data", "../broker-data", cwd=tmp_path / "broker-run",
            )
        )  # fmt: skip
        servers = {}
        for who in ("court", "met"):
            home = tmp_path / f"{who}-run"
            stack.enter_context(running_maia("domain", "serve", "-c", f"../{who}.toml", cwd=home))
            wait_until(lambda home=home: "answering at" in (home / "out.log").read_text())  # type: ignore[misc]
            servers[who] = re.findall(r"answering at https://(\S+)", (home / "out.log").read_text())[-1]
        yield City(tmp_path, f"127.0.0.1:{port}", servers)


def test_the_order_the_role_and_the_open_subscription_fall_one_after_the_other(city: City) -> None:
    asyncio.run(story(city))


def smith_gets_the_order(city: City) -> tuple[str, ...]:
    """Let the court give Smith the order, and Smith log in with it; return the words of the login."""
    city.run("domain", "appoint", "smith.pub", "court_order", "case 7", "AE05 XYZ", "--days", 1,
             "-o", "order.appointment", *city.at("court", "judge"))  # fmt: skip
    city.run("domain", "fact", "assert", "detective", "smith.pub", *city.at("met", "desk"))
    login = (
        "login",
        "--server",
        city.servers["met"],
        "--domain",
        "met.pub",
        "-k",
        "smith.key",
        "-w",
        "wallet",
    )
    wait_until(lambda: maia(*login, "--show", "order.appointment", cwd=city.folder).returncode == 0)
    return login


async def story(city: City) -> None:
    folder = city.folder
    login = await asyncio.to_thread(smith_gets_the_order, city)
    who_can = json.loads(
        city.run("domain", "who-can", "subscribe", "uk.gov.pito.Numberplate", "--attribute", "location",
                 "--json", *city.at("met", "desk"))
    )["holders"]  # fmt: skip
    smith = (folder / "smith.pub").read_text().strip()
    assert [one["windows"] for one in who_can if one["principal"] == smith] == [['numberplate == "AE05 XYZ"']]

    network = NetworkName(read_principal(str(folder / "pito.pub")), NETWORK)
    definition = read_definition(folder / "np.type")
    wallet = WalletFolder(folder / "wallet").read()
    async with (
        maia_api.connect(
            city.broker, key=load_signing_key(folder / "camera.key"), network=network,
            credentials=read_certificates([folder / "camera-certs"]),
        ) as camera,
        maia_api.connect(
            city.broker, key=load_signing_key(folder / "smith.key"), network=network,
            credentials=[*wallet.certificates, *read_certificates([folder / "smith-certs"])],
            statements=wallet.statements,
        ) as smiths,
    ):  # fmt: skip
        lens = await camera.advertise(definition)
        seen = await smiths.subscribe(definition, 'numberplate == "AE05 XYZ"')
        heard = await smiths.subscribe(validity_type_name(read_principal(str(folder / "court.pub"))))
        for plate in ("AE05 XYZ", "BC06 AAA"):
            await lens.publish(numberplate=plate, location="Victoria")
        await lens.flush()
        async with asyncio.timeout(180):
            event = await anext(seen)
        assert (event["numberplate"], event["location"]) == ("AE05 XYZ", "Victoria")

        order = await asyncio.to_thread(revoked_order, city)
        async with asyncio.timeout(180):
            while True:
                statement = statement_from_bytes(bytes((await anext(heard))["statement"])).statement  # type: ignore[arg-type]
                if order in statement.revoked:  # type: ignore[union-attr]
                    break
            with pytest.raises(MaiaError) as ended:
                await drained(seen)
        assert "REVOKED" in ended.value.code or ended.value.code.startswith(("POLICY-", "CREDENTIAL-"))

    refused = await asyncio.to_thread(maia, *login, cwd=folder)
    assert (refused.returncode, "REFUSED-LOGIN" in refused.stderr) == (3, True)
    assert WalletFolder(folder / "wallet").read().certificates == ()
    register = json.loads(city.run("domain", "rights", "--json", *city.at("met", "smith")))["rights"]
    assert all(one["revoked_at"] is not None for one in register)


async def drained(subscription: Subscription) -> None:
    """Take whatever comes, until the subscription ends."""
    async for _ in subscription:
        pass


def revoked_order(city: City) -> bytes:
    """Have the court take the order back over its interface; return its id when the network knows."""
    with city.client("court", "judge") as judge:
        page = judge.call("GET", "/v1/appointments", answer=answers.AppointmentPage)
        order = page.items[0].id
        path = f"/v1/appointments/{order}/revocation"
        fallen = judge.call("POST", path, bodies.Reason("appeal allowed"), answer=answers.RevokedAnswer)
        assert order in fallen.ids
        assert judge.last.is_published is True
    return bytes.fromhex(order)


def test_a_case_that_is_reassigned_in_a_file_takes_the_role_away(city: City) -> None:
    """P3: the roster is another client's file; the Met checks it again and again."""
    folder = city.folder
    login = smith_gets_the_order(city)
    (folder / "cases.csv").write_text("officer,case\n")

    def fallen() -> bool:
        found = json.loads(city.run("domain", "rights", "--json", *city.at("met", "smith")))["rights"]
        return all(one["revoked_at"] is not None for one in found)

    wait_until(fallen)
    assert maia(*login, cwd=folder).returncode == 3
