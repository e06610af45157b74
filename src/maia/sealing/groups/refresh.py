"""Does this call for a new key, and if so, when?

A manager asks whenever somebody joins or leaves, when a right ends, and when
time passes. Whoever holds a key may read whatever is sealed with it, so the
question is always whether everybody who holds it has the right to all of
that. The answers are those of the dissertation's figure 7.6:

    joins    with a right that held when the key was last refreshed    no refresh
             and ever since
    joins    with a right that began later                             at once
    leaves   with a right that ends before the next periodic refresh   when the right ends
    leaves   with a right that outlasts it                             with the periodic refresh

A right that ends while its holder is a member, and one that is taken away,
call for a refresh at once; a timer limits how much is sealed with one key.
Every moment is worked out beforehand, and nothing is polled.
"""

from __future__ import annotations

from enum import Enum

from maia.events import INSTANT_MAX, Instant

__all__ = ["Refresh", "joining_calls_for_refresh", "periodic_at"]

_SECOND = 1_000_000


class Refresh(Enum):
    """Why a key was refreshed: for the log and the metrics."""

    FIRST = "first"
    JOIN = "join"
    EXPIRY = "expiry"
    EVICTION = "eviction"
    TIMER = "timer"
    ADOPTED = "adopted"


def joining_calls_for_refresh(*, was_used: bool, holds_it: bool, held_right_since_refresh: bool) -> bool:
    """Say whether somebody who joins may not be handed the key as it is.

    `was_used` says whether anybody was ever handed this key: one that nobody had
    protects nothing yet. `holds_it` is somebody who comes back.
    """
    return was_used and not holds_it and not held_right_since_refresh


def periodic_at(refreshed_at: Instant, refresh_s: int, *, together: bool = False) -> Instant:
    """Return when a key is refreshed even if nobody comes or goes.

    Types that are refreshed together are so at moments that do not depend on when each was last.
    """
    period = refresh_s * _SECOND
    since = refreshed_at - refreshed_at % period if together else refreshed_at
    return Instant(min(INSTANT_MAX, since + period))
