"""Who is at the other end of each link of a key server, and may it be there at all?

The handshake is that of all nodes (`maia.sessions.session`). A member's right
to connect is decided again when the period of the answer ends, and when a
statement is new about one of its certificates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from maia.credentials import (
    Action,
    Budget,
    Owner,
    Principal,
    SignedCertificate,
    SignedStatement,
    VerificationCache,
    certificate_to_bytes,
)
from maia.credentials.chains.discovery import read_from_owner
from maia.domain.keys.settings import DomainSettings
from maia.errors import MaiaError, Unavailable
from maia.events import INSTANT_MAX, SECOND, Instant, seconds_after
from maia.policy import Request, TooMuchToSearch, gather_evidence
from maia.sessions.admission import Places, RequestQuota, right_to_connect
from maia.sessions.session import (
    ROUNDS_IN_A_LEASE,
    Endpoint,
    PeerSilent,
    Session,
    SessionLimits,
    Stage,
    goodbye,
    statements_for,
)
from maia.sessions.statements import Recheck, StatementIntake
from maia.validity import ASSUMED_GOOD, Changed, Monitor, VouchedFor, speakers
from maia.wire.effects import Effect, LinkId, LinkOpened, Note
from maia.wire.messages import HistoryKeys, JoinGroups

# ------------------------------------------------------------ on whose statements rights depend

# The domain hands its key server what it states and what it receives. Peers
# bring statements too, for the certificates that they show; of these the server
# takes in only those by issuers on whose statements a chain from an owner to the
# peer could depend, so that strangers do not fill its memory. What peers bring
# is acted upon even if their own request is refused.


class KeyServerValidity:
    """What one key server has taken in on validity."""

    def __init__(
        self,
        settings: DomainSettings,
        certificates: VerificationCache,
        kept: Mapping[str, bytes],
        *,
        changes: dict[str, bytes | None],
        recheck: Recheck,
    ) -> None:
        """Go on from what was kept; `changes` is what has to be kept."""
        self._settings, self._certificates = settings, certificates
        self.intake = StatementIntake(kept)
        self._changes, self._recheck = changes, recheck

    @property
    def monitor(self) -> Monitor:
        """Return what speaks for and against certificates."""
        return self.intake.monitor

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Take statements in, and recheck whom they concern."""
        return self.intake.take(statements, now, self._changed)

    def advance(self, now: Instant) -> list[Effect]:
        """Recheck those whose statements have ended by now, or begun."""
        return self.intake.advance(now, self._changed)

    def _changed(self, changed: Changed, now: Instant) -> list[Effect]:
        kept = self.intake.kept(changed.by)
        self._changes[kept.name] = kept.data
        return self._recheck(changed, now)

    # -------------------------------------------------------- what peers show

    def hear_known(self, link: Session, now: Instant) -> None:
        """Take in what a peer has shown, of issuers whose statements were taken in before."""
        self.intake.take_shown(link, self.monitor.__contains__, now, self._changed)

    def receive_held(
        self,
        link: Session,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None = None,
    ) -> None:
        """Take in what a peer has shown, of issuers on whom one of these requests could depend."""
        if link.statements:
            concerned = self._concerned(asked, pool, now, budget)
            self.intake.take_shown(link, concerned.__contains__, now, self._changed)

    def _concerned(
        self,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None,
    ) -> frozenset[Principal]:
        """Return on whose statements a right to one of these could depend, if all certificates were good."""
        budget = Budget.of(self._settings.limits.work_per_request) if budget is None else budget
        used: dict[bytes, SignedCertificate] = {}
        for request in asked:
            try:
                evidence = gather_evidence(
                    request,
                    pool,
                    at=now,
                    cache=self._certificates,
                    constitutions=self._settings.constitutions,
                    standing=ASSUMED_GOOD,
                    doubtful=[signed.id for signed in pool],
                    budget=budget,
                )
            except TooMuchToSearch:
                break
            used |= {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
        return frozenset(by for signed in used.values() for by in speakers(signed))

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: whose statements were taken in, and until when they hold."""
        issuers = sorted(self.monitor, key=lambda one: one.key)
        return {str(by): self.intake.status(by, now) for by in issuers}


Topic: TypeAlias = tuple[bytes, bool]
"""What a member asks for: keys of a type, and whether of its past."""
Held: TypeAlias = JoinGroups | HistoryKeys | None
"""What waits for one-time answers: a question for keys, or None for a member that is to stay."""


@dataclass(frozen=True, slots=True)
class Brought:
    """One-time answers, and the certificates that were shown with the question they were given for."""

    vouched: VouchedFor
    shown: frozenset[bytes]


@dataclass(slots=True)
class MemberLink(Session):
    """One connection of a key server, from the first byte on."""

    right_ends: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    pool: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    joined: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    """The encryption key of this session, by the types that it has joined."""
    refs: dict[bytes, int] = field(default_factory=dict)
    """The number of the question with which it has joined each type."""
    brought: dict[Topic, Brought] = field(default_factory=dict, repr=False)
    """The one-time answers on which it was given what it asked for."""

    def answers(self, topic: Topic, pool: Iterable[SignedCertificate], now: Instant) -> VouchedFor | None:
        """Return answers that serve still, if they were brought for the same, from the same certificates."""
        known = self.brought.get(topic)
        if known is None or known.shown != frozenset(one.id for one in pool):
            return None
        return known.vouched if known.vouched.counting(now) else None

    def bring(self, topic: Topic, pool: Iterable[SignedCertificate], vouched: VouchedFor | None) -> None:
        """Remember the answers that were brought about a topic, in place of earlier ones."""
        self.brought.pop(topic, None)
        if vouched is not None:
            self.brought[topic] = Brought(vouched, frozenset(one.id for one in pool))

    def named(self) -> dict[str, object]:
        return {"link": int(self.id), "peer": str(self.peer)}

    def record(self, now: Instant) -> dict[str, object]:
        """Return what an operator may know about the link."""
        open_s = (now - self.opened_at) // SECOND
        return {**self.named(), "types": len(self.joined), "open_s": open_s}


class Links(Endpoint[MemberLink]):
    """Every connection of a key server."""

    def __init__(
        self,
        settings: DomainSettings,
        certificates: VerificationCache,
        validity: KeyServerValidity,
        instance: bytes,
    ) -> None:
        """Begin with none; `instance` is new in every process, and members sign session keys for it."""
        limits = SessionLimits(settings.limits.bytes_before_welcome)
        super().__init__(settings.network, instance=instance, lease_s=settings.lease_s, limits=limits)
        self._settings, self._certificates, self._validity = settings, certificates, validity
        self._own: list[bytes] = []
        self.hold(settings)
        self._links: dict[LinkId, MemberLink] = {}
        self._waiting: Places[LinkId] = Places(settings.limits.links_before_welcome)
        self._by_peer: dict[Principal, dict[LinkId, MemberLink]] = {}
        self._dues: list[tuple[int, LinkId]] = []  # a heap; a moment that was moved is looked at in vain
        self._round_at: Instant | None = None
        """When all links are looked after next."""
        self.quota = RequestQuota(settings.limits.joins_per_minute)

    def hold(self, settings: DomainSettings) -> None:
        """Show the certificates of these settings from now on."""
        self._settings = settings
        self._own = [certificate_to_bytes(signed) for signed in settings.credentials]

    def get(self, link: LinkId) -> MemberLink | None:
        return self._links.get(link)

    def pop(self, link: LinkId) -> MemberLink | None:
        self._waiting.leave(link)
        gone = self._links.pop(link, None)
        if gone is not None:
            of_peer = self._by_peer[gone.peer]
            del of_peer[link]
            if not of_peer:
                del self._by_peer[gone.peer]
        return gone

    def all(self) -> list[MemberLink]:
        return list(self._links.values())

    def of(self, principal: Principal) -> list[MemberLink]:
        return [link for link in self._by_peer.get(principal, {}).values() if link.is_ready]

    def joined(self, type_id: bytes) -> list[MemberLink]:
        return [link for link in self._links.values() if type_id in link.joined]

    # -------------------------------------------------------- handshake

    def connected(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        """Take on a connection whose key is proved, and greet; part from one too many."""
        limits = self._settings.limits
        link = MemberLink(opened.link, opened.peer, None, Stage.AWAITING_HELLO, opened_at=now, heard_at=now)
        self._links[link.id] = self._by_peer.setdefault(link.peer, {})[link.id] = link
        self._waiting.take(link.id, opened.remote)
        parted: list[Effect] = []
        if len(self._links) > limits.links or self._waiting.is_overfull:
            waits = self._waiting.next_to_go()
            assert waits is not None  # noqa: S101 - the new one does
            self.pop(waits)
            parted = goodbye(
                waits,
                Unavailable(
                    "UNAVAILABLE-KEY-SERVER-FULL", "this server has as many links as it may, and others wait"
                ),
            )
        if link.id not in self._links:
            return parted
        heappush(self._dues, (seconds_after(now, limits.handshake_s), link.id))
        return [*parted, *self.open(link, now)]

    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return the server's right to connect."""
        del now
        return self._own

    def own_statements(self, now: Instant) -> list[bytes]:
        return statements_for(self._settings.credentials, self._validity.monitor, now)

    def admit(self, session: MemberLink, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Take in what a peer has shown beside its certificates, and decide whether it may connect."""
        del vouched
        budget = Budget.of(self._settings.limits.work_before_welcome)
        # What the signatures of the network's owner do not lead to is not even read (A87).
        session.pool = self._read(session.shown, self._settings.network.owner, budget)
        self._validity.receive_held(session, [self._connecting(session.peer)], session.pool, now, budget)
        self._decide(session, now, budget)
        return []

    def ready(self, link: MemberLink, now: Instant) -> list[Effect]:
        """Look after a link that has become ready."""
        self._waiting.leave(link.id)
        self._round_at = self._round_at or self._next_round(now)
        self._look_when_right_ends(link)
        return [Note("connected", link.named())]

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

    def _connecting(self, peer: Principal) -> Request:
        return Request(peer, Action.CONNECT, self._settings.network)

    def _decide(self, link: MemberLink, now: Instant, budget: Budget | None = None) -> None:
        right = right_to_connect(
            self._connecting(link.peer),
            link.pool,
            now,
            tester=self._validity.monitor,
            cache=self._certificates,
            constitutions=self._settings.constitutions,
            budget=Budget.of(self._settings.limits.work_per_request) if budget is None else budget,
        )
        link.right_ends = Instant(INSTANT_MAX) if right.until is None else right.until

    def fallen(self, changed: Changed, now: Instant) -> list[tuple[MemberLink, MaiaError]]:
        """Return the links that have to end because a statement, or its end, concerns their certificates."""
        ended: list[tuple[MemberLink, MaiaError]] = []
        for link in self.all():
            if link.is_ready and any(map(changed.concerns, link.pool)):
                try:
                    self._decide(link, now)
                    self._look_when_right_ends(link)
                except MaiaError as problem:
                    ended.append((link, problem))
        return ended

    # -------------------------------------------------------- upkeep

    def look(self, now: Instant) -> tuple[list[tuple[MemberLink, MaiaError]], list[Effect]]:
        """Return the links that have to end, and why; and pings to those that have been silent."""
        ended: list[tuple[MemberLink, MaiaError]] = []
        pings: list[Effect] = []
        while self._dues and self._dues[0][0] <= now:
            link = self._links.get(heappop(self._dues)[1])
            try:
                if link is not None and not link.is_ready:
                    raise Unavailable("UNAVAILABLE-HANDSHAKE-TIME", "the handshake took too long")
                if link is not None and link.right_ends < now:
                    self._decide(link, now)
                    self._look_when_right_ends(link)
            except MaiaError as problem:
                assert link is not None  # noqa: S101 - it was decided about
                ended.append((link, problem))
        if self._round_at is not None and self._round_at <= now:
            self._round_at = self._next_round(now) if self._links else None
            for link in [one for one in self._links.values() if one.is_ready]:
                self._look_when_right_ends(link)
                try:
                    pings += link.ping()
                except PeerSilent as problem:
                    ended.append((link, problem))
        return ended, pings

    def next_look(self) -> Instant | None:
        moments = [self._round_at, *(Instant(at) for at, _ in self._dues[:1])]
        return min((one for one in moments if one is not None), default=None)

    def _look_when_right_ends(self, link: MemberLink) -> None:
        """Look at a link when its right ends, if that is in this round: links that are gone leave little."""
        if self._round_at is not None and link.right_ends < self._round_at:
            heappush(self._dues, (link.right_ends + 1, link.id))

    def _next_round(self, now: Instant) -> Instant:
        return Instant(min(INSTANT_MAX, now + self._settings.lease_s * SECOND // ROUNDS_IN_A_LEASE))
