"""Every capability table of the dissertation's section 5.2, decided on real certificates.

PITO coordinates the network and owns the Numberplate type. The Congestion
Charge Service and the Metropolitan Police are domains; a camera, two offices,
a detective, a broker and a type manager are their members.
"""

from __future__ import annotations

import pytest

from maia.credentials.certificate import Validity
from maia.policy import Audience, see, shape
from support.policy import (
    BILLING,
    CCS,
    CCTV,
    MALLORY,
    MANAGER,
    MET,
    MET_BROKER,
    NOON,
    NUMBERPLATE,
    PITO,
    PLACE,
    PLATE,
    POLICE_NETWORK,
    SMITH,
    STATISTICS,
    TIME,
    ask,
    chain,
    denial,
    granted,
    group,
    later,
    named,
    network_pattern,
    permit,
    sighting,
)

NETWORK = network_pattern()

# Connecting to the event service
MET_CONNECTS = granted(PITO, MET, "connect", NETWORK, may_delegate=True)
MET_BROKERS_CONNECT = granted(MET, group(MET, "Met Brokers"), "connect", NETWORK)
MET_BROKER_IS_ONE = named(MET, "Met Brokers", MET_BROKER)
SMITH_CONNECTS = granted(MET, SMITH, "connect", NETWORK)

# Installing event types
CCS_INSTALLS = granted(PITO, CCS, "install", NETWORK, may_delegate=True)
BILLING_INSTALLS = granted(CCS, BILLING, "install", NETWORK)

# Accessing the publish/subscribe API
CCS_USES = granted(PITO, CCS, "publish subscribe", may_delegate=True)
MET_SUBSCRIBES = granted(PITO, MET, "subscribe", may_delegate=True)
BILLING_READS = granted(CCS, BILLING, "subscribe", attributes="numberplate timestamp")
STATISTICS_READS = granted(CCS, STATISTICS, "subscribe", attributes="location timestamp")
CCTV_PUBLISHES = granted(
    CCS, CCTV, "publish", attributes="location numberplate timestamp", restriction='location = "Victoria"'
)
SMITH_READS = granted(
    MET,
    SMITH,
    "subscribe",
    attributes="location numberplate timestamp",
    restriction='numberplate = "AE05 XYZ"',
)

# Type management
MANAGER_MANAGES = granted(PITO, MANAGER, "manage")

BILLING_CHAIN = chain(CCS_USES, BILLING_READS, subject=BILLING)
STATISTICS_CHAIN = chain(CCS_USES, STATISTICS_READS, subject=STATISTICS)
CCTV_CHAIN = chain(CCS_USES, CCTV_PUBLISHES, subject=CCTV)
SMITH_CHAIN = chain(MET_SUBSCRIBES, SMITH_READS, subject=SMITH)

SUSPECT = sighting("AE05 XYZ", "Victoria")
STRANGER = sighting("KT52 ABC", "Victoria")


# ---------------------------------------------------------------- 5.2.1 connecting


def test_the_metropolitan_police_connects_to_the_network_it_was_invited_to():
    permit(ask(MET, "connect", POLICE_NETWORK, chains=[chain(MET_CONNECTS, subject=MET)]))


def test_a_met_broker_connects_through_its_group():
    certificates = chain(MET_CONNECTS, MET_BROKERS_CONNECT, MET_BROKER_IS_ONE, subject=MET_BROKER)
    permit(ask(MET_BROKER, "connect", POLICE_NETWORK, chains=[certificates]))


def test_detective_smith_connects():
    permit(ask(SMITH, "connect", POLICE_NETWORK, chains=[chain(MET_CONNECTS, SMITH_CONNECTS, subject=SMITH)]))


def test_the_right_to_connect_is_no_right_to_install():
    met = chain(MET_CONNECTS, subject=MET)
    assert denial(ask(MET, "install", POLICE_NETWORK, chains=[met])).code == "POLICY-ACTION-NOT-GRANTED"


def test_a_permit_to_connect_shows_nothing():
    decision = permit(ask(MET, "connect", POLICE_NETWORK, chains=[chain(MET_CONNECTS, subject=MET)]))
    assert see(decision.view, SUSPECT) is None


# ---------------------------------------------------------------- 5.2.1 installing


def test_the_congestion_charge_service_installs_types():
    permit(ask(CCS, "install", POLICE_NETWORK, chains=[chain(CCS_INSTALLS, subject=CCS)]))


def test_the_billing_office_installs_types_and_needs_no_right_to_connect():
    billing = chain(CCS_INSTALLS, BILLING_INSTALLS, subject=BILLING)
    permit(ask(BILLING, "install", POLICE_NETWORK, chains=[billing]))
    assert (
        denial(ask(BILLING, "connect", POLICE_NETWORK, chains=[billing])).code == "POLICY-ACTION-NOT-GRANTED"
    )


# ---------------------------------------------------------------- 5.2.2 publish and subscribe


@pytest.mark.parametrize("action", ["publish", "subscribe"])
def test_the_congestion_charge_service_uses_every_attribute(action):
    decision = permit(ask(CCS, action, chains=[chain(CCS_USES, subject=CCS)]))
    assert see(decision.view, STRANGER) == STRANGER


def test_the_metropolitan_police_may_subscribe_and_not_publish():
    met = chain(MET_SUBSCRIBES, subject=MET)
    permit(ask(MET, "subscribe", chains=[met]))
    assert denial(ask(MET, "publish", chains=[met])).code == "POLICY-ACTION-NOT-GRANTED"


def test_the_billing_office_reads_numberplates_and_times_and_never_locations():
    view = permit(ask(BILLING, "subscribe", chains=[BILLING_CHAIN])).view
    assert see(view, SUSPECT) == {PLATE: "AE05 XYZ", TIME: NOON}
    assert see(view, STRANGER) == {PLATE: "KT52 ABC", TIME: NOON}


def test_the_statistics_office_reads_locations_and_times_and_never_numberplates():
    view = permit(ask(STATISTICS, "subscribe", chains=[STATISTICS_CHAIN])).view
    assert see(view, SUSPECT) == {PLACE: "Victoria", TIME: NOON}


def test_detective_smith_sees_all_of_one_car_and_nothing_of_any_other():
    view = permit(ask(SMITH, "subscribe", chains=[SMITH_CHAIN])).view
    assert see(view, SUSPECT) == SUSPECT
    assert see(view, STRANGER) is None
    assert see(view, sighting(None, "Victoria")) is None


def test_the_detectives_own_filter_narrows_further():
    view = permit(ask(SMITH, "subscribe", chains=[SMITH_CHAIN], filter='location = "Soho"')).view
    assert see(view, SUSPECT) is None
    assert see(view, sighting("AE05 XYZ", "Soho")) == sighting("AE05 XYZ", "Soho")


def test_asking_for_another_car_is_permitted_and_shows_nothing():
    """A restriction is added without a word: the answer does not tell which car is watched."""
    decision = permit(ask(SMITH, "subscribe", chains=[SMITH_CHAIN], filter='numberplate = "KT52 ABC"'))
    assert see(decision.view, STRANGER) is None
    assert not any("AE05" in line for line in decision.explanation.lines(Audience.REQUESTER))
    assert any("AE05" in line for line in decision.explanation.lines(Audience.OWNER))


@pytest.mark.parametrize("claimed", ["Victoria", "Soho", None])
def test_the_camera_at_victoria_always_reports_victoria(claimed):
    view = permit(ask(CCTV, "publish", chains=[CCTV_CHAIN])).view
    assert shape(view, sighting("KT52 ABC", claimed)) == STRANGER


def test_the_camera_cannot_subscribe():
    assert denial(ask(CCTV, "subscribe", chains=[CCTV_CHAIN])).code == "POLICY-ACTION-NOT-GRANTED"


def test_attributes_in_a_capability_need_not_exist_in_the_type():
    """A capability serves versions from which an attribute was removed (section 5.2.2)."""
    wide = granted(CCS, BILLING, "subscribe", attributes=[PLATE, TIME, "9999"])
    view = permit(ask(BILLING, "subscribe", chains=[chain(CCS_USES, wide, subject=BILLING)])).view
    assert see(view, SUSPECT) == {PLATE: "AE05 XYZ", TIME: NOON}


# ---------------------------------------------------------------- 5.2.2 type management


@pytest.mark.parametrize("change", ["add", "remove", "rename", "retype"])
def test_the_type_manager_makes_every_kind_of_change(change):
    manager = chain(MANAGER_MANAGES, subject=MANAGER)
    permit(ask(MANAGER, f"manage.{change}", NUMBERPLATE.name, chains=[manager]))


def test_the_right_to_manage_can_be_divided():
    only_adds = chain(granted(PITO, MANAGER, "manage.add"), subject=MANAGER)
    permit(ask(MANAGER, "manage.add", NUMBERPLATE.name, chains=[only_adds]))
    refused = denial(ask(MANAGER, "manage.remove", NUMBERPLATE.name, chains=[only_adds]))
    assert refused.code == "POLICY-ACTION-NOT-GRANTED"


def test_the_type_manager_may_neither_publish_nor_subscribe():
    manager = chain(MANAGER_MANAGES, subject=MANAGER)
    for action in ("publish", "subscribe"):
        assert denial(ask(MANAGER, action, chains=[manager])).code == "POLICY-ACTION-NOT-GRANTED"


# ---------------------------------------------------------------- owners, strangers, time


def test_an_owner_needs_no_certificate_for_what_is_its_own():
    assert see(permit(ask(PITO, "subscribe")).view, SUSPECT) == SUSPECT
    permit(ask(PITO, "connect", POLICE_NETWORK))


@pytest.mark.parametrize("action", ["publish", "subscribe"])
def test_a_stranger_gets_nothing_and_learns_nothing(action):
    refused = denial(ask(MALLORY, action, chains=[SMITH_CHAIN, CCTV_CHAIN]))
    assert refused.code == "POLICY-NO-CHAIN"
    assert str(SMITH.principal) not in str(refused.as_refusal().as_record())
    assert str(SMITH.principal) in str(refused.explanation.lines(Audience.OWNER))


def test_the_court_order_ends():
    """Detective Smith was authorised for a limited time (section 3.7)."""
    week = Validity(NOON, later(7 * 24 * 3600))
    order = granted(MET, SMITH, "subscribe", restriction='numberplate = "AE05 XYZ"', validity=week)
    smith = chain(MET_SUBSCRIBES, order, subject=SMITH)
    assert permit(ask(SMITH, "subscribe", chains=[smith])).until == week.not_after
    permit(ask(SMITH, "subscribe", chains=[smith], now=week.not_after))
    refused = denial(ask(SMITH, "subscribe", chains=[smith], now=later(7 * 24 * 3600 + 1)))
    assert refused.code == "POLICY-EXPIRED"
    (reason,) = refused.explanation.owner
    assert (reason.certificate, reason.field) == (order.id, "validity.not_after")
    assert denial(ask(SMITH, "subscribe", chains=[smith], now=later(-1))).code == "POLICY-NOT-YET-VALID"
