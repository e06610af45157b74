"""The command line: what a person or a program gets for what it types."""

from __future__ import annotations

import json
import shlex
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from maia.api import testers
from maia.cli import inputs, main
from maia.cli.main import commands_for
from maia.clock import system_now
from maia.credentials import RevocationList, period_from, sign_statement
from maia.errors import BadInput
from maia.events import seconds_after
from maia.keystore.key_files import load_signing_key
from maia.predicates import parse_predicate


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, object]:
        return json.loads(self.out)


Maia = Callable[..., Answer]


@pytest.fixture
def maia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Maia:
    """Run commands in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAIA_PASSPHRASE", raising=False)

    def run(*words: str) -> Answer:
        status = main(words)
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


@pytest.fixture
def city(maia: Maia) -> Maia:
    """PITO's type, CCS's right to it, and the billing office's part of that right."""
    for who in ("pito", "ccs", "billing", "smith"):
        assert maia("key", "new", f"{who}.key").status == 0
    attributes = (
        "-a",
        "numberplate:string:3265",
        "-a",
        "timestamp:timestamp:9058",
        "-a",
        "location:string:3467",
    )
    maia(
        "type", "define", "-k", "pito.key", "--name", "uk.gov.pito.Numberplate", *attributes, "-o", "np.type"
    )
    Path("certs").mkdir()
    issue = ("cert", "issue", "-d", "np.type", "--days", "30", "--action", "subscribe")
    maia(*issue, "-k", "pito.key", "--subject", "ccs.pub", "--may-delegate", "-o", "certs/1.cert")
    granted = ("--attribute", "numberplate", "--attribute", "timestamp", "--where", 'location != "Soho"')
    maia(*issue, "-k", "ccs.key", "--subject", "billing.pub", *granted, "-o", "certs/2.cert")
    return maia


def test_a_new_key_is_readable_by_its_owner_alone_and_never_shown(maia: Maia) -> None:
    made = maia("key", "new", "pito.key", "--json")
    assert made.status == 0
    assert stat.S_IMODE(Path("pito.key").stat().st_mode) == 0o600
    shown = maia("key", "show", "pito.key", "--json")
    assert shown.record["principal"] == made.record["principal"] == Path("pito.pub").read_text().strip()
    seed = Path("pito.key").read_text().split("seed")[1].strip(" #)\n")
    assert seed not in made.out + shown.out


def test_a_key_file_is_never_overwritten(maia: Maia) -> None:
    maia("key", "new", "pito.key")
    before = Path("pito.key").read_bytes()
    assert maia("key", "new", "pito.key").status == 2
    Path("pito.pub").unlink()
    assert "INPUT-KEY-FILE-EXISTS" in maia("key", "new", "pito.key").err
    assert Path("pito.key").read_bytes() == before


def test_a_passphrase_from_the_environment_opens_the_key(maia: Maia, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIA_PASSPHRASE", "correct horse")
    assert maia("key", "new", "k.key", "--passphrase").status == 0
    define = ("type", "define", "-k", "k.key", "--name", "T", "-a", "x:int", "--force", "-o", "t.type")
    assert maia(*define).status == 0
    monkeypatch.setenv("MAIA_PASSPHRASE", "wrong horse")
    refused = maia(*define)
    assert refused.status == 4
    assert "CREDENTIAL-PASSPHRASE" in refused.err
    assert "horse" not in refused.err


def test_a_certificate_can_demand_to_be_tested(city: Maia) -> None:
    issue = ("cert", "issue", "-d", "np.type", "-k", "ccs.key", "--days", "3", "--action", "subscribe")
    demand = (
        "--online",
        "timed-crl",
        "--online",
        "crl",
        "--by",
        "pito.pub",
        "--statements-at",
        "https://x/y",
    )
    made = city(*issue, "--subject", "smith.pub", *demand, "-o", "certs/3.cert", "--json")
    assert made.status == 0
    pito = Path("pito.pub").read_text().strip()
    assert made.record["online"] == [
        {"kind": "crl", "by": pito, "at": ["https://x/y"]},
        {"kind": "timed-crl", "by": pito, "at": ["https://x/y"]},
    ]
    shown = city("cert", "show", "certs/3.cert")
    assert f"tested       timed-crl by {pito}, at https://x/y" in shown.out
    ends = ("--root", "pito.pub", "--subject", "smith.pub")
    verified = city("cert", "verify", "certs/1.cert", "certs/3.cert", *ends, "--json")
    assert verified.record["online"] == made.record["online"]
    ask = ("explain", "--principal", "smith.pub", "--action", "subscribe", "-d", "np.type", "-c", "certs")
    explained = city(*ask)
    assert explained.status == 0
    assert f"assumed    {pito} confirms the certificates (timed-crl)" in explained.out
    assert len(city(*ask, "--json").record["assumed"]) == 2


def test_explain_decides_as_of_when_testers_have_answered(
    city: Maia, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy they are asked late: the list of the moment had begun since, and was none."""
    demand = "--online timed-crl --by pito.pub --statements-at https://x/y -o certs/3.cert"
    issue = f"cert issue -k pito.key -d np.type --subject smith.pub --action subscribe --days 1 {demand}"
    assert city(*issue.split()).status == 0
    clock = [system_now()]

    async def asked(*_: object, **__: object) -> testers.Fetched:
        begun = seconds_after(clock[-1], 5)
        clock.append(seconds_after(begun, 1))
        pito = load_signing_key(Path("pito.key"))
        period = period_from(begun, microseconds=30_000_000)
        return testers.Fetched(
            (sign_statement(RevocationList(pito.principal, 2, period, frozenset()), pito),)
        )

    monkeypatch.setattr(testers, "ask_testers", asked)
    monkeypatch.setattr(inputs, "system_now", lambda: clock[-1])
    asked_by_smith = "explain --principal smith.pub --action subscribe -d np.type -c certs --json"
    explained = city(*asked_by_smith.split())
    assert explained.record["permitted"] is True, explained.out


def test_a_name_is_tested_by_its_issuer_if_no_other_user_is_named(city: Maia) -> None:
    name = ("cert", "name", "-k", "ccs.key", "--name", "Auditors", "--subject", "smith.pub", "--days", "3")
    made = city(*name, "--online", "revalidation", "-o", "n.cert", "--json")
    ccs = Path("ccs.pub").read_text().strip()
    assert made.record["online"] == [{"kind": "revalidation", "by": ccs, "at": []}]
    assert "INPUT-GRANT" in city(*name, "--online", "sometimes", "-o", "m.cert").err
    assert "INPUT-GRANT" in city(*name, "--by", "pito.pub", "-o", "m.cert").err


def test_a_chain_verifies_reduces_and_is_found_in_a_folder(city: Maia) -> None:
    ends = ("--root", "pito.pub", "--subject", "billing.pub")
    verified = city("cert", "verify", "certs/1.cert", "certs/2.cert", *ends, "--json")
    reduced = city("cert", "reduce", "certs/1.cert", "certs/2.cert", "--json")
    wanted = ("--action", "subscribe", "--type", "uk.gov.pito.Numberplate")
    found = city("cert", "find", "certs", *ends, *wanted, "--json")
    assert verified.record == reduced.record == found.record
    assert verified.record["grants"]["attributes"] == ["3265", "9058"]
    assert verified.record["grants"]["where"] == '3467 != "Soho"'


def test_a_chain_in_the_wrong_order_is_refused_with_a_code(city: Maia) -> None:
    refused = city(
        "cert", "verify", "certs/2.cert", "certs/1.cert", "--root", "pito.pub", "--subject", "billing.pub"
    )
    assert refused.status == 4
    assert "[CREDENTIAL-" in refused.err


def test_explain_says_yes_with_the_window_and_no_with_a_code(city: Maia) -> None:
    ask = ("explain", "--principal", "billing.pub", "--action", "subscribe", "-d", "np.type", "-c", "certs")
    permitted = city(*ask, "--filter", 'prefix(numberplate, "AE")')
    assert permitted.status == 0
    assert 'numberplate timestamp  where location != "Soho"' in permitted.out
    denied = city(*ask, "--filter", 'location == "Victoria"', "--json")
    assert denied.status == 1
    assert denied.record["code"] == "POLICY-ATTRIBUTE-NOT-READABLE"


def test_a_certificate_can_hold_during_certain_hours_and_under_conditions(city: Maia) -> None:
    hours = "between 09:00 and 17:00 on monday to friday in Europe/London"
    issued = city(
        *("cert", "issue", "-k", "pito.key", "-d", "np.type", "--subject", "smith.pub", "-o", "smith.cert"),
        *("--action", "subscribe", "--not-before", "unbounded", "--not-after", "unbounded"),
        *("--during", hours, "--condition", "on-duty = true"),
    )
    assert issued.status == 0, issued.err
    asked = ("explain", "--principal", "smith.pub", "--action", "subscribe", "-d", "np.type")
    asked += ("--credentials", "smith.cert", "--json")
    friday, saturday = ("--at", "2026-11-13T12:00:00Z"), ("--at", "2026-11-14T12:00:00Z")
    assert city(*asked, *friday, "--fact", "on-duty=true").record["permitted"] is True
    for wrong in ((*saturday, "--fact", "on-duty=true"), friday, (*friday, "--fact", "on-duty=false")):
        assert city(*asked, *wrong).record["code"] == "POLICY-CONDITION-NOT-MET"


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--during", "between 09:00 and 25:00 on monday in Europe/London", "no time of the day"),
        ("--during", "between 09:00 and 17:00 on monday in Europe/Londn", "Europe/London"),
        ("--during", "office hours", "between 09:00 and 17:00"),
        ("--condition", "time-minute-middle-earth > 0", "a zone that does not exist"),
        ("--condition", "on-duty =", "literal"),
    ],
)
def test_hours_that_no_user_understands_are_refused_with_a_hint(
    city: Maia, option: str, text: str, says: str
) -> None:
    issue = ("cert", "issue", "-k", "pito.key", "-d", "np.type", "--subject", "smith.pub", "-o", "x.cert")
    refused = city(*issue, "--action", "subscribe", "--days", "1", option, text)
    assert refused.status != 0
    assert says in refused.err
    assert not Path("x.cert").exists()


def test_explain_to_the_requester_keeps_the_restriction_secret(city: Maia) -> None:
    ask = ("explain", "--principal", "billing.pub", "--action", "subscribe", "-d", "np.type", "-c", "certs")
    told = city(*ask, "--audience", "requester")
    assert told.status == 0
    assert "Soho" not in told.out
    assert "Soho" in city(*ask, "--audience", "owner").out


def test_a_stranger_is_told_no(city: Maia) -> None:
    ask = (
        "explain",
        "--principal",
        "smith.pub",
        "--action",
        "subscribe",
        "-d",
        "np.type",
        "-c",
        "certs",
        "--json",
    )
    assert city(*ask).record["code"] == "POLICY-NO-CHAIN"


def test_a_type_is_sealed_by_option_and_stays_sealed(city: Maia) -> None:
    define = ("type", "define", "-k", "pito.key", "--name", "T", "-a", "x:int", "-o", "sealed.type")
    keys = ("--sealing", "event", "--keys", "ccs.pub", "--keys-at", "127.0.0.1:7500")
    sealing = city(*define, *keys, "--json").record["sealing"]
    assert (sealing["level"], sealing["addresses"]) == ("event", ["127.0.0.1:7500"])
    shown = city("type", "show", "sealed.type").out
    assert f"sealing      event, keys of {sealing['manager']} at 127.0.0.1:7500" in shown
    change = ("type", "change", "sealed.type", "-k", "pito.key")
    assert city(*change, "--add", "y:int", "-o", "v2.type", "--json").record["sealing"] == sealing
    assert city(*change, "--sealing", "attribute", "-o", "v3.type").status == 0
    assert city("type", "verify", "v3.type", "--previous", "sealed.type").status == 0
    (line,) = city("type", "diff", "sealed.type", "v3.type", "--json").record["changes"]
    assert line.startswith("seal as attribute, keys of")


def test_a_type_is_blinded_and_covered_by_option_and_stays_so(city: Maia) -> None:
    define = ("type", "define", "-k", "pito.key", "--name", "T", "-a", "x:int", "-o", "blinded.type")
    chosen = ("--sealing", "event", "--blinded", "--cover", "500:1024")
    sealing = city(*define, *chosen, "--json").record["sealing"]
    assert sealing["blinded"]
    assert sealing["cover"] == {"every_ms": 500, "size_bytes": 1024}
    shown = city("type", "show", "blinded.type").out
    assert "sealing      event, blinded, covered every 500 ms with 1024 bytes, keys of" in shown
    change = ("type", "change", "blinded.type", "-k", "pito.key")
    assert city(*change, "--add", "y:int", "-o", "v2.type", "--json").record["sealing"] == sealing
    assert city(*change, "--cover", "250:512", "-o", "v3.type").status == 0
    assert city("type", "verify", "v3.type", "--previous", "blinded.type").status == 0
    assert city(*change, "--sealing", "attribute", "-o", "v4.type").status != 0


def test_blinding_and_cover_need_each_other_and_event_level(city: Maia) -> None:
    define = ("type", "define", "-k", "pito.key", "--name", "T", "-a", "x:int", "-o", "t.type")
    assert city(*define, "--blinded").status == 2
    assert city(*define, "--sealing", "event", "--cover", "500:1024").status != 0
    assert city(*define, "--sealing", "attribute", "--blinded").status != 0
    for cover in ("500", "500:x", "5:1024", "500:1000"):
        assert city(*define, "--sealing", "event", "--blinded", "--cover", cover).status != 0


def test_options_about_keys_need_a_level(city: Maia) -> None:
    define = ("type", "define", "-k", "pito.key", "--name", "T", "-a", "x:int", "-o", "t.type")
    assert city(*define, "--keys", "ccs.pub").status == 2
    assert city(*define, "--sealing", "none").status == 2
    assert city(*define, "--sealing", "event", "--keys", "quorum:" + "0" * 64).status != 0


def test_a_type_changes_and_the_change_is_verified_and_told(city: Maia) -> None:
    change = ("type", "change", "np.type", "--rename", "location=place", "--add", "lane:int:77")
    assert city(*change, "-k", "pito.key", "-o", "v2.type").status == 0
    assert city("type", "diff", "np.type", "v2.type", "--json").record["changes"] == [
        "rename `location` to `place` (uid 3467)",
        "add `lane` (uid 77, int)",
    ]
    assert city("type", "verify", "v2.type", "--previous", "np.type").status == 0
    city(*change, "-k", "ccs.key", "-o", "bad.type")
    assert city("type", "verify", "bad.type", "--previous", "np.type").status == 4


def test_a_group_name_lets_its_members_in(city: Maia) -> None:
    ccs = Path("ccs.pub").read_text().strip()
    issue = ("cert", "issue", "-k", "ccs.key", "-d", "np.type", "--action", "subscribe", "--days", "9")
    city(*issue, "--subject", f"{ccs}#Auditors", "-o", "certs/3.cert")
    city(
        "cert",
        "name",
        "-k",
        "ccs.key",
        "--name",
        "Auditors",
        "--subject",
        "smith.pub",
        "--days",
        "1",
        "-o",
        "certs/4.cert",
    )
    wanted = ("--action", "subscribe", "--type", "uk.gov.pito.Numberplate", "--json")
    found = city("cert", "find", "certs", "--root", "pito.pub", "--subject", "smith.pub", *wanted)
    assert found.status == 0
    assert len(found.record["certificates"]) == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("filter", "check", "x =="), "INPUT-PREDICATE"),
        (("cert", "show", "missing.cert"), "INPUT-FILE"),
        (
            (
                "cert",
                "find",
                ".",
                "--root",
                "ed25519:00",
                "--subject",
                "x",
                "--action",
                "publish",
                "--type",
                "T",
            ),
            "CREDENTIAL-KEY",
        ),
        (
            ("type", "define", "-k", "none.key", "--name", "T", "-a", "x:int", "-o", "t"),
            "UNAVAILABLE-KEY-FILE",
        ),
        (("key", "show", "missing.key"), "UNAVAILABLE-KEY-FILE"),
    ],
)
def test_a_mistake_ends_in_one_line_with_a_code(maia: Maia, words: tuple[str, ...], code: str) -> None:
    answer = maia(*words)
    assert answer.status not in (0, 1)
    assert code in answer.err
    assert "Traceback" not in answer.err
    as_json = maia(*words, "--json")
    assert json.loads(as_json.err)["error"]["code"].startswith(code)


@pytest.mark.parametrize("noise", [b"", b"(", b"\xff\xfe", b"(signed)", b"(" * 100_000, b"9999999999:x"])
def test_a_file_that_is_no_certificate_is_named_in_the_error(maia: Maia, noise: bytes) -> None:
    Path("x.cert").write_bytes(noise)
    answer = maia("cert", "show", "x.cert")
    assert answer.status == 2
    assert "x.cert" in answer.err


def test_covers_answers_by_its_exit_status(maia: Maia) -> None:
    assert maia("filter", "covers", "price < 10", "price < 5").status == 0
    assert maia("filter", "covers", "price < 5", "price < 10").status == 1


def test_merge_says_what_is_let_through_beyond(maia: Maia) -> None:
    merged = maia("filter", "merge", "x == 1", "x == 3", "--size", "1", "--json")
    assert len(merged.record["filters"]) == 1
    assert 0 < merged.record["spill_bound"] <= 1


@pytest.mark.parametrize("words", [(), ("--help",), ("cert", "issue", "--help"), ("explain", "--help")])
def test_help_is_there(maia: Maia, words: tuple[str, ...]) -> None:
    answer = maia(*words)
    assert "Usage" in answer.out + answer.err


def test_a_wrong_option_shows_the_usage(maia: Maia) -> None:
    answer = maia("key", "new", "--nope")
    assert answer.status == 2
    assert "--nope" in answer.err


def test_of_several_errors_at_once_the_user_receives_one_of_ours(maia: Maia, monkeypatch) -> None:
    def fail_together(_words: list[str]) -> typer.Typer:
        raise ExceptionGroup("tasks", [OSError("a socket"), ExceptionGroup("more", [BadInput("the reason")])])

    monkeypatch.setattr(sys.modules["maia.cli.main"], "commands_for", fail_together)
    answer = maia("demo")
    assert (answer.status, answer.err) == (2, "maia: the reason [INPUT]\n")


def commands(group: typer.Typer) -> list[str]:
    """Return what every command prints below its options."""
    own = [command.epilog for command in group.registered_commands if command.epilog]
    return own + [text for one in group.registered_groups for text in commands(one.typer_instance)]


def test_every_filter_in_the_help_is_one_that_maia_reads() -> None:
    words = [word for text in commands(commands_for([])) for word in shlex.split(text.replace("…", ""))]
    filters = [after for word, after in pairwise(words) if word in ("--filter", "--where", "check", "merge")]
    assert len(filters) >= 3
    for text in filters:
        if not text.startswith("-") and not text.endswith(".policy"):
            parse_predicate(text.rstrip(";"), None)
