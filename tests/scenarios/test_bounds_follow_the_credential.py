"""E9, Miklós 3.1 and 5: bounds in certificates and policies hold at every broker, and change while these run.

Two brokers without a file of bounds, joined to one network; a policy of a domain sets them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import maia
from maia.testing import wait_until
from support.processes import maia as command
from support.processes import running_maia

POLICY = """policy "Agency"
fact works_here(who: principal)
role clerk
rule clerk
    while works_here(holder)
    for 1 day
grant clerk
    may subscribe News(*)
    bound {bound}
end
"""


def done(home: Path, *words: object) -> str:
    answer = command(*words, cwd=home)
    assert answer.returncode == 0, (words, answer.stdout, answer.stderr)
    return answer.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The agency grants an office of its own network the news; both have a broker."""
    folder = tmp_path_factory.mktemp("market")
    for words in (
        ("org", "new", "agency"),
        ("org", "new", "office"),
        ("type", "define", "News", "message:string", "price:int", "color:string", "--org", "agency"),
        ("member", "add", "shop", "--may", "publish:News", "--org", "agency"),
        # Its broker serves readers of the news for others, once it serves one of its own.
        ("member", "add", "press", "--may", "subscribe:News", "--org", "agency"),
        ("grant", "office/office.pub", "--org", "agency", "--may", "subscribe:News", "--delegable",
         "-o", "office.grant"),
        ("org", "join", "office.grant", "--org", "office"),
        ("member", "add", "clerk", "--org", "office"),
    ):  # fmt: skip
        done(folder, *words)
    with ExitStack() as stack:
        for org in ("agency", "office"):
            for name, words in (("domain", ("domain", "serve")), ("broker", ("broker",))):
                output = folder / org / f"{name}-output"
                output.mkdir()
                config = ("--config", folder / org / f"{name}.toml")
                stack.enter_context(running_maia(*words, *config, cwd=output))
                wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        fact = ("fact", "assert", "works_here", "office/clerk.maia/clerk.pub")
        load(folder, 'upper message == "new_product"', login=False)
        done(folder, "domain", *fact, "--as", "office")
        yield folder


def load(home: Path, bound: str, *, login: bool = True) -> None:
    (home / "office.policy").write_text(POLICY.format(bound=bound))
    done(home, "domain", "policy", "load", "office.policy", "--as", "office")
    if login:
        done(home, "login", "--as", "clerk")


def test_a_bound_of_a_policy_holds_at_each_broker_and_changes_while_they_run(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    done(home, "login", "--as", "clerk")
    agency = (home / "agency/broker-output/out.log").read_text().partition("listening on ")[2].split()[0]
    theirs = [maia.Organisation(home / name).principal for name in ("agency", "office")]
    for at in (None, agency):
        with maia.connect("clerk", address=at, brokers_of=theirs) as clerk, maia.connect("shop") as shop:
            with pytest.raises(maia.Refusal) as refused:
                clerk.subscribe("News", "price < 100")
            assert refused.value.code == "POLICY-SUBSCRIPTION-TOO-WIDE", at
            news = clerk.subscribe("News", 'message == "new_product" and price < 100')
            shop.publish("News", message="new_product", price=23, color="red")
            assert news.some(timeout_s=60)[0]["color"] == "red"
    with maia.connect("clerk") as clerk, maia.connect("shop") as shop:
        news = clerk.subscribe("News", 'message == "new_product" and price < 100')
        load(home, "strict upper exists(message) and exists(price)", login=False)
        with pytest.raises(maia.MaiaError):
            news.some(timeout_s=60)  # the right with the old bound has ended
    done(home, "login", "--as", "clerk")
    with maia.connect("clerk") as clerk, maia.connect("shop") as shop:
        news = clerk.subscribe("News", "exists(message) and price < 100")
        shop.publish("News", message="old_product", price=23, color="red")
        seen = news.some(timeout_s=60)[0]
        assert (seen["message"], seen["price"], seen["color"]) == ("old_product", 23, None)


def test_a_bound_is_issued_and_shown_by_hand(home: Path) -> None:
    for who in ("smith", "owner"):
        done(home, "key", "new", f"{who}.key")
    done(home, "cert", "issue", "-k", "owner.key", "--subject", "smith.pub", "--owner",
         "owner.pub", "--type", "News", "--action", "subscribe", "--days", 2,
         "--bound", "strict upper exists(price)", "-o", "smith.cert")  # fmt: skip
    assert "strict upper exists(#price)" in done(home, "cert", "show", "smith.cert")


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("upper prize < 3", "there is no attribute `prize`"),
        ("strict lower price < 3 or price > 5", "constraint"),
        ("inner price < 3", "a bound is of a grant"),
    ],
)
def test_a_bound_that_makes_no_sense_is_found_by_the_check(home: Path, bound: str, said: str) -> None:
    (home / "wrong.policy").write_text(POLICY.format(bound=bound))
    found = command("domain", "policy", "check", "wrong.policy", "--as", "office", cwd=home)
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr
