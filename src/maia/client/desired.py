"""Which requests does the application want, and how do they end?

Entries stay here until the application withdraws them, or until they
are refused. An entry ends with all that belongs to it: its timer, its
challenges, and its frames in flight.
"""

from __future__ import annotations

from itertools import count

from maia.client.entries import Advertised, EntryStage, RequestEntry, Subscribed
from maia.client.notices import Ended, Notice, Withdrawn
from maia.client.timers import Alarms
from maia.errors import MaiaError
from maia.sessions.challenges import OwnChallenges
from maia.wire.codec import encode
from maia.wire.messages import ForgetDurable, Unadvertise, Unsubscribe


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
        if forget and isinstance(entry, Subscribed) and entry.durable is not None:
            return encode(ForgetDurable(number, entry.ref))
        kind = Unadvertise if isinstance(entry, Advertised) else Unsubscribe
        return encode(kind(number, entry.ref))

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
