"""What of a sealed type may a neighbour read anyway?

It is decided from the certificates that the neighbour showed, sealed for the type's members, and holds
until one of them begins or ends (A51).
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.links.links import Link, Share
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.credentials import VerificationCache
from maia.events import Instant
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, MemberGrounds, standing
from maia.types import Sealing


@dataclass(slots=True, eq=False, repr=False)
class Shares:
    """What neighbours may read of sealed types."""

    own: Own
    certificates: VerificationCache
    authoriser: Authoriser
    types: KnownTypes
    statements: ValidityTracker

    def share_of(self, link: Link, type_id: bytes, sealing: Sealing, now: Instant) -> frozenset[str]:
        """Return the uids (empty: whole events) that the broker at the other end of a link may read."""
        versions = self.types.versions(type_id)
        known = link.shares.get(type_id)
        if known is None or not known.holds(now, self.authoriser.epoch, len(versions)):
            claim = Claim(
                link.peer,
                versions[-VERSIONS_MAX:],
                self.authoriser.pool(link.shown, link.rights.get(type_id, ())),
            )
            settings = self.own.settings
            statements = self.statements
            grounds = MemberGrounds(
                sealing.level, settings.bounds, settings.constitutions, self.certificates, statements.monitor
            )
            found = standing(claim, grounds, now)
            resting = frozenset(signed.id for signed in claim.pool)
            statements.met(claim.pool, resting)
            statements.dependencies.note(link.id, resting)
            uids = frozenset(group.uid or "" for group in found.groups)
            known = Share(uids, found.since, found.until, self.authoriser.epoch, len(versions))
            link.shares[type_id] = known
        return known.uids
