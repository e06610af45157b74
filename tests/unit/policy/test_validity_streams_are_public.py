"""Whoever may connect may hear statements on validity: on exactly the standard stream, and nothing more."""

from __future__ import annotations

import pytest

from maia.credentials import Action
from maia.events import Attribute, AttributeUid, Kind
from maia.policy import Audience, Bound, BoundRule, see
from maia.predicates.syntax import Exists
from maia.types import STATEMENT, validity_definition, validity_type_name, verify_definition
from support.policy import (
    MALLORY,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    SMITH,
    ask,
    chain,
    defined,
    denial,
    granted,
    permit,
    type_pattern,
)

STREAM = verify_definition(validity_definition(MET), at=NOON)
STATED = {STATEMENT.uid: b"statement"}


def test_a_stranger_receives_every_statement():
    decision = permit(ask(MALLORY, "subscribe", STREAM))
    assert see(decision.view, STATED) == STATED
    assert decision.until is None


def test_both_audiences_read_the_reason():
    decision = permit(ask(MALLORY, "subscribe", STREAM))
    for audience in Audience:
        assert "are public" in " ".join(decision.explanation.lines(audience))
    assert "owns" not in " ".join(decision.explanation.lines(Audience.OWNER))
    assert "owns" in " ".join(permit(ask(MET, "subscribe", STREAM)).explanation.lines(Audience.OWNER))


@pytest.mark.parametrize("action", ["publish", "manage.add", "manage.remove"])
def test_a_stranger_does_nothing_else_with_it(action):
    assert denial(ask(MALLORY, action, STREAM)).code == "POLICY-NO-CHAIN"


def test_the_owner_publishes_and_can_let_others_publish():
    assert permit(ask(MET, "publish", STREAM))
    pattern = type_pattern(MET.principal, validity_type_name(MET.principal).name)
    right = chain(granted(MET, SMITH, "publish", pattern), subject=SMITH, root=MET)
    assert permit(ask(SMITH, "publish", STREAM, chains=[right]))


def test_other_types_stay_closed():
    assert denial(ask(MALLORY, "subscribe", NUMBERPLATE)).code == "POLICY-NO-CHAIN"
    lookalike = defined(PITO, "maia.validity", (STATEMENT, Attribute("secret", "s1", Kind.STRING)))
    assert denial(ask(MALLORY, "subscribe", lookalike)).code == "POLICY-NO-CHAIN"


def test_bounds_take_away_here_as_everywhere():
    upper = BoundRule(MALLORY.principal, Action.SUBSCRIBE, Bound.UPPER, Exists(AttributeUid("other")))
    refused = ask(MALLORY, "subscribe", STREAM, bounds=[upper])
    assert denial(refused).code == "POLICY-SUBSCRIPTION-TOO-WIDE"
