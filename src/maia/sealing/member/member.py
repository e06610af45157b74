"""How does a broker get the keys it needs, keep up with them, and lose them in time?

A broker embeds one `KeyMember` and hands it every input of a link that it
`owns`, each `DialFailed` of an address that it `dials`, and each `Tick`:

    member.need(versions, now)      -> effects: dial the type's manager, join its groups
    member.handle(happened, now)    -> effects: follow rekeys, ask again for what was lost
    member.ring(type_id)            -> the keys as they are now
    member.take_notices()           -> what has changed since this was last asked
    member.ask_past(type_id, 7, now)-> effects: ask for keys of an epoch that is over; `member.past` has them

It asks a type's manager for all of its keys at once, takes what comes back,
follows from epoch to epoch, and asks again for what it missed.

While a manager cannot be reached the member goes on with what it holds. It
keeps no key on disk, only the newest signed epoch of each type, so that after
a restart it cannot be led back to an older one (A82). A right that ends
takes its keys with it, whether the manager can be reached or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import (
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    VerificationCache,
    VerifiedConstitution,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.errors import MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import INSTANT_MAX, AttributeUid, Instant, just_after, seconds_after
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.membership import (
    AnsweredRights,
    Claim,
    MemberGrounds,
    MembershipState,
    NoGroupOpen,
    awaits_statement,
    keys_digest,
    standing,
)
from maia.sealing.keys.epochs import EpochForked, epoch_to_bytes
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.keys.parcels import parcel_info, past_info, unpack, unpack_past
from maia.sealing.keys.type_keys import KEPT_HEAD, KeysMissed, TypeKeys
from maia.sealing.member.manager_links import ManagerLink, ManagerLinks, ManagerSilent
from maia.sealing.member.past import MemberPast, PastReading
from maia.sealing.member.settings import KeysChanged, KeysRefused, MemberSettings, Notice, WriterReceived
from maia.sessions.challenges import QuestionNotOurs
from maia.sessions.session import Established, Session, goodbye
from maia.types import VerifiedType, definition_to_bytes, strongest
from maia.validity import Monitor, VouchedFor, named_testers
from maia.wire.effects import (
    Close,
    Count,
    DialFailed,
    Effect,
    Input,
    LinkClosed,
    LinkId,
    LinkOpened,
    Note,
    Received,
    WakeAt,
)
from maia.wire.key_messages import STATEMENT_AWAITED
from maia.wire.messages import (
    Accepted,
    Bye,
    Challenge,
    Failed,
    GroupKeys,
    GroupsEnded,
    HistoryKeys,
    HistoryKeysReply,
    JoinGroups,
    KeysHeld,
    LeaveGroups,
    Message,
    Rekey,
    Vouched,
    WhoWrites,
    Writer,
)

_WRITERS_ASKED_MAX: Final = 1024
"""Publishers that the answer about is awaited at once; the oldest questions go first."""


class KeyMember(ManagerLinks):
    """One member of key groups, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        key: SigningKey,
        settings: MemberSettings,
        *,
        random: Callable[[int], bytes],
        kept: Mapping[str, bytes] | None = None,
        cache: VerificationCache | None = None,
        standing: Monitor | None = None,
    ) -> None:
        """Make a member that holds `key`; `kept` is what `Keep` stored before.

        `standing` says which of its certificates still count, and shows managers why.
        """
        super().__init__(
            settings,
            random=random,
            cache=VerificationCache() if cache is None else cache,
            standing=standing,
        )
        self._key = key
        self._kept = {name: data for name, data in (kept or {}).items() if name.startswith(KEPT_HEAD)}
        self._types: dict[bytes, TypeKeys] = {}
        self._writers_asked: BoundedMap[tuple[bytes, Principal], None] = BoundedMap(_WRITERS_ASKED_MAX)
        self._writers_told: BoundedMap[tuple[bytes, Principal], None] = BoundedMap(_WRITERS_ASKED_MAX)
        """About whom managers have answered since there was a link to them."""
        self._notices: list[Notice] = []
        self._numbers = count(1)
        self.past = MemberPast()
        """What was handed out of epochs that are over."""

    # -------------------------------------------------------- what the broker asks

    def ring(self, type_id: bytes) -> KeyRing | None:
        """Return the keys of a type that is needed."""
        known = self._types.get(type_id)
        return None if known is None else known.ring

    def groups(self, type_id: bytes) -> frozenset[GroupId]:
        """Return the groups of a type that this member has been let into."""
        known = self._types.get(type_id)
        return frozenset() if known is None else known.groups

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices, self._notices = self._notices, []
        return notices

    def manager_of(self, type_id: bytes) -> ManagerLink | None:
        """Return the manager of a type that is needed, and how far the talk with it has come."""
        known = self._types.get(type_id)
        return None if known is None else self.of(known.manager)

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: epochs and groups, no keys."""
        types = {
            type_id.hex(): {
                "epoch": known.ring.newest,
                "groups": len(known.groups),
                "is_asking": known.asked is not None,
            }
            for type_id, known in self._types.items()
        }
        return {
            "managers": {str(one.principal): one.stage for one in self._managers.values()},
            "types": types,
        }

    # -------------------------------------------------------- what the broker needs

    def need(self, versions: Sequence[VerifiedType], now: Instant) -> list[Effect]:
        """Get, and keep up with, the keys of a type; versions oldest first, those known before included."""
        sealing = strongest(one.sealing for one in versions)
        if sealing is None:
            return []
        type_id, settings = versions[-1].type_id, self.settings
        known = self._types.get(type_id)
        if known is not None and known.versions == tuple(versions):
            return []
        if known is None or known.manager != sealing.manager:
            if known is None and len(self._types) >= settings.types_max:
                return [Note("keys-full", {"types": len(self._types)})]
            kept = self._kept.pop(KEPT_HEAD + type_id.hex(), None)
            known = self._types[type_id] = TypeKeys(type_id, sealing.manager, kept)
        known.level, known.versions = sealing.level, tuple(versions)
        manager = self.of(sealing.manager)
        manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *settings.addresses)))
        return self._finished(self._ask(known, now), now)

    def drop(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Need the keys of a type no more; they are destroyed."""
        known = self._types.pop(type_id, None)
        if known is None:
            return []
        known.ring.wipe()
        self.past.forget(type_id)
        manager = self.of(known.manager)
        return self._finished(self.say(manager, LeaveGroups(type_id)), now)

    def leave(self) -> list[Effect]:
        """Say goodbye to every manager, as before the process ends; all keys are destroyed."""
        problem = Unavailable("UNAVAILABLE-SHUTDOWN", "this member is being stopped")
        effects = [one for link in self._links for one in goodbye(link, problem)]
        for known in self._types.values():
            known.ring.wipe()
        self._types.clear()
        self.past.forget()
        self._links.clear()
        self._managers.clear()
        return effects

    def dial_again(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Look for a manager at once that would be looked for later; nothing if that was just done."""
        manager = self.manager_of(type_id)
        if manager is None or not manager.is_idle or manager.due is None or manager.lost_at is None:
            return []
        is_due = now >= seconds_after(manager.lost_at, self.settings.dial_again_s)
        dialled = self.dial(manager, now) if is_due else []
        return self._finished(dialled, now) if dialled else []

    def missing(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask again: something was sealed in an epoch that is not known here."""
        known = self._types.get(type_id)
        return [] if known is None else self._finished(self._ask(known, now), now)

    def ask_past(self, type_id: bytes, epoch: int, now: Instant) -> list[Effect]:
        """Ask for the keys of an epoch that is over, and of those after it; `past` has them later."""
        return self.read_past(PastReading(type_id, epoch=epoch, after=max(0, epoch - 1)), now)

    def read_past(self, reading: PastReading, now: Instant) -> list[Effect]:
        """Ask for keys of the past, unless an answer about the type is awaited; `reading` gets them.

        A manager that is away is asked when it is back.
        """
        known, manager = self._types.get(reading.type_id), self.manager_of(reading.type_id)
        if known is None or manager is None or known.reading is not None:
            return []
        known.reading = reading
        return self._finished(self._ask_page(manager, known, reading) if manager.is_ready else [], now)

    def is_suspended(self, type_id: bytes) -> bool:
        """Return whether the manager of a type hands out keys again as soon as a validity statement comes."""
        known = self._types.get(type_id)
        return known is not None and known.is_suspended

    def ask_writer(self, type_id: bytes, principal: Principal, now: Instant) -> list[Effect]:
        """Request a publisher's certificates from the manager; `WriterReceived` follows."""
        manager = self.manager_of(type_id)
        if manager is None or not manager.is_ready or (type_id, principal) in self._writers_asked:
            return []
        self._writers_asked.put((type_id, principal), None)
        question = WhoWrites(next(self._numbers), type_id, principal.key)
        return self._finished(self.say(manager, question), now)

    def awaits_writer(self, type_id: bytes, principal: Principal) -> bool:
        """Return whether the manager has not been able to answer about a publisher yet."""
        manager = self.manager_of(type_id)
        if manager is None:
            return False
        return not manager.is_ready or (type_id, principal) not in self._writers_told

    # -------------------------------------------------------- statements

    def credentials_changed(self, credentials: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Show other certificates from now on, as before old ones expire."""
        self.settings = replace(self.settings, credentials=credentials)
        asked = [one for known in self._types.values() for one in self._ask(known, now)]
        return self._finished(asked, now)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Use these constitutions of quorums from now on."""
        self.settings = replace(self.settings, constitutions=constitutions)

    def rights_changed(self, now: Instant) -> list[Effect]:
        """Look again at what our certificates open: one of them may count no more, or again."""
        looked: list[Effect] = []
        for known in self._types.values():
            looked += self._look_at_rights(known, now)
            if known.is_suspended and known.asked is None and self._rights(known, now).groups:
                looked += self._ask(known, now)  # the statement that was missing has come
        return self._finished(looked, now)

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show managers what was heard of `by`, if certificates that we have shown them demand it.

        A manager that may not be part of the network any more is left.
        """
        effects: list[Effect] = []
        is_demanded = by in named_testers(self.settings.credentials)
        for manager in [one for one in self._managers.values() if one.is_ready]:
            try:
                self.check_not_revoked(manager, now)
            except MaiaError as problem:
                effects += self._leave_manager(manager, problem, now)
            else:
                effects += self.show(manager, now) if is_demanded else []
        return effects

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None = None
    ) -> list[Effect]:
        """Bring a manager the answers that it waits for; `problem` says why there are not more of them."""
        manager = next((one for one in self._managers.values() if number in one.challenges), None)
        message = None if manager is None else manager.challenges.answer(number, answers, problem)
        return [] if manager is None or message is None else self.say(manager, message)

    # -------------------------------------------------------- what happens, and time

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; what was due by `now` is done first."""
        effects = self._due(now)
        match happened:
            case LinkOpened():
                sent, not_found = self.opened(happened, now)
                effects += sent
                for manager in not_found:
                    self._lost(manager, now)
            case Received(link=link, data=data):
                effects += self._received(link, data, now)
            case LinkClosed(link=link):
                if (known := self._links.get(link)) is not None:
                    self._lost(known, now)
            case DialFailed(address=address):
                for manager in self.waiting_at(address):
                    manager.problem = ""
                    self._lost(manager, now)
        return self._finished(effects, now)

    def next_look(self) -> Instant | None:
        """Return the next moment at which there is something to do."""
        moments = [one for manager in self._managers.values() for one in (manager.due, manager.check_at)]
        moments += [one for known in self._types.values() for one in known.next_looks()]
        return min((one for one in moments if one is not None), default=None)

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        wake = self.next_look()
        return effects if wake is None else [*effects, WakeAt(Instant(max(wake, now)))]

    def _due(self, now: Instant) -> list[Effect]:
        """Do what is due: dial managers, compare epochs, leave the silent, ask again, forget keys."""
        effects: list[Effect] = []
        for manager in self._managers.values():
            if manager.due is not None and manager.due <= now:
                manager.due = None
                if manager.session is not None:
                    late = ManagerSilent("the manager took too long to welcome us")
                    effects += self._leave_manager(manager, late, now)
                    continue
                manager.is_dialling = False
                effects += self.dial(manager, now) if self._types_of(manager) else []
            elif manager.check_at is not None and manager.check_at <= now:
                effects += self._check(manager, now)
        for known in list(self._types.values()):
            known.ring.forget_before(now)
            if known.rights_until < now:
                effects += self._look_at_rights(known, now)
            if known.due is not None and known.due <= now:
                known.due = None
                manager = self.of(known.manager)
                is_silent = known.asked is not None and manager.is_ready
                effects += self._leave_silent(manager, now) if is_silent else self._ask(known, now)
        return effects

    def _check(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Compare epochs with the manager: a rekey that was lost would otherwise be noticed by nobody."""
        if manager.awaits_check:
            return self._leave_silent(manager, now)
        manager.check_at = seconds_after(now, self.settings.check_s)
        asking = [known for known in self._types_of(manager) if known.groups and known.asked is None]
        manager.awaits_check = bool(asking)
        return [effect for known in asking for effect in self.say(manager, known.held())]

    def _types_of(self, manager: ManagerLink) -> list[TypeKeys]:
        return [one for one in self._types.values() if one.manager == manager.principal]

    # -------------------------------------------------------- links to managers

    def _lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link; keys are kept, and every question is asked anew."""
        self.lost(manager, now)
        for known in self._types_of(manager):
            known.asked, known.due, known.joined_as = None, None, None
        self._writers_asked.clear()
        self._writers_told.clear()
        self.past.link_lost()

    def _leave_manager(self, manager: ManagerLink, problem: MaiaError, now: Instant) -> list[Effect]:
        """End a link whose other side is not to be believed."""
        fields = {"peer": str(manager.principal), "code": problem.code, "message": problem.message}
        event = "keys-forked" if isinstance(problem, EpochForked) else "refused"
        assert manager.session is not None  # noqa: S101 - something was received, or awaited, on it
        manager.problem = "" if isinstance(problem, ManagerSilent) else problem.code
        effects: list[Effect] = [
            Note(event, fields),
            Count("maia_keys_distrusted_total", labels={"code": problem.code}),
            *goodbye(manager.session.id, problem),
        ]
        self._lost(manager, now)
        return effects

    def _leave_silent(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """End a link on which no answer came."""
        return self._leave_manager(manager, ManagerSilent("the manager does not answer"), now)

    # -------------------------------------------------------- what we ask a manager

    def _ask(self, known: TypeKeys, now: Instant, *, at_once: bool = False) -> list[Effect]:
        """Ask for all keys of a type, unless an answer is awaited already."""
        manager = self.of(known.manager)
        if not manager.is_ready:
            is_idle = manager.is_idle and manager.due is None
            return self.dial(manager, now) if is_idle else []
        if known.asked is not None and not at_once:
            return []
        known.asked = next(self._numbers)
        known.due = seconds_after(now, self.settings.answer_s)
        head = None if known.head is None else epoch_to_bytes(known.head)
        return self.say(manager, JoinGroups(known.asked, *self._shown(manager, known), head))

    def _ask_page(self, manager: ManagerLink, known: TypeKeys, reading: PastReading) -> list[Effect]:
        """Ask for the next page of a reading of the past."""
        reading.number = next(self._numbers)
        span = int(reading.since), int(reading.until), reading.after or 0
        question = HistoryKeys(reading.number, *self._shown(manager, known), *span)
        return self.say(manager, question)

    def _shown(self, manager: ManagerLink, known: TypeKeys) -> tuple[list[bytes], list[bytes], bytes, bytes]:
        """Return what questions for keys show: versions, certificates, the key to seal answers to."""
        definitions = [definition_to_bytes(version.signed) for version in known.versions]
        certificates = [certificate_to_bytes(signed) for signed in self.settings.credentials]
        shown = manager.signed_key(self._key)
        return definitions, certificates, shown.key, shown.signature

    # -------------------------------------------------------- what a manager sends

    def _received(self, link: LinkId, data: bytes, now: Instant) -> list[Effect]:
        """Take one message on; a manager that breaks the rules is left."""
        manager = self._links.get(link)
        if manager is None or manager.session is None:
            return []
        try:
            effects, message = self.receive(manager.session, data, now)
            return [*effects, *self._answered(manager, manager.session, message, now)]
        except MaiaError as problem:
            return self._leave_manager(manager, problem, now)

    def _answered(
        self, manager: ManagerLink, session: Session, message: Message | Established | None, now: Instant
    ) -> list[Effect]:
        match message:
            case None:
                return []
            case Established():
                return self._welcomed(manager, now)
            case Bye(code=code):
                manager.problem = code
                self._lost(manager, now)
                return [Note("bye", {"peer": str(manager.principal), "code": code}), Close(session.id, code)]
            case _:
                return self._told(manager, message, now)

    def _welcomed(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        self.welcomed(manager, now)
        effects: list[Effect] = [Note("manager-connected", {"peer": str(manager.principal)})]
        for known in self._types_of(manager):
            known.asked = None
            effects += self._ask(known, now)
            if known.reading is not None:
                effects += self._ask_page(manager, known, known.reading)
        return effects

    def _told(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        """Take on what a manager says; if something was missed, ask again."""
        known: TypeKeys | None
        match message:
            case Accepted():
                return []
            case GroupKeys() | Rekey() | KeysHeld() | GroupsEnded() | Writer() | HistoryKeysReply():
                known = self._types.get(message.type_id)
            case Failed(id=number) | Challenge(ref=number):
                known = next((one for one in self._types.values() if one.is_asked_under(number)), None)
            case _:
                raise ProtocolViolation(
                    "PROTOCOL-MANAGER-MESSAGE", f"`{type(message).__name__}` is nothing that a manager says"
                )
        if known is None or known.manager != manager.principal:
            # It was on its way when the type was dropped; and a manager answers what it was asked itself.
            return []
        try:
            return self._heard(manager, known, message, now)
        except KeysMissed as problem:
            fields = {"type": known.type_id.hex(), "code": problem.code, "why": problem.message}
            missed = Count("maia_keys_missed_total")
            return [Note("keys-missed", fields), missed, *self._ask(known, now, at_once=True)]

    def _heard(self, manager: ManagerLink, known: TypeKeys, message: Message, now: Instant) -> list[Effect]:
        match message:
            case GroupKeys():
                return self._take(manager, known, message, now)
            case Rekey():
                return self._changed(known, now) if known.follow(message) else []
            case KeysHeld():
                manager.awaits_check = False
                known.compare(message)
            case GroupsEnded():
                return self._ended(known, message, now)
            case Failed():
                return self._failed(manager, known, message, now)
            case Challenge():
                return self._challenged(manager, known, message, now)
            case Writer():
                principal = Principal(message.principal)
                if (known.type_id, principal) in self._writers_asked:
                    self._writers_asked.pop((known.type_id, principal))
                    self._writers_told.put((known.type_id, principal), None)
                    shown = tuple(certificate_from_bytes(one) for one in message.credentials)
                    self._notices.append(WriterReceived(known.type_id, principal, shown))
            case HistoryKeysReply():
                return self._take_page(manager, known, message)
        return []

    def _take(self, manager: ManagerLink, known: TypeKeys, message: GroupKeys, now: Instant) -> list[Effect]:
        info = parcel_info(known.type_id, manager=manager.principal, member=self._key.principal)
        parcel = unpack(manager.secured.open(message.sealed, info))
        was_asked = known.asked is not None and message.id == known.asked
        was_suspended = known.is_suspended
        before = known.ring.newest, known.groups
        known.take(message, parcel, was_asked=was_asked)
        if was_asked:
            known.joined_as = known.asked
            known.asked, known.due, known.failures = None, None, 0
        elif was_suspended and known.asked is None:
            known.due = None
        known.rights_until = Instant(INSTANT_MAX if message.until is None else message.until)
        known.vouched_until = known.rights_until
        manager.failures = 0
        is_same = not was_asked and before == (known.ring.newest, known.groups)
        return [] if is_same else self._changed(known, now)  # the same keys for longer are no news

    def _changed(self, known: TypeKeys, now: Instant) -> list[Effect]:
        known.ring.forget_before(now)
        self._notices.append(KeysChanged(known.type_id))
        fields = {"type": known.type_id.hex(), "epoch": known.ring.newest, "groups": len(known.groups)}
        return [*known.keep_head(), Note("keys", fields), Count("maia_keys_followed_total")]

    def _ended(self, known: TypeKeys, message: GroupsEnded, now: Instant) -> list[Effect]:
        groups = [GroupId(known.type_id, None if uid is None else AttributeUid(uid)) for uid in message.uids]
        self._shut_out(known, groups)
        if not known.groups:
            known.due = self._next_chance(known, now)
            known.is_suspended = message.code == STATEMENT_AWAITED
            if not known.is_suspended:
                self._notices.append(KeysRefused(known.type_id, message.code, message.message))
        fields = {"type": known.type_id.hex(), "groups": len(groups), "code": message.code}
        return [Note("keys-ended", fields)]

    def _failed(self, manager: ManagerLink, known: TypeKeys, message: Failed, now: Instant) -> list[Effect]:
        """Take note that a manager lets us into no group, and when to ask again; or hands out no old keys."""
        why = manager.challenges.reason(message.id, message.code)
        if known.asked != message.id:
            if known.reading is not None and known.reading.number == message.id:
                known.reading.problem = why or Refusal(
                    "REFUSED-HISTORY-KEYS", f"{message.message} [{message.code}]"
                )
                self._end_reading(known, known.reading)
            return []
        known.asked, manager.failures = None, 0
        known.failures += 1
        known.is_suspended &= message.code == STATEMENT_AWAITED
        known.due = min(self.again(known.failures, now), self._next_chance(known, now))
        if message.code in (NoGroupOpen.code, STATEMENT_AWAITED) and known.groups:
            # It was put out, and the message that said so was lost.
            self._shut_out(known, known.groups)
        if not known.is_suspended:
            self._notices.append(KeysRefused(known.type_id, message.code, message.message))
        fields = {"type": known.type_id.hex(), "code": message.code, "message": message.message}
        return [Note("keys-refused", fields), Count("maia_keys_refused_total", labels={"code": message.code})]

    def _take_page(self, manager: ManagerLink, known: TypeKeys, message: HistoryKeysReply) -> list[Effect]:
        reading = known.reading
        if reading is None or reading.number != message.id:
            raise ProtocolViolation(
                "PROTOCOL-MANAGER-MESSAGE", "the manager answers a question for old keys that was not asked"
            )
        info = past_info(known.type_id, manager=manager.principal, reader=self._key.principal)
        try:
            reading.receive(message, unpack_past(manager.secured.open(message.sealed, info)))
        except MaiaError as problem:
            known.reading, reading.problem = None, problem
            raise
        if not reading.is_done:
            return self._ask_page(manager, known, reading)
        self._end_reading(known, reading)
        return []

    def _end_reading(self, known: TypeKeys, reading: PastReading) -> None:
        known.reading = None
        self.past.learn(reading)

    def _challenged(
        self, manager: ManagerLink, known: TypeKeys, message: Challenge, now: Instant
    ) -> list[Effect]:
        """Have one-time questions answered about what we have asked for, if they are ours to ask."""
        digest = keys_digest(
            member=self._key.principal,
            manager=manager.principal,
            type_id=known.type_id,
            session=manager.secured.public,
            is_past=message.ref not in (known.asked, known.joined_as),
        )
        own = {signed.id: signed for signed in self.settings.credentials}
        is_standing = known.joined_as == message.ref
        try:
            number = next(self._numbers)
            challenged = manager.challenges.open(number, message, digest, own.get, is_standing=is_standing)
        except QuestionNotOurs as problem:
            fields = {"peer": str(manager.principal), "code": problem.code}
            return [Note("refused", fields), *self.say(manager, Vouched(message.id, []))]
        if known.asked == message.ref:  # a manager that waits has the time that it waits, and its own
            wait_s = int(message.seconds) + self.settings.answer_s
            known.due = seconds_after(now, wait_s)
        self._notices.append(challenged)
        return []

    # -------------------------------------------------------- what our own certificates say

    def _rights(self, known: TypeKeys, now: Instant) -> MembershipState:
        """Return the groups of a type that are open to us, and until when that is so."""
        return standing(*self._claim(known, now), now)

    def _claim(self, known: TypeKeys, now: Instant) -> tuple[Claim, MemberGrounds]:
        """Return what our certificates claim of a type, and on which grounds we judge that ourselves."""
        settings, answers = self.settings, known.ring.answers
        # The manager asks for one-time answers, and has said until when they hold.
        vouched = VouchedFor.assumed(settings.credentials, now, known.vouched_until)
        claim = Claim(self._key.principal, known.versions, settings.credentials, vouched)
        uids = {said: uid for uid, said in answers.items()}
        grounds = MemberGrounds(
            known.level,
            settings.bounds,
            settings.constitutions,
            self._cache,
            self._standing,
            answers=AnsweredRights(answers, lambda said, _: uids.get(said)),  # as far as the manager has told
        )
        return claim, grounds

    def _next_chance(self, known: TypeKeys, now: Instant) -> Instant:
        """Return when our certificates next open something else than now, or a while later."""
        until = self._rights(known, now).until
        return min(just_after(until), seconds_after(now, self.settings.again_max_s))

    def _look_at_rights(self, known: TypeKeys, now: Instant) -> list[Effect]:
        """Destroy the keys to which our own certificates give no right any more, whoever can be reached."""
        found = self._rights(known, now)
        known.rights_until = found.until
        lost = known.groups - found.groups
        if not lost:
            return []
        self._shut_out(known, lost)
        if not known.groups:
            known.due = known.due if known.asked is not None else self._next_chance(known, now)
            known.is_suspended = awaits_statement(*self._claim(known, now), now)
            ended = "the right to the keys of this type has ended"
            if not known.is_suspended:
                self._notices.append(KeysRefused(known.type_id, "REFUSED-RIGHT-ENDED", ended))
        return [Note("keys-expired", {"type": known.type_id.hex(), "groups": len(lost)})]

    def _shut_out(self, known: TypeKeys, groups: Iterable[GroupId]) -> None:
        known.shut_out(groups)
        self._notices.append(KeysChanged(known.type_id))
