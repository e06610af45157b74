"""The same policy once more is no new version: its readers can tell a reload from a change."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from maia.domain.access.results import Revoked
from maia.domain.storage.tables import PolicyRow
from maia.errors import MaiaError
from maia.types import TypeDefinition, sign_definition
from support.access_control import MET, NUMBERPLATE, POLICY, SMITH, Station, court, later, met, order
from support.policy import CCS, PITO, defined

PARENT = 'policy "{name}"\nfact sworn_{name}(who: principal)\nrole {name}\nend\n'
NATION, CITY = (PARENT.format(name=name) for name in ("nation", "city"))
CHILD = 'policy "Met"\nimport nation\nimport city\nrole sergeant\nend\n'


@pytest.fixture
def station() -> Station:
    return met()


def test_a_policy_that_is_in_force_keeps_its_version(station: Station) -> None:
    before, head = station.policy(), station.audit_head()
    station.now = later(5)
    again = station.load_policy(POLICY)
    assert again.is_unchanged
    assert (again.version, again.digest, again.loaded_at) == (1, before.digest, before.loaded_at)
    assert (again.revoked, station.audit_head()) == (Revoked(), head)
    assert not station.policy().is_unchanged


def test_a_restart_that_reads_the_same_file_changes_nothing(station: Station) -> None:
    wallet = station.login(SMITH.principal, [order(court(), SMITH, "42", "AE05 XYZ")])
    again = station.restarted()
    assert again.load_policy(POLICY).is_unchanged
    assert {one.id for one in again.login(SMITH.principal, []).issued} == {one.id for one in wallet.issued}


def test_a_policy_that_was_another_in_between_is_a_new_version(station: Station) -> None:
    assert station.load_policy(POLICY.replace("8 hours", "4 hours")).version == 2
    again = station.load_policy(POLICY)
    assert (again.version, again.is_unchanged) == (3, False)


@pytest.mark.parametrize(
    "parents",
    [
        {"nation": NATION + "\n", "city": CITY},
        {"city": CITY, "nation": NATION},
        {"nation": NATION, "city": CITY, "county": PARENT.format(name="county")},
    ],
    ids=["another text", "another order", "one more"],
)
def test_what_a_policy_imports_is_a_part_of_it(parents: dict[str, str]) -> None:
    station = Station(MET)
    station.load_policy(CHILD, parents={"nation": NATION, "city": CITY})
    assert station.load_policy(CHILD, parents={"nation": NATION, "city": CITY}).version == 1
    assert station.load_policy(CHILD, parents=parents).version == 2


def test_types_that_have_come_since_are_taken_on_with_the_same_text(station: Station) -> None:
    station.register_type(defined(PITO, "uk.gov.pito.Roadworks", NUMBERPLATE.attributes).signed)
    assert station.load_policy(POLICY).is_unchanged, "a type that it does not name is none of its business"
    name, last = replace(NUMBERPLATE.name, version=str(UUID(int=2))), NUMBERPLATE.name.version
    newer = TypeDefinition(name, last, NUMBERPLATE.attributes)
    station.register_type(sign_definition(newer, PITO))
    again = station.load_policy(POLICY)
    assert (again.version, again.is_unchanged) == (2, False)
    assert station.load_policy(POLICY).is_unchanged


def test_one_that_cannot_be_read_any_more_is_put_in_force_anew(station: Station) -> None:
    """A42: that the text is the same says nothing while nothing is in force."""
    with station.store.transaction() as tables:
        (row,) = tables.find(PolicyRow, limit=2)
        tables.put(replace(row, digest=bytes(32)))
    again = station.restarted()
    assert again.policy() is None
    loaded = again.load_policy(POLICY)
    assert (loaded.version, loaded.is_unchanged) == (2, False)
    assert again.policy() is not None


def test_a_type_of_the_same_name_and_another_owner_is_never_guessed(station: Station) -> None:
    """A71: a partner's grant brings a type that is called as one that the policy names."""
    before = station.policy()
    name = NUMBERPLATE.name.name
    station.register_type(defined(CCS, name, NUMBERPLATE.attributes).signed)
    with pytest.raises(MaiaError, match="means 2 types here: say which of"):
        station.load_policy(POLICY)
    assert station.policy() == before
    own = station.register_type(defined(MET, name, NUMBERPLATE.attributes).signed)
    assert not station.load_policy(POLICY).is_unchanged
    station.register_type(defined(CCS, name, NUMBERPLATE.attributes[:1]).signed)
    assert station.load_policy(POLICY).is_unchanged
    assert own.name.owner == MET.principal
