"""Who is the peer of a link, by which identity statement, and what happens when that changes?

A peer shows its statement when it opens a statement link, or with `Identify` on any ready link, and
renews it there (Gismo 4). `hold_identity` is the one place where `Link.identity` changes, so the
attributes of a new statement act from the next frame on. A statement that is refused changes nothing:
the one before it counts until it expires. Expiry ends a link that a statement has opened; a TLS
link goes on without attributes, because its peer was admitted by certificates alone.
A broker shows its own statement to other brokers before anything else, and renewed ones while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.broker.refusals import OutOfTurn
from maia.broker.sessions.close import close_link
from maia.broker.sessions.demands import DemandNotMet, check_demand
from maia.broker.sessions.links import Link, Role
from maia.broker.state import BrokerState, just_after
from maia.broker.timers import IdentityExpires
from maia.credentials.chains.budget import BYTES_PER_STEP, STEPS_PER_CHECK
from maia.credentials.identity import (
    IdentityNotInForce,
    SignedIdentity,
    VerifiedIdentity,
    pack_identity,
)
from maia.errors import MaiaError, Refusal
from maia.events import Instant
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, Note, Send
from maia.wire.messages import Accepted, Failed, Identify


class NoIdentityTrust(Refusal):
    """A peer showed an identity statement, and this broker's configuration trusts no identity provider."""

    code = "REFUSED-NO-IDENTITY-TRUST"


def hold_identity(state: BrokerState, link: Link, identity: VerifiedIdentity | None) -> None:
    """Let a verified statement take the place of the one before it, and expire with it."""
    link.identity = identity
    state.identities.hold(link.id, None if identity is None else identity.statement)
    link.statement = b"" if identity is None else pack_identity(identity.signed)
    ends = None if identity is None else just_after(identity.statement.not_after)
    state.timers.reset(IdentityExpires(link.id), ends)


def receive_identity(state: BrokerState, link: Link, message: Identify, now: Instant) -> list[Effect]:
    """Verify a statement that a peer shows about itself, and hold it; raise if it does not count here."""
    trust = state.settings.identity
    if trust is None:
        raise NoIdentityTrust("this broker believes no identity provider; see `identity.providers`")
    state.authoriser.meter.used += STEPS_PER_CHECK + len(message.statement) // BYTES_PER_STEP
    verified = trust.verified(message.statement, link.peer, now)
    hold_identity(state, link, verified)
    said = verified.statement
    fields = {"link": link.id, "peer": str(link.peer), "identifier": said.identifier}
    return [
        Send(link.id, encode(Accepted(message.id, +said.not_after))),
        Note("identified", {**fields, "until": str(said.not_after)}),
    ]


def receive_identity_of_broker(
    state: BrokerState, link: Link, message: Identify, now: Instant
) -> list[Effect]:
    """Take the statement of a neighbour; a bad one is answered, and costs it neither link nor routes."""
    try:
        effects = receive_identity(state, link, message, now)
    except MaiaError as problem:
        return [
            Send(link.id, encode(Failed(message.id, problem.code, problem.message))),
            Count("maia_identities_refused_total", labels={"code": problem.code}),
        ]
    check_demand(state, link)
    return effects


def receive_identity_before_welcome(
    state: BrokerState, link: Link, message: Identify, now: Instant
) -> list[Effect]:
    """Take the statement that a broker shows in the handshake, once; a bad one counts as none."""
    if link.has_shown_identity:
        raise OutOfTurn("one identity statement is shown in a handshake")
    link.has_shown_identity = True
    if state.settings.identity is None or link.ends_with_identity:
        return []
    try:
        state.authoriser.meter.used += STEPS_PER_CHECK + len(message.statement) // BYTES_PER_STEP
        hold_identity(state, link, state.settings.identity.verified(message.statement, link.peer, now))
    except MaiaError as problem:
        fields = {"link": link.id, "peer": str(link.peer), "code": problem.code, "why": problem.message}
        return [Note("identity-not-believed", fields)]
    return []


def show_own_identity(state: BrokerState, identity: SignedIdentity, links: Iterable[Link]) -> list[Effect]:
    """Hold a renewed statement of this broker; show it to brokers, and where a link would end with it."""
    state.own_identity = pack_identity(identity)
    return [
        effect
        for link in links
        if link.is_ready and (link.role is Role.BROKER or link.ends_with_identity)
        for effect in introduce_self(state, link)
    ]


def introduce_self(state: BrokerState, link: Link) -> list[Effect]:
    """Show this broker's statement to a peer."""
    return [Send(link.id, encode(Identify(0, state.own_identity)))] if state.own_identity else []


def receive_identity_answer(
    state: BrokerState, link: Link, message: Accepted | Failed, now: Instant
) -> list[Effect]:
    """Take note of what a neighbour says of this broker's own statement."""
    del state, now
    if isinstance(message, Accepted):
        return []
    fields = {"link": link.id, "peer": str(link.peer), "code": message.code, "why": message.message}
    return [Note("identity-refused", fields)]


def expire_identity(state: BrokerState, link: Link, now: Instant) -> list[Effect]:
    """End a link whose statement has expired, or on a TLS link the attributes alone."""
    hold_identity(state, link, None)
    if link.ends_with_identity:
        problem = IdentityNotInForce(
            "your identity statement has expired; get a new one from your provider, and connect again"
        )
        counted = Count("maia_links_refused_total", labels={"code": problem.code})
        return [counted, *close_link(state, link, problem, now)]
    expired = Note("identity-expired", {"link": link.id, "peer": str(link.peer)})
    try:
        check_demand(state, link)
    except DemandNotMet as lost:
        counted = Count("maia_links_refused_total", labels={"code": lost.code})
        return [expired, counted, *close_link(state, link, lost, now)]
    return [expired]
