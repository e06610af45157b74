"""A client's session, and a hand that plays its broker message by message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from maia.client import ClientSession, ClientSettings, KnownVersion, Notice, known_version
from maia.client.entries import Advertised, Subscribed
from maia.credentials import certificate_to_bytes
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.wire import (
    PROTOCOL_VERSION,
    Close,
    Dial,
    Effect,
    Greeting,
    LinkClosed,
    LinkId,
    LinkOpened,
    Message,
    Received,
    Send,
    Tick,
    WakeAt,
    Welcome,
    decode,
    encode,
    network_to_bytes,
)
from support.numberplate import tell_numberplate_story

NOW = Instant(1_800_000_000_000_000)
STORY = tell_numberplate_story(b"a session", now=NOW)
IS_BROKER = STORY.broker_right(STORY.principal("CCS"))
"""The owner's word that CCS is a broker, as the broker of these tests shows it."""
SHOWN = [certificate_to_bytes(signed) for signed in (*STORY.certificates, IS_BROKER)]
LEASE_S = 60
M = TypeVar("M", bound=Message)


def counting_random() -> Callable[[int], bytes]:
    """Return chance without chance: every call gives other bytes, the same ones each run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big") if size > 2 else bytes(size)


@dataclass
class Played:
    """A session, its clock, and what it has asked for."""

    who: str = "camera at Victoria"
    addresses: tuple[str, ...] = ("127.0.0.1:7400",)
    now: Instant = NOW
    links: int = 0
    effects: list[Effect] = field(default_factory=list)
    session: ClientSession = field(init=False)

    def __post_init__(self) -> None:
        settings = ClientSettings(STORY.network, self.addresses, STORY.certificates, frames_under_way=4)
        self.session = ClientSession(STORY.keys[self.who], settings, random=counting_random())

    @property
    def known(self) -> KnownVersion:
        return known_version([STORY.definition], at=self.now)

    def start(self) -> None:
        self.effects += self.session.start(self.now)

    def link_opens(self, who: str = "CCS") -> None:
        self.links += 1
        opened = LinkOpened(LinkId(self.links), STORY.principal(who), self.addresses[0])
        self.effects += self.session.handle(opened, self.now)

    def link_closes(self) -> None:
        self.effects += self.session.handle(LinkClosed(LinkId(self.links)), self.now)

    def broker_says(self, *messages: Message) -> None:
        for message in messages:
            self.effects += self.session.handle(Received(LinkId(self.links), encode(message)), self.now)

    def time_passes(self, seconds: float) -> None:
        self.now = Instant(self.now + int(seconds * 1_000_000))
        self.effects += self.session.handle(Tick(), self.now)

    def is_welcomed(self) -> None:
        """Dial, be greeted by a broker of the story, and be welcomed."""
        self.link_opens()
        self.broker_says(Greeting(PROTOCOL_VERSION, network_to_bytes(STORY.network), SHOWN, bytes(16)))
        self.broker_says(Welcome(LEASE_S))

    def advertises(self) -> Advertised:
        entry, effects = self.session.advertise(self.known, ALWAYS, self.now)
        self.effects += effects
        return entry

    def subscribes(self) -> Subscribed:
        entry, effects = self.session.subscribe(self.known, ALWAYS, self.now)
        self.effects += effects
        return entry

    def publishes(self, entry: Advertised) -> None:
        self.effects += self.session.publish(entry, 1, [], self.now)

    def said(self, kind: type[M]) -> list[M]:
        """Return the messages of one kind that the session sent since this was last asked, and forget all."""
        sent = [decode(effect.data) for effect in self.effects if isinstance(effect, Send)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, Send)]
        return [message for message in sent if isinstance(message, kind)]

    def dialled(self) -> list[str]:
        """Return the addresses that were dialled since this was last asked."""
        found = [effect.address for effect in self.effects if isinstance(effect, Dial)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, Dial)]
        return found

    def closed(self) -> bool:
        return any(isinstance(effect, Close) for effect in self.effects)

    def wakes_at(self) -> Instant:
        """Return the earliest moment that the session has asked for and that has not come."""
        return min(
            effect.at for effect in self.effects if isinstance(effect, WakeAt) and effect.at > self.now
        )

    def notices(self) -> list[Notice]:
        return self.session.take_notices()
