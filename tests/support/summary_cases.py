"""Random summaries over random events, with the answer that `summarised` gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from maia.credentials import ALL_ATTRIBUTES, Transformation, TypeName
from maia.events import Attribute, AttributeUid, Instant, Kind, PresentValue, Value
from maia.expressions import Constant, Expression, Rule, TransformationKeys
from maia.expressions.summaries import Aggregate, Key, Measure, Summary
from maia.policy.view import View, Window, summarised
from maia.predicates.syntax import ALWAYS, Comparison, Operator
from support.view_cases import (
    ISSUER,
    KEYS,
    ROW,
    STORED,
    Batch,
    Typed,
    random_event,
    random_expression,
    random_predicate,
    random_transformation,
    typed,
)

CONVERTED: Final = TypeName(ISSUER.principal, "Converted", "0")
# Moments in three periods of any length that is tried, on both sides of 1970, and one that is not closed.
MOMENTS: Final = tuple(
    Instant(at) for at in (-30_000_001, -1, 0, 1, 4_999_999, 5_000_000, 59_999_999, 60_000_000, 3_599_999_999)
)
CLOSED_AT: Final = Instant(3_600_000_000)
SUMMARISED: Final = (
    *(Attribute(f"key{place}", AttributeUid(f"g{place}"), kind) for place, kind in enumerate(Kind)),
    Attribute("events", AttributeUid("n"), Kind.INT),
    Attribute("began", AttributeUid("t"), Kind.TIMESTAMP),
    Attribute("int", AttributeUid("i"), Kind.INT),
    Attribute("float", AttributeUid("f"), Kind.FLOAT),
    Attribute("moment", AttributeUid("at"), Kind.TIMESTAMP),
    Attribute("mean", AttributeUid("x"), Kind.FLOAT),
    Attribute("step", AttributeUid("y"), Kind.FLOAT),
    Attribute("absent", AttributeUid("z"), Kind.STRING),
)


def random_summary(random: Random, *, keyed: bool = True) -> Summary:
    """Return a summary that assigns some of the attributes in `SUMMARISED`."""

    def value(kind: Kind) -> Expression:
        return random_expression(random, kind, depth=random.choice((0, 0, 1, 2)), keyed=keyed)

    def measure(uid: str) -> Measure:
        pick = random.choice((Aggregate.MIN, Aggregate.MAX))
        match uid:
            case "n":
                return Measure(AttributeUid(uid), Aggregate.COUNT)
            case "t":
                return Measure(AttributeUid(uid), Aggregate.PERIOD_START)
            case "x":
                return Measure(AttributeUid(uid), Aggregate.MEAN, value(Kind.INT))
            case "y":
                step = random.choice((0.1, 0.5, 3.0, 1e-100, 1e100))
                return Measure(AttributeUid(uid), Aggregate.MEAN, value(Kind.FLOAT), step)
        kind = {"i": Kind.INT, "f": Kind.FLOAT, "at": Kind.TIMESTAMP}[uid]
        return Measure(AttributeUid(uid), pick, value(kind))

    keys = tuple(
        Key(AttributeUid(f"g{place}"), value(kind))
        for place, kind in enumerate(Kind)
        if random.random() < 0.25
    )
    measures = [measure(uid) for uid in ("n", "t", "i", "f", "at", "x", "y") if random.random() < 0.6]
    measures = measures or [measure("n")]
    late, least = random.choice((0, 1, 10)), random.choice((1, 1, 1, 2, 3, 5))
    return Summary(random.choice((1, 5, 60, 3600)), keys, tuple(measures), least, late)


def random_summarising_view(random: Random, *, keyed: bool = True) -> View:
    """Return a view that summarises, with and without steps before and behind, and an interest."""
    before = tuple(random_transformation(random, keyed=keyed) for _ in range(random.choice((0, 0, 1))))
    before = tuple(step for step in before if step.result is None)
    summary, uids = random_summary(random, keyed=keyed), [one.uid for one in SUMMARISED]
    shown = ALL_ATTRIBUTES if random.random() < 0.5 else frozenset(random.sample(uids, 9))
    restriction = random_predicate(random, depth=1) if random.random() < 0.3 else ALWAYS
    steps = [Transformation(ISSUER.principal, (), shown, restriction, CONVERTED, summary)]
    events = AttributeUid("n")
    few = Comparison(events, Operator.GT, 1)
    if random.random() < 0.3:
        steps.append(Transformation(ISSUER.principal, (Rule(events, Constant(9), few),)))
    admits = random_predicate(random, depth=1) if random.random() < 0.4 else ALWAYS
    interest = Comparison(events, Operator.GE, random.choice((2, 9))) if random.random() < 0.3 else ALWAYS
    window = Window(admits, ALL_ATTRIBUTES, (*before, *steps))
    return View((window,), interest, recipient=b"r" * 32)


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """Some views that summarise, and some events with the moments at which they were published."""

    views: tuple[View, ...]
    events: tuple[dict[AttributeUid, PresentValue], ...]
    moments: tuple[Instant, ...]
    delivered: tuple[Attribute, ...] = SUMMARISED
    stored: Mapping[AttributeUid, Kind] = field(default_factory=lambda: STORED)
    keys: TransformationKeys = KEYS

    @property
    def cases(self) -> int:
        """Return how many questions the batch puts."""
        return len(self.views) * len(self.events)

    @property
    def plain(self) -> Batch:
        """Return its events, for executors to store."""
        return Batch((), self.events, self.delivered, self.stored, self.keys)


def summary_batch(seed: int, *, views: int = 10, events: int = 60, keyed: float = 0.5) -> SummaryBatch:
    """Return views that summarise, and events with their moments, which come often enough to be grouped."""
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    some = [random_event(random, 0) for _ in range(max(4, events // 6))]
    return SummaryBatch(
        tuple(random_summarising_view(random, keyed=random.random() < keyed) for _ in range(views)),
        tuple({**random.choice(some), ROW: row} for row in range(events)),
        tuple(random.choice(MOMENTS) for _ in range(events)),
    )


Rows = list[tuple[Typed, ...]]
"""What a view that summarises shows: its events by the delivered attributes, in any order."""


def expected_rows(batch: SummaryBatch) -> list[Rows]:
    """Return the answers by the definition."""
    given = list(zip(batch.moments, batch.events, strict=True))
    return [
        rows_of(
            (
                {one.name: seen.get(one.uid) for one in batch.delivered}
                for _, seen in summarised(view, given, closed_at=CLOSED_AT, keys=batch.keys)
            ),
            batch.delivered,
        )
        for view in batch.views
    ]


def rows_of(events: Iterable[Mapping[str, Value]], delivered: tuple[Attribute, ...]) -> Rows:
    """Return events as rows, in one order."""
    return sorted((tuple(typed(event[one.name]) for one in delivered) for event in events), key=repr)
