"""How many deliveries a second leave one broker when a thousand subscribers want every event?

Our subscribers fall into eight classes of rights: the certificates of each
class show other attributes, from three of the ten to all of them, of the
events that their restriction admits. Every subscriber has a key, a mutual
TLS 1.3 connection and certificates of its own. The broker matches, screens
and serialises a frame once for a class, and then encrypts and writes it a
thousand times. One thread reads all connections, on both sides. Events
are not sealed here.

mosquitto delivers every message whole to everybody, over plain TCP, and a
second time over mutual TLS 1.3. Our own broker with one class sends everybody
about as many bytes as the eight classes get on average, so that the ratio says
what the classes cost, and not what their bytes do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import cycle

from harness import Benchmark, Case, NotMeasured, Race, Ratio, Side, at_least
from live_network import (
    ATTRIBUTES,
    FRAME_ROWS,
    BrokerProcess,
    Line,
    MaiaConnection,
    World,
    broker_process,
    new_publisher,
    new_world,
)
from live_peers import MissingPeer, mosquitto_line
from maia.credentials import Action
from maia.predicates import ALWAYS

CLASSES = 8
MEAN_CLASS = 4
"""The class whose frames are about as long as those of all classes on average."""
READERS, READERS_QUICK = 1000, 32


def cases(quick: bool) -> Iterator[Case]:
    """Yield our fan-out against mosquitto's, plain and over TLS, and against our own to one class."""
    readers = READERS_QUICK if quick else READERS
    world = new_world()
    with broker_process(world) as broker, closing(_fan(world, broker, readers, range(CLASSES))) as line:
        ours = _side(line, FRAME_ROWS * (1 if quick else 8), readers)
        for named, over_tls in (("mosquitto QoS 0", False), ("mosquitto QoS 0 over mutual TLS", True)):
            yield from _against(named, ours, readers, over_tls=over_tls)
        with broker_process(world) as other, closing(_fan(world, other, readers, [MEAN_CLASS])) as alike:
            yield Race(
                f"1 to {readers}, {CLASSES} rights classes, against our own broker with one class",
                ours=ours,
                peer=_side(alike, FRAME_ROWS * (1 if quick else 8), readers),
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(0.8),
            )


def _against(named: str, ours: Side, readers: int, *, over_tls: bool) -> Iterator[Case]:
    case = f"1 to {readers}, {CLASSES} rights classes with screening over TLS, sent in clear, against {named}"
    with ExitStack() as stack:
        try:
            line = stack.enter_context(mosquitto_line(readers=readers, over_tls=over_tls))
        except MissingPeer as missing:
            yield NotMeasured(case, str(missing), at_least(1.5))
            return
        peer = _side(line, FRAME_ROWS, readers)
        yield Race(case, ours=ours, peer=peer, ratio=Ratio.PEER_OVER_OURS, target=at_least(1.5))


def _side(line: Line, total: int, readers: int) -> Side:
    line.carry(FRAME_ROWS)  # once without the clock
    return Side(run=lambda: line.carry(total, 2 * FRAME_ROWS), operations=total * readers, calls=1)


def _fan(world: World, broker: BrokerProcess, readers: int, classes: Sequence[int]) -> Line:
    publisher = new_publisher(world, broker)
    numbered = zip(range(readers), cycle(classes), strict=False)
    return Line(publisher, [_reader(world, broker, number, seen) for number, seen in numbered])


def _reader(world: World, broker: BrokerProcess, number: int, rights_class: int) -> MaiaConnection:
    """Connect a subscriber that may see the last attributes of its class, and nothing before them."""
    key = world.key(f"reader {number}")
    shown = frozenset(attribute.uid for attribute in ATTRIBUTES[CLASSES - 1 - rights_class :])
    restriction = world.filter('region == "Greater London"')
    right = world.type_right(key.principal, Action.SUBSCRIBE, shown, restriction)
    connection = MaiaConnection(world, broker, key, [world.connect_right(key.principal), right])
    connection.subscribe(ALWAYS)
    return connection


BENCH = Benchmark(
    number=14,
    name="fan-out",
    about="deliveries a second from one publisher to a thousand subscribers, ours over mosquitto's",
    cases=cases,
    peer_lacks="mosquitto hides no attribute, knows no rights classes, checks no value and filters by topic "
    "alone; as run here it asks nobody who they are, and encrypts only where the case says so",
)
