"""P6 from the command line: `maia login`, then `maia subscribe` and `maia publish` with what it gave.

A real broker, a real domain and real files: no client who types these commands
does anything for the one-time test that the domain's policy demands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from maia.testing import free_ports, wait_until
from support.processes import Answer, maia, running_maia

NETWORK = "Met"
CONFIG = """\
key = "met.key"
network = "Met"
coordinator = "met.pub"
credentials = "met-certs"
listen = "127.0.0.1:0"
data = "met-data"
[api]
listen = "127.0.0.1:{api}"
public = "127.0.0.1:{api}"
[policy]
file = "met.policy"
types = "warrant.type"
[broker]
addresses = "127.0.0.1:{broker}"
"""
POLICY = """\
policy "Metropolitan Police"
type Warrant = Warrant
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe, publish Warrant(street)
    checked by one-time
end
"""


def run(folder: Path, *words: object) -> Answer:
    answer = maia(*words, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer


def made(folder: Path, *, broker: int, api: int) -> None:
    for who in ("met", "broker", "desk", "smith"):
        run(folder, "key", "new", f"{who}.key")
    for who in ("met", "broker", "smith", "desk"):
        (folder / f"{who}-certs").mkdir()
    issued = ("cert", "issue", "-k", "met.key", "--owner", "met.pub", "--days", 2)
    for who in ("broker", "smith"):
        as_broker = ("--action", "serve", "--action", "broker") if who == "broker" else ()
        run(folder, *issued, "--subject", f"{who}.pub", "--network", NETWORK, "--action", "connect",
            *as_broker, "-o", f"{who}-certs/connect.cert")  # fmt: skip
    run(folder, *issued, "--subject", "desk.pub", "--topic", "/admin/*", "--action", "publish",
        "--action", "subscribe", "-o", "desk-certs/admin.cert")  # fmt: skip
    run(folder, "type", "define", "-k", "met.key", "--name", "Warrant", "-a", "street:string",
        "-o", "warrant.type")  # fmt: skip
    (folder / "met.policy").write_text(POLICY)
    (folder / "met.toml").write_text(CONFIG.format(api=api, broker=broker))
    for who in ("broker", "met", "reader"):
        (folder / f"{who}-run").mkdir()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    broker, api = free_ports(2)
    made(tmp_path, broker=broker, api=api)
    with ExitStack() as stack:
        stack.enter_context(
            running_maia(
                "broker", "-k", "../broker.key", "--network", NETWORK, "--coordinator", "../met.pub",
                "--credentials", "../broker-certs", "--listen", f"127.0.0.1:{broker}",
                "--data", "../broker-data", cwd=tmp_path / "broker-run",
            )
        )  # fmt: skip
        home = tmp_path / "met-run"
        stack.enter_context(running_maia("domain", "serve", "-c", "../met.toml", cwd=home))
        wait_until(lambda: "answering at" in (home / "out.log").read_text())
        server = re.findall(r"answering at https://(\S+)", (home / "out.log").read_text())[-1]
        yield tmp_path, f"127.0.0.1:{broker}", server


def test_who_has_logged_in_subscribes_and_publishes_and_is_confirmed(town: tuple[Path, str, str]) -> None:
    folder, broker, server = town
    at = ("--server", server, "--domain", "met.pub")
    desk = (*at, "-k", "desk.key", "--credentials", "desk-certs")
    run(folder, "domain", "fact", "assert", "detective", "smith.pub", *desk)
    run(folder, "login", *at, "-k", "smith.key", "-w", "wallet")
    about = ("--broker", broker, "--network", NETWORK, "--wait", 60)
    out = folder / "reader-run" / "out.log"
    with running_maia(
        "subscribe", "-d", "../warrant.type", "-k", "../smith.key", "--credentials", "../smith-certs",
        "--coordinator", "../met.pub", "--wallet", "../wallet", *about, cwd=folder / "reader-run",
    ) as reader:  # fmt: skip
        wait_until(lambda: "subscribed" in (folder / "reader-run" / "err.log").read_text())
        here = ("-d", "warrant.type", "-k", "smith.key", "--credentials", "smith-certs",
                "--coordinator", "met.pub", "--wallet", "wallet", *about)  # fmt: skip
        run(folder, "publish", *here, "--set", "street=Brick Lane")
        wait_until(lambda: out.read_text().count("\n") == 1)
        assert json.loads(out.read_text())["street"] == "Brick Lane"

        run(folder, "domain", "fact", "retract", "detective", "smith.pub", *desk)
        assert reader.wait(180) == 3
        refused = maia("publish", *here, "--set", "street=Fashion Street", cwd=folder)
        assert refused.returncode == 3, refused.stderr
    assert "REVOKED" in (folder / "reader-run" / "err.log").read_text()
