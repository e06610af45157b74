"""What does a domain forget?

What ended so long ago that no clock in the network can still take it for
valid. A little at a time, so that no turn is long.
"""

from __future__ import annotations

from typing import Final

from maia.domain.access.idempotency import forget_old
from maia.domain.access.settings import AccessSettings
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import APPOINTMENTS, MEMBERSHIPS, RIGHTS, SUPPORTS, TESTERS
from maia.events import Instant

__all__ = ["forget_expired"]

_AT_ONCE: Final = 200
_SECOND: Final = 1_000_000


def forget_expired(tables: Tables, now: Instant, settings: AccessSettings) -> None:
    """Forget some of what expired long ago."""
    forget_old(tables, now)
    long_ago = now - settings.kept_s * _SECOND
    rights = tables.find(RIGHTS, RIGHTS.c.not_after <= long_ago, limit=_AT_ONCE, order=RIGHTS.c.not_after)
    memberships = tables.find(
        MEMBERSHIPS, MEMBERSHIPS.c.until <= long_ago, limit=_AT_ONCE, order=MEMBERSHIPS.c.until
    )
    gone = (*(row.id for row in rights), *(row.id for row in memberships))
    tables.delete_in(SUPPORTS, SUPPORTS.c.dependent, gone)
    tables.delete_in(RIGHTS, RIGHTS.c.id, (row.id for row in rights))
    tables.delete_in(MEMBERSHIPS, MEMBERSHIPS.c.id, (row.id for row in memberships))
    # A certificate on a membership ends with it, so the membership has gone before, or goes now.
    appointments = tables.find(
        APPOINTMENTS, APPOINTMENTS.c.not_after <= long_ago, limit=_AT_ONCE, order=APPOINTMENTS.c.not_after
    )
    ids = [
        row.id
        for row in appointments
        if not row.membership or tables.get(MEMBERSHIPS, row.membership) is None
    ]
    tables.delete_in(APPOINTMENTS, APPOINTMENTS.c.id, ids)
    tables.delete_in(TESTERS, TESTERS.c.certificate, ids)
