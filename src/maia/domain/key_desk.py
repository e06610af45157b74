"""What does a key server answer when a member asks for keys, or who publishes?

    JoinGroups    -> the keys of the groups that are open to it
    HistoryKeys   -> the keys that it could have had at their time
    WhoWrites     -> the certificates with which somebody publishes
    KeysHeld      -> which epoch is the newest, so that it sees what it missed

Whoever asks was welcomed before (`links.py`). A refusal is raised, and the
server says it to the one who asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maia.credentials import Principal, certificate_from_bytes, certificate_to_bytes
from maia.domain.hearing import Hearing
from maia.domain.history import history_reply
from maia.domain.links import Link, Links
from maia.domain.managed_types import ManagedTypes
from maia.domain.refusals import NotAMember
from maia.events import Instant
from maia.sealing.delivery import EncryptionKey, check_encryption_key
from maia.sealing.epochs import SignedEpoch, epoch_from_bytes, verify_epoch
from maia.sealing.group_manager import GroupManager
from maia.sealing.groups import GroupId
from maia.sealing.membership import Claim, requests_for
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Note, Send
from maia.wire.messages import HistoryKeys, JoinGroups, KeysHeld, WhoWrites, Writer

__all__ = ["KeyDesk"]


@dataclass(frozen=True, slots=True)
class KeyDesk:
    """Answers what members ask the manager `principal`."""

    principal: Principal
    types: ManagedTypes
    links: Links
    hearing: Hearing
    random: Callable[[int], bytes] = field(repr=False)

    def answer(self, link: Link, message: JoinGroups | WhoWrites | HistoryKeys, now: Instant) -> list[Effect]:
        """Answer a question, or raise why not."""
        match message:
            case JoinGroups():
                return self._join(link, message, now)
            case WhoWrites():
                return self._tell_writer(link, message, now)
            case HistoryKeys():
                return self._tell_past(link, message, now)

    def held(self, link: Link, type_id: bytes) -> KeysHeld:
        """Say which epoch of a type is the newest, to whoever has joined it."""
        manager = self.types.get(type_id)
        if manager is None or type_id not in link.joined or manager.head is None:
            return KeysHeld(type_id, 0, None)
        return KeysHeld(type_id, manager.number, manager.head.digest)

    def _claimed(
        self, link: Link, message: JoinGroups | HistoryKeys, now: Instant
    ) -> tuple[GroupManager, Claim]:
        """Check who asks and for what: the encryption key, the type, the certificates, in this order."""
        shown = EncryptionKey(message.key, message.signature)
        check_encryption_key(shown, member=link.peer, manager=self.principal, session=self.links.instance)
        versions = self.types.definitions.verified(message.definitions, now)
        manager = self.types.of(versions)
        pool = tuple(certificate_from_bytes(one) for one in dict.fromkeys(message.credentials))
        claim = Claim(link.peer, versions, pool)
        self.hearing.hear_held(link, requests_for(claim), pool, now)
        return manager, claim

    def _join(self, link: Link, message: JoinGroups, now: Instant) -> list[Effect]:
        """Let a member in, if its certificates open a group."""
        manager, claim = self._claimed(link, message, now)
        outcomes = manager.join(claim, self._head(message.head), now)
        self.types.joined(manager, claim.versions)
        link.joined[manager.type_id] = message.key
        fields = {**link.named(), "type": manager.type_id.hex(), "epoch": manager.number}
        return [
            Note("joined", fields),
            Count("maia_key_joins_total"),
            *self.types.told(manager, outcomes, asked=(link, message.id)),
        ]

    def _head(self, data: bytes | None) -> SignedEpoch | None:
        if data is None:
            return None
        head = epoch_from_bytes(data)
        verify_epoch(head, self.principal)
        return head

    def _tell_writer(self, link: Link, message: WhoWrites, now: Instant) -> list[Effect]:
        manager = self.types.get(message.type_id)
        if manager is None or not manager.is_in(GroupId(message.type_id), link.peer):
            raise NotAMember("only members of a type's groups are told who publishes")
        shown = [certificate_to_bytes(one) for one in manager.writer(Principal(message.principal), now)]
        return [Send(link.id, encode(Writer(message.id, message.type_id, message.principal, shown)))]

    def _tell_past(self, link: Link, message: HistoryKeys, now: Instant) -> list[Effect]:
        """Tell a reader of the past the keys that it could have had at their time."""
        manager, claim = self._claimed(link, message, now)
        reply = history_reply(manager, message, claim, by=self.principal, now=now, random=self.random)
        fields = {**link.named(), "type": manager.type_id.hex(), "after": message.after}
        return [
            Note("history-told", fields),
            Count("maia_history_keys_total"),
            Send(link.id, encode(reply)),
        ]
