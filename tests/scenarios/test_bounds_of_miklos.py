"""Miklós's policy rules, sections 3.3 to 3.5, as bounds on a broker's decisions.

His notation `string message new_product` is `message == "new_product"`, and
`string message any` is `exists(message)`. A certificate grants everything, so
that the bounds alone decide.
"""

from __future__ import annotations

import pytest

from maia.credentials.authority import ALL_ATTRIBUTES, Action, FilterBound
from maia.events import Attribute, AttributeUid, Kind
from maia.policy import Audience, Bound, BoundRule, PublicationRefused, see, shape
from maia.predicates.language.parser import parse_predicate
from maia.testing import grant
from support.policy import ask, chain, defined, denial, granted, key, permit, type_pattern

OWNER, HOLDER, OTHER = (key(number) for number in range(40, 43))
NEWS = defined(
    OWNER,
    "News",
    (
        Attribute("message", AttributeUid("message"), Kind.STRING),
        Attribute("price", AttributeUid("price"), Kind.INT),
        Attribute("color", AttributeUid("color"), Kind.STRING),
        Attribute("weather", AttributeUid("weather"), Kind.STRING),
        Attribute("temperature", AttributeUid("temperature"), Kind.INT),
    ),
)
EVERYTHING = granted(OWNER, HOLDER, "publish subscribe", type_pattern(OWNER.principal, "News"))
CHAIN = chain(EVERYTHING, subject=HOLDER, root=OWNER)

NEW_PRODUCT = 'message = "new_product"'
CHEAP = 'message = "new_product" and price < 100'
SUNNY = {"weather": "sunny", "temperature": 27}


WAYS = ("a file", "the certificate", "a certificate before it")


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Where the bound is: in a broker's file, or in certificates, which take it to every broker (E9)."""
    monkeypatch.setitem(globals(), "WAY", request.param)
    return request.param


WAY = WAYS[0]


def bounded(action, bound, words, wanted, holder=HOLDER.principal):
    said = parse_predicate(words, NEWS.vocabulary)
    if WAYS[0] == WAY or holder != HOLDER.principal:
        rule = BoundRule(holder, Action(action), bound, said)
        return ask(HOLDER, action, NEWS, chains=[CHAIN], bounds=[rule], filter=wanted)
    terms = {"attributes": ALL_ATTRIBUTES, "bounds": (FilterBound(bound, said),)}
    on, do = type_pattern(OWNER.principal, "News"), Action(action)
    certificates = [grant(OWNER, HOLDER, on, do, **terms)]
    if WAYS[2] == WAY:
        certificates = [grant(OWNER, OTHER, on, do, may_delegate=True, **terms), grant(OTHER, HOLDER, on, do)]
    return ask(HOLDER, action, NEWS, chains=[chain(*certificates, subject=HOLDER, root=OWNER)], filter=wanted)


def publishable(view, event):
    try:
        shape(view, event)
    except PublicationRefused:
        return False
    return True


# ---------------------------------------------------------------- 3.3 publishers


@pytest.mark.usefixtures("way")
def test_an_upper_bound_lets_new_products_be_published_and_no_weather():
    view = permit(bounded("publish", Bound.UPPER, NEW_PRODUCT, NEW_PRODUCT)).view
    assert publishable(view, {"message": "new_product", "price": 10})
    assert not publishable(view, SUNNY)


@pytest.mark.usefixtures("way")
def test_an_upper_bound_lets_new_products_be_advertised_and_no_weather():
    permit(bounded("publish", Bound.UPPER, NEW_PRODUCT, CHEAP))
    weather = denial(bounded("publish", Bound.UPPER, NEW_PRODUCT, "exists(weather) and exists(temperature)"))
    assert weather.code == "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS"


@pytest.mark.usefixtures("way")
def test_a_strict_upper_bound_leaves_no_attribute_unspoken():
    view = permit(bounded("publish", Bound.STRICT_UPPER, NEW_PRODUCT, NEW_PRODUCT)).view
    assert publishable(view, {"message": "new_product"})
    assert not publishable(view, {"message": "new_product", "price": 10})
    denial(bounded("publish", Bound.STRICT_UPPER, NEW_PRODUCT, CHEAP))


@pytest.mark.usefixtures("way")
def test_a_lower_bound_lets_cheap_products_be_published_and_nothing_beside():
    view = permit(bounded("publish", Bound.LOWER, CHEAP, 'message = "new_product" and price < 53')).view
    assert publishable(view, {"message": "new_product", "price": 10})
    assert not publishable(view, SUNNY)
    assert not publishable(view, {"message": "new_product", "price": 523})


@pytest.mark.usefixtures("way")
def test_a_lower_bound_refuses_the_colour_as_its_definition_says():
    """His example allows the colour; definition 5 does not, and the definition wins."""
    view = permit(bounded("publish", Bound.LOWER, CHEAP, CHEAP)).view
    assert not publishable(view, {"message": "new_product", "price": 10, "color": "blue"})


@pytest.mark.usefixtures("way")
def test_a_lower_bound_does_not_ask_for_every_attribute_and_its_strict_form_does():
    view = permit(bounded("publish", Bound.LOWER, CHEAP, CHEAP)).view
    assert publishable(view, {"message": "new_product"})
    assert publishable(view, {})
    strict = permit(bounded("publish", Bound.STRICT_LOWER, CHEAP, CHEAP)).view
    assert publishable(strict, {"message": "new_product", "price": 10})
    assert not publishable(strict, {"message": "new_product"})


@pytest.mark.usefixtures("way")
def test_a_lower_bound_lets_part_of_it_be_advertised_and_no_other_attribute():
    permit(bounded("publish", Bound.LOWER, CHEAP, 'message = "new_product" and price < 53'))
    colours = denial(bounded("publish", Bound.LOWER, CHEAP, f"{NEW_PRODUCT} and exists(color)"))
    assert colours.code == "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS"


@pytest.mark.usefixtures("way")
def test_a_refused_publisher_learns_the_attribute_and_not_the_bound():
    view = permit(bounded("publish", Bound.LOWER, CHEAP, CHEAP)).view
    with pytest.raises(PublicationRefused) as refused:
        shape(view, {"message": "new_product", "price": 523})
    assert refused.value.attributes == ("price",)
    assert "100" not in refused.value.message


# ---------------------------------------------------------------- 3.4 subscribers


@pytest.mark.usefixtures("way")
def test_an_upper_bound_lets_part_of_it_be_subscribed_to():
    permit(bounded("subscribe", Bound.UPPER, NEW_PRODUCT, f"{NEW_PRODUCT} and price = 10"))
    refused = denial(bounded("subscribe", Bound.UPPER, NEW_PRODUCT, 'weather = "sunny" and temperature > 25'))
    assert refused.code == "POLICY-SUBSCRIPTION-TOO-WIDE"
    assert "new_product" in refused.explanation.lines(Audience.OWNER)[0]
    assert "new_product" not in str(refused.as_refusal().as_record())


@pytest.mark.usefixtures("way")
def test_an_upper_bound_refuses_a_filter_that_only_overlaps_it():
    """A1: overlapping is not being contained."""
    refused = denial(bounded("subscribe", Bound.UPPER, "price < 100", "price < 101"))
    assert refused.code == "POLICY-SUBSCRIPTION-TOO-WIDE"
    permit(bounded("subscribe", Bound.UPPER, "price < 100", "price < 50 or price = 60"))


@pytest.mark.usefixtures("way")
def test_a_lower_bound_refuses_filters_that_ask_for_more():
    permit(bounded("subscribe", Bound.LOWER, "exists(message)", NEW_PRODUCT))
    refused = denial(bounded("subscribe", Bound.LOWER, "exists(message)", CHEAP))
    assert refused.code == "POLICY-SUBSCRIPTION-TOO-NARROW"


# ---------------------------------------------------------------- 3.5 screening


@pytest.mark.usefixtures("way")
def test_a_strict_upper_bound_screens_out_what_the_filter_does_not_speak_of():
    decision = permit(bounded("subscribe", Bound.STRICT_UPPER, "exists(message) and exists(price)", CHEAP))
    red = {"message": "new_product", "price": 23, "color": "red"}
    assert see(decision.view, red) == {"message": "new_product", "price": 23}
    assert see(decision.view, {**red, "price": 123}) is None


@pytest.mark.usefixtures("way")
def test_a_strict_upper_bound_sets_the_attributes_that_must_be_asked_for():
    denial(bounded("subscribe", Bound.STRICT_UPPER, "exists(message) and exists(price)", NEW_PRODUCT))
    denial(bounded("subscribe", Bound.STRICT_UPPER, "exists(message)", CHEAP))


@pytest.mark.usefixtures("way")
def test_a_strict_lower_bound_screens_too():
    decision = permit(bounded("subscribe", Bound.STRICT_LOWER, "exists(message)", NEW_PRODUCT))
    assert see(decision.view, {"message": "new_product", "price": 23}) == {"message": "new_product"}


# ---------------------------------------------------------------- whom a bound limits


def test_a_bound_limits_its_holder_and_no_other_client():
    decision = bounded("subscribe", Bound.UPPER, NEW_PRODUCT, "exists(price)", holder=OTHER.principal)
    assert see(permit(decision).view, {"price": 3}) == {"price": 3}


def test_a_bound_on_a_credential_limits_a_client_that_relies_on_it():
    refused = denial(bounded("subscribe", Bound.UPPER, NEW_PRODUCT, "exists(price)", holder=EVERYTHING.id))
    assert refused.explanation.owner[0].certificate == EVERYTHING.id


def test_a_bound_on_one_credential_leaves_another_one_free():
    free = granted(OWNER, HOLDER, "subscribe", type_pattern(OWNER.principal, "News"), attributes=["price"])
    rule = BoundRule(EVERYTHING.id, Action.SUBSCRIBE, Bound.UPPER, parse_predicate("price < 5"))
    chains = [CHAIN, chain(free, subject=HOLDER, root=OWNER)]
    view = permit(ask(HOLDER, "subscribe", NEWS, chains=chains, bounds=[rule], filter="price < 9")).view
    assert see(view, {"price": 7, "color": "red"}) == {"price": 7}


def test_bounds_of_one_holder_must_all_hold():
    rules = [
        BoundRule(HOLDER.principal, Action.SUBSCRIBE, Bound.UPPER, parse_predicate(words))
        for words in ("price < 100", "price > 10")
    ]
    permit(ask(HOLDER, "subscribe", NEWS, chains=[CHAIN], bounds=rules, filter="price = 50"))
    denial(ask(HOLDER, "subscribe", NEWS, chains=[CHAIN], bounds=rules, filter="price < 50"))


def test_a_bound_on_other_resources_does_not_apply():
    words, elsewhere = parse_predicate(NEW_PRODUCT), type_pattern(OWNER.principal, "Other*")
    rule = BoundRule(HOLDER.principal, Action.SUBSCRIBE, Bound.UPPER, words, resources=elsewhere)
    permit(ask(HOLDER, "subscribe", NEWS, chains=[CHAIN], bounds=[rule]))


def test_an_owner_can_be_bounded_too():
    rule = BoundRule(OWNER.principal, Action.SUBSCRIBE, Bound.UPPER, parse_predicate(NEW_PRODUCT))
    denial(ask(OWNER, "subscribe", NEWS, bounds=[rule]))
