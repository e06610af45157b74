"""Generated settings and the operator's: who writes which file, and which wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.broker.server.config import read_config
from maia.organisation import Organisation


@pytest.fixture
def hospital(tmp_path: Path) -> Organisation:
    return Organisation.create(tmp_path / "hospital")


def lease_and_network(ours: Organisation) -> tuple[int, str, str]:
    found = read_config(ours.folder / "broker.toml", flags={}, environment={})
    return found.lease_s, found.network, found.listen


def test_what_the_operator_wrote_wins_and_is_never_written_again(hospital: Organisation) -> None:
    """F8: a member, a type and a network that was joined change the generated file alone."""
    own = hospital.folder / "broker.toml"
    assert own.read_text().startswith("# Yours")
    assert (hospital.folder / "broker.generated.toml").read_text().startswith("# Generated")
    edited = own.read_text() + "lease_s = 7\n\n[log]\nroll_s = 3\n"
    own.write_text(edited)
    hospital.define("LabResult", ward="string")
    hospital.add_member("lab", may="publish:LabResult")
    other = Organisation.create(hospital.folder.parent / "clinic")
    hospital.join(other.invite(hospital.principal).save(hospital.folder.parent / "hospital.invite"))
    assert own.read_text() == edited
    assert lease_and_network(hospital) == (7, "clinic", hospital.addresses["broker"])


def as_before(ours: Organisation, name: str, text: str = "") -> Path:
    """Make a folder of the version that knew one file for both."""
    generated = ours.folder / f"{name}.generated.toml"
    own = ours.folder / f"{name}.toml"
    own.write_text(generated.read_text().split("\n", 1)[1] + text)
    generated.unlink()
    return own


def test_a_generated_file_of_before_is_taken_over(hospital: Organisation) -> None:
    own = as_before(hospital, "broker")
    before = lease_and_network(hospital)
    again = Organisation(hospital.folder)
    assert own.read_text().count("\n") == 1
    assert lease_and_network(again) == before


def test_of_an_edited_file_of_before_the_edits_are_kept(hospital: Organisation) -> None:
    own = as_before(hospital, "broker", "\n[limits]\nlinks = 12\n")
    text = own.read_text().replace("processes = 1", "processes = 1\nlease_s = 9\n# by hand")
    own.write_text(text.replace('folder = "log"', 'folder = "elsewhere"'))
    Organisation(hospital.folder)
    kept = own.read_text().split("\n", 1)[1]
    assert kept == 'lease_s = 9\n# by hand\n\n[log]\nfolder = "elsewhere"\n\n[limits]\nlinks = 12\n'
    found = read_config(own, flags={}, environment={})
    assert (found.lease_s, found.log_folder) == (9, own.parent / "elsewhere")
    assert found.limits.links == 12


def test_a_file_of_before_that_cannot_be_taken_apart_is_kept_whole(hospital: Organisation) -> None:
    own = as_before(hospital, "domain", '\n[[facts]]\nname = "a"\n[[facts]]\nname = "b"\n')
    text = own.read_text()
    Organisation(hospital.folder)
    assert own.read_text().split("\n", 1)[1] == text
