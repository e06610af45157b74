"""A domain's server as its operator knows it: reloaded, killed, started again, with either database."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.testing import wait_until
from support.met_process import client, make_detective, make_met, serving
from support.police_policy import police_policy
from support.processes import maia, running_maia

POLICY = police_policy()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("met")
    make_met(folder, "smith", policy=POLICY, more_config="")
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


def test_the_policy_is_read_again_at_a_hang_up_and_a_broken_one_is_not_taken(home: Path) -> None:
    """A42: SIGHUP with a good file, with a broken one, with none."""
    with serving(home) as met, client(home, met.interface, "desk") as desk:

        def version() -> int:
            return desk.call("GET", "/v1/policy", answer=answers.PolicyAnswer).version

        def refusals() -> int:
            return (home / "err.log").read_text().count('"event": "refused", "policy"')

        assert version() == 1
        (home / "met.policy").write_text(POLICY.replace('"Police"', '"The police"'))
        os.kill(met.process.pid, signal.SIGHUP)
        wait_until(lambda: version() == 2)
        for number, damage in enumerate((POLICY[:60], "", None), start=1):
            if damage is None:
                (home / "met.policy").unlink()
            else:
                (home / "met.policy").write_text(damage)
            os.kill(met.process.pid, signal.SIGHUP)
            wait_until(lambda number=number: refusals() == number)  # type: ignore[misc]
            assert version() == 2


def test_a_killed_server_forgets_nothing(home: Path) -> None:
    """A82: revocations, the numbers of lists, the audit and idempotency keys survive `kill -9`."""
    once = "the-same-key"
    with serving(home) as met:
        make_detective(home, met.interface)
        with client(home, met.interface, "smith") as smith, client(home, met.interface, "desk") as desk:
            wallet = smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)
            body = bodies.Revocation([wallet.rights[0].id], "lost")
            revoked = desk.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer, once=once)
            head = desk.call("GET", "/v1/audit/head", answer=answers.AuditHeadAnswer)
        refused = maia("domain", "serve", "-c", "met.toml", cwd=home)
        assert (refused.returncode, "UNAVAILABLE-DATA-FOLDER" in refused.stderr) == (6, True)
        os.kill(met.process.pid, signal.SIGKILL)
    with serving(home) as met, client(home, met.interface, "desk") as desk:
        again = desk.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer, once=once)
        assert again == revoked
        audit = desk.call("GET", "/v1/audit", answer=answers.AuditPage, query={"limit": 500}).items
        assert audit[head.length - 1].digest == head.digest
        shown = json.loads(maia(
            "domain", "statements", "--history", "--json", "--server", met.interface, "--domain", "met.pub",
            "-k", "smith.key", cwd=home,
        ).stdout)["statements"]  # fmt: skip
        numbers = [one["sequence"] for one in shown if one["kind"] == "RevocationList"]
        assert numbers == sorted(set(numbers))
        assert wallet.rights[0].id in shown[-1]["revoked"]


def test_a_wallet_is_renewed_before_its_rights_end(home: Path) -> None:
    """P8: rights of six seconds, and a login that watches over them."""
    with (home / "met.toml").open("a") as config:
        config.write("[rights]\nseconds = 6\n")
    with serving(home) as met:
        make_detective(home, met.interface)
        words = ("login", "--server", met.interface, "--domain", "met.pub", "-k", "smith.key", "-w", "wallet")
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
            wait_until(lambda: len(certificates()) >= 3)
            assert process.poll() is None
        held = [path.name for path in (watch / "wallet").glob("*.cert")]
        # It may have been stopped between writing a certificate and removing the one that this replaces.
        assert 1 <= len(held) <= 2 < len(seen), "what was renewed has replaced what it renews"


@pytest.mark.postgres
def test_postgresql_keeps_what_a_domain_knows_and_its_password_is_told_to_no_client(
    home: Path, postgres_server: str
) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS maia CASCADE")
        parts = connection.info.get_parameters()
    where = f"host={parts['host']}&port={parts.get('port', 5432)}"
    url = f"postgresql://{parts['user']}:hunter2@/{parts['dbname']}?{where}"
    config = (home / "met.toml").read_text()
    (home / "met.toml").write_text(config + f'[database]\nurl = "{url}"\n')
    with serving(home) as met:
        make_detective(home, met.interface)
    with serving(home) as met, client(home, met.interface, "smith") as smith:
        assert smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer).rights
    assert not (home / "data" / "domain.sqlite").exists()
    (home / "met.toml").write_text(config + '[database]\nurl = "postgresql://u:hunter2@127.0.0.1:1/x"\n')
    refused = maia("domain", "serve", "-c", "met.toml", cwd=home)
    assert refused.returncode == 6
    assert "hunter2" not in refused.stderr + (home / "err.log").read_text() + (home / "out.log").read_text()
