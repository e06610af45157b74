"""Two grants together allow what both allow, request by request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AnyResource,
    Authority,
    ResourceName,
    authority_from_expression,
    authority_to_expression,
    covers_request,
    intersect,
)
from maia.events import AttributeUid, PresentValue
from maia.predicates.meaning import verdict
from support.certificates import RESOURCE_NAMES, UIDS, authorities

pytestmark = pytest.mark.laws

ACTIONS = st.sampled_from(Action)
ATTRIBUTES = st.sampled_from(UIDS)
EVENTS = st.dictionaries(ATTRIBUTES, st.sampled_from(["x", "Å", 1, 1.0, True, 0.0, b"\x00"]))

Asked = tuple[Action, ResourceName, AttributeUid, Mapping[AttributeUid, PresentValue]]
ASKED = st.tuples(ACTIONS, RESOURCE_NAMES, ATTRIBUTES, EVENTS)


def allows(authority: Authority | None, asked: Asked) -> bool:
    """Return whether a grant lets one attribute of one event pass: every field of it is asked."""
    action, resource, uid, event = asked
    return (
        authority is not None
        and covers_request(authority, action, resource)
        and (
            action not in (Action.PUBLISH, Action.SUBSCRIBE)
            or authority.attributes is ALL_ATTRIBUTES
            or uid in authority.attributes
        )
        and verdict(authority.restriction, event) is True
        and verdict(authority.condition, event) is True
    )


@given(authorities(), authorities(), ASKED)
def test_an_intersection_allows_exactly_what_both_allow(one, other, asked):
    assert allows(intersect(one, other), asked) == (allows(one, asked) and allows(other, asked))


@given(authorities(), authorities(), authorities(), ASKED)
def test_order_and_grouping_do_not_matter(one, other, third, asked):
    left, right = intersect(one, other), intersect(other, third)
    first = left and intersect(left, third)
    second = right and intersect(one, right)
    assert (first is None) == (second is None)
    assert allows(first, asked) == allows(second, asked)
    assert (intersect(other, one) is None) == (left is None)


@given(authorities())
def test_everything_is_the_unit_but_for_brokers_and_a_grant_with_itself_is_itself(authority):
    everything = Authority(AnyResource(), ALL_ACTIONS)
    twin = authority_from_expression(authority_to_expression(authority))
    no_broker = replace(authority, actions=authority.actions & ALL_ACTIONS)
    assert intersect(authority, everything) == no_broker
    assert intersect(everything, authority) == no_broker
    assert intersect(authority, twin) == authority


@given(authorities(), authorities())
def test_a_repeated_intersection_does_not_grow(one, other):
    both = intersect(one, other)
    if both is not None:
        assert intersect(both, other) == both
        assert intersect(both, one) == both
