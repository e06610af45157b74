"""The twelve claims that Miklós illustrates with examples, one test each.

His notation `string message new_product` is `message == "new_product"`, and
`string message any` is `exists(message)`. One of the twelve we refuse: the
notification with `color`, which his own definition 5 does not allow.
"""

from __future__ import annotations

from maia.events import AttributeUid, Event
from maia.predicates.relations import (
    advertisement_covers_advertisement,
    advertisement_covers_notification,
    filter_covers_filter,
    filter_covers_notification,
    filter_strictly_covers_filter,
    filter_strictly_covers_notification,
)
from maia.predicates.syntax import AllOf, Comparison, Exists, Operator, Predicate
from support.screening import screened

MESSAGE = AttributeUid("message")
PRICE = AttributeUid("price")
COLOR = AttributeUid("color")
WEATHER = AttributeUid("weather")
TEMPERATURE = AttributeUid("temperature")

NEW_PRODUCT = Comparison(MESSAGE, Operator.EQ, "new_product")
SUNNY: Event = {WEATHER: "sunny", TEMPERATURE: 27}


def all_of(*constraints: Predicate) -> Predicate:
    return AllOf(constraints)


def price_below(limit: int) -> Predicate:
    return Comparison(PRICE, Operator.LT, limit)


CHEAP_PRODUCTS = all_of(NEW_PRODUCT, price_below(100))


def test_1_a_filter_covers_but_does_not_strictly_cover_a_notification_with_a_further_attribute():
    notification: Event = {MESSAGE: "new_product", PRICE: 1}
    assert filter_covers_notification(filter=NEW_PRODUCT, notification=notification)
    assert not filter_strictly_covers_notification(filter=NEW_PRODUCT, notification=notification)


def test_2_a_filter_that_names_every_attribute_covers_and_strictly_covers():
    notification: Event = {MESSAGE: "new_product", PRICE: 1}
    wanted = all_of(NEW_PRODUCT, price_below(5))
    assert filter_covers_notification(filter=wanted, notification=notification)
    assert filter_strictly_covers_notification(filter=wanted, notification=notification)


def test_3_a_filter_that_asks_for_a_missing_attribute_covers_neither_way():
    notification: Event = {MESSAGE: "new_product", PRICE: 1}
    wanted = all_of(NEW_PRODUCT, Comparison(COLOR, Operator.EQ, "blue"))
    assert not filter_covers_notification(filter=wanted, notification=notification)
    assert not filter_strictly_covers_notification(filter=wanted, notification=notification)


def test_4_an_upper_bound_lets_a_publisher_publish_new_products_and_no_weather():
    product: Event = {MESSAGE: "new_product", PRICE: 10}
    assert filter_covers_notification(filter=NEW_PRODUCT, notification=product)
    assert not filter_covers_notification(filter=NEW_PRODUCT, notification=SUNNY)


def test_5_an_upper_bound_lets_a_publisher_advertise_new_products_and_no_weather():
    weather = all_of(Exists(WEATHER), Exists(TEMPERATURE))
    assert filter_covers_filter(wide=NEW_PRODUCT, narrow=CHEAP_PRODUCTS)
    assert not filter_covers_filter(wide=NEW_PRODUCT, narrow=weather)


def test_6_a_lower_bound_refuses_the_further_attribute_that_the_paper_would_allow():
    """S12: the paper allows `color` here; its definition 5 asks that every attribute meets a constraint."""
    colourful: Event = {MESSAGE: "new_product", PRICE: 10, COLOR: "blue"}
    without_color: Event = {MESSAGE: "new_product", PRICE: 10}
    assert not advertisement_covers_notification(advertisement=CHEAP_PRODUCTS, notification=colourful)
    assert advertisement_covers_notification(advertisement=CHEAP_PRODUCTS, notification=without_color)


def test_7_a_lower_bound_lets_no_weather_through():
    assert not advertisement_covers_notification(advertisement=CHEAP_PRODUCTS, notification=SUNNY)


def test_8_a_lower_bound_lets_no_dear_product_through():
    dear: Event = {MESSAGE: "new_product", PRICE: 523}
    assert not advertisement_covers_notification(advertisement=CHEAP_PRODUCTS, notification=dear)


def test_9_a_lower_bound_lets_a_publisher_advertise_cheaper_products_and_no_colours():
    cheaper = all_of(NEW_PRODUCT, price_below(53))
    coloured = all_of(NEW_PRODUCT, Exists(COLOR))
    assert advertisement_covers_advertisement(wide=CHEAP_PRODUCTS, narrow=cheaper)
    assert not advertisement_covers_advertisement(wide=CHEAP_PRODUCTS, narrow=coloured)


def test_10_an_upper_bound_lets_a_subscriber_ask_for_products_and_no_weather():
    ten = all_of(NEW_PRODUCT, Comparison(PRICE, Operator.EQ, 10))
    warm = all_of(Comparison(WEATHER, Operator.EQ, "sunny"), Comparison(TEMPERATURE, Operator.GT, 25))
    assert filter_covers_filter(wide=NEW_PRODUCT, narrow=ten)
    assert not filter_covers_filter(wide=NEW_PRODUCT, narrow=warm)


def test_11_a_lower_bound_keeps_a_subscriber_from_asking_for_more_detail():
    any_message = Exists(MESSAGE)
    assert advertisement_covers_advertisement(wide=any_message, narrow=NEW_PRODUCT)
    assert not advertisement_covers_advertisement(wide=any_message, narrow=CHEAP_PRODUCTS)


def test_12_screening_cuts_the_colour_that_the_subscriber_may_not_read():
    granted = all_of(Exists(MESSAGE), Exists(PRICE))
    notification: Event = {MESSAGE: "new_product", PRICE: 23, COLOR: "red"}
    received = {MESSAGE: "new_product", PRICE: 23}
    assert filter_strictly_covers_filter(wide=granted, narrow=CHEAP_PRODUCTS)
    assert screened(notification, filter=CHEAP_PRODUCTS) == received
    assert screened(notification, filter=granted) == received
