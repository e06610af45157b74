"""What does an observer between two brokers see of a type, and how well does it tell which type it is?

The brokers are real (`broker_row.py`). Between the publisher's broker and the
next one stands the observer: it sees when each frame passes and how long it
is, and whatever a frame shows to whoever lacks the keys. It knows what kinds
of traffic there are, with their true rates and what frames of each look like,
and says of every window which kind it has seen. Chance and clock are handed
in; nothing is timed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from broker_row import REF, Row, world_of
from live_network import World
from maia.clock import system_now
from maia.events import AttributeUid, Column, Frame, Instant, Kind
from maia.sealing.keys.key_ring import KeyRing
from maia.types import Cover, Sealing, SealingLevel, definition_to_bytes, sign_definition, verify_definition
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import Effect, Received, Send, Tick
from maia.wire.messages import Publish, Sealed

_SECOND = 1_000_000
_TEXT = AttributeUid("attribute-0")
_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class Traffic:
    """How often a type is published, and how long its events are."""

    rate_hz: float
    text_bytes: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What passed in one window: for each frame, milliseconds since the one before and bytes."""

    gaps_ms: tuple[int, ...]
    sizes: tuple[int, ...]


def kinds_of_traffic(number: int, slots_hz: float) -> list[Traffic]:
    """Return so many types, of which none leaves more than four fifths of the slots full."""
    rates = np.geomspace(0.02, 0.8, number) * slots_hz
    return [Traffic(float(rate), 20.0 * (1 + place % 4) ** 2) for place, rate in enumerate(rates)]


class ObservedRow(Row):
    """Two brokers with the keys of a blinded type, and what passes between them."""

    def __init__(self, cover: Cover | None) -> None:
        self.cover = cover
        super().__init__(_blinded_world(cover), brokers=2)
        step = (500 if cover is None else cover.every_ms) * 1000
        self.now = Instant((self.now // step + 1) * step)
        self._sequence = 0
        self._handle(Tick())

    def _hand_keys(self, number: int, ring: KeyRing) -> None:
        type_id, state = self.world.event_type.type_id, self.brokers[number]._parts
        state.streams.blinded.held = lambda asked: ring if asked == type_id else None
        self._perform(
            number, self.brokers[number]._do(partial(state.key_events.apply_new_keys, type_id), self.now)
        )
        self._settle()

    def watch(self, traffic: Traffic, window_s: int, random: np.random.Generator) -> Seen:
        """Let time pass with events of this traffic; return what passed the observer."""
        start, end = int(self.now), int(self.now) + window_s * _SECOND
        arrivals = start + np.sort(random.uniform(0, end - start, random.poisson(traffic.rate_hz * window_s)))
        moments = [(int(moment), True) for moment in arrivals]
        if self.cover is not None:
            step = self.cover.every_ms * 1000
            moments += [(moment, False) for moment in range(start + step, end + 1, step)]
        passed: list[tuple[int, int]] = []
        for moment, is_event in sorted(moments):
            self.now = Instant(moment)
            effects = self._publish(traffic, random) if is_event else self._handle(Tick())
            passed += [(moment, size) for size in self._sizes(effects)]
        self.now = Instant(end)
        times = [start, *(moment for moment, _ in passed)]
        gaps = [(later - earlier) // 1000 for earlier, later in pairwise(times)]
        return Seen(tuple(gaps), tuple(size for _, size in passed))

    def _publish(self, traffic: Traffic, random: np.random.Generator) -> list[Effect]:
        length = min(_TEXT_MAX, 1 + int(random.exponential(traffic.text_bytes)))
        frame = Frame(1, {_TEXT: Column(Kind.STRING, ("x" * length,))})
        message = Publish(REF, self._sequence, int(self.now), 1, frame_to_columns(frame))
        self._sequence += 1
        return self._handle(Received(self.publisher_link, encode(message)))

    def _handle(self, happened: Received | Tick) -> list[Effect]:
        return self.brokers[0].handle(happened, self.now)

    def _sizes(self, effects: Sequence[Effect]) -> list[int]:
        sent = [one.data for one in effects if isinstance(one, Send) and one.link == self.hop_links[0]]
        return [len(data) for data in sent if isinstance(decode(data), Sealed)]


def _blinded_world(cover: Cover | None) -> World:
    plain = world_of(1, SealingLevel.EVENT)
    sealing = Sealing(SealingLevel.EVENT, plain.owner.principal, blinded=True, cover=cover)
    signed = sign_definition(replace(plain.event_type.definition, sealing=sealing), plain.owner)
    event_type = verify_definition(signed, at=system_now())
    return replace(plain, event_type=event_type, definition=definition_to_bytes(signed))


# ---------------------------------------------------------------- the observer

WAYS: dict[str, tuple[Callable[[Seen], Iterable[int]], ...]] = {
    "how many": (),
    "how many, how long": (lambda seen: (size // 64 for size in seen.sizes),),
    "how many, how long, how far apart": (
        lambda seen: (size // 64 for size in seen.sizes),
        lambda seen: map(_magnitude, seen.gaps_ms),
    ),
    "how many, how long to the byte, how far apart": (
        lambda seen: seen.sizes,
        lambda seen: map(_magnitude, seen.gaps_ms),
    ),
}
"""The ways of looking that an observer tries; what counts is the best of them."""


class Habits:
    """What windows of one type look like: how many frames there are, and what else is looked at."""

    def __init__(self, windows: Sequence[Seen], way: str, expected: float | None = None) -> None:
        """Learn from windows; `expected` frames are known where the true rate is."""
        found = float(np.mean([len(one.sizes) for one in windows]))
        self._expected = max(0.5, found) if expected is None else expected
        self._looks = WAYS[way]
        self._known = [Counter(one for seen in windows for one in look(seen)) for look in self._looks]

    def explain(self, seen: Seen) -> float:
        """Return the logarithm of the chance of a window, up to what is the same for all types."""
        chance = len(seen.sizes) * math.log(self._expected) - self._expected
        for look, known in zip(self._looks, self._known, strict=True):
            total = known.total() + 20
            chance += sum(math.log((known[one] + 0.5) / total) for one in look(seen))
        return chance


def _magnitude(gap_ms: int) -> int:
    return int(2 * math.log2(gap_ms + 1))


def _best(values: Sequence[float]) -> set[int]:
    most = max(values)
    return {place for place, value in enumerate(values) if math.isclose(value, most, abs_tol=1e-9)}


def _right(habits: Sequence[Habits], asked: Iterable[tuple[int, Seen]]) -> float:
    """Return how often the likeliest is the true one; among equals one is named by chance."""
    named = [(place, _best([one.explain(seen) for one in habits])) for place, seen in asked]
    return float(np.mean([(place in best) / len(best) for place, best in named]))


def advantage(traffic: Sequence[Traffic], windows: Sequence[Sequence[Seen]], window_s: int) -> float:
    """Return how much more often than by guessing an observer names the type of a window.

    It knows the true rates, learns from the first half of each type's windows, and is asked
    about the others. With cover the rate on the wire is another one, which it learns as well.
    """
    half = len(windows[0]) // 2
    asked = [(place, seen) for place, some in enumerate(windows) for seen in some[half:]]
    found = []
    for way in WAYS:
        for rates in ([one.rate_hz * window_s for one in traffic], [None] * len(traffic)):
            habits = [Habits(some[:half], way, rate) for some, rate in zip(windows, rates, strict=True)]
            found.append(_right(habits, asked))
    return max(found) - 1 / len(traffic)


def linking_advantage(windows: Sequence[Sequence[Seen]]) -> float:
    """Return how much more often than by guessing an observer finds a stream again under its next id.

    All types begin an epoch together. It has seen one window of each before, without a name, and
    one of each after, and looks for the most alike.
    """
    found = []
    for way in WAYS:
        pairs = range(0, len(windows[0]) - 1, 2)
        right = [
            _right([Habits([one[at]], way) for one in windows], enumerate(one[at + 1] for one in windows))
            for at in pairs
        ]
        found.append(float(np.mean(right)))
    return max(found) - 1 / len(windows)
