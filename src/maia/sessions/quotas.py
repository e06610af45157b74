"""Does this principal ask too often?

Every request costs a signature check, and churn of subscriptions spreads to
other brokers (Miklós 2; A77). The quota belongs to the principal, so that
neither a second link nor a new connection renews it.
"""

from __future__ import annotations

from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal
from maia.errors import Unavailable
from maia.events import Instant

_MINUTE: Final = 60_000_000
_PRINCIPALS_MAX: Final = 65_536


class TooManyRequests(Unavailable):
    """The principal makes more requests in a minute than its quota."""

    code = "UNAVAILABLE-REQUEST-QUOTA"


class RequestQuota:
    """A bucket for each principal, refilled evenly over a minute; what is counted is for its user to say."""

    __slots__ = ("_buckets", "per_minute")

    def __init__(self, per_minute: int) -> None:
        """Allow `per_minute` requests of one principal in a minute, in a burst if need be."""
        self.per_minute = per_minute
        # Microseconds of the minute that are left, and when that was worked out.
        self._buckets: BoundedMap[Principal, tuple[int, int]] = BoundedMap(_PRINCIPALS_MAX)

    def spend(self, principal: Principal, now: Instant, *, requests: int = 1) -> None:
        """Take so many requests off the principal's quota, or refuse."""
        left = self._left(principal, now)
        price = min(_MINUTE, requests * max(1, _MINUTE // self.per_minute))
        allowed = left >= price
        self._buckets.put(principal, (left - price if allowed else left, now))
        if not allowed:
            raise TooManyRequests(f"more than {self.per_minute} requests in a minute: slow down")

    def owe(self, principal: Principal, now: Instant, requests: int) -> None:
        """Take off what turned out to be the price of something done; a principal owes a minute at most."""
        left = self._left(principal, now) - requests * _MINUTE // self.per_minute
        self._buckets.put(principal, (max(-_MINUTE, left), now))

    def paid_at(self, principal: Principal, now: Instant) -> Instant | None:
        """Return when a principal owes nothing any more; None if it owes nothing now."""
        left = self._left(principal, now)
        return None if left >= 0 else Instant(now - left)

    def _left(self, principal: Principal, now: Instant) -> int:
        left, since = self._buckets.get(principal) or (_MINUTE, now)
        return min(_MINUTE, left + max(0, now - since))
