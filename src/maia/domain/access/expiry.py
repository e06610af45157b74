"""What does a domain forget?

What ended so long ago that no clock in the network can still take it for
valid. A little at a time, so that no turn is long.
"""

from __future__ import annotations

from typing import Final

from maia.domain.access.idempotency import forget_old
from maia.domain.access.settings import AccessSettings
from maia.domain.storage.store import OneOf, Tables, Until
from maia.domain.storage.tables import APPOINTMENTS, MEMBERSHIPS, RIGHTS, SUPPORTS, TESTERS
from maia.events import Instant

__all__ = ["forget_expired"]

_AT_ONCE: Final = 200
_SECOND: Final = 1_000_000


def forget_expired(tables: Tables, now: Instant, settings: AccessSettings) -> None:
    """Forget some of what expired long ago."""
    forget_old(tables, now)
    long_ago = Until(now - settings.kept_s * _SECOND)
    rights = tables.find(RIGHTS, {"not_after": long_ago}, limit=_AT_ONCE, order="not_after")
    memberships = tables.find(MEMBERSHIPS, {"until": long_ago}, limit=_AT_ONCE, order="until")
    gone = (*(row.id for row in rights), *(row.id for row in memberships))
    tables.delete(SUPPORTS, {"dependent": OneOf(gone)})
    tables.delete(RIGHTS, {"id": OneOf(tuple(row.id for row in rights))})
    tables.delete(MEMBERSHIPS, {"id": OneOf(tuple(row.id for row in memberships))})
    # A certificate on a membership ends with it, so the membership has gone before, or goes now.
    appointments = tables.find(APPOINTMENTS, {"not_after": long_ago}, limit=_AT_ONCE, order="not_after")
    ids = OneOf(tuple(row.id for row in appointments if _is_free(tables, row.membership)))
    tables.delete(APPOINTMENTS, {"id": ids})
    tables.delete(TESTERS, {"certificate": ids})


def _is_free(tables: Tables, membership: bytes) -> bool:
    return not membership or tables.get(MEMBERSHIPS, membership) is None
