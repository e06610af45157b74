"""How does a broker go on when its certificates are renewed?

A domain renews what it issued to its brokers and puts it where they read it
(dissertation 6.5.2: pushed, for it is the domain's interest that its brokers
can work). The new certificates take the place of the old ones at once: for
the next greeting, for keys, for what the broker itself wants. Links that stand
go on; a neighbour that stops believing an old certificate is met again.
"""

from __future__ import annotations

from dataclasses import replace

from maia.broker.revocation.streams import meet_own_certificates
from maia.broker.routing.interests import look_at_told_again
from maia.broker.routing.own_interests import look_at_own_interests_again
from maia.broker.sessions.links import Role
from maia.broker.state import BrokerState, shown_to_everybody
from maia.broker.upkeep import recheck_everything
from maia.credentials import SignedCertificate, StaleConstitution, VerifiedConstitution
from maia.events import Instant
from maia.wire.effects import Count, Effect, Note

__all__ = ["adopt_constitutions", "hold_certificates"]


def hold_certificates(
    state: BrokerState, certificates: tuple[SignedCertificate, ...], now: Instant
) -> list[Effect]:
    """Put these certificates in the place of the broker's own."""
    before = {one.id for one in state.settings.credentials}
    changed = before ^ {one.id for one in certificates}
    if not changed:
        return []
    state.settings = replace(state.settings, credentials=certificates)
    state.own_credentials[:] = shown_to_everybody(certificates)
    asked = state.keys.hold(certificates, now)
    meet_own_certificates(state)
    noted = Note("own-certificates", {"new": len(changed - before), "held": len(certificates)})
    counted = Count("maia_own_certificates_changed_total")
    return [*asked, *look_at_own_interests_again(state, changed, now), noted, counted]


def adopt_constitutions(
    state: BrokerState, constitutions: tuple[VerifiedConstitution, ...], now: Instant
) -> list[Effect]:
    """Ask these constitutions from now on: what rested on a member that was replaced ends at once."""
    known = {one.quorum: one for one in state.settings.constitutions}
    for one in constitutions:
        before = known.get(one.quorum, one)
        if one != before and one.sequence <= before.sequence:
            raise StaleConstitution(
                f"constitution number {one.sequence} of `{one.quorum}` was shown, "
                f"and number {before.sequence} is in force here"
            )
        known[one.quorum] = one
    in_force = tuple(known.values())
    if in_force == state.settings.constitutions:
        return []
    state.settings = replace(state.settings, constitutions=in_force)
    state.authoriser.adopt(in_force)
    state.types.adopt(in_force)
    state.keys.adopt(in_force)
    named = ", ".join(f"{one.quorum} number {one.sequence}" for one in in_force)
    effects = [Note("constitutions", {"in_force": named}), *recheck_everything(state, now)]
    for link in list(state.links.values()):
        if link.role is Role.BROKER and state.routes.is_current(link.id):
            # What it told is proved again in a moment: its own edge may not have got the constitution.
            relied_on = tuple(state.statements.reliance.certificates_on(link.id))
            effects += look_at_told_again(state, link, relied_on, now)
    return effects
