"""Signed calls that a peer overheard or held back, at servers that were killed, or that are two."""

from __future__ import annotations

import base64
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import httpx
import msgspec
import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.api.problems import credentials_to_header
from maia.clock import system_now
from maia.config.input_files import read_certificates, read_principal
from maia.events import Instant
from maia.keystore.key_files import load_signing_key
from maia.net.tls import pinning_context
from maia.testing import wait_until
from maia.wire.api_requests import ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from support.processes import maia, running_maia

SECOND = 1_000_000
CONFIG = """\
key = "met.key"
network = "Met"
coordinator = "met.pub"
credentials = "met-certs"
listen = "127.0.0.1:0"
data = "{data}"
[api]
listen = "127.0.0.1:0"
[database]
url = "sqlite:///domain.sqlite"
[statements]
period_s = 3600
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for who in ("met", "desk"):
        assert maia("key", "new", f"{who}.key", cwd=tmp_path).returncode == 0
    for name in ("met-certs", "desk-certs"):
        (tmp_path / name).mkdir()
    issued = maia(
        "cert", "issue", "-k", "met.key", "--subject", "desk.pub", "--owner", "met.pub",
        "--topic", "/admin/*", "--action", "publish", "--action", "subscribe", "--days", 2,
        "-o", "desk-certs/admin.cert", cwd=tmp_path,
    )  # fmt: skip
    assert issued.returncode == 0, issued.stderr
    return tmp_path


@dataclass
class Server:
    """A server, and a caller who may change its facts."""

    home: Path
    process: Popen[str]
    address: str

    def desk(self) -> DomainClient:
        shown = read_certificates([self.home / "desk-certs"])
        key, domain = load_signing_key(self.home / "desk.key"), read_principal(str(self.home / "met.pub"))
        return DomainClient(self.address, domain=domain, key=key, credentials=shown)

    def overheard(self, *, ahead_s: int = 50) -> Call:
        """A call that says that a peer is on duty, dated ahead so that its time fits for longer."""
        key = load_signing_key(self.home / "desk.key")
        shown = credentials_to_header(read_certificates([self.home / "desk-certs"]))
        row = bodies.FactBody("on_duty", [bodies.TypedArgument(principal=str(key.principal))])
        body = msgspec.json.encode(row)
        call = ApiCall.of("POST", "/v1/facts", body=body, credentials=shown.encode("latin-1"))
        with self.desk() as desk:
            about = desk.about()
        request = ApiRequest(
            read_principal(str(self.home / "met.pub")),
            bytes.fromhex(about.instance),
            call,
            Instant(system_now() + ahead_s * SECOND),
            os.urandom(16),
        )
        signed = base64.b64encode(api_request_to_bytes(sign_api_request(request, key))).decode()
        return Call(body, {"Authorization": f"Maia {signed}", "Maia-Credentials": shown})

    def hears(self, call: Call) -> tuple[int, str]:
        """A peer that holds the call makes it, and receives a status and a code."""
        domain = read_principal(str(self.home / "met.pub"))
        with httpx.Client(verify=pinning_context(domain), trust_env=False, timeout=180) as http:
            url = f"https://{self.address}/v1/facts"
            answer = http.post(url, content=call.body, headers=call.headers)
            return answer.status_code, str(answer.json().get("code", ""))

    def on_duty(self) -> int:
        with self.desk() as desk:
            page = desk.call("GET", "/v1/facts", answer=answers.FactPage, query={"name": "on_duty"})
            return len(page.items)

    def end_duty(self) -> None:
        with self.desk() as desk:
            path, nobody = "/v1/facts/on_duty", bodies.FactRows([])
            desk.call("PUT", path, nobody, answer=answers.RevokedAnswer)


@dataclass(frozen=True)
class Call:
    """The bytes of a call."""

    body: bytes
    headers: dict[str, str]


@contextmanager
def server(home: Path, name: str) -> Iterator[Server]:
    """Run a server with a data folder of its own; all of them keep what they know in one database."""
    (home / f"{name}.toml").write_text(CONFIG.format(data=name))
    place = home / f"{name}-run"
    place.mkdir(exist_ok=True)
    log = place / "out.log"
    before = log.read_text().count("answering at") if log.exists() else 0
    with running_maia("domain", "serve", "-c", f"../{name}.toml", cwd=place) as process:
        wait_until(lambda: log.read_text().count("answering at") > before or process.poll() is not None)
        found = re.findall(r"answering at https://(\S+)", log.read_text())
        assert len(found) > before, (place / "err.log").read_text()[-2000:]
        yield Server(home, process, found[-1])


def test_what_was_overheard_is_refused_after_kill_9(home: Path) -> None:
    """A18, A82: a call that was made, and one that was held back, when nothing was left to say goodbye."""
    with server(home, "one") as met:
        made, held_back = met.overheard(), met.overheard()
        assert met.hears(made) == (200, "")
        assert met.hears(made) == (401, "REQUEST-REPLAYED")
        met.end_duty()
        os.kill(met.process.pid, signal.SIGKILL)
        met.process.wait()
    with server(home, "one") as again:
        for call in (made, held_back):
            assert again.hears(call) == (401, "REQUEST-ANOTHER-RUN")
        assert again.on_duty() == 0
        assert again.hears(again.overheard()) == (200, "")


def test_two_servers_over_one_store_never_both_do_what_was_signed_once(home: Path) -> None:
    """A18, A82: a call is for one run, and of two runs that share a store one has ended."""
    with server(home, "one") as first:
        for_first = first.overheard()
        with server(home, "two") as second:
            wait_until(lambda: second.hears(second.overheard())[0] == 200)
            second.end_duty()
            for_second = second.overheard()
            assert second.hears(for_first) == (401, "REQUEST-ANOTHER-RUN")
            assert first.hears(for_second) == (401, "REQUEST-ANOTHER-RUN")
            status, code = first.hears(for_first)
            assert (status, code) == (503, "UNAVAILABLE-STORE-FENCED")
            assert first.process.wait(180) != 0
            assert second.on_duty() == 0
            assert second.hears(for_second) == (200, "")
            assert second.hears(for_second) == (401, "REQUEST-REPLAYED")
            assert second.on_duty() == 1
