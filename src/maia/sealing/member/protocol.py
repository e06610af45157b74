"""What does a manager say to us, and what is done about it?

A member hands every input of its links to this. What a manager says counts
from the moment it has welcomed us, and a manager that is not to be believed,
or does not answer, is left: the keys stay, and every question is asked anew
on the next link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from maia.credentials import Principal, SignedStatement, SigningKey
from maia.credentials import ValidityState as Statements
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant
from maia.sealing.groups.manager_links import LinkStage, ManagerLink, ManagerLinks, ManagerSilent, later
from maia.sealing.keys.epochs import EpochForked
from maia.sealing.keys.history import past_info, unpack_past
from maia.sealing.member.join import Joining
from maia.sealing.member.notices import Notice, WriterTold
from maia.sealing.member.one_time import MemberVouching
from maia.sealing.member.past_keys import MemberPast
from maia.sealing.member.publishers import MemberWriters
from maia.sealing.member.rights import OwnRights
from maia.sealing.member.types import NeededTypes
from maia.wire.codec import decode, encode
from maia.wire.effects import Close, Count, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.messages import (
    Accepted,
    Bye,
    Challenge,
    Failed,
    Greeting,
    GroupKeys,
    GroupsEnded,
    HistoryKeysReply,
    KeysHeld,
    Message,
    Ping,
    Pong,
    Rekey,
    Show,
    Vouched,
    Welcome,
    Writer,
)
from maia.wire.one_time_questions import QuestionNotOurs

__all__ = ["ManagerTalk"]


@dataclass(frozen=True, slots=True)
class ManagerTalk:
    """The talk of one member with its managers; what it holds is shared with the member."""

    key: SigningKey
    managers: ManagerLinks
    types: NeededTypes
    joining: Joining
    rights: OwnRights
    writers: MemberWriters
    past: MemberPast
    vouching: MemberVouching
    notices: list[Notice]
    check_s: int
    """How often epochs are compared with a manager's."""

    # -------------------------------------------------------- links

    def opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        """Take a connection on, if one of the managers that we look for is there."""
        effects, not_found = self.managers.opened(opened, now)
        for manager in not_found:
            self._lost(manager, now)
        return effects

    def closed(self, link: LinkId, now: Instant) -> None:
        """Go on without a link."""
        manager = self.managers.on(link)
        if manager is not None:
            self._lost(manager, now)

    def not_found(self, address: str, now: Instant) -> None:
        """Look for the managers elsewhere that were looked for at an address."""
        for manager in self.managers.waiting_at(address):
            manager.problem = ""
            self._lost(manager, now)

    def _lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link; keys are kept, and every question is asked anew."""
        self.managers.lost(manager, now)
        for known in self.types.of(manager.principal):
            known.asked, known.due, known.joined_as = None, None, None
        self.vouching.forget(manager.principal)
        self.writers.link_lost()
        self.past.link_lost()

    def leave(self, manager: ManagerLink, problem: MaiaError, now: Instant) -> list[Effect]:
        """End a link whose other side is not to be believed."""
        fields = {"peer": str(manager.principal), "code": problem.code, "message": problem.message}
        event = "keys-forked" if isinstance(problem, EpochForked) else "refused"
        assert manager.link is not None  # noqa: S101 - a message came, or is awaited, on it
        manager.problem = "" if isinstance(problem, ManagerSilent) else problem.code
        effects: list[Effect] = [
            Note(event, fields),
            Count("maia_keys_distrusted_total", labels={"code": problem.code}),
            Send(manager.link, encode(Bye(problem.code, problem.message))),
            Close(manager.link, problem.code),
        ]
        self._lost(manager, now)
        return effects

    def leave_silent(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """End a link on which no answer came."""
        return self.leave(manager, ManagerSilent("the manager does not answer"), now)

    # -------------------------------------------------------- what is said

    def received(self, link: LinkId, data: bytes, now: Instant) -> list[Effect]:
        """Take one message on; a manager that breaks the rules is left."""
        manager = self.managers.on(link)
        if manager is None:
            return []
        try:
            return self._answered(manager, decode(data), now)
        except MaiaError as problem:
            return self.leave(manager, problem, now)

    def _answered(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        match manager.stage, message:
            case _, Bye(code=code):
                closed = [] if manager.link is None else [Close(manager.link, code)]
                manager.problem = code
                self._lost(manager, now)
                return [Note("bye", {"peer": str(manager.principal), "code": code}), *closed]
            case LinkStage.AWAITING_GREETING, Show():
                self.managers.shown(manager, message)
                return []
            case LinkStage.AWAITING_GREETING, Greeting():
                return self.managers.greeted(manager, message, self.rights.pool, now)
            case LinkStage.AWAITING_WELCOME, Welcome():
                return self._welcomed(manager, now)
            case LinkStage.READY, _:
                return self._told(manager, message, now)
        raise ProtocolViolation(f"`{type(message).__name__}` was not expected from a manager at this point")

    def _welcomed(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        self.managers.welcomed(manager, now)
        effects: list[Effect] = [Note("manager-connected", {"peer": str(manager.principal)})]
        for known in self.types.of(manager.principal):
            known.asked = None
            effects += self.joining.ask(known, now)
        return effects

    def _told(self, manager: ManagerLink, message: Message, now: Instant) -> list[Effect]:
        if self._is_anothers(manager, message):
            return []  # a manager answers what it was asked itself, and nothing for others
        match message:
            case Ping(nonce=nonce):
                return self.managers.say(manager, Pong(nonce))
            case Pong() | Accepted():
                return []
            case GroupKeys() | Rekey() | KeysHeld() | GroupsEnded():
                known = self.types.get(message.type_id)
                if known is None or known.sealing.manager != manager.principal:
                    return []  # it was on its way when the type was dropped
                return self.joining.hear(manager, known, message, now)
            case Failed():
                return self._failed(message, now)
            case Writer():
                return self._told_writer(message)
            case HistoryKeysReply():
                return self._told_past(manager, message)
            case Challenge():
                return self._challenged(manager, message, now)
        raise ProtocolViolation(f"`{type(message).__name__}` is nothing that a manager says")

    def _is_anothers(self, manager: ManagerLink, message: Message) -> bool:
        """Say whether a message is about a type that another manager looks after."""
        match message:
            case Writer(type_id=type_id) | HistoryKeysReply(type_id=type_id):
                known = self.types.get(type_id)
            case Failed(id=number) | Challenge(ref=number):
                past = self.past.asked_under(number)
                known = self.types.asked_under(number) or self.types.joined_under(number)
                known = known if past is None else self.types.get(past)
            case _:
                return False
        return known is not None and known.sealing.manager != manager.principal

    def _failed(self, message: Failed, now: Instant) -> list[Effect]:
        known = self.types.asked_under(message.id)
        if known is not None:
            return self.joining.refused(known, message, now)
        self.past.refused(message.id)
        return []

    def _told_writer(self, message: Writer) -> list[Effect]:
        if self.writers.tell(message):
            self.notices.append(WriterTold(message.type_id, Principal(message.principal)))
        return []

    def _told_past(self, manager: ManagerLink, message: HistoryKeysReply) -> list[Effect]:
        info = past_info(message.type_id, manager=manager.principal, reader=self.key.principal)
        self.past.receive(message, unpack_past(manager.secured.open(message.sealed, info)))
        return []

    # -------------------------------------------------------- one-time tests

    def _challenged(self, manager: ManagerLink, message: Challenge, now: Instant) -> list[Effect]:
        """Have one-time questions answered about what we have asked for, if they are ours to ask."""
        known = self.types.asked_under(message.ref) or self.types.joined_under(message.ref)
        past = None if known is not None else self.past.asked_under(message.ref)
        if known is None and past is None:
            return []  # it was dropped meanwhile, or is asked for anew
        is_standing = known is not None and known.joined_as == message.ref
        type_id = known.type_id if known is not None else past or b""
        try:
            challenged = self.vouching.challenged(
                manager,
                message,
                type_id=type_id,
                is_past=known is None,
                is_standing=is_standing,
                own=self.rights.pool,
            )
        except QuestionNotOurs as problem:
            fields = {"peer": str(manager.principal), "code": problem.code}
            return [Note("refused", fields), *self.managers.say(manager, Vouched(message.id, []))]
        if known is not None:
            self.joining.challenged(known, message, now)
        self.notices.append(challenged)
        return []

    def vouch(self, number: int, answers: Iterable[SignedStatement]) -> list[Effect]:
        """Bring a manager the answers that it waits for, as many as there are."""
        principal = self.vouching.manager_of(number)
        if principal is None:
            return []
        manager = self.managers.of(principal)
        message = self.vouching.answer(number, answers, manager)
        return [] if message is None else self.managers.say(manager, message)

    # -------------------------------------------------------- statements, and time

    def statement_heard(self, by: Principal, now: Instant) -> list[Effect]:
        """Show managers the statements of `by`, if certificates that we have shown them demand it.

        A manager that may not be part of the network any more is left.
        """
        effects: list[Effect] = []
        is_demanded = by in Statements.testers(self.rights.pool)
        for manager in [one for one in self.managers.all() if one.is_ready]:
            try:
                self.managers.check_not_revoked(manager, now)
            except MaiaError as problem:
                effects += self.leave(manager, problem, now)
            else:
                effects += self.managers.show(manager, self.rights.pool, now) if is_demanded else []
        return effects

    def due(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Do what is due about one manager: dial it, compare epochs with it, or leave it."""
        if manager.due is not None and manager.due <= now:
            manager.due = None
            if manager.stage in (LinkStage.IDLE, LinkStage.DIALLING):
                return self.managers.dial(manager, now) if self.types.of(manager.principal) else []
            return self.leave(manager, ManagerSilent("the manager took too long to welcome us"), now)
        if manager.check_at is not None and manager.check_at <= now:
            return self._check(manager, now)
        return []

    def _check(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Compare epochs with the manager: a lost rekey would otherwise go unnoticed."""
        if manager.awaits_check:
            return self.leave_silent(manager, now)
        manager.check_at = later(now, self.check_s)
        types = self.types.of(manager.principal)
        asking = [known for known in types if known.keys.groups and known.asked is None]
        manager.awaits_check = bool(asking)
        return [effect for known in asking for effect in self.managers.say(manager, known.keys.held())]
