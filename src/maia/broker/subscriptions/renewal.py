"""How does a client keep a thousand subscriptions alive without asking for each of them again?

It says once in half a lease that all still stands, as neighbouring brokers do
among each other. The link has proved who says it, what it says concerns
nothing but this link, and nothing that has ended comes back by it, so there
is nothing to sign and nothing to replay (A65). Rights are not asked about
here: each is looked at when it ends, renewed or not.
"""

from __future__ import annotations

from typing import Final

from maia.broker.refusals import StandsOtherwise
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState, just_after
from maia.broker.subscriptions.registry import ask_to_look_at_entries, lease_end
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Accepted, RenewAll
from maia.wire.requests import digest_of_request, digest_of_standing

__all__ = ["price_of_renewal", "renew_all"]

_ENTRIES_FOR_A_REQUEST: Final = 64
"""Renewing so many entries costs about as much as one request; the client's quota pays for them so."""


def price_of_renewal(link: Link) -> int:
    """Return how many requests it counts for that a client renews all that stands on a link."""
    return 1 + (len(link.subscriptions) + len(link.advertisements)) // _ENTRIES_FOR_A_REQUEST


def renew_all(state: BrokerState, link: Link, message: RenewAll, now: Instant) -> list[Effect]:
    """Begin every lease on a link anew, if client and broker agree on what stands there."""
    entries = link.entries
    if len(entries) != message.entries or _digest(link) != message.digest:
        raise StandsOtherwise("something else stands on this link: ask for each of it again")
    # A definition may have ended meanwhile, and then nobody renews what is asked of it.
    for name in {entry.right.event_type.name for entry in entries}:
        state.types.resolve(name, (), now)
    ends = lease_end(state, link, now)
    for entry in entries:
        entry.lease_ends = ends
    # A right may end within the lease that begins now, and then it is looked at before the lease ends (A35).
    for right_ends in {entry.right.stable.not_after for entry in entries}:
        at = ends if right_ends is None else min(ends, just_after(right_ends))
        ask_to_look_at_entries(state, link, at)
    return [Send(link.id, encode(Accepted(message.id, None)))]


def _digest(link: Link) -> bytes:
    return digest_of_standing((entry.ref, digest_of_request(entry.proof)) for entry in link.entries)
