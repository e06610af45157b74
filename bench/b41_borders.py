"""What does a border cost that releases views, against the same link without one?

Two brokers in memory, a publisher at the one and eight subscribers at the other, each with a View of its own:
some rows, some of ten attributes, one of them changed. With a border the first broker applies eight Views and
sends eight frames; without one it sends the events, and the second broker applies the Views. What
subscribers get is the same, and is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least, at_most
from maia.credentials import Action, Transformation
from maia.events import AttributeUid, Kind
from maia.expressions.syntax import Rule, Take
from maia.predicates import Comparison, Operator
from maia.testing import Cast, Net
from maia.wire.codec import encode
from maia.wire.messages import Carried

ATTRIBUTES = tuple(f"a{number}" for number in range(10))
CLASSES = 8


def the_cast() -> Cast:
    """Return two domains, a publisher, and eight readers whose Views have nothing in common."""
    people = [f"reader {number}" for number in range(CLASSES)]
    kinds = dict.fromkeys(ATTRIBUTES, "string")
    cast = Cast.of("owner", "writer", *people, of_type="Reading", **kinds)
    cast = cast.domain("north", "first").domain("south", "second").let("writer", Action.PUBLISH)
    for number, reader in enumerate(people):
        own, other = (
            AttributeUid(ATTRIBUTES[number]),
            AttributeUid(ATTRIBUTES[(number + 1) % len(ATTRIBUTES)]),
        )
        rule = Rule(other, Take(own, Kind.STRING))
        step = Transformation(cast.owner.principal, (rule,), frozenset({other}))
        where = Comparison(AttributeUid("a9"), Operator.EQ, f"district {number}")
        cast = cast.let(reader, Action.SUBSCRIBE, restriction=where, transformations=(step,))
    return cast


class Link:
    """Two brokers, and what publishes a frame and lets it arrive."""

    def __init__(self, rows: int, *, is_open: bool) -> None:
        self.net = net = Net(the_cast(), open_borders=is_open)
        net.broker("first")
        net.broker("second", seeds=["first"])
        net.settle()
        self.readers = [net.client(f"reader {number}", "second") for number in range(CLASSES)]
        for reader in self.readers:
            reader.subscribe()
        self.writer = net.client("writer", "first")
        self.ref = self.writer.advertise()
        net.settle()
        self.events = [
            {**{uid: f"{uid} of event {row}" for uid in ATTRIBUTES}, "a9": f"district {row % CLASSES}"}
            for row in range(rows)
        ]

    def publish(self) -> None:
        """Publish one frame, and let it arrive."""
        self.net.carried.clear()
        for reader in self.readers:
            reader.heard.clear()
        self.writer.publish(self.ref, *self.events)
        self.net.settle()

    def bytes_sent(self) -> int:
        """Return how many bytes of frames crossed the link for one frame."""
        self.publish()
        return sum(len(encode(one)) for _, _, one in self.net.carried if isinstance(one, Carried))

    def received(self) -> list[list[object]]:
        """Return what each reader gets of one frame."""
        self.publish()
        return [list(reader.events()) for reader in self.readers]


def cases(quick: bool) -> Iterator[Case]:
    """Yield rates and bytes for frames of many rows."""
    rows = 64 if quick else 256
    border, none = Link(rows, is_open=False), Link(rows, is_open=True)
    if border.received() != none.received():
        raise AssertionError("subscribers behind a border do not see what others see")
    yield Race(
        f"events a second in frames of {rows}, eight classes, against no border",
        ours=Side(run=border.publish),
        peer=Side(run=none.publish),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(0.8),
    )
    yield Figure(
        "bytes over the link, against no border",
        [border.bytes_sent() / none.bytes_sent()],
        target=at_most(1),
    )


BENCH = Benchmark(
    number=41,
    name="borders",
    about="a border that restricts and transforms for eight classes, against the same link without one",
    cases=cases,
)
