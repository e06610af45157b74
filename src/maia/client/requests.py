"""Which requests of this client has the broker accepted, which are pending, and which are to be repeated?

Requests outlive links. Each is signed anew whenever it is made; all that are accepted are renewed in one
message well before their lease ends. One is asked for by itself where other certificates speak for it now,
where broker and client do not agree on what is accepted, and where it could not be had before. An answer has
the number of its question: most become notices to the application, some mean that the same is asked for
again, now or later, and a message that no client receives is a broker's mistake.

Before a broker is handed anything of a type (a filter, a certificate, an event) it shows that it holds the
right itself, unless the coordinator lets it serve whoever comes (C16, A107). That is asked once for each type
and link, and what is wanted waits for the answer.

Nothing here knows a link: messages to be sent are returned, and the session sends them if it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Literal, TypeAlias

from maia.back_off import doubled
from maia.client import notices
from maia.client.alarms import RENEWAL, Alarms
from maia.client.authors import AuthorReader
from maia.client.deliveries import what_arrived
from maia.client.entries import Advertised, EntryStage, RequestEntry, Subscribed, message_asking_for
from maia.client.errors import (
    CANNOT_SEAL,
    KEY_SERVER_AWAY,
    ElsewhereServed,
    QuestionNotOurs,
    is_passing,
    told_by_broker,
)
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import Action, Principal, SignedStatement, SigningKey
from maia.credentials.requirements import requirement_to_bytes
from maia.errors import MaiaError, ProtocolViolation
from maia.events import Instant, seconds_after
from maia.policy import Request, request_digest
from maia.policy.view import attributes_told
from maia.predicates import Predicate
from maia.sealing.frames.authorship import SEED_BYTES, Publishing, sign_as_author
from maia.sessions.admission import no_right
from maia.sessions.challenges import CONNECTION, OwnChallenges
from maia.types.verified import is_for_all
from maia.wire import messages
from maia.wire.codec import encode, encode_known
from maia.wire.columns import columns_to_frame, frame_label
from maia.wire.names import type_from_bytes, type_to_bytes
from maia.wire.requests import digest_of_request, digest_of_standing

_TYPE_UNKNOWN: Final = "TYPE-UNKNOWN"
_UNKNOWN_REF: Final = "INPUT-UNKNOWN-REF"
_ASK_AGAIN: Final = frozenset({"UNAVAILABLE-LEASE-ENDED", _UNKNOWN_REF, "POLICY-STALE"})
"""Why something ended that the client still wants: it asks for it again at once."""
_AWAITED: Final = "UNAVAILABLE-STATEMENT-AWAITED"
"""The broker waits for a validity statement about the certificates, which may arrive in a moment."""
_AWAITED_QUIETLY: Final = 2
"""A statement that has not arrived when it is asked for so many times, after a second, is news."""
_AWAITED_MOST_S: Final = 2.0
_NO_RIGHT: Final = "BROKER-HAS-NO-RIGHT"
_RIGHT_TIMES: Final = 3
"""How often a broker that has no right to a type is asked again, within some four seconds."""
_QUOTA: Final = "UNAVAILABLE-REQUEST-QUOTA"
_AT_THE_BROKER: Final = frozenset({EntryStage.ASKED, EntryStage.ACCEPTED})
"""Entries that the broker knows by the time it receives the next message."""
_Question: TypeAlias = (
    messages.Withdraw
    | messages.RenewAll
    | messages.Show
    | messages.Identify
    | messages.AskState
    | messages.AskRight
    | messages.TypeQuery
)
"""What is asked beside requests, and answered under its own number."""
_About: TypeAlias = tuple[Literal["publish", "subscribe"], bytes]
"""An action and the name of a type, as a broker is asked for its own right."""


class Requests:
    """The advertisements, subscriptions and questions of one client."""

    def __init__(
        self,
        key: SigningKey,
        settings: ClientSettings,
        wallet: Wallet,
        alarms: Alarms,
        random: Callable[[int], bytes],
    ) -> None:
        """Ask as the holder of `key`, with what `wallet` holds."""
        self._key, self._settings, self._random = key, settings, random
        self._wallet, self._alarms = wallet, alarms
        self._challenges, self._authors = OwnChallenges(), AuthorReader(settings.trust)
        self._entries: dict[int, RequestEntry] = {}
        self._asked: dict[int, _Question] = {}
        self._numbers = count(1)
        self.bytes_under_way = 0
        self._is_ready = False
        self._broker, self._is_open = key.principal, False
        self._entitled: set[_About] = set()
        """What the present broker has shown that it may do itself."""
        self.lease_s = 0
        """How long the present broker lets things stand that are not renewed."""
        self.notices: list[notices.Notice] = []
        """What the application has not taken yet, oldest first; always this very list."""

    def next_number(self) -> int:
        """Return a number that this client has not used."""
        return next(self._numbers)

    def find(self, ref: int) -> RequestEntry | None:
        """Return what is called `ref`, unless the application does not want it any more."""
        entry = self._entries.get(ref)
        return None if entry is None or entry.stage is EntryStage.WITHDRAWING else entry

    # -------------------------------------------------------- what the application wants

    def add(self, entry: RequestEntry, now: Instant) -> list[bytes]:
        """Want something from now on; raise, and want nothing, if no credential speaks for it."""
        asking = self._message_for(entry, now)
        self._entries[entry.ref] = entry
        if not self._is_ready:
            return []
        first = self._ask_broker_first(entry)
        if first is not None:
            return first
        entry.stage = EntryStage.ASKED
        return [asking]

    def withdraw(self, entry: RequestEntry, *, forget: bool = False) -> list[bytes]:
        """Want something no longer; `forget` takes a durable subscription's cursor along."""
        if self.find(entry.ref) is None:
            return []
        if not self._is_ready or entry.stage is EntryStage.WAITING:
            self._end_withdrawal(entry.ref)
            return []
        entry.stage = EntryStage.WITHDRAWING
        return self._withdrawal(entry, forget=forget)

    def ask_for_type(self, question: messages.TypeQuery) -> list[bytes]:
        """Want to know a type, from the next broker if there is none now."""
        asking = self._question(question)
        return asking if self._is_ready else []

    def show(self, shown: messages.Show | messages.Identify) -> list[bytes]:
        """Show the broker what the client holds now; without a link, the next requests show it."""
        if self._is_ready:
            return self._question(shown)
        self.notices.append(notices.CredentialsAdded(shown.id))
        return []

    def acknowledge(self, entry: Subscribed, position: bytes) -> list[bytes]:
        """Say that the application has had everything up to a position, if that is news."""
        if entry.durable is None or position == entry.acknowledged or entry.ref not in self._entries:
            return []
        entry.acknowledged = position
        return [encode(messages.Seen(entry.ref, position))] if entry.stage is EntryStage.ACCEPTED else []

    def _question(self, question: _Question) -> list[bytes]:
        self._asked[question.id] = question
        return [encode(question)]

    def _withdrawal(self, entry: RequestEntry, *, forget: bool = False) -> list[bytes]:
        is_durable = isinstance(entry, Subscribed) and entry.durable is not None
        return self._question(messages.Withdraw(self.next_number(), entry.ref, forget and is_durable))

    def _end_withdrawal(self, ref: int) -> None:
        if self._forget(ref):
            self.notices.append(notices.Withdrawn(ref))

    def _give_up(self, entry: RequestEntry, problem: MaiaError) -> None:
        """Tell the application that it cannot have something, and why."""
        self._forget(entry.ref)
        self.notices.append(notices.Ended(entry.ref, problem))

    def _forget(self, ref: int) -> bool:
        """End an entry with all that belongs to it: its timer, its challenges, its frames under way."""
        self._alarms.forget(ref)
        self._challenges.forget(ref)
        entry = self._entries.pop(ref, None)
        if isinstance(entry, Advertised):
            self.bytes_under_way -= sum(map(len, entry.under_way.values()))
            entry.under_way.clear()
        return entry is not None

    # -------------------------------------------------------- frames

    def has_room(self, entry: Advertised) -> bool:
        """Return whether another frame may be under way."""
        return (
            entry.stage is EntryStage.ACCEPTED
            and len(entry.under_way) < self._settings.frames_under_way
            and (not entry.under_way or self.bytes_under_way < self._settings.bytes_under_way)
        )

    def publish(
        self,
        entry: Advertised,
        rows: int,
        columns: list[messages.Column],
        now: Instant,
        requires: Predicate | None = None,
    ) -> bytes | None:
        """Number a frame and remember it until the broker has taken it on; return what is sent now."""
        sequence = entry.next_sequence
        # The plus makes an int of an Instant.
        said = (entry.ref, sequence, +now, rows, columns)
        required = None if requires is None else requirement_to_bytes(requires)
        message = messages.Publish(*said, required)
        if entry.signs:
            message = messages.Publish(*said, required, self._signed(entry, message))
        data = encode_known(message) if rows and message.is_bare else encode(message)
        entry.next_sequence += 1
        entry.under_way[sequence] = data
        self.bytes_under_way += len(data)
        return data if entry.stage is EntryStage.ACCEPTED else None

    def _signed(self, entry: Advertised, message: messages.Publish) -> messages.SignedByPublisher:
        version = entry.known.event_type
        frame = columns_to_frame(message.columns, message.rows, entry.written_type.kinds)
        requires = requirement_to_bytes(entry.requires) if message.requires is None else message.requires
        label = frame_label(self._key.principal.key, entry.stream, message.sequence)
        about = Publishing(version.type_id, label, message.published_at, requires)
        seed = self._random(SEED_BYTES)
        return messages.SignedByPublisher(sign_as_author(frame, about, self._key, seed), seed)

    def _taken(self, ref: int, sequence: int, refused_rows: int) -> None:
        entry = self._entries.get(ref)
        if isinstance(entry, Advertised):
            under_way = entry.under_way
            while under_way and (first := next(iter(under_way))) <= sequence:
                self.bytes_under_way -= len(under_way.pop(first))
            self.notices.append(notices.Acknowledged(ref, sequence, refused_rows))

    # -------------------------------------------------------- asking, and asking again

    def _message_for(self, entry: RequestEntry, now: Instant) -> bytes:
        """Return what asks for an entry; raise if no credential speaks for it."""
        network, nonce = self._settings.network, self._random(16)
        message = message_asking_for(
            entry, key=self._key, network=network, wallet=self._wallet, nonce=nonce, now=now
        )
        entry.asked, entry.asked_at = digest_of_request(message.request), now
        return encode(message)

    def _ask(self, entry: RequestEntry, now: Instant, *, renews: bool = False) -> list[bytes]:
        """Ask for an entry, or give it up if no credential speaks for it any more.

        One that is only renewed stays accepted until there is an answer.
        """
        first = self._ask_broker_first(entry)
        if first is not None:
            entry.stage = EntryStage.WAITING
            return first
        try:
            asking = self._message_for(entry, now)
        except MaiaError as problem:  # a credential has expired meanwhile, for instance
            self._give_up(entry, problem)
            return []
        entry.stage = EntryStage.ACCEPTED if renews else EntryStage.ASKED
        entry.is_renewing |= renews
        return [asking]

    def meet_broker(self, broker: Principal, *, is_open: bool) -> None:
        """Take note of the broker of a new link, and whether it may serve what it has no right to."""
        self._broker, self._is_open = broker, is_open
        self._entitled.clear()

    def _ask_broker_first(self, entry: RequestEntry) -> list[bytes] | None:
        """Return the question that comes before a request: may the broker itself? None if it may."""
        name, about = entry.known.event_type.name, _about(entry)
        if self._is_open or is_for_all(name) or about in self._entitled:
            return None
        asked = messages.AskRight(self.next_number(), *about)
        known = (one for one in self._asked.values() if isinstance(one, messages.AskRight))
        return [] if any((one.action, one.name) == about for one in known) else self._question(asked)

    def _shown_right(self, shown: messages.RightShown, now: Instant) -> list[bytes]:
        """Ask for what has waited for the broker to show its right, or give it up."""
        asked = self._asked.pop(shown.id, None)
        if not isinstance(asked, messages.AskRight):
            return []
        name, action = type_from_bytes(asked.name), Action(asked.action)
        about = (asked.action, asked.name)
        waiting = [one for one in self._entries.values() if _about(one) == about]
        waiting = [one for one in waiting if one.stage is EntryStage.WAITING]
        if waiting and all(self._is_served(entry, shown.credentials, now) for entry in waiting):
            self._entitled.add(about)
            return [data for entry in waiting for data in self._ask(entry, now)]
        problem = no_right(self._broker, action, name, has_some=bool(shown.credentials))
        for entry in waiting:
            # A right that was granted a moment ago is on its way to the broker, which looks for it.
            if entry.failures < _RIGHT_TIMES:
                self._put_off(entry, problem, now)
            else:
                self._give_up(entry, problem)
        return []

    def _is_served(self, entry: RequestEntry, shown: list[bytes], now: Instant) -> bool:
        """Return whether the broker's own right is about the attributes that the client's is (MAIA 5.1.3)."""
        event_type = entry.known.event_type
        about = self._key.principal, entry.action, event_type.name
        told = attributes_told(self._wallet.shown_by(Request(*about, event_type), now))
        defined = [one.uid for one in event_type.attributes]
        return self._wallet.is_entitled(self._broker, *about[1:], shown, now, told, defined)

    def look(self, ref: int, now: Instant) -> list[bytes]:
        """Renew what is accepted, or ask again for what could not be had."""
        entry = self.find(ref)
        return [] if entry is None else self._ask(entry, now, renews=entry.stage is EntryStage.ACCEPTED)

    def renew_everything(self, now: Instant) -> list[bytes]:
        """Say in one message that all is still wanted; ask one by one where other credentials speak now."""
        self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 2))
        entries, since = self._entries.values(), self._wallet.steady_since(now)
        others = [one for one in entries if one.asked_at is None or (since and one.asked_at < since)]
        asking = [] if since is None else self._renew_each(others, now)
        standing = [(one.ref, one.asked) for one in entries if self._is_at_the_broker(one)]
        if len(standing) > len(asking):
            digest = digest_of_standing(standing)
            asking += self._question(messages.RenewAll(self.next_number(), len(standing), digest))
        return asking

    def _renew_each(self, entries: Iterable[RequestEntry], now: Instant) -> list[bytes]:
        standing = [entry for entry in entries if entry.stage is EntryStage.ACCEPTED]
        return [message for entry in standing for message in self._ask(entry, now, renews=True)]

    def _is_at_the_broker(self, entry: RequestEntry) -> bool:
        """Return whether the broker will count an entry as accepted when it receives the next message."""
        is_held = entry.stage is EntryStage.ASKED and self._challenges.is_open(entry.ref)
        return entry.stage in _AT_THE_BROKER and not is_held

    # -------------------------------------------------------- links come and go

    def ask_for_everything(
        self, lease_s: int, now: Instant, *, is_another_broker: bool = False
    ) -> list[bytes]:
        """Return what to say to a broker that has just welcomed this client."""
        self._is_ready, self.lease_s = True, max(1, lease_s)
        self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 2))
        statements = self._wallet.statements_for(now)
        asking = [encode(messages.Show(self.next_number(), [], statements))] if statements else []
        asking += [encode(question) for question in self._asked.values()]
        for entry in list(self._entries.values()):
            if is_another_broker and isinstance(entry, Subscribed):
                # Where the last broker's event log stood: another broker cannot read it.
                entry.arrived, entry.acknowledged = None, None
            asking += self._ask(entry, now)
        return asking

    def link_lost(self) -> None:
        """Remember that nothing is accepted any more; what was to be withdrawn is."""
        self._is_ready = False
        # Take what was shown for shown: the next requests show it again. Types are asked for again.
        shown = [one.id for one in self._asked.values() if isinstance(one, messages.Show | messages.Identify)]
        self.notices += [notices.CredentialsAdded(number) for number in sorted(shown)]
        self._asked = {
            number: one for number, one in self._asked.items() if isinstance(one, messages.TypeQuery)
        }
        self._alarms.forget(RENEWAL)
        self._challenges.clear()
        for entry in list(self._entries.values()):
            if entry.stage is EntryStage.WITHDRAWING:
                self._end_withdrawal(entry.ref)
            entry.stage, entry.is_renewing, entry.hands_over = EntryStage.WAITING, False, True
            self._alarms.forget(entry.ref)

    def give_everything_up(self, problem: MaiaError) -> None:
        """Want nothing any more: the right to be part of the network was taken away."""
        for entry in list(self._entries.values()):
            self._give_up(entry, problem)

    # -------------------------------------------------------- answers of the broker

    def told(self, message: messages.Message, now: Instant) -> list[bytes]:  # noqa: PLR0912 - a case for each
        """Handle an answer; refuse a message that no client receives."""
        match message:
            case messages.Deliver() | messages.DeliverLogged() | messages.Missed():
                arrived = what_arrived(message, self._entries, self._authors)
                self.notices += [] if arrived is None else [arrived]
            case messages.Published(ref=ref, sequence=sequence, refused_rows=refused_rows):
                self._taken(ref, sequence, refused_rows)
            case messages.Accepted(id=number, until=until):
                return self._accepted(number, until)
            case messages.Failed(id=number, code=code, message=sentence):
                return self._failed(number, told_by_broker(code, self._with_names(number, sentence)), now)
            case messages.Ended(refs=refs, code=code, message=sentence):
                # A problem for each: it may be raised to several callers, and grows a trace of each.
                ended = [self._ended(ref, told_by_broker(code, sentence), now) for ref in refs]
                return [data for some in ended for data in some]
            case messages.Changed(ref=ref, until=until, code=code, message=sentence):
                self._changed(ref, until, told_by_broker(code, sentence))
            case messages.Warned(ref=ref, code=code, message=sentence):
                self._warned(ref, None if code is None else told_by_broker(code, sentence))
            case messages.Challenge():
                return self._challenged(message)
            case messages.ServedElsewhere(id=number, address=address):
                self._sent_elsewhere(number, ElsewhereServed(address))
            case messages.RightShown():
                return self._shown_right(message, now)
            case messages.StateTold(id=number, is_whole=is_whole):
                self._take_end_of_state(self._asked.pop(number, None), is_whole=is_whole)
            case messages.TypeReply(id=number, definitions=definitions):
                if self._asked.pop(number, None) is not None:
                    self.notices.append(notices.TypeReceived(number, tuple(definitions)))
            case _:
                raise ProtocolViolation(
                    "PROTOCOL-WRONG-BROKER", f"`{type(message).__name__}` is no message to a client"
                )
        return []

    # -------------------------------------------------------- yes

    def _accepted(self, number: int, until: int | None) -> list[bytes]:
        match self._asked.pop(number, None):
            case messages.Withdraw(ref=ref):
                self._end_withdrawal(ref)
            case messages.Show() | messages.Identify():
                self.notices.append(notices.CredentialsAdded(number))
            case None:
                entry = self.find(number)
                return [] if entry is None else self._stands(entry, until)
        return []

    def _stands(self, entry: RequestEntry, until: int | None) -> list[bytes]:
        """Take an entry for standing; return what is said when it did not before."""
        stood = entry.stage is EntryStage.ACCEPTED
        entry.stage, entry.was_accepted, entry.is_renewing = EntryStage.ACCEPTED, True, False
        entry.hands_over, entry.failures, entry.problem = False, 0, None
        self._alarms.forget(entry.ref)
        if stood:
            return []
        if entry.is_warned:
            self._warned(entry.ref, None)  # a broker that cannot serve it says so again
        self.notices.append(notices.Accepted(entry.ref, None if until is None else Instant(until)))
        if entry.limit is not None:
            self._changed(entry.ref, until, entry.limit)
        if isinstance(entry, Subscribed):
            # Ask for the present state, if it is wanted; say again what the last link may have lost.
            if entry.wants_state:
                entry.state_asked = self.next_number()
                return self._question(messages.AskState(entry.state_asked, entry.ref))
            position = entry.acknowledged
            return [] if position is None else [encode(messages.Seen(entry.ref, position))]
        # What the last broker did not answer for goes out again under its old numbers.
        return list(entry.under_way.values()) if isinstance(entry, Advertised) else []

    def _take_end_of_state(self, asked: _Question | None, *, is_whole: bool) -> None:
        """Take note that the state has arrived, if this is the latest question about it."""
        if isinstance(asked, messages.AskState):
            entry = self._entries.get(asked.ref)
            if isinstance(entry, Subscribed) and entry.state_asked == asked.id:
                self.notices.append(notices.StateKnown(entry.ref, is_whole))

    # -------------------------------------------------------- no

    def _failed(self, number: int, problem: MaiaError, now: Instant) -> list[bytes]:
        match asked := self._asked.pop(number, None):
            case messages.Withdraw(ref=ref):
                self._end_withdrawal(ref)  # it had ended by itself
            case messages.RenewAll() if problem.code == _QUOTA:
                self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 8))
            case messages.RenewAll():  # broker and client do not agree on what is accepted
                return self._renew_each(list(self._entries.values()), now)
            case messages.AskState():
                self._take_end_of_state(asked, is_whole=False)
            case messages.AskRight(action=action, name=name):
                waiting = [one for one in self._entries.values() if _about(one) == (action, name)]
                return [data for one in waiting for data in self._refused(one, problem, now)]
            case None:
                entry = self.find(number)
                return [] if entry is None else self._refused(entry, problem, now)
            case _:
                self.notices.append(notices.Ended(number, problem))
        return []

    def _with_names(self, number: int, sentence: str) -> str:
        """Return a refusal with names of attributes: a broker does not say which uids have one (A52)."""
        entry = self.find(number)
        for one in () if entry is None else entry.known.event_type.attributes:
            sentence = sentence.replace(f"attribute {one.uid})", f"attribute {one.name})")
        return sentence

    def _sent_elsewhere(self, number: int, problem: ElsewhereServed) -> None:
        """Have the application ask another process of the broker."""
        entry = self.find(number)
        if entry is not None:
            self._give_up(entry, problem)
        elif isinstance(self._asked.get(number), messages.TypeQuery):
            del self._asked[number]
            self.notices.append(notices.Ended(number, problem))

    def _refused(self, entry: RequestEntry, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask otherwise, ask later, or give an entry up."""
        problem = self._challenges.reason(entry.ref, problem.code) or problem
        if problem.code == _TYPE_UNKNOWN and not entry.hands_over:
            entry.hands_over = True
            return self._ask(entry, now, renews=entry.is_renewing)
        # How long that is waited for is the application's to say: it withdraws what it gives up.
        is_awaited = problem.code in {_AWAITED, KEY_SERVER_AWAY}
        if is_awaited or (is_passing(problem.code) and entry.was_accepted):
            return self._put_off(entry, problem, now)
        stood = entry.stage is EntryStage.ACCEPTED
        self._give_up(entry, problem)
        return self._withdrawal(entry) if stood else []

    def _ended(self, ref: int, problem: MaiaError, now: Instant) -> list[bytes]:
        entry = self.find(ref)
        if entry is None:
            return []
        problem = self._challenges.reason(ref, problem.code) or problem
        if problem.code in CANNOT_SEAL:
            entry.is_renewing = False  # what was to be renewed has ended
            return self._put_off(entry, problem, now)
        if problem.code in _ASK_AGAIN or is_passing(problem.code):
            if entry.stage is not EntryStage.ASKED:
                return self._ask(entry, now)
            # Frames that were on their way when it ended are answered, too; one request is enough. What ends
            # before it was accepted has been answered by that.
            return [] if problem.code == _UNKNOWN_REF else self._put_off(entry, problem, now)
        self._give_up(entry, problem)
        return []

    def _put_off(self, entry: RequestEntry, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask again in a while, twice as long each time up to a quarter of a lease; say why if it is news."""
        entry.problem = problem
        if not entry.is_renewing:
            entry.stage = EntryStage.WAITING
        entry.failures += 1
        wait_s = doubled(self._settings.dial_again_s, entry.failures + 1, most=self.lease_s / 4)
        if problem.code == _AWAITED or not entry.was_accepted:
            wait_s = min(wait_s, _AWAITED_MOST_S)  # the application waits for its answer
        self._alarms.ask(entry.ref, seconds_after(now, wait_s))
        is_late = problem.code != _AWAITED or entry.failures >= _AWAITED_QUIETLY
        # What is only to be renewed is served until its lease ends.
        is_quiet = entry.is_renewing or problem.code == _NO_RIGHT
        if problem.code in CANNOT_SEAL or (is_late and not is_quiet):
            self.notices.append(notices.PutOff(entry.ref, problem))
        return []

    def _warned(self, ref: int, problem: MaiaError | None) -> None:
        entry = self._entries.get(ref)
        if entry is not None:
            entry.is_warned = problem is not None
            self.notices.append(notices.Warned(ref, problem))

    def _changed(self, ref: int, until: int | None, problem: MaiaError) -> None:
        if ref in self._entries:
            self.notices.append(notices.Changed(ref, None if until is None else Instant(until), problem))

    # -------------------------------------------------------- not yet

    def _challenged(self, message: messages.Challenge) -> list[bytes]:
        """Have the application get the answers; what is not ours to ask for is not answered."""
        entry = self.find(message.ref)
        if entry is None:
            return []  # the broker forgets it, as soon as it receives that
        version = entry.known.event_type
        asked = Request(self._key.principal, entry.action, version.name, version, entry.filter)
        is_standing = entry.stage is EntryStage.ACCEPTED or entry.was_accepted
        try:
            self._open(message, asked, is_standing=is_standing)
        except QuestionNotOurs as problem:
            self._give_up(entry, problem)
            return self._withdrawal(entry)
        return []

    def challenged_to_connect(self, message: messages.Challenge, asked: Request) -> None:
        """Have the application get answers about the right to connect; raise if they are not ours to get."""
        self._open(message, asked, is_standing=self._is_ready)

    def _open(self, message: messages.Challenge, asked: Request, *, is_standing: bool) -> None:
        number, digest, find = self.next_number(), request_digest(asked), self._wallet.find
        self.notices.append(self._challenges.open(number, message, digest, find, is_standing=is_standing))

    def why_unconnected(self, problem: MaiaError) -> MaiaError:
        """Return why a broker has left, which may be known better here."""
        return self._challenges.reason(CONNECTION, problem.code) or problem

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[bytes]:
        """Return what brings the answers to a challenge; `problem` says why there are not more of them."""
        message = self._challenges.answer(number, answers, problem)
        return [] if message is None else [encode(message)]


def _about(entry: RequestEntry) -> _About:
    action: Literal["publish", "subscribe"] = "publish" if entry.action is Action.PUBLISH else "subscribe"
    return action, type_to_bytes(entry.known.event_type.name)
