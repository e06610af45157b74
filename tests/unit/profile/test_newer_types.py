"""A domain's server offers newer versions of types; a participant takes over what the owner has signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from maia.clock import system_now
from maia.credentials import SigningKey
from maia.events import Attribute, Kind
from maia.organisation import Organisation
from maia.profile import Profile, newer_types
from maia.profile.newer_types import newer_definitions
from maia.types import Added, SignedDefinition, definition_to_bytes, next_version, sign_definition

OTHER = SigningKey.from_seed(b"o" * 32)


@pytest.fixture
def lab(tmp_path: Path) -> Profile:
    hospital = Organisation.create(tmp_path / "hospital")
    hospital.define("LabResult", patient="string", value="int")
    return hospital.add_member("lab", may="publish:LabResult")


def after(old: SignedDefinition, key: SigningKey, *names: str) -> SignedDefinition:
    """Return the next version, with more attributes, signed by `key`."""
    added = [Added(Attribute(name, str(uuid4()), Kind.STRING)) for name in names]
    return sign_definition(next_version(old.definition, added, version=uuid4()), key)


def offered(
    monkeypatch: pytest.MonkeyPatch, lab: Profile, *definitions: SignedDefinition
) -> Sequence[SignedDefinition]:
    """Return what the participant has after a server has offered these."""

    class Server:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None: ...
        def every(self, *_: object, **__: object) -> list[SimpleNamespace]:
            return [SimpleNamespace(definition=definition_to_bytes(one)) for one in definitions]

    monkeypatch.setattr(newer_types, "DomainClient", Server)
    return newer_definitions(lab, lab.definitions(), OTHER, system_now())


def test_versions_that_the_owner_signed_are_taken_over_in_order(monkeypatch, lab: Profile) -> None:
    owner = Organisation(lab.path.parent)._key()
    (first,) = lab.definitions()
    second = after(first, owner, "unit")
    third = after(second, owner, "method")
    assert offered(monkeypatch, lab, third, second) == (first, second, third)


def test_what_the_owner_did_not_sign_is_left_aside(monkeypatch, lab: Profile) -> None:
    (first,) = lab.definitions()
    assert offered(monkeypatch, lab, after(first, OTHER, "unit")) == (first,)


def test_a_version_without_those_it_was_made_from_is_left_aside(monkeypatch, lab: Profile) -> None:
    owner = Organisation(lab.path.parent)._key()
    (first,) = lab.definitions()
    third = after(after(first, owner, "unit"), owner, "method")
    assert offered(monkeypatch, lab, third) == (first,)


def test_a_fork_and_types_that_the_participant_does_not_know_change_nothing(
    monkeypatch, lab: Profile
) -> None:
    hospital = Organisation(lab.path.parent)
    other = hospital.define("Other", text="string")
    (first,) = lab.definitions()
    forks = [after(first, hospital._key(), name) for name in ("unit", "method")]
    assert offered(monkeypatch, lab, other, *forks) == (first,)
