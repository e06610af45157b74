"""Brokers with event logs, connected in memory: a test says when the disk is done, and what a crash takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from maia.broker import Broker, BrokerSettings
from maia.broker.links.cursors import Cursor
from maia.broker.log.recording import first_to_reread
from maia.broker.settings import RecordingSettings
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    exact_name,
    issue,
)
from maia.events import AttributeUid, Value
from maia.log.format.records import type_id_of
from maia.predicates import ALWAYS, Predicate
from maia.types import definition_to_bytes
from maia.wire.columns import columns_to_frame
from maia.wire.effects import Effect, LogAtStart, Logged, LogRead, ReadLog, Record, Recorded
from maia.wire.messages import DeliverLogged, Seen, Subscribe, Withdraw
from support.broker import Client, Net, Running, connect_right, random_from, shown
from support.sealed_publications import PublishingNet

EVERYTHING = RecordingSettings()


@dataclass(slots=True)
class EventLogOf:
    """The event log of one broker."""

    safe: list[Logged] = field(default_factory=list)
    unsafe: list[Logged] = field(default_factory=list)
    is_slow: bool = False
    """Whether frames stay unsafe until the test says otherwise."""
    reads: list[ReadLog] = field(default_factory=list)
    removed_upto: dict[bytes, int] = field(default_factory=dict)
    problem: str | None = None


class RecordingNet(Net):
    """A network whose brokers may have event logs."""

    def __init__(self, **settings: Any) -> None:
        self.logs: dict[bytes, EventLogOf] = defaultdict(EventLogOf)
        super().__init__(**settings)

    def log(self, name: str = "CCS broker") -> EventLogOf:
        return self.logs[self.brokers[name].key.principal.key]

    def sync(self, name: str = "CCS broker") -> None:
        """Let the disk make everything safe."""
        log, running = self.log(name), self.brokers[name]
        log.safe += log.unsafe
        log.unsafe.clear()
        if log.safe:
            self._input(running, Recorded(log.safe[-1].position))
        self.settle()

    def retain(self, first: int, name: str = "CCS broker") -> None:
        """Remove what is older than a position from the log."""
        log = self.log(name)
        for one in [one for one in log.safe if one.position < first]:
            log.removed_upto[type_id_of(one.data) or b""] = one.position
        log.safe = [one for one in log.safe if one.position >= first]

    def crash(self, name: str) -> None:
        self.log(name).unsafe.clear()
        super().crash(name)

    def _new_broker(self, key: SigningKey, settings: BrokerSettings, kept: Mapping[str, bytes]) -> Broker:
        log = self.logs[key.principal.key].safe
        seed = key.principal.key + len(self.brokers).to_bytes(4, "big") + self.now.to_bytes(8, "big")
        recent = [one for one in log if one.position >= first_to_reread(kept)]
        at_start = LogAtStart(log[-1].position + 1 if log else 1, recent)
        return Broker(key, settings, random=random_from(seed), kept=kept, log=at_start)

    def _perform(self, running: Running, effects: Iterable[Effect]) -> None:
        log, rest = self.logs[running.key.principal.key], list[Effect]()
        for effect in effects:
            if isinstance(effect, Record):
                last = [*log.safe[-1:], *log.unsafe[-1:]]
                assert not last or effect.position == last[-1].position + 1
                log.unsafe.append(Logged(effect.position, self.now, effect.data))
            elif isinstance(effect, ReadLog):
                log.reads.append(effect)
                found = _found(log, effect)
                self.queue.append(lambda found=found: self._input(running, found))
            else:
                rest.append(effect)
        if log.unsafe and not log.is_slow:
            self.queue.append(lambda: self.sync(running.name) if log.unsafe else None)
        super()._perform(running, rest)


def _found(log: EventLogOf, asked: ReadLog) -> LogRead:
    fitting = [one for one in log.safe if asked.first <= one.position <= asked.upto]
    frames = [one for one in fitting if type_id_of(one.data) == asked.type_id][: asked.frames_max]
    upto = frames[-1].position if len(frames) == asked.frames_max else asked.upto
    removed = log.removed_upto.get(asked.type_id, 0)
    return LogRead(asked.read, tuple(frames), upto, removed, log.problem)


def durable(
    client: Client,
    name: str = "mine",
    filter: Predicate = ALWAYS,  # noqa: A002 - the word of every caller
    *,
    seen: int | None = None,
    **changes: Any,
) -> int:
    """Ask for a durable subscription and return its reference."""
    ref = changes.pop("ref", None)
    if ref is None:
        ref, client.next_ref = client.next_ref, client.next_ref + 1
    request = changes.pop("request", None) or client.request(Action.SUBSCRIBE, filter, **changes)
    definitions = [definition_to_bytes(client.net.story.definition)]
    sealed = None if seen is None else _sealed(client, seen, name)
    client.say(Subscribe(ref, request, shown(client.credentials), definitions, name, sealed))
    return ref


def _cursors(client: Client) -> Iterator[Cursor]:
    """Yield the cursors of a client, at whichever broker they are: what they seal, they open."""
    for running in client.net.brokers.values():
        durable = running.broker._parts.durable
        known = {} if durable is None else durable._cursors
        yield from (cursor for (owner, _), cursor in known.items() if owner == client.principal.key)


def _sealed(client: Client, position: int, name: str | None = None, ref: int | None = None) -> bytes:
    for cursor in _cursors(client):
        if cursor.name == name or (cursor.holder is not None and cursor.holder[1] == ref):
            return cursor.sealed(position)
    return bytes(24)  # of no cursor


def positions(client: Client) -> list[int]:
    """Return the numbers in the log of what was delivered, which only the broker can read."""
    return [opened(client, message.position) for message in client.all_heard(DeliverLogged)]


def opened(client: Client, position: bytes) -> int:
    (number,) = [one for cursor in _cursors(client) if (one := cursor.opened(position)) is not None]
    return number


def logged_events(client: Client) -> list[dict[AttributeUid, Value]]:
    """Return what was delivered from the log, by row."""
    return [
        dict(event)
        for message in client.all_heard(DeliverLogged)
        for event in columns_to_frame(message.columns, message.rows).events()
    ]


def acknowledge(client: Client, ref: int, position: int) -> None:
    client.say(Seen(ref, _sealed(client, position, ref=ref)))


def forget(client: Client, ref: int) -> int:
    client.say(Withdraw(900 + ref, ref, True))
    return 900 + ref


class SealedRecordingNet(PublishingNet, RecordingNet):
    """Brokers that seal, and may have event logs."""


def grant_to_read(net: Net, to: Principal, **limits: Any) -> SignedCertificate:
    """Let PITO, whose type it is, grant somebody to read some of it for some time."""
    name = net.story.definition.definition.name
    validity = limits.pop("validity", net.story.certificates[0].certificate.validity)
    certificate = AuthorisationCertificate(
        net.story.principal("PITO"),
        to,
        may_delegate=False,
        authority=Authority(
            TypePattern(name.owner, exact_name(name.name), None), frozenset({Action.SUBSCRIBE}), **limits
        ),
        validity=validity,
    )
    return issue(certificate, net.story.keys["PITO"])


def reader(net: Net, name: str, *rights: SignedCertificate, at: str = "CCS broker") -> Client:
    """Connect somebody who is not in the story, with these rights to read."""
    key = key_of(name)
    connect = connect_right(net.story, key.principal)
    return net.client(name, at, key=key, credentials=(connect, *rights))


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"reader/" + name.encode()).digest())
