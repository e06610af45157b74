"""Who is at the other end of each link of a key server, and may it be there at all?

TLS has proved the peer's key before. The server greets with its credentials,
the peer answers with its own, and nothing else is heard before its right to
be part of this very network was decided. That right is asked about again when
the period of the answer ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, TypeAlias

from maia.credentials import (
    Action,
    Budget,
    Owner,
    Principal,
    SignedCertificate,
    SignedStatement,
    VerificationCache,
)
from maia.credentials.chains.rooted import read_from_owner
from maia.credentials.validity.one_time_answers import VouchedFor
from maia.domain.keys.refusals import (
    HandshakeOverdue,
    KeyServerFull,
    MemberSilent,
    OtherNetwork,
    TooManyJoins,
)
from maia.domain.keys.settings import DomainSettings
from maia.domain.keys.validity import Vouching
from maia.errors import MaiaError
from maia.events import INSTANT_MAX, Instant
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.sealing.groups.validity import shown_statements
from maia.wire.codec import encode
from maia.wire.effects import Close, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.framing import BeyondShare
from maia.wire.messages import PROTOCOL_VERSION, Bye, Greeting, Hello, Ping, Welcome
from maia.wire.names import network_to_bytes
from maia.wire.places import Places

__all__ = ["Brought", "MemberLink", "Links", "Topic"]

_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
_PRINCIPALS_MAX: Final = 65_536


Topic: TypeAlias = tuple[bytes, bool]
"""What somebody asks for: keys of a type, and whether of its past."""


@dataclass(frozen=True, slots=True)
class Brought:
    """One-time answers, and the certificates that were shown with the question they were given for."""

    vouched: VouchedFor
    shown: frozenset[bytes]


@dataclass(slots=True)
class MemberLink:
    """One connection, from the first byte on."""

    id: LinkId
    peer: Principal
    opened_at: Instant
    is_ready: bool = False
    said: int = 0
    """How many bytes the peer has said before its welcome."""
    heard_at: Instant | None = None
    asked_at: Instant | None = None
    """When a ping was sent, if nothing has been heard since."""
    right_ends: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    pool: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    statements: tuple[SignedStatement, ...] = field(default=(), repr=False)
    """What the peer has shown, until it is known whether a right could rest on it."""
    joined: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    """The encryption key of this session, by the types that it has joined."""
    refs: dict[bytes, int] = field(default_factory=dict)
    """The number of the question with which it has joined each type."""
    brought: dict[Topic, Brought] = field(default_factory=dict, repr=False)
    """The one-time answers on which it was given what it asked for."""

    def take_statements(self, of: Collection[Principal]) -> list[SignedStatement]:
        """Return the statements of these that the peer has shown, and hold them no more."""
        taken = [one for one in self.statements if one.statement.by in of]
        self.statements = tuple(one for one in self.statements if one.statement.by not in of)
        return taken

    def answers(self, topic: Topic, pool: Iterable[SignedCertificate], now: Instant) -> VouchedFor | None:
        """Return answers that serve still, if they were brought for the same, from the same certificates."""
        known = self.brought.get(topic)
        if known is None or known.shown != frozenset(one.id for one in pool):
            return None
        return known.vouched if known.vouched.serves.contains(now) else None

    def bring(self, topic: Topic, pool: Iterable[SignedCertificate], vouched: VouchedFor | None) -> None:
        """Remember the answers that were brought about a topic, in place of earlier ones."""
        self.brought.pop(topic, None)
        if vouched is not None:
            self.brought[topic] = Brought(vouched, frozenset(one.id for one in pool))

    def named(self) -> dict[str, object]:
        """Return how log lines name the link."""
        return {"link": int(self.id), "peer": str(self.peer)}

    def record(self, now: Instant) -> dict[str, object]:
        """Return what an operator may know about the link."""
        open_s = (now - self.opened_at) // _SECOND
        return {**self.named(), "types": len(self.joined), "open_s": open_s}


class Links:
    """Every connection of a key server."""

    def __init__(
        self,
        settings: DomainSettings,
        certificates: VerificationCache,
        *,
        vouching: Vouching,
        instance: bytes,
        credentials: list[bytes],
    ) -> None:
        """Begin with none; `instance` is new in every process, and members sign session keys for it."""
        self._settings, self._certificates, self._vouching = settings, certificates, vouching
        self.instance = instance
        self._network = network_to_bytes(settings.network)
        self._credentials = credentials
        self._links: dict[LinkId, MemberLink] = {}
        self._waiting: Places[LinkId] = Places(settings.limits.links_before_welcome)
        self._by_peer: dict[Principal, dict[LinkId, MemberLink]] = {}
        self._dues: list[tuple[int, LinkId]] = []  # a heap; a moment that was moved is looked at in vain
        # Microseconds of the minute that are left to a principal, and when that was worked out.
        self._quota: OrderedDict[Principal, tuple[int, int]] = OrderedDict()
        self._pings = 0

    def get(self, link: LinkId) -> MemberLink | None:
        """Return a link that is open."""
        return self._links.get(link)

    def pop(self, link: LinkId) -> MemberLink | None:
        """Forget a link."""
        self._waiting.leave(link)
        gone = self._links.pop(link, None)
        if gone is not None:
            of_peer = self._by_peer[gone.peer]
            del of_peer[link]
            if not of_peer:
                del self._by_peer[gone.peer]
        return gone

    def all(self) -> list[MemberLink]:
        """Return every link."""
        return list(self._links.values())

    def of(self, principal: Principal) -> list[MemberLink]:
        """Return the links of a principal that are ready."""
        return [link for link in self._by_peer.get(principal, {}).values() if link.is_ready]

    def joined(self, type_id: bytes) -> list[MemberLink]:
        """Return the links that have joined a type."""
        return [link for link in self._links.values() if type_id in link.joined]

    # -------------------------------------------------------- handshake

    def open(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        """Take on a connection whose key is proved, and greet; part from one too many."""
        limits = self._settings.limits
        link = MemberLink(opened.link, opened.peer, opened_at=now)
        self._links[link.id] = self._by_peer.setdefault(link.peer, {})[link.id] = link
        self._waiting.take(link.id, opened.remote)
        parted: list[Effect] = []
        if len(self._links) > limits.links or self._waiting.is_overfull:
            waits = self._waiting.next_to_go()
            assert waits is not None  # noqa: S101 - the new one does
            self.pop(waits)
            problem = KeyServerFull("this server has as many links as it may, and others wait")
            parted = [Send(waits, encode(Bye(problem.code, problem.message))), Close(waits, problem.code)]
        if link.id not in self._links:
            return parted
        self._ask_to_look(link, _later(now, limits.handshake_s))
        greeting = Greeting(PROTOCOL_VERSION, self._network, self._credentials, self.instance)
        own = shown_statements(self._vouching.standing, self._settings.credentials, now)
        shown: list[Effect] = [] if own is None else [Send(opened.link, encode(own))]
        return [*parted, *shown, Send(opened.link, encode(greeting))]

    def said_hello(self, link: MemberLink, message: Hello, now: Instant, budget: Budget) -> list[Effect]:
        """Welcome a peer that has the right to be part of this network."""
        if message.version != PROTOCOL_VERSION or message.network != self._network:
            raise OtherNetwork(f"this is a key server of network `{self._settings.network.name}`")
        self._decide(link, now, budget)
        link.is_ready, link.heard_at = True, now
        self._waiting.leave(link.id)
        self._ask_to_look(link, self._next_due(link, now))
        welcome = Send(link.id, encode(Welcome(self._settings.lease_s)))
        return [welcome, Note("connected", link.named())]

    def pool_of_stranger(self, message: Hello, budget: Budget) -> tuple[SignedCertificate, ...]:
        """Read those certificates that the signatures of the network's owner lead to, and no others (A87)."""
        return self._read(message.credentials, self._settings.network.owner, budget)

    def pool_of_member(self, shown: Iterable[bytes], owner: Owner) -> tuple[SignedCertificate, ...]:
        """Read those certificates that the signatures of a type's owner lead to, and no others."""
        return self._read(shown, owner, Budget.of(self._settings.limits.work_per_request))

    def _read(self, shown: Iterable[bytes], root: Owner, budget: Budget) -> tuple[SignedCertificate, ...]:
        read = read_from_owner(
            shown,
            root=root,
            cache=self._certificates,
            budget=budget,
            constitutions=self._settings.constitutions,
        )
        return tuple(read.values())

    def connecting(self, peer: Principal) -> Request:
        """Return the question whether somebody may be part of this network."""
        return Request(peer, Action.CONNECT, self._settings.network)

    def _decide(self, link: MemberLink, now: Instant, budget: Budget | None = None) -> None:
        request = self.connecting(link.peer)
        evidence = gather_evidence(
            request,
            link.pool,
            at=now,
            cache=self._certificates,
            constitutions=self._settings.constitutions,
            standing=self._vouching.standing,
            budget=Budget.of(self._settings.limits.work_per_request) if budget is None else budget,
        )
        decision = decide(request, evidence, NO_FACTS, now)
        if not isinstance(decision, Permit):
            raise decision.as_refusal()
        used = [signed for chain in evidence.chains for signed in chain.certificates]
        ends = (decision.stable.not_after, self._vouching.standing.stale_after(used, now))
        link.right_ends = min((one for one in ends if one is not None), default=Instant(INSTANT_MAX))

    def fallen(self, changed: Collection[bytes], now: Instant) -> list[tuple[MemberLink, MaiaError]]:
        """Return the links that have to end because of what was heard about these certificates."""
        ended: list[tuple[MemberLink, MaiaError]] = []
        for link in self.all():
            if link.is_ready and any(signed.id in changed for signed in link.pool):
                try:
                    self._decide(link, now)
                    self._ask_to_look(link, self._next_due(link, now))
                except MaiaError as problem:
                    ended.append((link, problem))
        return ended

    # -------------------------------------------------------- upkeep

    def heard(self, link: MemberLink, size: int, now: Instant) -> None:
        """Take note that the peer is there; part from one that says too much before it is welcomed (A89)."""
        link.heard_at, link.asked_at = now, None
        link.said += 0 if link.is_ready else size
        if not link.is_ready and link.said > self._settings.limits.bytes_before_welcome:
            raise BeyondShare("more was said than a handshake takes")

    def spend(self, link: MemberLink, now: Instant, *, requests: int = 1) -> None:
        """Take requests off the principal's quota, or refuse them: each costs a signature check."""
        price = requests * max(1, _MINUTE // self._settings.limits.joins_per_minute)
        left, since = self._quota.get(link.peer, (_MINUTE, now))
        left = min(_MINUTE, left + max(0, now - since))
        self._quota[link.peer] = (left - price if left >= price else left, now)
        self._quota.move_to_end(link.peer)
        if len(self._quota) > _PRINCIPALS_MAX:
            self._quota.popitem(last=False)
        if left < price:
            raise TooManyJoins("too many requests in a minute: slow down")

    def look(self, now: Instant) -> tuple[list[tuple[MemberLink, MaiaError]], list[Effect]]:
        """Return the links that have to end, and why; and questions to those that have been silent."""
        ended: list[tuple[MemberLink, MaiaError]] = []
        asked: list[Effect] = []
        while self._dues and self._dues[0][0] <= now:
            link = self._links.get(heappop(self._dues)[1])
            if link is None:
                continue
            try:
                asked += self._looked_at(link, now)
            except MaiaError as problem:
                ended.append((link, problem))
        return ended, asked

    def _looked_at(self, link: MemberLink, now: Instant) -> list[Effect]:
        if not link.is_ready:
            raise HandshakeOverdue("the handshake took too long")
        if link.right_ends < now:
            self._decide(link, now)
        if link.asked_at is not None and _later(link.asked_at, self._settings.lease_s) <= now:
            raise MemberSilent("nothing was heard for a whole lease")
        heard = now if link.heard_at is None else link.heard_at
        is_silent = link.asked_at is None and _later(heard, self._settings.lease_s) <= now
        if is_silent:
            link.asked_at = now
            self._pings += 1
        self._ask_to_look(link, self._next_due(link, now))
        return [Send(link.id, encode(Ping(self._pings)))] if is_silent else []

    def next_look(self) -> Instant | None:
        """Return the next moment at which a link has to be looked at."""
        return Instant(self._dues[0][0]) if self._dues else None

    def _ask_to_look(self, link: MemberLink, at: Instant) -> None:
        heappush(self._dues, (at, link.id))

    def _next_due(self, link: MemberLink, now: Instant) -> Instant:
        since = link.asked_at or link.heard_at or now
        ends = Instant(min(INSTANT_MAX, link.right_ends + 1))
        return min(max(_later(since, self._settings.lease_s), Instant(now + 1)), ends)


def _later(now: Instant, seconds: int) -> Instant:
    return Instant(min(INSTANT_MAX, now + seconds * _SECOND))
