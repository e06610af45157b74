"""What stands at the broker for this client, what was asked for, and what is to be asked for again?

The book outlives links. It knows no link: it returns the messages to be sent,
and the session sends them if it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from maia.client.alarms import RENEWAL, Alarms, later
from maia.client.arriving import what_arrived
from maia.client.asking import message_asking_for
from maia.client.challenges import CONNECTING, Challenges
from maia.client.entries import Advertised, Entry, EntryStage, Subscribed
from maia.client.notices import (
    Changed,
    Gone,
    Notice,
    Shown,
    Stands,
    StateKnown,
    Taken,
    TypeTold,
    Withdrawn,
)
from maia.client.problems import QuestionNotOurs, WrongBroker, is_passing, told_by_broker
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import SignedStatement, SigningKey, TypeName
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request
from maia.wire.codec import encode
from maia.wire.messages import (
    Accepted,
    Advertise,
    AskState,
    Challenge,
    Deliver,
    DeliverLogged,
    Ended,
    Failed,
    ForgetDurable,
    Message,
    Publish,
    Published,
    RenewAll,
    Seen,
    Show,
    StateTold,
    Subscribe,
    SubscribeDurable,
    TypeQuery,
    TypeReply,
    Unadvertise,
    Unsubscribe,
)
from maia.wire.messages import Changed as ChangedMessage
from maia.wire.messages import Column as WireColumn
from maia.wire.messages import Missed as MissedMessage
from maia.wire.names import type_to_bytes
from maia.wire.standing import digest_of_request, digest_of_standing

__all__ = ["Book"]

_TYPE_UNKNOWN: Final = "TYPE-UNKNOWN"
_QUOTA: Final = "UNAVAILABLE-REQUEST-QUOTA"
_ASK_AGAIN: Final = frozenset({"UNAVAILABLE-LEASE-ENDED", "INPUT-UNKNOWN-REF", "POLICY-STALE"})
"""Why something ended that the client still wants: it asks for it again at once."""
_AWAITED: Final = "UNAVAILABLE-STATEMENT-AWAITED"
"""The broker waits for somebody's word that the certificates still count; it may come in a moment."""
_AWAITED_TIMES: Final = 32
_AWAITED_MOST_S: Final = 2.0
_AT_THE_BROKER: Final = frozenset({EntryStage.ASKED, EntryStage.STANDS})
"""What the broker has heard of by the time it hears the next message."""


class Book:
    """The advertisements, subscriptions and questions of one client."""

    def __init__(
        self,
        key: SigningKey,
        settings: ClientSettings,
        wallet: Wallet,
        alarms: Alarms,
        random: Callable[[int], bytes],
    ) -> None:
        """Begin with nothing."""
        self._key = key
        self._settings = settings
        self._wallet = wallet
        self._alarms = alarms
        self._random = random
        self._numbers = count(1)
        self._entries: dict[int, Entry] = {}
        self._withdrawals: dict[int, int] = {}
        self._questions: dict[int, bytes] = {}
        self._showings: set[int] = set()
        self._renewal: int | None = None
        self._challenges = Challenges(key.principal, wallet)
        self.lease_s = 0
        self.bytes_under_way = 0
        self.notices: list[Notice] = []

    def next_number(self) -> int:
        """Return a number that this client has not used."""
        return next(self._numbers)

    # -------------------------------------------------------- what the application wants

    def add(self, entry: Entry, now: Instant, *, is_ready: bool) -> list[bytes]:
        """Want something from now on; raise, and want nothing, if no credential speaks for it."""
        asking = encode(self._message_asking_for(entry, now))
        self._entries[entry.ref] = entry
        if not is_ready:
            return []
        entry.stage = EntryStage.ASKED
        return [asking]

    def withdraw(self, entry: Entry, *, is_ready: bool, forget: bool = False) -> list[bytes]:
        """Want something no longer; `forget` takes a durable subscription's cursor along."""
        if entry.ref not in self._entries or entry.stage is EntryStage.WITHDRAWING:
            return []
        if not is_ready or entry.stage is EntryStage.WAITING:
            self._end_withdrawal(entry.ref)
            return []
        entry.stage = EntryStage.WITHDRAWING
        return [self._withdrawal(entry, forget=forget)]

    def ask_for_type(self, number: int, name: TypeName) -> list[bytes]:
        """Want to know a type."""
        self._questions[number] = encode(TypeQuery(number, type_to_bytes(name)))
        return [self._questions[number]]

    def show(
        self, number: int, certificates: list[bytes], statements: list[bytes], *, is_ready: bool
    ) -> list[bytes]:
        """Show the broker what was put into the wallet; without a link, the next requests show it."""
        if not is_ready:
            self.notices.append(Shown(number))
            return []
        self._showings.add(number)
        return [encode(Show(number, certificates, statements))]

    def has_room(self, entry: Advertised) -> bool:
        """Say whether another frame may be under way."""
        return (
            entry.stage is EntryStage.STANDS
            and len(entry.under_way) < self._settings.frames_under_way
            and (not entry.under_way or self.bytes_under_way < self._settings.bytes_under_way)
        )

    def publish(self, entry: Advertised, rows: int, columns: list[WireColumn], now: Instant) -> list[bytes]:
        """Number a frame and remember it until the broker has taken it on."""
        sequence = entry.next_sequence
        # The plus makes an int of an Instant.
        data = encode(Publish(entry.ref, sequence, +now, rows, columns))
        entry.next_sequence += 1
        entry.under_way[sequence] = data
        self.bytes_under_way += len(data)
        return [data] if entry.stage is EntryStage.STANDS else []

    # -------------------------------------------------------- links come and go

    def ask_for_everything(
        self, lease_s: int, now: Instant, *, is_another_broker: bool = False
    ) -> list[bytes]:
        """Return what to say to a broker that has just welcomed this client."""
        if is_another_broker:
            self._forget_positions()
        self.lease_s = max(1, lease_s)
        self._alarms.ask(RENEWAL, later(now, self.lease_s / 2))
        statements = self._wallet.statements_for()
        asking = [encode(Show(self.next_number(), [], statements))] if statements else []
        asking += self._questions.values()
        for entry in list(self._entries.values()):
            asking += self._ask(entry, now)
        return asking

    def _forget_positions(self) -> None:
        """Forget where the last broker's event log stood: another broker's has other numbers."""
        for entry in self._entries.values():
            if isinstance(entry, Subscribed):
                entry.arrived, entry.acknowledged = None, 0

    def link_lost(self) -> None:
        """Remember that nothing stands any more; what was to be withdrawn is."""
        self._withdrawals.clear()
        self._challenges.clear()
        self.notices += [Shown(number) for number in sorted(self._showings)]  # with the next requests
        self._showings.clear()
        self._renewal = None
        self._alarms.forget(RENEWAL)
        for entry in list(self._entries.values()):
            if entry.stage is EntryStage.WITHDRAWING:
                self._end_withdrawal(entry.ref)
            entry.stage, entry.is_renewing, entry.hands_over = EntryStage.WAITING, False, True
            self._alarms.forget(entry.ref)

    def give_everything_up(self, problem: MaiaError) -> None:
        """Want nothing any more: the right to be part of the network was taken away."""
        for entry in list(self._entries.values()):
            self._give_up(entry, problem)

    def renew_everything(self, now: Instant) -> list[bytes]:
        """Say in one message that all is still wanted; ask one by one where other credentials speak now."""
        self._alarms.ask(RENEWAL, later(now, self.lease_s / 2))
        asking = self._renew_each(self._entries_shown_before(self._wallet.steady_since(now)), now)
        standing = [(one.ref, one.asked) for one in self._entries.values() if self._is_at_the_broker(one)]
        if len(standing) > len(asking):
            self._renewal = self.next_number()
            asking.append(encode(RenewAll(self._renewal, len(standing), digest_of_standing(standing))))
        return asking

    def _is_at_the_broker(self, entry: Entry) -> bool:
        """Say whether the broker will take an entry for standing by the time it hears the next message."""
        is_held = entry.stage is EntryStage.ASKED and self._challenges.waits(entry.ref)
        return entry.stage in _AT_THE_BROKER and not is_held

    def look(self, ref: int, now: Instant) -> list[bytes]:
        """Renew what stands, or ask again for what could not be had."""
        entry = self._entries.get(ref)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        return self._renew(entry, now) if entry.stage is EntryStage.STANDS else self._ask(entry, now)

    # -------------------------------------------------------- what a broker tells

    def told(self, message: Message, now: Instant) -> list[bytes]:
        """Take an answer on; refuse what no client is told."""
        match message:
            case Deliver() | DeliverLogged() | MissedMessage():
                arrived = what_arrived(message, self._entries)
                self.notices += [] if arrived is None else [arrived]
            case Published(ref=ref, sequence=sequence, refused_rows=refused_rows):
                self._taken(ref, sequence, refused_rows)
            case Accepted(id=number, until=until):
                return self._accepted(number, until, now)
            case Failed(id=number, code=code, message=sentence):
                return self._failed(number, told_by_broker(code, sentence), now)
            case Ended(ref=ref, code=code, message=sentence):
                return self._ended(ref, told_by_broker(code, sentence), now)
            case ChangedMessage(ref=ref, until=until, code=code, message=sentence):
                self._changed(ref, until, told_by_broker(code, sentence))
            case Challenge():
                return self._challenged(message)
            case StateTold(id=number, is_whole=is_whole):
                self._state_told(number, is_whole=is_whole)
            case TypeReply(id=number, definitions=definitions):
                if self._questions.pop(number, None) is not None:
                    self.notices.append(TypeTold(number, tuple(definitions)))
            case _:
                raise WrongBroker(f"`{type(message).__name__}` is nothing that a client is told")
        return []

    def acknowledge(self, entry: Subscribed, position: int) -> list[bytes]:
        """Say that the application has had everything up to a position, if that is news."""
        if entry.durable is None or position <= entry.acknowledged or entry.ref not in self._entries:
            return []
        entry.acknowledged = position
        return [encode(Seen(entry.ref, position))] if entry.stage is EntryStage.STANDS else []

    def _taken(self, ref: int, sequence: int, refused_rows: int) -> None:
        entry = self._entries.get(ref)
        if not isinstance(entry, Advertised):
            return
        under_way = entry.under_way
        while under_way and (first := next(iter(under_way))) <= sequence:
            self.bytes_under_way -= len(under_way.pop(first))
        self.notices.append(Taken(ref, sequence, refused_rows))

    def _accepted(self, number: int, until: int | None, now: Instant) -> list[bytes]:
        if self._is_end_of_withdrawal(number) or self._is_end_of_renewal(number):
            return []
        if number in self._showings:
            self._showings.discard(number)
            self.notices.append(Shown(number))
            return []
        entry = self._entries.get(number)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        stood = entry.stage is EntryStage.STANDS
        entry.stage, entry.was_accepted, entry.is_renewing = EntryStage.STANDS, True, False
        entry.hands_over, entry.failures, entry.problem = False, 0, None
        self._alarms.forget(entry.ref)
        if stood:
            return []
        self.notices.append(Stands(entry.ref, None if until is None else Instant(until)))
        if isinstance(entry, Subscribed):
            return self._said_on_standing(entry)
        # What the last broker did not answer for goes out again under its old numbers.
        return list(entry.under_way.values()) if isinstance(entry, Advertised) else []

    def _said_on_standing(self, entry: Subscribed) -> list[bytes]:
        """Ask for the present state, if it is wanted; say again what the last link may have lost."""
        if entry.wants_state:
            entry.state_asked = self.next_number()
            return [encode(AskState(entry.state_asked, entry.ref))]
        return [encode(Seen(entry.ref, entry.acknowledged))] if entry.acknowledged else []

    def _state_told(self, number: int, *, is_whole: bool) -> bool:
        """Take note that the state was told; say whether anybody had asked."""
        for entry in self._entries.values():
            if isinstance(entry, Subscribed) and entry.state_asked == number:
                entry.state_asked = None
                self.notices.append(StateKnown(entry.ref, is_whole))
                return True
        return False

    def _failed(self, number: int, problem: MaiaError, now: Instant) -> list[bytes]:
        if self._is_end_of_withdrawal(number):  # it had ended by itself
            return []
        if self._is_end_of_renewal(number):
            return self._renewal_failed(problem, now)
        if number in self._showings:
            self._showings.discard(number)
            self.notices.append(Gone(number, problem))
            return []
        if self._state_told(number, is_whole=False):
            return []
        entry = self._entries.get(number)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        problem = self._challenges.reason(number, problem)
        if problem.code == _TYPE_UNKNOWN and not entry.hands_over:
            entry.hands_over = True
            return self._renew(entry, now) if entry.is_renewing else self._ask(entry, now)
        is_awaited = problem.code == _AWAITED and entry.failures < _AWAITED_TIMES
        if is_awaited or (is_passing(problem.code) and entry.was_accepted):
            entry.problem = problem
            self._ask_later(entry, now)
            return []
        stood = entry.stage is EntryStage.STANDS
        self._give_up(entry, problem)
        return [self._withdrawal(entry)] if stood else []

    def _ended(self, ref: int, problem: MaiaError, now: Instant) -> list[bytes]:
        entry = self._entries.get(ref)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        problem = self._challenges.reason(ref, problem)
        if problem.code in _ASK_AGAIN or is_passing(problem.code):
            # Frames that were on their way when it ended are answered like this too; one request is enough.
            return [] if entry.stage is EntryStage.ASKED else self._ask(entry, now)
        self._give_up(entry, problem)
        return []

    def _changed(self, ref: int, until: int | None, problem: MaiaError) -> None:
        if ref in self._entries:
            self.notices.append(Changed(ref, None if until is None else Instant(until), problem))

    # -------------------------------------------------------- vouching

    def _challenged(self, message: Challenge) -> list[bytes]:
        """Have the application get the answers; what is not ours to ask for is not answered."""
        entry = self._entries.get(message.ref)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []  # the broker forgets it, as soon as it hears that
        try:
            self.notices.append(self._challenges.ask(self.next_number(), entry, message))
        except QuestionNotOurs as problem:
            self._give_up(entry, problem)
            return [self._withdrawal(entry)]
        return []

    def challenged_to_connect(self, message: Challenge, asked: Request, *, is_ready: bool) -> None:
        """Have the application get answers about the right to connect; raise if they are not ours to get."""
        number = self.next_number()
        self.notices.append(self._challenges.ask_for(number, asked, message, is_standing=is_ready))

    def why_unconnected(self, problem: MaiaError) -> MaiaError:
        """Return why a broker has left, which may be known better here."""
        return self._challenges.reason(CONNECTING, problem)

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[bytes]:
        """Return what brings the answers to a challenge; `problem` says why there are not more of them."""
        return self._challenges.answer(number, answers, problem)

    # -------------------------------------------------------- asking

    def _ask(self, entry: Entry, now: Instant) -> list[bytes]:
        try:
            asking = encode(self._message_asking_for(entry, now))
        except MaiaError as problem:  # a credential has expired meanwhile, for instance
            self._give_up(entry, problem)
            return []
        entry.stage = EntryStage.ASKED
        return [asking]

    def _renewal_failed(self, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask for each entry by itself where broker and client do not agree on what stands."""
        if problem.code == _QUOTA:
            self._alarms.ask(RENEWAL, later(now, self.lease_s / 8))
            return []
        return self._renew_each(list(self._entries.values()), now)

    def _is_end_of_renewal(self, number: int) -> bool:
        is_end = number == self._renewal
        self._renewal = None if is_end else self._renewal
        return is_end

    def _entries_shown_before(self, moment: Instant | None) -> list[Entry]:
        if moment is None:
            return []
        return [one for one in self._entries.values() if one.asked_at is None or one.asked_at < moment]

    def _renew_each(self, entries: list[Entry], now: Instant) -> list[bytes]:
        standing = [entry for entry in entries if entry.stage is EntryStage.STANDS]
        return [message for entry in standing for message in self._renew(entry, now)]

    def _renew(self, entry: Entry, now: Instant) -> list[bytes]:
        asking = self._ask(entry, now)
        if asking:
            entry.stage, entry.is_renewing = EntryStage.STANDS, True
        return asking

    def _ask_later(self, entry: Entry, now: Instant) -> None:
        if not entry.is_renewing:
            entry.stage = EntryStage.WAITING
        entry.failures += 1
        wait_s = min(self.lease_s / 4, self._settings.dial_again_s * 2.0 ** min(entry.failures, 10))
        if entry.problem is not None and entry.problem.code == _AWAITED:
            wait_s = min(wait_s, _AWAITED_MOST_S)
        self._alarms.ask(entry.ref, later(now, wait_s))

    def _message_asking_for(self, entry: Entry, now: Instant) -> Advertise | Subscribe | SubscribeDurable:
        message = message_asking_for(
            entry,
            key=self._key,
            network=self._settings.network,
            wallet=self._wallet,
            nonce=self._random(16),
            now=now,
        )
        entry.asked, entry.asked_at = digest_of_request(message.request), now
        return message

    # -------------------------------------------------------- endings

    def _withdrawal(self, entry: Entry, *, forget: bool = False) -> bytes:
        number = self.next_number()
        self._withdrawals[number] = entry.ref
        if forget and isinstance(entry, Subscribed) and entry.durable is not None:
            return encode(ForgetDurable(number, entry.ref))
        kind = Unadvertise if isinstance(entry, Advertised) else Unsubscribe
        return encode(kind(number, entry.ref))

    def _is_end_of_withdrawal(self, number: int) -> bool:
        ref = self._withdrawals.pop(number, None)
        if ref is not None:
            self._end_withdrawal(ref)
        return ref is not None

    def _end_withdrawal(self, ref: int) -> None:
        if self._forget(ref):
            self.notices.append(Withdrawn(ref))

    def _give_up(self, entry: Entry, problem: MaiaError) -> None:
        self._forget(entry.ref)
        self.notices.append(Gone(entry.ref, problem))

    def _forget(self, ref: int) -> bool:
        self._alarms.forget(ref)
        self._challenges.forget(ref)
        entry = self._entries.pop(ref, None)
        if isinstance(entry, Advertised):
            self.bytes_under_way -= sum(map(len, entry.under_way.values()))
            entry.under_way.clear()
        return entry is not None
