"""A125: the public key of a partner comes by mail, where another one was put in its place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import maia
from maia.errors import MaiaError
from maia.organisation.compared_keys import KeyNotCompared, in_groups
from support.processes import Answer
from support.processes import maia as command

MAY = ("--may", "subscribe:Ward", "--org", "hospital")


@dataclass(frozen=True)
class World:
    """A hospital, its partner Rotterdam elsewhere, and a thief who swaps `rotterdam.pub` in the mail."""

    home: Path
    hospital: maia.Organisation
    rotterdam: maia.Organisation
    mail: Path

    def run(self, *words: object) -> Answer:
        return command(*words, cwd=self.home)

    def swap(self) -> maia.Organisation:
        thief = maia.Organisation.create(self.home / "elsewhere" / "thief")
        self.mail.write_text(f"{thief.principal}\n")
        return thief


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name in ("elsewhere", "mail"):
        (tmp_path / name).mkdir()
    hospital = maia.Organisation.create(tmp_path / "hospital")
    hospital.define("Ward", place="string")
    rotterdam = maia.Organisation.create(tmp_path / "elsewhere" / "rotterdam")
    mail = tmp_path / "mail" / "rotterdam.pub"
    mail.write_text(f"{rotterdam.principal}\n")
    return World(tmp_path, hospital, rotterdam, mail)


@pytest.mark.parametrize(
    "words", [("grant", *MAY), ("network", "invite", "--org", "hospital")], ids=["grant", "invite"]
)
def test_a_key_that_nobody_has_compared_gets_nothing_and_no_name(
    world: World, words: tuple[str, ...]
) -> None:
    thief = world.swap()
    out = world.home / "rotterdam.grant"
    asked = (*words, world.mail, "-o", out)
    for told, code in (
        ((), "INPUT-KEY-NOT-COMPARED"),
        (("--key", world.rotterdam.principal), "INPUT-KEY-DIFFERS"),
        (("--key", in_groups(world.rotterdam.principal)[:36]), "INPUT-KEY-DIFFERS"),
        (("--key", str(thief.principal)[:20]), "INPUT-KEY-DIFFERS"),  # others begin so, too
    ):
        answer = world.run(*asked, *told)
        assert (answer.returncode, f"[{code}]" in answer.stderr) == (2, True), answer.stderr
        assert in_groups(thief.principal) in answer.stderr  # as it can be read out on the telephone
    assert not out.exists()
    assert world.hospital.issued_to(thief.principal) == []
    assert not (world.hospital.folder / "known").exists()


def test_a_key_saved_in_the_organisations_own_folder_is_compared_too(world: World) -> None:
    """A125: there, files give keys their names."""
    world.swap()
    (world.hospital.folder / "rotterdam.pub").write_bytes(world.mail.read_bytes())
    with pytest.raises(KeyNotCompared):
        world.hospital.grant(world.hospital.folder / "rotterdam.pub", may="subscribe:Ward")


def test_a_key_that_was_compared_has_a_name_and_is_asked_for_no_more(world: World) -> None:
    out = ("-o", world.home / "one.grant")
    told = ("--key", in_groups(world.rotterdam.principal)[:40])
    answer = world.run("grant", world.mail, *MAY, *told, *out)
    assert answer.returncode == 0, answer.stderr
    again = world.run("grant", "rotterdam", *MAY, "--force", *out)
    assert again.returncode == 0, again.stderr
    assert "granted to   rotterdam (" in again.stdout
    assert world.run("network", "invite", world.mail, "--org", "hospital", "--force", *out).returncode == 0


def test_a_person_at_a_terminal_is_shown_the_key_and_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    thief = world.swap()
    answers = iter([False, True])
    asked = list[str]()

    def confirm(question: str) -> bool:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", confirm)
    out = ("-o", world.home / "one.grant")
    refused = world.run("grant", world.mail, *MAY, *out)
    assert (refused.returncode, len(asked)) == (2, 1)
    assert in_groups(thief.principal) in refused.stderr
    assert world.run("grant", world.mail, *MAY, *out).returncode == 0
    assert world.run("grant", world.mail, *MAY, "--force", *out).returncode == 0
    assert len(asked) == 2


def test_a_key_beside_its_secret_half_is_ones_own(world: World) -> None:
    """Of an organisation on this machine there is nothing to compare."""
    made = world.hospital.grant(world.rotterdam.folder / "rotterdam.pub", may="subscribe:Ward")
    assert made.subject == world.rotterdam.principal
    other = world.home / "mail" / "other.pub"
    other.write_text(f"{world.swap().principal}\n")
    (world.home / "mail" / "other.key").write_bytes((world.hospital.folder / "broker.key").read_bytes())
    (world.home / "mail" / "other.key").chmod(0o600)
    with pytest.raises(MaiaError):
        world.hospital.grant(other, may="subscribe:Ward")


def test_who_names_the_other_organisation_is_shown_it_by_that_name(world: World) -> None:
    """Its whole key is there to be compared, and no other name is asked for."""
    world.hospital.grant(world.rotterdam.principal, may="subscribe:Ward").save(world.home / "r.grant")
    words = ("network", "join", world.home / "r.grant", "--name", "clinic")
    joined = command(*words, cwd=world.rotterdam.folder)
    assert joined.returncode == 0, joined.stderr
    assert "granted by   clinic (ed25519:" in joined.stdout
    assert in_groups(world.hospital.principal) in joined.stdout
    assert "maia key remember" not in joined.stdout
