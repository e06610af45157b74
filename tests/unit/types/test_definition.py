"""A definition that exists is well formed."""

import pytest

from maia.credentials.keys import QuorumId
from maia.credentials.names import BadName, TypeName
from maia.events import ATTRIBUTES_MAX, Kind
from maia.types import CREDENTIALS_MAX, BadDefinition, TypeDefinition, type_id
from support.types import MET, NUMBERPLATE, PITO, PLATE, TIME, attribute, install, numberplate, version

SECOND = str(version(1))


def test_the_first_version_has_no_previous_version():
    with pytest.raises(BadDefinition, match="first"):
        TypeDefinition(TypeName(PITO.principal, NUMBERPLATE, "0"), SECOND, (PLATE,))


def test_a_later_version_names_the_version_it_was_made_from():
    with pytest.raises(BadDefinition, match="made from"):
        TypeDefinition(TypeName(PITO.principal, NUMBERPLATE, SECOND), None, (PLATE,))


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


def test_the_largest_type_is_accepted_and_one_attribute_more_is_not():
    many = tuple(attribute(f"a{number}", str(number)) for number in range(ATTRIBUTES_MAX + 1))
    assert len(numberplate(*many[:-1]).attributes) == ATTRIBUTES_MAX
    with pytest.raises(BadDefinition, match="at most"):
        numberplate(*many)


def test_credentials_are_bounded_and_different():
    certificate = install(PITO, MET)
    with pytest.raises(BadDefinition, match="twice"):
        numberplate(credentials=(certificate, certificate))
    with pytest.raises(BadDefinition, match=f"at most {CREDENTIALS_MAX}"):
        numberplate(credentials=(certificate,) * (CREDENTIALS_MAX + 1))


def test_names_lead_to_attributes_and_uids_to_kinds():
    definition = numberplate(PLATE, TIME)
    assert dict(definition.vocabulary) == {"numberplate": PLATE, "timestamp": TIME}
    assert dict(definition.kinds) == {"3265": Kind.STRING, "9058": Kind.TIMESTAMP}


def test_all_versions_of_a_type_share_one_rendezvous():
    """Dissertation 4.4.3: the routing digest leaves the version out."""
    first, later = numberplate(), numberplate(number=8516)
    assert type_id(first.name.owner, first.name.name) == type_id(later.name.owner, later.name.name)


def test_other_owners_and_other_names_have_another_rendezvous():
    digest = PITO.principal.key
    ids = {
        type_id(PITO.principal, NUMBERPLATE),
        type_id(MET.principal, NUMBERPLATE),
        type_id(QuorumId(digest), NUMBERPLATE),
        type_id(PITO.principal, NUMBERPLATE + "s"),
    }
    assert len(ids) == 4
