"""Who is in the key groups of one type, and which epoch do they share?

The manager of a type calls its `GroupManager`: a member joins, leaves, is put
out, or time passes, and what comes back is what members must be sent.
A member's right is the policy kernel's answer to the certificates shown
(`groups/membership.py`), and a new key is made when, and only when, a member would
otherwise read what it has no right to (`groups/type_groups.py`). All groups of a type
share one sequence of epochs, each signed and bound to the one before.

    manager.join(claim, head, now)   -> [NewEpoch(...), Delivery(...)]
    manager.tick(now)                -> [NewEpoch(...), ShutOut(...)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import heappop, heappush
from typing import Final, TypeAlias

from maia.credentials import (
    CertificateRevoked,
    Principal,
    SignedCertificate,
    SignedKind,
    SigningKey,
    Subject,
)
from maia.errors import Refusal, Unavailable
from maia.events import INSTANT_MAX, SECOND, AttributeUid, Instant
from maia.policy.answers import (
    ANSWER_PREFIX,
    ANSWERS_MAX,
    PART_PREFIX,
    Answers,
    Said,
    Shown,
    may_read,
    said_to_bytes,
)
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.manager_store import KeptGroups, ManagerStore
from maia.sealing.groups.membership import (
    NOTHING_HELD,
    VERSIONS_MAX,
    AnsweredRights,
    Claim,
    MemberGrounds,
    MembershipState,
    NoGroupOpen,
    RightHistory,
    awaits_statement,
    standing,
    writing_certificates,
)
from maia.sealing.groups.type_groups import Due, NewEpoch, Refresh, TypeGroups
from maia.sealing.keys.epochs import SignedEpoch
from maia.sealing.keys.key_ring import DEFAULT_TERMS, KeyTerms
from maia.sealing.keys.parcels import PAGE_EPOCHS, GroupWelcome, PastEpoch
from maia.types import VerifiedType
from maia.validity import Changed, VouchedFor
from maia.wire.key_messages import STATEMENT_AWAITED

_NAMES_MAX: Final = 4096
_MEMBERS_MAX: Final = 1 << 16
_POOL_MAX: Final = 256

Past: TypeAlias = tuple[tuple[PastEpoch, ...], int | None]
"""Some epochs that are over, and where to go on."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything that one member may hold, for its eyes alone, and the signed epochs it needs."""

    member: Principal
    parcel: GroupWelcome
    epochs: tuple[SignedEpoch, ...]
    until: Instant | None
    """The last moment of the right to it, as far as is known; None for ever."""
    is_cut: bool = False
    """Whether a limit kept some of its certificates from being counted."""


@dataclass(frozen=True, slots=True)
class ShutOut:
    """A member has no right to these groups any more."""

    member: Principal
    groups: frozenset[GroupId]
    is_evicted: bool
    is_out: bool
    """Whether no group is left to it, and it has to ask to be let in again."""
    is_late: bool = False
    """Whether only a list that is late keeps it out: it gets keys again, unasked, when the list comes."""


Outcome: TypeAlias = Delivery | NewEpoch | ShutOut


@dataclass(slots=True)
class Distrusted:
    """Whom and what the domain believes no more, whatever certificates say."""

    evicted: set[Principal] = field(default_factory=set)
    readmitted: dict[Principal, Instant] = field(default_factory=dict)
    """Who was let in again, and since when: its right counts from that moment on."""
    revoked: set[bytes] = field(default_factory=set)
    """The ids of certificates."""

    def readmit(self, principal: Principal, now: Instant) -> bool:
        """Trust a principal again; return whether it was distrusted."""
        was_evicted = principal in self.evicted
        if was_evicted:
            self.evicted.discard(principal)
            self.readmitted[principal] = now
        return was_evicted


@dataclass(slots=True)
class GroupMember:
    """One member: what it has shown, and the result of the last check."""

    claim: Claim
    state: MembershipState = NOTHING_HELD
    is_here: bool = False

    @property
    def groups(self) -> frozenset[GroupId]:
        """Return the groups that are open to it."""
        return self.state.groups


class GroupManager:
    """The key groups of one type. `changes` of the store must be safe before an outcome is sent."""

    def __init__(  # noqa: PLR0913 - every one is named at the call
        self,
        type_id: bytes,
        key: SigningKey,
        grounds: MemberGrounds,
        *,
        random: Callable[[int], bytes],
        store: ManagerStore,
        terms: KeyTerms = DEFAULT_TERMS,
        keeps_history: bool = False,
        distrusted: Distrusted | None = None,
    ) -> None:
        """Begin the groups of a type, of which `key` is the manager; what is distrusted may be shared."""
        self.type_id, self.terms, self.store = type_id, terms, store
        self._answered: dict[AttributeUid, Said] = {}
        self._answered_for: dict[AttributeUid, frozenset[Subject]] = {}
        """For whom the owner's grants are that each of these was first asked by."""
        self._names = _AnswerNames(type_id, key)
        self.grounds = grounds
        self._distrusted = Distrusted() if distrusted is None else distrusted
        self._groups = TypeGroups(
            type_id, key, random=random, store=store, terms=terms, keeps_history=keeps_history
        )
        self._members: dict[Principal, GroupMember] = {}
        """Members here or away: one that is away is remembered for as long as it holds a secret, or as
        something is answered for its right."""
        self._looks: list[tuple[int, bytes]] = []  # a heap; a deadline that was set twice is checked twice

    @property
    def grounds(self) -> MemberGrounds:
        """Return what decisions depend on, the restrictions among it that are answered."""
        return self._grounds

    @grounds.setter
    def grounds(self, grounds: MemberGrounds) -> None:
        self._grounds = replace(grounds, answers=AnsweredRights(self._answered, self._answer_to))

    def refresh_together(self, together: bool) -> None:
        """Refresh at the moments at which other types are refreshed, or a period after the last time."""
        self._groups.together = together

    # -------------------------------------------------------- asking

    @property
    def head(self) -> SignedEpoch | None:
        return self._groups.ledger.head

    @property
    def number(self) -> int:
        """Return the number of the newest epoch; 0 before the first."""
        return self._groups.ledger.number

    def members(self, group: GroupId) -> frozenset[Principal]:
        """Return who holds the newest secret of a group, whether it is here or has left."""
        known = self._groups.by_id.get(group)
        return frozenset() if known is None else frozenset(known.holders)

    def _here(self, principal: Principal) -> GroupMember | None:
        member = self._members.get(principal)
        return member if member is not None and member.is_here else None

    def is_in(self, group: GroupId, principal: Principal) -> bool:
        return group in self.held_by(principal).groups

    def answers_among(self, uids: Iterable[AttributeUid | None]) -> Answers:
        """Return what those are about that are the uids of answers."""
        said = self._names.said
        return {uid: said[uid] for uid in uids if uid is not None and uid in said}

    def claim_of(self, principal: Principal) -> Claim | None:
        """Return what a present member has shown, and its one-time answers."""
        member = self._here(principal)
        return None if member is None else member.claim

    def held_by(self, principal: Principal) -> MembershipState:
        """Return what a member that is here was found to have a right to."""
        member = self._here(principal)
        return NOTHING_HELD if member is None else member.state

    def next_look(self) -> Instant | None:
        """Return the next moment at which a right ends, a refresh is due or a key is to be destroyed.

        A member that has left is evicted at the first of these: the end of its
        right, or the periodic refresh of a group that it holds the key of.
        """
        rights = [Instant(at) for at, _ in self._looks[:1]]
        return min([*rights, *self._groups.next_looks()], default=None)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: numbers, no secrets and no certificates."""
        return {
            "epoch": self.number,
            "since": None if self.head is None else str(self.head.statement.since),
            "groups": len(self._groups.by_id),
            "members": len(self._members),
            "members_here": sum(member.is_here for member in self._members.values()),
            "history": self._groups.keeps_history,
        }

    # -------------------------------------------------------- who comes and goes

    def join(self, claim: Claim, head: SignedEpoch | None, now: Instant) -> list[Outcome]:
        """Admit a member, or send again what it may hold; raise if nothing is open to it."""
        if head is not None:
            self._groups.ledger.check(head)
        claim = self._merged(claim, now)
        history = self._history(claim, now, self.held_by(claim.principal))
        member = self._admitted(claim, history, now)
        member.is_here = True
        return self._settled([(member, history)], {}, now, asking=claim.principal, head=head)

    def expect(self, claim: Claim, now: Instant) -> list[Outcome]:
        """Begin the keys of a right whose holder has not asked for them yet; raise if nothing is open to it.

        What is published from now on is sealed for it, so that it can be read when the holder comes.
        """
        claim = self._merged(claim, now)
        history = self._history(claim, now, self.held_by(claim.principal))
        return self._settled([(self._admitted(claim, history, now), history)], {}, now)

    def _admitted(self, claim: Claim, history: RightHistory, now: Instant) -> GroupMember:
        """Return the member that makes a claim, from now on with that; raise if nothing is open to it."""
        if claim.principal in self._distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        if not history.now.groups:
            if awaits_statement(claim, self.grounds, now):
                raise Unavailable(STATEMENT_AWAITED, "a validity statement for your certificates is awaited")
            raise NoGroupOpen("none of your certificates opens a key group of this type at this moment")
        if claim.principal not in self._members and len(self._members) >= _MEMBERS_MAX:
            raise Unavailable("UNAVAILABLE-GROUP-MEMBERS", f"a type has at most {_MEMBERS_MAX} members")
        member = self._members.setdefault(claim.principal, GroupMember(claim))
        member.claim = claim
        return member

    def vouch(self, principal: Principal, vouched: VouchedFor | None, now: Instant) -> list[Outcome]:
        """Continue with a member whose certificates needed new one-time answers."""
        member = self._here(principal)
        if member is None:
            return []
        member.claim = replace(member.claim, vouched=vouched)
        history = self._history(member.claim, now, member.state)
        # What it holds on to, it may hold for longer.
        return self._settled([(member, history)], {}, now, asking=principal)

    def leave(self, principal: Principal) -> None:
        """Remove a member. Keys change when its right ends or the timer runs out, whichever is first."""
        member = self._members.get(principal)
        if member is not None:
            self._part(member)
            self._forget_if_gone(principal)

    def keep_history(self, now: Instant) -> None:
        """Keep secrets when their time is over from now on, and who may publish meanwhile."""
        if self._groups.keeps_history:
            return
        self._groups.keeps_history = True
        for member in self._members.values():
            if member.state.may_write:
                shown = writing_certificates(member.claim, self.grounds, now)
                self.store.keep_writer(member.claim.principal, shown)

    def evict(self, principal: Principal, now: Instant) -> list[Outcome]:
        """Evict a principal at once, whatever its certificates say, until it is trusted again."""
        self._distrusted.evicted.add(principal)
        member = self._put_out(principal)
        due = dict.fromkeys(self._groups.expel(principal), Refresh.EVICTION)
        shut = [] if member is None else [ShutOut(principal, member.groups, is_evicted=True, is_out=True)]
        return [*shut, *self._refreshed(due, now)]

    def revoke(self, certificates: Iterable[bytes], now: Instant) -> list[Outcome]:
        """Distrust these certificates; members that depend on them alone are evicted at once."""
        new = frozenset(certificates)
        self._distrusted.revoked |= new
        for member in self._members.values():
            if any(one.id in new for one in member.claim.pool):
                member.claim = self._merged(member.claim, now)
                self._recheck(now, member.claim.principal)
        return self.tick(now)

    def recheck(self, changed: Changed, now: Instant) -> list[Outcome]:
        """Look at those whom a statement, or its end, concerns."""
        touched = [one for one in self._members.values() if any(map(changed.concerns, one.claim.pool))]
        for member in touched:
            self._recheck(now, member.claim.principal)
        return self.tick(now) if touched else []

    # -------------------------------------------------------- the past

    def past(self, claim: Claim, *, since: Instant, until: Instant, after: int, now: Instant) -> Past:
        """Return the keys of epochs that are over, for a reader that could have had them at their time.

        At most a page of the epochs between two moments, beginning with the
        first after number `after`; and the number to go on with, or None.
        """
        if not self._groups.keeps_history:
            raise Refusal("REFUSED-NO-HISTORY", "the keys of this type are not kept when their time is over")
        principal, distrusted = claim.principal, self._distrusted
        if principal in distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        spans = [
            span
            for span in self._groups.ledger.over(now)
            if span.number > after and span.since <= until and span.ends > since
        ]
        page = spans[:PAGE_EPOCHS]
        pool = tuple(one for one in claim.pool if one.id not in distrusted.revoked)
        rights = self._history(replace(claim, pool=pool), now, None)
        found = tuple(self._groups.past_keys(page, rights))
        return found, page[-1].number if len(spans) > len(page) else None

    def writer(self, principal: Principal, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates with which a member publishes, or has published; none if it does not."""
        member = self._members.get(principal)
        writes = member is not None and member.state.may_write
        shown = writing_certificates(member.claim, self.grounds, now) if member and writes else ()
        if principal in self._distrusted.evicted:
            return shown
        earlier = self._unrevoked(self.store.writers.get(principal, {}).values(), now)
        return tuple({one.id: one for one in (*shown, *earlier)}.values())

    def past_writers(self, now: Instant) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return who has published what is kept for reading the past, and what spoke for it."""
        known = [one for one in self.store.writers.items() if one[0] not in self._distrusted.evicted]
        found = {who: self._unrevoked(shown.values(), now) for who, shown in known}
        return {who: shown for who, shown in found.items() if shown}

    def _unrevoked(self, shown: Iterable[SignedCertificate], now: Instant) -> tuple[SignedCertificate, ...]:
        return tuple(
            one
            for one in shown
            if one.id not in self._distrusted.revoked
            and not isinstance(self.grounds.tester.check(one, now), CertificateRevoked)
        )

    # -------------------------------------------------------- time passes

    def tick(self, now: Instant) -> list[Outcome]:
        """Look at every right that has ended or begun, at the timer, and at keys that are to be destroyed."""
        if len(self._answered) >= _share():
            self._forget_answers(now)
        looked = [(one, self._history(one.claim, now, one.state)) for one in self._due(now)]
        outcomes = self._settled(looked, self._groups.timer(now), now)
        self._groups.destroy(now)
        for principal in list(self._members):
            self._forget_if_gone(principal)
        return outcomes

    def _settled(
        self,
        looked: Iterable[tuple[GroupMember, RightHistory]],
        due: Due,
        now: Instant,
        *,
        asking: Principal | None = None,
        head: SignedEpoch | None = None,
    ) -> list[Outcome]:
        """Give members their standing of this moment; return who is shut out, what is new and handed out.

        What a right newly needs is answered from now on. All that may read what it is made of are let into
        the group of the answer: publishers among them, whose brokers answer.
        """
        shut: list[Outcome] = []
        handed: dict[Principal, tuple[GroupMember, RightHistory]] = {}
        waiting = [(member, history, member.claim.principal == asking) for member, history in looked]
        for member, history, is_handed in waiting:
            before, lost = member.groups, self._give(member, history, due)
            if lost and member.is_here:
                shut.append(self._shut_out(member, lost, now))
            if member.is_here and (is_handed or member.groups - before):
                handed[member.claim.principal] = member, history
            new = self._newly_answered(history.now)
            for one in self._members.values() if new else ():
                held = {group.uid for group in one.groups}
                if one.is_here and any(may_read(said, held) for said in new):
                    waiting.append((one, self._history(one.claim, now, one.state), True))
        if head is not None and head.statement.number > self.number:
            due = {**self._groups.adopt(head), **due}
        outcomes = self._refreshed(due, now, skip=handed.keys())
        outcomes += [
            self._delivery(member, history, head if principal == asking else None)
            for principal, (member, history) in handed.items()
            if member.is_here
        ]
        # An evicted member is notified first: the epoch that follows is not for it.
        return [*shut, *outcomes]

    def _newly_answered(self, state: MembershipState) -> list[Said]:
        """Have something answered from now on; return what was not before."""
        new: list[Said] = []
        for said in state.needs:
            uid = self._answer_to(said, state.granted_to)
            if uid is not None and uid not in self._answered:
                self._answered[uid], self._answered_for[uid] = said, state.granted_to
                new.append(said)
        return new

    def _answer_to(self, said: Said, granted_to: frozenset[Subject]) -> AttributeUid | None:
        """Return the uid of an answer; None if there is no room for one more, or for more of one holder's."""
        uid = self._names.uid_of(said)
        if uid in self._answered or GroupId(self.type_id, uid) in self._groups.by_id:
            return uid
        taken = sum(not granted_to.isdisjoint(one) for one in self._answered_for.values())
        return uid if len(self._answered) < ANSWERS_MAX and taken < _share() else None

    def _forget_answers(self, now: Instant) -> None:
        """Let go of what the right of no member needs that is here, or holds a secret."""
        claims = [member.claim for who, member in self._members.items() if self._is_served(who, member)]
        asked = {one for claim in claims for one in standing(claim, self.grounds, now).needs}
        for uid in [uid for uid, said in self._answered.items() if said not in asked]:
            del self._answered[uid], self._answered_for[uid]

    def _shut_out(self, member: GroupMember, lost: frozenset[GroupId], now: Instant) -> ShutOut:
        # What is stale may be good again in a second. The member has no key of the epoch that begins, and
        # stays here, so that the next list gives it back what it missed.
        is_late = not member.groups and awaits_statement(member.claim, self.grounds, now)
        is_out = not member.groups and not is_late
        if is_out:
            self._part(member)
        return ShutOut(member.claim.principal, lost, is_evicted=False, is_out=is_out, is_late=is_late)

    def _refreshed(self, due: Due, now: Instant, *, skip: Collection[Principal] = ()) -> list[Outcome]:
        """Begin an epoch in which these groups have new secrets, and return what members need to follow."""
        if not due:
            return []
        refreshed = self._groups.refresh(due, now, lambda principal: self._here(principal) is not None)
        for principal in sorted(refreshed.left_behind, key=lambda one: one.key):
            self._keep(principal)
        welcomed = sorted(refreshed.welcomed.difference(skip), key=lambda one: one.key)
        return [refreshed.announcement, *(self._delivery(self._members[one], None, None) for one in welcomed)]

    def _delivery(
        self, member: GroupMember, history: RightHistory | None, head: SignedEpoch | None
    ) -> Delivery:
        """Return what one member is handed; older secrets as far as `history` shows its right to them."""
        principal = member.claim.principal
        answers = self.answers_among(group.uid for group in member.groups)
        parcel = self._groups.parcel(principal, member.groups, history, answers)
        until = None if member.state.until >= INSTANT_MAX else member.state.until
        epochs = self._groups.ledger.needed([one.epoch for one in parcel.secrets], head)
        return Delivery(principal, parcel, epochs, until, history is not None and history.now.is_cut)

    # -------------------------------------------------------- what a member may hold, and for how long

    def _history(
        self, claim: Claim, now: Instant, held: MembershipState | None = NOTHING_HELD
    ) -> RightHistory:
        trusted_since = self._distrusted.readmitted.get(claim.principal)
        return RightHistory(claim, self.grounds, now, held, trusted_since=trusted_since)

    def _merged(self, claim: Claim, now: Instant) -> Claim:
        """Add to a claim what the same member showed before and what still counts."""
        known = self._members.get(claim.principal)
        # What has ended still tells since when a right was held; after the drift nobody asks.
        ended = now - self.terms.drift_s * SECOND
        shown = () if known is None else known.claim.pool
        ends = ((one, one.certificate.validity.not_after) for one in shown)
        before = [one for one, at in ends if at is None or at >= ended]
        revoked = self._distrusted.revoked
        pool = {signed.id: signed for signed in (*claim.pool, *before) if signed.id not in revoked}
        versions = {one.id: one for one in (*claim.versions, *(known.claim.versions if known else ()))}
        return replace(
            claim,
            versions=tuple(versions.values())[:VERSIONS_MAX],
            pool=tuple(pool.values())[:_POOL_MAX],
        )

    def _give(self, member: GroupMember, history: RightHistory, due: Due) -> frozenset[GroupId]:
        """Give a member its standing of this moment, note what is to be refreshed, return what it lost."""
        principal, found = member.claim.principal, history.now
        lost = member.groups - found.groups
        due |= dict.fromkeys(self._groups.expel(principal, but_from=found.groups), Refresh.EXPIRY)
        member.state = found
        if found.until < INSTANT_MAX:
            self._recheck(Instant(found.until + 1), principal)
        self._groups.take_in(principal, member.groups, history, due, is_here=member.is_here)
        if self._groups.keeps_history and found.may_write:
            self.store.keep_writer(principal, writing_certificates(member.claim, self.grounds, history.at))
        self._keep(principal)
        return lost

    def _recheck(self, at: Instant, principal: Principal) -> None:
        """Set the deadline of a member: no step walks through all of them."""
        heappush(self._looks, (at, principal.key))

    def _due(self, now: Instant) -> list[GroupMember]:
        """Return the members whose moment has come, each once."""
        found: dict[Principal, None] = {}
        while self._looks and self._looks[0][0] <= now:
            found[Principal(heappop(self._looks)[1])] = None
        return [self._members[one] for one in found if one in self._members]

    def _part(self, member: GroupMember) -> None:
        """Note that a member has left; it keeps the secrets that it holds."""
        member.is_here = False
        self._groups.part(member.claim.principal)

    def _put_out(self, principal: Principal) -> GroupMember | None:
        """Forget a member at once, whatever it holds, and return it."""
        self.store.keep_member(principal, None, ())
        return self._members.pop(principal, None)

    def _forget_if_gone(self, principal: Principal) -> None:
        """Forget a member that is away and holds no secret, unless something is answered for its right."""
        member = self._members[principal]
        if not member.state.needs and not self._is_served(principal, member):
            self._put_out(principal)

    def _is_served(self, principal: Principal, member: GroupMember) -> bool:
        """Return whether a member is here, or holds a secret since it was."""
        return member.is_here or bool(self._groups.held_by(principal))

    def _keep(self, principal: Principal) -> None:
        """Store what a member holds and showed."""
        member, held = self._members.get(principal), self._groups.held_by(principal)
        self.store.keep_member(principal, None if member is None else member.claim, held)

    # -------------------------------------------------------- after a restart

    def restore(self, kept: KeptGroups, versions: Mapping[bytes, VerifiedType], now: Instant) -> None:
        """Go on from what was kept: the same epochs and secrets, the same holders, no member present yet."""
        self._groups.restore(kept)
        claims = [
            Claim(who, tuple(versions[v] for v in one.versions if v in versions), one.pool)
            for who, one in kept.members.items()
        ]
        for claim in claims:  # what is answered says which groups are open to the others
            self._newly_answered(standing(claim, self.grounds, now))
        for claim in claims:
            self._members[claim.principal] = GroupMember(claim, self._history(claim, now).now)
            # Its right may have ended meanwhile: `tick` puts it out.
            self._recheck(now, claim.principal)


def _share() -> int:
    """Return how many answers may be given for what one holder of a grant passes on, or uses itself."""
    return max(1, 3 * ANSWERS_MAX // 4)


class _AnswerNames:
    """How the answers of one type are called.

    The uid of an answer travels in the clear. It is a hash over a signature, so that without the manager's
    key what it is about cannot be found by trying, and the same after a restart.
    """

    __slots__ = ("_key", "_type_id", "_uids", "said")

    def __init__(self, type_id: bytes, key: SigningKey) -> None:
        self._type_id, self._key = type_id, key
        self._uids: dict[Said, AttributeUid] = {}
        self.said: dict[AttributeUid, Said] = {}
        """What the answers are about that were named since the start, or the last of them."""

    def uid_of(self, said: Said) -> AttributeUid:
        """Return the uid of an answer."""
        known = self._uids.get(said)
        if known is None:
            body = self._type_id + said_to_bytes(said)
            name = sha256(self._key.sign(SignedKind.ANSWER_NAME, body)).hexdigest()[:32]
            is_part = isinstance(said, Shown) and said.made is not None
            known = self._uids[said] = AttributeUid((PART_PREFIX if is_part else ANSWER_PREFIX) + name)
            self.said[known] = said
            if len(self._uids) > _NAMES_MAX:
                oldest = next(iter(self._uids))
                del self.said[self._uids.pop(oldest)]
        return known
