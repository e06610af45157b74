"""How does a broker get the keys it needs, keep up with them, and lose them in time?

A broker embeds one `KeyMember` and hands it every input of a link that it
`owns`, each `DialFailed` of an address that it `dials`, and each `Tick`:

    member.need(versions, now)      -> effects: dial the type's manager, join its groups
    member.handle(happened, now)    -> effects: follow rekeys, ask again for what was lost
    member.ring(type_id)            -> the keys as they are now
    member.take_notices()           -> what has changed since this was last asked

While a manager cannot be reached the member goes on with what it holds. It
keeps no key on disk, only the newest signed epoch of each type, so that after
a restart nobody can lead it back to an older one (A82). A right that ends
takes its keys with it, whether the manager can be reached or not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import (
    Principal,
    SignedCertificate,
    SigningKey,
    VerificationCache,
    Witness,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.credentials import Standing as Statements
from maia.errors import MaiaError, ProtocolViolation
from maia.events import INSTANT_MAX, AttributeUid, Instant
from maia.sealing.epochs import EpochForked, SignedEpoch, epoch_from_bytes, epoch_to_bytes
from maia.sealing.group_outcomes import NoGroupOpen
from maia.sealing.groups import GroupId
from maia.sealing.handover import parcel_info, unpack
from maia.sealing.history import past_info, unpack_past
from maia.sealing.key_ring import KeyRing
from maia.sealing.manager_links import LinkStage, ManagerLink, ManagerLinks, ManagerSilent, later
from maia.sealing.member_notices import KeysChanged, KeysRefused, Notice, WriterTold
from maia.sealing.member_past import MemberPast
from maia.sealing.member_settings import MemberSettings
from maia.sealing.membership import Claim, Grounds, Standing, standing
from maia.sealing.type_keys import KeysMissed, TypeKeys
from maia.types import Sealing, VerifiedType, definition_to_bytes, strongest
from maia.wire.codec import decode, encode
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
    Keep,
    LinkClosed,
    LinkId,
    LinkOpened,
    Note,
    Received,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    Accepted,
    Bye,
    Failed,
    Greeting,
    GroupKeys,
    GroupsEnded,
    HistoryKeysReply,
    JoinGroups,
    KeysHeld,
    LeaveGroups,
    Message,
    Ping,
    Pong,
    Rekey,
    Show,
    Welcome,
    WhoWrites,
    Writer,
)

__all__ = ["KEPT_HEAD", "KeyMember", "KeysChanged", "KeysRefused", "Notice", "WriterTold"]

KEPT_HEAD: Final = "keys/"
"""How the names under which newest epochs are kept begin."""

_WRITERS_ASKED_MAX: Final = 1024
_LEAVING: Final = "UNAVAILABLE-SHUTDOWN"


@dataclass(slots=True)
class _Type:
    """One type that is needed."""

    type_id: bytes
    sealing: Sealing
    versions: tuple[VerifiedType, ...] = field(repr=False)
    keys: TypeKeys
    asked: int | None = None
    """The number of the question that is under way."""
    due: Instant | None = None
    """When to ask again, or when an answer is overdue."""
    failures: int = 0
    rights_until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    kept: bytes | None = None


class KeyMember:
    """One member of key groups, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        key: SigningKey,
        settings: MemberSettings,
        *,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] | None = None,
        cache: VerificationCache | None = None,
        standing: Witness | None = None,
    ) -> None:
        """Make a member that holds `key`; `kept` is what `Keep` stored before.

        `standing` says which of its certificates still count, and shows managers why.
        """
        self._key, self._settings, self._tester = key, settings, standing
        self._cache = VerificationCache() if cache is None else cache
        self._pool = settings.credentials
        self._kept = {name: data for name, data in (kept or {}).items() if name.startswith(KEPT_HEAD)}
        self._managers = ManagerLinks(settings, random=random, cache=self._cache, standing=standing)
        self._types: dict[bytes, _Type] = {}
        self._writers: OrderedDict[tuple[bytes, Principal], tuple[SignedCertificate, ...]] = OrderedDict()
        self._asked_writers: OrderedDict[tuple[bytes, Principal], None] = OrderedDict()
        self._past = MemberPast()
        self._notices: list[Notice] = []
        self._numbers = 0

    # -------------------------------------------------------- what the broker asks

    def ring(self, type_id: bytes) -> KeyRing | None:
        """Return the keys of a type that is needed."""
        known = self._types.get(type_id)
        return None if known is None else known.keys.ring

    def groups(self, type_id: bytes) -> frozenset[GroupId]:
        """Return the groups of a type that this member has been let into."""
        known = self._types.get(type_id)
        return frozenset() if known is None else known.keys.groups

    def writer(self, type_id: bytes, principal: Principal) -> tuple[SignedCertificate, ...] | None:
        """Return the certificates with which somebody publishes; None if they were not told yet."""
        return self._writers.get((type_id, principal))

    @property
    def past(self) -> MemberPast:
        """Return what was handed out of epochs that are over."""
        return self._past

    def ask_past(self, type_id: bytes, epoch: int, now: Instant) -> list[Effect]:
        """Ask for the keys of an epoch that is over, and of those after it; `past` has them later."""
        known = self._types.get(type_id)
        manager = None if known is None else self._managers.of(known.sealing.manager)
        if known is None or manager is None or not manager.is_ready or manager.session is None:
            return []
        if self._past.is_asking(type_id):
            return []
        shown = manager.session.signed(self._key, manager=manager.principal, session=manager.instance)
        question = self._past.ask(self._number(), epoch, known.versions, self._pool, shown)
        return self._finished(self._managers.say(manager, question), now)

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices, self._notices = self._notices, []
        return notices

    def owns(self, link: LinkId) -> bool:
        """Say whether what happens on a link is for this member."""
        return self._managers.on(link) is not None

    def dials(self, address: str) -> bool:
        """Say whether this member waits for a link to an address."""
        return bool(self._managers.waiting_at(address))

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: epochs and groups, no keys."""
        return {
            "managers": {str(one.principal): one.stage.value for one in self._managers.all()},
            "types": {
                one.type_id.hex(): {
                    "epoch": one.keys.ring.newest,
                    "groups": len(one.keys.groups),
                    "is_asking": one.asked is not None,
                }
                for one in self._types.values()
            },
        }

    def need(self, versions: Sequence[VerifiedType], now: Instant) -> list[Effect]:
        """Get, and keep up with, the keys of a type; versions oldest first, those known before included."""
        sealing = strongest(one.sealing for one in versions)
        if sealing is None:
            return []
        type_id = versions[-1].type_id
        known = self._types.get(type_id)
        if known is not None and known.versions == tuple(versions):
            return []
        if known is None or known.sealing.manager != sealing.manager:
            if known is None and len(self._types) >= self._settings.types_max:
                return [Note("keys-full", {"types": len(self._types)})]
            known = self._types[type_id] = self._new_type(type_id, sealing, tuple(versions))
        known.sealing, known.versions = sealing, tuple(versions)
        manager = self._managers.of(sealing.manager)
        manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *self._settings.addresses)))
        return self._finished(self._ask(known, now), now)

    def drop(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Need the keys of a type no more; they are destroyed."""
        known = self._types.pop(type_id, None)
        if known is None:
            return []
        known.keys.ring.wipe()
        self._past.forget(type_id)
        manager = self._managers.of(known.sealing.manager)
        return self._finished(self._managers.say(manager, LeaveGroups(type_id)), now)

    def leave(self) -> list[Effect]:
        """Say goodbye to every manager, as before the process ends; all keys are destroyed."""
        effects: list[Effect] = []
        for link in self._managers.open_links():
            effects += [
                Send(link, encode(Bye(_LEAVING, "this member is being stopped"))),
                Close(link, _LEAVING),
            ]
        for known in self._types.values():
            known.keys.ring.wipe()
        self._past.wipe()
        self._types.clear()
        self._managers.clear()
        return effects

    def credentials_changed(self, credentials: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Show other certificates from now on, as before old ones expire."""
        self._pool = credentials
        return self._finished([one for known in self._types.values() for one in self._ask(known, now)], now)

    def rights_changed(self, now: Instant) -> list[Effect]:
        """Look again at what our certificates open: one of them may count no more, or again."""
        looked = [one for known in self._types.values() for one in self._look_at_rights(known, now)]
        return self._finished(looked, now)

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show managers what was heard of `by`, if certificates that we have shown them demand it.

        A manager that may not be part of the network any more is left.
        """
        effects: list[Effect] = []
        is_demanded = by in Statements.testers(self._pool)
        for manager in [one for one in self._managers.all() if one.is_ready]:
            try:
                self._managers.check_not_revoked(manager, now)
            except MaiaError as problem:
                effects += self._left(manager, problem, now)
            else:
                effects += self._managers.show(manager, self._pool, now) if is_demanded else []
        return effects

    def missing(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask again: something was sealed in an epoch that is not known here."""
        known = self._types.get(type_id)
        return [] if known is None else self._finished(self._ask(known, now), now)

    def ask_writer(self, type_id: bytes, principal: Principal, now: Instant) -> list[Effect]:
        """Ask the manager with which certificates somebody publishes; `WriterTold` follows."""
        known = self._types.get(type_id)
        if known is None or (type_id, principal) in self._asked_writers:
            return []
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return []
        self._asked_writers[type_id, principal] = None
        if len(self._asked_writers) > _WRITERS_ASKED_MAX:
            self._asked_writers.popitem(last=False)
        return self._finished(
            self._managers.say(manager, WhoWrites(self._number(), type_id, principal.key)), now
        )

    # -------------------------------------------------------- what happens

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; what was due by `now` is done first."""
        effects = self._due(now)
        match happened:
            case LinkOpened():
                effects += self._opened(happened, now)
            case Received(link=link, data=data):
                effects += self._received(self._managers.on(link), data, now)
            case LinkClosed(link=link):
                manager = self._managers.on(link)
                if manager is not None:
                    self._lost(manager, now)
            case DialFailed(address=address):
                for manager in self._managers.waiting_at(address):
                    self._lost(manager, now)
            case Tick():
                pass  # what was due has been done
        return self._finished(effects, now)

    def _opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        effects, not_found = self._managers.opened(opened, now)
        for manager in not_found:
            self._lost(manager, now)
        return effects

    def _received(self, manager: ManagerLink | None, data: bytes, now: Instant) -> list[Effect]:
        if manager is None:
            return []
        try:
            return self._answered(manager, decode(data), now)
        except MaiaError as problem:
            return self._left(manager, problem, now)

    def _answered(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        match manager.stage, message:
            case _, Bye(code=code):
                closed = [] if manager.link is None else [Close(manager.link, code)]
                self._lost(manager, now)
                return [Note("bye", {"peer": str(manager.principal), "code": code}), *closed]
            case LinkStage.AWAITING_GREETING, Show():
                self._managers.shown(manager, message)
                return []
            case LinkStage.AWAITING_GREETING, Greeting():
                return self._managers.greeted(manager, message, self._pool, now)
            case LinkStage.AWAITING_WELCOME, Welcome():
                return self._welcomed(manager, now)
            case LinkStage.READY, _:
                return self._told(manager, message, now)
        raise ProtocolViolation(f"`{type(message).__name__}` was not expected from a manager at this point")

    def _told(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        match message:
            case Ping(nonce=nonce):
                return self._managers.say(manager, Pong(nonce))
            case Pong() | Accepted():
                return []
            case GroupKeys() | Rekey() | KeysHeld() | GroupsEnded():
                known = self._types.get(message.type_id)
                if known is None or known.sealing.manager != manager.principal:
                    return []  # it was on its way when the type was dropped
                return self._about_type(manager, known, message, now)
            case Failed(id=number):
                return self._failed(number, message, now)
            case Writer():
                return self._told_writer(message)
            case HistoryKeysReply():
                return self._told_past(manager, message)
        raise ProtocolViolation(f"`{type(message).__name__}` is nothing that a manager says")

    def _about_type(
        self,
        manager: ManagerLink,
        known: _Type,
        message: GroupKeys | Rekey | KeysHeld | GroupsEnded,
        now: Instant,
    ) -> list[Effect]:
        try:
            match message:
                case GroupKeys():
                    return self._take(manager, known, message, now)
                case Rekey():
                    return self._changed(known, now) if known.keys.follow(message) else []
                case KeysHeld():
                    manager.awaits_check = False
                    known.keys.compare(message)
                    return []
                case GroupsEnded(uids=uids, code=code, message=sentence):
                    return self._ended(known, uids, code, sentence, now)
        except KeysMissed as problem:
            fields = {"type": known.type_id.hex(), "code": problem.code, "why": problem.message}
            missed = Count("maia_keys_missed_total")
            return [Note("keys-missed", fields), missed, *self._ask(known, now, at_once=True)]

    # -------------------------------------------------------- keys

    def _take(self, manager: ManagerLink, known: _Type, message: GroupKeys, now: Instant) -> list[Effect]:
        assert manager.session is not None  # noqa: S101 - the stage is READY
        info = parcel_info(known.type_id, manager=manager.principal, member=self._key.principal)
        parcel = unpack(manager.session.open(message.sealed, info), known.type_id)
        was_asked = known.asked is not None and message.id == known.asked
        known.keys.take(message, parcel, was_asked=was_asked)
        if was_asked:
            known.asked, known.due, known.failures = None, None, 0
        until = message.until
        known.rights_until = Instant(INSTANT_MAX) if until is None else Instant(until)
        manager.failures = 0
        return self._changed(known, now)

    def _changed(self, known: _Type, now: Instant) -> list[Effect]:
        known.keys.forget_before(now)
        self._notices.append(KeysChanged(known.type_id))
        ring = known.keys.ring
        fields = {"type": known.type_id.hex(), "epoch": ring.newest, "groups": len(known.keys.groups)}
        return [*self._keep_head(known), Note("keys", fields), Count("maia_keys_followed_total")]

    def _keep_head(self, known: _Type) -> list[Effect]:
        head = known.keys.head
        data = None if head is None else epoch_to_bytes(head)
        if data is None or data == known.kept:
            return []
        known.kept = data
        return [Keep(KEPT_HEAD + known.type_id.hex(), data)]

    def _ended(
        self, known: _Type, uids: list[str | None], code: str, sentence: str, now: Instant
    ) -> list[Effect]:
        groups = [GroupId(known.type_id, None if uid is None else AttributeUid(uid)) for uid in uids]
        known.keys.shut_out(groups)
        self._notices.append(KeysChanged(known.type_id))
        if not known.keys.groups:
            known.due = self._next_chance(known, now)
            self._notices.append(KeysRefused(known.type_id, code, sentence))
        return [Note("keys-ended", {"type": known.type_id.hex(), "groups": len(groups), "code": code})]

    def _failed(self, number: int, message: Failed, now: Instant) -> list[Effect]:
        known = next((one for one in self._types.values() if one.asked == number), None)
        if known is None:
            self._past.refused(number)
            return []
        known.asked = None
        self._managers.of(known.sealing.manager).failures = 0
        known.failures += 1
        known.due = min(self._managers.again(known.failures, now), self._next_chance(known, now))
        if message.code == NoGroupOpen.code and known.keys.groups:
            # It was put out, and the message that said so was lost.
            known.keys.shut_out(known.keys.groups)
            self._notices.append(KeysChanged(known.type_id))
        self._notices.append(KeysRefused(known.type_id, message.code, message.message))
        fields = {"type": known.type_id.hex(), "code": message.code, "message": message.message}
        return [Note("keys-refused", fields), Count("maia_keys_refused_total", labels={"code": message.code})]

    def _told_writer(self, message: Writer) -> list[Effect]:
        principal = Principal(message.principal)
        if self._asked_writers.pop((message.type_id, principal), self) is self:
            return []  # nobody asked
        told = tuple(certificate_from_bytes(one) for one in message.credentials)
        self._writers[message.type_id, principal] = told
        self._writers.move_to_end((message.type_id, principal))
        if len(self._writers) > self._settings.writers_max:
            self._writers.popitem(last=False)
        self._notices.append(WriterTold(message.type_id, principal))
        return []

    def _told_past(self, manager: ManagerLink, message: HistoryKeysReply) -> list[Effect]:
        assert manager.session is not None  # noqa: S101 - the stage is READY
        info = past_info(message.type_id, manager=manager.principal, reader=self._key.principal)
        self._past.told(message, unpack_past(manager.session.open(message.sealed, info)))
        return []

    def _ask(self, known: _Type, now: Instant, *, at_once: bool = False) -> list[Effect]:
        """Ask for all keys of a type, unless an answer is awaited already."""
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return (
                self._managers.dial(manager, now)
                if manager.stage is LinkStage.IDLE and manager.due is None
                else []
            )
        if known.asked is not None and not at_once:
            return []
        assert manager.session is not None  # noqa: S101 - the stage is READY
        known.asked = self._number()
        known.due = later(now, self._settings.answer_s)
        shown = manager.session.signed(self._key, manager=manager.principal, session=manager.instance)
        head = known.keys.head
        asking = JoinGroups(
            known.asked,
            [definition_to_bytes(version.signed) for version in known.versions],
            [certificate_to_bytes(signed) for signed in self._pool],
            shown.key,
            shown.signature,
            None if head is None else epoch_to_bytes(head),
        )
        return self._managers.say(manager, asking)

    def _new_type(self, type_id: bytes, sealing: Sealing, versions: tuple[VerifiedType, ...]) -> _Type:
        kept = self._kept.pop(KEPT_HEAD + type_id.hex(), None)
        head = _head(kept)
        try:
            return _Type(type_id, sealing, versions, TypeKeys(type_id, sealing.manager, head), kept=kept)
        except MaiaError:  # another manager's, or damaged: it proves nothing
            return _Type(type_id, sealing, versions, TypeKeys(type_id, sealing.manager))

    # -------------------------------------------------------- the link to a manager

    def _welcomed(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        self._managers.welcomed(manager, now)
        effects: list[Effect] = [Note("manager-connected", {"peer": str(manager.principal)})]
        for known in self._types_of(manager):
            known.asked = None
            effects += self._ask(known, now)
        return effects

    def _left(self, manager: ManagerLink, problem: MaiaError, now: Instant) -> list[Effect]:
        """End a link whose other side is not to be believed."""
        fields = {"peer": str(manager.principal), "code": problem.code, "message": problem.message}
        event = "keys-forked" if isinstance(problem, EpochForked) else "refused"
        assert manager.link is not None  # noqa: S101 - something was heard, or awaited, on it
        effects: list[Effect] = [
            Note(event, fields),
            Count("maia_keys_distrusted_total", labels={"code": problem.code}),
            Send(manager.link, encode(Bye(problem.code, problem.message))),
            Close(manager.link, problem.code),
        ]
        self._lost(manager, now)
        return effects

    def _lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link; keys are kept, and every question is asked anew."""
        self._managers.lost(manager, now)
        for known in self._types_of(manager):
            known.asked, known.due = None, None
        self._asked_writers.clear()
        self._past.link_lost()

    def _types_of(self, manager: ManagerLink) -> list[_Type]:
        return [one for one in self._types.values() if one.sealing.manager == manager.principal]

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -------------------------------------------------------- time

    def next_look(self) -> Instant | None:
        """Return the next moment at which there is something to do."""
        moments: list[Instant | None] = []
        for manager in self._managers.all():
            moments += [manager.due, manager.check_at]
        for known in self._types.values():
            moments += [known.due, known.keys.ring.next_forget()]
            if known.rights_until < INSTANT_MAX:
                moments.append(Instant(known.rights_until + 1))
        return min((one for one in moments if one is not None), default=None)

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        wake = self.next_look()
        return effects if wake is None else [*effects, WakeAt(Instant(max(wake, now)))]

    def _due(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for manager in self._managers.all():
            effects += self._due_of_manager(manager, now)
        for known in self._types.values():
            effects += self._due_of_type(known, now)
        return effects

    def _due_of_manager(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        if manager.due is not None and manager.due <= now:
            manager.due = None
            if manager.stage in (LinkStage.IDLE, LinkStage.DIALLING):
                return self._managers.dial(manager, now) if self._types_of(manager) else []
            return self._left(manager, ManagerSilent("the manager took too long to welcome us"), now)
        if manager.check_at is not None and manager.check_at <= now:
            return self._check(manager, now)
        return []

    def _check(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Compare epochs with the manager: a rekey that was lost would otherwise be noticed by nobody."""
        if manager.awaits_check:
            return self._left(manager, ManagerSilent("the manager does not answer"), now)
        manager.check_at = later(now, self._settings.check_s)
        asking = [known for known in self._types_of(manager) if known.keys.groups and known.asked is None]
        manager.awaits_check = bool(asking)
        return [effect for known in asking for effect in self._managers.say(manager, known.keys.held())]

    def _due_of_type(self, known: _Type, now: Instant) -> list[Effect]:
        known.keys.forget_before(now)
        effects: list[Effect] = []
        if known.rights_until < now:
            effects += self._look_at_rights(known, now)
        if known.due is not None and known.due <= now:
            known.due = None
            manager = self._managers.of(known.sealing.manager)
            if known.asked is not None and manager.is_ready:
                return [*effects, *self._left(manager, ManagerSilent("the manager does not answer"), now)]
            effects += self._ask(known, now)
        return effects

    def _look_at_rights(self, known: _Type, now: Instant) -> list[Effect]:
        """Destroy the keys to which our own certificates give no right any more."""
        found = self._standing(known, now)
        known.rights_until = found.until
        lost = known.keys.groups - found.groups
        if not lost:
            return []
        known.keys.shut_out(lost)
        self._notices.append(KeysChanged(known.type_id))
        if not known.keys.groups:
            known.due = known.due if known.asked is not None else self._next_chance(known, now)
            ended = "the right to the keys of this type has ended"
            self._notices.append(KeysRefused(known.type_id, "REFUSED-RIGHT-ENDED", ended))
        return [Note("keys-expired", {"type": known.type_id.hex(), "groups": len(lost)})]

    def _next_chance(self, known: _Type, now: Instant) -> Instant:
        """Return when our own certificates next open something else than now, or a while later."""
        until = self._standing(known, now).until
        return min(Instant(min(INSTANT_MAX, until + 1)), later(now, self._settings.again_max_s))

    def _standing(self, known: _Type, now: Instant) -> Standing:
        claim = Claim(self._key.principal, known.versions, self._pool)
        settings = self._settings
        grounds = Grounds(
            known.sealing.level, settings.bounds, settings.constitutions, self._cache, self._tester
        )
        return standing(claim, grounds, now)


def _head(kept: bytes | None) -> SignedEpoch | None:
    try:
        return None if kept is None else epoch_from_bytes(kept)
    except MaiaError:
        return None
