"""Mistakes of a person who makes an organisation, members and grants: message, hint and exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maia.net.addresses import bind
from maia.net.process import own_folder
from maia.testing import free_ports
from support.processes import maia


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hospital with a type and a member, and an institute and a clinic with a grant each."""
    folder = tmp_path_factory.mktemp("organisations")
    may_subscribe = ("--org", "hospital", "--may", "subscribe:LabResult")
    for words in (
        ("org", "new", "hospital"),
        ("type", "define", "LabResult", "patient:string", "ward:string", "value:int", "--sealed"),
        ("member", "add", "lab", "--may", "publish:LabResult"),
        ("member", "add", "office", "--may", "subscribe:LabResult", "--only", "ward,value"),
        ("org", "new", "institute"),
        ("org", "new", "clinic"),
        ("grant", "institute/institute.pub", *may_subscribe, "--delegable", "-o", "institute.grant"),
        ("grant", "clinic/clinic.pub", *may_subscribe, "-o", "clinic.grant"),
        ("org", "join", "institute.grant", "--org", "institute"),
        ("org", "join", "clinic.grant", "--org", "clinic"),
        ("org", "new", "elsewhere"),
        ("type", "define", "LabResult", "patient:string", "--org", "elsewhere"),
        (
            "grant",
            "clinic/clinic.pub",
            "--org",
            "elsewhere",
            "--may",
            "subscribe:LabResult",
            "-o",
            "other.grant",
        ),
        ("type", "define", "LabResult", "patient:string", "--org", "clinic"),
        ("member", "add", "desk", "--may", "publish:LabResult@clinic", "--org", "clinic"),
        ("type", "define", "Ward", "name:string", "--org", "hospital"),
        ("topic", "declare", "/news", "--org", "hospital"),
    ):
        answer = maia(*words, cwd=folder)
        assert answer.returncode == 0, answer.stderr
    (folder / "empty").mkdir()
    (folder / "wrong.maia").mkdir(mode=0o700)
    (folder / "wrong.maia" / "profile.toml").write_text('brokers = ["127.0.0.1"]\n')
    (folder / "notes.txt").write_text("my passphrase is correct horse\n")
    (folder / "binary.cert").write_bytes(bytes(range(256)))
    (folder / "large.cert").write_bytes(b"x" * (1 << 21))
    first = sorted((folder / "hospital" / "issued").glob("*.cert"))[0]
    (folder / "cut.cert").write_text(first.read_text()[:100])
    (folder / "connector.toml").write_text('database = "postgresql://127.0.0.1:1/none"\n')
    (folder / "misspelt.toml").write_text('keyy = "broker.key"\n')
    (folder / "open.maia").mkdir()
    (folder / "open.maia" / "profile.toml").write_text("")
    (folder / "open.maia").chmod(0o777)
    return folder


IN_HOSPITAL = ("--org", "hospital")
BY_LAB = ("--as", "lab", "--set", "ward=3")
MAY = ("member", "add", "x", *IN_HOSPITAL, "--may", "subscribe:LabResult")
MISTAKES = {
    "no organisation here": (
        ("member", "add", "lab", "--org", "empty"),
        "`empty` is no organisation: it has no `organisation.toml` [INPUT-ORGANISATION]",
    ),
    "several organisations": (
        ("member", "add", "lab"),
        "(clinic, elsewhere, hospital, institute): say which with `--org`",
    ),
    "an organisation twice": (("org", "new", "hospital"), "`hospital` is already there"),
    "a name that is a path": (
        ("member", "add", "../lab", *IN_HOSPITAL),
        "`../lab` is no name: letters, digits",
    ),
    "a type without attributes": (
        ("type", "define", "Other", *IN_HOSPITAL),
        "`Other` has no attributes: say `name:kind`, as in `patient:string` [INPUT-ATTRIBUTE]",
    ),
    "an unknown kind": (
        ("type", "define", "Other", "patient:text", *IN_HOSPITAL),
        "`patient:text` is not `name:kind` with a kind of string, int, float",
    ),
    "a secret key to define a type from": (
        ("type", "define", "Other", "--from", "hospital/hospital.key", *IN_HOSPITAL),
        "`hospital/hospital.key` is a secret key; a schema or a sample was expected [INPUT-FILE]",
    ),
    "settings to define a type from": (
        ("type", "define", "Other", "--from", "hospital/organisation.toml", *IN_HOSPITAL),
        "[TYPE-SCHEMA",
    ),
    "a dry run of nothing": (
        ("type", "define", "Other", "patient:string", "--dry-run", *IN_HOSPITAL),
        "--skip and --dry-run go with --from FILE",
    ),
    "a type twice": (
        ("type", "define", "LabResult", "patient:string", *IN_HOSPITAL),
        "`LabResult` has been defined; see `maia type change` [INPUT-FILE]",
    ),
    "an unknown action": (
        ("member", "add", "x", "--may", "read:LabResult", *IN_HOSPITAL),
        "`read:LabResult` is no right; say `publish:TYPE` or `subscribe:TYPE` [INPUT-RIGHT]",
    ),
    "an unknown type": (
        ("member", "add", "x", "--may", "publish:LabResults", *IN_HOSPITAL),
        "there is no type `LabResults`; did you mean `LabResult`? [INPUT-TYPE-NAME]",
    ),
    "an unknown attribute": (
        ("member", "add", "x", "--may", "publish:LabResult", "--only", "ward,valeu", *IN_HOSPITAL),
        "`LabResult` has no attribute `valeu`; did you mean `value`? [INPUT-RIGHT]",
    ),
    "an attribute that one of several types lacks": (
        (
            *("member", "add", "x", "--may", "subscribe:LabResult", "--may", "subscribe:Ward", *IN_HOSPITAL),
            *("--set", "value := round_to(value, 5)"),
        ),
        "`subscribe:Ward`: there is no attribute `value`",
    ),
    "an unknown attribute in a filter": (
        ("member", "add", "x", "--may", "publish:LabResult", "--where", 'wardd == "3"', *IN_HOSPITAL),
        "there is no attribute `wardd` (the nearest is `ward`), at column 1",
    ),
    "a secret key to grant to": (
        ("grant", "institute/institute.key", *IN_HOSPITAL, "--may", "subscribe:LabResult", "-o", "x.grant"),
        "`institute/institute.key` is a secret key; a public key was expected [INPUT-FILE]",
    ),
    "a grant of nothing": (
        ("grant", "institute/institute.pub", *IN_HOSPITAL, "-o", "x.grant"),
        "a grant is about something: say `publish:TYPE` or `subscribe:TYPE`",
    ),
    "a grant over another file": (
        (
            "grant",
            "institute/institute.pub",
            *IN_HOSPITAL,
            "--may",
            "subscribe:LabResult",
            "-o",
            "clinic.grant",
        ),
        "`clinic.grant` is already there; `--force` replaces it [INPUT-FILE]",
    ),
    "a grant for another": (
        ("org", "join", "institute.grant", "--org", "clinic"),
        "for one of your own (`maia grant clinic.pub`) [INPUT-GRANT-FOR-ANOTHER]",
    ),
    "a secret key to join": (
        ("org", "join", "hospital/hospital.key", "--org", "institute"),
        "`hospital/hospital.key` is a secret key; a grant of `maia grant` was expected [INPUT-GRANT-FILE]",
    ),
    "a type to join": (
        ("org", "join", "hospital/types/LabResult.type", "--org", "institute"),
        "`hospital/types/LabResult.type` is a type definition; a grant of `maia grant` was expected",
    ),
    "settings to join": (
        ("org", "join", "hospital/organisation.toml", "--org", "institute"),
        "`hospital/organisation.toml` is no grant of `maia grant`",
    ),
    "two ends of a right": (
        (*MAY, "--days", "3", "--until", "2199-01-01"),
        "give --days or --until",
    ),
    "an end in the past": (
        (*MAY, "--until", "2001-01-01"),
        "`2001-01-01` is over: a right ends in the future",
    ),
    "an end that is no date": ((*MAY, "--until", "soon"), "`soon` is not a moment such as `2026-"),
    "an unknown attribute to set": (
        (*MAY, "--set", "wardd := first(ward, 1)"),
        "there is no attribute `wardd`",
    ),
    "a summary of nothing": ((*MAY, "--every", "5 minutes"), "say with `--set` what is shown"),
    "attributes of another type": (
        (*MAY, "--shown-as", "LabResult", "--set", "ward := first(ward, 1)", "--only", "ward"),
        "`--shown-as` goes with `subscribe:`, and without `--only`",
    ),
    "no time": ((*MAY, "--during", "whenever"), "`whenever` is no time such as `between 09:00 and 17:00"),
    "a topic of a type": ((*MAY, "--topic", "/news"), "`/news` is no topic of `LabResult` [INPUT-RIGHT]"),
    "topics that were not declared": (
        ("member", "add", "x", "--may", "subscribe:/sports", *IN_HOSPITAL),
        "there is no type `topic.sports`",
    ),
    "a gateway of nothing": (("gateway", "mqtt"), "say --config FILE, or --org FOLDER"),
    "an account without an organisation": (
        ("gateway", "account", "x", "-c", "misspelt.toml", "--may", "publish:LabResult"),
        "--may needs --org FOLDER, whose key grants the rights",
    ),
    "a declaration without a file": (
        ("topic", "declare", "/news", "-k", "hospital/hospital.key"),
        "--key and --out go together",
    ),
    "a connector without a participant": (
        ("postgres", "check", "-c", "connector.toml"),
        "`connector.toml`: `key` is missing; a connector cannot run without it",
    ),
    "a dry run of nothing to revoke": (
        ("revoke", "labb", "--dry-run", *IN_HOSPITAL),
        "there is no grant, certificate, member or organisation `labb`; did you mean `lab`?",
    ),
    "a grant of another network": (
        ("org", "join", "other.grant", "--org", "clinic"),
        "…) invites it (`maia network invite`) [REFUSED-LEAVES-NETWORK]",
    ),
    "a network to leave that was not joined": (
        ("network", "leave", "--org", "hospital"),
        "`hospital` has joined no network: it is in its own [INPUT-ORGANISATION]",
    ),
    "an invitation by an organisation that may not": (
        ("network", "invite", "institute/institute.key", "--org", "hospital", "-o", "x.invite"),
        "`institute/institute.key` is a secret key; a public key was expected [INPUT-FILE]",
    ),
    "the membership of an organisation that was not invited": (
        ("network", "revoke", "elsewhere", "--org", "hospital"),
        "`hospital` has not invited `elsewhere` (ed25519:",
    ),
    "a name that means two types": (
        ("member", "add", "x", "--may", "subscribe:LabResult", "--org", "clinic"),
        "`LabResult` means 2 types here: say which of LabResult@clinic, LabResult@hospital [INPUT-TYPE-NAME]",
    ),
    "an owner by a wrong name": (
        ("member", "add", "x", "--may", "subscribe:LabResult@hospitl", "--org", "clinic"),
        "there is no type `LabResult@hospitl`; did you mean `LabResult@hospital`? [INPUT-TYPE-NAME]",
    ),
    "nothing to revoke": (
        ("revoke", "labb", *IN_HOSPITAL),
        "there is no grant, certificate, member or organisation `labb`; did you mean `lab`? [INPUT-FILE]",
    ),
    "whom to revoke, as an answer calls it": (
        ("revoke", "lab of hospital", *IN_HOSPITAL),
        "organisation `lab of hospital`; `maia org show` lists whom there is [INPUT-FILE]",
    ),
    "a topic by a wrong name": (
        ("member", "add", "x", *IN_HOSPITAL, "--may", "publish:/newz"),
        "there are no topics `/newz`; did you mean `/news`? [INPUT-TYPE-NAME]",
    ),
    "a grant of another to revoke": (
        ("revoke", "clinic.grant", "--org", "institute"),
        "`institute` has issued nothing that is in `clinic.grant`",
    ),
    "an unknown profile": (
        ("publish", "LabResult", "--as", "lap", "--set", "ward=3"),
        "there is no profile `lap`; did you mean `lab`? [INPUT-PROFILE]",
    ),
    "a secret key as a profile": (
        ("publish", "LabResult", "--as", "hospital/hospital.key", "--set", "ward=3"),
        "`hospital/hospital.key` is a secret key; a profile was expected [INPUT-PROFILE]",
    ),
    "an organisation as a profile": (
        ("profile", "show", "hospital"),
        "it has no `profile.toml` [INPUT-PROFILE]",
    ),
    "a profile with a broker without a port": (
        ("publish", "LabResult", "--as", "wrong", "--set", "ward=3"),
        "`brokers` must be HOST:PORT such as `127.0.0.1:7400`",
    ),
    "no type at all": (("publish", *BY_LAB), "name one event type: by its name, or by its file"),
    "a type by a wrong name": (
        ("publish", "LabReslt", *BY_LAB),
        "did you mean `LabResult`? [INPUT-TYPE-NAME]",
    ),
    "an attribute by a wrong name": (
        ("publish", "LabResult", "--as", "lab", "--set", "wardd=3"),
        "`wardd`",
    ),
    "no port": (
        ("publish", "LabResult", *BY_LAB, "--broker", "127.0.0.1"),
        "`127.0.0.1` is not an address such as `127.0.0.1:7400` [INPUT-ADDRESS]",
    ),
    "a port that is none": (
        ("publish", "LabResult", *BY_LAB, "--broker", "127.0.0.1:74000"),
        "`127.0.0.1:74000` is not an address such as `127.0.0.1:7400` [INPUT-ADDRESS]",
    ),
    "no profile and no options": (
        ("subscribe", "LabResult"),
        "[INPUT-OPTION] (a profile says all of it: `--as PROFILE`; `maia member add` makes one)",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_answered_in_one_sentence_with_what_to_do(home: Path, case: str) -> None:
    words, sentence = MISTAKES[case]
    answer = maia(*words, cwd=home)
    assert sentence in answer.stderr
    assert answer.returncode == (3 if "[REFUSED-" in sentence else 2)
    assert "Traceback" not in answer.stderr
    assert not (home / "hospital" / "x.maia").exists()
    for secret in home.glob("*/*.key"):
        assert secret.read_text().split("(seed", 1)[1].strip(" )\n") not in answer.stderr


BY_OFFICE = ("subscribe", "LabResult", "--as", "office")
ISSUE = (
    "cert", "issue", "-k", "hospital/hospital.key", "--subject", "institute", "-d",
    "hospital/types/LabResult.type", "-o", "x.cert", "--action",
)  # fmt: skip
FIND = (
    "cert",
    "find",
    "hospital/issued",
    "--owner",
    "hospital",
    "--subject",
    "clinic",
    "--action",
    "publish",
)
MORE_MISTAKES = {
    "a type that the organisation knows and the member has no right to": (
        ("subscribe", "Ward", "--as", "office"),
        2,
        "`office` has no right to `Ward`, which `hospital` knows: `maia member add office --org hospital "
        "--may subscribe:Ward` (or `publish:`) gives it one, "
        "or `maia login --as office` if a role does [INPUT-TYPE-NAME]",
    ),
    "one of two owners' types, which the member has no right to": (
        ("explain", "LabResult@hospital", "--as", "desk", "--action", "subscribe"),
        2,
        "`desk` has no right to `LabResult@hospital`, which `clinic` knows",
    ),
    "a type that neither the member nor its organisation knows": (
        ("publish", "Sighting", "--as", "lab", "--set", "plate=AE05"),
        2,
        "neither `lab` nor `hospital` has a type `Sighting`: ask its owner for a grant, which `maia network "
        "join` takes in, or define it (`maia type define`); then `maia member add lab",
    ),
    "topics that the member has no right to": (
        ("subscribe", "/news/#", "--as", "office"),
        2,
        "`office` has no right to `topic.news`, which `hospital` knows",
    ),
    "a value without an option": (
        ("publish", "LabResult", "--as", "lab", "ward=3", "value=1"),
        2,
        "[INPUT-OPTION] (say each value with `--set`, as in `--set ward=3`)",
    ),
    "a command that is none": (
        ("subscirbe", "LabResult"),
        2,
        "there is no command `subscirbe`; did you mean `subscribe`? [INPUT-COMMAND]",
    ),
    "an option that is none": ((*BY_OFFICE, "--fitler", "x"), 2, "no such option: --fitler"),
    "a number that is none": ((*BY_OFFICE, "--count", "ten"), 2, "invalid value for `--count`: "),
    "half of a filter": (
        (*BY_OFFICE, "--where", "value >"),
        2,
        "expected a literal: a number, a quoted string, `true` or `false`, but the text ends, at column 8",
    ),
    "a filter over an attribute by a wrong name": (
        (*BY_OFFICE, "--where", "valeu > 1"),
        2,
        "there is no attribute `valeu` (the nearest is `value`), at column 1",
    ),
    "a filter that compares with another kind": ((*BY_OFFICE, "--where", 'value > "1"'), 2, "at column 9"),
    "a durable name with a space": (
        (*BY_OFFICE, "--durable", "night shift"),
        2,
        "`night shift` cannot name a durable subscription: 1 to 128 visible characters [INPUT-DURABLE-NAME]",
    ),
    "forgetting nothing": ((*BY_OFFICE, "--forget"), 2, "name it with `--durable` [INPUT-NOTHING-TO-FORGET]"),
    "topics of a type without": ((*BY_OFFICE, "--topic", "/x"), 2, "[INPUT-TOPIC-NOT-DECLARED]"),
    "a text as an identity statement": (
        (*BY_OFFICE, "--identity", "notes.txt"),
        2,
        "`notes.txt` does not hold an identity statement [INPUT-FILE]",
    ),
    "a statement link without a statement": (
        (*BY_OFFICE, "--broker", "hospital@127.0.0.1:7400"),
        2,
        "name your statement with `--identity`",
    ),
    "a key that is not there": (
        (*BY_OFFICE, "-k", "nothing.key"),
        6,
        "`nothing.key` cannot be used: no such",
    ),
    "a profile that others can change": (
        ("subscribe", "LabResult", "--as", "open.maia"),
        2,
        "can be changed by others (mode 0777); make it 0700 [INPUT-PROFILE]",
    ),
    "a public key as the type": (
        ("subscribe", "hospital/hospital.pub", "--as", "office"),
        2,
        "`hospital/hospital.pub` is a public key; a type definition was expected [INPUT-FILE]",
    ),
    "a coordinator that is not known": (
        (*BY_OFFICE, "--coordinator", "hospitl"),
        2,
        "there is no file `hospitl`, and no key that you know by this name; did you mean `hospital`?",
    ),
    "an attribute without a value": (
        ("publish", "LabResult", "--as", "lab", "--set", "ward"),
        2,
        "`ward` is not `name=value` [INPUT-EVENT]",
    ),
    "a value of another kind": (
        ("publish", "LabResult", "--as", "lab", "--set", "value=high"),
        2,
        "`value` is of kind int, and `high` is not [INPUT-EVENT]",
    ),
    "an attribute twice": (
        ("publish", "LabResult", *BY_LAB, "--set", "ward=4"),
        2,
        "`ward` is set twice [INPUT-EVENT]",
    ),
    "a payload without a topic": (
        ("publish", "LabResult", "--as", "lab", "--payload", "hello"),
        2,
        "`--payload` is for an event on a topic: say `--topic` [INPUT-EVENT]",
    ),
    "a folder without certificates": (("cert", "show", "empty"), 2, "there is no certificate in `empty`"),
    "a text as a certificate": (("cert", "show", "notes.txt"), 2, "`notes.txt` does not hold a certificate"),
    "bytes as a certificate": (("cert", "show", "binary.cert"), 2, "`binary.cert` is not a text file"),
    "a file that is too large": (
        ("cert", "show", "large.cert"),
        2,
        "`large.cert` is larger than the 1048576",
    ),
    "half of a certificate": (("cert", "show", "cut.cert"), 2, "`cut.cert`: the certificate cannot be read"),
    "a grant as a certificate": (
        ("cert", "show", "institute.grant"),
        2,
        "`institute.grant` is a grant of `maia grant`; a certificate was expected [INPUT-FILE]",
    ),
    "a grant to a grant": (
        ("grant", "institute.grant", *IN_HOSPITAL, "--may", "subscribe:LabResult", "-o", "x.grant"),
        2,
        "`institute.grant` is a grant of `maia grant`; a public key was expected [INPUT-FILE]",
    ),
    "a certificate without a period": ((*ISSUE, "subscribe"), 2, "give a period: --days N"),
    "a moment that is none": (
        (*ISSUE, "subscribe", "--not-before", "tomorrow", "--not-after", "unbounded"),
        2,
        "`tomorrow` is not a moment such as `2026-11-15T08:30:00Z` [INPUT-INSTANT]",
    ),
    "an action that is none": ((*ISSUE, "read", "--days", "1"), 2, "`read` is no action: use `connect`"),
    "an hour that is none": (
        (*ISSUE, "subscribe", "--days", "1", "--during", "at night"),
        2,
        "`at night` is no time such as `between 09:00 and 17:00 on monday to friday in Europe/London`",
    ),
    "a chain to nothing": (FIND, 2, "give --network NAME or --type NAME [INPUT-GRANT]"),
    "a chain that is not there": (
        (*FIND, "--type", "LabResult"),
        4,
        "publish type `LabResult`, version 0, of `hospital` (ed25519:",
    ),
    "a text as a key": (("key", "show", "notes.txt"), 2, "`notes.txt` does not hold a public key"),
    "a secret key as a configuration": (
        ("broker", "--config", "hospital/hospital.key"),
        2,
        "`hospital/hospital.key` is a secret key; a configuration was expected [INPUT-CONFIG]",
    ),
    "a setting that is none": (
        ("broker", "--config", "misspelt.toml"),
        2,
        "`misspelt.toml` line 1: `keyy` is not a setting; did you mean `key`? [INPUT-CONFIG]",
    ),
    "a broker that does not run": (
        ("status", "--data", "empty"),
        6,
        "no broker runs with the data folder `empty`",
    ),
    "a folder that is no ledger": (
        ("ledger", "verify", "empty"),
        2,
        "empty`: it has no `*.ledger` file, which a broker with",
    ),
    "a folder that is no log": (("log", "list", "empty"), 2, "`empty` is no event log: it has no manifest"),
    "a type by name for a pipeline, before anything is recorded": (
        ("pipeline", "run", "billing", "--as", "office", "-d", "LabResult"),
        2,
        "there is no event log at `",
    ),
    "an attribute that is there already": (
        ("type", "change", "LabResult", "--add", "ward:string", *IN_HOSPITAL),
        2,
        "two attributes are called `ward`",
    ),
}


def test_a_mistake_is_found_before_anything_is_dialled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each row, the message, its hint and the exit status; no row connects to anything."""

    def dialled(*_words: object, **_options: object) -> None:
        raise AssertionError("a connection was begun")

    monkeypatch.setattr("maia.cli.participate.membership.Membership.connect", dialled)
    wrong = {}
    for case, (words, status, sentence) in MORE_MISTAKES.items():
        answer = maia(*words, cwd=home)
        if sentence not in answer.stderr or answer.returncode != status or "horse" in answer.stderr:
            wrong[case] = (answer.returncode, answer.stderr)
    assert wrong == {}
    assert not (home / "x.cert").exists()
    assert len(MISTAKES) + len(MORE_MISTAKES) > 60


REFUSED = {
    "a right that is not held": (
        "publish:LabResult",
        "institute",
        "maia: `institute` does not hold `publish:LabResult`: ask `hospital` (ed25519:",
        "for it (`maia grant institute.pub --may publish:LabResult --delegable -o institute.grant`) "
        "[REFUSED-NOT-HELD]\n",
    ),
    "a right that may not be passed on": (
        "subscribe:LabResult@hospital",
        "clinic",
        "maia: `clinic` may not pass `subscribe:LabResult` on: ask `hospital` (ed25519:",
        "for a grant with `--delegable` [REFUSED-NOT-HELD]\n",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_organisation_grants_no_more_than_it_holds(home: Path, case: str) -> None:
    right, org, first, last = REFUSED[case]
    answer = maia("member", "add", "reader", "--may", right, "--org", org, cwd=home)
    assert answer.stderr.startswith(first)
    assert answer.stderr.endswith(last)
    assert answer.returncode == 3
    assert not list((home / org / "reader.maia" / "certs").glob("*.cert"))


def test_a_broker_that_does_not_answer_is_named_at_once_with_the_reason(home: Path) -> None:
    (port,) = free_ports(1)
    options = ("--broker", f"127.0.0.1:{port}", "--wait", 2)
    answer = maia("publish", "LabResult", *BY_LAB, *options, cwd=home)
    first, last = answer.stderr.splitlines()
    refused = f"maia: no broker answers at `127.0.0.1:{port}`: the connection was refused"
    assert first.startswith(refused)
    assert first.endswith("trying on")
    assert last.startswith(refused)
    assert last.endswith("[UNAVAILABLE-NOT-CONNECTED]")
    assert answer.returncode == 6


def test_a_right_is_explained_by_a_profile_and_the_name_of_a_type(home: Path) -> None:
    answer = maia("explain", "LabResult", "--as", "lab", "--action", "subscribe", cwd=home)
    assert answer.stdout.startswith("no [POLICY-NO-CHAIN]")
    assert "way out    `maia member add lab --org hospital --may subscribe:LabResult` gives" in answer.stdout
    assert answer.returncode == 1


def test_what_a_reader_will_not_see_is_said_where_its_right_is_given_and_explained(home: Path) -> None:
    made = maia(*MAY, "--set", "patient := pseudonym(patient)", cwd=home)
    assert (
        "recorded     LabResult is sealed: of its log, it can open what is published after its key server"
        in made.stdout
    )
    asked = maia("explain", "LabResult", "--as", "x", "--action", "subscribe", cwd=home)
    assert "needs      a secret or table of hospital (ed25519:" in asked.stdout
    assert "publishers' brokers make it" in asked.stdout
    words = ("institute/institute.pub", *IN_HOSPITAL, "--may", "subscribe:LabResult", "-o", "set.grant")
    granted = maia("grant", *words, "--set", "ward := first(ward, 1)", cwd=home)
    assert (
        "note         a sealed type: what this right shows is made by publishers' brokers" in granted.stdout
    )


def test_a_server_that_does_not_run_is_named_with_the_command_that_runs_it(home: Path) -> None:
    answer = maia("revoke", "lab", *IN_HOSPITAL, cwd=home)
    assert answer.stderr.endswith("[UNAVAILABLE-DOMAIN] (`maia up` runs the organisation's server)\n")
    assert answer.returncode == 6


def test_help_says_that_a_profile_gives_what_is_required(home: Path) -> None:
    shown = " ".join(maia("publish", "--help", cwd=home).stdout.split())
    assert shown.count("required without --as]") == 5
    assert "required]" not in shown


def test_an_option_is_stronger_than_a_profile_and_a_profile_than_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maia.cli import main

    seen = []
    monkeypatch.setattr(
        "maia.cli.participate.membership.Participant.membership",
        lambda given: seen.append((given.network, given.broker)) or 1 / 0,
    )
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("MAIA_NETWORK", "from the environment")
    lab = ("publish", "LabResult", "--set", "ward=3")
    for words in ((*lab, "--as", "lab"), (*lab, "--as", "lab", "--network", "given")):
        with pytest.raises(ZeroDivisionError):
            main(words)
    monkeypatch.setenv("MAIA_PROFILE", "lab")
    with pytest.raises(ZeroDivisionError):
        main(lab)
    monkeypatch.delenv("MAIA_PROFILE")
    assert main(["profile", "use", "lab"]) == 0
    with pytest.raises(ZeroDivisionError):
        main(lab)
    assert [network for network, _ in seen] == [
        "hospital", "given", "from the environment", "from the environment"
    ]  # fmt: skip
    assert len({tuple(brokers) for _, brokers in seen}) == 1
    assert main(["profile", "use", "--none"]) == 0
    assert not (home / "maia" / "profile").exists()


SERVERS = {"broker": ("broker", "--config"), "domain": ("domain", "serve", "--config")}


@pytest.mark.parametrize("server", SERVERS)
def test_a_check_says_that_address_or_folder_are_in_use(home: Path, server: str) -> None:
    settings = home / "hospital" / f"{server}.toml"
    generated = settings.with_name(f"{server}.generated.toml").read_text()
    found = re.search(r'^listen = "(.*)"', generated, re.M)
    assert found is not None
    words = (*SERVERS[server], settings, "--check")
    assert "can run with this configuration" in maia(*words, cwd=home).stdout
    listening, _ = bind(found[1])
    with listening:
        taken = maia(*words, cwd=home)
    assert taken.stderr == (
        f"maia: cannot listen at `{found[1]}`: another process listens there [UNAVAILABLE-ADDRESS]\n"
    )
    assert taken.returncode == 6
    data = home / "hospital" / f"{server}-data"
    data.mkdir(mode=0o700, exist_ok=True)
    with own_folder(data):
        runs = maia(*words, cwd=home)
    assert f"a process runs with `{data}`, so a start would fail" in runs.stdout
    assert runs.returncode == 0


def test_a_right_brings_the_broker_that_serves_it_the_same_right(home: Path) -> None:
    """C16: what may be passed on goes to the own broker by joining; others the grantor's broker serves."""
    (of_type,) = (home / "hospital" / "lab.maia" / "types").glob("*.type")
    for org in ("institute", "hospital"):
        held = ("--principal", f"{org}/broker.pub", "--credentials", f"{org}/broker-certs")
        asked = maia("explain", "-d", of_type, "--action", "subscribe", *held, cwd=home)
        assert asked.returncode == 0, (org, asked.stdout)
    # Without an action, both of a type are explained, and one that is permitted is enough.
    answer = maia("explain", "LabResult", "--as", "office", cwd=home)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"(?m)^publish +no \[POLICY-NO-CHAIN\]", answer.stdout)
    assert re.search(r"(?m)^subscribe +yes, until", answer.stdout)


def test_a_gateway_is_of_the_organisation_in_whose_folder_it_is_asked_for(home: Path) -> None:
    checked = maia(
        "gateway", "mqtt", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--check", cwd=home / "hospital"
    )
    assert checked.returncode == 0, checked.stderr
    assert "LabResult" in checked.stdout


def test_a_grant_to_one_that_is_not_invited_says_so(home: Path) -> None:
    """The institute is in the hospital's network, to which it cannot invite anybody itself."""
    may = ("--may", "subscribe:LabResult", "--org", "institute", "--force")
    stranger = maia("grant", "elsewhere/elsewhere.pub", *may, "-o", "elsewhere.grant", cwd=home)
    assert stranger.returncode == 0, stranger.stderr
    said = "invitation   this brings none: unless it is in the network already, "
    assert said in stranger.stdout
    assert "invites it first (`maia network invite`)" in stranger.stdout
    ours = ("--may", "subscribe:Ward", "--org", "hospital", "--force")
    invited = maia("grant", "clinic/clinic.pub", *ours, "-o", "ward.grant", cwd=home)
    assert invited.returncode == 0, invited.stderr
    assert "invitation" not in invited.stdout


def test_an_open_invitation_lets_the_broker_serve_all_types(home: Path) -> None:
    for words in (
        ("org", "new", "carrier"),
        ("network", "invite", "carrier/carrier.pub", "--org", "hospital", "-o", "closed.invite"),
        ("network", "invite", "carrier/carrier.pub", "--open", "--org", "hospital", "-o", "carrier.invite"),
        ("network", "join", "carrier.invite", "--org", "carrier"),
    ):
        answer = maia(*words, cwd=home)
        assert answer.returncode == 0, answer.stderr
    network = ("--network", "hospital", "--coordinator", "hospital/hospital.pub", "--action", "serve")
    for org, status in (("carrier", 0), ("institute", 1)):
        held = ("--principal", f"{org}/broker.pub", "--credentials", f"{org}/broker-certs")
        assert maia("explain", *network, *held, cwd=home).returncode == status, org


def test_a_member_is_shown_what_its_right_rests_on(home: Path) -> None:
    may = ("--may", "subscribe:LabResult")
    terms = ("--only", "ward", "--set", "ward := first(ward, 1)", "--delegable", "--org", "hospital")
    far = home / "far"  # it knows nothing of the hospital but what is in the grant
    far.mkdir()
    for words, at in (
        (("org", "new", "bureau"), far),
        (("grant", "far/bureau/bureau.pub", *may, *terms, "-o", "bureau.grant"), home),
        (("org", "join", home / "bureau.grant", "--check"), far),
        (("org", "join", home / "bureau.grant"), far),
    ):
        answer = maia(*words, cwd=at)
        assert answer.returncode == 0, answer.stderr
        if "join" in words:
            assert re.search(r"(?s)  only +ward\n.*  set +ward := first\(ward, 1\)\n", answer.stdout)
    added = maia("member", "add", "board", *may, cwd=far).stdout
    assert re.search(r"rests on +a grant of .*hospital.*: only ward; set ward := first\(ward, 1\)", added)
    asked = ("--principal", "far/bureau/bureau.pub", "--action", "subscribe")
    assert (
        "ward := first(ward, 1)" in maia("explain", "LabResult", "--as", "hospital", *asked, cwd=home).stdout
    )


@pytest.mark.parametrize("words", [("up",), ("member", "list"), ("publish", "LabResult", "--as", "lab")])
def test_who_is_in_the_wrong_folder_is_told_how_to_name_the_right_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    answer = maia(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert (
        "`--org FOLDER` names one, " in answer.stderr or "a path names one that is elsewhere" in answer.stderr
    )
