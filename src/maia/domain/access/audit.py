"""What was done in this domain, by whom, and could the log have been changed since?

Every act leaves one record. Each digest covers the record and the digest
before it, so the digest of the last record covers all. That head is part of
every revocation list. A domain keeps the heads that other domains state: when
another domain shows its audit, the audit must lead through all of them
(`check_against`). Deleted, edited or cut off: the heads disagree, and no key
of the domain can change what others have kept. Two digests for one length, or
an audit that became shorter, are noticed when the list arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Final

from maia.canonical import Limits
from maia.credentials import Principal
from maia.credentials.statements import AuditHead, RevocationList, Statement
from maia.domain.access.results import Page
from maia.domain.storage.records import from_cell, to_cell
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import WitnessRow
from maia.errors import BadInput, BrokenCredential
from maia.events import Instant

AUDIT_START: Final = AuditHead(0, bytes(32))
"""The head of an empty audit."""

LEDGER_HEAD: Final = "ledger.head"
"""The act by which a broker states how far its ledger of deliveries has come."""

_DETAIL_MAX: Final = 400
_DETAILS_MAX: Final = 32
_LIMITS: Final = Limits(size_max=1 << 16, depth_max=8, atom_max=1 << 12)
_KIND: Final = b"audit-record"
_Body = tuple[bytes, int, Instant, Principal, str, tuple[tuple[str, str], ...]]
_HEADS_MAX: Final = 10_000
"""Heads of one domain that are kept; beyond, every second of the older ones is removed."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One act: its number, moment, actor and name, its details, and the digest up to here."""

    number: int
    at: Instant
    actor: Principal
    act: str
    details: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    previous: bytes = field(repr=False)
    digest: bytes

    @property
    def head(self) -> AuditHead:
        return AuditHead(self.number, self.digest)


def record_of(
    head: AuditHead, *, at: Instant, actor: Principal, act: str, details: Iterable[tuple[str, str]]
) -> AuditRecord:
    """Return the record that follows `head`; long details are cut, and say so."""
    kept = tuple(
        (name, text if len(text) <= _DETAIL_MAX else text[: _DETAIL_MAX - 1] + "…")
        for name, text in list(details)[:_DETAILS_MAX]
    )
    number = head.length + 1
    body = to_cell(_Body, (_KIND, number, at, actor, act, kept))
    return AuditRecord(number, at, actor, act, kept, body, head.digest, _digest(head.digest, body))


def record_from_bytes(body: bytes, previous: bytes) -> AuditRecord:
    """Read a record as it was written; its digest is worked out again, never read."""
    kind, number, at, actor, act, details = from_cell(
        _Body, body, "an audit record", wrong=partial(BadInput, "INPUT-AUDIT-RECORD"), limits=_LIMITS
    )
    if kind != _KIND:
        raise BadInput("INPUT-AUDIT-RECORD", "these bytes are not an audit record")
    return AuditRecord(number, at, actor, act, details, body, previous, _digest(previous, body))


def check_linked(records: Iterable[AuditRecord], *, after: AuditHead = AUDIT_START) -> AuditHead:
    """Return the head of records that follow `after` without a gap, each its own digest; refuse others."""
    last = deque(_heads(records, after), maxlen=1)
    return last[0] if last else after


def check_against(records: Iterable[AuditRecord], witnessed: Iterable[AuditHead]) -> AuditHead:
    """Return the head of a whole audit that leads through every head that was witnessed; refuse others.

    Records are read one after the other, so that a long audit need not be held in memory.
    """
    waiting = deque(sorted(set(witnessed), key=lambda one: one.length))
    head = AUDIT_START
    for head in chain((AUDIT_START,), _heads(records, AUDIT_START)):
        while waiting and waiting[0].length == head.length:
            if waiting.popleft().digest != head.digest:
                raise BrokenCredential(
                    "CREDENTIAL-AUDIT-FORKED",
                    f"record {head.length} of the audit is not the one that its domain once stated",
                )
    if waiting:
        raise BrokenCredential(
            "CREDENTIAL-AUDIT-TRUNCATED",
            f"the audit ends at record {head.length}, and its domain once stated {waiting[-1].length}",
        )
    return head


def _heads(records: Iterable[AuditRecord], after: AuditHead) -> Iterator[AuditHead]:
    """Yield the head after each record; refuse one that does not follow from the one before."""
    head = after
    for record in records:
        read = record_from_bytes(record.body, head.digest)
        if record.number != head.length + 1 or read != record:
            raise BrokenCredential(
                "CREDENTIAL-AUDIT-BROKEN",
                f"record {head.length + 1} of the audit does not follow from the one before",
            )
        head = record.head
        yield head


def _digest(previous: bytes, body: bytes) -> bytes:
    return sha256(b"maia/1/audit\x00" + previous + body).digest()


def keep_audit_head(tables: Tables, said: Statement, now: Instant) -> BrokenCredential | None:
    """Keep the audit head of another domain's list; return how it contradicts earlier ones."""
    if not isinstance(said, RevocationList) or said.audit is None:
        return None
    contradicts = keep_head(tables, said.by, said.audit, said.sequence, now)
    if contradicts is None:
        return None
    if contradicts.length == said.audit.length:
        return BrokenCredential(
            "CREDENTIAL-AUDIT-FORKED", f"`{said.by}` states two audits of {said.audit.length} records"
        )
    return BrokenCredential(
        "CREDENTIAL-AUDIT-TRUNCATED",
        f"the audit of `{said.by}` had {contradicts.length} records, and now has {said.audit.length}",
    )


def keep_head(
    tables: Tables, by: Principal, head: AuditHead, sequence: int, now: Instant
) -> AuditHead | None:
    """Keep the head of a chain of records that another one states; return an earlier one that contradicts it.

    `sequence` tells what is stated later from what is stated before.
    """
    mine = WitnessRow.c.issuer == by.key
    known = tables.find(WitnessRow, mine, WitnessRow.c.length == head.length, limit=2)
    longest = tables.find(WitnessRow, mine, limit=1, order=WitnessRow.c.length, descending=True)
    is_cut = longest and longest[0].length > head.length and longest[0].sequence < sequence
    cut = AuditHead(longest[0].length, longest[0].digest) if is_cut else None
    if any(one.digest == head.digest for one in known):
        return cut
    tables.put(WitnessRow(by.key, head.length, head.digest, sequence, now))
    if tables.count(WitnessRow, mine) > _HEADS_MAX:
        older = tables.find(WitnessRow, mine, limit=_HEADS_MAX // 2, order=WitnessRow.c.length)
        for one in older[1::2]:
            tables.delete(
                WitnessRow, mine, WitnessRow.c.length == one.length, WitnessRow.c.digest == one.digest
            )
    if known:
        return AuditHead(known[0].length, known[0].digest)
    return cut


def witnessed_heads(tables: Tables, by: Principal, after: int | None, limit: int) -> Page[AuditHead]:
    """Return the heads of a domain, the shortest first."""
    rows = tables.find(
        WitnessRow, WitnessRow.c.issuer == by.key, limit=limit, order=WitnessRow.c.length, after=after
    )
    found = tuple(AuditHead(row.length, row.digest) for row in rows)
    return Page(found, str(rows[-1].length) if len(rows) == limit else None)
