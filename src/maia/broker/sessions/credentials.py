"""What does a peer show beside its requests, and what does that change?

Within a session a client may show more certificates: what stands on its link
is decided again with them, so that rights widen without a reconnection. It
may show statements too, by which certificates that demand it are known to
count still (RFC 2693: whoever asks brings the evidence). A statement is heard
once a certificate was shown that leads from an owner to the peer and that it
could be about; until then it is held on the link, and there is not room for
many: anybody can sign statements.
"""

from __future__ import annotations

from typing import Final

from maia.broker.refusals import TooManyEntries
from maia.broker.revocation.streams import receive_held
from maia.broker.sessions.links import Link
from maia.broker.settings import BrokerLimits
from maia.broker.state import BrokerState
from maia.broker.subscriptions.recheck import decide_again
from maia.credentials import SignedCertificate
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.sessions.session import SessionLimits
from maia.wire.codec import encode
from maia.wire.effects import Effect, Send
from maia.wire.messages import Accepted, Show

_ENTRIES_FOR_A_REQUEST: Final = 2
"""Deciding so many entries again costs about as much as a request; the client's quota pays for them so."""


def price_of_showing(link: Link, message: Show) -> int:
    """Return how many requests it counts for that a client shows something."""
    again = len(link.subscriptions) + len(link.advertisements) if message.certificates else 0
    return 1 + again // _ENTRIES_FOR_A_REQUEST


def show(state: BrokerState, link: Link, message: Show, now: Instant) -> list[Effect]:
    """Take note of what a client shows, and decide again what stands on its link."""
    shown = state.authoriser.pool(message.certificates)
    most = state.settings.limits.certificates_shown
    together = tuple(dict.fromkeys((*link.shown, *message.certificates)))
    if len(together) > most:
        raise TooManyEntries(f"a peer shows at most {most} certificates within a session")
    most = state.settings.limits.certificate_bytes_shown
    if sum(map(len, together)) > most:
        raise TooManyEntries(f"the certificates that a peer shows within a session have at most {most} bytes")
    link.hold(message.statements, session_limits(state.settings.limits))
    receive_held(state, link, now)
    effects: list[Effect] = []
    if len(together) > len(link.shown):
        link.shown = together
        for entry in link.entries:
            right = entry.right
            state.authoriser.expect(
                right.principal, right.basis.action, right.basis.resource, (*right.pool, *shown), now
            )
        receive_held(state, link, now)
        effects += _decided_again(state, link, shown, now)
    return [*effects, Send(link.id, encode(Accepted(message.id, None)))]


def _decided_again(
    state: BrokerState, link: Link, shown: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    # Rights that shared what they were decided from still do.
    pools: dict[int, tuple[SignedCertificate, ...]] = {}

    def joined(pool: tuple[SignedCertificate, ...]) -> tuple[SignedCertificate, ...]:
        if id(pool) not in pools:
            pools[id(pool)] = tuple({signed.id: signed for signed in (*pool, *shown)}.values())
        return pools[id(pool)]

    if link.connect is not None:
        try:
            # All that was shown: of what came with the hello, some may not have been read (A87).
            link.connect = state.authoriser.left_of(link.connect, state.authoriser.pool(link.shown), now)
        except PolicyRefusal:
            pass  # looked at when its moment comes, as ever: more evidence takes nothing away
        else:
            state.statements.dependencies.note(link.id, link.connect.watched)
    effects: list[Effect] = []
    for entry in link.entries:
        effects += decide_again(state, link, entry, joined(entry.right.pool), now)
    return effects


# ------------------------------------------------------------ statements


def session_limits(limits: BrokerLimits) -> SessionLimits:
    """Return how much this broker takes from a peer."""
    return SessionLimits(limits.bytes_before_welcome, limits.statements_shown, limits.statement_bytes_shown)
