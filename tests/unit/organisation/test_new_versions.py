"""A new version of a type: who is told, whose right is wider by it, and what a partner takes in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from maia.config.input_files import read_certificates, read_definitions
from maia.credentials import AuthorisationCertificate, SigningKey
from maia.events import Attribute, Kind
from maia.organisation import Organisation, versions
from maia.types import Added, Change, Removed, Renamed, SignedDefinition, next_version, sign_definition

Tell = Callable[..., None]


@pytest.fixture
def hospital(tmp_path: Path) -> Organisation:
    made = Organisation.create(tmp_path / "hospital")
    made.define("LabResult", "ward:string", "value:int", "note:string")
    made.add_member("lab", may="publish:LabResult")
    made.add_member("office", may="subscribe:LabResult", only=("ward", "value"), where='ward == "3"')
    return made


@pytest.fixture
def institute(tmp_path: Path, hospital: Organisation) -> Organisation:
    made = Organisation.create(tmp_path / "institute")
    granted = hospital.grant(made.principal, may="subscribe:LabResult", delegable=True)
    made.join(granted.save(tmp_path / "institute.grant"))
    made.add_member("reader", may="subscribe:LabResult")
    return made


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Let every server tell these definitions."""

    def tells(*definitions: SignedDefinition) -> None:
        monkeypatch.setattr(versions, "told_by", lambda *_: list(definitions))

    return tells


def changed(ours: Organisation, *changes: Change, for_members: bool = False) -> SignedDefinition:
    return ours.change(ours.event_type("LabResult").definition, changes, for_members=for_members)


def unit() -> Added:
    return Added(Attribute("unit", str(uuid4()), Kind.STRING))


def attribute(ours: Organisation, name: str) -> Attribute:
    return ours.event_type("LabResult").vocabulary[name]


def versions_of(folder: Path) -> set[str]:
    return {str(one.definition.name.version) for one in read_definitions([folder / "types"])}


def opened(ours: Organisation, name: str) -> list[set[str]]:
    """Return which attributes a member's rights open, by the names of the newest version."""
    names = {one.uid: one.name for one in ours.event_type("LabResult").attributes}
    found = [one.certificate for one in read_certificates([ours.folder / f"{name}.maia" / "certs"])]
    rights = [one.authority for one in found if isinstance(one, AuthorisationCertificate)]
    return [{names[uid] for uid in one.attributes} for one in rights if isinstance(one.attributes, frozenset)]


def test_members_have_a_new_version_at_once(hospital: Organisation) -> None:
    made = changed(hospital, unit())
    for member in hospital.members():
        assert str(made.definition.name.version) in versions_of(member.path)


def test_a_right_that_lists_attributes_is_named_with_those_that_it_does_not_open(
    hospital: Organisation,
) -> None:
    made = changed(hospital, unit(), Renamed(attribute(hospital, "note"), "remark"))
    by_member = {str(one.subject): one for one in hospital.holders(made.definition)}
    lab, office = (by_member[one.principal()] for one in hospital.members())
    assert (lab.hidden, lab.gone) == ((), ())
    assert (office.hidden, office.gone) == (("unit",), ())
    assert (office.all_listed, office.has_other_terms) == (("ward", "value", "unit"), True)


def test_members_get_what_is_added_in_one_command_and_nothing_else(hospital: Organisation) -> None:
    made = changed(hospital, unit(), for_members=True)
    assert {"ward", "value", "unit"} in opened(hospital, "office")
    assert all(one <= {"ward", "value", "unit"} for one in opened(hospital, "office")), "not `note`"
    restricted = [
        one.certificate.authority.restriction
        for one in hospital.issued_to(hospital.members()[1].principal())
        if isinstance(one.certificate, AuthorisationCertificate)
        and one.certificate.authority.attributes is not versions.ALL_ATTRIBUTES
    ]
    assert len(restricted) == 2
    assert restricted[0] == restricted[1], "its filter stays"
    assert all(not one.hidden for one in hospital.holders(made.definition))


def test_a_right_that_asks_for_what_is_gone_opens_nothing_and_is_named(hospital: Organisation) -> None:
    made = changed(hospital, Removed(attribute(hospital, "ward")))
    gone = {str(one.subject): one.gone for one in hospital.holders(made.definition)}
    lab, office = (one.principal() for one in hospital.members())
    assert gone == {lab: (), office: ("ward",)}


def test_a_partner_takes_a_new_version_in_where_it_holds_a_right(
    hospital: Organisation, institute: Organisation, tell: Tell
) -> None:
    made = changed(hospital, unit())
    tell(made)
    assert institute.follow_types() == ("LabResult",)
    assert institute.event_type("LabResult").id == made.id
    assert str(made.definition.name.version) in versions_of(institute.members()[0].path)
    assert institute.follow_types() == (), "once"


def test_a_partner_takes_nothing_in_that_the_owner_has_not_signed(
    hospital: Organisation, institute: Organisation, tell: Tell
) -> None:
    before = institute.event_type("LabResult")
    forged = next_version(before.definition, [unit()], version=uuid4())
    tell(sign_definition(forged, SigningKey.from_seed(b"m" * 32)))
    assert institute.follow_types() == ()
    assert institute.event_type("LabResult").id == before.id


def test_a_partner_takes_nothing_in_to_which_it_holds_no_right(
    hospital: Organisation, institute: Organisation, tell: Tell
) -> None:
    hospital.define("Ward", "name:string")
    tell(changed(hospital, unit()), *hospital.definitions())
    for file in (institute.folder / "certs").glob("*.cert"):
        file.unlink()
    assert institute.follow_types() == ()
    assert {one.definition.name.name for one in institute.definitions()} == {"LabResult"}
