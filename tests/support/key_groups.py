"""A key server and its members in a `Net`: time by hand, and messages that a test can lose or repeat.

Keys and random bytes come from fixed seeds. A type of three attributes belongs
to its owner; whoever has certificates for some of them is a member, or not.
"""

from __future__ import annotations

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
from maia.sealing.groups.membership import Claim
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import MemberSettings, Notice
from maia.testing import Cast, Net, NetBroker
from maia.testing import grant as granted
from maia.types import Sealing, SealingLevel, TypeDefinition, VerifiedType, sign_definition, verify_definition
from maia.wire.codec import decode
from maia.wire.effects import (
    DialFailed,
    Effect,
    Keep,
    LinkId,
    Note,
    Received,
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
class Member(NetBroker):
    """A broker's member part, whether it runs, and what it kept."""

    is_cut_off: bool = False
    notices: list[Notice] = field(default_factory=list)
    starts: int = 0
    needs: tuple[VerifiedType, ...] = ()
    pool: tuple[SignedCertificate, ...] = ()

    @property
    def node(self) -> KeyMember:
        return self.broker

    @property
    def principal(self) -> Principal:
        return self.key.principal


Weather = Callable[[Message, str, bool], int]
"""How many copies of a message arrive: the message, the member's name, whether it goes to the server."""
SERVER = "key server"


class KeyNet(Net):
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
        self.event_type = sealed_type(level)
        super().__init__(Cast({"owner": OWNER}, NETWORK, self.event_type.signed, ()), now=now)
        self.seed = seed
        self.settings = DomainSettings(
            NETWORK,
            ADDRESS,
            (connects(MANAGER),),
            terms=terms,
            history=frozenset({self.event_type.type_id}) if history else frozenset(),
            limits=DomainLimits() if limits is None else limits,
        )
        self.effects: list[Effect] = []
        self.members: dict[str, Member] = {}
        self.weather: Weather = lambda _message, _name, _to_server: 1
        self.reorders = False
        self.trace: list[tuple[str, str, bytes]] = []
        self.dials: list[tuple[str, Instant]] = []
        self.starts = 0
        self.brokers[SERVER] = NetBroker(SERVER, MANAGER, self.settings, None, alive=False)
        self.start_server()

    def group(self, uid: AttributeUid | None = None) -> GroupId:
        return GroupId(self.type_id, uid)

    # ---- the server

    @property
    def server(self) -> KeyServer:
        return self.brokers[SERVER].broker

    @property
    def kept(self) -> dict[str, bytes]:
        return self.brokers[SERVER].kept

    @property
    def notes(self) -> list[Note]:
        return self.brokers[SERVER].notes

    @property
    def counts(self) -> dict[str, int]:
        return self.brokers[SERVER].counts

    def start_server(self, kept: dict[str, bytes] | None = None) -> None:
        """Start a server from what was kept."""
        self.starts += 1
        running = self.brokers[SERVER]
        running.broker = KeyServer(
            MANAGER,
            self.settings,
            at_rest=Secret.from_bytes(sha256(b"at rest").digest()),
            random=random_from(self.seed + b"server" + bytes([self.starts])),
            kept=dict(self.kept if kept is None else kept),
        )
        running.alive, running.wake_at = True, None
        self.serve(self.server.start(self.now))

    def kill_server(self) -> None:
        """Let the server die without a word; its links go down."""
        self.crash(SERVER)

    def restart_server(self) -> None:
        """Kill the server, and start it from what it kept."""
        self.kill_server()
        self.start_server()

    def serve(self, effects: list[Effect]) -> None:
        """Perform what the server asks for, outside `handle` too, such as an eviction."""
        self.do(self.brokers[SERVER], effects)

    def expect(self, who: str, *pool: SignedCertificate) -> None:
        """Tell the server of a right of somebody who has not asked for keys yet."""
        claim = Claim(key_of(who).principal, (self.event_type,), pool)
        self.serve(self.server.expect(claim, self.now))
        self.settle()

    # ---- members

    def member(self, name: str, *pool: SignedCertificate, needs: tuple[VerifiedType, ...] = ()) -> Member:
        """Start a member that needs the type, with these certificates and the right to connect."""
        key = key_of(name)
        member = Member(name, key, None, self.node_of(name, key, pool, {}, 0), pool=pool)
        self.members[name] = self.brokers[name] = member
        member.needs = needs or (self.event_type,)
        return self.do(member, member.node.need(member.needs, self.now))

    def restart_member(self, member: Member) -> None:
        """Kill a member and start it from what it kept."""
        self._hang_up(member)
        member.starts += 1
        member.broker = self.node_of(member.name, member.key, member.pool, member.kept, member.starts)
        member.wake_at = None
        self.do(member, member.node.need(member.needs, self.now))

    def show(self, member: Member, *pool: SignedCertificate) -> None:
        """Give a member other certificates."""
        member.pool = pool
        self.do(member, member.node.credentials_changed((connects(member.key), *pool), self.now))

    def leave(self, member: Member) -> None:
        """Let a member leave in order."""
        self.do(member, member.node.drop(self.type_id, self.now))

    def cut_off(self, member: Member, *, is_cut_off: bool = True) -> None:
        """Cut a member off from the server, or let it come back when it next dials."""
        member.is_cut_off = is_cut_off
        if is_cut_off:
            self._hang_up(member)
        self.settle()

    def ask(self, member: Member, effects: list[Effect]) -> None:
        """Perform what a member asks for outside `handle`."""
        self.do(member, effects)

    def say_to(self, member: Member, data: bytes) -> None:
        """Say something to a member on its link, as whoever sits on the link could."""
        for _, link in self._links(member):
            self.happen(member, Received(link, data))
        self.settle()

    def say_to_server(self, member: Member, data: bytes) -> None:
        """Say something to the server on a member's link."""
        for end in self._links(member):
            self.happen(self.brokers[SERVER], Received(self.wires[end][1], data))
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

    def _links(self, member: Member) -> list[tuple[str, LinkId]]:
        return [end for end in self.wires if end[0] == member.name]

    def _hang_up(self, member: Member) -> None:
        for end in self._links(member):
            self.cut(self.wires[end])

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
        """Return whether a member holds the key of a group in an epoch, the newest unless told."""
        ring = member.node.ring(self.type_id)
        return (
            ring is not None
            and ring.key(self.group(uid), self.epoch() if epoch is None else epoch) is not None
        )

    # ---- what differs from other nets

    def run_to(self, moment: Instant) -> None:
        """Let time pass, waking everybody when it asked to be woken."""
        self.advance_to(max(self.now, moment))

    def run(self, seconds: float) -> None:
        self.advance(seconds)

    def settle(self) -> KeyNet:
        """Deliver whatever is under way, in another order if it `reorders`."""
        for _ in range(100_000):
            if not self.queue:
                return self
            step = self.queue.pop() if self.reorders and len(self.queue) % 3 == 0 else self.queue.popleft()
            step()
        raise AssertionError("the members and the server never come to rest")

    def perform(self, running: NetBroker, effects: Iterable[Effect]) -> None:
        done = list(effects)
        if isinstance(running, Member):
            running.notices += running.node.take_notices()
        else:
            self.effects += done
            done.sort(key=lambda one: not isinstance(one, Keep))  # what it keeps, before anything leaves
        super().perform(running, done)

    def send(self, name: str, link: LinkId, data: bytes) -> None:
        other = self.wires.get((name, link))
        if other is None:
            return
        to_server = name != SERVER
        member = name if to_server else other[0]
        self.trace.append((member, "to server" if to_server else "to member", data))
        for _ in range(self.weather(decode(data), member, to_server)):
            super().send(name, link, data)

    def dial(self, running: NetBroker, address: str) -> None:
        self.dials.append((running.name, self.now))
        if isinstance(running, Member) and running.is_cut_off:
            self.happen(running, DialFailed(address))
        else:
            super().dial(running, address)
