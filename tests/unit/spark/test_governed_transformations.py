"""A governed table shows what transformations make of recorded events, and its plan holds no secret."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from maia.canonical import write_advanced
from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    SignedCertificate,
    Transformation,
    TypeName,
    Validity,
    issue,
)
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import TransformationKeys, parse_rule
from maia.keystore.key_files import write_guarded_file
from maia.keystore.lookup_tables import TransformationKeyFile
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence, see
from maia.predicates import parse_predicate
from maia.spark.closure.what_if import Affected, compare
from maia.spark.governed.reader import slices_of
from maia.testing.refusals import raises
from maia.types import TypeDefinition, from_transit, sign_definition, verify_definition
from support.governed import (
    ATTRIBUTES,
    NOON,
    OWNER,
    READER,
    Recorded,
    asked,
    at,
    between,
    governed,
    grant,
    key_of,
    reader,
    rows_of,
    sightings,
)
from support.spark import execution_of

SECRET = bytes(range(100, 132))
KEYS = TransformationKeys({OWNER.principal.key: SECRET})
VOCABULARY = {one.name: one for one in ATTRIBUTES}
COUNTED = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(OWNER.principal, "uk.gov.Count", "0"),
            None,
            (
                Attribute("car", AttributeUid("1"), Kind.STRING),
                Attribute("area", AttributeUid("2"), Kind.STRING),
                Attribute("speed", AttributeUid("3"), Kind.INT),
                Attribute("hour", AttributeUid("4"), Kind.INT),
            ),
        ),
        OWNER,
    ),
    at=NOON,
    previous=None,
)


def transforming(*rules: str, converts: bool = True) -> SignedCertificate:
    """Return the reader's right to what some rules make of a sighting."""
    plain = grant(restriction='location != "Madingley"').certificate
    made = tuple(parse_rule(text, VOCABULARY, COUNTED.vocabulary if converts else None) for text in rules)
    result = COUNTED.name if converts else None
    step = Transformation(OWNER.principal, made, ALL_ATTRIBUTES, result=result)
    authority = replace(plain.authority, transformations=(step,))
    return issue(replace(plain, authority=authority), OWNER)


RIGHT = transforming(
    "car := pseudonym(numberplate)",
    "area := first(location, 3)",
    "speed := bucket(speed, 10) when speed < 50",
    "hour := hour_of(seen)",
)


@pytest.fixture
def secrets(tmp_path: Path) -> TransformationKeyFile:
    path = tmp_path / "transformations.key"
    key = (b"key", (b"issuer", (b"ed25519", OWNER.principal.key)), (b"secret", SECRET))
    text = write_advanced((b"maia-transformation-keys", (b"version", b"1"), key))
    write_guarded_file(path, text + "\n")
    return TransformationKeyFile(str(path))


def test_a92_a_governed_table_gives_the_noise_and_pseudonyms_of_the_stream(
    spark: SparkSession, tmp_path: Path, secrets: TransformationKeyFile
) -> None:
    """A92: the table shows what the kernel shows, so reading again in Spark averages and links nothing.

    A93: the filter is asked of the outcome. The secret is in no plan, in no pickled function, in no error.
    """
    log = Recorded(tmp_path / "log")
    events = sightings(40)
    log.publish(events)
    log.write()
    known = {
        "log": str(tmp_path / "log"), "event_type": log.event_type, "reader": reader(RIGHT),
        "since": at(-1), "until": at(1),
    }  # fmt: skip
    wanted = 'area == "Vic" and speed >= 10'
    table = governed(spark, shown_as=COUNTED, transformation_keys=secrets, filter=wanted, **known)

    who = known["reader"]
    on_outcome = parse_predicate(wanted, COUNTED.vocabulary)
    request = Request(who.principal, Action.SUBSCRIBE, log.event_type.name, log.event_type, on_outcome)
    permit = decide(request, gather_evidence(request, [RIGHT], at=NOON), NO_FACTS, NOON)
    assert isinstance(permit, Permit)
    shown = [see(permit.view, {u: v for u, v in one.items() if v is not None}, KEYS) for one in events]
    expected = [from_transit(one, COUNTED) for one in shown if one is not None]
    assert len(expected) > 5
    assert rows_of(table) == sorted(expected, key=repr)

    plan = execution_of(table).toString()
    for hidden in (SECRET, SECRET.hex().encode()):
        assert hidden not in plan.encode()
        assert hidden not in pickle.dumps(secrets)
    with raises("INPUT-SHOWN-AS"):
        governed(spark, **known)


def chained(*validities: Validity) -> tuple[SignedCertificate, ...]:
    """Return a right that three links have made smaller, each by rules of its own about what it sees."""
    holders = [OWNER, key_of("city"), key_of("town"), READER]
    rules = (
        ("speed := speed * speed / 3 when speed > 5", "location := upper(location)"),
        ("speed := (speed + 1) * (speed - 1) / 2", 'location := none when location == "VICTORIA"'),
        ("speed := speed - speed / 7 when speed < 900", "numberplate := first(numberplate, 4)"),
    )
    links = []
    for issuer, holder, texts in zip(holders, holders[1:], rules, strict=False):
        step = Transformation(issuer.principal, tuple(parse_rule(text, VOCABULARY, None) for text in texts))
        last = holder is READER
        for validity in validities if last else (UNBOUNDED,):
            plain = grant(holder, validity=validity).certificate
            authority = replace(plain.authority, transformations=(step,))
            body = replace(plain, issuer=issuer.principal, may_delegate=not last, authority=authority)
            links.append(issue(body, issuer))
    return tuple(links)


def test_a_chain_of_three_links_with_rules_is_a_table_a_stream_of_periods_and_a_what_if(
    spark: SparkSession, tmp_path: Path
) -> None:
    """I3: what brokers show of a chain, tables, streams and comparisons show."""
    log = Recorded(tmp_path / "log")
    events = sightings(60)
    for moment in (at(0), at(5)):
        log.publish(events, published_at=moment)
    log.write()
    who = reader(*chained(between(-1, 1), between(4, 6)))
    known = {"log": str(tmp_path / "log"), "event_type": log.event_type, "reader": who}
    periods = slices_of(asked(who, log.event_type), who)
    expected = [see(periods[0].view, {u: v for u, v in one.items() if v is not None}) for one in events] * 2
    named = sorted((from_transit(one, log.event_type) for one in expected if one is not None), key=repr)
    assert len({row["speed"] for row in named}) > 30
    assert rows_of(governed(spark, **known)) == named
    stream = governed(spark, **known, is_stream=True)
    query = stream.writeStream.format("memory").queryName("chained").trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert rows_of(spark.table("chained")) == named

    asker = reader(who=OWNER)
    table = governed(spark, **{**known, "reader": asker}, with_meta=True)
    everything = frozenset(one.uid for one in ATTRIBUTES)
    (outcome,) = compare(
        table,
        log.event_type,
        [Affected(READER.principal, (), periods, False)],
        readable=everything,
        examples=0,
    )
    assert (outcome.rows_before, outcome.rows_after) == (0, len(named))
