"""Who is the peer of a link, by which identity statement, and what happens when that changes?

A peer shows its statement when it opens a statement link, or with `Identify` on any ready link, and
renews it there (Gismo 4). `hold_identity` is the one place where `Link.identity` changes, so the
attributes of a new statement act from the next frame on. A statement that is refused changes nothing:
the one before it counts until it expires. Expiry ends the link, of either kind: a connection lasts no longer
than the statement that was shown on it, unless a new one takes its place (Gismo 2.2, 4.3).
A broker shows its own statement to other brokers before anything else, and renewed ones while it runs.

What this broker demands of the routers beside it is a setting:

    [identity]
    demand = "tpm-integrity >= 2"

A demand is a requirement over the identity statement of another broker, in the
language of filters (Gismo 5: neighbours may require an assurance level, and clusters of
levels form by themselves). A broker that does not meet it is no neighbour: nothing
that it sends is looked at, and nothing is sent to it. It shows its statement in
the handshake, or has opened the link with it. A neighbour
whose statement expires, or whose new one says less, loses its link and all routes
over it, and comes back as soon as it shows one that meets the demand again.

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
from dataclasses import dataclass
from typing import Final

from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.links.links import Link, Role
from maia.broker.own import Own
from maia.broker.rights.authorisation import Circumstances
from maia.broker.rights.authoriser import Authoriser
from maia.broker.sessions.close import Closing, Connections
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.revocation import Revocation
from maia.broker.settings import BrokerLimits
from maia.broker.timers import IdentityExpires, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.credentials.chains.reduction import BYTES_PER_STEP, STEPS_PER_CHECK
from maia.credentials.identity import SignedIdentity, VerifiedIdentity, pack_identity
from maia.credentials.requirements import attributes_of_identity, is_met
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import just_after
from maia.predicates import ALWAYS, format_predicate
from maia.sessions.session import SessionLimits
from maia.wire.messages import Accepted, Failed, Identify, Show


class DemandNotMet(Refusal):
    """A broker's identity statement is not what this broker demands of its neighbours."""

    code = "REFUSED-DEMAND"


@dataclass(slots=True, eq=False, repr=False)
class PeerIdentities:
    """What peers show of themselves."""

    own: Own
    authoriser: Authoriser
    identities: LinkIdentities
    timers: TimerWheel
    entries: Entries
    closing: Closing
    connections: Connections
    revocation: Revocation

    def check_demand(self, link: Link) -> None:
        """Raise unless the peer of a link is a client, or a broker that may be a neighbour."""
        demand = self.own.settings.demand
        if demand == ALWAYS or link.role is not Role.BROKER:
            return
        stated = None if link.identity is None else link.identity.statement
        if not is_met(demand, attributes_of_identity(stated)):
            shown = "shows no identity statement" if stated is None else "has a statement that says less"
            raise DemandNotMet(
                f"this broker demands `{format_predicate(demand)}` of its neighbours, and the peer {shown}"
            )

    def hold_identity(self, link: Link, identity: VerifiedIdentity | None) -> None:
        """Let a verified statement take the place of the one before it, and expire with it."""
        link.identity = identity
        self.identities.hold(link.id, None if identity is None else identity.statement)
        link.statement = b"" if identity is None else pack_identity(identity.signed)
        for entry in link.advertisements.values():
            entry.streams.clear()  # frames go out with another statement from now on
        ends = None if identity is None else just_after(identity.statement.not_after)
        self.timers.reset(IdentityExpires(link.id), ends)

    def receive_identity(self, link: Link, message: Identify, turn: Turn) -> None:
        """Verify a statement that a peer shows about itself, and hold it; raise if it does not count here."""
        trust = self.own.settings.identity
        if trust is None:
            raise Refusal(
                "REFUSED-NO-IDENTITY-TRUST",
                "this broker believes no identity provider; see `identity.providers`",
            )
        self.authoriser.meter.used += STEPS_PER_CHECK + len(message.statement) // BYTES_PER_STEP
        verified = trust.verified(message.statement, link.peer, turn.now)
        before = link.circumstances
        self.hold_identity(link, verified)
        self._circumstances_changed(link, before, turn)
        self.entries.prove_again(link, turn)
        said = verified.statement
        turn.send(link.id, Accepted(message.id, +said.not_after))
        until, peer = str(said.not_after), str(link.peer)
        turn.note("identified", link=link.id, peer=peer, identifier=said.identifier, until=until)

    def _circumstances_changed(self, link: Link, before: Circumstances, turn: Turn) -> None:
        """Decide again what stands on a link, if its conditions could ask for what has changed."""
        if link.circumstances != before:
            for entry in link.entries:
                self.entries.decide_again(link, entry, entry.right.pool, turn)

    def receive_identity_of_broker(self, link: Link, message: Identify, turn: Turn) -> None:
        """Take the statement of a neighbour; a bad one is answered, and costs it neither link nor routes."""
        try:
            self.receive_identity(link, message, turn)
        except MaiaError as problem:
            turn.send(link.id, Failed(message.id, problem.code, problem.message))
            turn.count("maia_identities_refused_total", code=problem.code)
        else:
            self.check_demand(link)

    def receive_identity_before_welcome(self, link: Link, message: Identify, turn: Turn) -> None:
        """Take the statement that a broker shows in the handshake, once; a bad one counts as none."""
        if link.has_shown_identity:
            raise ProtocolViolation("PROTOCOL-OUT-OF-TURN", "one identity statement is shown in a handshake")
        link.has_shown_identity = True
        if self.own.settings.identity is None or link.ends_with_identity:
            return
        try:
            self.authoriser.meter.used += STEPS_PER_CHECK + len(message.statement) // BYTES_PER_STEP
            self.hold_identity(
                link, self.own.settings.identity.verified(message.statement, link.peer, turn.now)
            )
        except MaiaError as problem:
            why = problem.message
            turn.note("identity-not-believed", link=link.id, peer=str(link.peer), code=problem.code, why=why)

    def show_own_identity(self, identity: SignedIdentity, links: Iterable[Link], turn: Turn) -> None:
        """Hold a renewed statement of this broker; show it to brokers, and where a link would end with it."""
        self.own.identity = pack_identity(identity)
        for link in links:
            if link.is_ready and (link.role is Role.BROKER or link.ends_with_identity):
                self.introduce_self(link, turn)

    def introduce_self(self, link: Link, turn: Turn) -> None:
        """Show this broker's statement to a peer."""
        if self.own.identity:
            turn.send(link.id, Identify(0, self.own.identity))

    def receive_identity_answer(self, link: Link, message: Accepted | Failed, turn: Turn) -> None:
        """Take note of what a neighbour says of this broker's own statement."""
        if isinstance(message, Failed):
            why = message.message
            turn.note("identity-refused", link=link.id, peer=str(link.peer), code=message.code, why=why)

    def expire_identity(self, link: Link, turn: Turn) -> None:
        """End a link with the statement that its peer has shown, of either kind (Gismo 2.2)."""
        self.hold_identity(link, None)
        problem = BrokenCredential(
            "CREDENTIAL-IDENTITY-EXPIRED",
            "your identity statement has expired; get a new one from your provider, and connect again",
        )
        turn.count("maia_links_refused_total", code=problem.code)
        self.closing.close_link(link, problem, turn)

    def show(self, link: Link, message: Show, turn: Turn) -> None:
        """Take note of what a client shows, and decide again what stands on its link."""
        shown = self.authoriser.pool(message.certificates)
        most = self.own.settings.limits.certificates_shown
        together = tuple(dict.fromkeys((*link.shown, *message.certificates)))
        if len(together) > most:
            raise Unavailable(
                "UNAVAILABLE-ENTRY-QUOTA", f"a peer shows at most {most} certificates within a session"
            )
        most = self.own.settings.limits.certificate_bytes_shown
        if sum(map(len, together)) > most:
            raise Unavailable(
                "UNAVAILABLE-ENTRY-QUOTA",
                f"the certificates that a peer shows within a session have at most {most} bytes",
            )
        link.hold(message.statements, session_limits(self.own.settings.limits))
        self.revocation.receive_held(link, turn)
        if len(together) > len(link.shown):
            link.shown = together
            for entry in link.entries:
                right = entry.right
                self.authoriser.expect(
                    right.principal, right.terms.action, right.terms.resource, (*right.pool, *shown), turn.now
                )
            self.revocation.receive_held(link, turn)
            self._decide_again(link, shown, turn)
        turn.send(link.id, Accepted(message.id, None))

    def _decide_again(self, link: Link, shown: tuple[SignedCertificate, ...], turn: Turn) -> None:
        # Rights that shared what they were decided from still do.
        pools: dict[int, tuple[SignedCertificate, ...]] = {}

        def joined(pool: tuple[SignedCertificate, ...]) -> tuple[SignedCertificate, ...]:
            if id(pool) not in pools:
                pools[id(pool)] = tuple({signed.id: signed for signed in (*pool, *shown)}.values())
            return pools[id(pool)]

        self.connections.show_more(link, turn)
        for entry in link.entries:
            self.entries.decide_again(link, entry, joined(entry.right.pool), turn)


_ENTRIES_FOR_A_REQUEST: Final = 2
"""Deciding so many entries again costs about as much as a request; the client's quota pays for them so."""


def price_of_showing(link: Link, message: Show) -> int:
    """Return how many requests it counts for that a client shows something."""
    again = len(link.subscriptions) + len(link.advertisements) if message.certificates else 0
    return 1 + again // _ENTRIES_FOR_A_REQUEST


# ------------------------------------------------------------ statements


def session_limits(limits: BrokerLimits) -> SessionLimits:
    """Return how much this broker takes from a peer."""
    return SessionLimits(limits.bytes_before_welcome, limits.statements_shown, limits.statement_bytes_shown)
