"""Which requests does the application want, and when is each asked for, and asked for again?

Accepted requests are renewed in one message well before its lease ends. An entry is
asked for by itself where other certificates speak for it now, where broker and
client do not agree on what is accepted, and where it could not be had before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final

from maia.back_off import doubled
from maia.client.entries import Advertised, EntryStage, RequestEntry, Subscribed, message_asking_for
from maia.client.notices import Ended, Notice, Withdrawn
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import SigningKey
from maia.errors import MaiaError
from maia.events import Instant, seconds_after
from maia.sessions.challenges import OwnChallenges
from maia.wire.codec import encode
from maia.wire.messages import RenewAll, Withdraw
from maia.wire.requests import digest_of_request, digest_of_standing

# What does a client have to look at next, and when?


SESSION: Final = 0
"""What the session itself is called here; entries are called by their references."""
RENEWAL: Final = -1
"""What the renewal of all entries is called here."""
IDENTITY: Final = -2
"""What the expiry of the broker's identity statement is called here."""


class Alarms:
    """Moments by whoever asked for them. Each has one moment at a time; an earlier wish is forgotten."""

    __slots__ = ("_heap", "_promised", "_wanted")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._wanted: dict[int, int] = {}
        self._promised: int | None = None

    def ask(self, whose: int, at: Instant) -> None:
        """Yield `whose` when `at` has come, and not before."""
        self._wanted[whose] = at
        heapq.heappush(self._heap, (at, whose))

    def forget(self, whose: int) -> None:
        """Yield it no more."""
        self._wanted.pop(whose, None)

    def due(self, now: Instant) -> Iterator[int]:
        """Yield whose moment has come."""
        if self._promised is not None and self._promised <= now:
            self._promised = None
        while self._heap and self._heap[0][0] <= now:
            at, whose = heapq.heappop(self._heap)
            if self._wanted.get(whose) == at:
                del self._wanted[whose]
                yield whose

    def is_quiet(self, now: Instant) -> bool:
        """Say whether no moment has come, and the runtime has been asked for the next one."""
        return self._promised is not None and now < self._promised <= (self._heap or [(0, 0)])[0][0]

    def woken(self) -> None:
        """Take note that the runtime has woken the client, and may remember no other moment."""
        self._promised = None

    def to_promise(self) -> Instant | None:
        """Return the next moment, unless the runtime has been asked for it already."""
        if not self._heap or (self._promised is not None and self._promised <= self._heap[0][0]):
            return None
        self._promised = self._heap[0][0]
        return Instant(self._promised)


# Which requests does the application want, and how do they end?
#
# Entries stay here until the application withdraws them, or until they
# are refused. An entry ends with all that belongs to it: its timer, its
# challenges, and its frames in flight.


class Wanted:
    """The entries of one client by their references, and what the application is to hear about them."""

    def __init__(self, alarms: Alarms, challenges: OwnChallenges) -> None:
        self.alarms = alarms
        self.challenges = challenges
        self.entries: dict[int, RequestEntry] = {}
        self.notices: list[Notice] = []
        """Notices that the application has not taken yet; always this very list, which others hold too."""
        self.bytes_under_way = 0
        self._numbers = count(1)
        self._withdrawals: dict[int, int] = {}

    def next_number(self) -> int:
        """Return a number that this client has not used."""
        return next(self._numbers)

    def find(self, ref: int) -> RequestEntry | None:
        """Return what is called `ref`, unless the application does not want it any more."""
        entry = self.entries.get(ref)
        return None if entry is None or entry.stage is EntryStage.WITHDRAWING else entry

    def withdrawal(self, entry: RequestEntry, *, forget: bool = False) -> bytes:
        """Return what takes an entry back; `forget` takes a durable subscription's cursor along."""
        number = self.next_number()
        self._withdrawals[number] = entry.ref
        is_durable = isinstance(entry, Subscribed) and entry.durable is not None
        return encode(Withdraw(number, entry.ref, forget and is_durable))

    def take_answer(self, number: int) -> bool:
        """End the withdrawal that an answer is about, whatever the answer is; say whether there was one."""
        ref = self._withdrawals.pop(number, None)
        if ref is not None:
            self.end_withdrawal(ref)
        return ref is not None

    def end_withdrawal(self, ref: int) -> None:
        """Tell the application that it has got rid of something."""
        if self._forget(ref):
            self.notices.append(Withdrawn(ref))

    def give_up(self, entry: RequestEntry, problem: MaiaError) -> None:
        """Tell the application that it cannot have something, and why."""
        self._forget(entry.ref)
        self.notices.append(Ended(entry.ref, problem))

    def link_lost(self) -> None:
        """Remember that nothing is accepted any more; what was to be withdrawn is."""
        self._withdrawals.clear()
        self.challenges.clear()
        for entry in list(self.entries.values()):
            if entry.stage is EntryStage.WITHDRAWING:
                self.end_withdrawal(entry.ref)
            entry.stage, entry.is_renewing, entry.hands_over = EntryStage.WAITING, False, True
            self.alarms.forget(entry.ref)

    def _forget(self, ref: int) -> bool:
        self.alarms.forget(ref)
        self.challenges.forget(ref)
        entry = self.entries.pop(ref, None)
        if isinstance(entry, Advertised):
            self.bytes_under_way -= sum(map(len, entry.under_way.values()))
            entry.under_way.clear()
        return entry is not None


AWAITED: Final = "UNAVAILABLE-STATEMENT-AWAITED"
"""The broker waits for a validity statement about the certificates, which may arrive in a moment."""
_AWAITED_MOST_S: Final = 2.0
_QUOTA: Final = "UNAVAILABLE-REQUEST-QUOTA"
_AT_THE_BROKER: Final = frozenset({EntryStage.ASKED, EntryStage.ACCEPTED})
"""Entries that the broker knows by the time it receives the next message."""


class Renewing:
    """The requests of one client: each is signed anew whenever it is made."""

    def __init__(
        self,
        key: SigningKey,
        settings: ClientSettings,
        wallet: Wallet,
        wanted: Wanted,
        random: Callable[[int], bytes],
    ) -> None:
        """Ask as the holder of `key`, with what `wallet` holds, for what is wanted."""
        self._key, self._settings, self._wallet = key, settings, wallet
        self._wanted, self._alarms = wanted, wanted.alarms
        self._random = random
        self._number: int | None = None
        """The number of the renewal of everything that is not answered yet."""
        self.lease_s = 0

    # -------------------------------------------------------- one entry

    def message_for(self, entry: RequestEntry, now: Instant) -> bytes:
        """Return what asks for an entry; raise if no credential speaks for it."""
        message = message_asking_for(
            entry,
            key=self._key,
            network=self._settings.network,
            wallet=self._wallet,
            nonce=self._random(16),
            now=now,
        )
        entry.asked, entry.asked_at = digest_of_request(message.request), now
        return encode(message)

    def ask(self, entry: RequestEntry, now: Instant) -> list[bytes]:
        """Ask for an entry, or give it up if no credential speaks for it any more."""
        try:
            asking = self.message_for(entry, now)
        except MaiaError as problem:  # a credential has expired meanwhile, for instance
            self._wanted.give_up(entry, problem)
            return []
        entry.stage = EntryStage.ASKED
        return [asking]

    def renew(self, entry: RequestEntry, now: Instant) -> list[bytes]:
        """Renew an accepted entry, which stays accepted until there is an answer."""
        asking = self.ask(entry, now)
        if asking:
            entry.stage, entry.is_renewing = EntryStage.ACCEPTED, True
        return asking

    def ask_later(self, entry: RequestEntry, now: Instant) -> None:
        """Have an entry looked at again in a while: twice as long each time, up to a quarter of a lease."""
        if not entry.is_renewing:
            entry.stage = EntryStage.WAITING
        entry.failures += 1
        wait_s = doubled(self._settings.dial_again_s, entry.failures + 1, most=self.lease_s / 4)
        if entry.problem is not None and entry.problem.code == AWAITED:
            wait_s = min(wait_s, _AWAITED_MOST_S)
        self._alarms.ask(entry.ref, seconds_after(now, wait_s))

    def look(self, ref: int, now: Instant) -> list[bytes]:
        """Renew what is accepted, or ask again for what could not be had."""
        entry = self._wanted.find(ref)
        if entry is None:
            return []
        return self.renew(entry, now) if entry.stage is EntryStage.ACCEPTED else self.ask(entry, now)

    # -------------------------------------------------------- all of them

    def begin(self, lease_s: int, now: Instant) -> None:
        """Renew by the lease of a broker that has just welcomed this client."""
        self.lease_s = max(1, lease_s)
        self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 2))

    def link_lost(self) -> None:
        """Renew nothing before the next broker has welcomed this client."""
        self._number = None
        self._alarms.forget(RENEWAL)

    def renew_everything(self, now: Instant) -> list[bytes]:
        """Say in one message that all is still wanted; ask one by one where other credentials speak now."""
        self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 2))
        entries = self._wanted.entries.values()
        asking = self._renew_each(self._shown_before(self._wallet.steady_since(now)), now)
        standing = [(one.ref, one.asked) for one in entries if self._is_at_the_broker(one)]
        if len(standing) > len(asking):
            self._number = self._wanted.next_number()
            asking.append(encode(RenewAll(self._number, len(standing), digest_of_standing(standing))))
        return asking

    def end_renewal(self, number: int) -> bool:
        """Say whether an answer is that to the renewal of everything."""
        is_end = number == self._number
        self._number = None if is_end else self._number
        return is_end

    def renewal_failed(self, problem: MaiaError, now: Instant) -> list[bytes]:
        """Ask for each entry by itself where broker and client do not agree on what is accepted."""
        if problem.code == _QUOTA:
            self._alarms.ask(RENEWAL, seconds_after(now, self.lease_s / 8))
            return []
        return self._renew_each(list(self._wanted.entries.values()), now)

    def _shown_before(self, moment: Instant | None) -> list[RequestEntry]:
        if moment is None:
            return []
        entries = self._wanted.entries.values()
        return [one for one in entries if one.asked_at is None or one.asked_at < moment]

    def _renew_each(self, entries: Iterable[RequestEntry], now: Instant) -> list[bytes]:
        standing = [entry for entry in entries if entry.stage is EntryStage.ACCEPTED]
        return [message for entry in standing for message in self.renew(entry, now)]

    def _is_at_the_broker(self, entry: RequestEntry) -> bool:
        """Say whether the broker will count an entry as accepted when it receives the next message."""
        is_held = entry.stage is EntryStage.ASKED and self._wanted.challenges.is_open(entry.ref)
        return entry.stage in _AT_THE_BROKER and not is_held
