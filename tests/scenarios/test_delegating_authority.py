"""The grants of MAIA'06 section 3.1, and the domains of the dissertation's section 5.1."""

from __future__ import annotations

import pytest

from maia.credentials.authority import AnyResource
from maia.credentials.names import FIRST_VERSION, NetworkName, TypeName
from maia.events import Attribute, AttributeUid, Kind
from maia.policy import PublicationRefused, see, shape
from support.policy import (
    MET,
    MET_BROKER,
    NUMBERPLATE,
    PITO,
    ask,
    chain,
    defined,
    denial,
    granted,
    group,
    key,
    named,
    network_pattern,
    permit,
    type_pattern,
)

COORDINATOR, OWNER, MANAGER, CLIENT, OTHER = (key(number) for number in range(20, 25))
TEST_NETWORK = NetworkName(COORDINATOR.principal, "TestNetwork1")
TEST_TYPE = defined(
    OWNER,
    "TestType1",
    (
        Attribute("Attr1", AttributeUid("1"), Kind.STRING),
        Attribute("Attr2", AttributeUid("2"), Kind.INT),
        Attribute("Attr3", AttributeUid("3"), Kind.STRING),
    ),
)
ONE, TWO, THREE = (AttributeUid(text) for text in "123")


def to_client(owner, *, resources, actions, **terms):
    """Return the chain owner, access control manager, client; the client's capability has the terms."""
    to_manager = granted(owner, MANAGER, actions, resources, may_delegate=True)
    capability = granted(MANAGER, CLIENT, actions, resources, vocabulary=TEST_TYPE.vocabulary, **terms)
    return chain(to_manager, capability, subject=CLIENT, root=owner)


@pytest.mark.parametrize("action", ["connect", "install"])
def test_network_access_and_new_types_are_granted_apart(action):
    """3.1.1 and 3.1.2: `network: TestNetwork1`, `action: connect` or `action: install`."""
    pattern = network_pattern("TestNetwork1", COORDINATOR.principal)
    chains = [to_client(COORDINATOR, resources=pattern, actions=action)]
    permit(ask(CLIENT, action, TEST_NETWORK, chains=chains))
    other = "install" if action == "connect" else "connect"
    assert denial(ask(CLIENT, other, TEST_NETWORK, chains=chains)).code == "POLICY-ACTION-NOT-GRANTED"


def test_both_rights_fit_into_one_certificate():
    """`action: connect | install`."""
    pattern = network_pattern("TestNetwork1", COORDINATOR.principal)
    chains = [to_client(COORDINATOR, resources=pattern, actions="connect install")]
    permit(ask(CLIENT, "connect", TEST_NETWORK, chains=chains))
    permit(ask(CLIENT, "install", TEST_NETWORK, chains=chains))


def test_a_wildcard_grants_extension_of_every_type_whose_name_begins_so():
    """3.1.3: `type: Test*`, `action: extend`."""
    chains = [to_client(OWNER, resources=type_pattern(OWNER.principal, "Test*"), actions="extend")]
    for name in ("TestType1", "Test", "Tests.more"):
        permit(ask(CLIENT, "extend", TypeName(OWNER.principal, name, FIRST_VERSION), chains=chains))
    other = TypeName(OWNER.principal, "Tes", FIRST_VERSION)
    assert denial(ask(CLIENT, "extend", other, chains=chains)).code == "POLICY-RESOURCE-NOT-GRANTED"


def attr2_from_500():
    return to_client(
        OWNER,
        resources=type_pattern(OWNER.principal, "TestType1"),
        actions="subscribe publish",
        attributes="Attr1 Attr2",
        restriction="Attr2 >= 500",
    )


def test_a_restricted_subscriber_sees_values_from_500_on():
    """3.1.4: `attributes: Attr1 & Attr2 >= 500`; the broker adds the filter."""
    view = permit(ask(CLIENT, "subscribe", TEST_TYPE, chains=[attr2_from_500()])).view
    assert see(view, {ONE: "x", TWO: 500, THREE: "y"}) == {ONE: "x", TWO: 500}
    assert see(view, {ONE: "x", TWO: 499}) is None
    assert see(view, {ONE: "x"}) is None


def test_a_restricted_publisher_cannot_publish_less_than_500():
    """3.1.4: the broker drops the publication; ours says so to its publisher."""
    view = permit(ask(CLIENT, "publish", TEST_TYPE, chains=[attr2_from_500()])).view
    assert shape(view, {ONE: "x", TWO: 500, THREE: "y"}) == {ONE: "x", TWO: 500}
    with pytest.raises(PublicationRefused) as refused:
        shape(view, {ONE: "x", TWO: 499})
    assert refused.value.attributes == (TWO,)


def test_an_owner_grants_everything_only_of_its_own():
    """`type: *` from one owner is no right to the types of another."""
    everything = granted(OTHER, CLIENT, "*", AnyResource())
    chains = [chain(everything, subject=CLIENT, root=OTHER)]
    assert denial(ask(CLIENT, "subscribe", TEST_TYPE, chains=chains)).code == "POLICY-NO-CHAIN"


# ---------------------------------------------------------------- dissertation 5.1.3: blanket capabilities

T1 = defined(PITO, "T1", (Attribute("a", AttributeUid("1"), Kind.INT),))
T2 = defined(PITO, "T2", (Attribute("a", AttributeUid("1"), Kind.INT),))
MET_MAY_T1 = granted(PITO, MET, "subscribe", type_pattern(name="T1"), may_delegate=True)
MET_MAY_T2 = granted(PITO, MET, "subscribe", type_pattern(name="T2"), may_delegate=True)


@pytest.mark.parametrize(
    "blanket",
    [AnyResource(), type_pattern(None, "*"), type_pattern(PITO.principal, "*")],
    ids=["everything", "type:*", "type:[PITO,*,*]"],
)
def test_a_blanket_capability_is_worth_what_its_issuer_was_granted(blanket):
    """Figure 5.2: the domain holds T1, so its broker may use T1 and nothing else."""
    over_broker = granted(MET, MET_BROKER, "*", blanket)
    chains = [chain(MET_MAY_T1, over_broker, subject=MET_BROKER)]
    permit(ask(MET_BROKER, "subscribe", T1, chains=chains))
    assert denial(ask(MET_BROKER, "subscribe", T2, chains=chains)).code == "POLICY-RESOURCE-NOT-GRANTED"
    assert denial(ask(MET_BROKER, "publish", T1, chains=chains)).code == "POLICY-ACTION-NOT-GRANTED"


def test_a_new_right_of_the_domain_reaches_its_brokers_at_once():
    """Figure 5.3: the capability for T2 arrives, and the blanket capability extends it to the broker."""
    over_broker = granted(MET, MET_BROKER, "*", type_pattern(None, "*"))
    chains = [chain(one, over_broker, subject=MET_BROKER) for one in (MET_MAY_T1, MET_MAY_T2)]
    permit(ask(MET_BROKER, "subscribe", T1, chains=chains))
    permit(ask(MET_BROKER, "subscribe", T2, chains=chains))


def test_a_blanket_over_networks_says_nothing_of_types():
    over_broker = granted(MET, MET_BROKER, "*", network_pattern("*", None))
    with pytest.raises(Exception, match=r".") as broken:
        chain(MET_MAY_T1, over_broker, subject=MET_BROKER)
    assert broken.value.code == "CREDENTIAL-NO-AUTHORITY"


def test_a_group_shares_what_the_group_was_granted():
    """Group subjects: one certificate for all brokers, membership by name certificate."""
    to_group = granted(MET, group(MET, "Met domain event brokers"), "subscribe", type_pattern(name="T1"))
    member = named(MET, "Met domain event brokers", MET_BROKER)
    permit(ask(MET_BROKER, "subscribe", T1, chains=[chain(MET_MAY_T1, to_group, member, subject=MET_BROKER)]))


# ---------------------------------------------------------------- dissertation 5.1.4: sub-domains

COMPANY, PAY_ROLL, GENERAL, PAY_BROKER, GENERAL_BROKER = (key(number) for number in range(30, 35))
SALARY = defined(COMPANY, "corp.Salary", (Attribute("amount", AttributeUid("1"), Kind.INT),))
NEWS = defined(COMPANY, "corp.News", (Attribute("title", AttributeUid("1"), Kind.STRING),))


def blanket(domain, broker):
    return granted(domain, broker, "*", AnyResource())


def test_salaries_stay_inside_the_pay_roll_sub_domain():
    """Figure 5.4: two sub-domains, each of whose brokers shares all that its own domain may do."""
    corp = COMPANY.principal
    pay_roll = granted(COMPANY, PAY_ROLL, "*", type_pattern(corp, "corp.*"), may_delegate=True)
    general = granted(COMPANY, GENERAL, "*", type_pattern(corp, "corp.News"), may_delegate=True)
    trusted = [chain(pay_roll, blanket(PAY_ROLL, PAY_BROKER), subject=PAY_BROKER, root=COMPANY)]
    others = [chain(general, blanket(GENERAL, GENERAL_BROKER), subject=GENERAL_BROKER, root=COMPANY)]
    permit(ask(PAY_BROKER, "subscribe", SALARY, chains=trusted))
    permit(ask(GENERAL_BROKER, "subscribe", NEWS, chains=others))
    refused = denial(ask(GENERAL_BROKER, "subscribe", SALARY, chains=others))
    assert refused.code == "POLICY-RESOURCE-NOT-GRANTED"
    assert refused.explanation.owner[0].certificate == general.id


def test_numberplates_of_one_owner_are_not_those_of_another():
    """The owner is a part of the name: the same words under another key are another type."""
    namesake = defined(OTHER, NUMBERPLATE.name.name, NUMBERPLATE.attributes)
    smith = chain(granted(PITO, CLIENT, "subscribe"), subject=CLIENT)
    permit(ask(CLIENT, "subscribe", chains=[smith]))
    assert denial(ask(CLIENT, "subscribe", namesake, chains=[smith])).code == "POLICY-NO-CHAIN"
