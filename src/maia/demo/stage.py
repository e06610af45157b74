"""What happens in a story, and is what arrives what the kernel says?

Publishers and readers are members with connections of their own, by their profiles. Before
an event is published, the kernel says from their certificates, and from what the issuers say of these at
that moment, who has to see what of it. Afterwards each reader's inbox must hold exactly that: nothing
missing, nothing more, nothing twice. A probe, sent after everything else, shows
that nothing is still under way.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from maia.client.api.connection import Connection
from maia.clock import system_now
from maia.credentials import Action, SignedCertificate, principal_from_text
from maia.demo.world import ANY, SECRETS, CommandFailed, Happening, StoryReader, StoryWorld
from maia.errors import MaiaError, Unavailable
from maia.events import Value
from maia.expressions import NO_KEYS, TransformationKeys
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence, see, shape
from maia.profile import Profile, find_profile
from maia.types import VerifiedType, from_transit, to_transit
from maia.validity import Monitor

if TYPE_CHECKING:
    from maia.client.api.blocking_client import BlockingClient, BlockingPublisher, BlockingSubscription
    from maia.client.api.subscription import ReceivedEvent
    from maia.ledger.records import Disclosure

_SETTLE_S: Final = 180.0
_ARRIVE_S: Final = 60.0
_PROBE_S: Final = 0.1
_MOMENT_S: Final = 0.5


class Screen(Protocol):
    """Where what happens is shown."""

    def line(self, text: str = "") -> None:
        """Print one line."""

    def say(self, sentence: str) -> None:
        """Say what has happened."""

    def table(self, rows: Sequence[Sequence[object]]) -> None:
        """Print rows in columns."""


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """An event as it was published, and who has to see what of it, as the kernel says."""

    by: str
    of: str
    wrote: Happening
    event: Happening
    """What was sent of what the publisher wrote."""
    expected: dict[str, Happening]
    requires: str
    """What the publisher requires of subscribers."""
    is_probe: bool = False
    is_close_up: bool = False


@dataclass(slots=True)
class ReaderInbox:
    """What a reader received, and how its subscription has ended, if it has."""

    reader: StoryReader
    subscription: BlockingSubscription
    events: list[ReceivedEvent] = field(default_factory=list)
    probes: set[str] = field(default_factory=set)
    ended: str | None = None
    ended_at: float = 0.0

    def values(self) -> dict[str, set[Value]]:
        """Return all values of each attribute that reached the reader."""
        found: dict[str, set[Value]] = {}
        for event in self.events:
            for name, value in event.items():
                found.setdefault(name, set()).update(() if value is None else (value,))
        return found


class Member:
    """A member by its profile: what it holds, and what the kernel says that it may do."""

    def __init__(self, profile: str) -> None:
        """Read the profile, which is named by its path."""
        self.profile: Profile = find_profile(profile)
        self.principal = principal_from_text(self.profile.principal())
        self._types: dict[str, VerifiedType] = {}

    def held(self) -> tuple[SignedCertificate, ...]:
        """Return its certificates, those of its login among them."""
        from maia.keystore.wallet_folder import WalletFolder

        wallet = self.profile.settings.wallet
        kept = () if wallet is None else WalletFolder(wallet).read().certificates
        return (*self.profile.certificates(), *kept)

    def type(self, name: str) -> VerifiedType:
        """Return a type as the member knows it."""
        if name not in self._types:
            self._types[name] = self.profile.lineage(name, at=system_now())[-1]
        return self._types[name]

    def view(self, of: str, action: Action, standing: Monitor) -> View | None:
        """Return what it may see or publish of a type now, if anything."""
        now, event_type = system_now(), self.type(of)
        request = Request(self.principal, action, event_type.name, event_type)
        evidence = gather_evidence(request, self.held(), at=now, standing=standing)
        decision = decide(request, evidence, NO_FACTS, now)
        return decision.view if isinstance(decision, Permit) else None


class Stage:
    """What an act works with, and what the acts before it have left."""

    def __init__(self, world: StoryWorld, screen: Screen, stack: ExitStack) -> None:
        """No member is connected yet."""
        self.world, self.story, self._stack = world, world.story, stack
        self.say, self.show = screen.say, screen.table
        self.clients: dict[str, BlockingClient] = {}
        self.inboxes: dict[str, ReaderInbox] = {}
        self.published: list[PublishedEvent] = []
        self.refused: dict[str, str | None] = {}
        self.broken: list[str] = []
        """Claims that do not hold, beside those about deliveries."""
        self.figures: dict[str, object] = {}
        """What was measured or counted, by what it is, for people."""
        self.record: dict[str, object] = {}
        """More of it, for programs."""
        self.beside: dict[str, dict[str, str]] = {}
        """What is shown beside what the readers saw of an event, by the event's text."""
        self.lost: set[str] = set()
        """The readers that have lost a right."""
        self.disclosed: dict[str, int] = {}
        """How many events for each reader are in the brokers' ledgers, probes included."""
        self.first_event_at: float | None = None
        database = self.story.database
        self.rows = set(database.rows) if database else set[tuple[str, str]]()
        """What the database's table holds, as the acts know it."""
        self.probed = 0
        self._arrived, self._is_over = threading.Condition(), False
        self._publishers: dict[tuple[str, str], BlockingPublisher] = {}
        self._views: dict[tuple[str, str, Action], View | None] = {}
        self._views_after, self._asked_at, self._standing = -1, 0.0, Monitor()

    @cached_property
    def members(self) -> dict[str, Member]:
        """Return the members of all organisations, by name."""
        paths = sorted(self.world.folder.glob("*/*.maia"))
        return {one.stem: Member(str(one)) for one in paths}

    @cached_property
    def keys(self) -> TransformationKeys:
        """Return the secrets with which the kernel calculates what the brokers should."""
        from maia.keystore.lookup_tables import load_transformation_keys

        return load_transformation_keys(Path(SECRETS)) if self.story.secrets_of else NO_KEYS

    # ------------------------------------------------------------ who takes part

    def client(self, who: str) -> BlockingClient:
        """Return the connection of a member, which lasts until the story ends."""
        if who not in self.clients:
            # Any: these are the options of `maia.connect`.
            quiet: dict[str, Any] = {"on_waiting": lambda _: None, "on_warning": lambda _: None}
            connection = Connection(self.members[who].profile, {**quiet, "timeout_s": _SETTLE_S})
            self.clients[who] = self._stack.enter_context(connection)
        return self.clients[who]

    def join(self, reader: StoryReader) -> ReaderInbox:
        """Subscribe a reader, and collect what it receives."""
        asked = self.client(reader.profile).subscribe(
            reader.topic or reader.of,
            requires=reader.requires,
            shown_as=reader.shown_as,
            durable=reader.durable,
            timeout_s=_SETTLE_S,
        )
        inbox = self.inboxes[reader.name] = ReaderInbox(reader, asked)
        threading.Thread(target=self._collect, args=(inbox,), daemon=True).start()
        return inbox

    def _collect(self, inbox: ReaderInbox) -> None:
        try:
            for event in inbox.subscription:
                with self._arrived:
                    self.first_event_at = self.first_event_at or time.time()
                    if self.is_probe(event):
                        inbox.probes.add(repr(dict(event)))
                    else:
                        inbox.events.append(event)
                    self._arrived.notify_all()
        except MaiaError as problem:
            with self._arrived:
                inbox.ended, inbox.ended_at = None if self._is_over else problem.code, time.monotonic()
                self._arrived.notify_all()

    def close(self) -> None:
        """Take note that subscriptions end from now on because the story does."""
        self._is_over = True

    def until(self, done: Callable[[], bool], seconds: float = _ARRIVE_S) -> bool:
        """Wait until something is so, as events arrive; say whether it is."""
        with self._arrived:
            return self._arrived.wait_for(done, seconds)

    # ------------------------------------------------------------ what the kernel says

    def view(self, who: str, of: str, action: Action) -> View | None:
        """Return what a member may see or publish, as the kernel says since the last command."""
        if self._views_after != self.world.commands:
            self._views, self._views_after, self._asked_at = {}, self.world.commands, 0.0
        asked = (who, of, action)
        if asked not in self._views:
            self._views[asked] = self.members[who].view(of, action, self._standing_now())
        return self._views[asked]

    def _standing_now(self) -> Monitor:
        """Return what the issuers say of all certificates, as of a moment ago."""
        from maia.api.testers import ask_testers

        if time.monotonic() > self._asked_at + _MOMENT_S:
            now, pool = system_now(), [signed for one in self.members.values() for signed in one.held()]
            fetched = asyncio.run(ask_testers(pool, now=now, within_s=_ARRIVE_S))
            self._standing, self._asked_at = Monitor.of(fetched.statements, now), time.monotonic()
        return self._standing

    def seen(self, reader: StoryReader, type_id: bytes, event: Happening) -> Happening | None:
        """Return what a reader has to see of an event of a type, by the names it knows; None for nothing."""
        if not reader.asks_for(event):
            return None
        member = self.members[reader.profile]
        known = member.type(reader.of)
        view = self.view(reader.profile, reader.of, Action.SUBSCRIBE) if known.type_id == type_id else None
        shown = None if view is None else see(view, to_transit(event, known), self.keys)
        return None if shown is None else from_transit(shown, member.type(reader.shown_as or reader.of))

    def expected(
        self, by: str, of: str, events: Sequence[Happening], requires: str = ANY, **marks: bool
    ) -> Iterator[PublishedEvent]:
        """Yield events as they will be published, what the database will make of them, and who sees what."""
        view, event_type = self.view(by, of, Action.PUBLISH), self.members[by].type(of)
        assert view is not None, f"{by} may not publish {of}"  # noqa: S101 - a mistake in a story
        database = self.story.database

        def published(
            who: str, word: str, kind: VerifiedType, wrote: Happening, sent: Happening
        ) -> PublishedEvent:
            free = (one for one in self.joined() if self.story.obstacle(self, one, by, requires) is None)
            shown = {one.name: self.seen(one, kind.type_id, sent) for one in free}
            expected = {one: seen for one, seen in shown.items() if seen is not None}
            return PublishedEvent(who, word, wrote, sent, expected, requires, **marks)

        for event in events:
            written = from_transit(shape(view, to_transit(event, event_type)), event_type)
            yield published(by, of, event_type, event, written)
            for name, made in database.makes(written, self.rows) if database and database.of == of else ():
                derived = self.members["database"].type(name)
                plain = from_transit(to_transit(made, derived), derived)
                yield published(database.name if database else "", name, derived, plain, plain)

    def joined(self) -> list[StoryReader]:
        """Return the readers that have subscribed."""
        return [inbox.reader for inbox in self.inboxes.values()]

    def is_probe(self, event: Happening) -> bool:
        """Return whether an event is one of the probes, by what is left of it."""
        return self.story.is_probe(event)

    # ------------------------------------------------------------ what happens

    def maia(self, line: str) -> dict[str, Any]:
        """Run a command."""
        return self.world.maia(line)

    def publish(self, by: str, of: str, events: Sequence[Happening], **how: Any) -> int:
        """Publish, and wait until everything has arrived; return how many deliveries there were."""
        before = self.deliveries()
        self.send(by, of, events, **how)
        self.receive()
        return self.deliveries() - before

    def send(
        self, by: str, of: str, events: Sequence[Happening], requires: str = ANY, **marks: bool
    ) -> list[PublishedEvent]:
        """Publish, until the publisher's broker has accepted everything; return what has to arrive."""
        found = list(self.expected(by, of, events, requires, **marks))
        self.published += found
        if (by, of) not in self._publishers:
            self._publishers[by, of] = self.client(by).advertise(of, timeout_s=_SETTLE_S)
        self._publishers[by, of].publish_many([dict(event) for event in events], requires=requires)
        self._publishers[by, of].flush(timeout_s=_SETTLE_S)
        return found

    def receive(self) -> None:
        """Wait until all that has to arrive has arrived, and whatever else is under way."""
        due = Counter(who for one in self.published if not one.is_probe for who in one.expected)
        self.until(lambda: all(len(self.inboxes[who].events) >= count for who, count in due.items()))
        self._missed_probes(_ARRIVE_S)  # what is missing is reported by the comparison

    def deliveries(self) -> int:
        """Return how many events all readers have received, without probes."""
        return sum(len(inbox.events) for inbox in self.inboxes.values())

    def settle(self) -> float:
        """Probe until every reader is reached; return the seconds that it took."""
        begun = time.monotonic()
        while missing := self._missed_probes(_PROBE_S):
            if time.monotonic() > begun + _SETTLE_S:
                raise Unavailable(
                    "UNAVAILABLE-NOT-SETTLED",
                    f"no event reached {', '.join(missing)} in {_SETTLE_S:g} seconds",
                )
        return time.monotonic() - begun

    def _missed_probes(self, seconds: float) -> list[str]:
        """Publish the probes, and return the readers that have not received theirs in time."""
        self.probed += 1
        wanted: list[tuple[str, str]] = []
        for by, of, event, *requires in self.story.probes(self.probed):
            for one in self.send(by, of, [event], *requires, is_probe=True):
                wanted += [(who, repr(dict(seen))) for who, seen in one.expected.items()]

        def missed() -> list[str]:
            return [who for who, seen in wanted if seen not in self.inboxes[who].probes]

        self.until(lambda: not missed(), seconds)
        return missed()

    def end_of(self, reader: str) -> str:
        """Wait until the subscription of a reader ends, as it must; return the code."""
        inbox = self.inboxes[reader]
        self.lost.add(reader)
        if not self.until(lambda: inbox.ended is not None):
            self.broken.append(f"{reader} has lost a right, and the subscription goes on")
        return inbox.ended or "NO END"

    def attempt(self, title: str, trying: Callable[..., object], *words: object, **named: object) -> None:
        """Try what has to be refused, and note the code."""
        self.refused[title] = None
        try:
            trying(*words, **named)
            self.broken.append(f"{title}: nothing stopped it")
        except CommandFailed as problem:
            self.refused[title] = problem.told
        except MaiaError as problem:
            self.refused[title] = problem.code

    def expect(self, claim: str, found: object, wanted: object = True) -> None:
        """Note a claim that does not hold."""
        if found != wanted:
            self.broken.append(claim)

    def check_stored(self) -> None:
        """Compare how many events the database has stored with how many were published."""
        database = self.story.database
        if database is not None:
            published, stored = sum(one.of == database.of for one in self.published), self.world.stored()
            self.expect(f"all {published} events are in the {database.name}, not {stored}", stored, published)
            self.say(f"the {database.name} has stored all {stored} events, probes included")

    # ------------------------------------------------------------ what is found

    def due(self, reader: str) -> list[Happening]:
        """Return what the kernel says that a reader has to see."""
        return [one.expected[reader] for one in self.published if not one.is_probe and reader in one.expected]

    def on_record(self, reader: StoryReader) -> list[Happening]:
        """Return what the kernel says that a reader sees of the log with the rights that it has now."""
        known = self.members[reader.profile].type(reader.of)
        real = (one.event for one in self.published if one.of == reader.of and not one.is_probe)
        return [seen for event in real if (seen := self.seen(reader, known.type_id, event)) is not None]

    def differences(self) -> Iterator[str]:
        """Say where what arrived is not what the kernel says."""
        for who, inbox in self.inboxes.items():
            expected = Counter(repr(dict(one)) for one in self.due(who))
            received = Counter(repr(dict(one)) for one in inbox.events)
            for words, count in (("missed", expected - received), ("got", received - expected)):
                if count.total():
                    yield f"{who} {words} {count.total()} events, against the kernel"
            if inbox.ended and who not in self.lost:
                yield f"the subscription of {who} has ended: {inbox.ended}"

    def unexplained(self, told: Sequence[Disclosure]) -> Iterator[str]:
        """Say where the brokers' ledgers are not what the readers received, and by which right."""
        for who, inbox in self.inboxes.items():
            member, reader = self.members[inbox.reader.profile], inbox.reader
            known, shown_as = member.type(reader.of), member.type(reader.shown_as or reader.of)
            mine = [
                one for one in told if one.recipient == member.principal.key and one.type_id == known.type_id
            ]
            rows = self.disclosed[who] = sum(one.rows for one in mine)
            received = len(inbox.events) + len(inbox.probes)
            # A frame that a killed broker sends again is in its ledger twice, and is received once.
            if rows < received or (rows > received and not self.story.kills_brokers):
                yield f"the ledgers name {rows} events for {who}, who received {received}"
            if not {each for one in mine for each in one.certificates} <= {one.id for one in member.held()}:
                yield f"a ledger names a certificate that {who} does not hold"
            names = {one.uid: one.name for one in shown_as.attributes}
            shown = {names.get(uid) for one in mine for uid in one.attributes}
            seen = {name for name, values in inbox.values().items() if values}
            if not seen <= shown:
                yield f"{who} saw attributes that no ledger names: {', '.join(sorted(seen - shown))}"


def play(world: StoryWorld, screen: Screen, *, keep: bool = False) -> Stage:
    """Play all acts of a story on a world that is at work, and compare what arrived with kernel and ledgers.

    Brokers are stopped for that, unless they are to be kept.
    """
    from maia.ledger.files import disclosures_in

    with ExitStack() as stack:
        stage = Stage(world, screen, stack)
        for reader in world.story.readers:
            if not reader.joins_later:
                stage.join(reader)
        if stage.inboxes:
            stage.settle()
        for act in world.story.acts:
            act(stage)
        stage.close()
    stage.broken += stage.differences()
    if not keep:
        for kind in ("replica", "connector"):
            world.stop(*(name for name in world.children if name.startswith(kind)))
        world.stop(*world.servers("broker"))
        folders = world.ledgers()
        stage.broken += stage.unexplained([one for folder in folders for one in disclosures_in(folder)])
    return stage
