"""Which secrets do the key groups of a type have, who holds them, and which epoch do they share?

The manager of a type decides who may hold what (`groups/manager.py`), and says
here which groups need a new secret. All groups of a type share one sequence of
epochs, each signed and bound to the one before.

Numbers only ever grow, each epoch names the one before it, and a member that
is shown an epoch of another process with the same key does not go on: one of the two
managers must not be running (A54).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from maia.credentials import Principal, SigningKey
from maia.errors import Unavailable
from maia.events import SECOND, Instant, seconds_after
from maia.policy.answers import Answers
from maia.sealing.groups.key_group import GroupId, KeyGroup
from maia.sealing.groups.manager_store import KeptGroups, ManagerStore
from maia.sealing.groups.membership import RightHistory
from maia.sealing.keys.epochs import EpochChain, EpochStatement, SignedEpoch, commitment, sign_epoch
from maia.sealing.keys.key_ring import KeyTerms, content_key
from maia.sealing.keys.parcels import GroupWelcome, Handed, HeldPath, PastEpoch, write_answers
from maia.sealing.keys.secrets import Secret

EPOCHS_KEPT: Final = 256
"""Signed epochs that members may ask for; those of secrets in use are kept beside them."""


class Refresh(Enum):
    """Why a key was refreshed: for the log and the metrics."""

    FIRST = "first"
    JOIN = "join"
    EXPIRY = "expiry"
    EVICTION = "eviction"
    TIMER = "timer"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """A new epoch, for every member that is here; a delivery to one member takes its place."""

    epoch: SignedEpoch
    parts: tuple[tuple[GroupId, bytes], ...]
    why: Mapping[Refresh, int]
    """How many groups were refreshed for which reason."""


class EpochSpan(NamedTuple):
    """An epoch that is over: from `since` up to, and without, `ends`."""

    number: int
    since: Instant
    ends: Instant


class EpochLedger(EpochChain):
    """The signed epochs of one type, newest last."""

    __slots__ = ("_epochs", "_key", "_store")

    def __init__(self, type_id: bytes, key: SigningKey, store: ManagerStore) -> None:
        super().__init__(type_id, key.principal)
        self._key, self._store = key, store
        self._epochs: dict[int, SignedEpoch] = {}

    def next_since(self, now: Instant) -> Instant:
        """Return when an epoch that is made now begins: after the last one, whatever the clock says."""
        last = self.head
        return now if last is None else Instant(max(now, last.statement.since + 1))

    def announce(self, since: Instant, commitments: Mapping[GroupId, bytes]) -> SignedEpoch:
        last = self.head
        previous = None if last is None else last.digest
        statement = EpochStatement(self.type_id, self.number + 1, since, commitments, previous)
        signed = sign_epoch(statement, self._key)
        self.follow(signed)
        self._keep(signed)
        return signed

    def check(self, head: SignedEpoch) -> None:
        """Refuse to go on beside another manager with the same key."""
        known = self._epochs.get(head.statement.number)
        if known is not None and known.digest != head.digest:
            raise Unavailable(
                "UNAVAILABLE-GROUPS-FORKED",
                "a member holds an epoch that another manager signed with this key",
            )

    def adopt(self, head: SignedEpoch) -> None:
        """Go on from an epoch that this manager signed and has forgotten, as after an old backup."""
        self.start_at(head)
        self._keep(head)

    def restore(self, epochs: Iterable[SignedEpoch]) -> None:
        """Go on from what was kept, oldest first."""
        for signed in epochs:
            self._epochs[signed.statement.number] = signed
            self.start_at(signed)

    def needed(self, used: Iterable[int], head: SignedEpoch | None) -> tuple[SignedEpoch, ...]:
        """Return the epochs from the first of `used` on, and those that follow on what a member holds."""
        used = [number for number in used if number in self._epochs]
        first = min(used, default=self.number)
        if head is not None:
            first = min(first, head.statement.number + 1)
        recent = max(first, self.number - EPOCHS_KEPT)
        wanted = {number for number in self._epochs if number >= recent} | set(used)
        return tuple(self._epochs[number] for number in sorted(wanted))

    def over(self, now: Instant) -> list[EpochSpan]:
        """Return the epochs that have ended, oldest first; one whose successor is not known is left out."""
        numbers = sorted(self._epochs)
        found = []
        for number, following in pairwise(numbers):
            since, ends = self._epochs[number].statement.since, self._epochs[following].statement.since
            if following == number + 1 and ends <= now:
                found.append(EpochSpan(number, since, ends))
        return found

    def prune(self, used: set[int]) -> None:
        """Forget epochs that are no longer needed."""
        for number in [one for one in self._epochs if one <= self.number - EPOCHS_KEPT and one not in used]:
            del self._epochs[number]
            self._store.keep_epoch(number, None)

    def _keep(self, signed: SignedEpoch) -> None:
        self._epochs[signed.statement.number] = signed
        self._store.keep_epoch(signed.statement.number, signed)


Due = dict[GroupId, Refresh]
"""The groups that need a new secret, and why."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A new epoch, who has to be handed its way into the key trees, and who was left behind."""

    announcement: NewEpoch
    welcomed: frozenset[Principal]
    left_behind: frozenset[Principal]


class TypeGroups:
    """The groups of one type, their secrets and holders, and the epochs."""

    def __init__(
        self,
        type_id: bytes,
        key: SigningKey,
        *,
        random: Callable[[int], bytes],
        store: ManagerStore,
        terms: KeyTerms,
        keeps_history: bool,
    ) -> None:
        """Begin without a group; epochs are signed with `key`."""
        self.ledger = EpochLedger(type_id, key, store)
        self.terms, self.keeps_history = terms, keeps_history
        self.together = False
        """Whether periodic refreshes come at moments that are the same for all types."""
        self._store, self._random = store, random
        self.by_id: dict[GroupId, KeyGroup] = {}
        """Those that ever had a member."""

    # -------------------------------------------------------- asking

    def held_by(self, principal: Principal) -> tuple[GroupId, ...]:
        """Return the groups whose newest secret a principal holds, whether it is here or has left."""
        return tuple(group.id for group in self.by_id.values() if principal in group.holders)

    def secret_of(self, group: GroupId, epoch: int) -> Secret | None:
        """Return the secret of a group in an epoch, in use or kept for reading the past."""
        issued = self.by_id[group].issued if group in self.by_id else ()
        found = next((one for one in issued if one.is_of(epoch)), None) or self._store.history(group, epoch)
        return None if found is None else found.secret

    def past_keys(self, spans: Iterable[EpochSpan], rights: RightHistory) -> Iterator[PastEpoch]:
        """Yield, for each epoch, the content keys of the groups that were open to a claim throughout.

        The right is that of the time of publication: the key of an epoch is for principals that could have
        been in its group at every moment of the epoch, and the kernel says so from certificates shown now.
        """
        for span in spans:
            opened = rights.throughout(span.since, Instant(span.ends - 1))
            pairs = [
                (group.uid, content_key(secret, group, span.number))
                for group in _ordered(opened)
                if (secret := self.secret_of(group, span.number)) is not None
            ]
            if pairs:
                yield PastEpoch(*span, pairs)

    def parcel(
        self, principal: Principal, groups: frozenset[GroupId], history: RightHistory | None, answers: Answers
    ) -> GroupWelcome:
        """Return what a member may hold of groups: newest secrets, and older ones as `history` shows."""
        opened = [self.by_id[one] for one in _ordered(groups)]
        secrets = [
            Handed(group.id.uid, one.epoch, one.replaced_in, one.secret)
            for group in opened
            for one in group.issued
            if one is group.current or (history is not None and history.held_since(group.id, one.since))
        ]
        paths = [(group.id.uid, group.path(principal)) for group in opened]
        held = [HeldPath(uid, path) for uid, path in paths if path is not None]
        return GroupWelcome([group.id.uid for group in opened], secrets, held, write_answers(answers))

    # -------------------------------------------------------- who comes and goes

    def take_in(
        self,
        principal: Principal,
        groups: Iterable[GroupId],
        history: RightHistory,
        due: Due,
        *,
        is_here: bool,
    ) -> None:
        """Admit a principal with the right to groups; note which need a new secret, and why.

        One that is not here is handed nothing. Its right begins in an epoch of its own all the same, so
        that it can open what was published meanwhile when it comes.
        """
        for group_id in _ordered(groups):
            if not is_here and group_id not in self.by_id:
                continue  # its first member begins it, and the right is older then
            group = self.by_id.get(group_id) or self._begin(group_id)
            why = Refresh.TIMER if self._is_stale(group, history.at) else None
            if group.current is None:
                why = Refresh.FIRST
            elif (
                # One that no member had protects nothing yet, and a holder of it may come back.
                (group.was_used or not is_here)
                and principal not in group.holders
                and not history.held_since(group.id, group.current.since)
            ):
                why = Refresh.JOIN
            if is_here:
                group.admit(principal)
            if why is not None and (is_here or why is Refresh.JOIN):
                due.setdefault(group_id, why)

    def _begin(self, group: GroupId) -> KeyGroup:
        made = self.by_id[group] = KeyGroup(group, self._random)
        return made

    def part(self, principal: Principal) -> None:
        """Remove a member, which keeps its secrets until they are replaced."""
        for group in self.by_id.values():
            group.part(principal)

    def expel(self, principal: Principal, *, but_from: frozenset[GroupId] = frozenset()) -> list[GroupId]:
        """Evict a member from every group but these; return those whose secret it holds."""
        lost = [group for group in self.held_by(principal) if group not in but_from]
        for group in lost:
            self.by_id[group].expel(principal)
        return lost

    # -------------------------------------------------------- epochs

    def refresh(self, due: Due, now: Instant, is_here: Callable[[Principal], bool]) -> Refreshed:
        """Begin an epoch in which these groups have new secrets, for those who are here."""
        number, since = self.ledger.number + 1, self.ledger.next_since(now)
        welcomed: set[Principal] = set()
        left_behind: set[Principal] = set()
        parts: list[tuple[GroupId, bytes]] = []
        for group in _ordered(due):
            rekeyed, dropped = self.by_id[group].refresh(epoch=number, since=since, is_here=is_here)
            welcomed |= {Principal(key) for key in rekeyed.welcomes}
            left_behind |= dropped
            parts.append((group, rekeyed.broadcast))
        issued = {group: self.by_id[group].issued[-1] for group in due}
        made = {group: commitment(one.secret, group, number) for group, one in issued.items()}
        epoch = self.ledger.announce(since, made)
        for group, one in issued.items():
            self._store.keep_secret(group, one)
        if not self.keeps_history:  # a reader of the past has to know when each epoch was
            self.ledger.prune({one.epoch for some in self.by_id.values() for one in some.issued})
        announcement = NewEpoch(epoch, tuple(parts), Counter(due.values()))
        return Refreshed(announcement, frozenset(welcomed), frozenset(left_behind))

    def adopt(self, head: SignedEpoch) -> Due:
        """Go on from an epoch that this manager has forgotten; no secret of before is good any more."""
        self.ledger.adopt(head)
        return dict.fromkeys(self.by_id, Refresh.ADOPTED)

    # -------------------------------------------------------- time

    def timer(self, now: Instant) -> Due:
        """Return the groups whose secret has been in use for long enough."""
        # A group without holders waits for the next member: it protects nothing.
        return {
            group.id: Refresh.TIMER
            for group in self.by_id.values()
            if group.holders and self._is_stale(group, now)
        }

    def _is_stale(self, group: KeyGroup, now: Instant) -> bool:
        return group.current is None or self._periodic_at(group.current.since) <= now

    def _periodic_at(self, since: Instant) -> Instant:
        """Return when a key is refreshed even if no member joins or leaves.

        Types that are refreshed together are so at moments that do not depend on when each was last.
        """
        refresh_s = self.terms.refresh_s
        counted = Instant(since - since % (refresh_s * SECOND)) if self.together else since
        return seconds_after(counted, refresh_s)

    def destroy(self, now: Instant) -> None:
        """Destroy the secrets with which nothing may be opened any more, or keep them for the past."""
        for group in self.by_id.values():
            for issued in group.take_over(now, self.terms.drift_s):
                self._store.keep_over(group.id, issued, keeps_history=self.keeps_history)
                if not self.keeps_history:
                    issued.secret.wipe()

    def next_looks(self) -> list[Instant]:
        """Return the moments at which a refresh is due or a secret is to be destroyed."""
        moments: list[Instant] = []
        for group in self.by_id.values():
            if group.current is not None and group.holders:
                moments.append(self._periodic_at(group.current.since))
            moments += [over for one in group.issued if (over := one.over_at(self.terms.drift_s)) is not None]
        return moments

    # -------------------------------------------------------- after a restart

    def restore(self, kept: KeptGroups) -> None:
        """Go on from what was kept: the same epochs, secrets and holders."""
        self.ledger.restore(kept.epochs)
        newest = {group: one.statement.number for one in kept.epochs for group in one.statement.refreshed}
        for group_id, issued in kept.secrets.items():
            group = self._begin(group_id)
            # A secret that cannot be read back is gone; the one before it must not take its place.
            group.issued = issued if issued[-1].epoch == newest.get(group_id) else []
        for principal, record in kept.members.items():
            for uid in record.held:
                if (held := self.by_id.get(GroupId(self.ledger.type_id, uid))) is not None:
                    held.admit(principal)


def _ordered(groups: Iterable[GroupId]) -> list[GroupId]:
    return sorted(groups, key=lambda one: one.order)
