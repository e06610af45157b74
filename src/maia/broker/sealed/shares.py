"""What of a sealed type may a neighbour read anyway?

It is decided from the certificates that the neighbour showed, sealed for the type's members, and holds
until one of them begins or ends (A51).
"""

from __future__ import annotations

from maia.broker.sessions.links import Link, Share
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, Grounds, standing
from maia.types import Sealing


def share_of(
    state: BrokerState, link: Link, type_id: bytes, sealing: Sealing, now: Instant
) -> frozenset[str]:
    """Return the uids (empty: whole events) that the broker at the other end of a link may read."""
    versions = state.types.versions(type_id)
    known = link.shares.get(type_id)
    if known is None or not known.holds(now, state.authoriser.epoch, len(versions)):
        claim = Claim(
            link.peer,
            versions[-VERSIONS_MAX:],
            state.authoriser.pool(link.shown, link.rights.get(type_id, ())),
        )
        settings = state.settings
        statements = state.statements
        grounds = Grounds(
            sealing.level, settings.bounds, settings.constitutions, state.certificates, statements.monitor
        )
        found = standing(claim, grounds, now)
        resting = frozenset(signed.id for signed in claim.pool)
        statements.met(claim.pool, resting)
        statements.dependencies.note(link.id, resting)
        uids = frozenset(group.uid or "" for group in found.groups)
        known = Share(uids, found.since, found.until, state.authoriser.epoch, len(versions))
        link.shares[type_id] = known
    return known.uids
