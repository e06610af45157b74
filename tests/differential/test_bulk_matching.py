"""Bulk matching as a join answers as `see`, and as the live matcher, for every pair.

Starting a query costs far more than one pair, so each test puts many random
views over many random events into one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.credentials.requirements import parse_requirement, requirement_to_bytes
from maia.events import AttributeUid, Kind, PresentValue, kind_of
from maia.policy.view import View, Window, see
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)
from maia.routing.matching.index import MatchIndex
from maia.spark.matching import bulk as bulk_matching
from maia.spark.matching.bulk import EVENT, REQUIRES, TYPE, BulkMatcher, Subscription, as_super_types
from maia.views import arrow_schema
from reference import requirements as reference
from support.coalition import random_attributes, random_rule
from support.view_cases import POOL, STORED, random_event, random_value, random_view

Event = Mapping[AttributeUid, PresentValue]
Expected = dict[tuple[int, str], frozenset[AttributeUid]]

TYPES = ("sighting", "trade")
PLATE, SPEED, WEIGHT = AttributeUid("plate"), AttributeUid("speed"), AttributeUid("weight")
TEXTS = (
    (TextTest.PREFIX, "a"),
    (TextTest.CONTAINS, "a"),
    (TextTest.LEVELS, "/+/b"),
    (TextTest.LEVELS, "/a/#"),
)


def data_frame(spark, events: Sequence[Event], types: Sequence[str]):
    columns = {
        uid: [None if (value := event.get(uid)) is None else value for event in events] for uid in STORED
    }
    schema = arrow_schema(STORED)
    table = pa.table(
        {
            EVENT: pa.array(range(len(events)), pa.int64()),
            TYPE: pa.array(types, pa.string()),
            **{uid: pa.array(columns[uid], schema.field(uid).type) for uid in STORED},
        }
    )
    return spark.createDataFrame(table)


def by_definition(
    subscriptions: Iterable[Subscription], events: Sequence[Event], types: Sequence[str]
) -> Expected:
    return {
        (at, one.id): frozenset(seen)
        for one in subscriptions
        for at, event in enumerate(events)
        if one.event_type == types[at] and (seen := see(one.view, event)) is not None
    }


def by_join(spark, subscriptions: Sequence[Subscription], frame) -> Expected:
    rows = BulkMatcher(spark, subscriptions, STORED).by_subscription(frame).toArrow().to_pylist()
    found = {(row[EVENT], row["subscription"]): frozenset(row["attributes"]) for row in rows}
    assert len(found) == len(rows), "somebody would receive an event twice"
    return found


def regular_view(random: Random) -> View:
    """Return what most subscribers ask: some equalities, some ranges, perhaps a word in a text."""
    return View((Window(regular_filter(random), _shown(random)),), ALWAYS)


def regular_filter(random: Random) -> Predicate:
    parts = [_question(random) for _ in range(random.choice((1, 2, 2, 3)))]
    return AllOf(tuple(parts)) if len(parts) > 1 else parts[0]


def _question(random: Random) -> Predicate:
    uid = random.choice([uid for uid in STORED if uid != "row"])
    kind = STORED[uid]
    choice = random.random()
    if choice < 0.35 or not kind.is_ordered:
        return Comparison(uid, Operator.EQ, random_value(random, kind))
    if choice < 0.5:
        return Membership(uid, frozenset(random_value(random, kind) for _ in range(3)))
    if choice < 0.6 and kind is Kind.STRING:
        return TextMatch(uid, *random.choice(TEXTS))
    ends = sorted((random_value(random, kind), random_value(random, kind)))
    return AllOf((Comparison(uid, Operator.GE, ends[0]), Comparison(uid, Operator.LE, ends[1])))


def _shown(random: Random):
    if random.random() < 0.3:
        return ALL_ATTRIBUTES
    return frozenset(uid for uid in STORED if random.random() < 0.5)


def cases(seed: int, *, views: int, events: int):
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    given = [random_event(random, row) for row in range(events)]
    types = [random.choice(TYPES) for _ in given]
    made = [random_view(random) if at % 2 else regular_view(random) for at in range(views)]
    subscriptions = [Subscription(f"s{at}", random.choice(TYPES), view) for at, view in enumerate(made)]
    again = [Subscription(f"again-{one.id}", one.event_type, one.view) for one in subscriptions[::5]]
    return [*subscriptions, *again], given, types


@pytest.mark.laws
@pytest.mark.parametrize("cases_max", [bulk_matching.CASES_MAX, 0], ids=["as columns", "in Arrow"])
def test_who_receives_what_is_what_the_kernel_says(spark, monkeypatch, cases_max):
    monkeypatch.setattr(bulk_matching, "CASES_MAX", cases_max)
    subscriptions, events, types = cases(
        20, views=80 if cases_max == 0 else 12, events=100 if cases_max == 0 else 200
    )
    expected = by_definition(subscriptions, events, types)
    assert len(expected) > 250
    assert by_join(spark, subscriptions, data_frame(spark, events, types)) == expected


def test_events_of_a_sub_type_are_matched_as_the_super_type_too(spark):
    """As brokers publish them: with the attributes of the super-type, and nothing of the sub-type."""
    subscriptions, events, types = cases(23, views=10, events=120)
    inherited = frozenset(list(STORED)[::2])
    seen = [(at, kind, event) for at, (event, kind) in enumerate(zip(events, types, strict=True))]
    seen += [
        (at, "sighting", {uid: value for uid, value in event.items() if uid in inherited})
        for at, kind, event in seen
        if kind == "trade"
    ]
    expected = {
        (at, kind, one.id): frozenset(shown)
        for at, kind, event in seen
        for one in subscriptions
        if one.event_type == kind and (shown := see(one.view, event)) is not None
    }
    frame = as_super_types(data_frame(spark, events, types), {"trade": {"sighting": inherited}})
    rows = BulkMatcher(spark, subscriptions, STORED).by_subscription(frame).toArrow().to_pylist()
    found = {
        (row[EVENT]["event"], row[EVENT]["type"], row["subscription"]): frozenset(row["attributes"])
        for row in rows
    }
    assert len(found) == len(rows), "somebody would receive an event twice"
    assert found == expected
    assert any(types[at] == "trade" and kind == "sighting" for at, kind, _ in found)


def test_requirements_of_both_sides_decide_as_they_do_live(spark):
    """I5: the subscriber's as columns of the publisher, the publisher's once for each class of statements."""
    random = Random(29)  # noqa: S311 - test cases, not secrets
    subscriptions, events, types = cases(24, views=12, events=120)
    wants = [random_rule(random) if random.random() < 0.5 else reference.NOTHING for _ in subscriptions]
    readers = [random_attributes(random) for _ in subscriptions]
    publishers = [random_attributes(random) for _ in events]
    required = [random_rule(random) if random.random() < 0.5 else reference.NOTHING for _ in events]
    asking = [
        replace(
            one,
            requires=parse_requirement(reference.written(wanted)),
            attributes={AttributeUid(uid): value for uid, value in attributes.items()},
        )
        for one, wanted, attributes in zip(subscriptions, wants, readers, strict=True)
    ]
    people = {one.id: (wanted, said) for one, wanted, said in zip(asking, wants, readers, strict=True)}
    plain = by_definition(asking, events, types)
    expected = {
        (at, who): shown
        for (at, who), shown in plain.items()
        if reference.meets(people[who][0], publishers[at]) and reference.meets(required[at], people[who][1])
    }
    assert 50 < len(expected) < len(plain)
    kinds = {"nationality": Kind.STRING, "clearance": Kind.INT, "on-duty": Kind.BOOL}
    stored = STORED | {AttributeUid(f"publisher.{name}"): kind for name, kind in kinds.items()}
    known = [
        {f"publisher.{name}": value for name, value in said.items() if kind_of(value) is kinds[name]}
        for said in publishers
    ]
    table = spark.createDataFrame(
        [
            (at, *(one.get(f"publisher.{name}") for name in kinds), requirement_to_bytes(rule))
            for at, (one, rule) in enumerate(
                zip(known, (parse_requirement(reference.written(rule)) for rule in required), strict=True)
            )
        ],
        f"{EVENT} long, `publisher.nationality` string, `publisher.clearance` long, "
        f"`publisher.on-duty` boolean, {REQUIRES} binary",
    )
    frame = data_frame(spark, events, types).join(table, EVENT)
    rows = BulkMatcher(spark, asking, stored).by_subscription(frame).toArrow().to_pylist()
    assert {(row[EVENT], row["subscription"]): frozenset(row["attributes"]) for row in rows} == expected


def test_what_a_class_sees_of_an_event_is_what_the_kernel_shows(spark):
    subscriptions, events, types = cases(26, views=8, events=80)
    matcher = BulkMatcher(spark, subscriptions, STORED)
    found = matcher.as_seen(data_frame(spark, events, types)).select(EVENT, "rights_class", *_exact_columns())
    views = {one.id: one.view for one in subscriptions}
    members = dict(map(tuple, matcher.members.collect()))
    rows = found.toArrow().to_pylist()
    assert rows
    for row in rows:
        seen = see(views[members[row["rights_class"]]], events[row[EVENT]])
        assert seen is not None
        shown = {uid: row[uid] for uid in STORED if row[uid] is not None}
        assert {uid: (type(value), value) for uid, value in shown.items()} == {
            uid: (int if STORED[uid] is Kind.TIMESTAMP else type(value), value) for uid, value in seen.items()
        }


def _exact_columns():
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

    # Moments as exact microseconds: the first and the last fall outside Python's calendar.
    return [
        F.unix_micros(F.col(f"`{uid}`")).alias(uid) if kind is Kind.TIMESTAMP else F.col(f"`{uid}`")
        for uid, kind in STORED.items()
    ]


@pytest.mark.laws
def test_the_join_and_the_live_matcher_find_the_same_filters(spark):
    random = Random(22)  # noqa: S311 - test cases, not secrets
    filters = {f"s{at}": regular_filter(random) for at in range(100)}
    events = [random_event(random, row) for row in range(100)]
    index: MatchIndex[str] = MatchIndex()
    for key, predicate in filters.items():
        index.add(key, predicate)
    subscriptions = [
        Subscription(key, "sighting", View((Window(predicate, ALL_ATTRIBUTES),)))
        for key, predicate in filters.items()
    ]
    found = by_join(spark, subscriptions, data_frame(spark, events, ["sighting"] * len(events)))
    assert set(found) == {(at, key) for at, event in enumerate(events) for key in index.match(event)}


def test_an_interest_is_asked_of_what_is_shown_and_of_nothing_else(spark):
    hidden = View((Window(ALWAYS, frozenset({SPEED})),), Comparison(PLATE, Operator.EQ, "a"))
    lacking = View((Window(ALWAYS, frozenset({SPEED})),), Not(Exists(PLATE)))
    sometimes = View(
        (
            Window(Comparison(SPEED, Operator.GE, 2), frozenset({PLATE})),
            Window(ALWAYS, frozenset({SPEED})),
        ),
        AnyOf((Not(Exists(PLATE)), Comparison(PLATE, Operator.EQ, "a"))),
    )
    views = [hidden, lacking, sometimes]
    subscriptions = [Subscription(str(at), "sighting", view) for at, view in enumerate(views)]
    events = [
        {PLATE: "a", SPEED: 1},
        {PLATE: "b", SPEED: 1},
        {PLATE: "b", SPEED: 2},
        {PLATE: "a", SPEED: 2},
        {},
    ]
    types = ["sighting"] * len(events)
    expected = by_definition(subscriptions, events, types)
    assert by_join(spark, subscriptions, data_frame(spark, events, types)) == expected
    assert {key for key in expected if key[1] == "0"} == set()
    assert {key[0] for key in expected if key[1] == "2"} == {0, 1, 3, 4}


def test_keys_that_are_shuffled_find_what_keys_that_are_broadcast_find(spark, monkeypatch):
    subscriptions, events, types = cases(23, views=10, events=120)
    frame = data_frame(spark, events, types)
    broadcast = by_join(spark, subscriptions, frame)
    monkeypatch.setattr(bulk_matching, "BROADCAST_ROWS_MAX", 0)
    assert by_join(spark, subscriptions, frame) == broadcast
    assert broadcast == by_definition(subscriptions, events, types)


def test_no_peer_receives_anything_where_no_peer_subscribes(spark):
    frame = data_frame(spark, [{PLATE: "a"}], ["sighting"])
    assert by_join(spark, [], frame) == {}


def test_awkward_values_meet_in_keys(spark):
    """Every awkward value is asked for by an equality, and by a range that holds it alone."""
    events, subscriptions = [], []
    for uid, kind in STORED.items():
        for value in POOL[kind]:
            folded = value + 0.0 if isinstance(value, float) else value
            events.append({uid: folded})
            asked = Comparison(uid, Operator.EQ, folded)
            subscriptions.append(_of(f"eq {len(subscriptions)}", asked))
            if kind.is_ordered:
                both = AllOf(
                    tuple(Comparison(uid, operator, folded) for operator in (Operator.GE, Operator.LE))
                )
                subscriptions.append(_of(f"range {len(subscriptions)}", both))
    types = ["sighting"] * len(events)
    expected = by_definition(subscriptions, events, types)
    assert len(expected) >= len(subscriptions)
    assert by_join(spark, subscriptions, data_frame(spark, events, types)) == expected


def _of(name: str, predicate: Predicate) -> Subscription:
    return Subscription(name, "sighting", View((Window(predicate, ALL_ATTRIBUTES),)))
