"""Who is in the key groups of one type, and which epoch do they share?

The manager of a type calls its `GroupManager`: a member joins, leaves, is put
out, or time passes, and what comes back is what members must be sent.
A member's right is the policy kernel's answer to the certificates shown
(`groups/membership.py`), and a new key is made when, and only when, a member would
otherwise read what it has no right to (`groups/outcomes.py`). All groups of a type
share one sequence of epochs, each signed and bound to the one before.

    manager.join(claim, head, now)   -> [NewEpoch(...), Delivery(...)]
    manager.tick(now)                -> [NewEpoch(...), ShutOut(...)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypeAlias

from maia.credentials import CertificateRevoked, Principal, SignedCertificate, SignedKind, SigningKey
from maia.events import INSTANT_MAX, AttributeUid, Instant
from maia.policy.answers import ANSWER_PREFIX, ANSWERS_MAX, Answers, restriction_to_bytes
from maia.predicates import Predicate, attributes_of
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.manager_store import KeptGroups, ManagerStore
from maia.sealing.groups.members import GroupMember, GroupMembers
from maia.sealing.groups.membership import (
    NOTHING_HELD,
    AnsweredRestrictions,
    Claim,
    Grounds,
    Held,
    MembershipState,
    RightHistory,
    standing,
    tested_now,
    writing_certificates,
)
from maia.sealing.groups.outcomes import Delivery, Distrusted, NoGroupOpen, Outcome, Refresh, ShutOut
from maia.sealing.groups.type_groups import Due, TypeGroups
from maia.sealing.keys.epochs import SignedEpoch
from maia.sealing.keys.history import PAGE_EPOCHS, HistoryNotKept, PastEpoch, past_keys
from maia.sealing.keys.key_ring import DEFAULT_TERMS, KeyTerms
from maia.types import VerifiedType
from maia.validity import Changed, VouchedFor

_NAMES_MAX: Final = 4096

Past: TypeAlias = tuple[tuple[PastEpoch, ...], int | None]
"""Some epochs that are over, and where to go on."""


class GroupManager:
    """The key groups of one type. `changes` of the store must be safe before an outcome is sent."""

    def __init__(  # noqa: PLR0913 - every one is named at the call
        self,
        type_id: bytes,
        key: SigningKey,
        grounds: Grounds,
        *,
        random: Callable[[int], bytes],
        store: ManagerStore,
        terms: KeyTerms = DEFAULT_TERMS,
        keeps_history: bool = False,
        distrusted: Distrusted | None = None,
    ) -> None:
        """Begin the groups of a type, of which `key` is the manager; what is distrusted may be shared."""
        self.type_id, self.terms, self.store = type_id, terms, store
        self._answered: dict[AttributeUid, Predicate] = {}
        self._names = _AnswerNames(type_id, key)
        self.grounds = grounds
        self._distrusted = Distrusted() if distrusted is None else distrusted
        self._groups = TypeGroups(
            type_id, key, random=random, store=store, terms=terms, keeps_history=keeps_history
        )
        self._members = GroupMembers(self._groups, store, self._distrusted)

    @property
    def grounds(self) -> Grounds:
        """Return what decisions depend on, the restrictions among it that are answered."""
        return self._grounds

    @grounds.setter
    def grounds(self, grounds: Grounds) -> None:
        self._grounds = replace(grounds, answers=AnsweredRestrictions(self._answered, self._answer_to))

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
        return self._groups.holders(group)

    def is_in(self, group: GroupId, principal: Principal) -> bool:
        member = self._members.get(principal)
        return member is not None and member.is_here and group in member.groups

    def answers_among(self, uids: Iterable[AttributeUid | None]) -> Answers:
        """Return what those are about that are the uids of answers."""
        said = self._names.said
        return {uid: said[uid] for uid in uids if uid is not None and uid in said}

    def claim_of(self, principal: Principal) -> Claim | None:
        """Return what a present member has shown, and its one-time answers."""
        member = self._members.get(principal)
        return None if member is None or not member.is_here else member.claim

    def held_by(self, principal: Principal) -> Held:
        """Return what a member that is here was found to have a right to."""
        member = self._members.get(principal)
        return NOTHING_HELD if member is None or not member.is_here else member.held

    def next_look(self) -> Instant | None:
        """Return the next moment at which a right ends, a refresh is due or a key is to be destroyed.

        A member that has left is evicted at the first of these: the end of its
        right, or the periodic refresh of a group that it holds the key of.
        """
        next_right = self._members.next_look
        moments = self._groups.next_looks()
        return min(moments if next_right is None else [next_right, *moments], default=None)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: numbers, no secrets and no certificates."""
        return {
            "epoch": self.number,
            "since": None if self.head is None else str(self.head.statement.since),
            "groups": len(self._groups),
            "members": len(self._members),
            "members_here": sum(member.is_here for member in self._members.all()),
            "history": self._groups.keeps_history,
        }

    # -------------------------------------------------------- who comes and goes

    def join(self, claim: Claim, head: SignedEpoch | None, now: Instant) -> list[Outcome]:
        """Admit a member, or send again what it may hold; raise if nothing is open to it."""
        if head is not None:
            self._groups.ledger.check(head)
        if claim.principal in self._distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        claim = self._members.merged(claim, now)
        history = RightHistory(claim, self.grounds, now, self.held_by(claim.principal))
        if not history.now.groups:
            raise NoGroupOpen("none of your certificates opens a key group of this type at this moment")
        member = self._members.arrived(claim)
        due: Due = {}
        lost = self._members.give(member, history, self.grounds, due)
        gained = self._answering(history.now, due, now)
        if head is not None and head.statement.number > self.number:
            due = {**self._groups.adopt(head), **due}
        shut = [ShutOut(claim.principal, lost, is_evicted=False, is_out=False)] if lost else []
        outcomes = self._refreshed(due, now, skip=claim.principal)
        return [*shut, *outcomes, *gained(), self._delivery(member, history, head)]

    def vouch(self, principal: Principal, vouched: VouchedFor | None, now: Instant) -> list[Outcome]:
        """Continue with a member whose certificates needed new one-time answers."""
        member = self._members.get(principal)
        if member is None or not member.is_here:
            return []
        member.claim = replace(member.claim, vouched=vouched)
        history, due = RightHistory(member.claim, self.grounds, now, member.held), Due()
        lost = self._members.give(member, history, self.grounds, due)
        shut = [self._shut_out(member, lost)] if lost else []
        gained = self._answering(history.now, due, now)
        outcomes = [*self._refreshed(due, now, skip=principal), *gained()]
        # What it holds on to, it may hold for longer.
        deliveries = [self._delivery(member, history, None)] if member.groups else []
        return [*shut, *outcomes, *deliveries]

    def leave(self, principal: Principal) -> None:
        """Remove a member. Keys change when its right ends or the timer runs out, whichever is first."""
        member = self._members.get(principal)
        if member is not None:
            self._members.parted(member)
            self._members.forget_if_gone(principal)

    def keep_history(self, now: Instant) -> None:
        """Keep secrets when their time is over from now on, and who may publish meanwhile."""
        if self._groups.keeps_history:
            return
        self._groups.keeps_history = True
        for member in self._members.all():
            if member.may_write:
                shown = writing_certificates(member.claim, self.grounds, now)
                self.store.keep_writer(member.claim.principal, shown)

    def evict(self, principal: Principal, now: Instant) -> list[Outcome]:
        """Evict a principal at once, whatever its certificates say, until it is trusted again."""
        self._distrusted.evicted.add(principal)
        member = self._members.put_out(principal)
        due = dict.fromkeys(self._groups.expel(principal), Refresh.EVICTION)
        shut = [] if member is None else [ShutOut(principal, member.groups, is_evicted=True, is_out=True)]
        return [*shut, *self._refreshed(due, now)]

    def revoke(self, certificates: Iterable[bytes], now: Instant) -> list[Outcome]:
        """Distrust these certificates; members that depend on them alone are evicted at once."""
        new = frozenset(certificates)
        self._distrusted.revoked |= new
        touched = [one for one in self._members.all() if any(s.id in new for s in one.claim.pool)]
        for member in touched:
            member.claim = self._members.merged(member.claim, now)
            self._members.recheck(now, member.claim.principal)
        return self.tick(now)

    def recheck(self, changed: Changed, now: Instant) -> list[Outcome]:
        """Look at those whom a statement, or its end, concerns."""
        touched = [one for one in self._members.all() if any(map(changed.concerns, one.claim.pool))]
        for member in touched:
            self._members.recheck(now, member.claim.principal)
        return self.tick(now) if touched else []

    # -------------------------------------------------------- the past

    def past(self, claim: Claim, *, since: Instant, until: Instant, after: int, now: Instant) -> Past:
        """Return the keys of epochs that are over, for a reader that could have had them at their time.

        At most a page of the epochs between two moments, beginning with the
        first after number `after`; and the number to go on with, or None.
        """
        if not self._groups.keeps_history:
            raise HistoryNotKept("the keys of this type are not kept when their time is over")
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
        good, tested = tested_now(replace(claim, pool=pool), self.grounds, now)
        trusted_since = distrusted.readmitted.get(principal)
        found = past_keys(page, good, tested, self._groups.secret_of, trusted_since=trusted_since)
        return tuple(found), page[-1].number if len(spans) > len(page) else None

    def writer(self, principal: Principal, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates with which a member publishes, or has published; none if it does not."""
        member = self._members.get(principal)
        writes = member is not None and member.may_write
        shown = writing_certificates(member.claim, self.grounds, now) if member and writes else ()
        if principal in self._distrusted.evicted:
            return shown
        earlier = self._unrevoked(self.store.writers.of(principal), now)
        return tuple({one.id: one for one in (*shown, *earlier)}.values())

    def past_writers(self, now: Instant) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return who has published what is kept for reading the past, and what spoke for it."""
        distrusted = self._distrusted
        found = self.store.writers.believed(evicted=distrusted.evicted, revoked=distrusted.revoked)
        return {who: self._unrevoked(shown, now) for who, shown in found.items()}

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
        if len(self._answered) >= ANSWERS_MAX:
            self._forget_answers(now)
        due = self._groups.timer(now)
        shut: list[Outcome] = []
        gained: list[tuple[GroupMember, RightHistory]] = []
        answering: list[Callable[[], list[Outcome]]] = []
        for member in self._members.due(now):
            before, history = member.groups, RightHistory(member.claim, self.grounds, now, member.held)
            lost = self._members.give(member, history, self.grounds, due)
            if lost and member.is_here:
                shut.append(self._shut_out(member, lost))
            if member.is_here and member.groups - before:
                gained.append((member, history))
            answering.append(self._answering(history.now, due, now))
        outcomes = self._refreshed(due, now)
        outcomes += [delivery for deliveries in answering for delivery in deliveries()]
        outcomes += [self._delivery(member, history, None) for member, history in gained]
        self._groups.destroy(now)
        self._members.forget_gone()
        # An evicted member is notified first: the epoch that follows is not for it.
        return [*shut, *outcomes]

    def _answering(self, found: MembershipState, due: Due, now: Instant) -> Callable[[], list[Outcome]]:
        """Have what a member is restricted by answered from now on; return what hands out its key.

        All that may read what the restriction asks about are let into the group of the answer: publishers
        among them, whose brokers answer. They are handed its key once it is made.
        """
        new: dict[AttributeUid, Predicate] = {}
        for said in found.restricted_by:
            uid = self._answer_to(said)
            if uid is not None and uid not in self._answered:
                new[uid] = self._answered[uid] = said
        asked = [attributes_of(said) for said in new.values()]
        shut: list[Outcome] = []
        gained: list[tuple[GroupMember, RightHistory]] = []
        for member in self._members.all() if new else ():
            held = {group.uid for group in member.groups}
            if member.is_here and any(uids <= held for uids in asked):
                history = RightHistory(member.claim, self.grounds, now, member.held)
                if lost := self._members.give(member, history, self.grounds, due):
                    shut.append(self._shut_out(member, lost))
                gained.append((member, history))
        return lambda: [
            *shut,
            *(self._delivery(one, history, None) for one, history in gained if one.is_here),
        ]

    def _answer_to(self, restriction: Predicate) -> AttributeUid | None:
        """Return the uid of the answer to a restriction; None if there is no room for one more."""
        uid = self._names.uid_of(restriction)
        has_room = len(self._answered) < ANSWERS_MAX
        is_known = uid in self._answered or self._groups.get(GroupId(self.type_id, uid)) is not None
        return uid if has_room or is_known else None

    def _forget_answers(self, now: Instant) -> None:
        """Let go of restrictions by which no member is restricted any more."""
        claims = [member.claim for member in self._members.all()]
        asked = {one for claim in claims for one in standing(claim, self.grounds, now).restricted_by}
        for uid in [uid for uid, said in self._answered.items() if said not in asked]:
            del self._answered[uid]

    def _shut_out(self, member: GroupMember, lost: frozenset[GroupId]) -> ShutOut:
        is_out = not member.groups
        if is_out:
            self._members.parted(member)
        return ShutOut(member.claim.principal, lost, is_evicted=False, is_out=is_out)

    def _refreshed(self, due: Due, now: Instant, *, skip: Principal | None = None) -> list[Outcome]:
        """Begin an epoch in which these groups have new secrets, and return what members need to follow."""
        if not due:
            return []
        refreshed = self._groups.refresh(due, now)
        for principal in sorted(refreshed.left_behind, key=lambda one: one.key):
            self._members.keep(principal)
        welcomed = sorted(refreshed.welcomed - {skip}, key=lambda one: one.key)
        return [refreshed.announcement, *(self._delivery(self._members[one], None, None) for one in welcomed)]

    def _delivery(
        self, member: GroupMember, history: RightHistory | None, head: SignedEpoch | None
    ) -> Delivery:
        """Return what one member is handed; older secrets as far as `history` shows its right to them."""
        principal = member.claim.principal
        held_since = None if history is None else self._members.held_since(history, principal)
        parcel = self._groups.parcel(
            principal, member.groups, held_since=held_since or (lambda _group, _moment: False)
        )
        parcel = replace(parcel, answers=self.answers_among(group.uid for group in member.groups))
        until = None if member.until >= INSTANT_MAX else member.until
        epochs = self._groups.ledger.needed([one.epoch for one in parcel.secrets], head)
        return Delivery(principal, parcel, epochs, until, history is not None and history.now.is_cut)

    # -------------------------------------------------------- after a restart

    def restore(self, kept: KeptGroups, versions: Mapping[bytes, VerifiedType], now: Instant) -> None:
        """Go on from what was kept: the same epochs and secrets, the same holders, no member present yet."""
        self._groups.restore(kept)
        claims = [
            Claim(one.principal, tuple(versions[v] for v in one.versions if v in versions), one.pool)
            for one in kept.members
        ]
        for claim in claims:  # what is answered says which groups are open to the others
            for said in standing(claim, self.grounds, now).restricted_by:
                if len(self._answered) < ANSWERS_MAX:
                    self._answered[self._names.uid_of(said)] = said
        for record, claim in zip(kept.members, claims, strict=True):
            found = RightHistory(claim, self.grounds, now).now
            self._members.restored(GroupMember(claim, found.groups, found.may_write, found.until))
            # Its right may have ended meanwhile: `tick` puts it out.
            self._members.recheck(now, record.principal)


class _AnswerNames:
    """How the answers of one type are called.

    The uid of an answer travels in the clear. It is a hash over a signature, so that without the manager's
    key a restriction cannot be found by trying, and the same after a restart.
    """

    __slots__ = ("_key", "_type_id", "_uids", "said")

    def __init__(self, type_id: bytes, key: SigningKey) -> None:
        self._type_id, self._key = type_id, key
        self._uids: dict[Predicate, AttributeUid] = {}
        self.said: dict[AttributeUid, Predicate] = {}
        """What the answers are about that were named since the start, or the last of them."""

    def uid_of(self, restriction: Predicate) -> AttributeUid:
        """Return the uid of the answer to a restriction."""
        known = self._uids.get(restriction)
        if known is None:
            body = self._type_id + restriction_to_bytes(restriction)
            name = sha256(self._key.sign(SignedKind.ANSWER_NAME, body)).hexdigest()[:32]
            known = self._uids[restriction] = AttributeUid(ANSWER_PREFIX + name)
            self.said[known] = restriction
            if len(self._uids) > _NAMES_MAX:
                oldest = next(iter(self._uids))
                del self.said[self._uids.pop(oldest)]
        return known
