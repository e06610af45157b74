"""A governed table of summaries shows whole periods of one right, and no question sees anything smaller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from maia.credentials import ALL_ATTRIBUTES, SignedCertificate, Transformation, TypeName, Validity, issue
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions.summary_text import parse_summary
from maia.testing.refusals import raises
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.governed import (
    ATTRIBUTES,
    NOON,
    OWNER,
    PLACE,
    SPEED,
    Recorded,
    at,
    between,
    governed,
    grant,
    reader,
)

TRAFFIC = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(OWNER.principal, "uk.gov.Traffic", "0"),
            None,
            (
                Attribute("area", AttributeUid("1"), Kind.STRING),
                Attribute("mean", AttributeUid("2"), Kind.FLOAT),
                Attribute("cars", AttributeUid("3"), Kind.INT),
                Attribute("hour", AttributeUid("4"), Kind.TIMESTAMP),
            ),
        ),
        OWNER,
    ),
    at=NOON,
    previous=None,
)
SUMMARY = parse_summary(
    "1 hour at least 2 late 60 seconds",
    ["area := first(location, 3)"],
    ["mean := mean(speed)", "cars := count()", "hour := period_start()"],
    {one.name: one for one in ATTRIBUTES},
    TRAFFIC.vocabulary,
)


def right(validity: Validity) -> SignedCertificate:
    plain = grant(validity=validity).certificate
    step = Transformation(OWNER.principal, (), ALL_ATTRIBUTES, result=TRAFFIC.name, summary=SUMMARY)
    return issue(replace(plain, authority=replace(plain.authority, transformations=(step,))), OWNER)


def test_a73_a_table_shows_whole_periods_of_one_right_and_hides_small_groups_from_every_question(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A73: what a user asks of a group is not asked of one that is too small to be shown."""
    log = Recorded(tmp_path / "log")
    cars = [{PLACE: "Victoria", SPEED: 30}, {PLACE: "Victoria", SPEED: 41}, {PLACE: "Ely", SPEED: 99}]
    for hour in range(-3, 6):
        log.publish(cars[1:], published_at=at(hour))
        log.publish(cars[:1], published_at=at(hour + 0.5))
    log.write()
    # Renewed at one o'clock, interrupted from half past two to half past three, over a little after five.
    held = (between(None, 1), between(1, 2.5), between(3.5, 5.01))
    known = {
        "log": str(tmp_path / "log"), "event_type": log.event_type, "shown_as": TRAFFIC,
        "reader": reader(*map(right, held)), "since": at(-1.5),
    }  # fmt: skip
    table = governed(spark, **known)
    rows = [(row.area, row.mean, row.cars) for row in table.orderBy("hour").collect()]
    # No half of an hour, and not the one at four: it is closed a minute after five, when the right is over.
    shown = [-1, 0, 1]
    assert rows == [("Vic", 35.5, 2)] * len(shown)
    hours = table.orderBy("hour").selectExpr("unix_micros(hour) AS hour").collect()
    assert [row.hour for row in hours] == [int(at(hour)) for hour in shown]

    loud = "if(area = 'Ely' or mean = 99.0, raise_error('seen'), true)"
    assert table.where(loud).count() == len(rows)
    assert table.where("if(cars = 1, raise_error('seen'), true)").select("cars").count() == len(rows)
    assert table.groupBy("area").count().where(loud.replace("mean", "0.0")).count() == 1
    for how in ({"is_stream": True}, {"with_meta": True}):
        with raises("INPUT-SUMMARY-OF-FRAMES"):
            governed(spark, **known, **how)
