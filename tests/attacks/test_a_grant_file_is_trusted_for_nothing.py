"""A grant comes from another organisation over an unguarded way: what is in it has to prove itself."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from maia.broker.server.config import prepare, read_config
from maia.clock import system_now
from maia.credentials import (
    Action,
    TypeName,
    TypePattern,
    certificate_to_text,
    issue,
)
from maia.credentials.names import NamePattern
from maia.errors import MaiaError
from maia.keystore.key_files import load_signing_key
from maia.organisation import Organisation
from maia.profile import find_profile
from maia.profile.profile import toml_text
from maia.testing import grant as granted
from maia.types import TypeDefinition, definition_to_text, sign_definition


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


# ---------------------------------------------------------------- well signed, and none of our business


@pytest.fixture
def partner(grant: Path) -> Callable[..., Path]:
    """The hospital, well known to the institute, adds to its grant whatever it can sign."""
    key = load_signing_key(grant.parent / "hospital" / "hospital.key")
    ours = Organisation(grant.parent / "institute").principal

    shape = Organisation(grant.parent / "hospital").event_type("LabResult").attributes[:1]

    def certificate(about: str) -> str:
        return certificate_to_text(
            granted(key, ours, TypePattern(key.principal, NamePattern(about), None), Action.SUBSCRIBE)
        )

    def definition(name: str) -> str:
        made = TypeDefinition(TypeName(key.principal, name, "0"), None, shape)
        return definition_to_text(sign_definition(made, key))

    def added(certificates: Iterable[str], definitions: Iterable[str] = ()) -> Path:
        texts = [certificate(one) for one in certificates]
        more = [definition(one) for one in definitions]
        return changed(
            grant,
            lambda found: found.update(
                certificates=[*found["certificates"], *texts], definitions=[*found["definitions"], *more]
            ),
        )

    return added


def test_an_older_definition_of_our_own_type_does_not_come_back(grant: Path) -> None:
    """A71: the institute sealed its type after it had once signed a plain one; the partner kept that."""
    institute = Organisation(grant.parent / "institute")
    institute.define("Finding", text="string", sealed=True)
    present = institute.event_type("Finding")
    key = load_signing_key(institute.folder / "institute.key")
    plain = definition_to_text(sign_definition(replace(present.definition, sealing=None), key))
    joined = institute.join(
        changed(grant, lambda found: found.update(definitions=[*found["definitions"], plain]))
    )
    assert institute.event_type("Finding").sealing == present.sealing
    assert any("our own `Finding`" in one for one in joined.offer.unused)


def test_another_definition_of_a_version_that_we_have_is_refused(
    grant: Path, partner: Callable[..., Path]
) -> None:
    """A29, A71: the owner itself signed other content under the same name; nothing is replaced by it."""
    institute = Organisation(grant.parent / "institute")
    institute.join(grant)
    before = state(institute.folder)
    fork = partner([], ["LabResult"])
    fork.write_text(toml_text(forked(tomllib.loads(fork.read_text()))))
    with pytest.raises(MaiaError) as refused:
        institute.join(fork)
    assert refused.value.code == "TYPE-FORK"
    assert state(institute.folder) == before


def forked(found: dict[str, object]) -> dict[str, object]:
    return found | {"definitions": found["definitions"][-1:]}  # type: ignore[index]  # a list of texts


def test_what_a_grant_does_not_grant_is_not_kept(grant: Path, partner: Callable[..., Path]) -> None:
    """A71, A88: 900 certificates about nothing and 100 definitions are named, and none is in the folder."""
    institute = Organisation(grant.parent / "institute")
    names = [f"Junk{number}" for number in range(900)]
    joined = institute.join(partner(names, [f"More{number}" for number in range(100)]))
    assert joined.offer.types == ("LabResult",)
    assert any("900 certificates" in one for one in joined.offer.unused)
    assert len(list(institute.folder.glob("certs/*.cert"))) == 3
    assert len(list(institute.folder.glob("types/*.type"))) == 1


def test_a_grant_of_more_than_can_be_shown_is_refused(grant: Path, partner: Callable[..., Path]) -> None:
    """A88: every certificate that is kept is shown at every connection, so their number has a limit."""
    institute = Organisation(grant.parent / "institute")
    before = state(institute.folder)
    names = [f"Used{number}" for number in range(130)]
    with pytest.raises(MaiaError, match="more than the 128"):
        institute.join(partner(names, names))
    assert state(institute.folder) == before


def test_the_broker_starts_after_a_grant_that_may_not_be_passed_on(grant: Path) -> None:
    """A88: data that stays with the organisation's key is no reason for its broker to be locked out."""
    hospital = Organisation(grant.parent / "hospital")
    clinic = Organisation.create(grant.parent / "clinic")
    file = hospital.grant(clinic.principal, may="subscribe:LabResult").save(grant.parent / "clinic.grant")
    clinic.join(file)
    config = read_config(clinic.folder / "broker.toml", flags={}, environment={})
    assert prepare(config, now=system_now(), open_key=load_signing_key).network == hospital.network


def test_a_grant_that_would_lock_the_broker_out_changes_nothing(grant: Path) -> None:
    """A88: of a grant whose right to connect stays with the organisation's key, the folder keeps nothing."""
    hospital, institute = (Organisation(grant.parent / one) for one in ("hospital", "institute"))
    key = load_signing_key(hospital.folder / "hospital.key")
    found = hospital.grant(institute.principal, may="subscribe:LabResult")
    certificates = tuple(
        issue(replace(one.certificate, may_delegate=False), key) for one in found.certificates
    )
    file = replace(found, certificates=certificates).save(grant.parent / "locking.grant")
    before = state(institute.folder)
    with pytest.raises(MaiaError, match="could not connect"):
        institute.join(file)
    assert state(institute.folder) == before


def test_no_grant_moves_an_organisation_to_another_network_unasked(grant: Path) -> None:
    """A71: the institute is in the hospital's network; another partner's grant would take it away."""
    institute = Organisation(grant.parent / "institute")
    institute.join(grant)
    clinic = Organisation.create(grant.parent / "clinic")
    clinic.define("Visit", patient="string")
    other = clinic.grant(institute.principal, may="subscribe:Visit").save(grant.parent / "other.grant")
    before = state(institute.folder)
    with pytest.raises(MaiaError, match="to join is to leave that, which ends what was granted there") as end:
        institute.join(other)
    assert end.value.code == "REFUSED-LEAVES-NETWORK"
    assert institute.join(other, leave=True, is_check=True).left == institute.network
    assert state(institute.folder) == before
    institute.join(other, leave=True)
    assert Organisation(institute.folder).network == clinic.network
    assert institute.leave()
    assert Organisation(institute.folder).network.owner == institute.principal


def test_a_folder_that_cannot_be_written_to_the_end_stays_as_it_was(
    grant: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A88: a disk that is full in the middle of joining leaves no half of it."""
    from maia.organisation import draft

    institute = Organisation(grant.parent / "institute")
    before, written, write = state(institute.folder), list[Path](), draft.write_file

    def full(path: Path, data: bytes | None) -> None:
        if path.parent == institute.folder and path.name == "organisation.toml" and not written:
            written.append(path)
            raise draft.BadFile("no space left on device")
        write(path, data)

    monkeypatch.setattr(draft, "write_file", full)
    with pytest.raises(MaiaError, match="no space left"):
        institute.join(grant)
    assert written
    assert state(institute.folder) == before
