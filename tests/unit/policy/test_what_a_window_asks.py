"""Which published attributes decide what a window shows? Governed tables and what-if open exactly those."""

from __future__ import annotations

from maia.credentials import Transformation
from maia.events import Attribute, AttributeUid, Kind, vocabulary_of
from maia.expressions import parse_rule
from maia.policy.view import View, Window, asks_of, see
from maia.predicates import ALWAYS
from support.policy_world import keys_of

(OWNER,) = keys_of("asked", "owner")
B, I = AttributeUid("b"), AttributeUid("i")
VOCABULARY = vocabulary_of((Attribute("b", B, Kind.BOOL), Attribute("i", I, Kind.INT)))


def test_what_a_rule_changes_under_a_condition_is_asked_for_as_well() -> None:
    """Where the condition is false the attribute is shown as it was published, so it has to be opened."""
    rule = parse_rule("b := none when i >= 3", VOCABULARY)
    window = Window(ALWAYS, frozenset({B}) | {I}, (Transformation(OWNER.principal, (rule,)),))
    assert see(View((window,)), {I: 1, B: True}) == {I: 1, B: True}
    assert asks_of(window) == {B, I}
    always = parse_rule("b := none", VOCABULARY)
    assert (
        asks_of(Window(ALWAYS, frozenset({B}), (Transformation(OWNER.principal, (always,)),))) == frozenset()
    )
