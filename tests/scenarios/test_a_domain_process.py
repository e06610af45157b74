"""A domain's server as its operator knows it: reloaded, killed, started again, with either database."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from maia.runtime.domain_api import answers, bodies
from maia.runtime.domain_client import DomainClient
from maia.runtime.input_files import read_certificates, read_principal
from maia.runtime.key_files import load_signing_key
from support.processes import maia, running_maia, until

POLICY = """\
policy "Police"
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe to topic "/calls" of here
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
[rights]
seconds = 6
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("met")
    for who in ("met", "desk", "smith"):
        assert maia("key", "new", f"{who}.key", cwd=folder).returncode == 0
    for name in ("met-certs", "desk-certs"):
        (folder / name).mkdir()
    issued = maia(
        "cert", "issue", "-k", "met.key", "--subject", "desk.pub", "--owner", "met.pub",
        "--topic", "/admin/*", "--action", "publish", "--action", "subscribe", "--days", 2,
        "-o", "desk-certs/admin.cert", cwd=folder,
    )  # fmt: skip
    assert issued.returncode == 0, issued.stderr
    (folder / "met.policy").write_text(POLICY)
    (folder / "met.toml").write_text(CONFIG)
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    for path in sorted(made.rglob("*")):
        target = tmp_path / path.relative_to(made)
        if path.is_dir():
            target.mkdir()
        else:
            target.write_bytes(path.read_bytes())
            target.chmod(path.stat().st_mode & 0o777)
    return tmp_path


@contextmanager
def server(home: Path) -> Iterator[tuple[int, str]]:
    """Run the server; yield its process id and where its interface answers."""
    before = (home / "out.log").read_text().count("answering at") if (home / "out.log").exists() else 0
    with running_maia("domain", "serve", "-c", "met.toml", cwd=home) as process:
        until(
            lambda: (
                (home / "out.log").read_text().count("answering at") > before or process.poll() is not None
            )
        )
        found = re.findall(r"answering at https://(\S+)", (home / "out.log").read_text())
        assert len(found) > before, (home / "err.log").read_text()[-2000:]
        yield process.pid, found[-1]


def client(home: Path, address: str, who: str) -> DomainClient:
    shown = home / f"{who}-certs"
    return DomainClient(
        address,
        domain=read_principal(str(home / "met.pub")),
        key=load_signing_key(home / f"{who}.key"),
        credentials=read_certificates([shown]) if shown.exists() else (),
    )


def make_detective(home: Path, address: str) -> None:
    row = bodies.FactBody(
        "detective", [bodies.TypedArgument(principal=(home / "smith.pub").read_text().strip())]
    )
    with client(home, address, "desk") as desk:
        desk.call("POST", "/v1/facts", row, answer=answers.News)


def test_the_policy_is_read_again_at_a_hang_up_and_a_broken_one_is_not_taken(home: Path) -> None:
    """A42: SIGHUP with a good file, with a broken one, with none."""
    with server(home) as (process, address), client(home, address, "desk") as desk:

        def version() -> int:
            return desk.call("GET", "/v1/policy", answer=answers.PolicyAnswer).version

        def refusals() -> int:
            return (home / "err.log").read_text().count('"event": "refused", "policy"')

        assert version() == 1
        (home / "met.policy").write_text(POLICY.replace('"Police"', '"The police"'))
        os.kill(process, signal.SIGHUP)
        until(lambda: version() == 2)
        for number, damage in enumerate((POLICY[:60], "", None), start=1):
            if damage is None:
                (home / "met.policy").unlink()
            else:
                (home / "met.policy").write_text(damage)
            os.kill(process, signal.SIGHUP)
            until(lambda number=number: refusals() == number)  # type: ignore[misc]
            assert version() == 2


def test_a_killed_server_forgets_nothing(home: Path) -> None:
    """A82: revocations, the numbers of lists, the audit and idempotency keys survive `kill -9`."""
    once = "the-same-key"
    with server(home) as (process, address):
        make_detective(home, address)
        with client(home, address, "smith") as smith, client(home, address, "desk") as desk:
            wallet = smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)
            body = bodies.Revocation([wallet.rights[0].id], "lost")
            revoked = desk.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer, once=once)
            head = desk.call("GET", "/v1/audit/head", answer=answers.AuditHeadAnswer)
        refused = maia("domain", "serve", "-c", "met.toml", cwd=home)
        assert (refused.returncode, "UNAVAILABLE-DATA-FOLDER" in refused.stderr) == (6, True)
        os.kill(process, signal.SIGKILL)
    with server(home) as (_, address), client(home, address, "desk") as desk:
        again = desk.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer, once=once)
        assert again == revoked
        audit = desk.call("GET", "/v1/audit", answer=answers.AuditPage, query={"limit": 500}).items
        assert audit[head.length - 1].digest == head.digest
        shown = json.loads(maia(
            "domain", "statements", "--history", "--json", "--server", address, "--domain", "met.pub",
            "-k", "smith.key", cwd=home,
        ).stdout)["statements"]  # fmt: skip
        numbers = [one["sequence"] for one in shown if one["kind"] == "RevocationList"]
        assert numbers == sorted(set(numbers))
        assert wallet.rights[0].id in shown[-1]["revoked"]


def test_a_wallet_is_renewed_before_its_rights_end(home: Path) -> None:
    """P8: rights of six seconds, and a login that watches over them."""
    with server(home) as (_, address):
        make_detective(home, address)
        words = ("login", "--server", address, "--domain", "met.pub", "-k", "smith.key", "-w", "wallet")
        watch = home / "watch"
        watch.mkdir()
        for name in ("smith.key", "met.pub"):
            (watch / name).write_bytes((home / name).read_bytes())
            (watch / name).chmod(0o600)
        seen: set[str] = set()

        def certificates() -> set[str]:
            seen.update(path.name for path in (watch / "wallet").glob("*.cert"))
            return seen

        with running_maia(*words, "--watch", cwd=watch) as process:
            until(lambda: len(certificates()) >= 3)
            assert process.poll() is None
        held = [path.name for path in (watch / "wallet").glob("*.cert")]
        # It may have been stopped between writing a certificate and removing the one that this replaces.
        assert 1 <= len(held) <= 2 < len(seen), "what was renewed has replaced what it renews"


@pytest.mark.postgres
def test_postgresql_keeps_what_a_domain_knows_and_its_password_is_told_to_nobody(
    home: Path, postgres_server: str
) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS maia CASCADE")
        parts = connection.info.get_parameters()
    where = f"host={parts['host']}&port={parts.get('port', 5432)}"
    url = f"postgresql://{parts['user']}:hunter2@/{parts['dbname']}?{where}"
    (home / "met.toml").write_text(CONFIG + f'[database]\nurl = "{url}"\n')
    with server(home) as (_, address):
        make_detective(home, address)
    with server(home) as (_, address), client(home, address, "smith") as smith:
        assert smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer).rights
    assert not (home / "data" / "domain.sqlite").exists()
    (home / "met.toml").write_text(CONFIG + '[database]\nurl = "postgresql://u:hunter2@127.0.0.1:1/x"\n')
    refused = maia("domain", "serve", "-c", "met.toml", cwd=home)
    assert refused.returncode == 6
    assert "hunter2" not in refused.stderr + (home / "err.log").read_text() + (home / "out.log").read_text()
