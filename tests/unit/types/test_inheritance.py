"""A sub-type adds to its super-type with the consent of its owner, and changes nothing."""

import pytest

from maia.credentials.authority import Action
from maia.credentials.certificate import OnlineTest, TestKind, Validity
from maia.credentials.names import FIRST_VERSION, TypeName
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant, Kind
from maia.predicates.syntax import Exists
from maia.testing import grant as certify
from maia.testing.refusals import raises
from maia.types import (
    EMBEDDED_MAX,
    SUPER_TYPES_MAX,
    BadDefinition,
    InstallNotGranted,
    Renamed,
    Sealing,
    SealingLevel,
    TypeDefinition,
    VerifiedTypeCache,
    definition_from_bytes,
    definition_to_bytes,
    encoding,
    next_version,
    sign_definition,
    validity_definition,
    verify_definition,
)
from maia.types.definition import plain_attributes, tree_name
from support.types import (
    CCS,
    LOCATION,
    MANAGER,
    MET,
    NETWORK,
    NOON,
    PITO,
    PLATE,
    TIME,
    attribute,
    extend,
    grant,
    install,
    manage,
    numberplate,
    sub_type,
    type_pattern,
    version,
)

HOUR = 3_600_000_000
COLOUR = attribute("colour", "77")
SUPER = sign_definition(numberplate(), PITO)


def granted(*certificates, **changes):
    return sign_definition(sub_type(SUPER, COLOUR, owner=MET, credentials=certificates, **changes), MET)


def test_consent_under_a_condition_is_none():
    """There is no event and no fact to ask when a definition is verified."""
    with raises("TYPE-EXTEND-NOT-GRANTED"):
        verify_definition(
            granted(
                certify(PITO, MET, type_pattern(), Action.EXTEND, condition=Exists(AttributeUid("duty")))
            ),
            at=NOON,
        )


def test_consent_may_be_passed_on_and_may_demand_a_test():
    """Tests are made by those who hear statements, whenever an event is seen as the super-type."""
    tested = Validity(None, None).with_tests(OnlineTest(TestKind.CRL, PITO.principal))
    chain = (extend(PITO, CCS, may_delegate=True, validity=tested), extend(CCS, MET))
    verified = verify_definition(granted(*chain), at=NOON)
    assert verified.extension[0].validity.tests
    assert not verified.validity.tests


def test_a_sub_type_holds_as_long_as_the_consent():
    until = Instant(NOON + HOUR)
    signed = granted(extend(PITO, MET, validity=Validity(NOON, until)))
    assert verify_definition(signed, at=until).validity == Validity(NOON, until)
    with raises("TYPE-EXPIRED"):
        verify_definition(signed, at=Instant(until + 1_000_000))
    with raises("TYPE-NOT-YET-VALID"):
        verify_definition(signed, at=Instant(NOON - 1_000_000))


def test_a_sub_type_holds_no_longer_than_its_super_type():
    until = Instant(NOON + HOUR)
    right = manage(PITO, MANAGER, validity=Validity(None, until))
    above = sign_definition(numberplate(number=1, credentials=(right,)), MANAGER)
    below = sign_definition(sub_type(above, COLOUR, owner=PITO), PITO)
    cache = VerifiedTypeCache()
    assert verify_definition(below, at=until, cache=cache)
    with raises("TYPE-EXPIRED"):
        verify_definition(below, at=Instant(until + 1_000_000), cache=cache)


def test_a_type_is_not_its_own_super_type():
    below = sign_definition(sub_type(SUPER, COLOUR, owner=PITO), PITO)
    with raises("TYPE-SUPER-TYPES-IN-A-CIRCLE"):
        sub_type(below, attribute("more", "9"), owner=PITO, name=SUPER.definition.name.name)


def test_super_types_are_counted():
    signed = SUPER
    for number in range(SUPER_TYPES_MAX):
        signed = sign_definition(sub_type(signed, owner=PITO, name=f"uk.gov.pito.Level{number}"), PITO)
    assert len(verify_definition(signed, at=NOON).super_types) == SUPER_TYPES_MAX
    assert definition_from_bytes(definition_to_bytes(signed)) == signed
    with raises("TYPE-INHERITANCE-TOO-DEEP"):
        sub_type(signed, owner=PITO, name="uk.gov.pito.TooDeep")


def test_definitions_inside_are_counted():
    lineage = [SUPER]
    for number in range(1, EMBEDDED_MAX):
        lineage.append(sign_definition(numberplate(number=number, previous=number - 1), PITO))
    name = TypeName(PITO.principal, "uk.gov.pito.Stolen", FIRST_VERSION)
    full = TypeDefinition(name, None, (PLATE, TIME, LOCATION), extends=tuple(lineage))
    assert verify_definition(sign_definition(full, PITO), at=NOON)
    lineage.append(sign_definition(numberplate(number=99, previous=EMBEDDED_MAX - 1), PITO))
    with raises("TYPE-INHERITANCE-TOO-DEEP"):
        TypeDefinition(name, None, (PLATE, TIME, LOCATION), extends=tuple(lineage))


def test_a_sub_type_seals_at_least_as_much_as_its_super_type():
    levels = {level: Sealing(level, PITO.principal) for level in SealingLevel}
    above = sign_definition(numberplate(sealing=levels[SealingLevel.EVENT]), PITO)
    assert sub_type(above, COLOUR, sealing=levels[SealingLevel.ATTRIBUTE])
    assert sub_type(above, COLOUR, sealing=levels[SealingLevel.EVENT])
    with raises("TYPE-SUB-TYPE-SEALS-LESS"):
        sub_type(above, COLOUR, sealing=None)
    above = sign_definition(numberplate(sealing=levels[SealingLevel.ATTRIBUTE]), PITO)
    with raises("TYPE-SUB-TYPE-SEALS-LESS"):
        sub_type(above, COLOUR, sealing=levels[SealingLevel.EVENT])


def test_what_the_system_acts_on_is_not_extended():
    with raises("TYPE-NOT-EXTENSIBLE"):
        sub_type(validity_definition(PITO), COLOUR, owner=PITO)


def test_a_super_type_of_a_manager_with_some_rights_comes_with_the_version_before():
    added = attribute("speed", "8", Kind.INT)
    rights = (manage(PITO, MANAGER, Action.MANAGE_ADD),)
    later = sign_definition(numberplate(PLATE, TIME, LOCATION, added, number=1, credentials=rights), MANAGER)
    with raises("TYPE-PREVIOUS-NEEDED"):
        verify_definition(sign_definition(sub_type(later, COLOUR, owner=PITO), PITO), at=NOON)
    whole = sign_definition(sub_type(later, COLOUR, owner=PITO, lineage=(SUPER,)), PITO)
    assert verify_definition(whole, at=NOON).super_type.name.version == str(version(1))
    other = sign_definition(sub_type(later, COLOUR, owner=PITO, lineage=(later,)), PITO)
    with raises("TYPE-WRONG-PREVIOUS", "TYPE-PREVIOUS-NEEDED"):
        verify_definition(other, at=NOON)


def test_versions_of_both_evolve_independently():
    """A later version of the sub-type follows a later version of its super-type when its manager says so."""
    first = sign_definition(sub_type(SUPER, COLOUR, owner=PITO), PITO)
    place = attribute("place", LOCATION.uid)
    renamed = sign_definition(numberplate(PLATE, TIME, place, number=1), PITO)
    kept = sign_definition(next_version(first.definition, [], version=version(5)), PITO)
    assert verify_definition(kept, at=NOON).super_type.name.version == FIRST_VERSION
    with raises("TYPE-INHERITED-CHANGED"):
        next_version(first.definition, [], version=version(6), extends=(renamed,))
    moved = next_version(
        first.definition, [Renamed(LOCATION, "place")], version=version(6), extends=(renamed,)
    )
    previous = verify_definition(first, at=NOON)
    verified = verify_definition(sign_definition(moved, PITO), at=NOON, previous=previous)
    assert verified.super_type.name.version == str(version(1))
    assert next_version(first.definition, [], version=version(7), extends=()).super_type is None


def test_another_super_type_needs_every_management_right():
    first = sign_definition(sub_type(SUPER, COLOUR, owner=PITO), PITO)
    previous = verify_definition(first, at=NOON)
    some = grant(
        PITO, MANAGER.principal, frozenset({Action.MANAGE_ADD}), type_pattern(name=first.definition.name.name)
    )
    without = next_version(first.definition, [], version=version(1), credentials=(some,), extends=())
    with raises("TYPE-CHANGE-NOT-GRANTED"):
        verify_definition(sign_definition(without, MANAGER), at=NOON, previous=previous)


def test_a_manager_needs_consent_of_its_own():
    first = sign_definition(sub_type(SUPER, COLOUR, owner=MET, credentials=(extend(PITO, MET),)), MET)
    pattern = type_pattern(MET.principal, first.definition.name.name)
    right = grant(
        MET, MANAGER.principal, frozenset(a for a in Action if a.value.startswith("manage")), pattern
    )
    later = next_version(first.definition, [], version=version(1), credentials=(right, extend(PITO, MET)))
    with raises("TYPE-EXTEND-NOT-GRANTED"):
        verify_definition(sign_definition(later, MANAGER), at=NOON)
    granted_too = next_version(
        first.definition, [], version=version(1), credentials=(right, extend(PITO, MANAGER))
    )
    assert verify_definition(sign_definition(granted_too, MANAGER), at=NOON)


def test_on_a_network_the_super_type_has_to_be_installed_as_well():
    foreign = sign_definition(numberplate(owner=CCS.principal), CCS)
    below = sub_type(
        foreign, COLOUR, owner=MET, credentials=(extend(CCS, MET, owner=CCS.principal), install(PITO, MET))
    )
    signed = sign_definition(below, MET)
    assert verify_definition(signed, at=NOON)
    with pytest.raises(InstallNotGranted):
        verify_definition(signed, at=NOON, network=NETWORK)


def test_a_definition_with_a_super_type_has_a_largest_size(monkeypatch):
    signed = granted(extend(PITO, MET))
    monkeypatch.setattr(encoding, "SUB_TYPE_BYTES_MAX", len(signed.body))
    assert definition_from_bytes(definition_to_bytes(signed)) == signed
    monkeypatch.setattr(encoding, "SUB_TYPE_BYTES_MAX", len(signed.body) - 1)
    with pytest.raises(BadDefinition):
        definition_from_bytes(definition_to_bytes(signed))
    with pytest.raises(BadDefinition):
        granted(extend(PITO, MET))


def test_an_empty_super_type_is_refused():
    data = definition_to_bytes(granted(extend(PITO, MET)))
    start = data.index(b"(7:extends")
    end = data.index(b"(10:attributes", data.rindex(b"(9:signature", 0, data.rindex(b"(10:attributes")))
    with pytest.raises(MaiaError) as refused:
        definition_from_bytes(data[:start] + b"(7:extends)" + data[end:])
    assert refused.value.code == "TYPE-ENCODING"


def test_each_way_to_be_no_sub_type_has_its_code():
    codes = {
        "TYPE-INHERITED-CHANGED",
        "TYPE-SUPER-TYPES-IN-A-CIRCLE",
        "TYPE-INHERITANCE-TOO-DEEP",
        "TYPE-SUB-TYPE-SEALS-LESS",
        "TYPE-NOT-EXTENSIBLE",
        BadDefinition.code,
    }
    assert len(codes) == 6


def test_a_tree_of_topics_has_no_sub_types():
    """A99: a sub-type of a tree would publish on its topics without the rights on the topics above."""
    tree = TypeDefinition(tree_name(PITO.principal, "/news"), None, plain_attributes())
    below = TypeName(PITO.principal, "uk.gov.met.News", FIRST_VERSION)
    with pytest.raises(BadDefinition, match="has no sub-types"):
        TypeDefinition(below, None, (*tree.attributes, COLOUR), extends=(sign_definition(tree, PITO),))
