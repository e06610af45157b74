"""Grants intersect as the dissertation's examples do, and stay small."""

from __future__ import annotations

from functools import reduce

import pytest

from maia.credentials import (
    ALL_ACTIONS,
    MANAGE_ACTIONS,
    Action,
    AnyResource,
    Authority,
    AuthorityTooLarge,
    NetworkName,
    TopicName,
    TypeName,
    TypePattern,
    UnknownAction,
    actions_from_words,
    covers_request,
    intersect,
    parse_name_pattern,
)
from maia.credentials.authority import TERMS_MAX
from maia.credentials.names import INFIXES_MAX
from maia.events import AttributeUid
from maia.predicates.syntax import AllOf, Comparison, Not, Operator, Predicate
from support.certificates import KEYS

PITO, CCS = KEYS[0].principal, KEYS[1].principal
PLATE, TIME = AttributeUid("numberplate"), AttributeUid("timestamp")
NUMBERPLATE = TypePattern(PITO, parse_name_pattern("uk.gov.pito.Numberplate"), None)
EVERYTHING = Authority(AnyResource(), ALL_ACTIONS)
SUBSCRIBE = frozenset({Action.SUBSCRIBE})
BOTH = SUBSCRIBE | {Action.PUBLISH}


def is_car(plate: str) -> Predicate:
    return Comparison(PLATE, Operator.EQ, plate)


def test_terms_of_different_kinds_are_different_terms():
    one = Authority(NUMBERPLATE, BOTH, restriction=Comparison(PLATE, Operator.EQ, 1))
    other = Authority(NUMBERPLATE, BOTH, restriction=Comparison(PLATE, Operator.EQ, True))
    both = intersect(one, other)
    assert both is not None
    assert isinstance(both.restriction, AllOf)
    assert len(both.restriction.parts) == 2


def test_too_many_or_too_deep_terms_are_refused():
    many = Authority(NUMBERPLATE, BOTH, restriction=AllOf(tuple(is_car(str(n)) for n in range(TERMS_MAX))))
    with pytest.raises(AuthorityTooLarge):
        intersect(many, Authority(NUMBERPLATE, BOTH, restriction=is_car("x")))
    deep: Predicate = is_car("x")
    for _ in range(100):
        deep = Not(deep)
    with pytest.raises(AuthorityTooLarge):
        intersect(Authority(NUMBERPLATE, BOTH, restriction=deep), many)


def test_name_patterns_that_do_not_add_up_are_refused():
    infixes = [parse_name_pattern(f"*x{number:02}*") for number in range(INFIXES_MAX + 1)]
    grants = [Authority(TypePattern(None, infix, None), BOTH) for infix in infixes]
    with pytest.raises(AuthorityTooLarge):
        reduce(lambda one, other: intersect(one, other) or EVERYTHING, grants)


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        (Action.SUBSCRIBE, TypeName(PITO, "uk.gov.pito.Numberplate", "0"), True),
        (Action.SUBSCRIBE, TypeName(CCS, "uk.gov.pito.Numberplate", "0"), False),
        (Action.SUBSCRIBE, TypeName(PITO, "uk.gov.pito.Speed", "0"), False),
        (Action.PUBLISH, TypeName(PITO, "uk.gov.pito.Numberplate", "0"), False),
        (Action.SUBSCRIBE, NetworkName(PITO, "uk.gov.pito.Numberplate"), False),
        (Action.SUBSCRIBE, TopicName(PITO, "/uk"), False),
    ],
)
def test_a_request_is_covered_only_in_every_field(action, resource, allowed):
    assert covers_request(Authority(NUMBERPLATE, SUBSCRIBE), action, resource) is allowed


def test_a_blanket_capability_covers_only_what_makes_sense():
    assert covers_request(EVERYTHING, Action.CONNECT, NetworkName(PITO, "UK Police Network"))
    assert not covers_request(EVERYTHING, Action.PUBLISH, NetworkName(PITO, "UK Police Network"))
    assert not covers_request(EVERYTHING, Action.CONNECT, TypeName(PITO, "a", "0"))


def test_actions_are_written_as_words():
    assert actions_from_words(["manage", "publish"]) == MANAGE_ACTIONS | {Action.PUBLISH}
    assert actions_from_words(["*"]) == ALL_ACTIONS
    with pytest.raises(UnknownAction, match="`delete`"):
        actions_from_words(["delete"])
