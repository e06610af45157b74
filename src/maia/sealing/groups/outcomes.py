"""What follows from a change in the key groups of a type, and which members must be sent what?

The manager of the groups answers in these terms. A key server turns them into
messages; tests read them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from maia.credentials import Principal
from maia.errors import Refusal, Unavailable
from maia.events import SECOND, Instant, seconds_after
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.epochs import SignedEpoch
from maia.sealing.keys.parcels import GroupWelcome

# Does this call for a new key, and if so, when?


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


class NoGroupOpen(Refusal):
    """No certificate lets the principal publish or subscribe to anything of this type at this moment."""

    code = "REFUSED-NO-KEY-GROUP"


class HistoryNotKept(Refusal):
    """The keys of this type are destroyed when their time is over."""

    code = "REFUSED-NO-HISTORY"


class MembersFull(Unavailable):
    """The key groups of the type have as many members as they may."""

    code = "UNAVAILABLE-GROUP-MEMBERS"


class GroupsForked(Unavailable):
    """A member holds an epoch that was signed with this manager's key, and not by this manager."""

    code = "UNAVAILABLE-GROUPS-FORKED"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything that one member may hold, for its eyes alone, and the signed epochs it needs."""

    member: Principal
    parcel: GroupWelcome
    epochs: tuple[SignedEpoch, ...]
    until: Instant | None
    """The last moment of the right to it, as far as is known; None for ever."""
    is_cut: bool = False
    """Whether a limit kept some of its certificates from being counted."""


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """A new epoch, for every member that is here; a delivery to one member takes its place."""

    epoch: SignedEpoch
    parts: tuple[tuple[GroupId, bytes], ...]
    why: Mapping[Refresh, int]
    """How many groups were refreshed for which reason."""


@dataclass(frozen=True, slots=True)
class ShutOut:
    """A member has no right to these groups any more."""

    member: Principal
    groups: frozenset[GroupId]
    is_evicted: bool
    is_out: bool
    """Whether no group is left to it."""


Outcome: TypeAlias = Delivery | NewEpoch | ShutOut


@dataclass(slots=True)
class Distrusted:
    """Whom and what the domain believes no more, whatever certificates say."""

    evicted: set[Principal] = field(default_factory=set)
    readmitted: dict[Principal, Instant] = field(default_factory=dict)
    """Who was let in again, and since when: its right counts from that moment on."""
    revoked: set[bytes] = field(default_factory=set)
    """The ids of certificates."""

    def readmit(self, principal: Principal, now: Instant) -> bool:
        """Trust a principal again; return whether it was distrusted."""
        was_evicted = principal in self.evicted
        if was_evicted:
            self.evicted.discard(principal)
            self.readmitted[principal] = now
        return was_evicted
