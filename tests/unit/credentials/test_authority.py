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
    NetworkPattern,
    TopicName,
    TopicPattern,
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


def test_a_blanket_capability_is_limited_by_what_the_domain_was_granted():
    granted = Authority(NUMBERPLATE, BOTH)
    assert intersect(granted, EVERYTHING) is granted
    assert intersect(EVERYTHING, granted) is granted


def test_a_narrower_link_is_reused_and_a_wider_one_is_harmless():
    wide = Authority(TypePattern(PITO, parse_name_pattern("uk.gov.*"), None), BOTH)
    narrow = Authority(NUMBERPLATE, SUBSCRIBE, frozenset({PLATE, TIME}))
    assert intersect(wide, narrow) is narrow
    assert intersect(narrow, wide) is narrow


def test_the_fields_narrow_independently():
    one = Authority(TypePattern(None, parse_name_pattern("uk.*"), "0"), BOTH, frozenset({PLATE}))
    other = Authority(TypePattern(PITO, parse_name_pattern("*plate"), None), SUBSCRIBE | {Action.EXTEND})
    both = intersect(one, other)
    assert both == Authority(
        TypePattern(PITO, both.resources.name, "0"),
        SUBSCRIBE,
        frozenset({PLATE}),  # type: ignore[union-attr]  # the test says it is not None
    )
    assert covers_request(both, Action.SUBSCRIBE, TypeName(PITO, "uk.gov.Numberplate", "0"))
    assert not covers_request(both, Action.SUBSCRIBE, TypeName(CCS, "uk.gov.Numberplate", "0"))


@pytest.mark.parametrize(
    "other",
    [
        Authority(NetworkPattern(PITO, parse_name_pattern("*")), ALL_ACTIONS),
        Authority(TopicPattern(PITO, parse_name_pattern("*")), BOTH),
        Authority(TypePattern(CCS, parse_name_pattern("*"), None), BOTH),
        Authority(TypePattern(PITO, parse_name_pattern("uk.gov.ccs.*"), None), BOTH),
        Authority(NUMBERPLATE, frozenset({Action.EXTEND})),
        Authority(AnyResource(), frozenset({Action.CONNECT})),
        Authority(NUMBERPLATE, SUBSCRIBE, frozenset({TIME})),
    ],
)
def test_grants_with_nothing_in_common_grant_nothing(other):
    assert intersect(Authority(NUMBERPLATE, BOTH, frozenset({PLATE})), other) is None
    assert intersect(other, Authority(NUMBERPLATE, BOTH, frozenset({PLATE}))) is None


def test_actions_that_need_no_attribute_survive_the_loss_of_all():
    one = Authority(NUMBERPLATE, BOTH | {Action.EXTEND}, frozenset({PLATE}))
    other = Authority(NUMBERPLATE, BOTH | {Action.EXTEND}, frozenset({TIME}))
    both = intersect(one, other)
    assert both is not None
    assert both.actions == {Action.EXTEND}


def test_a_restriction_survives_when_its_attribute_is_hidden():
    detective = Authority(NUMBERPLATE, SUBSCRIBE, frozenset({PLATE, TIME}), is_car("AE05 XYZ"))
    both = intersect(detective, Authority(NUMBERPLATE, SUBSCRIBE, frozenset({TIME})))
    assert both is not None
    assert both.attributes == {TIME}
    assert both.restriction == is_car("AE05 XYZ")


def test_terms_are_flat_and_never_repeated():
    one = Authority(NUMBERPLATE, BOTH, restriction=AllOf((is_car("A"), is_car("B"))))
    other = Authority(NUMBERPLATE, BOTH, restriction=is_car("B"), condition=is_car("C"))
    both = intersect(one, other)
    for _ in range(50):
        assert both is not None
        assert both.restriction == AllOf((is_car("A"), is_car("B")))
        assert both.condition == is_car("C")
        both = intersect(both, other)


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
