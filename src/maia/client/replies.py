"""What does an answer of the broker change, and what is said in return?

An answer has the number of its question. Most become notices to the
application; some mean that the same is to be asked for again, now or later;
and a message that no client receives is a broker's mistake.
"""

from __future__ import annotations

from typing import Final

from maia.client.authors import AuthorReader
from maia.client.deliveries import what_arrived
from maia.client.entries import Advertised, EntryStage, RequestEntry, Subscribed
from maia.client.errors import (
    CANNOT_SEAL,
    ElsewhereServed,
    QuestionNotOurs,
    WrongBroker,
    is_passing,
    told_by_broker,
)
from maia.client.notices import (
    Accepted,
    Acknowledged,
    Changed,
    CredentialsAdded,
    Ended,
    PutOff,
    StateKnown,
    TypeReceived,
    Warned,
)
from maia.client.renewal import AWAITED, Renewing, Wanted
from maia.client.wallet import Wallet
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request, request_digest
from maia.wire.codec import encode
from maia.wire.messages import Accepted as AcceptedMessage
from maia.wire.messages import (
    AskState,
    Challenge,
    Deliver,
    DeliverLogged,
    Failed,
    Message,
    Published,
    Seen,
    ServedElsewhere,
    StateTold,
    TypeReply,
)
from maia.wire.messages import Changed as ChangedMessage
from maia.wire.messages import Ended as EndedMessage
from maia.wire.messages import Missed as MissedMessage
from maia.wire.messages import Warned as WarnedMessage

_TYPE_UNKNOWN: Final = "TYPE-UNKNOWN"
_ASK_AGAIN: Final = frozenset({"UNAVAILABLE-LEASE-ENDED", "INPUT-UNKNOWN-REF", "POLICY-STALE"})
"""Why something ended that the client still wants: it asks for it again at once."""
_AWAITED_TIMES: Final = 32
_AWAITED_QUIETLY: Final = 2
"""A statement that has not arrived when it is asked for so many times, after a second, is news."""


class Answering:
    """The answers that one client has received, and those that it waits for."""

    def __init__(
        self, wanted: Wanted, renewing: Renewing, principal: Principal, wallet: Wallet, authors: AuthorReader
    ) -> None:
        """Wait for nothing yet."""
        self._authors = authors
        self._wanted, self._renewing, self._principal, self._wallet = wanted, renewing, principal, wallet
        self._notices = wanted.notices
        self.questions: dict[int, bytes] = {}
        """Which types were asked about, by the number of the question."""
        self.showings: set[int] = set()
        """What was shown to the broker and not answered for yet."""

    def told(self, message: Message, now: Instant) -> list[bytes]:  # noqa: PLR0912 - a case for each
        """Handle an answer; refuse a message that no client receives."""
        match message:
            case Deliver() | DeliverLogged() | MissedMessage():
                arrived = what_arrived(message, self._wanted.entries, self._authors)
                self._notices += [] if arrived is None else [arrived]
            case Published(ref=ref, sequence=sequence, refused_rows=refused_rows):
                self._taken(ref, sequence, refused_rows)
            case AcceptedMessage(id=number, until=until):
                return self._accepted(number, until)
            case Failed(id=number, code=code, message=sentence):
                return self._failed(number, told_by_broker(code, self._with_names(number, sentence)), now)
            case EndedMessage(refs=refs, code=code, message=sentence):
                # A problem for each: it may be raised to several callers, and grows a trace of each.
                ended = [self._ended(ref, told_by_broker(code, sentence), now) for ref in refs]
                return [data for some in ended for data in some]
            case ChangedMessage(ref=ref, until=until, code=code, message=sentence):
                self._changed(ref, until, told_by_broker(code, sentence))
            case WarnedMessage(ref=ref, code=code, message=sentence):
                self._warned(ref, None if code is None else told_by_broker(code, sentence))
            case Challenge():
                return self._challenged(message)
            case ServedElsewhere(id=number, address=address):
                self._sent_elsewhere(number, ElsewhereServed(address))
            case StateTold(id=number, is_whole=is_whole):
                self._take_end_of_state(number, is_whole=is_whole)
            case TypeReply(id=number, definitions=definitions):
                if self.questions.pop(number, None) is not None:
                    self._notices.append(TypeReceived(number, tuple(definitions)))
            case _:
                raise WrongBroker(f"`{type(message).__name__}` is no message to a client")
        return []

    def link_lost(self) -> None:
        """Take what was shown for shown: the next requests show it again."""
        self._notices += [CredentialsAdded(number) for number in sorted(self.showings)]
        self.showings.clear()

    # -------------------------------------------------------- frames

    def _taken(self, ref: int, sequence: int, refused_rows: int) -> None:
        entry = self._wanted.entries.get(ref)
        if not isinstance(entry, Advertised):
            return
        under_way = entry.under_way
        while under_way and (first := next(iter(under_way))) <= sequence:
            self._wanted.bytes_under_way -= len(under_way.pop(first))
        self._notices.append(Acknowledged(ref, sequence, refused_rows))

    # -------------------------------------------------------- yes

    def _accepted(self, number: int, until: int | None) -> list[bytes]:
        if self._wanted.take_answer(number) or self._renewing.end_renewal(number):
            return []
        if number in self.showings:
            self.showings.discard(number)
            self._notices.append(CredentialsAdded(number))
            return []
        entry = self._wanted.find(number)
        return [] if entry is None else self._stands(entry, until)

    def _stands(self, entry: RequestEntry, until: int | None) -> list[bytes]:
        """Take an entry for standing; return what is said when it did not before."""
        stood = entry.stage is EntryStage.ACCEPTED
        entry.stage, entry.was_accepted, entry.is_renewing = EntryStage.ACCEPTED, True, False
        entry.hands_over, entry.failures, entry.problem = False, 0, None
        self._wanted.alarms.forget(entry.ref)
        if stood:
            return []
        if entry.is_warned:
            self._warned(entry.ref, None)  # a broker that cannot serve it says so again
        self._notices.append(Accepted(entry.ref, None if until is None else Instant(until)))
        if entry.limit is not None:
            self._changed(entry.ref, until, entry.limit)
        if isinstance(entry, Subscribed):
            # Ask for the present state, if it is wanted; say again what the last link may have lost.
            if entry.wants_state:
                entry.state_asked = self._wanted.next_number()
                return [encode(AskState(entry.state_asked, entry.ref))]
            return [] if entry.acknowledged is None else [encode(Seen(entry.ref, entry.acknowledged))]
        # What the last broker did not answer for goes out again under its old numbers.
        return list(entry.under_way.values()) if isinstance(entry, Advertised) else []

    def _take_end_of_state(self, number: int, *, is_whole: bool) -> bool:
        """Take note that the state has arrived; say whether it was asked for."""
        for entry in self._wanted.entries.values():
            if isinstance(entry, Subscribed) and entry.state_asked == number:
                entry.state_asked = None
                self._notices.append(StateKnown(entry.ref, is_whole))
                return True
        return False

    # -------------------------------------------------------- no

    def _failed(self, number: int, problem: MaiaError, now: Instant) -> list[bytes]:
        if self._wanted.take_answer(number):  # it had ended by itself
            return []
        if self._renewing.end_renewal(number):
            return self._renewing.renewal_failed(problem, now)
        if number in self.showings:
            self.showings.discard(number)
            self._notices.append(Ended(number, problem))
            return []
        if self._take_end_of_state(number, is_whole=False):
            return []
        if self.questions.pop(number, None) is not None:
            self._notices.append(Ended(number, problem))
            return []
        entry = self._wanted.find(number)
        return [] if entry is None else self._refused(entry, problem, now)

    def _with_names(self, number: int, sentence: str) -> str:
        """Return a refusal with names of attributes: a broker does not say which uids have one (A52)."""
        entry = self._wanted.find(number)
        for one in () if entry is None else entry.known.event_type.attributes:
            sentence = sentence.replace(f"attribute {one.uid})", f"attribute {one.name})")
        return sentence

    def _sent_elsewhere(self, number: int, problem: ElsewhereServed) -> None:
        """Have the application ask another process of the broker."""
        entry = self._wanted.find(number)
        if entry is not None:
            self._wanted.give_up(entry, problem)
        elif self.questions.pop(number, None) is not None:
            self._notices.append(Ended(number, problem))

    def _refused(self, entry: RequestEntry, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask otherwise, ask later, or give an entry up."""
        problem = self._wanted.challenges.reason(entry.ref, problem.code) or problem
        if problem.code == _TYPE_UNKNOWN and not entry.hands_over:
            entry.hands_over = True
            renewing = self._renewing
            return renewing.renew(entry, now) if entry.is_renewing else renewing.ask(entry, now)
        is_awaited = problem.code == AWAITED and entry.failures < _AWAITED_TIMES
        if is_awaited or (is_passing(problem.code) and entry.was_accepted):
            return self._put_off(entry, problem, now)
        stood = entry.stage is EntryStage.ACCEPTED
        self._wanted.give_up(entry, problem)
        return [self._wanted.withdrawal(entry)] if stood else []

    def _ended(self, ref: int, problem: MaiaError, now: Instant) -> list[bytes]:
        entry = self._wanted.find(ref)
        if entry is None:
            return []
        problem = self._wanted.challenges.reason(ref, problem.code) or problem
        if problem.code in CANNOT_SEAL:
            entry.is_renewing = False  # what was to be renewed has ended
            return self._put_off(entry, problem, now)
        if problem.code in _ASK_AGAIN or is_passing(problem.code):
            # Frames that were on their way when it ended are answered like this too; one request is enough.
            return [] if entry.stage is EntryStage.ASKED else self._renewing.ask(entry, now)
        self._wanted.give_up(entry, problem)
        return []

    def _put_off(self, entry: RequestEntry, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask again in a while, and tell the application why."""
        entry.problem = problem
        self._renewing.ask_later(entry, now)
        is_late = problem.code != AWAITED or entry.failures >= _AWAITED_QUIETLY
        # What is only to be renewed is served until its lease ends.
        if problem.code in CANNOT_SEAL or (is_late and not entry.is_renewing):
            self._notices.append(PutOff(entry.ref, problem))
        return []

    def _warned(self, ref: int, problem: MaiaError | None) -> None:
        entry = self._wanted.entries.get(ref)
        if entry is not None:
            entry.is_warned = problem is not None
            self._notices.append(Warned(ref, problem))

    def _changed(self, ref: int, until: int | None, problem: MaiaError) -> None:
        if ref in self._wanted.entries:
            self._notices.append(Changed(ref, None if until is None else Instant(until), problem))

    # -------------------------------------------------------- not yet

    def _challenged(self, message: Challenge) -> list[bytes]:
        """Have the application get the answers; what is not ours to ask for is not answered."""
        wanted = self._wanted
        entry = wanted.find(message.ref)
        if entry is None:
            return []  # the broker forgets it, as soon as it receives that
        version = entry.known.event_type
        asked = Request(self._principal, entry.action, version.name, version, entry.filter)
        is_standing = entry.stage is EntryStage.ACCEPTED or entry.was_accepted
        number, digest, find = wanted.next_number(), request_digest(asked), self._wallet.find
        try:
            self._notices.append(
                wanted.challenges.open(number, message, digest, find, is_standing=is_standing)
            )
        except QuestionNotOurs as problem:
            wanted.give_up(entry, problem)
            return [wanted.withdrawal(entry)]
        return []
