"""Who can see what of an organisation: it is right by default, shown by names, and one command from undone.

One hospital over real servers. Nothing is registered by hand, and no option names a key or a certificate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import maia
from maia.config.input_files import read_certificates
from maia.organisation.losses import is_membership
from maia.testing import wait_until
from support.processes import Answer, running_maia
from support.processes import maia as command

WARDS = 'ward in ("3", "4")'
SHORT = "place := first(place, 3)"
TERMS = ("--only", "ward,value,place", "--where", WARDS, "--set", SHORT, "--until", "2199-12-31")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A hospital with a lab, an office that was added before the servers ran, and a desk that was after."""
    folder = tmp_path_factory.mktemp("home")
    said(folder, "org", "new", "hospital")
    said(folder, "type", "define", "LabResult", "patient:string", "ward:string", "value:int", "place:string")
    said(folder, "topic", "declare", "/news")
    said(folder, "member", "add", "lab", "--may", "publish:LabResult")
    said(folder, "member", "add", "office", "--may", "subscribe:LabResult", *TERMS)
    hospital = folder / "hospital"
    with (hospital / "broker.toml").open("a") as settings:
        settings.write('\n[ledger]\nfolder = "ledger"\nall = true\n')
    with ExitStack() as stack:
        for name, words in (("broker", ("broker",)), ("domain", ("domain", "serve"))):
            output = folder / f"{name}-output"
            output.mkdir()
            stack.enter_context(running_maia(*words, "--config", hospital / f"{name}.toml", cwd=output))
            wait_until(lambda out=output / "out.log": "listening" in out.read_text())
        said(folder, "org", "new", "institute")
        said(folder, "member", "add", "desk", "--org", "hospital", "--may", "subscribe:LabResult")
        grant = ("grant", "institute/institute.pub", "--org", "hospital", "-o", "institute.grant")
        said(folder, *grant, "--may", "subscribe:LabResult", *TERMS, "--delegable")
        yield folder


def said(folder: Path, *words: object) -> str:
    """Return the answer of a command that works."""
    answer = command(*words, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def explained(folder: Path, who: str, *more: str) -> Answer:
    return command("explain", "LabResult", "--as", who, "--action", "subscribe", *more, cwd=folder)


def who_can(folder: Path) -> dict[str, dict[str, object]]:
    """Return who can subscribe, by the names that the hospital knows, as its register answers."""
    asked = ("domain", "who-can", "subscribe", "LabResult@hospital", "--as", "hospital")
    found = json.loads(said(folder, *asked, "--json"))
    return {found["names"][one["principal"]]["name"]: one for one in found["holders"]}


def test_the_register_knows_members_and_grants_without_being_told(home: Path) -> None:
    wait_until(lambda: who_can(home).keys() >= {"hospital", "office", "desk", "institute"})
    for name in ("office", "institute"):
        held = who_can(home)[name]
        assert held["attributes"] == ["place", "value", "ward"]
        assert held["windows"] == [WARDS]
        assert held["transformations"] == [SHORT]
        assert held["until"] == "2199-12-31T23:59:59Z"
    assert who_can(home)["desk"]["attributes"] is None
    assert "lab" not in who_can(home)


def test_answers_say_how_far_a_right_reaches_and_who_granted_it(home: Path) -> None:
    terms = (
        "only       place value ward",
        f"where      {WARDS}",
        f"set        {SHORT}",
        "2199-12-31T23:59:59Z",
    )
    in_hospital = ("--org", "hospital")
    for shown in (said(home, "member", "list", *in_hospital), said(home, "org", "show", *in_hospital)):
        assert all(one in shown for one in terms)
    assert "granted by hospital (ed25519:" in said(home, "member", "list", *in_hospital)
    issued = next((home / "hospital" / "issued").glob("*.cert")).parent
    whole = said(home, "cert", "show", issued)
    assert "attributes   place value ward\n" in whole
    assert f"set          {SHORT}" in whole


def test_a_refusal_suggests_the_question_that_was_refused(home: Path) -> None:
    where = 'ward == "7"'
    refused = command("subscribe", "LabResult", "--as", "lab", "--filter", where, "--for", "1", cwd=home)
    assert refused.returncode == 3
    assert f"--action subscribe --where '{where}'` says why" in refused.stderr


def test_a_dry_run_shows_who_loses_what_and_changes_nothing(home: Path) -> None:
    said(home, "org", "join", "institute.grant", "--org", "institute")
    said(home, "member", "add", "dashboard", "--org", "institute", "--may", "subscribe:LabResult")
    server = json.loads(said(home, "org", "show", "--org", "hospital", "--json"))["server"]
    given = next(
        one for one in home.glob("institute/issued/*.cert") if not is_membership(read_certificates([one])[0])
    )
    at_hospital = ("--server", server, "--domain", "hospital/hospital.pub", "-k", "institute/institute.key")
    said(home, "domain", "delegated", given, *at_hospital)
    shown = said(home, "revoke", "institute", "--org", "hospital", "--dry-run")
    assert shown.startswith("loses        institute (ed25519:")
    assert re.search(r"^loses        dashboard \(.*, passed on by institute \(", shown, re.MULTILINE)
    assert f"where      {WARDS}" in shown
    assert "stays        connect to network hospital" in shown
    assert shown.endswith("dry run      nothing was revoked\n")
    assert "institute" in who_can(home)


def test_a_list_says_where_it_ends_and_asks_the_register_behind_it_if_that_answers(home: Path) -> None:
    asked = ("domain", "who-can", "subscribe", "LabResult@hospital", "--as", "hospital")
    dry = ("revoke", "institute", "--org", "hospital", "--dry-run")
    said(home, "member", "add", "ward", "--org", "institute", "--may", "subscribe:LabResult")
    for words in (asked, dry):
        shown = said(home, *words)
        assert re.search(r"^ends at +institute \(.*it was asked, and does not tell us", shown, re.MULTILINE)
        assert "ward (ed25519:" not in shown
    institute = home / "institute"
    issue = ("cert", "issue", "-k", institute / "institute.key", "--owner", institute / "institute.pub")
    about = ("--topic", "/admin/register", "--action", "subscribe", "--days", "1")
    said(home, *issue, *about, "--subject", "hospital/hospital.pub", "-o", "hospital/certs/reader.cert")
    output = home / "institute-output"
    output.mkdir()
    with running_maia("domain", "serve", "--config", institute / "domain.toml", cwd=output):
        wait_until(lambda: "listening" in (output / "out.log").read_text())
        server = json.loads(said(home, "org", "show", "--org", "institute", "--json"))["server"]
        for words in (asked, (*dry, "--ask", f"institute@{server}")):
            wait_until(lambda words=words: "ward (ed25519:" in said(home, *words))
            shown = said(home, *words)
            assert re.search(r"^goes on at +institute \(.*its own register was asked$", shown, re.MULTILINE)
            assert "not asked" not in shown
        found = json.loads(said(home, *asked, "--json"))
        ward = next(one for one in found["holders"] if found["names"][one["principal"]]["name"] == "ward")
        assert found["names"][ward["register"]]["name"] == "institute"


def test_the_ledger_names_the_reader_the_type_its_attributes_and_the_certificate(home: Path) -> None:
    with (
        maia.connect(home / "hospital" / "lab.maia") as lab,
        maia.connect(home / "hospital" / "office.maia") as office,
    ):
        subscription = office.subscribe("LabResult")
        lab.publish("LabResult", patient="P-17", ward="3", value=142, place="Cambridge")
        assert next(iter(subscription))["place"] == "Cam"
    shown = said(home, "ledger", "show", "hospital/ledger", "--type", "LabResult", "--recipient", "office")
    assert not re.search("[0-9a-f]{64}", shown)
    for line in (
        r"to           office \(",
        "type         LabResult",
        "of           lab",
        "attributes   .*ward",
    ):
        assert re.search(f"^{line}", shown, re.MULTILINE)
    assert re.search(r"^by  .* of hospital \(.*\) to office \(", shown, re.MULTILINE)
    assert said(home, "ledger", "show", "hospital/ledger", "--attribute", "patient").startswith(
        "0 deliveries"
    )


def test_what_is_revoked_by_name_is_refused_by_explain_and_gone_from_every_list(home: Path) -> None:
    assert explained(home, "office", "--where", 'ward == "3"').returncode == 0
    revoked = said(home, "revoke", "office", "--org", "hospital", "--reason", "left us")
    assert revoked.startswith("loses        office (ed25519:")
    answer = explained(home, "office", "--where", 'ward == "3"')
    assert answer.returncode == 1
    assert answer.stdout.startswith("no [POLICY-REVOKED]\n")
    assert "was revoked by `hospital`" in answer.stdout
    assert "office" not in who_can(home)
    assert "place value ward" not in said(home, "member", "list", "--org", "hospital")
    again = command("revoke", "office", "--org", "hospital", cwd=home)
    assert "has issued nothing that is in `office`, or it is over [INPUT-GRANT-FILE]" in again.stderr
    assert explained(home, "desk").returncode == 0


def test_a_grant_is_revoked_without_expelling_its_holder(home: Path) -> None:
    said(home, "revoke", "institute", "--org", "hospital")
    again = command("revoke", "institute", "--org", "hospital", cwd=home)
    assert (
        "`institute` has no right to events from `hospital` any more; `maia network revoke`" in again.stderr
    )
    assert "connect to network hospital" in said(home, "org", "show", "--org", "hospital")
    answer = command("explain", "LabResult", "--as", "dashboard", "--action", "subscribe", cwd=home)
    assert answer.returncode == 1
    assert "was revoked by `" in answer.stdout


def test_an_organisation_is_enough_for_topics_and_gateways(home: Path) -> None:
    reader = said(home, "member", "add", "reader", "--org", "hospital", "--may", "subscribe:/news/uk")
    assert 'where      levels(topic, "/news/uk/#")' in reader
    account = ("gateway", "account", "sensor", "--org", "hospital", "--may", "publish:LabResult")
    assert "may          publish:LabResult" in said(home, *account)
    checked = said(home, "gateway", "http", "--org", "hospital", "--listen", "127.0.0.1:0", "--check")
    assert "LabResult                LabResult\n" in checked
    assert "news/#                   topic.news\n" in checked
    assert said(home, "revoke", "sensor", "--org", "hospital").startswith("loses        sensor (ed25519:")
