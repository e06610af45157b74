"""Names that a command prints in place of keys: what others choose is never taken for the user's own word."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.config.input_files import BadFile
from maia.credentials import UNBOUNDED, NameCertificate, Principal, SigningKey, certificate_to_text, issue
from maia.organisation import Organisation
from maia.profile.address_book import AddressBook, introduction, load_book
from maia.types import TypeDefinition, definition_to_text, sign_definition

MALLORY = SigningKey.from_seed(b"m" * 32)
FRIEND = SigningKey.from_seed(b"f" * 32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An organisation with a type, and a user who knows a friend."""
    home = tmp_path_factory.mktemp("names")
    Organisation.create(home / "hospital").define("LabResult", patient="string")
    (home / "own").mkdir(mode=0o700)
    (home / "own" / "friend.pub").write_text(f"{FRIEND.principal}\n")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def book(home: Path) -> AddressBook:
    return load_book([home / "hospital"], own=home / "own", at=system_now())


def introduce(home: Path, name: str, key: SigningKey = MALLORY) -> None:
    (home / "hospital" / "introduced").mkdir(exist_ok=True)
    file, text = introduction(key.principal, name)
    (home / "hospital" / "introduced" / file).write_text(text)


def certify(home: Path, name: str, issuer: SigningKey, subject: Principal, signer: SigningKey) -> None:
    """Write a name certificate of one key, with the signature that another has made under its own."""
    signed = issue(NameCertificate(issuer.principal, name, subject, UNBOUNDED), issuer)
    other = issue(NameCertificate(signer.principal, name, subject, UNBOUNDED), signer)
    text = certificate_to_text(replace(signed, signature=other.signature))
    (home / "hospital" / "certs" / "name.cert").write_text(text)


@pytest.mark.parametrize("name", ["friend", "Friend", "hospital", "broker"])
def test_no_key_introduces_itself_by_the_name_of_another(home: Path, name: str) -> None:
    """A14: a self-chosen name that the user has for another key is not shown; the whole key is."""
    introduce(home, name)
    assert book(home).shown(str(MALLORY.principal)) == str(MALLORY.principal)
    assert book(home).shown(str(FRIEND.principal)).startswith("friend (ed25519:")


@pytest.mark.parametrize(
    "name", ["", "a\nb", "a\u202eb", "friend (ed25519:00", "a`b", 'a"b', "x" * 65, "../lab"]
)
def test_no_name_forges_a_line_or_a_key(home: Path, name: str) -> None:
    """A14, A71: a name cannot hold what a reader takes for a key, another line or a path."""
    introduce(home, name)
    assert book(home).named(f"by {MALLORY.principal}") == f"by {MALLORY.principal}"


def test_a_name_of_others_says_whose_it_is_and_is_not_looked_up(home: Path) -> None:
    """A14, A25: who chose a name is beside it, and where a key is wanted it means nothing."""
    introduce(home, "partner")
    assert book(home).shown(str(MALLORY.principal)).startswith('self-named "partner" (ed25519:')
    third = SigningKey.from_seed(b"t" * 32).principal
    certify(home, "night desk", FRIEND, third, FRIEND)
    assert book(home).shown(str(third)).startswith('"night desk" of friend (ed25519:')
    for name in ("partner", "night desk"):
        with pytest.raises(BadFile, match="no key that you know by this name"):
            book(home).find(name)
    assert book(home).find("friend") == FRIEND.principal


def test_only_issuers_that_the_user_knows_name_others_and_only_by_their_signature(home: Path) -> None:
    """A25: an unknown issuer names nobody, and nobody names in the name of another."""
    third = SigningKey.from_seed(b"t" * 32).principal
    certify(home, "friend of yours", MALLORY, third, MALLORY)
    assert str(third) not in book(home).keys
    certify(home, "night desk", FRIEND, third, MALLORY)
    assert str(third) not in book(home).keys
    certify(home, "renamed", FRIEND, FRIEND.principal, FRIEND)
    assert book(home).shown(str(FRIEND.principal)).startswith("friend (")


def test_a_definition_that_its_owner_did_not_sign_names_nothing(home: Path) -> None:
    """A29: neither a type nor its attributes are called what another says."""
    (file,) = (home / "hospital" / "types").glob("*.type")
    known = book(home)
    ((owner, name),) = known.attributes
    real = Organisation(home / "hospital").event_type("LabResult").definition
    forged = sign_definition(TypeDefinition(real.name, None, real.attributes), MALLORY)
    file.write_text(definition_to_text(forged))
    assert (owner, name) == (str(real.name.owner), "LabResult")
    assert not book(home).attributes
    assert {one.name for one in book(home).types.values()} == {"maia.validity"}


def test_a_folder_that_others_can_change_names_nothing(home: Path) -> None:
    """A19: a name that another user of the machine could have written is not used."""
    (home / "own").chmod(0o777)
    (home / "hospital").chmod(0o777)
    assert not book(home).keys
    (home / "own").chmod(0o700)
    (home / "hospital").chmod(0o700)


def test_two_keys_with_one_beginning_are_told_apart(home: Path) -> None:
    """A14: a key that was made to begin like another is shown as far as they differ."""
    near = str(FRIEND.principal)[:-4] + ("0000" if not str(FRIEND.principal).endswith("0000") else "1111")
    known = book(home)
    keys = {**known.keys, near: known.keys[str(FRIEND.principal)]}
    shown = AddressBook(keys).shown(str(FRIEND.principal))
    assert str(FRIEND.principal)[-4:] in shown
