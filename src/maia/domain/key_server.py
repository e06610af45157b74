"""The key server: it runs the key groups of every type whose owner has named it.

    server.handle(Received(link, data), now) -> [Keep(...), Send(...), WakeAt(...), ...]

It has no clock, no socket and no disk, like a broker. Members dial it, prove
their right to be part of the network, and ask to join. What an epoch or an
eviction changed is kept before anybody hears of it. Errors of one peer end in
an answer to that peer, or in the end of its link, and never leave `handle`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, assert_never

from maia.credentials import (
    Heard,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    VerificationCache,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.domain.definitions import Definitions
from maia.domain.distrust import kept_eviction, kept_readmission, kept_revocations, read_distrusted
from maia.domain.history import history_reply
from maia.domain.links import Link, Links
from maia.domain.refusals import (
    KeyServerFull,
    KeyServerStopped,
    NotAMember,
    NotExpected,
    NotManagedHere,
)
from maia.domain.settings import DomainSettings
from maia.domain.telling import Teller
from maia.domain.vouching import Vouching
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.policy import Request
from maia.sealing.at_rest import AtRest
from maia.sealing.delivery import EncryptionKey, check_encryption_key
from maia.sealing.epochs import SignedEpoch, epoch_from_bytes, verify_epoch
from maia.sealing.group_manager import GroupManager
from maia.sealing.group_outcomes import Distrusted, Outcome
from maia.sealing.groups import GroupId
from maia.sealing.manager_store import ManagerStore
from maia.sealing.membership import Claim, Grounds, requests_for
from maia.sealing.secrets import Secret
from maia.sealing.vouched import held_statements
from maia.types import SealingLevel, VerifiedType
from maia.wire.codec import decode, encode
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
    Keep,
    LinkClosed,
    LinkOpened,
    LogRead,
    Note,
    Received,
    Recorded,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    Accepted,
    Bye,
    Failed,
    Hello,
    HistoryKeys,
    JoinGroups,
    KeysHeld,
    LeaveGroups,
    Message,
    Ping,
    Pong,
    Show,
    WhoWrites,
    Writer,
)

__all__ = ["KeyServer"]

_TYPE: Final = re.compile(r"[0-9a-f]{64}(?=/)")
_NOTHING_KEPT: Final[Mapping[str, bytes]] = {}


class KeyServer:
    """One key server of one network, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        key: SigningKey,
        settings: DomainSettings,
        *,
        at_rest: Secret,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] = _NOTHING_KEPT,
    ) -> None:
        """Make a server that holds `key`; secrets are kept sealed under a key that grows from `at_rest`."""
        self._key, self._settings, self._random = key, settings, random
        self._at_rest = AtRest(at_rest, random)
        self._kept = dict(kept)
        self._certificates = VerificationCache()
        self._definitions = Definitions(settings, self._certificates)
        self._groups: dict[bytes, GroupManager] = {}
        self._looks: dict[bytes, Instant | None] = {}
        """When the groups of each type want to be looked at."""
        self._vouching = Vouching(settings, self._certificates, kept)
        self._links = Links(
            settings,
            self._certificates,
            vouching=self._vouching,
            instance=random(16),
            credentials=[certificate_to_bytes(signed) for signed in settings.credentials],
        )
        self._teller = Teller(key.principal, self._links, random)
        self._distrusted = Distrusted()
        self._counters: Counter[str] = Counter()
        self._changes: dict[str, bytes | None] = {}
        self._is_draining = False

    # -------------------------------------------------------- life

    def start(self, now: Instant) -> list[Effect]:
        """Verify what was kept and go on from there."""
        kept, self._kept = self._kept, {}
        dropped = self._definitions.reload(kept, now)
        self._distrusted = read_distrusted(kept)
        types = {found[0] for name in kept if (found := _TYPE.match(name)) is not None}
        for type_id in sorted(bytes.fromhex(one) for one in types):
            dropped += self._restore(type_id, kept, now)
        notes: list[Effect] = [Note("kept-dropped", {"name": name, "code": "unreadable"}) for name in dropped]
        fields = {"principal": str(self._key.principal), "address": self._settings.address}
        return self._finished([Note("started", fields), *notes, *self._look(now)], now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; rights that have ended by `now` end first, and their keys with them."""
        effects = self._look(now)
        match happened:
            case LinkOpened():
                effects += self._links.open(happened, now)
            case Received(link=link, data=data):
                effects += self._received(self._links.get(link), data, now)
            case LinkClosed(link=link):
                effects += self._gone(self._links.pop(link), now)
            case DialFailed() | Tick() | Recorded() | LogRead():
                pass  # it dials nobody and records nothing, and what was due has been looked at
            case _:
                assert_never(happened)
        return self._finished(effects, now)

    def drain(self, now: Instant) -> list[Effect]:
        """Say goodbye on every link; members go on with the keys they have."""
        self._is_draining = True
        problem = KeyServerStopped("this key server is being stopped")
        effects = [one for link in self._links.all() for one in self._close(link, problem, now)]
        return self._finished(effects, now)

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: links, types, epochs, numbers; no key and no certificate."""
        links = self._links.all()
        return {
            "principal": str(self._key.principal),
            "network": self._settings.network.name,
            "address": self._settings.address,
            "at": str(now),
            "draining": self._is_draining,
            "links": [link.record(now) for link in links if link.is_ready],
            "links_waiting": sum(not link.is_ready for link in links),
            "members": sum(link.is_ready for link in links),
            "types": len(self._groups),
            "versions": len(self._definitions),
            "groups": {type_id.hex(): manager.status() for type_id, manager in self._groups.items()},
            "evicted": len(self._distrusted.evicted),
            "revoked": len(self._distrusted.revoked),
            "vouchers": self._vouching.status(now),
            "counters": dict(self._counters),
        }

    # -------------------------------------------------------- what the domain decides

    def evict(self, principal: Principal, now: Instant) -> list[Effect]:
        """Put a principal out of every group at once, and keep it out."""
        self._distrusted.evicted.add(principal)
        self._changes |= kept_eviction(principal)
        return self._everywhere(lambda manager: manager.evict(principal, now), now)

    def readmit(self, principal: Principal, now: Instant) -> list[Effect]:
        """Let a principal in again that was put out, as soon as it asks; its right counts from now on."""
        if self._distrusted.readmit(principal, now):
            self._changes |= kept_readmission(principal, now)
        return self._finished([], now)

    def revoke(self, certificates: Iterable[bytes], now: Instant) -> list[Effect]:
        """Believe these certificates, named by their ids, no more."""
        ids = frozenset(certificates)
        self._distrusted.revoked |= ids
        self._changes |= kept_revocations(ids)
        return self._everywhere(lambda manager: manager.revoke(ids, now), now)

    def hear(self, signed: SignedStatement, now: Instant) -> list[Effect]:
        """Hear a statement that the domain made, or heard; whoever it takes the ground from is put out."""
        return self._finished(self._heard([signed], now), now)

    def _heard(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for signed in statements:
            heard = self._vouching.hear(signed, now)
            if isinstance(heard, MaiaError):
                effects.append(Count("maia_statements_refused_total", labels={"code": heard.code}))
            elif heard.is_news:
                self._changes |= self._vouching.kept(heard.by)
                effects.append(Count("maia_statements_heard_total"))
                effects += self._looked_again(heard, now)
        return effects

    def _looked_again(self, heard: Heard, now: Instant) -> list[Effect]:
        """Look again at exactly those whom a statement concerns."""
        changed = heard.revoked | heard.restored
        effects: list[Effect] = []
        for manager in self._groups.values():
            effects += self._told(manager, manager.hear(heard.by, changed, now))
        for link, problem in self._links.fallen(changed, now) if changed else ():
            effects += self._close(link, problem, now)
        return effects

    def _everywhere(self, change: Callable[[GroupManager], list[Outcome]], now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for manager in self._groups.values():
            effects += self._told(manager, change(manager))
        return self._finished(effects, now)

    def groups_of(self, type_id: bytes) -> GroupManager | None:
        """Return the groups of a type, if they are run here."""
        return self._groups.get(type_id)

    # -------------------------------------------------------- what members say

    def _received(self, link: Link | None, data: bytes, now: Instant) -> list[Effect]:
        if link is None:
            return []
        self._links.heard(link, now)
        try:
            message = decode(data)
            match message:
                case Bye(code=code):
                    return [
                        Note("bye", {**link.named(), "code": code}),
                        Close(link.id, code),
                        *self._gone(self._links.pop(link.id), now),
                    ]
                case Show() if not link.is_ready and not message.certificates:
                    link.statements = held_statements(link.statements, message)
                    return []
                case Hello() if not link.is_ready:
                    pool = tuple(certificate_from_bytes(one) for one in message.credentials)
                    asked = [self._links.connecting(link.peer)]
                    heard = self._hear_held(link, asked, pool, now)
                    return [*heard, *self._links.said_hello(link, message, now)]
                case _ if link.is_ready:
                    return self._answered(link, message, now)
            raise NotExpected(f"`{type(message).__name__}` was not expected before hello")
        except MaiaError as problem:
            refused = Count("maia_links_refused_total", labels={"code": problem.code})
            return [refused, *self._close(link, problem, now)]

    def _answered(self, link: Link, message: Message, now: Instant) -> list[Effect]:
        match message:
            case Ping(nonce=nonce):
                return [Send(link.id, encode(Pong(nonce)))]
            case Pong():
                return []
            case Show(id=number, certificates=[]):
                link.statements = held_statements(link.statements, message)
                heard = self._heard(link.take_statements(self._vouching.known()), now)
                return [*heard, Send(link.id, encode(Accepted(number, None)))]
            case KeysHeld(type_id=type_id):
                return [Send(link.id, encode(self._held(link, type_id)))]
            case LeaveGroups(type_id=type_id):
                return self._left(link, type_id, now)
            case JoinGroups(id=asked) | WhoWrites(id=asked) | HistoryKeys(id=asked):
                try:
                    self._links.spend(link, now)
                    return self._asked(link, message, now)
                except ProtocolViolation:
                    raise
                except MaiaError as problem:
                    return [*self._refused(link, problem), _failed(link, asked, problem)]
        raise NotExpected(f"`{type(message).__name__}` is nothing that a key server is told")

    def _asked(self, link: Link, message: JoinGroups | WhoWrites | HistoryKeys, now: Instant) -> list[Effect]:
        match message:
            case JoinGroups():
                return self._join(link, message, now)
            case WhoWrites():
                return self._tell_writer(link, message, now)
            case HistoryKeys():
                return self._tell_past(link, message, now)

    def _refused(self, link: Link, problem: MaiaError) -> list[Effect]:
        return [
            Note("refused", {**link.named(), "code": problem.code}),
            Count("maia_refused_total", labels={"code": problem.code}),
        ]

    def _join(self, link: Link, message: JoinGroups, now: Instant) -> list[Effect]:
        """Let a member in: its encryption key, the type, its certificates, its right, in this order."""
        shown = EncryptionKey(message.key, message.signature)
        check_encryption_key(
            shown, member=link.peer, manager=self._key.principal, session=self._links.instance
        )
        versions = self._definitions.verified(message.definitions, now)
        manager = self._manager_for(versions)
        pool = tuple(certificate_from_bytes(one) for one in dict.fromkeys(message.credentials))
        claim = Claim(link.peer, versions, pool)
        heard = self._hear_held(link, requests_for(claim), pool, now)
        outcomes = manager.join(claim, self._head(message.head), now)
        self._changes |= self._definitions.remember(versions)
        self._groups[manager.type_id] = manager
        link.joined[manager.type_id] = message.key
        fields = {**link.named(), "type": manager.type_id.hex(), "epoch": manager.number}
        return [
            *heard,
            Note("joined", fields),
            Count("maia_key_joins_total"),
            *self._told(manager, outcomes, asked=(link, message.id)),
        ]

    def _hear_held(
        self, link: Link, asked: Iterable[Request], pool: tuple[SignedCertificate, ...], now: Instant
    ) -> list[Effect]:
        """Hear what a peer has shown, of those on whose word one of these requests could rest."""
        if not link.statements:
            return []
        concerned = self._vouching.concerned(asked, pool, now)
        return self._heard(link.take_statements(concerned), now)

    def _manager_for(self, versions: tuple[VerifiedType, ...]) -> GroupManager:
        """Return the groups of a type, new ones if need be, if its owner wants them to be run here."""
        type_id = versions[-1].type_id
        sealing = self._definitions.history(versions).sealing
        if sealing is None or sealing.manager != self._key.principal:
            raise NotManagedHere("the owner of this type has not named this server as its key manager")
        known = self._groups.get(type_id)
        if known is None:
            if len(self._groups) >= self._settings.limits.types:
                raise KeyServerFull(f"this server runs the groups of {self._settings.limits.types} types")
            return self._new_manager(type_id, self._grounds(sealing.level))
        known.grounds = self._grounds(sealing.level)
        return known

    def _grounds(self, level: SealingLevel) -> Grounds:
        settings = self._settings
        return Grounds(
            level, settings.bounds, settings.constitutions, self._certificates, self._vouching.standing
        )

    def _new_manager(self, type_id: bytes, grounds: Grounds) -> GroupManager:
        return GroupManager(
            type_id,
            self._key,
            grounds,
            random=self._random,
            store=ManagerStore(type_id, self._at_rest),
            terms=self._settings.terms,
            keeps_history=type_id in self._settings.history,
            distrusted=self._distrusted,
        )

    def _head(self, data: bytes | None) -> SignedEpoch | None:
        if data is None:
            return None
        head = epoch_from_bytes(data)
        verify_epoch(head, self._key.principal)
        return head

    def _held(self, link: Link, type_id: bytes) -> KeysHeld:
        manager = self._groups.get(type_id)
        if manager is None or type_id not in link.joined or manager.head is None:
            return KeysHeld(type_id, 0, None)
        return KeysHeld(type_id, manager.number, manager.head.digest)

    def _tell_writer(self, link: Link, message: WhoWrites, now: Instant) -> list[Effect]:
        manager = self._groups.get(message.type_id)
        if manager is None or not manager.is_in(GroupId(message.type_id), link.peer):
            raise NotAMember("only members of a type's groups are told who publishes")
        shown = [certificate_to_bytes(one) for one in manager.writer(Principal(message.principal), now)]
        return [Send(link.id, encode(Writer(message.id, message.type_id, message.principal, shown)))]

    def _tell_past(self, link: Link, message: HistoryKeys, now: Instant) -> list[Effect]:
        """Tell a reader of the past the keys that it could have had at their time."""
        shown = EncryptionKey(message.key, message.signature)
        check_encryption_key(
            shown, member=link.peer, manager=self._key.principal, session=self._links.instance
        )
        versions = self._definitions.verified(message.definitions, now)
        manager = self._manager_for(versions)
        pool = tuple(certificate_from_bytes(one) for one in dict.fromkeys(message.credentials))
        heard = self._hear_held(link, requests_for(Claim(link.peer, versions, pool)), pool, now)
        reply = history_reply(
            manager, message, versions, reader=link.peer, by=self._key.principal, now=now, random=self._random
        )
        fields = {**link.named(), "type": manager.type_id.hex(), "after": message.after}
        return [
            *heard,
            Note("history-told", fields),
            Count("maia_history_keys_total"),
            Send(link.id, encode(reply)),
        ]

    def _left(self, link: Link, type_id: bytes, now: Instant) -> list[Effect]:
        """Let a member go, unless it is still here by another link."""
        manager = self._groups.get(type_id)
        if link.joined.pop(type_id, None) is None or manager is None:
            return []
        if any(type_id in other.joined for other in self._links.of(link.peer)):
            return []
        manager.leave(link.peer)
        return self._told(manager, [])

    def _told(
        self, manager: GroupManager, outcomes: list[Outcome], *, asked: tuple[Link, int] | None = None
    ) -> list[Effect]:
        """Tell everybody what has come of a change, once that is safe."""
        self._changes |= manager.store.take_changes()
        self._looks[manager.type_id] = manager.next_look()
        return self._teller.tell(manager, outcomes, asked)

    # -------------------------------------------------------- ends, and time

    def _close(self, link: Link, problem: MaiaError, now: Instant) -> list[Effect]:
        if self._links.pop(link.id) is None:
            return []
        return [
            Send(link.id, encode(Bye(problem.code, problem.message))),
            Close(link.id, problem.code),
            Note("closing", {**link.named(), "code": problem.code}),
            *self._gone(link, now),
        ]

    def _gone(self, link: Link | None, now: Instant) -> list[Effect]:
        """Take leave of a member whose link is gone; its keys stay good for as long as its right."""
        if link is None:
            return []
        return [effect for type_id in list(link.joined) for effect in self._left(link, type_id, now)]

    def _look(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        due = [type_id for type_id, at in self._looks.items() if at is not None and at <= now]
        for manager in [self._groups[type_id] for type_id in due]:
            effects += self._told(manager, manager.tick(now))
        ended, asked = self._links.look(now)
        for link, problem in ended:
            effects += self._close(link, problem, now)
        return [*effects, *asked]

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Put what must be kept first, and ask for the next moment."""
        changes, self._changes = self._changes, {}
        for effect in effects:
            if isinstance(effect, Count):
                self._counters[effect.name] += effect.amount
        moments = (*self._looks.values(), self._links.next_look())
        wake = min((one for one in moments if one is not None), default=None)
        kept: list[Effect] = [Keep(name, data) for name, data in changes.items()]
        woken: list[Effect] = [] if wake is None else [WakeAt(Instant(max(wake, now)))]
        return [*kept, *effects, *woken]

    # -------------------------------------------------------- after a restart

    def _restore(self, type_id: bytes, kept: Mapping[str, bytes], now: Instant) -> list[str]:
        """Go on with the groups of a type; return the names of what could not be believed."""
        versions = self._definitions.by_id(type_id)
        if not versions:
            return []  # its definitions hold no more; what is kept waits for the type to come back
        sealing = self._definitions.history(list(versions.values())).sealing
        if sealing is None or sealing.manager != self._key.principal:
            return []
        manager = self._new_manager(type_id, self._grounds(sealing.level))
        found = manager.store.read(kept, self._key.principal)
        manager.restore(found, versions, now)
        self._groups[type_id] = manager
        self._looks[type_id] = manager.next_look()
        return list(found.dropped)


def _failed(link: Link, asked: int, problem: MaiaError) -> Effect:
    return Send(link.id, encode(Failed(asked, problem.code, problem.message)))
