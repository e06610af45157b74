"""A governed table shows what transformations make of recorded events, and its plan holds no secret."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from maia.canonical import write_advanced
from maia.credentials import ALL_ATTRIBUTES, Action, SignedCertificate, Transformation, TypeName, issue
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import TransformationKeys, parse_rule
from maia.keystore.key_files import write_guarded_file
from maia.keystore.lookup_tables import TransformationKeyFile
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence, see
from maia.predicates import parse_predicate
from maia.spark.governed.reader import ShownAsAnother
from maia.spark.governed.table import governed
from maia.types import TypeDefinition, from_transit, sign_definition, verify_definition
from support.governed import ATTRIBUTES, NOON, OWNER, Recorded, at, grant, reader, rows_of, sightings

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

    plan = table._jdf.queryExecution().toString()
    for hidden in (SECRET, SECRET.hex().encode()):
        assert hidden not in plan.encode()
        assert hidden not in pickle.dumps(secrets)
    with pytest.raises(ShownAsAnother):
        governed(spark, **known)
