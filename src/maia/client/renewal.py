"""When is something asked for, when is it asked for again, and what says that all of it is still wanted?

Accepted requests are renewed in one message well before its lease ends. An entry is
asked for by itself where other certificates speak for it now, where broker and
client do not agree on what is accepted, and where it could not be had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from maia.back_off import doubled
from maia.client.desired import Wanted
from maia.client.entries import EntryStage, RequestEntry, message_asking_for
from maia.client.settings import ClientSettings
from maia.client.timers import RENEWAL, later
from maia.client.wallet import Wallet
from maia.credentials import SigningKey
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.messages import RenewAll
from maia.wire.requests import digest_of_request, digest_of_standing

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
        self._alarms.ask(entry.ref, later(now, wait_s))

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
        self._alarms.ask(RENEWAL, later(now, self.lease_s / 2))

    def link_lost(self) -> None:
        """Renew nothing before the next broker has welcomed this client."""
        self._number = None
        self._alarms.forget(RENEWAL)

    def renew_everything(self, now: Instant) -> list[bytes]:
        """Say in one message that all is still wanted; ask one by one where other credentials speak now."""
        self._alarms.ask(RENEWAL, later(now, self.lease_s / 2))
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
            self._alarms.ask(RENEWAL, later(now, self.lease_s / 8))
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
