"""`maia domain …` and `maia login` on the command line: what they say when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.api.requests import TypedArgument
from maia.cli.domain.calls import arguments_from_words, shown_call
from maia.clock import system_now
from maia.credentials import RevocationList, certificate_to_text
from maia.events import Instant
from maia.keystore.key_files import create_key_file
from maia.testing.refusals import raises
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.processes import Answer, maia

POLICY = """\
policy "Police"
fact detective(who: principal)
fact shift(who: principal, number: string, hours: float, since: timestamp, leads: bool)
appointment licence(kind: string) by here
appointment court_order(case: string) by ed25519:{court}
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe to topic "/calls" of here
end
""".replace("{court}", key_of("court").principal.key.hex())


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DomainAtWork, Path]]:
    folder = tmp_path_factory.mktemp("cli")
    with domain_at_work(tmp_path_factory.mktemp("data")) as found:
        for who in ("met", "admin", "smith"):
            create_key_file(folder / f"{who}.key", key_of(who))
            (folder / f"{who}.pub").write_text(f"{key_of(who).principal}\n")
        (folder / "certs").mkdir()
        certificate = admin_certificate(found.key, key_of("admin").principal)
        (folder / "certs" / "admin.cert").write_text(certificate_to_text(certificate))
        (folder / "met.policy").write_text(POLICY)
        yield found, folder


def run(met: tuple[DomainAtWork, Path], *words: object, who: str = "admin") -> Answer:
    domain, folder = met
    at = ("--server", domain.address, "--domain", "met.pub", "-k", f"{who}.key")
    shown = ("--credentials", "certs") if who == "admin" else ()
    return maia(*words, *at, *shown, cwd=folder)


def test_a_day_at_the_desk(met: tuple[DomainAtWork, Path]) -> None:
    _, folder = met
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    assert "version 1" in run(met, "domain", "policy", "show").stdout
    assert "holds" in run(met, "domain", "fact", "assert", "detective", "smith.pub").stdout
    assert "held already" in run(met, "domain", "fact", "assert", "detective", "smith.pub").stdout
    assert str(key_of("smith").principal) in run(met, "domain", "fact", "list", "detective").stdout
    given = run(met, "domain", "appoint", "smith.pub", "licence", "lorry", "--days", 1, "-o", "l.appointment")
    assert (folder / "l.appointment").exists(), given.stderr
    assert "licence(lorry)" in run(met, "domain", "appointments").stdout
    member = json.loads(run(met, "domain", "activate", "officer", "--json", who="smith").stdout)[
        "memberships"
    ]
    assert [one["role"] for one in member] == ["officer"]
    wallet = json.loads(run(met, "login", "-w", "wallet", "--json", who="smith").stdout)
    assert wallet["roles"] == ["officer()"]
    assert "/calls" in run(met, "domain", "would", "officer").stdout
    assert "issued" in run(met, "domain", "register", "--in-force").stdout
    ended = run(met, "domain", "deactivate", member[0]["id"], who="smith")
    assert "officer()" in ended.stdout, ended.stderr
    assert "verifiers learn it with the next list" in ended.stdout
    retracted = json.loads(run(met, "domain", "fact", "retract", "detective", "smith.pub", "--json").stdout)
    assert retracted["published"] in (False, True)
    (folder / "rows.json").write_text(json.dumps([[{"principal": str(key_of("smith").principal)}]]))
    assert run(met, "domain", "fact", "replace", "detective", "rows.json").returncode == 0
    assert run(met, "domain", "audit", "show", "-o", "audit.jsonl").returncode == 0
    assert run(met, "domain", "statements", "--history", "-o", "heard", who="smith").returncode == 0
    verified = maia(
        "domain", "audit", "verify", "audit.jsonl", "--of", "met.pub", "--against", "heard", cwd=folder
    )
    assert verified.returncode == 0, verified.stderr
    lines = (folder / "audit.jsonl").read_text().splitlines()
    (folder / "cut.jsonl").write_text("\n".join(lines[:1]) + "\n")
    cut = maia("domain", "audit", "verify", "cut.jsonl", "--of", "met.pub", "--against", "heard", cwd=folder)
    assert (cut.returncode, "CREDENTIAL-AUDIT" in cut.stderr) == (4, True)


def test_what_goes_wrong_is_one_sentence_a_code_and_a_status(met: tuple[DomainAtWork, Path]) -> None:
    _, folder = met
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    away = ("--server", "127.0.0.1:1", "--domain", "met.pub", "-k", "smith.key")
    (folder / "wrong.policy").write_text("policy x\nrul a\n")
    for answer, status, code in (
        (maia("domain", "types", *away, cwd=folder), 6, "UNAVAILABLE-DOMAIN"),
        (run(met, "domain", "policy", "show", who="smith"), 3, "POLICY-"),
        (run(met, "domain", "policy", "load", "wrong.policy"), 2, "INPUT-ROLE-POLICY"),
        (maia("domain", "policy", "check", "wrong.policy", cwd=folder), 2, "INPUT-ROLE-POLICY"),
        (run(met, "domain", "policy", "load", "nowhere.policy"), 2, "INPUT-FILE"),
        (run(met, "domain", "revoke", "not-an-id"), 2, "INPUT-"),
        (run(met, "domain", "deactivate", "00" * 32), 2, "INPUT-UNKNOWN-MEMBERSHIP"),
        (run(met, "domain", "who-can", "fly", "Numberplate"), 2, "INPUT-"),
        (run(met, "domain", "who-can", "subscribe", "Nothing"), 2, "INPUT-TYPE-NAME"),
        (run(met, "domain", "activate", "king", who="smith"), 2, "INPUT-UNKNOWN-ROLE"),
        (run(met, "domain", "hold", "met.policy"), 2, "INPUT-FILE"),
        (run(met, "domain", "fact", "replace", "detective", "met.policy"), 2, "INPUT-FILE"),
        (run(met, "login", "-w", "met.policy", who="smith"), 2, "INPUT-FILE"),
    ):
        assert (answer.returncode, code in answer.stderr) == (status, True), answer.stderr
        assert "Traceback" not in answer.stderr


def test_a_member_that_may_not_administer_reads_who_does(met: tuple[DomainAtWork, Path]) -> None:
    domain, folder = met
    own = folder / "police" / "smith.maia"
    own.mkdir(parents=True)
    (folder / "police" / "organisation.toml").write_text("")
    (own / "smith.key").write_bytes((folder / "smith.key").read_bytes())
    (own / "smith.key").chmod(0o600)
    at = ("--server", domain.address, "--domain", "met.pub", "-k", "police/smith.maia/smith.key")
    answer = maia("domain", "policy", "load", "met.policy", *at, cwd=folder)
    said = "only `police` may do this, and those whom its policy lets: use `--as police` [POLICY-NO-CHAIN]"
    assert (answer.returncode, said in answer.stderr) == (3, True), answer.stderr
    assert "chain" not in answer.stderr.lower().replace("no-chain", "")


def test_ten_slips_of_an_administrator_get_one_line_a_code_and_a_hint(met: tuple[DomainAtWork, Path]) -> None:
    domain, folder = met
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    day_before = Instant(system_now() - 2 * 86_400 * 1_000_000)
    old, gone = (
        admin_certificate(domain.key, key_of("smith").principal, now=at) for at in (day_before, None)
    )
    for name, certificate in (("old", old), ("gone", gone)):
        (folder / f"{name}.cert").write_text(certificate_to_text(certificate))
    by = {"actor": domain.key.principal, "now": system_now()}
    domain.ask(lambda access: (access.hold([gone], **by), access.revoke([gone.id], "left", **by)))
    (folder / "slip.policy").write_text(POLICY.replace("while detective", "while detectiv"))
    smith, show = ("-k", "smith.key"), ("domain", "policy", "show", "--credentials")
    away = ("--server", "127.0.0.1:1", "--domain", "met.pub", *smith)
    other = ("--server", domain.address, "--domain", "smith.pub", *smith)
    for answer, code, hint in (
        (run(met, "domain", "policy", "load", "met.polcy"), "INPUT-FILE", "there is no file `met.polcy`"),
        (run(met, "domain", "would", "oficer"), "INPUT-UNKNOWN-ROLE", "did you mean `officer`?"),
        (
            run(met, "domain", "policy", "load", "slip.policy"),
            "INPUT-ROLE-POLICY",
            "did you mean `detective`?",
        ),
        (run(met, "domain", "fact", "assert", "detective", "smit.pub"), "INPUT-ARGUMENT-WORD", "`smit.pub`"),
        (maia("domain", "types", *away, cwd=folder), "UNAVAILABLE-DOMAIN", "is `maia domain serve` running"),
        (
            maia("domain", "types", *other, cwd=folder),
            "CREDENTIAL-ANOTHER-DOMAIN",
            "`--domain` names another",
        ),
        (run(met, *show, "old.cert", who="smith"), "POLICY-EXPIRED", "a new one"),
        (run(met, *show, "gone.cert", who="smith"), "POLICY-REVOKED", "audit show"),
        (run(met, "domain", "revoke", "00" * 32), "INPUT-UNKNOWN-CERTIFICATE", "`maia domain register`"),
        (
            run(met, "domain", "who-can", "subscribe", "X", "--at", "1 May"),
            "INPUT-INSTANT",
            "such as `2026-11-15T08",
        ),
    ):
        told = answer.stderr.splitlines()
        assert answer.returncode != 0
        assert f"[{code}]" in told[-1], told
        assert hint in told[-1], told
        assert len(told) <= 2, "a policy has a line for each slip below the first"
    shown = json.loads(maia("domain", "types", *away, "--json", cwd=folder).stderr)["error"]
    assert shown["hint"].startswith("is `maia domain serve` running")


def test_a_fact_that_the_policy_does_not_declare_so_is_not_said(met: tuple[DomainAtWork, Path]) -> None:
    """Names, arities and kinds; the domain refuses them, and keeps nothing."""
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    smith = "smith.pub"
    for words, code, hint in (
        (("detectiv", smith), "INPUT-UNKNOWN-FACT", "did you mean `detective`?"),
        (("on_leave", smith), "INPUT-UNKNOWN-FACT", "`maia domain policy show`"),
        (("detective",), "INPUT-ARGUMENT", "`detective(who: principal)` was declared, and 0 arguments"),
        (("detective", smith, "night"), "INPUT-ARGUMENT", "2 arguments are given"),
        (("detective", "smith"), "INPUT-ARGUMENT", "parameter `who`"),
        (("shift", smith, "7", "eight", "2026-11-15T08:30:00Z", "true"), "INPUT-ARGUMENT", "`eight` is none"),
        (("shift", smith, "7", "8", "monday", "true"), "INPUT-ARGUMENT", "parameter `since`"),
        (("shift", smith, "7", "8", "2026-11-15T08:30:00Z", "yes"), "INPUT-ARGUMENT", "`yes` is none"),
    ):
        for act in ("assert", "retract"):
            said = run(met, "domain", "fact", act, *words)
            assert (said.returncode, said.stdout) == (2, ""), said.stdout
            assert f"[{code}]" in said.stderr
            assert hint in said.stderr, said.stderr
    (met[1] / "slip.json").write_text(json.dumps([[7]]))
    assert "[INPUT-ARGUMENT]" in run(met, "domain", "fact", "replace", "detective", "slip.json").stderr
    assert "[INPUT-UNKNOWN-FACT]" in run(met, "domain", "fact", "replace", "detectiv", "slip.json").stderr
    assert run(met, "domain", "fact", "list", "detectiv").stdout.strip() == ""


def test_words_are_read_by_the_kind_that_the_policy_declares(met: tuple[DomainAtWork, Path]) -> None:
    """`007` is text where text was declared, and `8` a fraction where a fraction was."""
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    words = ("smith.pub", "007", "8", "2026-11-15T08:30:00Z", "true")
    assert run(met, "domain", "fact", "assert", "shift", *words).returncode == 0
    (row,) = json.loads(run(met, "domain", "fact", "list", "shift", "--json").stdout)["rows"]
    who = {"principal": str(key_of("smith").principal)}
    assert row == [who, "007", 8.0, {"timestamp": "2026-11-15T08:30:00Z"}, True]
    assert type(row[2]) is float
    given = run(met, "domain", "appoint", "smith.pub", "licence", "7", "--days", 1, "-o", "seven.appointment")
    assert given.returncode == 0, given.stderr
    assert 'licence("7")' in run(met, "domain", "appointments").stdout


def test_what_never_held_is_not_retracted(met: tuple[DomainAtWork, Path]) -> None:
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    run(met, "domain", "fact", "assert", "detective", "admin.pub")
    held = run(met, "domain", "fact", "retract", "detective", "admin.pub")
    assert (held.returncode, "did not hold" in held.stdout) == (0, False)
    never = run(met, "domain", "fact", "retract", "detective", "admin.pub")
    assert never.returncode == 0
    assert never.stdout.strip().endswith("did not hold: nothing changed")
    record = json.loads(run(met, "domain", "fact", "retract", "detective", "admin.pub", "--json").stdout)
    assert record["is_news"] is False


def test_an_appointment_that_the_policy_does_not_declare_so_is_not_made(
    met: tuple[DomainAtWork, Path],
) -> None:
    assert run(met, "domain", "policy", "load", "met.policy").returncode == 0
    for words, code, hint in (
        (("license", "van"), "INPUT-UNKNOWN-APPOINTMENT", "did you mean `licence`?"),
        (("court_order", "7"), "INPUT-UNKNOWN-APPOINTMENT", "takes this appointment from others"),
        (("licence",), "INPUT-ARGUMENT", "`licence(kind: string)` was declared, and 0 arguments are given"),
    ):
        said = run(met, "domain", "appoint", "smith.pub", *words, "--days", 1, "-o", "never.appointment")
        assert said.returncode == 2, said.stdout
        assert f"[{code}]" in said.stderr
        assert hint in said.stderr, said.stderr
        assert not (met[1] / "never.appointment").exists()


def by_hand(met: tuple[DomainAtWork, Path], out: str, *words: str, key: str = "met") -> dict[str, object]:
    """Sign a certificate with a key file, without asking any domain."""
    # Each with a remark of its own: two that say the same within a second are one certificate.
    about = (
        "--owner",
        f"{key}.pub",
        "--topic",
        "/calls",
        "--action",
        "subscribe",
        "--days",
        1,
        "--comment",
        out,
    )
    issued = maia(
        "cert", "issue", "-k", f"{key}.key", "--subject", "smith.pub", *about, "-o", out, *words, "--json",
        cwd=met[1],
    )  # fmt: skip
    assert issued.returncode == 0, issued.stderr
    found = json.loads(issued.stdout)
    assert isinstance(found, dict)
    return found


def listed(met: tuple[DomainAtWork, Path]) -> set[str]:
    """Return what the domain's newest list revokes."""
    said = met[0].ask(lambda access: access.current_statements(system_now()))
    lists = [one.statement for one in said if isinstance(one.statement, RevocationList)]
    return {one.hex() for one in max(lists, key=lambda one: one.sequence).revoked}


def test_what_a_domain_signed_by_hand_is_revoked_by_its_file(met: tuple[DomainAtWork, Path]) -> None:
    """It was never registered; and it demands no test, so the answer names where it stays open."""
    issued = by_hand(met, "hand.cert")
    assert issued["revocable_everywhere"] is False
    gone = run(met, "cert", "revoke", "hand.cert", "--reason", "left us")
    assert gone.returncode == 0, gone.stderr
    assert f"revoked      {issued['id']}" in gone.stdout
    valid = issued["valid"]
    assert isinstance(valid, dict)
    assert f"still open   {issued['id']}" in gone.stdout
    assert f"accepts it until {valid['not_after']}" in gone.stdout
    assert issued["id"] in listed(met)
    again = run(met, "cert", "revoke", "hand.cert")
    assert (again.returncode, "it was revoked before" in again.stdout) == (0, True)


def test_where_the_issuer_is_a_domain_a_timed_list_is_demanded_unless_it_says_otherwise(
    met: tuple[DomainAtWork, Path],
) -> None:
    timed = by_hand(met, "timed.cert", "--domain", "met.pub")
    assert timed["revocable_everywhere"] is True
    assert "timed-crl" in json.dumps(timed["online"])
    extending = by_hand(met, "extend.cert", "--domain", "met.pub", "--action", "extend")
    assert extending["revocable_everywhere"] is True
    gone = run(met, "cert", "revoke", "timed.cert")
    assert "still open" not in gone.stdout, gone.stderr
    assert "then a verifier that received nothing refuses it too" in gone.stdout
    for out, words in (
        ("dates.cert", ("--domain", "met.pub", "--online", "dates")),
        ("other.cert", ("--domain", "smith.pub")),
        ("nowhere.cert", ("--domain", "nowhere.pub")),
    ):
        assert by_hand(met, out, *words)["revocable_everywhere"] is False
    connecting = ("--network", "Test", "--action", "connect", "--days", 1, "--domain", "met.pub")
    said = maia(
        "cert", "issue", "-k", "met.key", "--subject", "smith.pub", "--owner", "met.pub", *connecting,
        "-o", "connect.cert", cwd=met[1],
    )  # fmt: skip
    assert "verifier that receives none accepts it until" in said.stdout, said.stderr


def test_what_a_domain_signed_by_hand_is_registered_and_then_revoked_by_its_id(
    met: tuple[DomainAtWork, Path],
) -> None:
    issued = by_hand(met, "registered.cert")
    noted = run(met, "domain", "delegated", "registered.cert")
    assert noted.returncode == 0, noted.stderr
    assert str(issued["id"]) in run(met, "domain", "register", "--in-force").stdout
    gone = run(met, "domain", "revoke", issued["id"])
    assert f"still open   {issued['id']}" in gone.stdout, gone.stderr
    assert issued["id"] in listed(met)


def test_what_another_key_signed_is_not_revoked_here(met: tuple[DomainAtWork, Path]) -> None:
    issued = by_hand(met, "smiths.cert", key="smith")
    refused = run(met, "cert", "revoke", "smiths.cert")
    assert (refused.returncode, "[REFUSED-NOT-OURS]" in refused.stderr) == (3, True), refused.stderr
    stranger = run(met, "cert", "revoke", "hand.cert", who="smith")
    assert (stranger.returncode, "[POLICY-NO-CHAIN]" in stranger.stderr) == (3, True), stranger.stderr
    assert issued["id"] not in listed(met)


def test_who_asks_for_the_same_twice_is_told_so(met: tuple[DomainAtWork, Path]) -> None:
    words = ("domain", "appoint", "smith.pub", "licence", "van", "--days", 1, "-o", "twice.appointment")
    assert run(met, *words).returncode == 0
    again = run(met, *words)
    assert (again.returncode, "`--force` replaces it [INPUT-FILE]" in again.stderr) == (2, True)


@pytest.mark.parametrize("words", [("revoke", "zz"), ("revoke", "zz", "--appointment"), ("deactivate", "zz")])
def test_a_word_that_is_no_id_is_told_what_an_id_looks_like(
    met: tuple[DomainAtWork, Path], words: tuple[str, ...]
) -> None:
    said = run(met, "domain", *words).stderr
    assert "`zz` is no id: one is written with 64 hexadecimal digits" in said
    assert "[0-9a-f]" not in said


def test_arguments_are_read_as_they_are_typed(tmp_path: Path) -> None:
    smith = key_of("smith").principal
    words = ["case 7", "42", "1.5", "true", '"42"', f"{smith}", "time:2026-11-15T08:30:00Z", "-3"]
    found = arguments_from_words(words)
    as_declared = [TypedArgument(word=one) for one in ("case 7", "42", "1.5", "true", "-3")]
    assert [*found[:4], found[-1]] == as_declared
    assert found[4:7] == [
        "42",
        TypedArgument(principal=str(smith)),
        TypedArgument(timestamp="2026-11-15T08:30:00Z"),
    ]
    assert shown_call("f", found) == f'f(case 7, 42, 1.5, true, "42", {smith}, time:2026-11-15T08:30:00Z, -3)'
    for word in ('"open', str(tmp_path / "nobody.pub")):
        with raises("INPUT-ARGUMENT-WORD"):
            arguments_from_words([word])
    assert arguments_from_words(['"nobody.pub"']) == ["nobody.pub"]
