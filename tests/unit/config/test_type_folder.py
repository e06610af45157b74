"""A folder as a type registry: what it hands out was verified, whatever lies in it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from maia.config.type_folder import TypeFolder, TypeNotFound, lineage_in, verified_lineage, verified_versions
from maia.credentials import SigningKey, TypeName
from maia.errors import MaiaError
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.testing import raises
from maia.types import (
    Added,
    SignedDefinition,
    TypeDefinition,
    definition_to_text,
    next_version,
    sign_definition,
)

NOON = Instant.parse("2026-11-15T12:00:00Z")
OWNER, OTHER = SigningKey.from_seed(b"o" * 32), SigningKey.from_seed(b"x" * 32)
PLATE = Attribute("plate", attribute_uid("1"), Kind.STRING)
PLACE = Attribute("place", attribute_uid("2"), Kind.STRING)


def first(key: SigningKey = OWNER, name: str = "Numberplate") -> SignedDefinition:
    return sign_definition(TypeDefinition(TypeName(key.principal, name, "0"), None, (PLATE,)), key)


def second(key: SigningKey = OWNER, version: int = 7) -> SignedDefinition:
    changed = next_version(first().definition, [Added(PLACE)], version=UUID(int=version, version=4))
    return sign_definition(changed, key)


def put(folder: Path, **definitions: SignedDefinition) -> TypeFolder:
    for name, definition in definitions.items():
        (folder / f"{name}.type").write_text(definition_to_text(definition))
    return TypeFolder(folder)


def found(folder: TypeFolder, version: str | None = None) -> list[str]:
    lineage = folder.find(owner=OWNER.principal, name="Numberplate", version=version, at=NOON)
    return [one.name.version for one in lineage]


def test_the_newest_version_comes_after_those_it_was_made_from(tmp_path: Path) -> None:
    folder = put(tmp_path, b=first(), a=second(), c=first(name="Other"))
    newest = str(UUID(int=7, version=4))
    assert found(folder) == ["0", newest]
    assert found(folder, "0") == ["0"]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    folder = put(tmp_path, a=first(name="Other"))
    with pytest.raises(TypeNotFound):
        found(folder)
    put(tmp_path, a=first())
    assert found(folder) == ["0"]
    (tmp_path / "a.type").unlink()
    with pytest.raises(TypeNotFound):
        found(folder)


def test_another_owners_type_of_the_same_name_is_not_handed_out(tmp_path: Path) -> None:
    folder = put(tmp_path, a=first(key=OTHER))
    with pytest.raises(TypeNotFound):
        found(folder)


def test_a_definition_that_somebody_else_signed_is_refused() -> None:
    forged = sign_definition(first().definition, OTHER)
    with pytest.raises(MaiaError):
        verified_lineage([forged], owner=OWNER.principal, name="Numberplate", version=None, at=NOON)


def test_a_later_version_that_nobody_was_allowed_to_make_is_refused(tmp_path: Path) -> None:
    folder = put(tmp_path, a=first(), b=second(key=OTHER))
    with pytest.raises(MaiaError):
        found(folder)
    assert found(folder, "0") == ["0"]


def test_a_version_without_those_it_was_made_from_is_not_there(tmp_path: Path) -> None:
    folder = put(tmp_path, a=second())
    with pytest.raises(TypeNotFound, match="made from"):
        found(folder)


def test_between_two_newest_versions_the_user_chooses(tmp_path: Path) -> None:
    folder = put(tmp_path, a=first(), b=second(), c=second(version=9))
    with pytest.raises(TypeNotFound, match="several"):
        found(folder)
    assert len(found(folder, str(UUID(int=9, version=4)))) == 2


def test_a_broken_file_is_named_and_does_not_hide_the_others(tmp_path: Path) -> None:
    folder = put(tmp_path, a=first())
    (tmp_path / "broken.type").write_text("(maia")
    (tmp_path / "link.type").symlink_to(tmp_path / "nowhere")
    assert found(folder) == ["0"]
    assert sorted(path.name for path in folder.broken) == ["broken.type", "link.type"]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TypeNotFound, match="no folder"):
        found(TypeFolder(tmp_path / "none"))


def versions(*definitions: SignedDefinition) -> list[str]:
    known = verified_versions(definitions, owner=OWNER.principal, name="Numberplate", at=NOON)
    return [one.name.version for one in known]


def test_versions_that_were_made_up_hide_none_that_verify() -> None:
    newest, forged = str(UUID(int=7, version=4)), second(OTHER)
    later = sign_definition(next_version(forged.definition, [], version=UUID(int=9, version=4)), OTHER)
    orphan = sign_definition(
        next_version(second(version=5).definition, [], version=UUID(int=8, version=4)), OWNER
    )
    assert versions(later, forged, second(), orphan, first(OTHER), first()) == ["0", newest]
    assert versions(forged, first(OTHER)) == []


def test_two_definitions_of_one_version_by_its_owner_are_refused() -> None:
    other = next_version(first().definition, [], version=UUID(int=7, version=4))
    with raises("TYPE-FORK"):
        versions(first(), second(), sign_definition(other, OWNER))


def test_each_version_has_the_lineage_that_it_was_made_from() -> None:
    known = verified_versions(
        [second(version=7), first(), second(version=8)], owner=OWNER.principal, name="Numberplate", at=NOON
    )
    assert [one.name.version for one in lineage_in(known, str(UUID(int=8, version=4)))] == [
        "0",
        str(UUID(int=8, version=4)),
    ]
    with pytest.raises(TypeNotFound):
        lineage_in(known, None)
    with pytest.raises(TypeNotFound):
        lineage_in((), None)
