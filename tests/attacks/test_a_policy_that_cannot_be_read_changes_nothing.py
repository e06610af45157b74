"""Policies that are missing, broken or changed, through the server that reads them."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.domain.server.access_config import AccessConfig
from maia.errors import MaiaError, Refusal
from support.domain_server import DomainAtWork, domain_at_work, key_of

DETECTIVES = """
rule officer()
    while detective(holder)
    for 1 day
"""
SERGEANTS = """
rule officer()
    while sergeant(holder)
    for 1 day
"""
SHIFTS = """
rule officer()
    while detective(holder)
    while on_duty(holder, _)
    for 1 day
"""


def policy(*rules: str) -> str:
    return (
        'policy "Police"\nfact detective(who: principal)\nfact sergeant(who: principal)\n'
        "fact on_duty(who: principal, shift: string)\nrole officer()\n"
        + "\n".join(rules)
        + '\ngrant officer()\n    may subscribe to topic "/calls" of here\nend\n'
    )


GOOD = policy(DETECTIVES)


def settings(file: Path) -> AccessConfig:
    return AccessConfig(api_listen="127.0.0.1:0", policy_file=file)


def say(met: DomainAtWork, fact: str, who: str, *more: str) -> None:
    row = bodies.FactBody(fact, [bodies.TypedArgument(principal=str(key_of(who).principal)), *more])
    with met.admin() as admin:
        admin.call("POST", "/v1/facts", row, answer=answers.News)


def may_log_in(met: DomainAtWork, who: str) -> bool:
    with met.client(who) as client:
        try:
            client.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)
        except Refusal:
            return False
        return True


def reload_refused(met: DomainAtWork) -> str:
    with met.admin() as admin, pytest.raises(MaiaError) as refused:
        admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
    return refused.value.code


def version(met: DomainAtWork) -> int:
    with met.admin() as admin:
        return admin.call("GET", "/v1/policy", answer=answers.PolicyAnswer).version


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_circle_of_links(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


DAMAGES: list[Callable[[Path], object]] = [
    Path.unlink,
    lambda path: path.write_text(""),
    lambda path: path.write_text(" \n\n"),
    lambda path: path.write_text(GOOD[: len(GOOD) // 2]),
    lambda path: path.write_text(GOOD.removesuffix("end\n")),
    lambda path: path.write_text(GOOD.replace("while", "unless")),
    lambda path: path.write_bytes(b"\xff\xfe" + GOOD.encode("utf-16")),
    lambda path: path.write_text("# " + "x" * (2 << 20)),
    a_folder,
    a_circle_of_links,
]
NAMES = ["missing", "empty", "blank", "half", "no end", "wrong", "no text", "too large", "a folder", "links"]


@pytest.mark.parametrize("damage", DAMAGES, ids=NAMES)
def test_the_last_good_policy_stays_in_force(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """A42: a reload with a broken file, and then a restart with it."""
    file, data = tmp_path / "met.policy", tmp_path / "data"
    file.write_text(GOOD)
    data.mkdir(mode=0o700)
    with domain_at_work(data, config=settings(file)) as met:
        say(met, "detective", "smith")
        before = version(met)
        damage(file)
        assert reload_refused(met).startswith("INPUT-")
        assert version(met) == before
        assert may_log_in(met, "smith")
    with domain_at_work(data, config=settings(file)) as met:
        assert version(met) == before
        assert may_log_in(met, "smith")
        assert any("policy" in fields for event, fields in met.records.notes if event == "refused")


def test_a_file_that_did_not_change_makes_no_new_version(tmp_path: Path) -> None:
    """A42: neither by reading it again nor by starting with it; the audit shows changes alone."""
    file, data = tmp_path / "met.policy", tmp_path / "data"
    file.write_text(GOOD)
    data.mkdir(mode=0o700)

    def reloaded(met: DomainAtWork) -> tuple[int, bool]:
        with met.admin() as admin:
            found = admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
            return found.version, found.is_unchanged

    with domain_at_work(data, config=settings(file)) as met:
        assert reloaded(met) == (1, True)
    with domain_at_work(data, config=settings(file)) as met:
        assert [fields["unchanged"] for event, fields in met.records.notes if event == "policy"] == [True]
        file.write_text(GOOD.replace("1 day", "2 days"))
        assert reloaded(met) == (2, False)
        assert reloaded(met) == (2, True)


@pytest.mark.parametrize("damage", DAMAGES[:4], ids=NAMES[:4])
def test_without_a_good_policy_nothing_is_granted(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """A42: the first start with a broken file: the server answers, and denies."""
    file = tmp_path / "met.policy"
    file.write_text(GOOD)
    damage(file)
    with domain_at_work(tmp_path, config=settings(file)) as met:
        say(met, "detective", "smith")
        assert not may_log_in(met, "smith")
        file.write_text(GOOD)
        with met.admin() as admin:
            assert admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer).version == 1
        assert may_log_in(met, "smith")


def test_a_reload_without_file_descriptors_keeps_the_last_good_policy(tmp_path: Path) -> None:
    """A42: nothing can be opened any more."""
    file = tmp_path / "met.policy"
    file.write_text(GOOD)
    with domain_at_work(tmp_path, config=settings(file)) as met:
        say(met, "detective", "smith")
        with met.admin() as admin:
            before = admin.call("GET", "/v1/policy", answer=answers.PolicyAnswer).version
            file.write_text(policy(SERGEANTS))
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            # What is open stays open; 0, 1 and 2 are, so there is no number left for anything new.
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                with pytest.raises(MaiaError):
                    admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert version(met) == before
        assert may_log_in(met, "smith")


def test_removing_one_of_several_rules_keeps_the_others(tmp_path: Path) -> None:
    """A41: a role by two rules; one goes, and only those who needed it fall."""
    file = tmp_path / "met.policy"
    file.write_text(policy(DETECTIVES, SERGEANTS))
    with domain_at_work(tmp_path, config=settings(file)) as met:
        say(met, "detective", "smith")
        say(met, "sergeant", "jones")
        assert may_log_in(met, "smith")
        assert may_log_in(met, "jones")
        file.write_text(policy(SERGEANTS))
        with met.admin() as admin:
            admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
        for who, stands in (("smith", False), ("jones", True)):
            principal = key_of(who).principal
            with met.client(who) as client:
                found = client.call(
                    "GET", f"/v1/principals/{principal}/memberships", answer=answers.MembershipPage
                )
            assert bool(found.items) is stands
            assert may_log_in(met, who) is stands


def test_what_was_taken_away_stays_away_over_reload_and_restart(tmp_path: Path) -> None:
    """A41, A82: a revocation survives the same policy loaded again, and a restart."""
    file = tmp_path / "met.policy"
    file.write_text(GOOD)
    with domain_at_work(tmp_path, config=settings(file)) as met:
        say(met, "detective", "smith")
        with met.client("smith") as smith, met.admin() as admin:
            wallet = smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)
            right = wallet.rights[0].id
            admin.call("POST", "/v1/revocations", bodies.Revocation([right]), answer=answers.RevokedAnswer)
            admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
    with domain_at_work(tmp_path, config=settings(file)) as met, met.admin() as admin:
        register = admin.call("GET", "/v1/register", answer=answers.EntryPage).items
        assert [one.revoked_at is not None for one in register if one.id == right] == [True]


def test_a_rule_without_an_optional_premise_still_applies(tmp_path: Path) -> None:
    """A43: a second, narrower rule does not take the wider one away from who fulfils only that."""
    file = tmp_path / "met.policy"
    file.write_text(policy(DETECTIVES, SHIFTS))
    with domain_at_work(tmp_path, config=settings(file)) as met:
        say(met, "detective", "smith")
        assert may_log_in(met, "smith")
