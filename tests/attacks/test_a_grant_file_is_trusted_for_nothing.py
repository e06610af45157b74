"""A grant comes from another organisation over an unguarded way: what is in it has to prove itself."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from maia.errors import MaiaError
from maia.organisation import Organisation
from maia.profile import find_profile
from maia.profile.profile import toml_text


@pytest.fixture
def grant(tmp_path: Path) -> Path:
    hospital = Organisation.create(tmp_path / "hospital")
    hospital.define("LabResult", patient="string", ward="string", sealed=True)
    institute = Organisation.create(tmp_path / "institute")
    made = hospital.grant(institute.principal, may="subscribe:LabResult", only=["ward"], delegable=True)
    return made.save(tmp_path / "institute.grant")


def changed(grant: Path, change: Callable[[dict[str, object]], None]) -> Path:
    found = tomllib.loads(grant.read_text())
    change(found)
    file = grant.with_name("changed.grant")
    file.write_text(toml_text(found))
    return file


def state(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def with_certificate(change: Callable[[str], str]) -> Callable[[dict[str, object]], None]:
    return lambda found: found.update(certificates=[change(one) for one in found["certificates"]])


def another_type(found: dict[str, object]) -> None:
    """Put a type of the same name, signed by another key, in the place of the hospital's."""
    ours = str(found["definitions"][0])  # type: ignore[index]  # a list of texts
    found["definitions"] = [ours.replace("LabResult", "LabResults")]


FORGED: dict[str, Callable[[dict[str, object]], None]] = {
    "a wider right": with_certificate(lambda one: one.replace("subscribe", "publish")),
    "no signature": with_certificate(lambda one: one.rpartition("(signature")[0] + ")"),
    "an empty certificate": lambda found: found.update(certificates=["()"]),
    "no certificate": lambda found: found.update(certificates=[]),
    "another network": lambda found: found.update(network="elsewhere"),
    "another type": another_type,
    "a name that is a path": lambda found: found.update(network="../../elsewhere"),
    "a key by the name of a file": lambda found: found.update(domain="/etc/passwd"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_changed_grant_changes_nothing(grant: Path, case: str) -> None:
    """A10, A71: what is not signed by the owner is refused as a whole, before anything is written."""
    institute = Organisation(grant.parent / "institute")
    before = state(institute.folder)
    with pytest.raises(MaiaError):
        institute.join(changed(grant, FORGED[case]))
    assert state(institute.folder) == before


def test_no_name_in_a_grant_becomes_the_name_of_a_file(grant: Path) -> None:
    """A71: files are named by the ids of what is in them; the issuer's name for itself is for people."""
    institute = Organisation(grant.parent / "institute")
    institute.join(changed(grant, lambda found: found.update(grant="../../../evil")))
    written = {one for one in grant.parent.rglob("*") if "evil" in one.name}
    assert written == set()
    assert Organisation(institute.folder).network.name == "hospital"


@pytest.mark.parametrize("name", ["../lab", "a/b", "..", "", "lab.maia", "x" * 64, "läb", "a\n"])
def test_no_member_is_made_outside_of_its_organisation(grant: Path, name: str) -> None:
    """A71: the name of a member is the name of a folder, and of nothing else."""
    before = state(grant.parent)
    with pytest.raises(MaiaError):
        Organisation(grant.parent / "hospital").add_member(name)
    assert state(grant.parent) == before


def test_a_profile_that_others_can_change_is_not_used(grant: Path) -> None:
    """A19: an attacker who can write to a profile would name a broker and a network of its own."""
    made = Organisation(grant.parent / "hospital").add_member("lab")
    made.path.chmod(0o777)
    with pytest.raises(MaiaError, match="can be changed by others"):
        find_profile(str(made.path))
