"""Does this call for a new key, and if so, when?

A manager asks whenever a member joins or leaves, when a right ends, and when
time passes. A holder of a key may read whatever is sealed with it, so the
question is always whether every holder has the right to all of
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

from maia.events import SECOND, Instant, seconds_after

__all__ = ["Refresh", "joining_calls_for_refresh", "periodic_at"]


class Refresh(Enum):
    """Why a key was refreshed: for the log and the metrics."""

    FIRST = "first"
    JOIN = "join"
    EXPIRY = "expiry"
    EVICTION = "eviction"
    TIMER = "timer"
    ADOPTED = "adopted"


def joining_calls_for_refresh(*, was_used: bool, holds_it: bool, held_right_since_refresh: bool) -> bool:
    """Return whether a joining member may not receive the key as it is.

    `was_used` says whether any member ever received this key: one that no member had
    protects nothing yet. `holds_it` is a member that comes back.
    """
    return was_used and not holds_it and not held_right_since_refresh


def periodic_at(refreshed_at: Instant, refresh_s: int, *, together: bool = False) -> Instant:
    """Return when a key is refreshed even if no member joins or leaves.

    Types that are refreshed together are so at moments that do not depend on when each was last.
    """
    since = refreshed_at - refreshed_at % (refresh_s * SECOND) if together else refreshed_at
    return seconds_after(Instant(since), refresh_s)
