"""What is granted equals a slow model of the OASIS rules, at every step, whatever happens.

Random policies are written down, read by the real reader and run beside the
model of `reference.oasis` through random facts, certificates, activations,
losses, reloads and time.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import Validity
from maia.credentials.appointments import Appointment, argument_kind, issue_appointment, verify_appointment
from maia.events import Instant
from maia.predicates.syntax import ALWAYS
from maia.roles import (
    ActivationLimits,
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
from reference import oasis
from support.known_world import KnownWorld, activate_all
from support.random_cases import count_cases
from support.roles import (
    APPOINTMENTS,
    COURT,
    DOMAIN,
    HIGH_COURT,
    PEOPLE,
    ROLES,
    SECOND,
    SMITH,
    THING,
    Dice,
    shown,
)
from support.types import NOON

ALL_WAYS = ActivationLimits(ways=10**6)
SIGNERS = {COURT.principal: COURT, HIGH_COURT.principal: HIGH_COURT}


class Beside:
    """The engine and the model, side by side, and how the things of one are called in the other."""

    def __init__(self, policy: oasis.Policy) -> None:
        self.model = oasis.Model(policy, int(NOON))
        self.facts: dict = {}
        self.certificates: dict = {}
        self.members: dict = {}
        self.issued: list = []
        self.called: dict = {}  # what the model calls each support
        self.load(policy)

    @property
    def now(self) -> Instant:
        return Instant(self.model.now)

    @property
    def world(self) -> KnownWorld:
        facts: dict = {}
        for _, name, values in self.facts.values():
            facts.setdefault(name, []).append(tuple(value for _, value in values))
        return KnownWorld(facts, list(self.certificates.values()), list(self.members.values()))

    def load(self, policy: oasis.Policy, **style) -> None:
        self.model.policy = policy
        text = oasis.as_text(policy, shown=shown, attribute="plate", **style)
        self.policy = parse_policy(text, origin="random", domain=DOMAIN.principal, types={"Thing": THING})
        backwards = -1 if style.get("backwards") else 1
        self.rules = {
            checked.id: rule
            for role in ROLES
            for checked, rule in zip(
                self.policy.rules[role],
                [rule for rule in policy.rules if rule.role == role][::backwards],
                strict=True,
            )
        }
        self.grants = {
            checked.id: grant
            for role in ROLES
            for checked, grant in zip(
                self.policy.grants[role],
                [grant for grant in policy.grants if grant.role == role][::backwards],
                strict=True,
            )
        }

    def keep(self, members) -> None:
        """Make some memberships active on both sides."""
        for member in members:
            self.members[member.id] = member
            self.called[membership_support(member)] = self.as_model(member)
            self.model.members.add(self.as_model(member))

    def as_model(self, member) -> oasis.Member:
        return oasis.Member(
            member.principal,
            member.role,
            tuple((argument_kind(value).value, value) for value in member.arguments),
            self.called_rule(member),
            tuple((self.called[ground.support], ground.is_watched) for ground in member.depends_on),
            int(member.since),
            None if member.until is None else int(member.until),
        )

    def called_rule(self, member) -> oasis.Rule:
        known = self.called.get(("rule", member.id))
        if known is None:
            known = self.called["rule", member.id] = self.rules[member.rule]
        return known

    def settle(self, lost=frozenset()) -> None:
        """Let everything fall that must, on both sides, and compare."""
        before = set(self.members)
        down = ended_memberships(self.members.values(), lost=lost, policy=self.policy, now=self.now)
        order = [found.membership.id for found in down]
        assert len(set(order)) == len(order)
        for found in down:
            watched = found.membership.watched
            assert found.lost is None or found.lost in watched
            assert not {one.id for one in watched} & set(order[order.index(found.membership.id) + 1 :])
            del self.members[found.membership.id]
        fell = {self.called[membership_support(found.membership)] for found in down}
        assert fell == self.model.settle()
        assert {self.as_model(member) for member in self.members.values()} == self.model.members
        assert before >= set(self.members)
        self.settle_rights(lost | {membership_support(found.membership) for found in down})

    def something_lost(self, dice, some):
        """Draw a fact or certificate to lose, most often one that a principal depends on."""
        watched = [one for one in some if any(one in member.watched for member in self.members.values())]
        return dice.one_of(watched if watched and dice.perhaps(0.7) else some)

    def settle_rights(self, lost) -> None:
        down = ended_rights(self.issued, lost=lost, policy=self.policy, now=self.now)
        standing = [right for right in self.issued if right not in down]
        for right in self.issued:
            ends = right.validity.not_after
            grant_there = any(
                grant.id == right.grant for some in self.policy.grants.values() for grant in some
            )
            there = all(self.model.is_there(self.called[support]) for support in right.watched)
            assert (right in standing) == (there and grant_there and (ends is None or self.now <= ends))
        self.issued = standing

    def issue(self, member) -> None:
        """Compare what the membership is granted, and keep it."""
        found = rights(self.policy, member, self.world, self.now)
        said = {(self.grants[right.grant], _restricted(right), right.validity.not_after) for right in found}
        assert len(said) == len(found)
        assert said == self.model.rights(self.as_model(member))
        for right in found:
            assert right.may_delegate == self.grants[right.grant].delegable
            assert right.validity.contains(self.now)
        self.issued += found


def _restricted(right):
    restriction = right.authority.restriction
    return None if restriction == ALWAYS else ("string", restriction.literal)


STEPS = (
    *(
        "assert",
        "assert",
        "appoint",
        "appoint",
        "activate",
        "activate",
        "activate",
        "activate",
        "activate all",
    ),
    *("retract", "revoke", "deactivate", "wait", "reload", "reword"),
)

SEEDS = st.integers(0, 2**32)


@pytest.mark.laws
@given(SEEDS)
def test_at_every_step_exactly_that_is_granted_which_the_rules_grant(seed):
    dice = Dice(seed)
    both = Beside(dice.policy())
    for _ in range(dice.one_of((8, 16, 24))):
        assert_fact(both, dice.fact())
    for number in range(dice.one_of((3, 6, 9))):
        appoint(both, dice, number)
    for _ in range(6):
        activate_something(both, dice)
    rounds = dice.one_of((10, 20, 30))
    for number in range(rounds):
        both.model.now += SECOND // 3
        both.settle()
        take_step(both, dice, number + 10)
    count_cases(rounds)


def take_step(both: Beside, dice: Dice, number: int) -> None:
    """Let one thing happen on both sides and compare what follows from it."""
    match dice.one_of(STEPS):
        case "assert":
            assert_fact(both, dice.fact())
        case "appoint":
            appoint(both, dice, number)
        case "activate":
            activate_something(both, dice)
        case "activate all":
            activate_everything(both, dice.one_of(PEOPLE))
        case "retract" if both.facts:
            support = both.something_lost(dice, both.facts)
            both.model.facts.discard(both.facts.pop(support))
            both.settle({support})
        case "revoke" if both.certificates:
            support = both.something_lost(dice, both.certificates)
            del both.certificates[support]
            both.model.certificates.discard(both.called[support])
            both.settle({support})
        case "deactivate" if both.members:
            member = both.members.pop(dice.one_of(both.members))
            both.model.members.discard(both.called[membership_support(member)])
            both.settle({membership_support(member)})
        case "wait":
            both.model.now += dice.one_of((1, 2, 4, 40)) * SECOND
            both.settle()
        case "reload":
            reload(both, dice)
        case "reword":
            both.load(both.model.policy, comment="the same", backwards=dice.perhaps(0.5))
            both.settle()


def assert_fact(both: Beside, fact) -> None:
    support = fact_support(fact[1], [value for _, value in fact[2]])
    both.facts[support] = both.called[support] = fact
    both.model.facts.add(fact)


def appoint(both: Beside, dice: Dice, number: int) -> None:
    name = dice.one_of(APPOINTMENTS)
    issuer, holder = dice.one_of((*SIGNERS, COURT.principal)), dice.one_of(PEOPLE)
    begins = (both.model.now + dice.one_of((-1, -1, 2)) * SECOND) // SECOND * SECOND
    ends = dice.one_of((None, begins + 6 * SECOND, begins + 60 * SECOND, begins + 60 * SECOND))
    said = oasis.Certificate(number, name, issuer, holder, dice.row(APPOINTMENTS[name]), begins, ends)
    parameters = tuple(value for _, value in said.values)
    validity = Validity(Instant(begins), None if ends is None else Instant(ends))
    text = Appointment(issuer, holder, name, parameters, validity, serial=bytes([number]))
    verified = verify_appointment(issue_appointment(text, SIGNERS[issuer]))
    both.certificates[certificate_support(verified)] = verified
    both.called[certificate_support(verified)] = said
    both.model.certificates.add(said)


def activate_something(both: Beside, dice: Dice) -> None:
    principal, role = dice.one_of(PEOPLE), dice.one_of((*ROLES, "r3", "r4", "r4"))
    wanted = [dice.value(kind) if dice.perhaps(0.3) else None for kind in ROLES[role]]
    arguments = [None if one is None else one[1] for one in wanted]
    found = activate(both.policy, both.world, principal, role, arguments, both.now, ALL_WAYS)
    assert {both.as_model(member) for member in found} == both.model.activate(principal, role, wanted)
    room = max(0, 12 - len(both.members))  # with more, every way to every role would only take long
    gained = dice.random.sample(found, min(len(found), room, dice.one_of((2, 3, 4))))
    both.keep(gained)
    for member in gained:
        both.issue(member)
    both.settle()


def activate_everything(both: Beside, principal) -> None:
    """Compare which roles one principal can have at all, and keep none of them."""
    found = activate_all(both.policy, both.world, principal, both.now)
    model = both.model
    expected = oasis.Model(model.policy, model.now, model.facts, model.certificates, set(model.members))
    reached = set()
    for role, kinds in ROLES.items():
        ways = expected.activate(principal, role, [None] * len(kinds))
        # One way to each is enough for what depends on it.
        expected.members |= set({member.values: member for member in ways}.values())
        reached |= {(role, member.values) for member in ways}
    arguments = [tuple((argument_kind(one).value, one) for one in member.arguments) for member in found]
    assert {(member.role, some) for member, some in zip(found, arguments, strict=True)} == reached
    earlier = {member.id for member in both.members.values()}
    for member in found:
        supports = {one.support.id for one in member.depends_on if one.support.kind is SupportKind.MEMBERSHIP}
        assert supports <= earlier
        earlier.add(member.id)


def reload(both: Beside, dice: Dice) -> None:
    """Lose a rule or an issuer, or gain a rule; what depended on the others stays."""
    policy = both.model.policy
    change = dice.one_of(("rule", "rule", "issuer", "more"))
    if change == "rule" and policy.rules:
        policy = oasis.without(policy, rule=dice.random.randrange(len(policy.rules)))
    elif change == "issuer":
        policy = oasis.without(policy, issuer=HIGH_COURT.principal)
    else:
        more = dice.rule(dice.one_of(ROLES))
        policy = oasis.replace(policy, rules=tuple(dict.fromkeys((*policy.rules, more))))
    both.load(policy)
    both.settle()


@pytest.mark.laws
@given(SEEDS)
def test_the_order_in_which_facts_became_known_changes_nothing(seed):
    dice = Dice(seed)
    both = Beside(dice.policy())
    for _ in range(8):
        assert_fact(both, dice.fact())
    other = KnownWorld({name: some[::-1] for name, some in both.world.facts.items()})
    for role in ROLES:
        one = activate(both.policy, both.world, SMITH.principal, role, None, both.now, ALL_WAYS)
        two = activate(both.policy, other, SMITH.principal, role, None, both.now, ALL_WAYS)
        assert {member.id for member in one} == {member.id for member in two}
