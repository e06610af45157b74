"""What do transformations cost, at the broker's edge and in Spark?

Both sides of the first case hand frames of 256 prescriptions to a class of one
subscriber, from the matched frame to the bytes that leave. One View shows four
attributes as they are; the other makes three of them: a prefix, a multiple and
a pseudonym. In Spark the same View without the pseudonym, whose key must not be
in a plan, races against columns that were written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Benchmark, Case, Race, Ratio, Side, at_least, at_most
from maia.broker.publication.transit import Transit
from maia.broker.subscriptions.identity_classes import LinkIdentities
from maia.broker.subscriptions.local_subscribers import LocalSubscribers, class_key
from maia.credentials import SigningKey, Transformation, TypeName
from maia.events import Attribute, AttributeUid, Column, Frame, Instant, Kind
from maia.expressions import TransformationKeys, parse_rule
from maia.policy.view import View, Window
from maia.predicates import ALWAYS
from maia.types import TypeDefinition, sign_definition, verify_definition
from maia.wire.effects import LinkId

NOW = Instant.parse("2026-11-15T12:00:00Z")
HOSPITAL = SigningKey.from_seed(b"\x01" * 32)
IDENTITIES = LinkIdentities()
KEYS = TransformationKeys({HOSPITAL.principal.key: b"\x02" * 32})
PATIENT, PLACE, DOSE, DRUG = (AttributeUid(uid) for uid in ("1", "2", "3", "4"))
ATTRIBUTES = (
    Attribute("patient", PATIENT, Kind.STRING),
    Attribute("place", PLACE, Kind.STRING),
    Attribute("dose", DOSE, Kind.FLOAT),
    Attribute("drug", DRUG, Kind.STRING),
)
PRESCRIBE = verify_definition(
    sign_definition(
        TypeDefinition(TypeName(HOSPITAL.principal, "nhs.Prescribe", "0"), None, ATTRIBUTES), HOSPITAL
    ),
    at=NOW,
    previous=None,
)
ROWS = 256


def view(*rules: str) -> View:
    """Return the View of all four attributes after some rules."""
    made = tuple(parse_rule(text, PRESCRIBE.vocabulary) for text in rules)
    steps = (Transformation(HOSPITAL.principal, made),) if made else ()
    return View((Window(ALWAYS, frozenset(PRESCRIBE.kinds), steps),), recipient=b"r" * 32)


def frame(rows: int) -> Frame:
    """Return some prescriptions."""
    columns = {
        PATIENT: Column(Kind.STRING, tuple(f"patient {n % 97}" for n in range(rows))),
        PLACE: Column(Kind.STRING, tuple(f"CB{n % 7} 0FD" for n in range(rows))),
        DOSE: Column(Kind.FLOAT, tuple(n * 0.37 for n in range(rows))),
        DRUG: Column(Kind.STRING, tuple("morphine" for _ in range(rows))),
    }
    return Frame(rows, columns)


def edge(shown: View) -> Side:
    """Return the delivery of one frame to a class of one subscriber."""
    audience = LocalSubscribers(KEYS)
    audience.join(class_key(shown, PRESCRIBE), shown, PRESCRIBE, (LinkId(1), 1))
    given = frame(ROWS)

    def deliver() -> int:
        transit = Transit(PRESCRIBE.type_id, HOSPITAL.principal, b"s" * 16, 1, int(NOW), given)
        return sum(1 for _ in audience.deliver(transit, IDENTITIES, NOW))

    assert deliver() == 1
    return Side(run=deliver, operations=ROWS)


def cases(quick: bool) -> Iterator[Case]:
    """Yield the edge's delivery, and Spark's columns."""
    rules = ("place := first(place, 2)", "dose := round_to(dose, 5.0)")
    transforming = edge(view(*rules, "patient := pseudonym(patient)"))
    plain = edge(view())
    yield Race(
        "delivery at the edge, three transformations against none (a plain View moves columns untouched)",
        transforming,
        plain,
        Ratio.PEER_OVER_OURS,
        at_least(0.7),
    )
    yield from in_spark(rules, 10_240 if quick else 2_048_000, quick=quick)


def in_spark(rules: tuple[str, ...], rows: int, *, quick: bool) -> Iterator[Case]:
    """Yield the View's columns against the same written by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

    from bench_spark import bench_session
    from maia.views.to_spark import to_spark

    with bench_session("transformations", quick=quick) as spark, TemporaryDirectory() as folder:
        path = str(Path(folder) / "events.parquet")
        given = frame(ROWS)
        repeated = {uid: list(one.values) * (rows // ROWS) for uid, one in given.columns.items()}
        pq.write_table(pa.table(repeated), path)
        events = spark.read.parquet(path)
        ours = to_spark(view(*rules), PRESCRIBE.kinds, ATTRIBUTES)

        def by_hand(table: DataFrame) -> DataFrame:
            return table.select(
                F.col("1").alias("patient"),
                F.substring(F.col("2"), 1, 2).alias("place"),
                (F.rint(F.col("3") / F.lit(5.0)) * F.lit(5.0)).alias("dose"),
                F.col("4").alias("drug"),
            )

        def written(table: DataFrame) -> None:
            table.write.format("noop").mode("overwrite").save()

        yield Race(
            "a View with two transformations in Spark, against hand-written Catalyst",
            Side(run=lambda: written(ours.of(events)), operations=rows),
            Side(run=lambda: written(by_hand(events)), operations=rows),
            Ratio.OURS_OVER_PEER,
            at_most(1.05),
        )


BENCH = Benchmark(
    number=30,
    name="transformations",
    about="a View with transformations, against one without, and against columns by hand in Spark",
    cases=cases,
)
