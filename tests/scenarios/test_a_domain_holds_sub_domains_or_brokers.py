"""C7, dissertation 3.2.1 and 5.1.4: an organisation, its pay-roll sub-domain and the broker in that.

Rights go from the owner of the network to the organisation, from its server
to the sub-domain, and from the sub-domain's server to a broker. The
organisation has no brokers of its own, and its server sees to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maia.testing import wait_until
from support.network_process import NETWORK, config
from support.processes import Answer, maia, running_maia

SUB_DOMAINS = """\
policy "Company"
key owner = OWNER
fact part(who: principal)
role department
rule department
    while part(holder)
    for 8 hours
grant department
    may connect to network "UK Police Network" of owner
    may delegate
grant department
    may subscribe to Salary(*)
    may delegate
end
"""
BROKERS = """\
policy "Pay roll"
key owner = OWNER
fact machine(who: principal)
role broker
rule broker
    while machine(holder)
    for 8 hours
grant broker
    may connect to network "UK Police Network" of owner
grant broker
    may subscribe to Salary(*)
end
"""
BOTH = (
    SUB_DOMAINS.replace("end\n", "").replace("role department\n", "role department\nrole porter\n")
    + """\
rule porter
    while part(holder)
    for 8 hours
grant porter
    may connect to network "UK Police Network" of owner
end
"""
)


def done(home: Path, *words: object) -> Answer:
    answered = maia(*words, cwd=home)
    assert answered.returncode == 0, answered.stderr
    return answered


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The owner of a network and of a type, and the organisation that it lets pass both on."""
    for who in ("owner", "company", "payroll", "broker"):
        done(tmp_path, "key", "new", f"{who}.key")
    define = ("type", "define", "-k", "owner.key", "--name", "Salary", "-a", "amount:int")
    done(tmp_path, *define, "-o", "salary.type")
    (tmp_path / "company-certs").mkdir()
    issue = ("cert", "issue", "-k", "owner.key", "--subject", "company.pub", "--may-delegate", "--days", 2)
    network = ("--owner", "owner.pub", "--network", NETWORK, "--action", "connect")
    done(tmp_path, *issue, *network, "-o", "company-certs/connect.cert")
    done(tmp_path, *issue, "-d", "salary.type", "--action", "subscribe", "-o", "company-certs/read.cert")
    return tmp_path


@contextmanager
def domain(home: Path, who: str, policy: str) -> Iterator[tuple[str, ...]]:
    """Run the server of a domain with this policy, and yield how it is called."""
    folder = home / who
    folder.mkdir()
    owner = (home / "owner.pub").read_text().strip()
    (folder / "domain.policy").write_text(policy.replace("OWNER", owner))
    said = '[api]\nlisten = "127.0.0.1:0"\n[policy]\nfile = "domain.policy"\n'
    said = f"[statements]\nperiod_s = 3600\n{said}"
    said += f'types = "../salary.type"\nheld = "../{who}-certs"\n'
    text = config(who, said).replace(f'"{who}', f'"../{who}').replace("pito.pub", "../owner.pub")
    (folder / "domain.toml").write_text(text)
    with running_maia("domain", "serve", "-c", "domain.toml", "--json", cwd=folder):
        wait_until(lambda: "listening" in (folder / "out.log").read_text())
        api = json.loads((folder / "out.log").read_text().splitlines()[0])["api"]
        yield ("--server", api, "--domain", f"{who}.pub")


def test_rights_go_down_two_domains_to_a_broker(home: Path) -> None:
    with domain(home, "company", SUB_DOMAINS) as company:
        done(home, "domain", "fact", "assert", "part", "payroll.pub", *company, "-k", "company.key")
        done(home, "login", *company, "-k", "payroll.key", "--wallet", "payroll-certs")
    with domain(home, "payroll", BROKERS) as payroll:
        # The company's list, which confirms its rights, lies beside them; a broker would carry the next.
        done(home, "domain", "receive", "payroll-certs", *payroll, "-k", "payroll.key")
        done(home, "domain", "fact", "assert", "machine", "broker.pub", *payroll, "-k", "payroll.key")
        done(home, "login", *payroll, "-k", "broker.key", "--wallet", "broker-certs")
    for action, about in (("connect", ("--network", NETWORK)), ("subscribe", ("--type", "Salary"))):
        words = ("cert", "find", "broker-certs", "--root", "owner.pub", "--subject", "broker.pub")
        found = json.loads(done(home, *words, "--action", action, *about, "--json").stdout)
        assert (len(found["certificates"]), found["may_delegate"]) == (3, False)
    (home / "broker.toml").write_text(config("broker").replace("pito.pub", "owner.pub"))
    refused = maia("broker", "-c", "broker.toml", "--check", cwd=home)
    assert (refused.returncode, "REFUSED-NOT-A-BROKER" in refused.stderr) == (2, True), "no role makes one"
    words = ("--subject", "broker.pub", "--owner", "owner.pub", "--network", NETWORK, "--days", 2)
    made = ("--action", "connect", "--action", "broker", "-o", "broker-certs/broker.cert")
    done(home, "cert", "issue", "-k", "payroll.key", *words, *made)
    done(home, "broker", "-c", "broker.toml", "--check")


def test_a_policy_for_sub_domains_and_brokers_is_refused_and_changes_nothing(home: Path) -> None:
    owner = (home / "owner.pub").read_text().strip()
    (home / "both.policy").write_text(BOTH.replace("OWNER", owner))
    with domain(home, "company", SUB_DOMAINS) as company:
        refused = maia("domain", "policy", "load", "both.policy", *company, "-k", "company.key", cwd=home)
        assert refused.returncode == 2
        assert "line 18, column 1 in `grant porter`: a domain holds sub-domains or brokers" in refused.stderr
        done(home, "domain", "fact", "assert", "part", "payroll.pub", *company, "-k", "company.key")
        done(home, "login", *company, "-k", "payroll.key", "--wallet", "payroll-certs")
    checked = maia("domain", "policy", "check", "both.policy", "--types", "salary.type", cwd=home)
    assert (checked.returncode, "never both" in checked.stderr) == (2, True)


def test_what_was_signed_by_hand_is_registered_only_if_it_goes_with_the_rest(home: Path) -> None:
    issue = ("cert", "issue", "-k", "company.key", "--subject", "broker.pub", "--days", 2)
    done(home, *issue, "--owner", "owner.pub", "--network", NETWORK, "--action", "connect", "-o", "hand.cert")
    done(home, *issue, "-d", "salary.type", "--action", "subscribe", "-o", "read.cert")
    with domain(home, "company", SUB_DOMAINS) as company:
        mixed = maia("domain", "hold", "hand.cert", *company, "-k", "company.key", cwd=home)
        assert (mixed.returncode, "REFUSED-TIERS" in mixed.stderr) == (3, True)
        done(home, "domain", "hold", "read.cert", *company, "-k", "company.key")


def test_a_domain_whose_brokers_are_known_takes_no_policy_for_sub_domains(home: Path) -> None:
    issue = ("cert", "issue", "-k", "company.key", "--subject", "broker.pub", "--days", 2)
    done(home, *issue, "--owner", "owner.pub", "--network", NETWORK, "--action", "connect", "-o", "hand.cert")
    owner = (home / "owner.pub").read_text().strip()
    (home / "parts.policy").write_text(SUB_DOMAINS.replace("OWNER", owner))
    with domain(home, "company", BROKERS) as company:
        done(home, "domain", "hold", "hand.cert", *company, "-k", "company.key")
        load = ("domain", "policy", "load", "parts.policy", *company, "-k", "company.key")
        refused = maia(*load, cwd=home)
        assert (refused.returncode, "REFUSED-TIERS" in refused.stderr) == (3, True)
        done(home, "domain", "fact", "assert", "machine", "broker.pub", *company, "-k", "company.key")
        done(home, "login", *company, "-k", "broker.key", "--wallet", "broker-certs")
