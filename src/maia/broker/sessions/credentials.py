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

from collections.abc import Iterable
from typing import Final

from maia.broker.refusals import TooManyEntries
from maia.broker.revocation.streams import receive_statement
from maia.broker.sessions.links import Link
from maia.broker.state import BrokerState
from maia.broker.subscriptions.recheck import decide_again
from maia.credentials import (
    SignedCertificate,
    SignedStatement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.events import Instant
from maia.policy import PolicyRefusal
from maia.types import validity_type_id
from maia.wire.codec import encode
from maia.wire.effects import Effect, LinkId, Send
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import Accepted, Show

__all__ = ["hear_held", "hold_statements", "price_of_showing", "show", "show_own_statements"]

_SHOWN_MAX: Final = 64
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
    hold_statements(state, link, message.statements)
    effects = hear_held(state, link, now)
    if len(together) > len(link.shown):
        link.shown = together
        for entry in link.entries:
            right = entry.right
            state.authoriser.expect(
                right.principal, right.basis.action, right.basis.resource, (*right.pool, *shown), now
            )
        effects += hear_held(state, link, now)
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


def hold_statements(state: BrokerState, link: Link, statements: Iterable[bytes]) -> None:
    """Read statements that a peer has shown, and hold them until it is known what they could be about."""
    limits = state.settings.limits
    for data in statements:
        statement_from_bytes(data)  # refused if it is none; what was read takes many times the memory
        link.statements.append(data)
    del link.statements[: -limits.statements_shown]
    while sum(map(len, link.statements)) > limits.statement_bytes_shown:
        del link.statements[0]


def hear_held(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """Hear the statements of a peer by those to whom this broker has a reason to listen."""
    heard: list[SignedStatement] = []
    held: list[bytes] = []
    for data in link.statements:
        signed = statement_from_bytes(data)
        if validity_type_id(signed.statement.by) in state.statements.streams:
            heard.append(signed)
        else:
            held.append(data)
    link.statements = held
    return [effect for signed in heard for effect in receive_statement(state, signed, now)]


def show_own_statements(state: BrokerState, link: LinkId, now: Instant) -> list[Effect]:
    """Show a peer, before our own certificates, the statements by which they still count."""
    standing, own = state.statements.standing, state.settings.credentials
    found = [
        statement_to_bytes(signed)
        for by in sorted(standing.testers(own), key=lambda one: one.key)
        for signed in standing.statements(by, now)
    ]
    if not found or len(found) > _SHOWN_MAX or sum(map(len, found)) > HANDSHAKE_BYTES_MAX // 2:
        return []
    return [Send(link, encode(Show(0, [], found)))]
