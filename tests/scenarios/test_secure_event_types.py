"""Chapter 4 of the dissertation and type management of 5.2.2, told with the Numberplate type."""

from uuid import UUID

import pytest

from maia.credentials.authority import Action
from maia.credentials.certificate import UNBOUNDED
from maia.credentials.keys import BadSignature
from maia.credentials.names import TypeName
from maia.events import Instant, Kind
from maia.testing.refusals import raises
from maia.types import (
    Added,
    InstallNotGranted,
    Removed,
    Renamed,
    Retyped,
    TypeDefinition,
    TypeHistory,
    definition_from_bytes,
    definition_to_bytes,
    diff,
    from_transit,
    next_version,
    sign_definition,
    to_transit,
    translate,
    verify_definition,
)
from support.types import (
    CCS,
    HELPER,
    LOCATION,
    MALLORY,
    MANAGER,
    MET,
    NETWORK,
    NOON,
    NUMBERPLATE,
    PITO,
    PLATE,
    TIME,
    attribute,
    everything,
    install,
    key,
    manage,
    numberplate,
    version,
)

COLOUR = attribute("colour", "4410")


# ---------------------------------------------------------------- what a definition holds


def test_table_4_2_a_definition_is_a_name_with_its_owner_attributes_and_a_signature():
    signed = sign_definition(numberplate(), PITO)
    assert signed.definition.name == TypeName(PITO.principal, NUMBERPLATE, "0")
    assert len(signed.signature) == 64
    assert verify_definition(signed, at=NOON).signer == signed.definition.name.owner


def test_table_4_3_a_later_version_has_a_version_number_and_attribute_uids():
    first = numberplate(PLATE, TIME)
    later = next_version(first, (Added(LOCATION),), version=UUID("550e8400-e29b-41d4-a716-446655440000"))
    assert later.name.version == "550e8400-e29b-41d4-a716-446655440000"
    assert [(one.name, one.uid, one.kind) for one in later.attributes] == [
        ("numberplate", "3265", Kind.STRING),
        ("timestamp", "9058", Kind.TIMESTAMP),
        ("location", "3467", Kind.STRING),
    ]
    assert verify_definition(sign_definition(later, PITO), at=NOON)


def test_table_4_4_a_definition_carries_the_credentials_of_its_signer():
    capability = manage(PITO, MANAGER)
    signed = sign_definition(numberplate(number=8516, credentials=(capability,)), MANAGER)
    read = definition_from_bytes(definition_to_bytes(signed))
    assert read.definition.credentials == (capability,)
    assert verify_definition(read, at=NOON)


def test_figure_4_1_the_detective_verifies_what_an_untrusted_registry_returns():
    registry = {}
    name = numberplate().name
    registry[name] = definition_to_bytes(
        sign_definition(numberplate(), PITO)
    )  # i. PITO inserts the definition
    asked_for = name  # ii. PITO sends the name tuple to the detective
    answer = definition_from_bytes(registry[asked_for])  # iii. and iv. the registry answers
    verified = verify_definition(answer, at=NOON)  # v. the key in the name verifies the signature
    assert verified.name == asked_for

    altered = registry[name].replace(b"8:location", b"8:locatiom")
    with pytest.raises(BadSignature):
        verify_definition(definition_from_bytes(altered), at=NOON)


# ---------------------------------------------------------------- translation


def test_figure_4_2_the_subscriber_gets_its_own_version_of_what_was_published():
    published = numberplate(PLATE, TIME, LOCATION, number=1)
    subscribed = numberplate(PLATE, TIME, COLOUR, number=2)
    event = {"numberplate": "AE05 XYZ", "timestamp": NOON, "location": "Victoria"}
    transit = to_transit(event, published)
    assert transit == {"3265": "AE05 XYZ", "9058": NOON, "3467": "Victoria"}
    assert from_transit(transit, subscribed) == {
        "numberplate": "AE05 XYZ",
        "timestamp": NOON,
        "colour": None,
    }


LICENSE_PLATE = attribute("license-plate", "9525")
AS_NUMBERPLATE = attribute("numberplate", "9525")
NEW_LICENSE_PLATE = attribute("license-plate", "3879")

V4799 = numberplate(LICENSE_PLATE, TIME, number=4799)
V8516 = numberplate(AS_NUMBERPLATE, TIME, number=8516)
V8517 = numberplate(TIME, NEW_LICENSE_PLATE, number=8517, previous=4799)


def test_figure_4_3_a_renamed_attribute_arrives_under_the_subscribers_name():
    event = {"license-plate": "AE05 XYZ", "timestamp": NOON}
    assert to_transit(event, V4799) == {"9525": "AE05 XYZ", "9058": NOON}
    assert translate(event, sender=V4799, receiver=V8516) == {"numberplate": "AE05 XYZ", "timestamp": NOON}
    assert diff(V4799, V8516) == (Renamed(LICENSE_PLATE, "numberplate"),)


def test_figure_4_3_a_name_that_was_introduced_again_is_another_attribute():
    assert diff(V4799, V8517) == (Removed(LICENSE_PLATE), Added(NEW_LICENSE_PLATE))
    event = {"license-plate": "AE05 XYZ", "timestamp": NOON}
    assert translate(event, sender=V4799, receiver=V8517) == {"license-plate": None, "timestamp": NOON}
    assert translate(event, sender=V8517, receiver=V8516) == {"numberplate": None, "timestamp": NOON}


def test_4_3_a_rename_keeps_the_link_that_remove_and_add_would_break():
    event = {"license-plate": "AE05 XYZ"}
    renamed = next_version(V4799, (Renamed(LICENSE_PLATE, "plate"),), version=version(1))
    replaced = next_version(
        V4799, (Removed(LICENSE_PLATE), Added(attribute("plate", "1111"))), version=version(2)
    )
    assert translate(event, sender=V4799, receiver=renamed)["plate"] == "AE05 XYZ"
    assert translate(event, sender=V4799, receiver=replaced)["plate"] is None


def test_4_3_changing_a_type_equals_removing_and_adding():
    as_text = attribute("timestamp", "9059", Kind.STRING)
    retyped = next_version(V4799, (Retyped(TIME, as_text),), version=version(1))
    replaced = next_version(V4799, (Removed(TIME), Added(as_text)), version=version(2))
    assert set(retyped.attributes) == set(replaced.attributes)
    assert translate({"timestamp": Instant(0)}, sender=V4799, receiver=retyped)["timestamp"] is None


def test_4_4_3_a_transit_event_does_not_say_which_version_it_came_from():
    event = {"timestamp": NOON}
    assert to_transit(event, V4799) == to_transit(event, V8516) == to_transit(event, V8517)


# ---------------------------------------------------------------- figure 4.4: from signature to name

P1, P2, P3, PN = (key(number) for number in (101, 102, 103, 104))


def version_of_p1(signer, *credentials):
    return sign_definition(numberplate(owner=P1.principal, number=1, credentials=credentials), signer)


def test_figure_4_4_first_column_the_owner_signs_and_carries_nothing():
    assert verify_definition(version_of_p1(P1), at=NOON).chains == ()


def test_figure_4_4_second_column_a_manager_carries_one_capability():
    signed = version_of_p1(P2, manage(P1, P2, owner=P1.principal))
    (chain,) = verify_definition(signed, at=NOON).chains
    assert (chain.root, chain.subject, len(chain.certificates)) == (P1.principal, P2.principal, 1)


def test_figure_4_4_third_column_the_chain_has_several_links():
    links = (
        manage(P1, P2, owner=P1.principal, may_delegate=True),
        manage(P2, P3, owner=P1.principal, may_delegate=True),
        manage(P3, PN, owner=P1.principal),
    )
    (chain,) = verify_definition(version_of_p1(PN, *links), at=NOON).chains
    assert chain.certificates == links
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(version_of_p1(PN, *links[:1], links[2]), at=NOON)


# ---------------------------------------------------------------- management as a duty that moves


def test_4_2_1_a_throw_away_key_makes_a_type_delegates_everything_and_disappears():
    throw_away = key(200)
    owner = throw_away.principal
    first = verify_definition(sign_definition(numberplate(owner=owner), throw_away), at=NOON)
    handed_over = everything(throw_away, CCS, owner)
    del throw_away

    second = numberplate(PLATE, TIME, owner=owner, number=1, credentials=(handed_over,))
    accepted = verify_definition(sign_definition(second, CCS), at=NOON, previous=first)
    assert accepted.validity == UNBOUNDED

    passed_on = (handed_over, manage(CCS, MANAGER, owner=owner))
    third = numberplate(PLATE, TIME, COLOUR, owner=owner, number=2, previous=1, credentials=passed_on)
    in_a_century = Instant.parse("2126-11-15T12:00:00Z")
    assert verify_definition(sign_definition(third, MANAGER), at=in_a_century, previous=accepted)

    history = TypeHistory(first.type_id).remember(first).remember(accepted)
    assert history.descends(later=str(version(1)), earlier="0")


def test_4_3_3_the_next_manager_replaces_the_credentials_with_its_own():
    by_manager = sign_definition(numberplate(number=1, credentials=(manage(PITO, MANAGER),)), MANAGER)
    second = verify_definition(by_manager, at=NOON)
    third = next_version(
        second.definition, (Removed(LOCATION),), version=version(2), credentials=(manage(PITO, HELPER),)
    )
    verified = verify_definition(sign_definition(third, HELPER), at=NOON, previous=second)
    assert [chain.subject for chain in verified.chains] == [HELPER.principal]


def test_5_2_2_a_less_trusted_manager_adds_attributes_and_removes_none():
    """PITO -> type manager (manage) -> helper (manage.add)."""
    first = verify_definition(sign_definition(numberplate(), PITO), at=NOON)
    chain = (
        manage(PITO, MANAGER, may_delegate=True),
        manage(MANAGER, HELPER, Action.MANAGE_ADD),
        install(PITO, HELPER),
    )
    adding = next_version(first.definition, (Added(COLOUR),), version=version(1), credentials=chain)
    verified = verify_definition(sign_definition(adding, HELPER), at=NOON, previous=first, network=NETWORK)
    assert verified.changes == (Added(COLOUR),)

    for vital in (PLATE, TIME, LOCATION):
        removing = next_version(first.definition, (Removed(vital),), version=version(2), credentials=chain)
        with raises("TYPE-CHANGE-NOT-GRANTED", match=r"manage\.remove"):
            verify_definition(sign_definition(removing, HELPER), at=NOON, previous=first, network=NETWORK)


def test_5_2_1_the_billing_office_installs_through_its_domain():
    """PITO -> CCS -> Billing Office, for `install` on the UK Police Network."""
    billing_office = key(50)
    owned = TypeDefinition(
        TypeName(billing_office.principal, "uk.gov.ccs.Charge", "0"),
        None,
        (PLATE,),
        (install(PITO, CCS, may_delegate=True), install(CCS, billing_office)),
    )
    assert verify_definition(sign_definition(owned, billing_office), at=NOON, network=NETWORK)
    stray = TypeDefinition(owned.name, None, (PLATE,), (install(CCS, billing_office),))
    with pytest.raises(InstallNotGranted):
        verify_definition(sign_definition(stray, billing_office), at=NOON, network=NETWORK)


def test_5_2_2_a_manager_needs_install_beside_manage():
    only_manage = sign_definition(numberplate(number=1, credentials=(manage(PITO, MET),)), MET)
    assert verify_definition(only_manage, at=NOON)
    with pytest.raises(InstallNotGranted):
        verify_definition(only_manage, at=NOON, network=NETWORK)


def test_4_2_a_stranger_cannot_introduce_a_type_into_anothers_name_space():
    with raises("TYPE-NOT-A-MANAGER"):
        verify_definition(sign_definition(numberplate(), MALLORY), at=NOON)
