"""D7: the closure as a table: computed in Spark, brought up to date, asked and compared."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    OnlineTest,
    SignedCertificate,
    TestKind,
    TypeName,
    Validity,
    certificate_to_bytes,
)
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.predicates.syntax import Comparison, Operator
from maia.spark.closure.reach import Reach
from maia.spark.closure.tables import (
    Closure,
    build,
    certificates_of,
    difference,
    open_closure,
    update,
    who_can,
)
from maia.testing.refusals import raises
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.chains import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    KEYS,
    NOON,
    OWNER,
    PEOPLE,
    SUBSCRIBE,
    TODAY,
    about,
    call,
    grant,
    k_of,
    named,
    types_of,
    uids,
)
from support.random_cases import usually


def typed(name: str):
    attributes = tuple(Attribute(one, one, Kind.INT) for one in "abc")
    definition = TypeDefinition(TypeName(OWNER, name, "0"), None, attributes)
    return verify_definition(sign_definition(definition, KEYS[OWNER]), at=NOON)


TYPES = [[typed("city.Air")], [typed("city.Noise")], [typed("county.Rain")]]


def on(pattern: str, *attributes: str, restriction=None):
    shown = uids(*attributes) if attributes else ALL_ATTRIBUTES
    terms = {} if restriction is None else {"restriction": restriction}
    return about(types_of(OWNER, pattern), SUBSCRIBE, shown, **terms)


LOUD = Comparison(AttributeUid("a"), Operator.GE, 60)
TESTED = UNBOUNDED.with_tests(OnlineTest(TestKind.CRL, ALICE))
POOL = [
    grant(OWNER, ALICE, on("city.*")),
    grant(ALICE, BOB, on("city.Noise", "a", "b", restriction=LOUD), validity=TODAY),
    grant(ALICE, named(ALICE, "team"), on("city.Air", "c"), final=True),
    call(ALICE, "team", CAROL),
    grant(OWNER, k_of(2, ALICE, BOB), on("county.*")),
    grant(ALICE, DAVE, on("county.*", "a")),
    grant(BOB, DAVE, on("county.*", "a", "b")),
    grant(ALICE, DAVE, on("city.Noise", "b"), validity=TESTED),
    grant(DAVE, CAROL, on("*")),
    grant(CAROL, PEOPLE[6], on("*")),  # Carol's grant by name is final, so this leads nowhere for city.Air
]


def as_bytes(pool: list[SignedCertificate]) -> list[bytes]:
    return [certificate_to_bytes(one) for one in pool]


def rows_of(closure: Closure) -> set[tuple[object, ...]]:
    rows = pq.read_table(closure.place / "rows").to_pylist()
    return {
        tuple(tuple(value) if isinstance(value, list) else str(value) for value in row.values())
        for row in rows
    }


@pytest.fixture(scope="module")
def empty(spark, tmp_path_factory) -> Closure:
    """The closure of no certificates: owners see what they own."""
    return build(spark, [], tmp_path_factory.mktemp("closure") / "empty", types=TYPES, at=NOON)


@pytest.fixture(scope="module")
def today(spark, tmp_path_factory) -> Closure:
    folder = tmp_path_factory.mktemp("closure") / "today"
    return build(spark, as_bytes(POOL), folder, types=TYPES, at=NOON)


def test_spark_computes_what_one_process_computes(empty, today, tmp_path):
    alone, _ = update(empty, tmp_path / "alone", added=as_bytes(POOL))
    assert rows_of(today) == rows_of(alone) != rows_of(empty)
    assert open_closure(today.place) == today


def test_rounds_of_joins_find_what_a_walk_finds(spark, empty, tmp_path):
    """D16: many chains to each holder, also through names that mean names."""
    chance = random.Random(16)  # noqa: S311 - repeatable
    people = PEOPLE[:8]
    pool = []
    for number in range(140):
        issuer, subject = chance.sample(people, 2)
        whom = named(issuer, chance.choice(["team", "ward"])) if number % 7 == 0 else subject
        pool.append(
            grant(
                OWNER if number < 25 else issuer,
                whom,
                on(
                    chance.choice(["city.*", "city.Air", "*"]),
                    *chance.sample("abc", chance.randrange(4)),
                    restriction=chance.choice([None, LOUD]),
                ),
                final=chance.random() < 0.2,
                validity=chance.choice([UNBOUNDED, TODAY, Validity(NOON, None)]),
                comment=str(number),
            )
        )
    for issuer in people:
        meant = chance.choice(people)
        for word in ("team", "ward"):
            pool.append(call(issuer, word, chance.choice([meant, named(meant, "team")])))
            pool.append(call(issuer, word, chance.choice(people), validity=TODAY))
    forged = SignedCertificate(pool[0].certificate, pool[0].body, pool[1].signature, pool[0].id)
    whole = as_bytes([*pool, *pool[:3], forged])
    pq.write_table(pa.table({"certificate": pa.array(whole[60:], pa.binary())}), tmp_path / "more.parquet")
    folder = tmp_path / "joined"
    table = str(tmp_path / "more.parquet")
    joined = build(spark, whole[:60], folder, types=TYPES, tables=[table], at=NOON)
    walked, _ = update(empty, tmp_path / "walked", added=whole)
    assert rows_of(joined) == rows_of(walked)
    assert len(rows_of(joined)) > 150
    assert sorted(one.name for one in folder.iterdir()) == ["closure.json", "pool", "rows"]


def test_a_closure_in_an_object_store_is_read_asked_and_brought_up_to_date(
    spark_in_store, empty, today, bucket, tmp_path, monkeypatch
):
    """D16: from folder to store, from store to store, from store to folder."""
    spark, scratch = spark_in_store, tmp_path / "scratch"
    scratch.mkdir()
    stored = build(spark, as_bytes(POOL), bucket / "today", types=TYPES, at=NOON, work=scratch)
    assert list(scratch.iterdir()) == []
    assert open_closure(str(bucket / "today").replace("s3:", "s3a:")) == stored
    shown = who_can(stored.rows(spark), type_name="city.Noise").collect()
    assert sorted(shown) == sorted(who_can(today.rows(spark), type_name="city.Noise").collect())
    assert difference(spark, today, stored).isEmpty()

    gone = as_bytes(POOL[4:5])  # a threshold about the county
    here, change = update(today, tmp_path / "here", removed=gone)
    assert (change.types, change.principals > 0) == (1, True)
    monkeypatch.setattr("maia.spark.closure.tables._FILE_BYTES", 1)  # a file for each batch
    there, _ = update(stored, bucket / "there", removed=gone)
    back, _ = update(there, tmp_path / "back", added=gone)
    assert rows_of(open_closure(tmp_path / "back")) == rows_of(back) == rows_of(today)
    less = difference(spark, stored, there)
    assert less.count() == difference(spark, today, here).count() > 0
    assert {row.change for row in less.collect()} == {"less"}
    up, _ = update(empty, bucket / "up", added=as_bytes(POOL))
    assert difference(spark, today, up).isEmpty()
    assert certificates_of(up) == certificates_of(today)


def test_of_a_closure_that_fails_nothing_is_left_in_the_store(spark_in_store, bucket):
    monday = bucket / "monday"
    with raises("INPUT-CLOSURE", match="is no closure"):
        open_closure(monday)

    def fails(title: str) -> None:
        if title == "copying to the place":
            monday.create("rows/type_no=0/part-of-another.parquet", b"")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(spark_in_store, [], monday, types=TYPES, at=NOON, step=fails)
    assert monday.listed(is_deep=True) == []
    build(spark_in_store, [], monday, types=TYPES[:1], at=NOON)
    for again in (build, update):
        given = (spark_in_store, []) if again is build else (open_closure(monday),)
        with raises("INPUT-CLOSURE", match="already there"):
            again(*given, monday, **({"types": TYPES, "at": NOON} if again is build else {}))


def test_a_row_names_period_restriction_tests_and_the_certificates_behind_it(spark, today):
    rows = today.rows(spark)
    found = who_can(rows, type_name="city.Noise", attribute="b").collect()
    by_principal = {bytes(row["principal"]): row for row in found}
    assert set(by_principal) == {one.key for one in (OWNER, ALICE, BOB, DAVE, CAROL, PEOPLE[6])}
    bob = by_principal[BOB.key]
    assert (bob["where"], bob["since"] is None, [bytes(one) for one in bob["certificates"]]) == (
        "a >= 60",
        False,
        [POOL[0].id, POOL[1].id],
    )
    assert by_principal[DAVE.key]["tests"] == [f"crl by {ALICE}"]
    assert by_principal[OWNER.key]["certificates"] == []
    # Two of two members grant Dave an attribute in common, and no other.
    rain = {
        row["uid"]
        for row in who_can(rows, type_name="county.Rain").collect()
        if bytes(row["principal"]) == DAVE.key
    }
    assert rain == {"a"}
    # A name means Carol, whose grant is final.
    air = {bytes(row["principal"]) for row in who_can(rows, type_name="city.Air").collect()}
    assert air == {OWNER.key, ALICE.key, CAROL.key}


def test_who_can_is_asked_of_a_moment(spark, today):
    from datetime import UTC, datetime

    tomorrow = datetime(2026, 11, 16, 12, tzinfo=UTC)
    noise = {"type_name": "city.Noise", "attribute": "a"}
    now = {bytes(row["principal"]) for row in who_can(today.rows(spark), **noise).collect()}
    then = {bytes(row["principal"]) for row in who_can(today.rows(spark), **noise, at=tomorrow).collect()}
    assert now - then == {BOB.key}


def test_after_a_change_the_difference_is_what_depends_on_it(spark, today, tmp_path):
    gone, came = POOL[7], grant(BOB, PEOPLE[7], on("city.Noise", "a"))
    after, changed = update(today, tmp_path / "after", added=as_bytes([came]), removed=as_bytes([gone]))
    assert changed.types == 1
    found = {
        (row["change"], bytes(row["principal"]), row["uid"])
        for row in difference(spark, today, after).collect()
    }
    assert found == {
        ("more", PEOPLE[7].key, "a"),
        *(("less", one.key, "b") for one in (DAVE, CAROL, PEOPLE[6])),
    }
    with raises("INPUT-CLOSURE"):
        update(today, tmp_path / "after")


def test_of_the_past_a_revoked_certificate_counts_until_it_was_revoked():
    """D6: what was delivered after a revocation is explained by nothing."""
    wide, narrow = grant(OWNER, ALICE, on("city.*")), grant(OWNER, ALICE, on("city.*", "a"))
    passed_on = grant(ALICE, BOB, on("city.*"))
    before = Instant(NOON - 1)
    reach = Reach(TYPES[0][0], [wide, narrow, passed_on], at=NOON, ends={wide.id: before})
    found = {
        (one.principal, frozenset(each.uid for each in one.sight.attributes), one.period.not_after)
        for one in reach.grants()
        if one.principal != OWNER
    }
    everything, only = frozenset("abc"), frozenset("a")
    assert found == {(one, *rest) for one in (ALICE, BOB) for rest in ((everything, before), (only, None))}


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(2, laws=6)))
def test_updates_one_after_the_other_end_where_computing_anew_does(empty, tmp_path, seed):
    """Certificates come and go in any order, names and thresholds among them in half of the runs."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    people = PEOPLE[:8]
    pool = {one.id: one for one in POOL if seed % 2 or one.certificate.subject in people}
    closure, _ = update(empty, tmp_path / "0", added=as_bytes(list(pool.values())))
    for number in range(1, 8):
        gone = chance.sample(sorted(pool), k=min(len(pool), chance.randrange(3)))
        issuer, subject = chance.sample(people, 2)
        came = [
            grant(
                issuer,
                subject,
                on(chance.choice(["city.*", "city.Air", "*"]), *chance.sample("abc", chance.randrange(4))),
                final=chance.random() < 0.3,
                validity=chance.choice([UNBOUNDED, TODAY, Validity(NOON, None)]),
                comment=str(number),
            )
            for _ in range(chance.randrange(3))
        ]
        removed = [pool.pop(one) for one in gone]
        pool |= {one.id: one for one in came}
        closure, _ = update(closure, tmp_path / str(number), added=as_bytes(came), removed=as_bytes(removed))
    anew, _ = update(empty, tmp_path / "anew", added=as_bytes(list(pool.values())))
    assert rows_of(closure) == rows_of(anew)
    assert Path(closure.place, "closure.json").stat().st_mode & 0o077 == 0
