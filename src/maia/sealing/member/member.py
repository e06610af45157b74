"""How does a broker get the keys it needs, keep up with them, and lose them in time?

A broker embeds one `KeyMember` and hands it every input of a link that it
`owns`, each `DialFailed` of an address that it `dials`, and each `Tick`:

    member.need(versions, now)      -> effects: dial the type's manager, join its groups
    member.handle(happened, now)    -> effects: follow rekeys, ask again for what was lost
    member.ring(type_id)            -> the keys as they are now
    member.take_notices()           -> what has changed since this was last asked

While a manager cannot be reached the member goes on with what it holds. It
keeps no key on disk, only the newest signed epoch of each type, so that after
a restart it cannot be led back to an older one (A82). A right that ends
takes its keys with it, whether the manager can be reached or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from maia.credentials import (
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    VerificationCache,
    VerifiedConstitution,
)
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant, seconds_after
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.manager_links import ManagerLink, ManagerLinks, ManagerSilent
from maia.sealing.keys.epochs import EpochForked
from maia.sealing.keys.history import past_info, unpack_past
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.join import Joining, OwnRights
from maia.sealing.member.past_keys import MemberPast, MemberWriters
from maia.sealing.member.settings import MemberSettings, Notice, WriterReceived
from maia.sealing.member.types import NeededType, NeededTypes
from maia.sessions.challenges import QuestionNotOurs
from maia.sessions.session import Established, Session, Shutdown, goodbye
from maia.types import VerifiedType, strongest
from maia.validity import Monitor, named_testers
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
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    Accepted,
    Bye,
    Challenge,
    Failed,
    GroupKeys,
    GroupsEnded,
    HistoryKeysReply,
    KeysHeld,
    LeaveGroups,
    Message,
    Rekey,
    Vouched,
    WhoWrites,
    Writer,
)


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
        standing: Monitor | None = None,
    ) -> None:
        """Make a member that holds `key`; `kept` is what `Keep` stored before.

        `standing` says which of its certificates still count, and shows managers why.
        """
        self._key, self._settings = key, settings
        cache = VerificationCache() if cache is None else cache
        self._rights = rights = OwnRights(key.principal, settings, cache=cache, tester=standing)
        self._managers = ManagerLinks(
            settings, own=lambda: rights.pool, random=random, cache=cache, standing=standing
        )
        self._types = NeededTypes(kept or {})
        self._writers = MemberWriters(settings.writers_max)
        self._past = MemberPast()
        self._notices: list[Notice] = []
        self._numbers = count(1)
        self._joining = Joining(
            key, settings, self._managers, self._rights, numbers=self._numbers, notices=self._notices
        )

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
        """Return a publisher's certificates; None if they have not arrived yet."""
        return self._writers.get(type_id, principal)

    @property
    def past(self) -> MemberPast:
        """Return what was handed out of epochs that are over."""
        return self._past

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    def owns(self, link: LinkId) -> bool:
        """Say whether what happens on a link is for this member."""
        return self._managers.on(link) is not None

    def manager_of(self, type_id: bytes) -> ManagerLink | None:
        """Return the manager of a type that is needed, and how far the talk with it has come."""
        known = self._types.get(type_id)
        return None if known is None else self._managers.of(known.sealing.manager)

    def reach(self) -> list[tuple[Principal, bool, int]]:
        """Return which managers can be asked, and how often each was looked for in vain."""
        return [(one.principal, one.is_ready, one.failures) for one in self._managers.all()]

    def dials(self, address: str) -> bool:
        """Say whether this member waits for a link to an address."""
        return bool(self._managers.waiting_at(address))

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: epochs and groups, no keys."""
        return {
            "managers": {str(one.principal): one.stage for one in self._managers.all()},
            "types": {one.type_id.hex(): one.status() for one in self._types.all()},
        }

    # -------------------------------------------------------- what the broker needs

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
            known = self._types.begin(type_id, sealing, tuple(versions))
        known.sealing, known.versions = sealing, tuple(versions)
        manager = self._managers.of(sealing.manager)
        manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *self._settings.addresses)))
        return self._finished(self._joining.ask(known, now), now)

    def drop(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Need the keys of a type no more; they are destroyed."""
        known = self._types.drop(type_id)
        if known is None:
            return []
        self._past.forget(type_id)
        manager = self._managers.of(known.sealing.manager)
        return self._finished(self._managers.say(manager, LeaveGroups(type_id)), now)

    def leave(self) -> list[Effect]:
        """Say goodbye to every manager, as before the process ends; all keys are destroyed."""
        problem = Shutdown("this member is being stopped")
        effects = [one for link in self._managers.open_links() for one in goodbye(link, problem)]
        self._types.wipe()
        self._past.wipe()
        self._managers.clear()
        return effects

    def dial_again(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Look for a manager at once that would be looked for later; nothing if that was just done."""
        known = self._types.get(type_id)
        manager = None if known is None else self._managers.of(known.sealing.manager)
        dialled = [] if manager is None else self._managers.dial_again(manager, now)
        return self._finished(dialled, now) if dialled else []

    def missing(self, type_id: bytes, now: Instant) -> list[Effect]:
        """Ask again: something was sealed in an epoch that is not known here."""
        known = self._types.get(type_id)
        return [] if known is None else self._finished(self._joining.ask(known, now), now)

    def ask_past(self, type_id: bytes, epoch: int, now: Instant) -> list[Effect]:
        """Ask for the keys of an epoch that is over, and of those after it; `past` has them later."""
        known = self._types.get(type_id)
        if known is None or self._past.is_asking(type_id):
            return []
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return []
        shown = manager.signed_key(self._key)
        question = self._past.ask(next(self._numbers), epoch, known.versions, self._rights.pool, shown)
        return self._finished(self._managers.say(manager, question), now)

    def ask_writer(self, type_id: bytes, principal: Principal, now: Instant) -> list[Effect]:
        """Request a publisher's certificates from the manager; `WriterReceived` follows."""
        known = self._types.get(type_id)
        if known is None or self._writers.is_asking(type_id, principal):
            return []
        manager = self._managers.of(known.sealing.manager)
        if not manager.is_ready:
            return []
        self._writers.ask(type_id, principal)
        question = WhoWrites(next(self._numbers), type_id, principal.key)
        return self._finished(self._managers.say(manager, question), now)

    # -------------------------------------------------------- statements

    def credentials_changed(self, credentials: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Show other certificates from now on, as before old ones expire."""
        self._rights.pool = credentials
        asked = [one for known in self._types.all() for one in self._joining.ask(known, now)]
        return self._finished(asked, now)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Use these constitutions of quorums from now on."""
        self._managers.adopt(constitutions)
        self._rights.adopt(constitutions)

    def rights_changed(self, now: Instant) -> list[Effect]:
        """Look again at what our certificates open: one of them may count no more, or again."""
        looked = [one for known in self._types.all() for one in self._joining.look_at_rights(known, now)]
        return self._finished(looked, now)

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show managers what was heard of `by`, if certificates that we have shown them demand it.

        A manager that may not be part of the network any more is left.
        """
        effects: list[Effect] = []
        is_demanded = by in named_testers(self._rights.pool)
        for manager in [one for one in self._managers.all() if one.is_ready]:
            try:
                self._managers.check_not_revoked(manager, now)
            except MaiaError as problem:
                effects += self._leave_manager(manager, problem, now)
            else:
                effects += self._managers.show(manager, self._rights.pool, now) if is_demanded else []
        return effects

    def vouch(self, number: int, answers: Iterable[SignedStatement]) -> list[Effect]:
        """Bring a manager the answers that it waits for, as many as there are."""
        manager = next((one for one in self._managers.all() if number in one.challenges), None)
        message = None if manager is None else manager.challenges.answer(number, answers)
        return [] if manager is None or message is None else self._managers.say(manager, message)

    # -------------------------------------------------------- what happens, and time

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on; what was due by `now` is done first."""
        effects = self._due(now)
        match happened:
            case LinkOpened():
                sent, not_found = self._managers.opened(happened, now)
                effects += sent
                for manager in not_found:
                    self._lost(manager, now)
            case Received(link=link, data=data):
                effects += self._received(link, data, now)
            case LinkClosed(link=link):
                if (known := self._managers.on(link)) is not None:
                    self._lost(known, now)
            case DialFailed(address=address):
                for manager in self._managers.waiting_at(address):
                    manager.problem = ""
                    self._lost(manager, now)
            case Tick():
                pass  # what was due has been done
        return self._finished(effects, now)

    def next_look(self) -> Instant | None:
        """Return the next moment at which there is something to do."""
        moments: list[Instant | None] = []
        for manager in self._managers.all():
            moments += [manager.due, manager.check_at]
        for known in self._types.all():
            moments += known.next_looks()
        return min((one for one in moments if one is not None), default=None)

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        wake = self.next_look()
        return effects if wake is None else [*effects, WakeAt(Instant(max(wake, now)))]

    def _due(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        for manager in self._managers.all():
            effects += self._due_of_manager(manager, now)
        for known in self._types.all():
            effects += self._due_of_type(known, now)
        return effects

    def _due_of_type(self, known: NeededType, now: Instant) -> list[Effect]:
        known.keys.forget_before(now)
        effects: list[Effect] = []
        if known.rights_until < now:
            effects += self._joining.look_at_rights(known, now)
        if known.due is not None and known.due <= now:
            known.due = None
            manager = self._managers.of(known.sealing.manager)
            if known.asked is not None and manager.is_ready:
                return [*effects, *self._leave_silent(manager, now)]
            effects += self._joining.ask(known, now)
        return effects

    # -------------------------------------------------------- links to managers

    def _lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link; keys are kept, and every question is asked anew."""
        self._managers.lost(manager, now)
        for known in self._types.of(manager.principal):
            known.asked, known.due, known.joined_as = None, None, None
        self._writers.link_lost()
        self._past.link_lost()

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

    # -------------------------------------------------------- what a manager sends

    def _received(self, link: LinkId, data: bytes, now: Instant) -> list[Effect]:
        """Take one message on; a manager that breaks the rules is left."""
        manager = self._managers.on(link)
        if manager is None or manager.session is None:
            return []
        try:
            effects, message = self._managers.receive(manager.session, data, now)
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
        self._managers.welcomed(manager, now)
        effects: list[Effect] = [Note("manager-connected", {"peer": str(manager.principal)})]
        for known in self._types.of(manager.principal):
            known.asked = None
            effects += self._joining.ask(known, now)
        return effects

    def _told(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        if self._is_anothers(manager, message):
            return []  # a manager answers what it was asked itself, and nothing for others
        match message:
            case Accepted():
                return []
            case GroupKeys() | Rekey() | KeysHeld() | GroupsEnded():
                known = self._types.get(message.type_id)
                if known is None or known.sealing.manager != manager.principal:
                    return []  # it was on its way when the type was dropped
                return self._joining.hear(manager, known, message, now)
            case Failed():
                return self._failed(message, now)
            case Writer():
                if self._writers.tell(message):
                    self._notices.append(WriterReceived(message.type_id, Principal(message.principal)))
                return []
            case HistoryKeysReply():
                info = past_info(message.type_id, manager=manager.principal, reader=self._key.principal)
                self._past.receive(message, unpack_past(manager.secured.open(message.sealed, info)))
                return []
            case Challenge():
                return self._challenged(manager, message, now)
        raise ProtocolViolation(f"`{type(message).__name__}` is nothing that a manager says")

    def _is_anothers(self, manager: ManagerLink, message: Message) -> bool:
        """Say whether a message is about a type that another manager looks after."""
        match message:
            case Writer(type_id=type_id) | HistoryKeysReply(type_id=type_id):
                known = self._types.get(type_id)
            case Failed(id=number) | Challenge(ref=number):
                past = self._past.asked_under(number)
                known = self._types.asked_under(number) or self._types.joined_under(number)
                known = known if past is None else self._types.get(past)
            case _:
                return False
        return known is not None and known.sealing.manager != manager.principal

    def _failed(self, message: Failed, now: Instant) -> list[Effect]:
        known = self._types.asked_under(message.id)
        if known is not None:
            return self._joining.refused(known, message, now)
        self._past.refused(message.id)
        return []

    # -------------------------------------------------------- what has to be vouched for

    def _challenged(self, manager: ManagerLink, message: Challenge, now: Instant) -> list[Effect]:
        """Have one-time questions answered about what we have asked for, if they are ours to ask."""
        known = self._types.asked_under(message.ref) or self._types.joined_under(message.ref)
        past = None if known is not None else self._past.asked_under(message.ref)
        if known is None and past is None:
            return []  # it was dropped meanwhile, or is asked for anew
        is_standing = known is not None and known.joined_as == message.ref
        type_id = known.type_id if known is not None else past or b""
        try:
            challenged = manager.challenged(
                next(self._numbers),
                message,
                member=self._key.principal,
                type_id=type_id,
                own=self._rights.pool,
                is_past=known is None,
                is_standing=is_standing,
            )
        except QuestionNotOurs as problem:
            fields = {"peer": str(manager.principal), "code": problem.code}
            return [Note("refused", fields), *self._managers.say(manager, Vouched(message.id, []))]
        if known is not None:
            self._joining.challenged(known, message, now)
        self._notices.append(challenged)
        return []

    # -------------------------------------------------------- statements, and time

    def _due_of_manager(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Do what is due about one manager: dial it, compare epochs with it, or leave it."""
        if manager.due is not None and manager.due <= now:
            manager.due = None
            if manager.session is None:
                manager.is_dialling = False
                return self._managers.dial(manager, now) if self._types.of(manager.principal) else []
            return self._leave_manager(manager, ManagerSilent("the manager took too long to welcome us"), now)
        if manager.check_at is not None and manager.check_at <= now:
            return self._check(manager, now)
        return []

    def _check(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Compare epochs with the manager: a rekey that was lost would otherwise be noticed by nobody."""
        if manager.awaits_check:
            return self._leave_silent(manager, now)
        manager.check_at = seconds_after(now, self._settings.check_s)
        types = self._types.of(manager.principal)
        asking = [known for known in types if known.keys.groups and known.asked is None]
        manager.awaits_check = bool(asking)
        return [effect for known in asking for effect in self._managers.say(manager, known.keys.held())]
