"""How fast does an event find its subscriptions by topic, among a hundred thousand patterns with wildcards?

A tree of a million topics, six levels of ten names below its root. Nine in ten
subscriptions replace one level of a topic by `+`, the others ask for
everything below five levels. So about one in a hundred thousand matches an
event. Events are on topics drawn from all of them. Our side is the broker's
matching index, given frames of 256 events as they come off the wire. The trie
is the one that people write in Python: a dictionary at each level, followed
through the name and through `+`.

mosquitto matches in C, inside its broker. A publisher sends it packets that
were made before, and waits for the answer to a ping behind the last of them:
its time is that of reading, matching and queueing, and ours of matching alone.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import cycle

from harness import Benchmark, Case, Figure, NotMeasured, Race, Ratio, Side, at_least, at_most
from live_peers import MissingPeer, MqttConnection, mosquitto, mqtt_packet, mqtt_text
from maia.events import AttributeUid, Column, Frame, Kind
from maia.predicates.syntax import TextMatch, TextTest
from maia.routing.matching.index import MatchIndex

UID = AttributeUid("topic")
LEVELS, NAMES = 6, 10
ROWS, FRAMES = 256, 16
ROUNDS = 15


def topic(rng: random.Random) -> list[str]:
    """Return the levels of one of the topics."""
    return ["city", *(f"n{rng.randrange(NAMES)}" for _ in range(LEVELS))]


def patterns(count: int) -> list[str]:
    """Return what subscribers ask for."""
    rng = random.Random(34)
    found: list[str] = []
    for _ in range(count):
        levels = topic(rng)
        if rng.random() < 0.9:
            levels[rng.randrange(1, LEVELS + 1)] = "+"
        else:
            levels[-1] = "#"
        found.append("/" + "/".join(levels))
    return found


def paths(count: int, seed: int) -> list[str]:
    """Return the topics of some events."""
    rng = random.Random(seed)
    return ["/" + "/".join(topic(rng)) for _ in range(count)]


def index_of(wanted: Sequence[str]) -> MatchIndex[int]:
    """Fill our index."""
    index: MatchIndex[int] = MatchIndex()
    for number, pattern in enumerate(wanted):
        index.add(number, TextMatch(UID, TextTest.LEVELS, pattern))
    return index


def trie_of(wanted: Sequence[str]) -> Callable[[str], list[int]]:
    """Match with a trie of dictionaries."""
    end, root = object(), {}
    for number, pattern in enumerate(wanted):
        node = root
        for level in pattern.split("/")[1:]:
            node = node.setdefault(level, {})
        node.setdefault(end, []).append(number)

    def match(path: str) -> list[int]:
        found: list[int] = []
        nodes = [root]
        for level in path.split("/")[1:]:
            following = []
            for node in nodes:
                if (rest := node.get("#")) is not None:
                    found += rest[end]
                if (named := node.get(level)) is not None:
                    following.append(named)
                if (one := node.get("+")) is not None:
                    following.append(one)
            nodes = following
        for node in nodes:
            found += node.get(end, ())
            if (rest := node.get("#")) is not None:
                found += rest[end]
        return found

    return match


def frames(seed: int, count: int = FRAMES) -> list[Frame]:
    """Return events as they come off the wire."""
    rows = [paths(ROWS, seed + number) for number in range(count)]
    return [Frame(ROWS, {UID: Column(Kind.STRING, tuple(one))}) for one in rows]


def cases(quick: bool) -> Iterator[Case]:
    """Yield our index against the trie and against mosquitto, and what ten times more patterns cost it."""
    subscriptions = 2_000 if quick else 100_000
    wanted = patterns(subscriptions)
    index, trie = index_of(wanted), trie_of(wanted)
    for frame in frames(1, 2):  # the answers agree before anything is timed
        found = index.match_frame(frame)
        for row, path in enumerate(frame.columns[UID].values):
            assert sorted(key for key, rows in found.items() if row in rows) == sorted(trie(str(path)))
    asked = cycle(frames(100, 4 if quick else 256))
    ours = Side(run=lambda: index.match_frame(next(asked)), operations=ROWS)
    texts = cycle([[str(one) for one in frame.columns[UID].values] for frame in frames(5000)])
    peer = Side(run=lambda: [trie(path) for path in next(texts)], operations=ROWS)
    yield Race(
        f"{subscriptions:,} subscriptions with wildcards, a million topics, against a trie in Python",
        ours=ours,
        peer=peer,
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(3),
    )
    yield Figure(
        "µs more for an event, for ten times more subscriptions",
        values=_growth(subscriptions, rounds=3 if quick else ROUNDS),
        target=at_most(1.0),
    )
    yield from _against_mosquitto(wanted, ours, quick=quick)


def _growth(subscriptions: int, *, rounds: int) -> list[float]:
    few, many = index_of(patterns(subscriptions // 10)), index_of(patterns(subscriptions))
    return [
        (_seconds(many, number) - _seconds(few, number)) * 1e6 / (ROWS * FRAMES) for number in range(rounds)
    ]


def _seconds(index: MatchIndex[int], seed: int) -> float:
    some = frames(seed * 1000)
    taken: list[float] = []
    for _ in range(3):
        begun = time.perf_counter()
        for frame in some:
            index.match_frame(frame)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _against_mosquitto(wanted: Sequence[str], ours: Side, *, quick: bool) -> Iterator[Case]:
    case = f"{len(wanted):,} subscriptions with wildcards, against mosquitto's broker"
    with ExitStack() as stack:
        try:
            process = stack.enter_context(mosquitto())
        except MissingPeer as missing:
            yield NotMeasured(case, str(missing), at_least(1))
            return
        reader = stack.enter_context(closing(MqttConnection(process.port, "reader")))
        for start in range(0, len(wanted), 500):
            reader.subscribe(*wanted[start : start + 500])
        threading.Thread(target=_drained, args=(reader,), daemon=True).start()
        publisher = stack.enter_context(closing(MqttConnection(process.port, "publisher")))
        events = ROWS * (1 if quick else 16)
        packets = b"".join(mqtt_packet(0x30, mqtt_text(path) + b"x") for path in paths(events, 7))

        def publish() -> None:
            publisher.socket.sendall(packets + b"\xc0\x00")
            publisher.expect(b"\xd0\x00")

        peer = Side(run=publish, operations=events, calls=1)
        yield Race(case, ours=ours, peer=peer, ratio=Ratio.PEER_OVER_OURS, target=at_least(1))


def _drained(connection: MqttConnection) -> None:
    with suppress(OSError):
        while connection.socket.recv(1 << 16):
            pass


BENCH = Benchmark(
    number=34,
    name="topics",
    about="matching an event's topic with 100,000 patterns over a million topics",
    cases=cases,
    peer_lacks="mosquitto knows no rights by pattern as Maia's, and is asked through its sockets",
)
