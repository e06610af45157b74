"""What does an application do with a client in a simulated network?

It subscribes, advertises and publishes, and reads its notices. The
session is the one that runs in production; only the application around it is
made up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from maia.client import ClientSession, ClientSettings, Delivered, KnownVersion, Notice
from maia.client.batch import columns_of
from maia.client.entries import Advertised, RequestEntry, Subscribed
from maia.credentials import SignedCertificate, SignedStatement, SigningKey
from maia.credentials.identity import SignedIdentity
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import Event, Instant
from maia.predicates import ALWAYS, Predicate
from maia.wire.effects import Effect, Input

NOTICES_KEPT: Final = 1 << 16
_EntryT = TypeVar("_EntryT", bound=RequestEntry)


class Surroundings(Protocol):
    """What an application needs of the network that it runs in."""

    @property
    def now(self) -> Instant:
        """Return the true time."""

    def act(self, name: str, action: Callable[[Instant], Sequence[Effect]]) -> None:
        """Call the node at a host, and perform what it asks for."""


class SimulatedClient:
    """An application, and its session in the present life of its host."""

    def __init__(self, network: Surroundings, name: str, key: SigningKey, settings: ClientSettings) -> None:
        """Belong to the host `name`, which builds a session at every start."""
        self.name = name
        self._network, self._key, self._settings = network, key, settings
        self.session: ClientSession
        self.notices: deque[tuple[Instant, Notice]] = deque(maxlen=NOTICES_KEPT)
        """The notices of this life, with the true time."""
        self.on_notice: Callable[[Notice], None] = lambda _notice: None

    def build(self, _kept: Mapping[str, bytes], random: Callable[[int], bytes]) -> SimulatedClient:
        """Begin a life; an application remembers nothing of the one before."""
        self.session = ClientSession(self._key, self._settings, random=random)
        self.notices.clear()
        return self

    # ------------------------------------------------------------ as a node

    def start(self, now: Instant) -> list[Effect]:
        """Begin to look for a broker."""
        return self._noticed(self.session.start(now))

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on, and read what it led to."""
        return self._noticed(self.session.handle(happened, now))

    def _noticed(self, effects: list[Effect]) -> list[Effect]:
        for notice in self.session.take_notices():
            self.notices.append((self._network.now, notice))
            self.on_notice(notice)
        return effects

    # ------------------------------------------------------------ as an application

    def subscribe(
        self,
        known: KnownVersion,
        wanted: Predicate = ALWAYS,
        *,
        durable: str | None = None,
        state: bool = False,
        requires: Predicate = NO_REQUIREMENT,
    ) -> Subscribed:
        """Ask for events; raise the refusal if no credential fits."""
        return self._ask(
            lambda now: self.session.subscribe(
                known, wanted, now, durable=durable, state=state, requires=requires
            )
        )

    def acknowledge(self, entry: Subscribed, position: bytes) -> None:
        """Say that nothing of a durable subscription up to a position is wanted again."""
        self._act(lambda _now: self.session.acknowledge(entry, position))

    def advertise(
        self, known: KnownVersion, offered: Predicate = ALWAYS, *, requires: Predicate = NO_REQUIREMENT
    ) -> Advertised:
        """Ask to publish events; raise the refusal if no credential fits."""
        return self._ask(lambda now: self.session.advertise(known, offered, now, requires=requires))

    def show(
        self, certificates: Sequence[SignedCertificate] = (), statements: Sequence[SignedStatement] = ()
    ) -> None:
        """Show the broker more certificates, or newer statements."""
        self._act(lambda _now: self.session.show(certificates, statements)[1])

    def identify(self, identity: SignedIdentity) -> None:
        """Show the broker a renewed identity statement."""
        self._act(lambda _now: self.session.identify(identity)[1])

    def withdraw(self, entry: RequestEntry) -> None:
        """Take back what was asked for."""
        self._act(lambda now: self.session.withdraw(entry, now))

    def publish(
        self, entry: Advertised, events: Sequence[Event], *, requires: Predicate | None = None
    ) -> bool:
        """Send events as one frame, if there is room; say whether there was."""
        if not self.session.has_room(entry):
            return False
        rows, kinds = len(events), entry.known.event_type.kinds
        columns = columns_of(rows, {uid: [one.get(uid) for one in events] for uid in kinds}, kinds)
        self._act(lambda now: self.session.publish(entry, rows, columns, now, requires))
        return True

    def rows(self) -> list[Event]:
        """Return the events that this life was shown."""
        shown = (notice for _, notice in self.notices if isinstance(notice, Delivered))
        return [dict(event) for notice in shown for event in notice.frame.events()]

    def close(self) -> None:
        """Leave for good."""
        self._act(self.session.close)

    def _ask(self, ask: Callable[[Instant], tuple[_EntryT, list[Effect]]]) -> _EntryT:
        entries: list[_EntryT] = []

        def act(now: Instant) -> list[Effect]:
            entry, effects = ask(now)
            entries.append(entry)
            return effects

        self._act(act)
        return entries[0]

    def _act(self, act: Callable[[Instant], list[Effect]]) -> None:
        self._network.act(self.name, lambda now: self._noticed(act(now)))
