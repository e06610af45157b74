"""Which addresses are being dialled, and which rest because no broker answered there?

Brokers of the overlay and routers of a mesh ask. An address that failed rests,
longer from failure to failure; the addresses that are remembered are bounded.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from maia.back_off import doubled
from maia.bounded_map import BoundedMap
from maia.events import SECOND

BRIEF_S: Final = 5
"""A link that ends before has failed, too: a broker of another version is met, and left, at once."""


class Dials:
    """The dials under way, and the failures before them."""

    def __init__(self, *, first_s: int, most_s: int, timeout_s: int, remembered: int) -> None:
        """Begin without dials; the first rest takes `first_s`, and none longer than `most_s`."""
        self._first_s, self._most_s, self._timeout_s = first_s, most_s, timeout_s
        self.under_way: dict[str, int] = {}
        """By address, until when there is time to answer."""
        self._failures: BoundedMap[str, tuple[int, int]] = BoundedMap(remembered)
        """By address, the failures in a row and the end of its rest; the least recently failed first."""
        self._broken: BoundedMap[str, int] = BoundedMap(remembered)
        """By address, how many links in a row ended soon after they began."""

    def rests_until(self, address: str) -> int:
        """Return the end of the rest of an address; 0 if it has none."""
        return (self._failures.get(address) or (0, 0))[1]

    def may_begin(self, address: str, now: int) -> bool:
        """Return whether this address is neither being tried nor resting after a failure."""
        return address not in self.under_way and self.rests_until(address) <= now

    def begin(self, address: str, now: int) -> None:
        """Note that a connection to this address is being tried."""
        self.under_way[address] = now + self._timeout_s * SECOND

    def succeeded(self, address: str) -> None:
        """A broker with a right answered."""
        self.under_way.pop(address, None)
        self._failures.pop(address)

    def rest(self, address: str, now: int) -> None:
        """The broker that answered there is gone: give it a moment."""
        self._failures.put(address, (0, now + self._first_s * SECOND))

    def broke(self, address: str, now: int, *, stood_s: float) -> None:
        """A link with the broker there has ended; after the second short one in a row, it rests."""
        before = self._broken.pop(address) or 0
        if stood_s >= BRIEF_S:
            return
        self._broken.put(address, before + 1)
        if before > 0:
            rest_s = doubled(self._first_s, before, most=self._most_s)
            self._failures.put(address, (0, now + rest_s * SECOND))

    def failed(self, address: str, now: int) -> int:
        """No broker with a right answered; return how often that was so in a row."""
        self.under_way.pop(address, None)
        tries = (self._failures.get(address) or (0, 0))[0] + 1
        rest_s = doubled(self._first_s, tries, most=self._most_s)
        self._failures.put(address, (tries, now + rest_s * SECOND))
        return tries

    def overdue(self, now: int) -> list[str]:
        """Return the addresses that have been tried for too long."""
        return [address for address, until in self.under_way.items() if until <= now]

    def next_moment(self, now: int, addresses: Collection[str]) -> int | None:
        """Return when a dial becomes overdue, or when the rest of one of some addresses ends."""
        # A rest that is over has had its turn: it must not wake a broker again and again.
        rests = [end for end in map(self.rests_until, addresses) if end > now] if self._failures else []
        return min([*self.under_way.values(), *rests], default=None)
