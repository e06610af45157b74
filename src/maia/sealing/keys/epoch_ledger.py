"""Which epochs has the manager of a type signed, and which does a member need that has missed some?

Numbers only ever grow, each epoch names the one before it, and a member that
is shown an epoch of another process with the same key does not go on: one of the two
managers must not be running (A54).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from maia.credentials import SigningKey
from maia.events import Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.outcomes import GroupsForked
from maia.sealing.keys.epochs import EpochChain, EpochStatement, SignedEpoch, sign_epoch
from maia.sealing.keys.history import EpochSpan

EPOCHS_KEPT: Final = 256
"""Signed epochs that members may ask for; those of secrets in use are kept beside them."""


class EpochLedger:
    """The signed epochs of one type, newest last."""

    __slots__ = ("_chain", "_epochs", "_key", "_store", "type_id")

    def __init__(self, type_id: bytes, key: SigningKey, store: ManagerStore) -> None:
        """Begin with no epoch."""
        self.type_id = type_id
        self._key, self._store = key, store
        self._chain = EpochChain(type_id, key.principal)
        self._epochs: dict[int, SignedEpoch] = {}

    @property
    def head(self) -> SignedEpoch | None:
        """Return the newest epoch."""
        return self._chain.head

    @property
    def number(self) -> int:
        """Return the number of the newest epoch; 0 before the first."""
        return self._chain.number

    def next_since(self, now: Instant) -> Instant:
        """Return when an epoch that is made now begins: after the last one, whatever the clock says."""
        last = self.head
        return now if last is None else Instant(max(now, last.statement.since + 1))

    def announce(self, since: Instant, commitments: Mapping[GroupId, bytes]) -> SignedEpoch:
        """Sign the next epoch."""
        last = self.head
        previous = None if last is None else last.digest
        statement = EpochStatement(self.type_id, self.number + 1, since, commitments, previous)
        signed = sign_epoch(statement, self._key)
        self._chain.follow(signed)
        self._keep(signed)
        return signed

    def check(self, head: SignedEpoch) -> None:
        """Refuse to go on beside another manager with the same key."""
        known = self._epochs.get(head.statement.number)
        if known is not None and known.digest != head.digest:
            raise GroupsForked("a member holds an epoch that another manager signed with this key")

    def adopt(self, head: SignedEpoch) -> None:
        """Go on from an epoch that this manager signed and has forgotten, as after an old backup."""
        self._chain.start_at(head)
        self._keep(head)

    def restore(self, epochs: Iterable[SignedEpoch]) -> None:
        """Go on from what was kept, oldest first."""
        for signed in epochs:
            self._epochs[signed.statement.number] = signed
            self._chain.start_at(signed)

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
            self._store.keep_epoch_gone(number)

    def _keep(self, signed: SignedEpoch) -> None:
        self._epochs[signed.statement.number] = signed
        self._store.keep_epoch(signed)
