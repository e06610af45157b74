"""A key server and its members in memory: time by hand, and messages that a test can lose or repeat.

Keys and random bytes come from fixed seeds. A type of three attributes belongs
to its owner; whoever has certificates for some of them is a member, or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AttributeSet,
    NetworkName,
    NetworkPattern,
    Principal,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    parse_name_pattern,
)
from maia.domain import DomainLimits, DomainSettings, KeyServer
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings, Notice
from maia.testing import grant as granted
from maia.types import Sealing, SealingLevel, TypeDefinition, VerifiedType, sign_definition, verify_definition
from maia.wire.codec import decode
from maia.wire.effects import (
    Close,
    Count,
    Dial,
    DialFailed,
    Effect,
    Input,
    Keep,
    LinkClosed,
    LinkId,
    LinkOpened,
    Note,
    Received,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import Message

NOON = Instant.parse("2026-11-15T12:00:00Z")
SECOND = 1_000_000
ADDRESS = "127.0.0.1:7500"
PLATE, TIME, PLACE = (AttributeUid(uid) for uid in ("plate", "time", "place"))
UIDS = (PLATE, TIME, PLACE)
ATTRIBUTES = tuple(Attribute(uid, uid, Kind.STRING) for uid in UIDS)
READ, WRITE = frozenset({Action.SUBSCRIBE}), frozenset({Action.PUBLISH})
TERMS = KeyTerms(refresh_s=1000, overdue_s=200, drift_s=60, back_dating_s=10)


def key_of(name: str) -> SigningKey:
    """Return the key of somebody, the same in every run."""
    return SigningKey.from_seed(sha256(name.encode()).digest())


def random_from(seed: bytes) -> Callable[[int], bytes]:
    """Return a source of bytes that are the same in every run."""
    counter = [0]

    def more(size: int) -> bytes:
        counter[0] += 1
        blocks = (
            sha256(seed + counter[0].to_bytes(8, "big") + bytes([number])).digest()
            for number in range(size // 32 + 1)
        )
        return b"".join(blocks)[:size]

    return more


def at(seconds: float) -> Instant:
    """Return the moment so many seconds after noon."""
    return Instant(NOON + int(seconds * SECOND))


OWNER, MANAGER = key_of("owner"), key_of("manager")
NETWORK = NetworkName(OWNER.principal, "uk.Police")
TYPE_NAME = "uk.gov.Numberplate"


def grant(
    who: SigningKey | Principal,
    uids: Iterable[AttributeUid] | None = None,
    *,
    actions: frozenset[Action] = READ,
    since: float | None = None,
    until: float | None = None,
    name: str = TYPE_NAME,
) -> SignedCertificate:
    """Let somebody read, or write, these attributes, or all; bounds are seconds after noon, included."""
    attributes: AttributeSet = ALL_ATTRIBUTES if uids is None else frozenset(uids)
    subject = who if isinstance(who, Principal) else who.principal
    return granted(
        OWNER,
        subject,
        TypePattern(OWNER.principal, parse_name_pattern(name), None),
        *actions,
        attributes=attributes,
        validity=Validity(None if since is None else at(since), None if until is None else at(until)),
    )


def connects(who: SigningKey, validity: Validity = UNBOUNDED) -> SignedCertificate:
    """Let somebody be part of the network."""
    return granted(
        OWNER,
        who,
        NetworkPattern(OWNER.principal, parse_name_pattern("*")),
        Action.CONNECT,
        validity=validity,
    )


def sealed_type(
    level: SealingLevel = SealingLevel.ATTRIBUTE,
    *,
    name: str = TYPE_NAME,
    manager: SigningKey = MANAGER,
    addresses: tuple[str, ...] = (ADDRESS,),
) -> VerifiedType:
    """Return the owner's type, sealed at a level."""
    sealing = Sealing(level, manager.principal, addresses)
    definition = TypeDefinition(TypeName(OWNER.principal, name, "0"), None, ATTRIBUTES, sealing=sealing)
    return verify_definition(sign_definition(definition, OWNER), at=NOON, network=NETWORK)


@dataclass(slots=True)
class Member:
    """A broker's member part, whether it runs, and what it kept."""

    name: str
    key: SigningKey
    node: KeyMember
    alive: bool = True
    is_cut_off: bool = False
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    wake_at: Instant | None = None
    starts: int = 0
    needs: tuple[VerifiedType, ...] = ()
    pool: tuple[SignedCertificate, ...] = ()

    @property
    def principal(self) -> Principal:
        return self.key.principal


@dataclass(slots=True)
class _Wire:
    number: LinkId
    member: Member
    is_open: bool = True


Weather = Callable[[Message, str, bool], int]
"""How many copies of a message arrive: the message, the member's name, whether it goes to the server."""


class KeyNet:
    """One key server, some members, and links that do what the weather says."""

    def __init__(
        self,
        level: SealingLevel = SealingLevel.ATTRIBUTE,
        *,
        terms: KeyTerms = TERMS,
        history: bool = False,
        limits: DomainLimits | None = None,
        seed: bytes = b"keys",
        now: Instant = NOON,
    ) -> None:
        self.now = now
        self.seed = seed
        self.event_type = sealed_type(level)
        self.settings = DomainSettings(
            NETWORK,
            ADDRESS,
            (connects(MANAGER),),
            terms=terms,
            history=frozenset({self.event_type.type_id}) if history else frozenset(),
            limits=DomainLimits() if limits is None else limits,
        )
        self.kept: dict[str, bytes] = {}
        self.notes: list[Note] = []
        self.effects: list[Effect] = []
        self.counts: dict[str, int] = {}
        self.members: dict[str, Member] = {}
        self.weather: Weather = lambda _message, _name, _to_server: 1
        self.reorders = False
        self.trace: list[tuple[str, str, bytes]] = []
        self.dials: list[tuple[str, Instant]] = []
        self._wires: dict[LinkId, _Wire] = {}
        self._next_link = 1
        self._queue: deque[Callable[[], None]] = deque()
        self._wake_at: Instant | None = None
        self.is_up = False
        self.starts = 0
        self.start_server()

    @property
    def type_id(self) -> bytes:
        return self.event_type.type_id

    def group(self, uid: AttributeUid | None = None) -> GroupId:
        return GroupId(self.type_id, uid)

    # ---- the server

    def start_server(self, kept: dict[str, bytes] | None = None) -> None:
        """Start a server from what was kept."""
        self.starts += 1
        self.server = KeyServer(
            MANAGER,
            self.settings,
            at_rest=Secret.from_bytes(sha256(b"at rest").digest()),
            random=random_from(self.seed + b"server" + bytes([self.starts])),
            kept=dict(self.kept if kept is None else kept),
        )
        self.is_up = True
        self._perform_server(self.server.start(self.now))
        self.settle()

    def kill_server(self) -> None:
        """Let the server die without a word; its links go down."""
        self.is_up, self._wake_at = False, None
        for wire in list(self._wires.values()):
            self._drop(wire)
        self.settle()

    def restart_server(self) -> None:
        """Kill the server, and start it from what it kept."""
        self.kill_server()
        self.start_server()

    def serve(self, effects: list[Effect]) -> None:
        """Perform what the server asks for outside `handle`, such as an eviction."""
        self._perform_server(effects)
        self.settle()

    # ---- members

    def member(self, name: str, *pool: SignedCertificate, needs: tuple[VerifiedType, ...] = ()) -> Member:
        """Start a member that needs the type, with these certificates and the right to connect."""
        key = key_of(name)
        member = self.members[name] = Member(name, key, self.node_of(name, key, pool, {}, 0), pool=pool)
        member.needs = needs or (self.event_type,)
        self.perform_member(member, member.node.need(member.needs, self.now))
        self.settle()
        return member

    def restart_member(self, member: Member) -> None:
        """Kill a member and start it from what it kept."""
        for wire in [one for one in self._wires.values() if one.member is member]:
            self._drop(wire)
        member.starts += 1
        member.node = self.node_of(member.name, member.key, member.pool, member.kept, member.starts)
        member.wake_at = None
        self.perform_member(member, member.node.need(member.needs, self.now))
        self.settle()

    def show(self, member: Member, *pool: SignedCertificate) -> None:
        """Give a member other certificates."""
        member.pool = pool
        changed = member.node.credentials_changed((connects(member.key), *pool), self.now)
        self.perform_member(member, changed)
        self.settle()

    def leave(self, member: Member) -> None:
        """Let a member leave in order."""
        self.perform_member(member, member.node.drop(self.type_id, self.now))
        self.settle()

    def cut_off(self, member: Member, *, is_cut_off: bool = True) -> None:
        """Cut a member off from the server, or let it come back when it next dials."""
        member.is_cut_off = is_cut_off
        for wire in [one for one in self._wires.values() if one.member is member and is_cut_off]:
            self._drop(wire)
        self.settle()

    def ask(self, member: Member, effects: list[Effect]) -> None:
        """Perform what a member asks for outside `handle`."""
        self.perform_member(member, effects)
        self.settle()

    def say_to(self, member: Member, data: bytes) -> None:
        """Say something to a member on its link, as whoever sits on the link could."""
        for wire in [one for one in self._wires.values() if one.member is member]:
            self._arrive(wire, data, to_server=False)
        self.settle()

    def say_to_server(self, member: Member, data: bytes) -> None:
        """Say something to the server on a member's link."""
        for wire in [one for one in self._wires.values() if one.member is member]:
            self._arrive(wire, data, to_server=True)
        self.settle()

    def node_of(
        self,
        name: str,
        key: SigningKey,
        pool: tuple[SignedCertificate, ...],
        kept: dict[str, bytes],
        start: int,
    ) -> KeyMember:
        settings = MemberSettings(NETWORK, (connects(key), *pool))
        seed = self.seed + name.encode() + bytes([start])
        return KeyMember(key, settings, random=random_from(seed), kept=dict(kept))

    # ---- what is held

    def ring(self, member: Member) -> KeyRing:
        ring = member.node.ring(self.type_id)
        assert ring is not None
        return ring

    def epoch(self) -> int:
        """Return the number of the server's newest epoch."""
        manager = self.server.groups_of(self.type_id)
        return 0 if manager is None else manager.number

    def holds(self, member: Member, uid: AttributeUid | None = None, epoch: int | None = None) -> bool:
        """Say whether a member holds the key of a group in an epoch, the newest unless told."""
        ring = member.node.ring(self.type_id)
        return (
            ring is not None
            and ring.key(self.group(uid), self.epoch() if epoch is None else epoch) is not None
        )

    # ---- time

    def run_to(self, moment: Instant) -> None:
        """Let time pass, waking everybody when it asked to be woken."""
        while True:
            wakes = [one.wake_at for one in self.members.values() if one.alive and one.wake_at is not None]
            if self.is_up and self._wake_at is not None:
                wakes.append(self._wake_at)
            due = min(wakes, default=None)
            if due is None or due > moment:
                break
            self.now = max(self.now, due)
            self._wake(self.now)
        self.now = max(self.now, moment)

    def run(self, seconds: float) -> None:
        self.run_to(Instant(self.now + int(seconds * SECOND)))

    def _wake(self, now: Instant) -> None:
        if self.is_up and self._wake_at is not None and self._wake_at <= now:
            self._wake_at = None
            self._perform_server(self.server.handle(Tick(), now))
        for member in self.members.values():
            if member.alive and member.wake_at is not None and member.wake_at <= now:
                member.wake_at = None
                self.perform_member(member, member.node.handle(Tick(), now))
        self.settle()

    # ---- effects

    def settle(self) -> None:
        """Deliver whatever is under way."""
        for _ in range(100_000):
            if not self._queue:
                return
            step = self._queue.pop() if self.reorders and len(self._queue) % 3 == 0 else self._queue.popleft()
            step()
        raise AssertionError("the members and the server never come to rest")

    def _to_server(self, happened: Input) -> None:
        if self.is_up:
            self._perform_server(self.server.handle(happened, self.now))

    def _to_member(self, member: Member, happened: Input) -> None:
        if member.alive:
            self.perform_member(member, member.node.handle(happened, self.now))

    def _perform_server(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                _keep(self.kept, effect)
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Send(link=link, data=data):
                    wire = self._wires.get(link)
                    if wire is not None:
                        self._send(wire, data, to_server=False)
                case Close(link=link):
                    wire = self._wires.get(link)
                    if wire is not None:
                        self._queue.append(lambda wire=wire: self._drop(wire))
                case WakeAt(at=moment):
                    self._wake_at = moment if self._wake_at is None else min(moment, self._wake_at)
                case Note():
                    self.notes.append(effect)
                case Count(name=name, amount=amount):
                    self.counts[name] = self.counts.get(name, 0) + amount

    def perform_member(self, member: Member, effects: list[Effect]) -> None:
        member.notices += member.node.take_notices()
        for effect in effects:
            match effect:
                case Keep():
                    _keep(member.kept, effect)
                case Send(link=link, data=data):
                    wire = self._wires.get(link)
                    if wire is not None:
                        self._send(wire, data, to_server=True)
                case Close(link=link):
                    wire = self._wires.get(link)
                    if wire is not None:
                        self._queue.append(lambda wire=wire: self._drop(wire))
                case Dial(address=address):
                    self._queue.append(lambda address=address: self._dial(member, address))
                case WakeAt(at=moment):
                    member.wake_at = moment if member.wake_at is None else min(moment, member.wake_at)
                case Note():
                    member.notes.append(effect)

    def _dial(self, member: Member, address: str) -> None:
        self.dials.append((member.name, self.now))
        if not self.is_up or member.is_cut_off or address != ADDRESS:
            self._to_member(member, DialFailed(address))
            return
        number = LinkId(self._next_link)
        self._next_link += 1
        self._wires[number] = _Wire(number, member)
        self._to_member(member, LinkOpened(number, MANAGER.principal, address))
        self._to_server(LinkOpened(number, member.principal, None))

    def _send(self, wire: _Wire, data: bytes, *, to_server: bool) -> None:
        self.trace.append((wire.member.name, "to server" if to_server else "to member", data))
        copies = self.weather(decode(data), wire.member.name, to_server)
        for _ in range(copies):
            self._queue.append(lambda: self._arrive(wire, data, to_server=to_server))

    def _arrive(self, wire: _Wire, data: bytes, *, to_server: bool) -> None:
        if not wire.is_open:
            return
        if to_server:
            self._to_server(Received(wire.number, data))
        else:
            self._to_member(wire.member, Received(wire.number, data))

    def _drop(self, wire: _Wire) -> None:
        if wire.is_open:
            wire.is_open = False
            self._wires.pop(wire.number, None)
            self._to_server(LinkClosed(wire.number))
            self._to_member(wire.member, LinkClosed(wire.number))


def _keep(kept: dict[str, bytes], effect: Keep) -> None:
    if effect.data is None:
        kept.pop(effect.name, None)
    else:
        kept[effect.name] = effect.data
