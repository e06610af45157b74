"""D6: questions to a random ledger have the answers that loops over its rows give."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from maia.ledger.parquet import SCHEMA
from maia.spark.closure.tables import ROWS
from maia.spark.disclosures import (
    by_rule,
    first_sights,
    no_longer_permitted,
    unexplained,
    unusual_volume,
    what_saw,
    who_saw,
)

BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
ATTRIBUTES = ("patient", "value", "ward")
PEOPLE, LABS, RULES, TYPE = [b"p%d" % n for n in range(4)], [b"a", b"b"], [b"r1", b"r2", b"r3"], b"t"


def ledger_rows(seed: int = 5, frames: int = 300):
    rng = random.Random(seed)  # noqa: S311 - repeatable
    for number in range(frames):
        for person in rng.sample(PEOPLE, rng.randint(0, 3)):
            first = rng.randint(0, 8)
            yield {
                "delivered_at": BEGAN + timedelta(hours=number),
                "broker": b"b",
                "recipient": person,
                "type_id": TYPE,
                "version_id": b"v",
                "view": b"w",
                "certificates": sorted(rng.sample(RULES, rng.randint(1, 2))),
                "publisher": rng.choice(LABS),
                "stream": b"s",
                "sequence": number,
                "first_row": first,
                "last_row": first + rng.randint(0, 3),
                "attributes": sorted(rng.sample(ATTRIBUTES, rng.randint(1, 3))),
            }


def rows_of(row):
    return range(row["first_row"], row["last_row"] + 1)


def in_spark(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), SCHEMA))


def answers(frame, *names):
    return {
        tuple(row[name] if name != "attributes" else tuple(row[name]) for name in names)
        for row in frame.collect()
    }


def test_who_saw_joins_each_row_of_each_event_once(spark):
    rows = list(ledger_rows())
    again = [*rows, *rows[:40]]  # delivered again, by another broker
    wanted = {(lab, b"s", number, 5) for lab in LABS for number in range(0, 300, 3)}
    fields = [
        ("_publisher", pa.binary()),
        ("_stream", pa.binary()),
        ("_sequence", pa.int64()),
        ("_row", pa.int32()),
    ]
    names = [name for name, _ in fields]
    events = spark.createDataFrame(
        pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in wanted], pa.schema(fields))
    )
    expected = defaultdict(set)
    for row in rows:
        for number in rows_of(row):
            event = (row["publisher"], row["stream"], row["sequence"], number)
            if event in wanted:
                expected[row["recipient"]].add(event)
    found = answers(who_saw(in_spark(spark, again), events), "recipient", "events")
    assert found == {(person, len(seen)) for person, seen in expected.items()}


def test_what_saw_and_by_rule_add_up(spark):
    rows = list(ledger_rows())
    mine, rules = Counter(), Counter()
    for row in rows:
        if row["recipient"] == PEOPLE[0]:
            mine[row["publisher"], tuple(row["attributes"])] += len(rows_of(row))
        for rule in row["certificates"]:
            rules[rule] += len(rows_of(row))
    table = in_spark(spark, rows)
    seen = answers(what_saw(table, PEOPLE[0]), "publisher", "attributes", "deliveries")
    assert seen == {(*key, count) for key, count in mine.items()}
    assert answers(by_rule(table), "certificate", "deliveries") == set(rules.items())


def test_a_first_sight_and_an_unusual_day_are_found_and_usual_ones_are_not(spark):
    rows = [
        row for row in ledger_rows() if row["recipient"] != PEOPLE[3] or "patient" not in row["attributes"]
    ]
    late = BEGAN + timedelta(days=12)
    usual = in_spark(spark, rows)
    assert not first_sights(usual, since=late).collect()
    assert not unusual_volume(usual, times=8).collect()
    odd = {
        **rows[0],
        "recipient": PEOPLE[3],
        "delivered_at": late,
        "first_row": 0,
        "last_row": 400,
        "attributes": ["patient"],
    }
    found = in_spark(spark, [*rows, odd])
    assert answers(first_sights(found, since=late), "recipient", "attribute") == {(PEOPLE[3], "patient")}
    assert answers(unusual_volume(found, times=8), "recipient", "day") == {(PEOPLE[3], late.date())}


def test_what_no_right_explains_or_permits_is_found_by_a_join_with_the_closure(spark):
    """Rights of random people, attributes and periods, against a loop over deliveries and rights."""
    rng = random.Random(7)  # noqa: S311 - repeatable
    empty = dict.fromkeys(ROWS.names, "") | {"tests": [], "certificates": [], "may_delegate": False}
    moments = [None, *(BEGAN + timedelta(hours=100 * n) for n in range(4))]
    rights = [
        empty | {"principal": who, "type_id": TYPE, "uid": uid, "since": rng.choice(moments), "until": end}
        for who in PEOPLE
        for uid in rng.sample(ATTRIBUTES, 2)
        for end in rng.sample(moments[2:], rng.randint(0, 2))
    ]
    rows, today = list(ledger_rows()), BEGAN + timedelta(hours=250)

    def expected(moment_of):
        found = Counter()
        for row in rows:
            at = moment_of(row)
            for uid in row["attributes"]:
                covered = any(
                    (one["principal"], one["uid"]) == (row["recipient"], uid)
                    and (one["since"] is None or one["since"] <= at)
                    and (one["until"] is None or at <= one["until"])
                    for one in rights
                )
                if not covered:
                    found[row["recipient"], uid] += len(rows_of(row))
        return {(*key, count) for key, count in found.items()}

    closure = spark.createDataFrame(pa.Table.from_pylist(rights, ROWS))
    table, columns = in_spark(spark, rows), ("recipient", "attribute", "deliveries")
    past = answers(unexplained(table, closure), *columns)
    gone = answers(no_longer_permitted(table, closure, at=today), *columns)
    assert past == expected(lambda row: row["delivered_at"]) != set()
    assert gone == expected(lambda row: today) != past
