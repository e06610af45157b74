"""What does a frame cost whose publisher and subscribers require something of each other?

One broker has 1,000 subscribers with equal rights. Their identity statements say
one of eight things. A frame with a requirement that all of them meet, so
that both sides deliver as much, is compared with one without. In the second case
every subscriber requires something of publishers as well, and the publisher has a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle

from broker_row import REF, Row, world_of
from harness import Benchmark, Case, Race, Ratio, Side, at_most
from maia.credentials import Action, SigningKey
from maia.credentials.appointments import Argument
from maia.credentials.identity import Identity, IdentityTrust, issue_identity, pack_identity
from maia.credentials.requirements import NO_REQUIREMENT, parse_requirement, requirement_to_bytes
from maia.events import SECOND, AttributeUid, Column, Frame, Instant, Kind
from maia.predicates import ALWAYS, Predicate
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import LinkId, Received, Send
from maia.wire.messages import Identify, Publish

SUBSCRIBERS, CLASSES, ROWS, ATTRIBUTES = 1000, 8, 10, 4
TARGET = 1.1
PROVIDER = SigningKey.from_seed(b"p" * 32)
TRUST = IdentityTrust("bench", frozenset({PROVIDER.principal}))
REQUIRED = tuple(
    requirement_to_bytes(parse_requirement(f'clearance >= {least} or nationality in ("uk", "no")'))
    for least in range(CLASSES)
)
"""What frames require in turn; every class of subscribers meets each of them."""
OF_PUBLISHERS = parse_requirement('clearance >= 3 or nationality == "uk"')


class Edge:
    """One broker with its subscribers, and a publisher whose frames all of them get."""

    def __init__(
        self, subscribers: int, *, requires: bool, of_publishers: Predicate = NO_REQUIREMENT
    ) -> None:
        """Connect everybody; those with requirements have statements, and the others none."""
        self.world = world_of(ATTRIBUTES, None)
        self.row = Row(self.world, brokers=1, trust=TRUST)
        self.requires, self.sequences = requires, count(0)
        self.required = cycle(REQUIRED)
        for number in range(subscribers):
            name = f"subscriber {number}"
            link = self.row._client(0, name, Action.SUBSCRIBE, ALWAYS, of_publishers)
            if requires:
                attributes = {"nationality": ("uk", "no")[number % 2], "clearance": number % CLASSES // 2}
                self._show(name, link, {AttributeUid(uid): value for uid, value in attributes.items()})
        if of_publishers != NO_REQUIREMENT:
            self._show("publisher", self.row.publisher_link, {AttributeUid("clearance"): 3})
        values = {
            uid: Column(Kind.STRING, tuple(f"{row:08d}" for row in range(ROWS)))
            for uid in self.world.event_type.kinds
        }
        self.columns = frame_to_columns(Frame(ROWS, values))

    def _show(self, name: str, link: LinkId, attributes: dict[AttributeUid, Argument]) -> None:
        subject, provider = self.world.key(name).principal, PROVIDER.principal
        since = self.row.now - self.row.now % SECOND
        period = Instant(since), Instant(since + 86_400 * SECOND)
        said = Identity(provider, "bench", subject, name, attributes, *period, provider)
        self.row._say(0, link, Identify(900, pack_identity(issue_identity(said, PROVIDER))))
        self.row._settle()

    def publish(self) -> int:
        """Publish a frame; return to how many subscribers it goes."""
        said = (REF, next(self.sequences), int(self.row.now), ROWS, self.columns)
        message = Publish(*said, next(self.required)) if self.requires else Publish(*said)
        happened = Received(self.row.publisher_link, encode(message))
        effects = self.row.brokers[0].handle(happened, self.row.now)
        return sum(type(one) is Send and one.link != self.row.publisher_link for one in effects)


def cases(quick: bool) -> Iterator[Case]:
    """Yield the publisher's requirement alone, and requirements of both sides."""
    subscribers = 80 if quick else SUBSCRIBERS
    without = Edge(subscribers, requires=False)
    # One more subscriber belongs to the row, and has no statement.
    assert without.publish() == subscribers + 1
    for name, asked in (
        ("the publisher requires something of subscribers", NO_REQUIREMENT),
        ("and subscribers of the publisher", OF_PUBLISHERS),
    ):
        required = Edge(subscribers, requires=True, of_publishers=asked)
        assert required.publish() == subscribers
        yield Race(
            name,
            ours=Side(run=required.publish),
            peer=Side(run=without.publish),
            ratio=Ratio.OURS_OVER_PEER,
            target=at_most(TARGET),
        )


BENCH = Benchmark(
    number=29,
    name="requirements",
    about="a frame with requirements over one without, 1,000 subscribers in 8 attribute classes",
    cases=cases,
    stood="nothing: requirements are new",
    peer_lacks="identity: it delivers to whoever has the right",
)
