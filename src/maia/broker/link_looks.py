"""When does a link have to be looked at: is the handshake over, may the peer still connect?"""

from __future__ import annotations

from typing import Final

from maia.broker.sessions import Link
from maia.broker.state import BrokerState, Due, just_after, seconds_after
from maia.events import Instant

__all__ = ["ask_to_look_at_link", "next_look_at_right_to_connect"]

_HOUR_S: Final = 3600


def ask_to_look_at_link(state: BrokerState, link: Link, at: Instant | None) -> None:
    """Have a link looked at, or not at all; an earlier wish is forgotten."""
    link.look_at = at
    if at is not None:
        state.deadlines.ask(at, Due(link.id, None, at))


def next_look_at_right_to_connect(link: Link, now: Instant) -> Instant | None:
    """Return when the right to connect of a peer has to be asked about again.

    Within the hour, so that links that came and went leave no wishes behind for years.
    """
    if link.connect is None or link.connect.stable.not_after is None:
        return None
    ends = min(just_after(link.connect.stable.not_after), seconds_after(now, _HOUR_S))
    vouched = link.connect.vouched
    return ends if vouched is None or vouched.ask_at <= now else min(ends, vouched.ask_at)
