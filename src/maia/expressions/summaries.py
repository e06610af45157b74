"""What do many events come to in a period of time: how many, the least, the greatest, the mean?

    per area := first(place, 3)
    every 5 minutes at least 5 late 10 seconds
    set mean_level := mean(level, 0.1)
    set readings := count()
    set begins := period_start()

Periods follow each other in UTC from 1970 on, and an event belongs to the one in which it was
published. It is closed a while after its end (`late_s`): events that arrive later are not counted.
Groups of fewer than `at_least` events are left out, and so is what is calculated from fewer values.

The answer does not depend on the order of the events, in any executor. Sums are therefore of whole
numbers: the mean of floats is that of multiples of a stated step. An event without a value for one of the
keys is in no group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from maia.events import SECOND, AttributeUid, Event, Instant, Kind, PresentValue, Value
from maia.expressions.meaning import in_float_range
from maia.expressions.syntax import (
    FLOAT_STEP_MAX,
    FLOAT_STEP_MIN,
    RULES_MAX,
    BadExpression,
    Expression,
    Rule,
    Scope,
    expression_size,
    is_keyed,
    reads_of,
)

EVERY_S_MAX: Final = 7 * 86_400
LATE_S_DEFAULT: Final = 10
LATE_S_MAX: Final = 3600
AT_LEAST_MAX: Final = 1_000_000
STEPS_WIDTH: Final = 2**53
"""A float of more steps than this has no exact number of them, and is left out of a mean."""


class Aggregate(Enum):
    """What is calculated from the events of one group."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    PERIOD_START = "period_start"


_OVER: Final[dict[Aggregate, frozenset[Kind]]] = {
    Aggregate.MIN: frozenset({Kind.INT, Kind.FLOAT, Kind.TIMESTAMP}),
    Aggregate.MAX: frozenset({Kind.INT, Kind.FLOAT, Kind.TIMESTAMP}),
    Aggregate.MEAN: frozenset({Kind.INT, Kind.FLOAT}),
}
_RESULTS: Final = {
    Aggregate.COUNT: Kind.INT,
    Aggregate.MEAN: Kind.FLOAT,
    Aggregate.PERIOD_START: Kind.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One of the values by which events are grouped, and the attribute that it is in the outcome."""

    uid: AttributeUid
    value: Expression


@dataclass(frozen=True, slots=True)
class Measure:
    """One attribute of the outcome: what is calculated, from which value of each event, in which steps."""

    uid: AttributeUid
    aggregate: Aggregate
    value: Expression | None = None
    step: float | None = None
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        name, kinds = self.aggregate.value, _OVER.get(self.aggregate)
        if kinds is None:
            if self.value is not None or self.step is not None:
                raise BadExpression(f"`{name}()` takes nothing")
            object.__setattr__(self, "kind", _RESULTS[self.aggregate])
            return
        if self.value is None or self.value.kind not in kinds:
            listed = ", ".join(sorted(kind.value for kind in kinds))
            raise BadExpression(f"`{name}` takes one value of kind {listed}")
        is_stepped = self.aggregate is Aggregate.MEAN and self.value.kind is Kind.FLOAT
        if is_stepped and (type(self.step) is not float or not FLOAT_STEP_MIN <= self.step <= FLOAT_STEP_MAX):
            raise BadExpression(
                "the mean of floats is taken in steps, so that their order does not matter: "
                "`mean(level, 0.01)`"
            )
        if not is_stepped and self.step is not None:
            raise BadExpression(f"`{name}` of {self.value.kind.value}s takes no step")
        object.__setattr__(self, "kind", _RESULTS.get(self.aggregate, self.value.kind))


@dataclass(frozen=True, slots=True)
class Summary:
    """Events of one period that agree in all keys become one event."""

    every_s: int
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    at_least: int = 1
    late_s: int = LATE_S_DEFAULT

    @property
    def kinds(self) -> dict[AttributeUid, Kind]:
        """Return the attributes of the outcome."""
        return {
            **{key.uid: key.value.kind for key in self.keys},
            **{measure.uid: measure.kind for measure in self.measures},
        }

    @property
    def inputs(self) -> tuple[Rule, ...]:
        """Return what is taken from each event, as rules that make another event of it: `k0`, `m0`, …"""
        keys = [Rule(AttributeUid(f"k{place}"), key.value) for place, key in enumerate(self.keys)]
        measures = [
            Rule(AttributeUid(f"m{place}"), measure.value)
            for place, measure in enumerate(self.measures)
            if measure.value is not None
        ]
        return (*keys, *measures)

    @property
    def reads(self) -> frozenset[AttributeUid]:
        """Return the attributes of events that it reads."""
        return reads_of(self.inputs)

    def is_keyed(self, scope: Scope | None = None) -> bool:
        """Return whether a secret is needed; with a `scope`, a key of that scope."""
        return any(is_keyed(rule.value, scope) for rule in self.inputs)

    def closes_at(self, start: Instant) -> Instant:
        """Return when the period that began at `start` is closed."""
        return Instant(start + (self.every_s + self.late_s) * SECOND)


def summary_size(summary: Summary) -> int:
    """Return of how many parts a summary is made."""
    sizes = (1 if rule.value is None else expression_size(rule.value) for rule in summary.inputs)
    return len(summary.keys) + len(summary.measures) + sum(sizes)


def checked_summary(summary: Summary) -> Summary:
    """Return the summary, refused if a number is out of range or an attribute is assigned twice."""
    if not 1 <= summary.every_s <= EVERY_S_MAX:
        raise BadExpression(f"a period has 1 to {EVERY_S_MAX} seconds")
    if not 0 <= summary.late_s <= LATE_S_MAX:
        raise BadExpression(f"events may be late by 0 to {LATE_S_MAX} seconds")
    if not 1 <= summary.at_least <= AT_LEAST_MAX:
        raise BadExpression(f"a group is shown from 1 to {AT_LEAST_MAX} events on")
    if not summary.measures or len(summary.keys) + len(summary.measures) > RULES_MAX:
        raise BadExpression(f"a summary assigns something, and has at most {RULES_MAX} keys and assignments")
    if len(summary.kinds) != len(summary.keys) + len(summary.measures):
        raise BadExpression("an attribute of a summary is assigned twice")
    for rule in summary.inputs:
        if rule.value is not None:
            expression_size(rule.value)
    return summary


# Groups, as events are counted.


GroupKey: TypeAlias = tuple[tuple[Kind, PresentValue], ...]
"""The values of the keys, beside their kinds: Python takes 1, 1.0 and True for equal."""


def period_of(summary: Summary, published_at: int) -> Instant:
    """Return the beginning of the period in which an event was published."""
    return Instant(published_at - published_at % (summary.every_s * SECOND))


def steps_of(value: float, step: float) -> int | None:
    """Return how many steps a float has, to the nearest even one between two; None if it has too many."""
    if not in_float_range(value):
        return None
    steps = round(value / step)
    return steps if abs(steps) <= STEPS_WIDTH else None


@dataclass(slots=True)
class Group:
    """The events of one group so far: how many, and of each measure how many values and what they come to."""

    events: int = 0
    found: list[_Found] = field(default_factory=list)

    def add(self, summary: Summary, taken: Event) -> None:
        """Count one more event, given by its inputs."""
        if not self.found:
            self.found = [_Found() for _ in summary.measures]
        self.events += 1
        for place, (measure, found) in enumerate(zip(summary.measures, self.found, strict=True)):
            value = taken.get(AttributeUid(f"m{place}"))
            if value is not None:
                found.add(measure, value)


@dataclass(slots=True)
class _Found:
    """What the values of one measure come to."""

    values: int = 0
    total: int = 0
    extreme: Value = None

    def add(self, measure: Measure, value: PresentValue) -> None:
        if measure.aggregate is Aggregate.MEAN:
            whole = steps_of(value, measure.step) if isinstance(value, float) and measure.step else value
            if whole is None:
                return
            self.total += int(whole)
        elif self.extreme is None:
            self.extreme = value
        else:
            # All values of a measure are of one kind, which the syntax has checked.
            pick = min if measure.aggregate is Aggregate.MIN else max
            self.extreme = pick(self.extreme, value)
        self.values += 1


def derived_event(
    summary: Summary, start: Instant, key: GroupKey, group: Group
) -> dict[AttributeUid, PresentValue] | None:
    """Return the event that a group becomes; None if it has too few."""
    if group.events < summary.at_least:
        return None
    made: dict[AttributeUid, Value] = {
        one.uid: value for one, (_, value) in zip(summary.keys, key, strict=True)
    }
    for measure, found in zip(summary.measures, group.found, strict=True):
        match measure.aggregate:
            case Aggregate.COUNT:
                made[measure.uid] = group.events
            case Aggregate.PERIOD_START:
                made[measure.uid] = start
            case _ if found.values < summary.at_least:
                made[measure.uid] = None  # a mean of one reading would be that reading
            case Aggregate.MEAN:
                mean = float(found.total) / float(found.values)
                made[measure.uid] = mean if measure.step is None else mean * measure.step + 0.0
            case _:
                made[measure.uid] = found.extreme
    return {uid: value for uid, value in made.items() if value is not None}


def group_key(summary: Summary, taken: Event) -> GroupKey | None:
    """Return the group of an event, given by its inputs; None if it has no value for one of the keys."""
    found: list[tuple[Kind, PresentValue]] = []
    for place, key in enumerate(summary.keys):
        value = taken.get(AttributeUid(f"k{place}"))
        if value is None:
            return None
        found.append((key.value.kind, value))
    return tuple(found)
