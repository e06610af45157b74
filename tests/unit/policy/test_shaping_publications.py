"""What does a publisher's View make of its events?"""

from __future__ import annotations

import pytest

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid
from maia.policy.view import PublicationRefused, View, Window, shape
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Comparison, Exists, Not, Operator

PLACE, SPEED, PLATE = (AttributeUid(text) for text in ("place", "speed", "plate"))
SLOW = Comparison(SPEED, Operator.LT, 30)
VICTORIA = Comparison(PLACE, Operator.EQ, "Victoria")


def publishing(admits=ALWAYS, attributes=ALL_ATTRIBUTES, **forced) -> View:
    return View(
        (Window(admits, attributes),), forced={AttributeUid(uid): value for uid, value in forced.items()}
    )


@pytest.mark.parametrize("given", [{}, {PLACE: "Soho"}, {PLACE: None}, {PLACE: "Victoria"}])
def test_a_forced_value_replaces_whatever_was_given_or_missing(given):
    assert shape(publishing(VICTORIA, place="Victoria"), given) == {PLACE: "Victoria"}


def test_a_value_outside_the_restriction_is_refused_and_its_attribute_named():
    with pytest.raises(PublicationRefused) as refused:
        shape(publishing(SLOW), {SPEED: 31})
    assert refused.value.attributes == (SPEED,)
    assert "`speed`" in refused.value.message
    assert "30" not in refused.value.message
    assert refused.value.as_record()["attributes"] == ["speed"]


def test_a_negated_restriction_does_not_let_a_missing_value_pass():
    """A59: `not (speed < 30)` is unknown without a speed, and only true passes."""
    with pytest.raises(PublicationRefused):
        shape(publishing(Not(SLOW)), {})


def test_the_restriction_is_asked_of_the_event_as_it_will_be_published():
    hidden = publishing(AnyOf((SLOW, Exists(PLATE))), attributes=frozenset({PLATE}))
    with pytest.raises(PublicationRefused) as refused:
        shape(hidden, {SPEED: 3})
    assert refused.value.attributes == (PLATE,), "an attribute the publisher may not write is not named"


def test_the_first_broken_part_is_the_one_that_is_named():
    both = AllOf((SLOW, AllOf((Exists(PLATE),))))
    with pytest.raises(PublicationRefused) as refused:
        shape(publishing(both), {SPEED: 3})
    assert refused.value.attributes == (PLATE,)


@pytest.mark.parametrize("windows", [(), (Window(ALWAYS, ALL_ATTRIBUTES),) * 2])
def test_a_view_that_does_not_have_exactly_one_window_publishes_nothing(windows):
    with pytest.raises(PublicationRefused):
        shape(View(windows), {SPEED: 3})
