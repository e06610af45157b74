"""What follows when this broker's own certificates, or the constitutions that it knows, change?

A domain renews what it issued to its brokers and puts it where they read it
(dissertation 6.5.2: pushed, for it is the domain's interest that its brokers
can work). The new certificates take the place of the old ones at once: for
the next greeting, for keys, for the broker's own interests. Links stay open;
a neighbour that stops accepting an old certificate is met again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from maia.broker.interests.impairment import Impairments
from maia.broker.interests.interests import Interests
from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import KeyRequests
from maia.broker.links.links import (
    Link,
    Role,
)
from maia.broker.own import Own, shown_to_every_peer
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.close import Connections
from maia.broker.sessions.entries import Entries
from maia.broker.sessions.revocation import Revocation
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate, VerifiedConstitution
from maia.errors import BrokenCredential, Unavailable
from maia.wire.effects import LinkId


@dataclass(slots=True, eq=False, repr=False)
class OwnRights:
    """The certificates and constitutions by which this broker works."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    keys: KeyRequests
    statements: ValidityTracker
    router: Router
    links: dict[LinkId, Link]
    impairments: Impairments
    interests: Interests
    entries: Entries
    revocation: Revocation
    connections: Connections

    def recheck_everything(self, turn: Turn) -> None:
        """Decide every right again: evidence for or against any of them may have changed."""
        self.authoriser.evidence_changed()
        self.keys.evidence_changed()
        self.impairments.changed.update(self.types.sealed())
        for type_id in self.types.sealed():
            self.keys.look_for(type_id, turn)
        self.interests.recheck_own_interests(turn)
        for link in list(self.links.values()):
            if link.is_ready:
                self.connections.recheck(link, turn)
            for entry in link.entries:
                self.entries.recheck_entry(link, entry, turn)

    def hold_certificates(self, certificates: tuple[SignedCertificate, ...], turn: Turn) -> None:
        """Put these certificates in the place of the broker's own."""
        before = {one.id for one in self.own.settings.credentials}
        changed = before ^ {one.id for one in certificates}
        if not changed:
            return
        makers = self.authoriser.makers(self.own.principal, self.own.settings.credentials, turn.now)
        self.own.settings = replace(self.own.settings, credentials=certificates)
        if makers != self.authoriser.makers(self.own.principal, certificates, turn.now):
            self._meet_brokers_again(turn)
        self.own.shown[:] = shown_to_every_peer(certificates)
        self.keys.hold(certificates, turn)
        self.revocation.meet_own_certificates()
        self.interests.recheck_own_interests(turn, is_touched=True)  # also by one that was taken away
        turn.note("own-certificates", new=len(changed - before), held=len(certificates))
        turn.count("maia_own_certificates_changed_total")

    def _meet_brokers_again(self, turn: Turn) -> None:
        """Part from all brokers: who is inside, and who is beyond a border, is another question now."""
        for link in list(self.links.values()):
            if link.role is Role.BROKER:
                self.connections.closing.close_link(
                    link,
                    Unavailable("UNAVAILABLE-BROKER-OF-ANOTHER", "this broker is another organisation's now"),
                    turn,
                )

    def adopt_constitutions(self, constitutions: tuple[VerifiedConstitution, ...], turn: Turn) -> None:
        """Ask these constitutions from now on: what rested on a member that was replaced ends at once."""
        known = {one.quorum: one for one in self.own.settings.constitutions}
        for one in constitutions:
            before = known.get(one.quorum, one)
            if one != before and one.sequence <= before.sequence:
                raise BrokenCredential(
                    "CREDENTIAL-CONSTITUTION-STALE",
                    f"constitution number {one.sequence} of `{one.quorum}` was shown, "
                    f"and number {before.sequence} is in force here",
                )
            known[one.quorum] = one
        in_force = tuple(known.values())
        if in_force == self.own.settings.constitutions:
            return
        self.own.settings = replace(self.own.settings, constitutions=in_force)
        self.authoriser.adopt(in_force)
        self.types.adopt(in_force)
        self.keys.adopt(in_force)
        named = ", ".join(f"{one.quorum} number {one.sequence}" for one in in_force)
        turn.note("constitutions", in_force=named)
        self.recheck_everything(turn)
        for link in list(self.links.values()):
            if link.role is Role.BROKER and self.routes.is_current(link.id):
                # Its entries are proved again in a moment: its own edge may not have got the constitution.
                relied_on = tuple(self.statements.dependencies.certificates_on(link.id))
                self.router.doubt(link, relied_on, turn)
