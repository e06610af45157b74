"""Role sets of a parent domain, and what changes when a policy is replaced."""

from __future__ import annotations

import pytest

from maia.roles import (
    BadPolicy,
    EndReason,
    activate,
    changes,
    ended_memberships,
    ended_rights,
    parse_policy,
    rights,
)
from support.known_world import KnownWorld
from support.roles import (
    COURT,
    DOMAIN,
    HIGH_COURT,
    JONES,
    OTHER_DOMAIN,
    SMITH,
    TYPES,
    appointment,
    policy,
)
from support.types import NOON

NATIONAL = f"""
policy "National police roles"
key college = {COURT.principal}
appointment training(rank: string) by college
appointment employee(number: int) by here
role sergeant(number: int)
role constable closed
rule sergeant(number)
    while training("sergeant")
    while employee(number)
rule constable
    while employee(_)
grant sergeant(_)
    may publish topic "/incidents" of here
end
"""


def national(text: str = NATIONAL):
    return parse_policy(text, origin="national.policy", domain=OTHER_DOMAIN.principal)


def county(body: str = "", parent=None, **options):
    text = f'policy "County"\nimport national\n{body}\nend\n'
    parents = {"national": parent or national(), **options.pop("parents", {})}
    return parse_policy(text, origin="county.policy", domain=DOMAIN.principal, parents=parents, **options)


def sentences(make) -> list[str]:
    with pytest.raises(BadPolicy) as refusal:
        make()
    return [problem.sentence for problem in refusal.value.problems]


def test_a_parents_roles_work_in_the_domain_that_imports_them():
    shown = [appointment(COURT, SMITH, "training", "sergeant"), appointment(DOMAIN, SMITH, "employee", 7)]
    here = county()
    (member,) = activate(here, KnownWorld({}, shown), SMITH.principal, "sergeant", None, NOON)
    assert member.arguments == (7,)
    (right,) = rights(here, member, KnownWorld({}, shown), NOON)
    assert right.authority.resources.owner == DOMAIN.principal


def test_here_is_the_domain_that_uses_the_policy_and_not_its_parent():
    shown = [
        appointment(COURT, SMITH, "training", "sergeant"),
        appointment(OTHER_DOMAIN, SMITH, "employee", 7),
    ]
    world = KnownWorld({}, shown)
    assert activate(county(), world, SMITH.principal, "sergeant", None, NOON) == ()
    assert activate(national(), world, SMITH.principal, "sergeant", None, NOON) != ()


def test_a_domain_adds_rules_and_roles_of_its_own():
    body = """
fact acting(who: principal, number: int)
role desk
also rule sergeant(number)
    while acting(holder, number)
    for 8 hours
rule desk
    while sergeant(_)
"""
    here = county(body)
    world = KnownWorld({"acting": [(JONES.principal, 9)]})
    (member,) = activate(here, world, JONES.principal, "sergeant", None, NOON)
    added = here.rule(member.rule)
    assert (added.extends, str(added.place)) == ("national", "county.policy, line 6")
    assert [rule.extends for rule in here.rules["sergeant"]] == [None, "national"]
    assert str(here.rules["sergeant"][0].place).startswith("national.policy")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("rule sergeant(1)\n    for 1 day", "comes from `national`: to add to it, write `also rule`"),
        ('grant sergeant(_)\n    may publish topic "/x" of here', "write `also grant`"),
        ("also rule constable\n    for 1 day", "`national` has closed `constable`"),
        ('also grant constable\n    may publish topic "/x" of here', "`national` has closed `constable`"),
        ("role sergeant(number: int)", "`sergeant` is already declared by the imported `national`"),
        ("fact training(rank: string)", "`training` is already declared by the imported `national`"),
        ("appointment employee(number: int) by college", "already declared by the imported `national`"),
        (f"key college = {HIGH_COURT.principal}", "`college` is already the name of a key"),
    ],
)
def test_a_parents_role_is_never_widened_in_silence(body, sentence):
    assert any(sentence in said for said in sentences(lambda: county(body)))


def test_a_circle_through_a_parents_role_is_found():
    body = "role desk\nrule desk\n    while sergeant(_)\nalso rule sergeant(1)\n    while desk\n"
    (sentence,) = sentences(lambda: county(body))
    assert "depend on each other" in sentence


def test_two_parents_with_a_common_parent_agree():
    counties = {"kent": county("role kent"), "essex": county("role essex")}
    text = 'policy "Both"\nimport kent\nimport essex\nend\n'
    both = parse_policy(text, origin="both", domain=DOMAIN.principal, parents=counties)
    assert len(both.rules["sergeant"]) == 1
    assert both.roles.keys() == {"sergeant", "constable", "kent", "essex"}


def test_two_parents_that_disagree_are_refused():
    other = national(NATIONAL.replace("role sergeant(number: int)", "role sergeant(number: int) closed"))
    text = 'policy "Both"\nimport one\nimport two\nend\n'
    parents = {"one": national(), "two": other}
    (sentence,) = sentences(
        lambda: parse_policy(text, origin="both", domain=DOMAIN.principal, parents=parents)
    )
    assert "`two` declares `sergeant` in another way" in sentence


# ------------------------------------------------------------------------------------------ replacing one

BODY = """
appointment order(plate: string) by court, high_court
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
grant tracker(_)
    may subscribe Numberplate(location)
"""
BY_COURT = appointment(COURT, SMITH, "order", "A")
BY_HIGH_COURT = appointment(HIGH_COURT, SMITH, "order", "B")
WORLD = KnownWorld({"detective": [(SMITH.principal,)]}, [BY_COURT, BY_HIGH_COURT])


def members():
    return activate(policy(BODY), WORLD, SMITH.principal, "tracker", None, NOON)


def after(body: str):
    """Return the arguments of the memberships that fall with a new policy, and why."""
    down = ended_memberships(members(), policy=policy(body), now=NOON)
    return {(found.membership.arguments[0], found.reason) for found in down}


def test_removing_one_of_several_rules_keeps_the_others():
    """A41."""
    without_facts = BODY.replace('rule tracker("every")\n    while detective(holder)\n    for 1 day\n', "")
    assert after(without_facts) == {("every", EndReason.RULE_GONE)}
    without_orders = BODY.replace("rule tracker(plate)\n    while order(plate)\n", "")
    assert after(without_orders) == {("A", EndReason.RULE_GONE), ("B", EndReason.RULE_GONE)}


def test_an_issuer_who_is_no_longer_accepted_takes_only_its_own_orders_away():
    fewer = BODY.replace("by court, high_court", "by court")
    assert after(fewer) == {("B", EndReason.ISSUER_NOT_ACCEPTED)}
    assert changes(policy(BODY), policy(fewer)).issuers_gone == ("order",)
    more = BODY.replace("by court, high_court", "by court, high_court, here")
    assert after(more) == set()


def test_rights_of_a_grant_that_is_gone_fall_and_those_of_the_other_stay():
    held = [right for member in members() for right in rights(policy(BODY), member, WORLD, NOON)]
    fewer = policy(BODY.replace("grant tracker(_)\n    may subscribe Numberplate(location)\n", ""))
    down = ended_rights(held, policy=fewer, now=NOON)
    assert len(held) == 6
    assert {right.grant for right in down} == {policy(BODY).grants["tracker"][1].id}
    assert len(down) == 3


def test_changes_name_what_is_new_and_what_is_gone():
    new = policy(BODY.replace("(location)", "(location, timestamp)").replace("for 1 day", "for 2 days"))
    found = changes(policy(BODY), new)
    assert ([len(found.rules_gone), len(found.rules_new)], found.takes_away) == ([1, 1], True)
    assert ([len(found.grants_gone), len(found.grants_new)]) == [1, 1]
    assert not changes(new, new).takes_away
    assert TYPES
