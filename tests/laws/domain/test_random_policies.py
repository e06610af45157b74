"""What a domain grants equals a slow model of the OASIS rules, at every step, whatever happens to it.

Random policies, some of them with a part that a parent domain wrote, are run
by the whole service: facts, appointments of two courts that take them back on
their own, logins, rights, delegations, reloads, time, restarts, and the power
that goes in the middle of an act.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_cases import count_cases, usually
from support.random_domain import DomainBeside
from support.roles import Dice

A_TENTH = usually(3, laws=max(6, settings().max_examples // 10))
"""Every example is a history of some thirty acts, each of them compared."""


@pytest.mark.laws
@given(st.integers(0, 2**32))
@settings(max_examples=A_TENTH)
def test_at_every_step_a_domain_grants_what_the_rules_grant(seed):
    dice = Dice(seed)
    both = DomainBeside(dice)
    for _ in range(dice.one_of((8, 16, 24))):
        both.assert_fact()
    for _ in range(dice.one_of((3, 6, 9))):
        both.appoint()
    both.tick()
    for _ in range(6):
        both.activate()
    for _ in range(dice.one_of((8, 16, 24))):
        both.step()
    both.finish()
    count_cases(both.steps)
