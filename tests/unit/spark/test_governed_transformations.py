"""A governed table shows what transformations make of recorded events, and its plan holds no secret."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import msgspec
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
from maia.credentials.identity import pack_identity
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind
from maia.expressions import TransformationKeys, parse_rule
from maia.keystore.key_files import write_guarded_file
from maia.keystore.lookup_tables import TransformationKeyFile
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence, see
from maia.policy.view_bytes import class_of, view_to_bytes
from maia.predicates import parse_predicate
from maia.spark.closure.what_if import Affected, compare
from maia.spark.governed.arrow_table import ArrowTable
from maia.spark.governed.reader import ReaderIdentity, slices_of
from maia.testing.refusals import raises
from maia.types import TypeDefinition, VerifiedType, from_transit, sign_definition, verify_definition
from maia.wire.messages import Author, CarriedWithAuthor, Released
from support.coalition import TRUST, statement
from support.governed import (
    ATTRIBUTES,
    CAMERA,
    NOON,
    OWNER,
    PLACE,
    PLATE,
    READER,
    SEEN,
    SPEED,
    Recorded,
    asked,
    at,
    between,
    decided,
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


def transforming(*rules: str, converts: bool = True, into: VerifiedType = COUNTED) -> SignedCertificate:
    """Return the reader's right to what some rules make of a sighting."""
    plain = grant(restriction='location != "Madingley"').certificate
    made = tuple(parse_rule(text, VOCABULARY, into.vocabulary if converts else None) for text in rules)
    result = into.name if converts else None
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


def test_what_a_border_has_converted_is_shown_beside_what_is_converted_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    """X7: the uids of the type that it became may be those of other attributes of the type it was made of."""
    named = {"area": PLACE, "car": AttributeUid("1"), "speed": SEEN, "hour": AttributeUid("4")}
    attributes = tuple(replace(one, uid=named[one.name]) for one in COUNTED.attributes)
    signed = sign_definition(replace(COUNTED.definition, attributes=attributes), OWNER)
    counted = verify_definition(signed, at=NOON, previous=None)
    right = transforming("area := first(location, 3)", "speed := speed when speed < 50", into=counted)
    log = Recorded(tmp_path / "log")
    known = {"log": str(tmp_path / "log"), "event_type": log.event_type, "reader": reader(right)}
    request = Request(READER.principal, Action.SUBSCRIBE, log.event_type.name, log.event_type)
    (one,) = slices_of(request, known["reader"], since=NOON, until=NOON)
    here, there = sightings(12), sightings(12, 20)
    log.publish(here)
    seen = [see(one.view, {u: v for u, v in event.items() if v is not None}) for event in (*here, *there)]
    shown = [event for event in seen if event is not None]
    behind = [event for event in seen[12:] if event is not None]
    for mark in (class_of(view_to_bytes(one.view)), b"another class..."):
        plain = log.publish(behind, kinds=counted.kinds)
        told = {name: getattr(plain, name) for name in plain.__struct_fields__}
        log.frames[-1] = Released(**told, author=Author(b"", b""), view=mark, origin=b"of the publisher")
    log.write()
    expected = sorted((from_transit(event, counted) for event in shown), key=repr)
    assert len(behind) == 8
    assert rows_of(governed(spark, shown_as=counted, **known)) == expected
    arrow = ArrowTable(
        decided(shown_as=counted, **{k: v for k, v in known.items() if k != "log"}), log=known["log"]
    )
    assert sorted(arrow.read().to_pylist(), key=repr) == expected


def test_what_was_released_for_an_organisation_and_for_its_member_is_shown_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """X7: a broker that had lost its own right for a moment has recorded what was sent for its member."""
    office = key_of("office")
    above = issue(
        replace(grant(office, [PLATE, PLACE]).certificate, subject=office.principal, may_delegate=True), OWNER
    )
    less = replace(grant(restriction='location != "Soho"').certificate, issuer=office.principal)
    member = reader(above, issue(less, office))
    log, marks = Recorded(tmp_path / "log"), []
    for who in (office.principal, READER.principal):
        request = Request(who, Action.SUBSCRIBE, log.event_type.name, log.event_type)
        (one,) = slices_of(request, member, since=NOON, until=NOON)
        marks.append(one.view)
    events = sightings(12)
    for sequence, view in ((0, marks[0]), (0, marks[1]), (1, marks[0])):
        seen = [see(view, {u: v for u, v in event.items() if v is not None}) for event in events]
        numbers = [row for row, event in enumerate(seen) if event is not None]
        plain = log.publish([event for event in seen if event is not None])
        told = {name: getattr(plain, name) for name in plain.__struct_fields__}
        told |= {"sequence": sequence, "kept": numbers}
        mark = class_of(view_to_bytes(view))
        log.frames[-1] = Released(**told, author=Author(b"", b""), view=mark, origin=b"of the publisher")
    log.write()
    known = {"event_type": log.event_type, "reader": member}
    shown = [{"numberplate": one.get(PLATE), "location": one.get(PLACE)} for one in events]
    expected = sorted((one for one in shown * 2 if one["location"] not in ("Soho", None)), key=repr)

    def parts(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(({name: row[name] for name in shown[0]} for row in rows), key=repr)

    assert expected
    assert parts(ArrowTable(decided(**known), log=str(tmp_path / "log")).read().to_pylist()) == expected
    assert parts(rows_of(governed(spark, log=str(tmp_path / "log"), **known))) == expected


def test_rules_ask_about_publishers_as_they_do_at_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """X9: what counts is the statement that came with a frame, verified for its publisher and its moment."""
    right = transforming("location := first(location, 1) when not publisher.clearance >= 3", converts=False)
    log = Recorded(tmp_path / "log")
    since, forger = Instant(NOON - 60 * SECOND), key_of("forger")
    said = {
        "high": statement(CAMERA, {"clearance": 3}, since=since),
        "low": statement(CAMERA, {"clearance": 1}, since=since),
        "another kind": statement(CAMERA, {"clearance": "3"}, since=since),
        "of another": statement(READER, {"clearance": 3}, since=since),
        "not believed": statement(CAMERA, {"clearance": 3}, since=since, provider=forger),
        "over": statement(CAMERA, {"clearance": 3}, since=since, life_s=30),
    }
    claimed = log.publish([{PLATE: "claimed", PLACE: "Soho", SPEED: 3}])
    claimed.columns[:] = [
        msgspec.structs.replace(one, uid="publisher.clearance") if one.uid == SPEED else one
        for one in claimed.columns
    ]
    for plate, one in said.items():
        plain = log.publish([{PLATE: plate, PLACE: "Soho"}])
        told = {name: getattr(plain, name) for name in plain.__struct_fields__}
        log.frames[-1] = CarriedWithAuthor(**told, author=Author(pack_identity(one), b""))
    log.write()
    known = {"event_type": log.event_type, "reader": reader(right, identity=ReaderIdentity(TRUST))}
    expected = dict.fromkeys((*said, "claimed")) | {"high": "Soho", "low": "S"}

    def places(rows: list[dict[str, object]]) -> dict[object, object]:
        assert all(row.keys() == {one.name for one in ATTRIBUTES} for row in rows)
        return {row["numberplate"]: row["location"] for row in rows}

    assert places(rows_of(governed(spark, log=str(tmp_path / "log"), **known))) == expected
    arrow = ArrowTable(decided(**known), log=str(tmp_path / "log"))
    assert places(arrow.read().to_pylist()) == expected
    known["reader"] = reader(right)
    nobody = ArrowTable(decided(**known), log=str(tmp_path / "log"))
    assert set(places(nobody.read().to_pylist()).values()) == {None}, "no provider is believed"
    rule = 'speed := speed when publisher.clearance >= 3 or publisher.clearance == "3"'
    with raises("PIPELINE-UNKNOWN-TERMS", match="two kinds"):
        decided(**(known | {"reader": reader(transforming(rule, converts=False))}))


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
