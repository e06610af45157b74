"""What does one member know about the keys of one type, and what does a message change about it?

A member hands every message of the type's manager to this. Keys enter the
ring only if the manager's signed epochs commit to them, and epochs only if
they follow from what is held. Whatever was missed ends in `KeysMissed`, and
the member asks again. Of what was kept from before a restart only the newest
signed epoch is believed, and only if the type's manager signed it (A82).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.credentials import Principal
from maia.errors import MaiaError, Unavailable
from maia.events import INSTANT_MAX, AttributeUid, Instant
from maia.sealing.groups.key_group import GroupId, group_name
from maia.sealing.keys.epochs import (
    EpochChain,
    EpochForked,
    EpochGap,
    EpochStatement,
    SignedEpoch,
    check_meant,
    epoch_from_bytes,
    epoch_to_bytes,
    verify_epoch,
)
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.parcels import GroupWelcome
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.past import PastReading
from maia.sealing.tree.key_tree import TreeMember
from maia.sealing.tree.rekey import PathNeeded
from maia.types import SealingLevel, VerifiedType
from maia.wire.effects import Keep
from maia.wire.messages import GroupKeys, KeysHeld, Rekey

KEPT_HEAD: Final = "keys/"
"""How the names under which newest epochs are kept begin."""


class KeysMissed(Unavailable):
    """Something was said that does not follow from what is held: the member has to ask again."""

    code = "UNAVAILABLE-KEYS-MISSED"


class TypeKeys:
    """One type: its epochs as far as they are held, the ring, and the member's places in the key trees."""

    def __init__(self, type_id: bytes, manager: Principal, kept: bytes | None = None) -> None:
        """Begin with no key; `kept` is the newest epoch from before a restart."""
        self.type_id, self.manager = type_id, manager
        self._chain, self._kept = EpochChain(type_id, manager), kept
        if kept is not None:
            try:
                self._chain.start_at(epoch_from_bytes(kept))
            except MaiaError:  # another manager's, or damaged: it proves nothing
                self._kept = None
        self._trees: dict[GroupId, TreeMember] = {}
        self.groups: frozenset[GroupId] = frozenset()
        """The groups that the manager has let this member into."""
        self.ring = KeyRing(type_id)
        self.versions: tuple[VerifiedType, ...] = ()
        self.level = SealingLevel.EVENT
        self.asked: int | None = None
        """The number of the question that is under way."""
        self.joined_as: int | None = None
        """The number of the question with which we were let in, on the present link."""
        self.reading: PastReading | None = None
        """The question for keys of the past that is under way."""
        self.due: Instant | None = None
        """When to ask again, or when an answer is overdue."""
        self.failures = 0
        self.is_suspended = False
        """Whether the manager waits for a validity statement, and hands out keys again when it comes."""
        self.rights_until = self.vouched_until = Instant(INSTANT_MAX)
        """The last moments of our right, and at which the manager takes our certificates to be fresh."""

    @property
    def head(self) -> SignedEpoch | None:
        """Return the newest epoch that is held."""
        return self._chain.head

    def is_asked_under(self, number: int) -> bool:
        """Return whether a question of this number is about this type, on the present link."""
        reading = None if self.reading is None else self.reading.number
        return number in (self.asked, self.joined_as, reading)

    def held(self) -> KeysHeld:
        """Return what to tell the manager so that it can say whether something was missed."""
        head = self.head
        return KeysHeld(self.type_id, self._chain.number, None if head is None else head.digest)

    def next_looks(self) -> list[Instant | None]:
        """Return the moments at which there is something to do about this type."""
        ends = None if self.rights_until >= INSTANT_MAX else Instant(self.rights_until + 1)
        return [self.due, self.ring.next_forget(), ends]

    def keep_head(self) -> list[Keep]:
        """Have the newest epoch kept, if it is another than the one that is."""
        data = None if self.head is None else epoch_to_bytes(self.head)
        if data is None or data == self._kept:
            return []
        self._kept = data
        return [Keep(KEPT_HEAD + self.type_id.hex(), data)]

    # -------------------------------------------------------- what the manager says

    def take(self, message: GroupKeys, parcel: GroupWelcome, *, was_asked: bool) -> None:
        """Take on everything that the manager has handed over."""
        statements = self._followed([epoch_from_bytes(one) for one in message.epochs], was_asked=was_asked)
        for handed in parcel.secrets:
            statement = statements.get(handed.epoch)
            if statement is None:
                raise KeysMissed(f"a secret of epoch {handed.epoch} came without its epoch")
            check_meant(handed.secret, GroupId(self.type_id, handed.uid), statement)
        paths = {GroupId(self.type_id, one.uid): one.path for one in parcel.paths}
        trees = {group: TreeMember.from_bytes(path, group=group_name(group)) for group, path in paths.items()}
        self.ring.adopt(KeyTerms.from_record(message.terms))
        for number in sorted(statements):
            self.ring.learn(number, since=statements[number].since)
        for handed in parcel.secrets:
            until = (self.ring.newest or handed.epoch) + 1 if handed.until is None else handed.until
            for number in filter(self.ring.knows_epoch, range(handed.epoch, until)):
                self.ring.hold(GroupId(self.type_id, handed.uid), number, handed.secret)
        self.is_suspended = False
        self._trees, self.groups = trees, frozenset(GroupId(self.type_id, uid) for uid in parcel.uids)
        self.ring.answers = parcel.answers

    def follow(self, message: Rekey) -> bool:
        """Follow into a new epoch; say whether it was one, and raise `KeysMissed` if the way is not known."""
        signed = epoch_from_bytes(message.epoch)
        before = self._chain.number
        try:
            statement = self._chain.follow(signed)
        except EpochGap as problem:
            raise KeysMissed(problem.message) from problem
        if statement is None:
            return False
        changes = {
            GroupId(self.type_id, AttributeUid(part.uid) if part.uid else None): part.change
            for part in message.parts
        }
        secrets = {group: self._secret(group, statement, changes, before) for group in self.groups}
        self.ring.learn(statement.number, since=statement.since)
        for group, secret in secrets.items():
            self.ring.hold(group, statement.number, secret)
        return True

    def compare(self, message: KeysHeld) -> None:
        """Raise `KeysMissed` if the manager has other epochs than this member."""
        head = self.head
        if message.number == self._chain.number:
            if head is not None and message.digest != head.digest:
                raise EpochForked(f"the manager holds another epoch {message.number} than this member")
            return
        raise KeysMissed(f"the manager is at epoch {message.number}, and {self._chain.number} is held")

    def shut_out(self, groups: Iterable[GroupId]) -> None:
        """Destroy the keys of groups to which there is no right any more."""
        for group in groups:
            self.ring.drop(group)
            self._trees.pop(group, None)
        self.groups -= frozenset(groups)

    # -------------------------------------------------------- the parts

    def _followed(self, given: list[SignedEpoch], *, was_asked: bool) -> dict[int, EpochStatement]:
        """Verify epochs, oldest first, and let the chain follow; return what they state."""
        stated: dict[int, EpochStatement] = {}
        for signed in sorted(given, key=lambda one: one.statement.number):
            statement = verify_epoch(signed, self.manager)
            try:
                self._chain.follow(signed)
            except EpochGap as problem:
                # An answer follows from the head shown with the question, and the manager knows it or
                # is too far ahead to tell; anything else that leaves epochs out was not meant for us.
                if not was_asked:
                    raise KeysMissed(problem.message) from problem
                self._chain.start_at(signed)
            stated[statement.number] = statement
        return stated

    def _secret(
        self, group: GroupId, statement: EpochStatement, changes: dict[GroupId, bytes], before: int
    ) -> Secret:
        if group not in statement.refreshed:
            carried = self.ring.secret(group, before)
            if carried is None:
                raise KeysMissed(f"the key of `{group}` in epoch {before} was never held")
            return carried
        tree, change = self._trees.get(group), changes.get(group)
        if tree is None or change is None:
            raise KeysMissed(f"this member has no place in the key tree of `{group}` yet")
        try:
            secret = tree.apply(change) or tree.secret
        except PathNeeded as problem:
            raise KeysMissed(problem.message) from problem
        check_meant(secret, group, statement)
        return secret
