"""When does a link have to be looked at: is the handshake over, may the peer still connect, is it read?"""

from __future__ import annotations

from typing import Final

from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState, just_after, seconds_after
from maia.broker.timers import CheckLink
from maia.events import Instant
from maia.wire.effects import Count, Effect, ReadLater

_HOUR_S: Final = 3600
_READ_LATER_S: Final = 10
"""How long a broker that owes work is not read at most: a message that has begun must end in time."""


def ask_to_look_at_link(state: BrokerState, link: Link, at: Instant | None) -> None:
    """Have a link looked at, or not at all; an earlier wish is forgotten."""
    state.timers.reset(CheckLink(link.id), at)


def next_look_at_right_to_connect(link: Link, now: Instant) -> Instant | None:
    """Return when the right to connect of a peer has to be asked about again.

    Within the hour, so that links that came and went leave no wishes behind for years.
    """
    if link.connect is None or link.connect.stable.not_after is None:
        return None
    ends = min(just_after(link.connect.stable.not_after), seconds_after(now, _HOUR_S))
    vouched = link.connect.vouched
    return ends if vouched is None or vouched.ask_at <= now else min(ends, vouched.ask_at)


def read_later(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Read nothing more from a broker that has caused more work than its share, until that is paid (A87)."""
    paid_at = state.broker_quota.paid_at(link.peer, now)
    if paid_at is None:
        return []
    until = min(paid_at, seconds_after(now, _READ_LATER_S))
    return [ReadLater(link.id, until), Count("maia_links_slowed_total")]
