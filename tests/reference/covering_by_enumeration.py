"""Covering by asking every event of a small world: slow, obvious, and right within that world.

A world is rich enough for some predicates if it has a value in every gap
between their literals; then "no counterexample in the world" is "covers".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from maia.events import AttributeUid, Event, Value
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate

World = Mapping[AttributeUid, Sequence[Value]]


def all_events(world: World) -> Iterator[Event]:
    """Yield every event of a world; None in its values stands for a missing attribute."""
    for row in product(*world.values()):
        yield {uid: value for uid, value in zip(world, row, strict=True) if value is not None}


def texts_up_to(length: int, alphabet: str) -> tuple[str, ...]:
    """Return all strings over an alphabet, up to a length."""
    return tuple("".join(letters) for size in range(length + 1) for letters in product(alphabet, repeat=size))


def covers_in_world(*, wide: Predicate, narrow: Predicate, events: Iterable[Event]) -> bool:
    """Return whether every event of the world that `narrow` admits is admitted by `wide`."""
    return all(admits(wide, event) for event in events if admits(narrow, event))


def overlap_in_world(one: Predicate, other: Predicate, events: Iterable[Event]) -> bool:
    """Return whether some event of the world is admitted by both."""
    return any(admits(one, event) and admits(other, event) for event in events)
