"""Mistakes of a person who makes an organisation, members and grants: message, hint and exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ports import free_ports
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
        ("org", "new", "institute"),
        ("org", "new", "clinic"),
        ("grant", "institute/institute.pub", *may_subscribe, "--delegable", "-o", "institute.grant"),
        ("grant", "clinic/clinic.pub", *may_subscribe, "-o", "clinic.grant"),
        ("org", "join", "institute.grant", "--org", "institute"),
        ("org", "join", "clinic.grant", "--org", "clinic"),
    ):
        answer = maia(*words, cwd=folder)
        assert answer.returncode == 0, answer.stderr
    (folder / "empty").mkdir()
    (folder / "wrong.maia").mkdir(mode=0o700)
    (folder / "wrong.maia" / "profile.toml").write_text('brokers = ["127.0.0.1"]\n')
    return folder


IN_HOSPITAL = ("--org", "hospital")
BY_LAB = ("--as", "lab", "--set", "ward=3")
MISTAKES = {
    "no organisation here": (
        ("member", "add", "lab", "--org", "empty"),
        "`empty` is no organisation: it has no `organisation.toml` [INPUT-ORGANISATION]",
    ),
    "several organisations": (
        ("member", "add", "lab"),
        "(clinic, hospital, institute): say which with `--org`",
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
        "[INPUT-GRANT-FOR-ANOTHER]",
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
    "nothing to revoke": (
        ("revoke", "labb", *IN_HOSPITAL),
        "there is no grant, certificate or member `labb`; did you mean `lab`? [INPUT-FILE]",
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
        "A profile says all of it: `--as PROFILE`; `maia member add` makes one.",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_answered_in_one_sentence_with_what_to_do(home: Path, case: str) -> None:
    words, sentence = MISTAKES[case]
    answer = maia(*words, cwd=home)
    assert sentence in answer.stderr
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert not (home / "hospital" / "x.maia").exists()
    for secret in home.glob("*/*.key"):
        assert secret.read_text().split("(seed", 1)[1].strip(" )\n") not in answer.stderr


REFUSED = {
    "a right that is not held": ("publish:LabResult", "institute"),
    "a right that may not be passed on": ("subscribe:LabResult", "clinic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_organisation_grants_no_more_than_it_holds(home: Path, case: str) -> None:
    right, org = REFUSED[case]
    answer = maia("member", "add", "reader", "--may", right, "--org", org, cwd=home)
    assert f"`{org}` cannot grant `{right}`, which it does not hold or may not pass on" in answer.stderr
    assert answer.returncode == 3
    assert not list((home / org / "reader.maia" / "certs").glob("*.cert"))


def test_a_broker_that_does_not_answer_is_named_at_once_with_the_reason(home: Path) -> None:
    (port,) = free_ports(1)
    options = ("--broker", f"127.0.0.1:{port}", "--wait", 0.5)
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
    assert answer.returncode == 1


def test_a_server_that_does_not_run_is_named_with_the_command_that_runs_it(home: Path) -> None:
    answer = maia("revoke", "lab", *IN_HOSPITAL, cwd=home)
    assert answer.stderr.endswith("[UNAVAILABLE-DOMAIN] (`maia up` runs the organisation's server)\n")
    assert answer.returncode == 6


def test_an_option_is_stronger_than_a_profile_and_a_profile_than_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maia.cli import main

    seen = []
    monkeypatch.setattr(
        "maia.cli.participate.publish.membership",
        lambda **named: seen.append((named["network"], named["brokers"])) or 1 / 0,
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
