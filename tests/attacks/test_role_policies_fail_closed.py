"""Attacks on role policies: broken files, lost rules, lost grounds, across domains."""

from __future__ import annotations

import pytest

from maia.credentials.appointments import AppointmentKind, issue_appointment, verify_appointment
from maia.predicates.syntax import ALWAYS
from maia.roles import (
    BadPolicy,
    Support,
    SupportKind,
    activate,
    certificate_support,
    ended_memberships,
    ended_rights,
    fact_support,
    membership_support,
    parse_policy,
    rights,
)
from support.known_world import KnownWorld, activate_all, membership_certificate
from support.roles import (
    COURT,
    DOMAIN,
    JONES,
    OTHER_DOMAIN,
    SMITH,
    appointment,
    later,
    policy,
)
from support.types import NOON

MET = """
fact on_duty(who: principal)
role officer(force: string)
role sergeant(force: string)
rule officer("met")
    while on_duty(holder)
    until revoked
rule sergeant(force)
    while officer(force)
"""
COUNTY = f"""
role met_sergeant(force: string) of {DOMAIN.principal} named sergeant
role guest(force: string)
role reader
rule guest(force)
    while met_sergeant(force)
rule reader
    while guest(_)
grant reader
    may subscribe Numberplate(numberplate)
"""


def certified(checked, member, key):
    return verify_appointment(issue_appointment(membership_certificate(checked, member), key))


def test_a_lost_ground_falls_through_two_domains_and_touches_no_other_peer():
    """A40: an officer goes off duty in one domain; her guest role and her right in another end with it."""
    met, county = policy(MET), policy(COUNTY, domain=OTHER_DOMAIN)
    duty = {"on_duty": [(SMITH.principal,), (JONES.principal,)]}
    in_met, in_county, shown, held = [], [], {}, []
    for person in (SMITH, JONES):
        gained = activate_all(met, KnownWorld(duty), person.principal, NOON)
        in_met += gained
        shown[person] = [certified(met, member, DOMAIN) for member in gained]
        world = KnownWorld({}, shown[person])
        guests = activate_all(county, world, person.principal, NOON)
        in_county += guests
        held += [right for member in guests for right in rights(county, member, world, NOON)]
    assert (len(in_met), len(in_county), len(held)) == (4, 4, 2)

    first = ended_memberships(in_met, lost={fact_support("on_duty", [SMITH.principal])})
    assert [found.membership.role for found in first] == ["officer", "sergeant"]
    revoked = {
        Support(SupportKind.CERTIFICATE, one.id)
        for one in shown[SMITH]
        if one.certificate.serial in {found.membership.id for found in first}
    }
    second = ended_memberships(in_county, lost=revoked)
    assert [found.membership.role for found in second] == ["guest", "reader"]
    gone = {membership_support(found.membership) for found in second}
    assert [right.principal for right in ended_rights(held, lost=gone)] == [SMITH.principal]
    everybody = {found.membership.principal for found in (*first, *second)}
    assert everybody == {SMITH.principal}


def test_a_certificate_of_the_wrong_domain_or_name_opens_nothing():
    """A18: what one domain says of its roles is believed of that domain alone."""
    county = policy(COUNTY, domain=OTHER_DOMAIN)
    kind = AppointmentKind.ROLE_MEMBERSHIP
    for shown in (
        appointment(OTHER_DOMAIN, SMITH, "sergeant", "met", kind=kind),
        appointment(DOMAIN, SMITH, "guest", "met", kind=kind),
        appointment(DOMAIN, SMITH, "met_sergeant", "met", kind=kind),
        appointment(DOMAIN, JONES, "sergeant", "met", kind=kind),
        appointment(DOMAIN, SMITH, "sergeant", "met"),
    ):
        assert activate(county, KnownWorld({}, [shown]), SMITH.principal, "guest", None, NOON) == ()


TWO_RULES = """
appointment order(plate: string) by court
fact detective(who: principal)
role tracker(plate: string)
rule tracker(plate)
    while order(plate)
rule tracker("every")
    while detective(holder)
    for 1 day
grant tracker(plate)
    may subscribe Numberplate(numberplate)
    where numberplate == $plate
"""


def test_removing_one_of_several_rules_keeps_what_depends_on_the_others():
    """A41: a reload that drops a rule ends its members, and no others."""
    world = KnownWorld({"detective": [(SMITH.principal,)]}, [appointment(COURT, SMITH, "order", "A")])
    members = activate(policy(TWO_RULES), world, SMITH.principal, "tracker", None, NOON)
    dropped = TWO_RULES.replace("rule tracker(plate)\n    while order(plate)\n", "")
    (found,) = ended_memberships(members, policy=policy(dropped), now=NOON)
    assert found.membership.arguments == ("A",)
    assert activate(policy(dropped), world, SMITH.principal, "tracker", ["A"], NOON) == ()


def whole() -> str:
    text = f'policy "Met"\nkey court = {COURT.principal}\n{TWO_RULES}end\n'
    return text.replace(
        "Numberplate(numberplate)\n    where numberplate == $plate", 'topic "/x" of here'
    ).replace("grant tracker(plate)", "grant tracker(_)")


def test_a_file_that_was_cut_off_anywhere_is_no_policy():
    """A42: half-written. Whatever is left of the file, it is never taken for a smaller policy."""
    text = whole()
    parse_policy(text, origin="met", domain=DOMAIN.principal)
    for length in range(len(text.rstrip())):
        with pytest.raises(BadPolicy):
            parse_policy(text[:length], origin="met", domain=DOMAIN.principal)


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "# nothing\n", b"", b"\x00", b"\xff\xff", "end", 'policy "x"\nend']
)
def test_an_empty_or_unreadable_file_is_no_policy(text):
    """A42: empty, or no text at all."""
    with pytest.raises(BadPolicy):
        parse_policy(text, origin="met", domain=DOMAIN.principal)


def test_one_bad_line_spoils_the_whole_policy():
    """A42: malformed. Rules before the mistake are not taken, nor those after it."""
    for line in range(1, whole().count("\n")):
        lines = whole().split("\n")
        lines.insert(line, "???")
        with pytest.raises(BadPolicy):
            parse_policy("\n".join(lines), origin="met", domain=DOMAIN.principal)


def test_a_rule_without_its_optional_parts_still_applies():
    """A43: no restriction, condition, end, test or premise of its own is needed for a grant to count."""
    body = "role r\nrule r\n    for 1 day\ngrant r\n    may subscribe Numberplate(numberplate)\n"
    checked = policy(body)
    (member,) = activate(checked, KnownWorld(), SMITH.principal, "r", None, NOON)
    (right,) = rights(checked, member, KnownWorld(), NOON)
    assert (right.authority.restriction, right.authority.condition) == (ALWAYS, ALWAYS)
    assert right.validity.not_after == later(days=1)
    assert not right.may_delegate


def test_a_value_can_never_become_part_of_a_restriction_s_text():
    """A plate that looks like a filter is a plate: values are handed beside the text, never into it."""
    hostile = 'X" or numberplate != "'
    world = KnownWorld({}, [appointment(COURT, SMITH, "order", hostile)])
    (member,) = activate(policy(TWO_RULES), world, SMITH.principal, "tracker", None, NOON)
    (right,) = rights(policy(TWO_RULES), member, world, NOON)
    assert right.authority.restriction.literal == hostile
    assert certificate_support(appointment(COURT, SMITH, "order", hostile)) in member.watched
