"""Would this act make the domain hold sub-domains and brokers at once?

The policy in force says what the server itself issues. What was signed by
hand with the domain's key, and registered here, counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.credentials import SignedCertificate, certificate_from_bytes
from maia.domain.access.refusals import TiersMixed
from maia.domain.access.results import EntryKind
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import RIGHTS, valid_rights
from maia.events import Instant
from maia.roles import Policy
from maia.roles.tiers import Tier, tier_of_certificate, tier_of_grant

__all__ = ["check_tiers"]

_SIGNED_BY_HAND_MAX: Final = 1 << 14


def check_tiers(
    tables: Tables, policy: Policy | None, now: Instant, new: Iterable[SignedCertificate] = ()
) -> None:
    """Refuse certificates of the domain, or a policy, that do not go with what it holds already."""
    found: dict[Tier, str] = {}
    if policy is not None:
        for grant in (one for some in policy.grants.values() for one in some):
            tier = tier_of_grant(grant, policy.domain)
            if tier is not None:
                found.setdefault(tier, f"the grant to `{grant.role}` in {grant.place}")
    where = (RIGHTS.c.kind == EntryKind.ISSUED.value, RIGHTS.c.membership == b"", *valid_rights(now))
    rows = tables.find(RIGHTS, *where, limit=_SIGNED_BY_HAND_MAX, order=RIGHTS.c.number)
    for signed in (*(certificate_from_bytes(row.certificate) for row in rows), *new):
        tier = tier_of_certificate(signed.certificate)
        if tier is not None:
            found.setdefault(tier, f"certificate {signed.id.hex()[:16]}…")
    if len(found) > 1:
        one, other = (f"{tier.value} by {why}" for tier, why in found.items())
        raise TiersMixed(
            f"a domain holds sub-domains or brokers, never both; it would hold {one}, and {other}"
        )
