"""Who is in the key groups of one type, and which epoch do they share?

The manager of a type asks its `GroupManager`: somebody joins, leaves, is put
out, or time passes, and what comes back is what members have to be told.
Everybody's right is the policy kernel's answer to the certificates shown
(`membership.py`), and a new key is made when, and only when, somebody would
otherwise read what it has no right to (`refresh.py`). All groups of a type
share one sequence of epochs, each signed and bound to the one before.

    manager.join(claim, head, now)   -> [NewEpoch(...), Delivery(...)]
    manager.tick(now)                -> [NewEpoch(...), ShutOut(...)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.credentials import CertificateRevoked, Principal, SignedCertificate, SigningKey, Standing
from maia.events import INSTANT_MAX, Instant
from maia.sealing.epoch_ledger import EpochLedger
from maia.sealing.epochs import SignedEpoch, commitment
from maia.sealing.group_outcomes import (
    Delivery,
    Distrusted,
    MembersFull,
    NewEpoch,
    NoGroupOpen,
    Outcome,
    ShutOut,
)
from maia.sealing.groups import GroupId
from maia.sealing.handover import Handed, HeldPath, Parcel
from maia.sealing.history import PAGE_EPOCHS, HistoryNotKept, PastEpoch, past_keys
from maia.sealing.key_group import Issued, KeyGroup
from maia.sealing.key_ring import DEFAULT_TERMS, KeyTerms
from maia.sealing.looks import Looks
from maia.sealing.manager_store import KeptGroups, ManagerStore
from maia.sealing.membership import (
    VERSIONS_MAX,
    Claim,
    Grounds,
    RightHistory,
    tested_now,
    writing_certificates,
)
from maia.sealing.refresh import (
    Refresh,
    joining_calls_for_refresh,
    periodic_at,
)
from maia.sealing.secrets import Secret
from maia.types import VerifiedType

__all__ = ["GroupManager"]

Past: TypeAlias = tuple[tuple[PastEpoch, ...], int | None]
"""Some epochs that are over, and where to go on."""

MEMBERS_MAX: Final = 1 << 16
_POOL_MAX: Final = 256
_SECOND: Final = 1_000_000


@dataclass(slots=True)
class _Member:
    claim: Claim
    groups: frozenset[GroupId] = frozenset()
    may_write: bool = False
    until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    is_here: bool = False
    good: frozenset[bytes] = frozenset()
    """Its certificates that nothing spoke against when they were looked at last."""

    def is_about(self, by: Principal, changed: Collection[bytes]) -> bool:
        """Say whether a word of `by` on these certificates may change what the member holds."""
        lacking = [one for one in self.claim.pool if one.id not in self.good]
        return by in Standing.testers(lacking) or any(one.id in changed for one in self.claim.pool)


class GroupManager:
    """The key groups of one type. `changes` of the store must be safe before an outcome is told."""

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
        self.type_id, self.grounds, self.terms = type_id, grounds, terms
        self.keeps_history = keeps_history
        self.store = store
        self._random = random
        self._ledger = EpochLedger(type_id, key, store)
        self._groups: dict[GroupId, KeyGroup] = {}
        self._members: dict[Principal, _Member] = {}
        self._looks = Looks()
        self._distrusted = Distrusted() if distrusted is None else distrusted

    # -------------------------------------------------------- asking

    @property
    def head(self) -> SignedEpoch | None:
        """Return the newest epoch."""
        return self._ledger.head

    @property
    def number(self) -> int:
        """Return the number of the newest epoch; 0 before the first."""
        return self._ledger.number

    def members(self, group: GroupId) -> frozenset[Principal]:
        """Return who holds the newest secret of a group, whether it is here or has left."""
        known = self._groups.get(group)
        return frozenset() if known is None else frozenset(known.holders)

    def is_in(self, group: GroupId, principal: Principal) -> bool:
        """Say whether a principal is here and in a group."""
        member = self._members.get(principal)
        return member is not None and member.is_here and group in member.groups

    def writer(self, principal: Principal, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates with which a member publishes, or has published; none if it does not."""
        member = self._members.get(principal)
        writes = member is not None and member.may_write
        shown = writing_certificates(member.claim, self.grounds, now) if member and writes else ()
        if principal in self._distrusted.evicted:
            return shown
        earlier = (one for one in self.store.writers.of(principal) if not self._is_revoked(one, now))
        return tuple({one.id: one for one in (*shown, *earlier)}.values())

    def past_writers(self, now: Instant) -> dict[Principal, tuple[SignedCertificate, ...]]:
        """Return who has published what is kept for reading the past, and what spoke for it."""
        distrusted = self._distrusted
        found = self.store.writers.believed(evicted=distrusted.evicted, revoked=distrusted.revoked)
        return {
            who: tuple(one for one in shown if not self._is_revoked(one, now)) for who, shown in found.items()
        }

    def _is_revoked(self, signed: SignedCertificate, now: Instant) -> bool:
        if signed.id in self._distrusted.revoked:
            return True
        return isinstance(self.grounds.witness.problem_with(signed, now), CertificateRevoked)

    def history(self, group: GroupId, epoch: int) -> Handed | None:
        """Return the secret of a group in an epoch, from what is kept for reading the past."""
        return self.store.history(group, epoch)

    def past(self, claim: Claim, *, since: Instant, until: Instant, after: int, now: Instant) -> Past:
        """Return the keys of epochs that are over, for whoever could have had them at their time.

        At most a page of the epochs between two moments, beginning with the
        first after number `after`; and the number to go on with, or None.
        """
        if not self.keeps_history:
            raise HistoryNotKept("the keys of this type are not kept when their time is over")
        principal = claim.principal
        if principal in self._distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        pool = tuple(one for one in claim.pool if one.id not in self._distrusted.revoked)
        spans = [
            span
            for span in self._ledger.over(now)
            if span.number > after and span.since <= until and span.ends > since
        ]
        page = spans[:PAGE_EPOCHS]
        good, grounds = tested_now(Claim(principal, claim.versions, pool), self.grounds, now)
        found = past_keys(
            page,
            good,
            grounds,
            self._secret_of,
            trusted_since=self._distrusted.readmitted.get(principal),
        )
        return tuple(found), page[-1].number if len(spans) > len(page) else None

    def _secret_of(self, group: GroupId, epoch: int) -> Secret | None:
        known = self._groups.get(group)
        for one in () if known is None else known.issued:
            if one.epoch <= epoch and (one.replaced_in is None or epoch < one.replaced_in):
                return one.secret
        kept = self.store.history(group, epoch)
        return None if kept is None else kept.secret

    def next_look(self) -> Instant | None:
        """Return the next moment at which a right ends, a refresh is due or a key is to be destroyed.

        Somebody who has left is shut out at the first of these: the end of its
        right, or the periodic refresh of a group that it holds the key of.
        """
        moments = [self._looks.next_at] if self._looks.next_at is not None else []
        for group in self._groups.values():
            if group.current is not None and group.holders:
                moments.append(periodic_at(group.current.since, self.terms.refresh_s))
            moments += [over for one in group.issued if (over := one.over_at(self.terms.drift_s)) is not None]
        return min(moments, default=None)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: numbers, no secrets and no certificates."""
        return {
            "epoch": self.number,
            "since": None if self.head is None else str(self.head.statement.since),
            "groups": len(self._groups),
            "members": len(self._members),
            "members_here": sum(member.is_here for member in self._members.values()),
            "history": self.keeps_history,
        }

    # -------------------------------------------------------- who comes and goes

    def join(self, claim: Claim, head: SignedEpoch | None, now: Instant) -> list[Outcome]:
        """Let somebody in, or tell it again what it may hold; raise if nothing is open to it."""
        if head is not None:
            self._ledger.check(head)
        if claim.principal in self._distrusted.evicted:
            raise NoGroupOpen("you were put out of the key groups of this type")
        claim = self._merged(claim, now)
        history = RightHistory(claim, self.grounds, now)
        if not history.now.groups:
            raise NoGroupOpen("none of your certificates opens a key group of this type at this moment")
        member = self._members.get(claim.principal)
        if member is None and len(self._members) >= MEMBERS_MAX:
            raise MembersFull(f"a type has at most {MEMBERS_MAX} members")
        member = self._members.setdefault(claim.principal, _Member(claim))
        member.claim, member.is_here = claim, True
        due: dict[GroupId, Refresh] = {}
        lost = self._stand(member, history, due)
        if head is not None and head.statement.number > self.number:
            self._adopt(head, due)
        outcomes: list[Outcome] = list(self._refreshed(due, now, skip=claim.principal))
        shut = [ShutOut(claim.principal, lost, is_evicted=False, is_out=False)] if lost else []
        return [*shut, *outcomes, self._delivery(member, history, head)]

    def leave(self, principal: Principal, now: Instant) -> list[Outcome]:
        """Let somebody go. Keys change when its right ends or the timer runs out, whichever is first."""
        del now
        member = self._members.get(principal)
        if member is not None:
            self._part(member)
            self._forget_if_gone(principal)
        return []

    def _part(self, member: _Member) -> None:
        member.is_here = False
        for group in self._groups.values():
            group.part(member.claim.principal)

    def evict(self, principal: Principal, now: Instant) -> list[Outcome]:
        """Put somebody out at once, whatever its certificates say, until it is trusted again."""
        self._distrusted.evicted.add(principal)
        due: dict[GroupId, Refresh] = {}
        member = self._members.pop(principal, None)
        self.store.keep_member(principal, None, ())
        for group in self._groups.values():
            if principal in group.holders:
                group.expel(principal)
                due[group.id] = Refresh.EVICTION
        shut = [] if member is None else [ShutOut(principal, member.groups, is_evicted=True, is_out=True)]
        return [*shut, *self._refreshed(due, now)]

    def revoke(self, certificates: Iterable[bytes], now: Instant) -> list[Outcome]:
        """Believe these certificates no more; whoever stood on them alone is put out at once."""
        new = frozenset(certificates)
        self._distrusted.revoked |= new
        touched = [one for one in self._members.values() if any(s.id in new for s in one.claim.pool)]
        for member in touched:
            member.claim = self._merged(member.claim, now)
            self._looks.ask(now, member.claim.principal)
        return self.tick(now)

    def hear(self, by: Principal, changed: Collection[bytes], now: Instant) -> list[Outcome]:
        """Look at those whom a word of `by` concerns; `changed` is what it takes away or gives back."""
        touched = [one for one in self._members.values() if one.is_about(by, changed)]
        for member in touched:
            self._looks.ask(now, member.claim.principal)
        return self.tick(now) if touched else []

    # -------------------------------------------------------- time passes

    def tick(self, now: Instant) -> list[Outcome]:
        """Look at every right that has ended or begun, at the timer, and at keys that are to be destroyed."""
        due = self._timer(now)
        shut: list[Outcome] = []
        gained: list[tuple[_Member, RightHistory]] = []
        for member in [self._members[one] for one in self._looks.due(now) if one in self._members]:
            before = member.groups
            if self._is_as_before(member, now):
                continue
            history = RightHistory(member.claim, self.grounds, now)
            lost = self._stand(member, history, due)
            if lost and member.is_here:
                is_out = not member.groups
                shut.append(ShutOut(member.claim.principal, lost, is_evicted=False, is_out=is_out))
                if is_out:
                    self._part(member)
            if member.is_here and member.groups - before:
                gained.append((member, history))
        outcomes = self._refreshed(due, now)
        outcomes += [self._delivery(member, history, None) for member, history in gained]
        self._destroy(now)
        for principal in list(self._members):
            self._forget_if_gone(principal)
        # Whoever is out hears that first: the epoch that follows is not for it.
        return [*shut, *outcomes]

    def _timer(self, now: Instant) -> dict[GroupId, Refresh]:
        # A group that nobody holds waits for the next one who joins: it protects nothing.
        return {
            group.id: Refresh.TIMER
            for group in self._groups.values()
            if group.holders and self._is_stale(group, now)
        }

    def _is_stale(self, group: KeyGroup, now: Instant) -> bool:
        return group.current is None or periodic_at(group.current.since, self.terms.refresh_s) <= now

    def _destroy(self, now: Instant) -> None:
        for group in self._groups.values():
            for issued in group.take_over(now, self.terms.drift_s):
                self.store.keep_over(group.id, issued, keeps_history=self.keeps_history)
                if not self.keeps_history:
                    issued.secret.wipe()

    # -------------------------------------------------------- rights

    def _stand(
        self, member: _Member, history: RightHistory, due: dict[GroupId, Refresh]
    ) -> frozenset[GroupId]:
        """Give a member its standing of this moment, note what is to be refreshed, return what it lost."""
        principal, found = member.claim.principal, history.now
        lost = member.groups - found.groups
        for group in self._groups.values():
            if principal in group.holders and group.id not in found.groups:
                group.expel(principal)
                due[group.id] = Refresh.EXPIRY
        member.groups, member.may_write, member.until = found.groups, found.may_write, found.until
        member.good = history.good
        self._watch(member, history.fresh_until)
        if member.is_here:
            for group_id in sorted(found.groups, key=lambda one: one.order):
                self._take_in(group_id, member, history, due)
        if self.keeps_history and found.may_write:
            self.store.keep_writer(principal, writing_certificates(member.claim, self.grounds, history.at))
        self._keep_member(principal)
        return lost

    def _is_as_before(self, member: _Member, now: Instant) -> bool:
        """Say whether a member is looked at because statements have ended, and newer ones say the same."""
        witness = self.grounds.witness
        good = [one for one in member.claim.pool if witness.problem_with(one, now) is None]
        if not Standing.testers(good) or member.until < now or {one.id for one in good} != member.good:
            return False
        fresh = witness.stale_after(good, now)
        self._watch(member, Instant(INSTANT_MAX) if fresh is None else fresh)
        return True

    def _watch(self, member: _Member, fresh_until: Instant) -> None:
        """Have a member looked at as soon as its right has ended, or nobody vouches for it any more."""
        ends = min(member.until, fresh_until)
        if ends < INSTANT_MAX:
            self._looks.ask(Instant(ends + 1), member.claim.principal)

    def _take_in(
        self, group_id: GroupId, member: _Member, history: RightHistory, due: dict[GroupId, Refresh]
    ) -> None:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = KeyGroup(group_id, self._random)
        principal, current = member.claim.principal, group.current
        if current is None:
            due.setdefault(group_id, Refresh.FIRST)
        elif joining_calls_for_refresh(
            was_used=group.was_used,
            holds_it=principal in group.holders,
            held_right_since_refresh=self._held_since(history, principal, group_id, current.since),
        ):
            due.setdefault(group_id, Refresh.JOIN)
        elif self._is_stale(group, history.at):
            due.setdefault(group_id, Refresh.TIMER)
        group.admit(principal)

    def _held_since(
        self, history: RightHistory, principal: Principal, group: GroupId, moment: Instant
    ) -> bool:
        let_in_again = self._distrusted.readmitted.get(principal)
        if let_in_again is not None and let_in_again > moment:
            return False
        return history.held_since(group, moment)

    def _merged(self, claim: Claim, now: Instant) -> Claim:
        """Add to a claim what the same member showed before and what still counts."""
        known = self._members.get(claim.principal)
        # What has ended still tells since when a right was held; after the drift nobody asks.
        ended = now - self.terms.drift_s * _SECOND
        before = [] if known is None else [one for one in known.claim.pool if not _has_ended(one, ended)]
        pool = {
            signed.id: signed
            for signed in (*claim.pool, *before)
            if signed.id not in self._distrusted.revoked
        }
        versions = {one.id: one for one in (*claim.versions, *(known.claim.versions if known else ()))}
        return Claim(
            claim.principal, tuple(versions.values())[:VERSIONS_MAX], tuple(pool.values())[:_POOL_MAX]
        )

    # -------------------------------------------------------- epochs

    def _refreshed(
        self, due: Mapping[GroupId, Refresh], now: Instant, *, skip: Principal | None = None
    ) -> list[Outcome]:
        """Begin an epoch in which these groups have new secrets, and say what everybody needs to follow."""
        if not due:
            return []
        number, since = self.number + 1, self._ledger.next_since(now)
        welcomed: set[Principal] = set()
        parts: list[tuple[GroupId, bytes]] = []
        for group_id in sorted(due, key=lambda one: one.order):
            group = self._groups[group_id]
            rekeyed, dropped = group.refresh(epoch=number, since=since)
            welcomed |= {Principal(key) for key in rekeyed.welcomes}
            parts.append((group_id, rekeyed.broadcast))
            for principal in dropped:
                self._keep_member(principal)
        epoch = self._announce(number, since, due)
        why: dict[Refresh, int] = {}
        for reason in due.values():
            why[reason] = why.get(reason, 0) + 1
        deliveries = [
            self._delivery(self._members[one], None, None)
            for one in sorted(welcomed, key=lambda one: one.key)
            if one != skip
        ]
        return [NewEpoch(epoch, tuple(parts), why), *deliveries]

    def _announce(self, number: int, since: Instant, due: Mapping[GroupId, Refresh]) -> SignedEpoch:
        issued = {group: self._issued(group) for group in due}
        made = {group: commitment(one.secret, group, number) for group, one in issued.items()}
        signed = self._ledger.announce(since, made)
        for group, one in issued.items():
            self.store.keep_secret(group, one)
        if self.keeps_history:
            return signed  # whoever reads the past has to know when each epoch was
        self._ledger.prune({one.epoch for group in self._groups.values() for one in group.issued})
        return signed

    def _issued(self, group: GroupId) -> Issued:
        current = self._groups[group].current
        assert current is not None  # noqa: S101 - it was refreshed just now
        return current

    def _adopt(self, head: SignedEpoch, due: dict[GroupId, Refresh]) -> None:
        """Go on from an epoch that this manager has forgotten; no secret of before is good any more."""
        self._ledger.adopt(head)
        for group in self._groups.values():
            due.setdefault(group.id, Refresh.ADOPTED)

    # -------------------------------------------------------- what one member is handed

    def _delivery(self, member: _Member, history: RightHistory | None, head: SignedEpoch | None) -> Delivery:
        secrets = [one for group in self._open_to(member) for one in self._handed(group, member, history)]
        paths = [
            HeldPath(group.id, path)
            for group in self._open_to(member)
            if (path := group.path(member.claim.principal)) is not None
        ]
        parcel = Parcel(member.groups, tuple(secrets), tuple(paths))
        until = None if member.until >= INSTANT_MAX else member.until
        return Delivery(
            member.claim.principal, parcel, self._ledger.needed([one.epoch for one in secrets], head), until
        )

    def _open_to(self, member: _Member) -> list[KeyGroup]:
        return [self._groups[one] for one in sorted(member.groups, key=lambda one: one.order)]

    def _handed(self, group: KeyGroup, member: _Member, history: RightHistory | None) -> list[Handed]:
        """Return the secrets of a group that a member may hold: the newest, and older ones by its right."""
        principal = member.claim.principal
        return [
            Handed(group.id, one.epoch, one.replaced_in, one.secret)
            for one in group.issued
            if one is group.current
            or (history is not None and self._held_since(history, principal, group.id, one.since))
        ]

    # -------------------------------------------------------- keeping

    def _keep_member(self, principal: Principal) -> None:
        member = self._members.get(principal)
        held = tuple(group.id for group in self._groups.values() if principal in group.holders)
        self.store.keep_member(principal, None if member is None else member.claim, held)

    def _forget_if_gone(self, principal: Principal) -> None:
        member = self._members[principal]
        if not member.is_here and not any(principal in group.holders for group in self._groups.values()):
            del self._members[principal]
            self.store.keep_member(principal, None, ())

    def restore(self, kept: KeptGroups, versions: Mapping[bytes, VerifiedType], now: Instant) -> None:
        """Go on from what was kept: the same epochs and secrets, the same holders, nobody here yet."""
        self._ledger.restore(kept.epochs)
        newest = {group: one.statement.number for one in kept.epochs for group in one.statement.refreshed}
        for group_id, issued in kept.secrets.items():
            group = self._groups[group_id] = KeyGroup(group_id, self._random)
            # A secret that cannot be read back is gone; the one before it must not take its place.
            group.restore(issued if issued[-1].epoch == newest.get(group_id) else [])
        for record in kept.members:
            known = tuple(versions[one] for one in record.versions if one in versions)
            claim = Claim(record.principal, known, record.pool)
            found = RightHistory(claim, self.grounds, now).now
            member = _Member(claim, found.groups, found.may_write, found.until)
            self._members[record.principal] = member
            for group_id in record.held:
                if group_id in self._groups:
                    self._groups[group_id].restore_holder(record.principal)
            # Its right may have ended meanwhile: `tick` puts it out.
            self._looks.ask(now, record.principal)


def _has_ended(signed: SignedCertificate, moment: int) -> bool:
    ends = signed.certificate.validity.not_after
    return ends is not None and ends < moment
