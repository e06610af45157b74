"""What of a sealed frame may a neighbour have in the clear?

Exactly the attributes to which the certificates that it showed, sealed for
the type's members, open the key group: it could open the ciphertext itself,
and is spared the work (K4; dissertation 7.4). The answer holds until one of
these certificates begins or ends, and is then worked out anew, so that
plaintext stops at the first link without the right and when a right lapses
(A51).
"""

from __future__ import annotations

from maia.broker.sessions.links import Link, Share
from maia.broker.state import BrokerState
from maia.events import Instant
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, Grounds, standing
from maia.types import Sealing

__all__ = ["share_of"]


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
        told = state.statements
        grounds = Grounds(
            sealing.level, settings.bounds, settings.constitutions, state.certificates, told.standing
        )
        found = standing(claim, grounds, now)
        resting = frozenset(signed.id for signed in claim.pool)
        told.met(claim.pool, resting)
        told.reliance.note(link.id, resting)
        uids = frozenset(group.uid or "" for group in found.groups)
        known = Share(uids, found.since, found.until, state.authoriser.epoch, len(versions))
        link.shares[type_id] = known
    return known.uids
