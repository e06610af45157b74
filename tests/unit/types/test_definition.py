"""A definition that exists is well formed."""

import pytest

from maia.credentials.names import BadName, TypeName
from maia.events import Kind
from maia.types import BadDefinition, TypeDefinition, type_id
from support.types import NUMBERPLATE, PITO, PLATE, TIME, attribute, numberplate, version

SECOND = str(version(1))


def test_a_version_is_not_made_from_itself():
    with pytest.raises(BadDefinition, match="itself"):
        TypeDefinition(TypeName(PITO.principal, NUMBERPLATE, SECOND), SECOND, (PLATE,))


@pytest.mark.parametrize("previous", ["1", "00", "", SECOND.upper() + "A", "{" + SECOND + "}"])
def test_a_previous_version_is_zero_or_a_canonical_uuid(previous):
    with pytest.raises(BadName):
        TypeDefinition(TypeName(PITO.principal, NUMBERPLATE, str(version(2))), previous, (PLATE,))


@pytest.mark.parametrize(
    "twins",
    [
        (PLATE, attribute("numberplate", "1")),
        (PLATE, attribute("NumberPlate", "1")),
        (PLATE, attribute("other", PLATE.uid)),
    ],
    ids=["same name", "same name but for case", "same uid"],
)
def test_attribute_names_and_uids_are_unique(twins):
    with pytest.raises(BadDefinition, match="two attributes"):
        numberplate(*twins)


def test_a_type_has_at_least_one_attribute():
    with pytest.raises(BadDefinition, match="at least one"):
        TypeDefinition(TypeName(PITO.principal, NUMBERPLATE, "0"), None, ())


def test_names_lead_to_attributes_and_uids_to_kinds():
    definition = numberplate(PLATE, TIME)
    assert dict(definition.vocabulary) == {"numberplate": PLATE, "timestamp": TIME}
    assert dict(definition.kinds) == {"3265": Kind.STRING, "9058": Kind.TIMESTAMP}


def test_all_versions_of_a_type_share_one_rendezvous():
    """Dissertation 4.4.3: the routing digest leaves the version out."""
    first, later = numberplate(), numberplate(number=8516)
    assert type_id(first.name.owner, first.name.name) == type_id(later.name.owner, later.name.name)
