"""What happens within one act of the access control service?

A `UnitOfWork` is one transaction at one moment by one actor. Acts collect in it what
they revoke; at the end that becomes one revocation list and one record of the
audit, in the same transaction as everything else. A client that lost the answer
asks again with the same idempotency key, and gets the same answer: nothing is
issued twice, also after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from maia.credentials import Principal
from maia.credentials.statements import AuditHead
from maia.domain.access.audit import AUDIT_START, AuditRecord, record_of
from maia.domain.access.settings import AccessSettings, check_room
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import FOR_EVER, AnswerRow, AuditRow, MetaRow
from maia.errors import BadInput
from maia.events import SECOND, Instant
from maia.roles import RoleMembership

_AUDIT: Final = "audit"
_ANSWERS: Final = "answers"
_KEY_MAX: Final = 200
"""Characters of an idempotency key."""


@dataclass(slots=True)
class UnitOfWork:
    """One act under way: where it writes, who acts, when, and what was taken away so far."""

    tables: Tables
    actor: Principal
    now: Instant
    ids: list[bytes] = field(default_factory=list)
    """Certificates that the domain no longer stands by."""
    memberships: list[RoleMembership] = field(default_factory=list)
    """Memberships that fell, in the order of the cascade."""
    issued: list[bytes] = field(default_factory=list)
    """Certificates of this domain that are new in the register."""
    given: int = 0
    """How many memberships and rights are new."""

    def record(self, act: str, *first: tuple[str, object], **details: object) -> AuditRecord:
        """Put an act on record in the audit; ids and digests are written in hexadecimal digits."""
        named = (*first, *details.items())
        told = [(name, one.hex() if isinstance(one, bytes) else str(one)) for name, one in named]
        record = record_of(audit_head(self.tables), at=self.now, actor=self.actor, act=act, details=told)
        self.tables.put(AuditRow(record.number, record.body, record.previous, record.digest))
        self.tables.put(MetaRow(_AUDIT, record.number, record.digest))
        return record

    def revoked(self) -> dict[str, object]:
        """Return, for the audit, what an act revoked: how much, and the first few ids."""
        if not self.ids:
            return {}
        return {"revoked": len(self.ids), "ended": len(self.memberships), "ids": shortened(self.ids)}


def shortened(ids: Iterable[bytes]) -> str:
    """Return the beginnings of the first few ids."""
    return " ".join(one.hex()[:16] for one in islice(ids, 16))


def audit_head(tables: Tables) -> AuditHead:
    """Return how long the audit is, and its last digest."""
    row = tables.get(MetaRow, _AUDIT)
    return AUDIT_START if row is None else AuditHead(row.number, row.data)


def next_number(tables: Tables, name: str) -> int:
    """Return the next number of a numbering; none is handed out twice, also after a restart."""
    row = tables.get(MetaRow, name)
    number = 1 if row is None else row.number + 1
    tables.put(MetaRow(name, number, b""))
    return number


def add_to(tables: Tables, name: str, more: int) -> int:
    """Count something that would take long to count; return how many there are now."""
    row = tables.get(MetaRow, name)
    number = (0 if row is None else row.number) + more
    if more:
        tables.put(MetaRow(name, number, b""))
    return number


def end_of(moment: Instant | None) -> int:
    return FOR_EVER if moment is None else int(moment)


def answered_once(
    tables: Tables,
    key: str,
    request: bytes,
    act: Callable[[], bytes],
    *,
    actor: Principal,
    now: Instant,
    settings: AccessSettings,
) -> bytes:
    """Return the answer that is remembered under `key`, or act and remember it."""
    if not 0 < len(key) <= _KEY_MAX:
        raise BadInput("INPUT-IDEMPOTENCY-KEY", f"an idempotency key has 1 to {_KEY_MAX} characters")
    known = tables.get(AnswerRow, actor.key, key)
    if known is not None and known.until >= now:
        if known.request != request:
            raise BadInput("INPUT-IDEMPOTENCY-KEY", "the idempotency key was used for another request")
        return known.answer
    limits = settings.limits
    if known is None:
        count = tables.count(AnswerRow, AnswerRow.c.actor == actor.key) + 1
        check_room(count, limits.answers_each, "at most {} answers are remembered for one principal")
    answer = act()
    check_room(len(answer), limits.answer_bytes, "an answer has at most {} bytes")
    count = add_to(tables, _ANSWERS, int(known is None))
    check_room(count, limits.remembered_answers, "at most {} answers are remembered")
    until = now + settings.answers_kept_s * SECOND
    tables.put(AnswerRow(actor.key, key, request, answer, until))
    return answer


def forget_old(tables: Tables, now: Instant) -> None:
    """Remove what is remembered no longer."""
    add_to(tables, _ANSWERS, -tables.delete(AnswerRow, AnswerRow.c.until <= now - 1))
