"""The chains that the dissertation draws: sections 2.6, 3.4, 5.1, 5.2.1 and 5.4.

Figure 2.8 names reading and writing an object; here that is subscribing
to and publishing an event type.
"""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    Action,
    AnyResource,
    Authority,
    NetworkName,
    NetworkPattern,
    NoChain,
    QuorumId,
    TypeName,
    covers_request,
    find_chain,
    find_chains,
    found_quorum,
    is_root_handover,
    issue,
    owner_chain,
    parse_name_pattern,
    propose_change,
    reasons_against_handover,
    reduced,
    root_handover_certificate,
    sign_change,
    verify_chain,
    verify_constitution,
)
from maia.events import AttributeUid
from maia.predicates.syntax import Comparison, Operator
from maia.testing.refusals import raises
from support.chains import (
    KEYS,
    NOON,
    PEOPLE,
    TODAY,
    about,
    call,
    grant,
    k_of,
    named,
    types_of,
    uids,
)

PITO, MET, CCS, MET_BROKER, OTHER_BROKER, SMITH, SUCCESSOR = PEOPLE[:7]

NUMBERPLATE = TypeName(PITO, "uk.gov.pito.Numberplate", "0")
VEHICLE = TypeName(PITO, "uk.gov.pito.Vehicle", "0")
NETWORK = NetworkName(PITO, "UK Police Network")

READ = frozenset({Action.SUBSCRIBE})
WRITE = frozenset({Action.PUBLISH})
CONNECT = Authority(
    NetworkPattern(PITO, parse_name_pattern("UK Police Network")), frozenset({Action.CONNECT})
)


def numberplate(**terms):
    return about(types_of(PITO, "uk.gov.pito.Numberplate"), **terms)


def found(pool, subject, action, resource):
    return find_chain(pool, root=PITO, subject=subject, action=action, resource=resource, at=NOON)


def test_figure_2_8_reading_and_writing_reduce_to_reading() -> None:
    a, b, c = PEOPLE[:3]
    ab = grant(a, b, about(types_of(a), actions=READ | WRITE))
    bc = grant(b, c, about(types_of(a), actions=READ))
    assert reduced(ab.certificate, bc.certificate).authority.actions == READ
    loop = verify_chain((ab, bc), root=a, subject=c, at=NOON)
    assert (loop.root, loop.subject, loop.authority.actions) == (a, c, READ)


def test_section_2_6_1_all_but_the_last_certificate_must_allow_delegation() -> None:
    a, b, c = PEOPLE[:3]
    with raises("CREDENTIAL-NOT-DELEGABLE"):
        verify_chain(
            (grant(a, b, about(types_of(a)), final=True), grant(b, c, about(types_of(a)))),
            root=a,
            subject=c,
            at=NOON,
        )
    last = verify_chain(
        (grant(a, b, about(types_of(a))), grant(b, c, about(types_of(a)), final=True)),
        root=a,
        subject=c,
        at=NOON,
    )
    assert not last.may_delegate


def test_section_2_6_2_p1_foo_means_p2() -> None:
    p1, p2, third = PEOPLE[:3]
    foo = call(p1, "foo", p2)
    chain = verify_chain(
        (grant(third, named(p1, "foo"), about(types_of(third))), foo), root=third, subject=p2, at=NOON
    )
    assert chain.subject == p2


def test_section_2_6_2_names_link_over_any_number_of_namespaces() -> None:
    first, *others, last = PEOPLE[:8]
    linked = named(others[0], "next", "next", "next", "next", "next", "next")
    names = [call(one, "next", other) for one, other in zip(others, [*others[1:], last], strict=True)]
    chain = verify_chain(
        (grant(first, linked, about(types_of(first))), *names), root=first, subject=last, at=NOON
    )
    assert len(chain.certificates) == 7


def test_section_2_6_3_one_certificate_for_a_group_serves_every_member() -> None:
    brokers = grant(MET, named(MET, "Met Brokers"), numberplate())
    members = {who: call(MET, "Met Brokers", who) for who in (MET_BROKER, OTHER_BROKER)}
    for who, membership in members.items():
        chain = verify_chain(
            (grant(PITO, MET, numberplate()), brokers, membership), root=PITO, subject=who, at=NOON
        )
        assert chain.authority == numberplate()
    with pytest.raises(NoChain):
        found(
            [grant(PITO, MET, numberplate()), brokers, *members.values()],
            SMITH,
            Action.SUBSCRIBE,
            NUMBERPLATE,
        )


def test_figure_5_1_the_domain_shares_with_its_broker_and_narrows_for_its_detective() -> None:
    one_car = Comparison(AttributeUid("numberplate"), Operator.EQ, "AE05 XYZ")
    capability_1 = grant(PITO, MET, numberplate(actions=READ))
    capability_2 = grant(MET, MET_BROKER, numberplate(actions=READ))
    capability_3 = grant(
        MET,
        SMITH,
        numberplate(
            actions=READ, attributes=uids("location", "numberplate", "timestamp"), restriction=one_car
        ),
        final=True,
    )
    pool = [capability_3, capability_2, capability_1]
    broker = found(pool, MET_BROKER, Action.SUBSCRIBE, NUMBERPLATE)
    smith = found(pool, SMITH, Action.SUBSCRIBE, NUMBERPLATE)
    assert broker.certificates == (capability_1, capability_2)
    assert broker.authority == numberplate(actions=READ)
    assert smith.authority.restriction == one_car
    assert not smith.may_delegate


BLANKET = grant(MET, MET_BROKER, about(types_of(None), actions=READ | WRITE))


def test_figure_5_2_a_blanket_capability_is_cut_to_what_the_domain_has() -> None:
    t1 = grant(PITO, MET, numberplate(actions=READ))
    chain = verify_chain((t1, BLANKET), root=PITO, subject=MET_BROKER, at=NOON)
    assert chain.authority == numberplate(actions=READ)
    with pytest.raises(NoChain):
        found([t1, BLANKET], MET_BROKER, Action.SUBSCRIBE, VEHICLE)


def test_figure_5_3_the_same_blanket_opens_what_the_domain_is_granted_later() -> None:
    t1 = grant(PITO, MET, numberplate(actions=READ))
    t2 = grant(PITO, MET, about(types_of(PITO, "uk.gov.pito.Vehicle"), actions=READ))
    pool = [BLANKET, t1, t2]
    assert found(pool, MET_BROKER, Action.SUBSCRIBE, NUMBERPLATE).certificates == (t1, BLANKET)
    assert found(pool, MET_BROKER, Action.SUBSCRIBE, VEHICLE).certificates == (t2, BLANKET)


@pytest.mark.parametrize(
    ("blanket", "opens"),
    [
        (Authority(NetworkPattern(None, parse_name_pattern("*")), frozenset({Action.CONNECT})), {NETWORK}),
        (about(types_of(None), actions=READ), {NUMBERPLATE}),
        (about(types_of(PITO), actions=READ), {NUMBERPLATE}),
        (about(types_of(CCS), actions=READ), set()),
        (Authority(AnyResource(), ALL_ACTIONS), {NUMBERPLATE, NETWORK}),
    ],
)
def test_section_5_1_3_blankets_by_kind_of_resource_or_by_owner(blanket, opens) -> None:
    pool = [grant(PITO, MET, numberplate()), grant(PITO, MET, CONNECT), grant(MET, MET_BROKER, blanket)]
    for resource, action in ((NUMBERPLATE, Action.SUBSCRIBE), (NETWORK, Action.CONNECT)):
        if resource in opens:
            assert found(pool, MET_BROKER, action, resource).subject == MET_BROKER
        else:
            with pytest.raises(NoChain):
                found(pool, MET_BROKER, action, resource)


def test_section_5_1_3_a_short_lived_membership_ends_the_right_and_not_the_grant() -> None:
    pool = [
        grant(PITO, MET, numberplate()),
        grant(MET, named(MET, "Met Brokers"), about(types_of(None))),
        call(MET, "Met Brokers", MET_BROKER, validity=TODAY),
        call(MET, "Met Brokers", OTHER_BROKER),
    ]
    assert found(pool, MET_BROKER, Action.SUBSCRIBE, NUMBERPLATE).validity == TODAY
    assert found(pool, OTHER_BROKER, Action.SUBSCRIBE, NUMBERPLATE).validity == UNBOUNDED


def test_figure_5_4_sub_domains_keep_the_salaries_to_themselves() -> None:
    company, domain, payroll, office, payroll_broker, office_broker = PEOPLE[10:16]
    salaries = TypeName(company, "com.example.Salary", "0")
    pool = [
        grant(company, domain, about(types_of(company))),
        grant(domain, payroll, about(types_of(None))),
        grant(domain, office, about(types_of(company, "com.example.Office*"))),
        grant(payroll, payroll_broker, about(types_of(None))),
        grant(office, office_broker, about(types_of(None))),
    ]
    asked = {"root": company, "action": Action.SUBSCRIBE, "resource": salaries, "at": NOON}
    assert len(find_chain(pool, subject=payroll_broker, **asked).certificates) == 3
    with pytest.raises(NoChain):
        find_chain(pool, subject=office_broker, **asked)


def test_figure_5_5_broker_and_detective_connect_through_one_tree() -> None:
    invited = grant(PITO, MET, CONNECT)
    brokers = grant(MET, named(MET, "Met Brokers"), CONNECT)
    detective = grant(MET, SMITH, CONNECT)
    broker = call(MET, "Met Brokers", MET_BROKER)
    pool = [broker, detective, brokers, invited]
    assert found(pool, MET_BROKER, Action.CONNECT, NETWORK).certificates == (invited, brokers, broker)
    assert found(pool, SMITH, Action.CONNECT, NETWORK).certificates == (invited, detective)
    with pytest.raises(NoChain):
        found(pool, MET_BROKER, Action.INSTALL, NETWORK)


def test_section_5_3_2_the_loop_closes_only_at_a_client_that_proved_the_key() -> None:
    chain = (grant(PITO, MET, numberplate()), grant(MET, SMITH, numberplate()))
    assert verify_chain(chain, root=PITO, subject=SMITH, at=NOON).subject == SMITH
    with raises("CREDENTIAL-WRONG-SUBJECT"):
        verify_chain(chain, root=PITO, subject=MET_BROKER, at=NOON)


def test_two_roles_of_one_person_are_two_chains_that_add_up() -> None:
    pool = [
        grant(PITO, SMITH, numberplate(actions=READ, attributes=uids("timestamp"))),
        grant(PITO, MET, numberplate()),
        grant(MET, SMITH, numberplate(actions=READ, attributes=uids("numberplate"))),
    ]
    chains = find_chains(
        pool, root=PITO, subject=SMITH, action=Action.SUBSCRIBE, resource=NUMBERPLATE, at=NOON
    )
    assert [chain.authority.attributes for chain in chains] == [uids("timestamp"), uids("numberplate")]


def test_an_owner_needs_no_certificate_for_its_own() -> None:
    own = owner_chain(PITO, NOON)
    assert covers_request(own.authority, Action.PUBLISH, NUMBERPLATE)
    assert not covers_request(own.authority, Action.PUBLISH, TypeName(MET, "uk.gov.pito.Numberplate", "0"))
    assert verify_chain((), root=PITO, subject=PITO, at=NOON) == own
    assert found([], PITO, Action.CONNECT, NETWORK) == own


# ---------------------------------------------------------------- 5.4: root authority


def test_section_5_4_a_successor_acts_as_if_it_were_the_owner() -> None:
    handover = issue(root_handover_certificate(PITO, SUCCESSOR), KEYS[PITO])
    assert is_root_handover(handover.certificate, owner=PITO)
    for resource, action in ((NUMBERPLATE, Action.MANAGE_ADD), (NETWORK, Action.CONNECT)):
        assert found([handover], SUCCESSOR, action, resource).certificates == (handover,)
    granted_by_successor = grant(SUCCESSOR, SMITH, numberplate())
    chain = found([handover, granted_by_successor], SMITH, Action.SUBSCRIBE, NUMBERPLATE)
    assert chain.certificates == (handover, granted_by_successor)
    assert chain.root == PITO


def test_section_5_4_the_successor_must_show_the_handover() -> None:
    with pytest.raises(NoChain):
        found([grant(SUCCESSOR, SMITH, numberplate())], SMITH, Action.SUBSCRIBE, NUMBERPLATE)


def test_section_5_4_the_owner_can_still_grant() -> None:
    handover = issue(root_handover_certificate(PITO, SUCCESSOR), KEYS[PITO])
    own = grant(PITO, SMITH, numberplate())
    assert found([handover, own], SMITH, Action.SUBSCRIBE, NUMBERPLATE).certificates == (own,)


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (grant(PITO, SUCCESSOR, Authority(AnyResource(), ALL_ACTIONS), validity=TODAY), "validity"),
        (grant(PITO, SUCCESSOR, Authority(AnyResource(), ALL_ACTIONS), final=True), "grant rights"),
        (grant(PITO, SUCCESSOR, Authority(AnyResource(), READ | WRITE)), "every action"),
        (grant(MET, SUCCESSOR, Authority(AnyResource(), ALL_ACTIONS)), "not by the owner"),
        (grant(PITO, SUCCESSOR, Authority(AnyResource(MET), ALL_ACTIONS)), "another owner"),
        (grant(PITO, SUCCESSOR, Authority(types_of(PITO), ALL_ACTIONS)), "every resource"),
        (grant(PITO, named(PITO, "heirs"), Authority(AnyResource(), ALL_ACTIONS)), "name or a threshold"),
        (call(PITO, "heir", SUCCESSOR), "name certificate"),
    ],
)
def test_section_5_4_anything_less_is_no_handover_and_says_why(certificate, reason) -> None:
    reasons = reasons_against_handover(certificate.certificate, owner=PITO)
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_section_5_4_one_type_can_be_handed_over_alone() -> None:
    certificate = grant(PITO, SUCCESSOR, Authority(types_of(PITO, "uk.gov.pito.Numberplate"), ALL_ACTIONS))
    assert is_root_handover(certificate.certificate, owner=PITO, resource=NUMBERPLATE)
    assert not is_root_handover(certificate.certificate, owner=PITO, resource=VEHICLE)
    versioned = grant(PITO, SUCCESSOR, Authority(types_of(PITO, "uk.gov.pito.Numberplate", "0"), ALL_ACTIONS))
    assert not is_root_handover(versioned.certificate, owner=PITO, resource=NUMBERPLATE)


# ---------------------------------------------------------------- 3.4: a coordinating quorum


def test_section_3_4_two_of_three_domains_invite_and_replace_the_third() -> None:
    evidence = found_quorum(k_of(2, PITO, MET, CCS), salt=b"shared network")
    coordinator = QuorumId(sha256(evidence.founding).digest())
    network = NetworkName(coordinator, "Shared Network")
    connect = Authority(
        NetworkPattern(coordinator, parse_name_pattern("Shared Network")), frozenset({Action.CONNECT})
    )
    asked = {"root": coordinator, "action": Action.CONNECT, "resource": network, "at": NOON}
    invitations = [grant(PITO, SUCCESSOR, connect), grant(MET, SUCCESSOR, connect)]
    founding = verify_constitution(evidence, quorum=coordinator)
    chain = find_chain(invitations, subject=SUCCESSOR, constitutions=[founding], **asked)
    assert chain.root == coordinator

    change = propose_change(founding, k_of(2, PITO, MET, SUCCESSOR))
    signed = sign_change(change, [KEYS[PITO], KEYS[MET]])
    later = verify_constitution(
        type(evidence)(evidence.founding, (signed,)), quorum=coordinator, not_below_sequence=1
    )
    by_the_new_two = [grant(MET, SMITH, connect), grant(SUCCESSOR, SMITH, connect)]
    assert find_chain(by_the_new_two, subject=SMITH, constitutions=[later], **asked).subject == SMITH
    by_one_who_left = [grant(CCS, SMITH, connect), grant(MET, SMITH, connect)]
    with pytest.raises(NoChain):
        find_chain(by_one_who_left, subject=SMITH, constitutions=[later], **asked)
