"""What have other domains said about their audits?

Every list of revocations states how long its domain's audit is, and its
digest. This domain keeps what it hears. When the other one is asked to show
its audit, the audit must lead through all of it (`audit.check_against`). Two
digests for one length, or an audit that became shorter, are noticed at once.
"""

from __future__ import annotations

from typing import Final

from maia.credentials import Principal
from maia.credentials.validity.statements import AuditHead, RevocationList, Statement
from maia.domain.access.audit import AuditForked, AuditTruncated
from maia.domain.access.results import Page
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import WITNESSED, WitnessRow
from maia.errors import BrokenCredential

__all__ = ["bear_witness", "witnessed_heads"]

_HEADS_MAX: Final = 10_000
"""How many heads of one domain are kept; beyond, every second of the older ones is forgotten."""


def bear_witness(turn: UnitOfWork, said: Statement) -> BrokenCredential | None:
    """Keep the head inside a list; return what contradicts earlier ones."""
    if not isinstance(said, RevocationList) or said.audit is None:
        return None
    head, by = said.audit, said.by.key
    row = WitnessRow(by, head.length, head.digest, said.sequence, turn.now)
    known = turn.tables.find(WITNESSED, WITNESSED.c.issuer == by, WITNESSED.c.length == head.length, limit=2)
    if any(one.digest == head.digest for one in known):
        return None
    longest = turn.tables.find(
        WITNESSED, WITNESSED.c.issuer == by, limit=1, order=WITNESSED.c.length, descending=True
    )
    turn.tables.put(WITNESSED, [row])
    _thin_out(turn.tables, by)
    if known:
        return AuditForked(f"`{said.by}` states two audits of {head.length} records")
    if longest and longest[0].length > head.length and longest[0].sequence < said.sequence:
        return AuditTruncated(
            f"the audit of `{said.by}` had {longest[0].length} records, and now has {head.length}"
        )
    return None


def witnessed_heads(tables: Tables, by: Principal, after: int | None, limit: int) -> Page[AuditHead]:
    """Return the heads of a domain, the shortest first."""
    rows = tables.find(
        WITNESSED, WITNESSED.c.issuer == by.key, limit=limit, order=WITNESSED.c.length, after=after
    )
    found = tuple(AuditHead(row.length, row.digest) for row in rows)
    return Page(found, str(rows[-1].length) if len(rows) == limit else None)


def _thin_out(tables: Tables, by: bytes) -> None:
    if tables.count(WITNESSED, WITNESSED.c.issuer == by) <= _HEADS_MAX:
        return
    older = tables.find(WITNESSED, WITNESSED.c.issuer == by, limit=_HEADS_MAX // 2, order=WITNESSED.c.length)
    for row in older[1::2]:
        tables.delete(
            WITNESSED,
            WITNESSED.c.issuer == by,
            WITNESSED.c.length == row.length,
            WITNESSED.c.digest == row.digest,
        )
