"""Activation: which memberships a rule gives, on which grounds, until when; and what falls with what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import UNBOUNDED, Validity
from maia.credentials.appointments import (
    Appointment,
    AppointmentKind,
    BadArgument,
    issue_appointment,
    verify_appointment,
)
from maia.events import Instant
from maia.policy import Facts
from maia.policy.facts import place_facts
from maia.roles import (
    ActivationLimits,
    EndReason,
    SupportKind,
    activate,
    certificate_support,
    ended_memberships,
    membership_support,
    possible_rights,
    rights,
)
from maia.roles.matching import bind
from maia.roles.policy import Variable
from maia.testing.refusals import raises
from support.known_world import KnownWorld, membership_certificate
from support.roles import (
    COURT,
    DOMAIN,
    HIGH_COURT,
    JONES,
    OTHER_DOMAIN,
    SMITH,
    appointment,
    later,
    policy,
)
from support.types import NOON

DECLARED = """
appointment order(case: string, plate: string) by court
fact detective(who: principal)
fact assigned(who: principal, case: string)
fact level(who: principal, level: int)
fact shift(who: principal, over: timestamp)
role tracker(plate: string)
role officer
role senior
"""
TRACKING = """
rule tracker(plate)
    while order(case, plate)
    while detective(holder)
    given assigned(holder, case)
"""
ORDER = appointment(COURT, SMITH, "order", "c1", "AE05 XYZ")
SMITHS = {
    "detective": [(SMITH.principal,)],
    "assigned": [(SMITH.principal, "c1")],
    "level": [(SMITH.principal, 3), (JONES.principal, 5)],
}
WORLD = KnownWorld(SMITHS, [ORDER])


def tracking(world=WORLD, who=SMITH, arguments=None, at=NOON, body=DECLARED + TRACKING):
    return activate(policy(body), world, who.principal, "tracker", arguments, at)


def officer(clauses, world=WORLD, who=SMITH, at=NOON, arguments=None):
    body = DECLARED + "rule officer\n" + "".join(f"    {line}\n" for line in clauses.split("\n"))
    return activate(policy(body), world, who.principal, "officer", arguments, at)


@pytest.mark.parametrize(
    ("facts", "certificates"),
    [
        ({**SMITHS, "detective": []}, [ORDER]),
        ({**SMITHS, "assigned": [(SMITH.principal, "c2")]}, [ORDER]),
        ({**SMITHS, "assigned": [(JONES.principal, "c1")]}, [ORDER]),
        (SMITHS, []),
        (SMITHS, [appointment(HIGH_COURT, SMITH, "order", "c1", "AE05 XYZ")]),
        (SMITHS, [appointment(COURT, JONES, "order", "c1", "AE05 XYZ")]),
        (SMITHS, [appointment(COURT, SMITH, "orders", "c1", "AE05 XYZ")]),
        (SMITHS, [appointment(COURT, SMITH, "order", "c1")]),
        (SMITHS, [appointment(COURT, SMITH, "order", "c1", 5)]),
        (
            SMITHS,
            [appointment(COURT, SMITH, "order", "c1", "AE05 XYZ", kind=AppointmentKind.ROLE_MEMBERSHIP)],
        ),
        (SMITHS, [appointment(COURT, SMITH, "order", "c1", "AE05 XYZ", begins=later(seconds=1))]),
        (SMITHS, [appointment(COURT, SMITH, "order", "c1", "x", begins=None, ends=later(seconds=-1))]),
    ],
)
def test_one_missing_premise_is_enough_to_be_nobody(facts, certificates):
    assert tracking(KnownWorld(facts, certificates)) == ()


def test_the_asker_may_say_which_arguments_are_meant():
    second = appointment(COURT, SMITH, "order", "c1", "B4 NDIT")
    world = KnownWorld(SMITHS, [ORDER, second])
    assert {member.arguments for member in tracking(world)} == {("AE05 XYZ",), ("B4 NDIT",)}
    assert [member.arguments for member in tracking(world, arguments=["B4 NDIT"])] == [("B4 NDIT",)]
    assert tracking(world, arguments=["other"]) == ()


def test_arguments_are_checked():
    with pytest.raises(BadArgument, match="parameter `plate`: a string was expected"):
        tracking(arguments=[5])
    with pytest.raises(
        BadArgument, match=r"`tracker\(plate: string\)` was declared, and 2 arguments are given"
    ):
        tracking(arguments=["a", "b"])
    with raises("INPUT-UNKNOWN-ROLE", match="did you mean `tracker`"):
        activate(policy(DECLARED), WORLD, SMITH.principal, "traker", None, NOON)


def test_kinds_are_compared_with_values():
    assert bind([Variable("x")], [True], {"x": 1}, SMITH.principal) is None
    assert bind([Variable("x")], [1.0], {"x": 1}, SMITH.principal) is None
    assert bind([Variable("x")], [1], {"x": 1}, SMITH.principal) == {"x": 1}
    assert (
        officer("given level(holder, 1)\nfor 1 day", KnownWorld({"level": [(SMITH.principal, True)]})) == ()
    )


def test_conditions_compare_values_with_each_other_and_with_the_asker():
    assert officer("given level(holder, n)\nif n >= 3\nfor 1 day")
    assert not officer("given level(holder, n)\nif n >= 4\nfor 1 day")
    above = "given level(holder, mine)\ngiven level(boss, theirs)\n"
    above += "if theirs > $mine and boss != $holder\nfor 1 day"
    assert officer(above)
    assert not officer(above, who=JONES)


def test_a_parameter_that_is_left_to_the_asker_must_be_stated():
    body = DECLARED + "rule tracker(plate)\n    given detective(holder)\n    ask plate\n    for 1 day\n"
    assert tracking(body=body) == ()
    assert [member.arguments for member in tracking(body=body, arguments=["X"])] == [("X",)]


# ------------------------------------------------------------------------------------------- until when


def until(clauses, **options):
    (member,) = officer(clauses, **options)
    return member.until


def test_what_is_only_given_does_not_end_it_unless_the_rule_says_so():
    assert until("given order(_, _)\nfor 20 days") == later(days=20)
    assert until("given order(_, _)\nfor 20 days\nuntil the order ends") == later(days=10)


def test_it_ends_at_a_moment_on_record():
    world = KnownWorld({"shift": [(SMITH.principal, later(hours=3))]})
    assert until("given shift(holder, over)\nuntil over", world=world) == later(hours=3)
    over = KnownWorld({"shift": [(SMITH.principal, later(seconds=-1))]})
    assert officer("given shift(holder, over)\nuntil over", world=over) == ()


def test_it_ends_with_the_working_day():
    clause = "while between 09:00 and 17:00 in Europe/London"
    assert str(until(clause)) == "2026-11-15T16:59:59Z"
    assert officer(clause, at=later(hours=5)) == ()
    assert until(clause.replace("while", "given") + "\nfor 1 day") == later(days=1)


def test_it_is_for_ever_only_where_somebody_said_so():
    assert until("given detective(holder)\nuntil revoked") is None
    said = Appointment(COURT.principal, SMITH.principal, "order", ("c", "p"), UNBOUNDED)
    for_ever = KnownWorld({}, [verify_appointment(issue_appointment(said, COURT))])
    assert until("while order(_, _)", world=for_ever) is None


def test_it_ends_on_a_whole_second_and_never_later_than_said():
    at = Instant(NOON + 1_500_000)
    assert until("for 10 seconds", at=at) == Instant(NOON + 11_000_000)


# --------------------------------------------------------------------------------------------- what falls


def test_a_long_chain_of_memberships_is_no_trouble():
    (first,) = officer("for 1 day")
    chain, ground = [first], tracking()[0].depends_on[0]
    for number in range(5000):
        below = replace(ground, support=membership_support(chain[-1]))
        chain.append(replace(first, id=number.to_bytes(4, "big"), depends_on=(below,)))
    down = ended_memberships(reversed(chain), lost=set(), now=later(days=2))
    assert [found.membership.id for found in down] == [member.id for member in chain]


def test_memberships_that_claim_to_rest_on_each_other_all_fall():
    """The engine makes no such memberships; a damaged store might."""
    (one,) = officer("for 1 day")
    other = replace(one, id=b"other")
    ground = tracking()[0].depends_on[0]
    circle = [
        replace(one, depends_on=(replace(ground, support=membership_support(other)), ground)),
        replace(other, depends_on=(replace(ground, support=membership_support(one)),)),
    ]
    assert {found.membership.id for found in ended_memberships(circle, lost={ground.support})} == {
        one.id,
        b"other",
    }


def test_a_role_falls_when_its_time_is_over():
    members = officer("for 8 hours")
    assert ended_memberships(members, now=later(hours=8)) == ()
    (found,) = ended_memberships(members, now=Instant(later(hours=8) + 1))
    assert found.reason is EndReason.ENDED


def test_a_role_that_fell_comes_back_only_when_it_is_activated_again():
    (member,) = tracking()
    (again,) = tracking(at=later(hours=1))
    assert again.id != member.id
    assert ended_memberships([again], lost={membership_support(member)}) == ()


def test_a_membership_of_another_domain_is_a_support_by_its_id():
    body = "role officer(force: string) of " + str(OTHER_DOMAIN.principal) + "\n"
    body += "role visitor(force: string)\nrule visitor(force)\n    while officer(force)\n"
    shown = appointment(OTHER_DOMAIN, SMITH, "officer", "met", kind=AppointmentKind.ROLE_MEMBERSHIP)
    (member,) = activate(policy(body), KnownWorld({}, [shown]), SMITH.principal, "visitor", None, NOON)
    assert member.depends_on[0].support.kind is SupportKind.CERTIFICATE
    assert ended_memberships([member], lost={certificate_support(shown)})
    imposter = appointment(OTHER_DOMAIN, SMITH, "officer", "met")
    assert activate(policy(body), KnownWorld({}, [imposter]), SMITH.principal, "visitor", None, NOON) == ()


def test_the_domain_certifies_its_own_memberships():
    checked = policy(DECLARED + TRACKING)
    (member,) = activate(checked, WORLD, SMITH.principal, "tracker", None, Instant(NOON + 250_000))
    said = membership_certificate(checked, member)
    assert (said.issuer, said.kind) == (DOMAIN.principal, AppointmentKind.ROLE_MEMBERSHIP)
    assert (said.name, said.parameters) == ("tracker", ("AE05 XYZ",))
    assert said.validity == Validity(NOON, later(days=10))
    assert verify_appointment(issue_appointment(said, DOMAIN)).certificate.serial == member.id


# --------------------------------------------------------------------------------------------- how far


def test_a_search_that_goes_too_far_is_given_up():
    many = KnownWorld({"level": [(SMITH.principal, number) for number in range(200)]})
    body = DECLARED + "role pair(a: int, b: int)\nrule pair(a, b)\n"
    body += "    given level(_, a)\n    given level(_, b)\n    for 1 day\n"
    with raises("ROLES-SEARCH-TOO-LARGE", match="100 facts"):
        activate(policy(body), many, SMITH.principal, "pair", None, NOON, ActivationLimits(steps=100))
    with raises("ROLES-SEARCH-TOO-LARGE", match="more than 1000 different arguments"):
        activate(policy(body), many, SMITH.principal, "pair", None, NOON)
    assert len(activate(policy(body), many, SMITH.principal, "pair", [1, 2], NOON)) == 1


def test_of_many_ways_to_the_same_the_longest_are_kept():
    certificates = [
        appointment(COURT, SMITH, "order", f"c{number}", "P", ends=later(days=number))
        for number in range(1, 30)
    ]
    world = KnownWorld({}, certificates)
    body = DECLARED + "rule tracker(plate)\n    while order(_, plate)\n"
    found = activate(policy(body), world, SMITH.principal, "tracker", None, NOON, ActivationLimits(ways=3))
    assert [member.until for member in found] == [later(days=29), later(days=28), later(days=27)]


# --------------------------------------------------------------------------------------------- what it gives

GRANT = """
grant tracker(plate)
    given level(holder, n)
    if n >= 3
    may subscribe Numberplate(location, numberplate)
    where numberplate == $plate
"""


def test_a_role_tells_what_it_would_be_able_to_do():
    checked = policy(DECLARED + TRACKING + GRANT)
    (possible,) = possible_rights(checked, "tracker", ["AE05 XYZ"], SMITH.principal, NOON)
    assert possible.authority.restriction.literal == "AE05 XYZ"
    assert possible.restriction == "numberplate == $plate"
    assert possible_rights(checked, "officer", [], SMITH.principal, NOON) == ()


def test_what_only_a_premise_can_tell_stays_open():
    body = DECLARED + "grant officer\n    given assigned(holder, case)\n"
    body += "    may subscribe Numberplate(*)\n    where location == $case\n"
    (possible,) = possible_rights(policy(body), "officer", [], SMITH.principal, NOON)
    assert (possible.authority, possible.restriction) == (None, "location == $case")


# ------------------------------------------------------------ places


AT_THE_STATION = "while detective(holder)\nwhere address in 10.2.0.0/16, 2001:db8::/32\nuntil revoked"


@pytest.mark.parametrize(
    ("address", "is_member"),
    [
        ("10.2.3.4", True),
        ("::ffff:10.2.3.4", True),
        ("2001:db8::7", True),
        ("10.3.0.1", False),
        ("192.0.2.1", False),
        ("2001:db9::7", False),
        ("station.local", False),
        (None, False),
    ],
)
def test_a_role_is_activated_from_its_place_alone(address, is_member):
    """P9: an address that is not known is no place."""
    body = DECLARED + "rule officer\n" + "".join(f"    {line}\n" for line in AT_THE_STATION.split("\n"))
    found = activate(policy(body), WORLD, SMITH.principal, "officer", None, NOON, address=address)
    assert bool(found) is is_member


def test_what_a_role_grants_is_used_from_its_place_and_so_is_what_depends_on_it():
    """P9: the right carries the place to every broker, also that of a role that rests on the bound one."""
    checked = policy(
        DECLARED
        + "rule officer\n    while detective(holder)\n    where address in 10.2.0.0/16\n    until revoked\n"
        + "rule senior\n    while officer\n"
        + "grant senior\n    may subscribe Numberplate(*)\n"
        + "grant senior\n    may publish Numberplate(*)\n    provided address in 10.2.9.0/24, 10.2.8.0/24\n"
    )
    world = KnownWorld(SMITHS, [])
    (officer_now,) = activate(checked, world, SMITH.principal, "officer", None, NOON, address="10.2.3.4")
    held = KnownWorld(SMITHS, [], [officer_now])
    (member,) = activate(checked, held, SMITH.principal, "senior", None, NOON, address="192.0.2.1")
    conditions = [right.authority.condition for right in rights(checked, member, held, NOON)]
    for condition, good, bad in zip(
        conditions, ("10.2.3.4", "10.2.8.1"), ("10.3.3.4", "10.2.7.1"), strict=True
    ):
        assert Facts(place_facts(good)).satisfy(condition, of=DOMAIN.principal, now=NOON)
        for elsewhere in (bad, "192.0.2.1", None):
            assert not Facts(place_facts(elsewhere)).satisfy(condition, of=DOMAIN.principal, now=NOON)


def test_a_role_at_a_computer_ends_with_the_word_of_the_computer():
    """P9: the computer says with its own key who is at it, for some minutes."""
    pc, other = HIGH_COURT, COURT
    bound = f"while detective(holder)\nwhere computer == {pc.principal}"
    word = appointment(pc, SMITH, "at-computer", ends=later(seconds=600))
    (member,) = officer(bound, KnownWorld(SMITHS, [word]))
    assert member.until == later(seconds=600)
    for wrong in (
        appointment(other, SMITH, "at-computer", ends=later(seconds=600)),
        appointment(pc, JONES, "at-computer", ends=later(seconds=600)),
        appointment(pc, SMITH, "at-computer", begins=None, ends=later(seconds=-1)),
    ):
        assert officer(bound, KnownWorld(SMITHS, [wrong])) == ()
