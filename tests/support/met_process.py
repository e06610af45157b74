"""A domain's server of the Met as its operator knows it: keys, a policy and a configuration, as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.config.input_files import read_certificates, read_principal
from maia.keystore.key_files import load_signing_key
from maia.testing import Server
from support.processes import forked, maia

_CONFIG = """\
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
"""


def make_met(home: Path, *people: str, policy: str, more_config: str) -> None:
    """Make the domain, a desk that may do everything in it, and some people, as files."""
    for who in ("met", "desk", *people):
        assert maia("key", "new", f"{who}.key", cwd=home).returncode == 0
    for name in ("met-certs", "desk-certs"):
        (home / name).mkdir()
    may = ("--topic", "/admin/*", "--action", "publish", "--action", "subscribe")
    issue(home, "desk", *may, "-o", "desk-certs/admin.cert")
    (home / "met.policy").write_text(policy)
    (home / "met.toml").write_text(_CONFIG + more_config)


def issue(home: Path, subject: str, *words: str) -> None:
    """Issue a certificate of the Met."""
    issued = maia(
        "cert", "issue", "-k", "met.key", "--subject", f"{subject}.pub", "--owner", "met.pub", "--days", 2,
        *words, cwd=home,
    )  # fmt: skip
    assert issued.returncode == 0, issued.stderr


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """Run the server; one may have run there before."""
    server = Server(("domain", "serve", "-c", "met.toml"), home, forked)
    try:
        yield server.ready(r"answering at https://(\S+)")
    finally:
        server.kill()


def client(home: Path, address: str, who: str) -> DomainClient:
    """Call the interface as somebody, with whatever certificates it has."""
    shown = home / f"{who}-certs"
    return DomainClient(
        address,
        domain=read_principal(str(home / "met.pub")),
        key=load_signing_key(home / f"{who}.key"),
        credentials=read_certificates([shown]) if shown.exists() else (),
        timeout_s=180,
    )


def make_detective(home: Path, address: str, who: str = "smith") -> None:
    """Let the desk say that somebody is a detective."""
    said = bodies.TypedArgument(principal=(home / f"{who}.pub").read_text().strip())
    with client(home, address, "desk") as desk:
        desk.call("POST", "/v1/facts", bodies.FactBody("detective", [said]), answer=answers.News)
