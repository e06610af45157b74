"""What does a principal's right to a type come to as a query over a table, and until when?

The kernel decides, as it does for a broker and for Spark, and `views.to_sql` writes the View as a
query. A right has to hold now. If the table says when each row was published, a row is
shown only if the right held at that moment too, as a live subscriber would have received it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from maia.broker.audiences.local_subscribers import class_key
from maia.broker.refusals import LedgerRequired
from maia.credentials import Action, Principal, TypeName
from maia.credentials.certificate import UNBOUNDED
from maia.errors import BadInput, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, Attribute, AttributeUid, Instant, Kind
from maia.ledger.files import LedgerFiles
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Closed,
    Ground,
    LedgerRecord,
    Opened,
    Shown,
    TableRead,
    records_to_bytes,
)
from maia.policy import Denial, Facts, Request, View, decide, gather_evidence
from maia.policy.view import asks_of, converts_to, kinds_shown, publisher_asked
from maia.spark.governed.reader import FactPeriod, Reader, Slice, slices_of
from maia.types import VerifiedType
from maia.validity import Monitor
from maia.views import Query, TableName, to_sql
from maia.views.to_sql import quoted
from maia.wire.effects import Disclose

ROW_ID: Final = "maia_row_id"
"""What the column that names a row is called within a View's query."""


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """Where events of one type are stored, and how they are called there."""

    name: str
    table: TableName
    versions: tuple[VerifiedType, ...] = field(repr=False)
    """The versions whose attributes it has; rows are shown in the names of the last."""
    columns: Mapping[AttributeUid, str]
    published_at: str | None = None
    shown_as: tuple[VerifiedType, ...] = field(default=(), repr=False)
    """Types that a right may convert rows into."""
    hides_plans: bool = True
    """Whether a reader's plans, and the catalogue, are silent about what the View asks of rows."""
    records_reads: bool = True
    """Whether each read is on record, if there is a ledger."""
    row_id: str | None = None
    """The column by which the rows that were read are on record."""

    @property
    def kinds(self) -> dict[AttributeUid, Kind]:
        """Return the kind of each attribute that has a column."""
        return {uid: kind for version in self.versions for uid, kind in version.kinds.items()}


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A query that shows what a principal may see of a table, and the last moment at which it may."""

    # Kept out of repr: a View holds restrictions that its holder may not read.
    query: Query = field(repr=False)
    columns: tuple[Attribute, ...]
    until: Instant | None
    certificates: tuple[bytes, ...]
    """The ids of the certificates that the right depends on."""
    view: View = field(repr=False)
    shown_as: VerifiedType


def view_definition(
    declared: DeclaredTable, reader: Reader, monitor: Monitor, now: Instant
) -> ViewDefinition:
    """Decide what a reader may see of a table now; raise the kernel's refusal if it is nothing.

    Facts that an issuer has stated count as they are now, also for rows that were published before.
    """
    event_type = declared.versions[-1]
    asserted = monitor.facts_about(reader.principal, now)
    reader = replace(reader.tested(monitor, now), facts=(FactPeriod(UNBOUNDED, Facts(asserted=asserted)),))
    request = Request(reader.principal, Action.SUBSCRIBE, event_type.name, event_type)
    evidence = gather_evidence(
        request,
        reader.pool,
        at=now,
        bounds=reader.bounds,
        constitutions=reader.constitutions,
        standing=monitor,
        chains_max=reader.chains_max,
    )
    decision = decide(request, evidence, reader.facts_at(now), now)
    if isinstance(decision, Denial):
        raise decision.as_refusal()
    used = {one.id: one for chain in evidence.chains for one in chain.certificates}
    ends = (
        decision.until,
        decision.stable.not_after,
        monitor.steady_until(used.values(), now),
        monitor.facts_until(reader.principal, now) if asserted else None,
    )
    until = min((one for one in ends if one is not None), default=None)
    slices: tuple[Slice, ...]
    slices = (Slice(Instant(INSTANT_MIN), Instant(INSTANT_MAX), replace(decision.view, until=None)),)
    if declared.published_at is not None:
        slices = slices_of(request, reader, until=until)
    shown = _shown_as(declared, slices)
    parts = [_slice_query(declared, one, shown, until) for one in slices]
    query = Query(
        " UNION ALL ".join(f"({one.text})" for one in parts) if len(parts) > 1 else parts[0].text,
        tuple(operand for one in parts for operand in one.operands),
    )
    return ViewDefinition(query, shown.attributes, until, tuple(sorted(used)), decision.view, shown)


def _shown_as(declared: DeclaredTable, slices: tuple[Slice, ...]) -> VerifiedType:
    results = {converts_to(window) for one in slices for window in one.view.windows}
    types: dict[TypeName | None, VerifiedType] = {one.name: one for one in declared.shown_as}
    types[None] = declared.versions[-1]
    if len(results) == 1 and (result := next(iter(results))) in types:
        return types[result]
    named = ", ".join(sorted("its own type" if one is None else f"`{one.name}`" for one in results))
    raise BadInput(
        "INPUT-SHOWN-AS",
        f"the right shows rows of `{declared.name}` as {named}: a table is shown as one type, which "
        "`shown_as` names",
    )


def _slice_query(declared: DeclaredTable, one: Slice, shown: VerifiedType, last: Instant | None) -> Query:
    kinds = declared.kinds
    if not kinds.keys() >= {uid for window in one.view.windows for uid in asks_of(window)}:
        # Read as missing, it could make a restriction true that is not.
        raise BadInput(
            "PIPELINE-UNKNOWN-TERMS",
            "the right names an attribute of another version: name that one in `types`",
        )
    if asked := publisher_asked(one.view):
        raise Refusal(
            "VIEW-NEEDS-PUBLISHER",
            f"what the right shows depends on `{min(asked)}`, and a row does not say who has published it",
        )
    columns = ", ".join(
        f"{_usable(quoted(declared.columns[uid]), kind)} AS {quoted(uid)}" for uid, kind in kinds.items()
    )
    if declared.row_id is not None:
        columns += f", {quoted(declared.row_id)}::text AS {ROW_ID}"
    path = (declared.table,) if isinstance(declared.table, str) else declared.table
    text = f"(SELECT {columns} FROM {'.'.join(map(quoted, path))}"
    within = Query("")
    if declared.published_at is not None:
        spans = one.spans or ((one.since, one.until),)
        # The present right ends by the clock. Its end in the text would make each renewal another view.
        spans = tuple((since, Instant(INSTANT_MAX) if end == last else end) for since, end in spans)
        within = _within(quoted(declared.published_at), spans)
    source = Query(f"{text}{within.text}) AS stored", within.operands)
    carries = () if declared.row_id is None else (ROW_ID,)
    return to_sql(one.view, source, kinds, shown.attributes, carries)


def _usable(column: str, kind: Kind) -> str:
    """Return a column without values that no event has, which would compare as larger than all others."""
    odd = {Kind.FLOAT: ("NaN", "Infinity", "-Infinity"), Kind.TIMESTAMP: ("infinity", "-infinity")}.get(
        kind, ()
    )
    for value in odd:
        column = f"NULLIF({column}, '{value}')"
    return column


def _within(column: str, spans: tuple[tuple[Instant, Instant], ...]) -> Query:
    """Return the condition that a row was published in one of some spans, ends included."""
    tests: list[str] = []
    operands: list[str] = []
    for since, until in spans:
        bounds = []
        if since > INSTANT_MIN:
            bounds.append(f"{column} >= %s::timestamptz")
            operands.append(since.to_datetime().isoformat())
        if until < INSTANT_MAX:
            bounds.append(f"{column} <= %s::timestamptz")
            operands.append(until.to_datetime().isoformat())
        tests.append(" AND ".join(bounds) or f"{column} IS NOT NULL")
    return Query(f" WHERE ({' OR '.join(f'({test})' for test in tests)})", tuple(operands))


# ------------------------------------------------------------ what goes on record
#
# A broker records each delivery. Of a view, the ledger has before it is there that it is opened: for whom, by
# which certificates, which attributes of which table, until when; and afterwards that it was closed. What is
# read through it the view notes itself (`views.py`), and each renewal takes that over into the ledger.


_RUN_BYTES: Final = 16
_READS_AT_ONCE: Final = 64
_GROUND, _AUDIENCE, _SHOWN = 1, 2, 3


def check_ledger(table: DeclaredTable, ledger: ViewLedger | None) -> None:
    """Refuse to show a table without a ledger whose type demands one."""
    if not any(version.definition.ledger for version in table.versions):
        return
    if not table.records_reads:
        raise LedgerRequired(
            f"the owner of `{table.versions[-1].name.name}` demands a record of what is shown: "
            "its reads are to be on record, so `reads` is not `off` and `plans` not `open`"
        )
    if ledger is None:
        raise LedgerRequired(
            f"the owner of `{table.versions[-1].name.name}` demands a record of what is shown: "
            "name a folder with `ledger`, and whose it is with `owner`"
        )


class ViewLedger:
    """The ledger of the domain that a database belongs to."""

    def __init__(self, files: LedgerFiles, owner: Principal) -> None:
        """Write to `files` in the name of `owner`."""
        self._files, self._owner = files, owner

    def opened(
        self,
        recipient: Principal,
        source: str,
        table: DeclaredTable,
        definition: ViewDefinition,
        until: Instant | None,
        now: Instant,
    ) -> None:
        """Record that a view is opened, or has other grounds; on the disk on return."""
        version, shown_as = table.versions[-1], definition.shown_as
        shown = {uid for window in definition.view.windows for uid in kinds_shown(window, table.kinds)}
        view = class_key(definition.view, version)
        self._write(
            now,
            Ground(_GROUND, recipient.key, version.type_id, shown_as.id, view, definition.certificates),
            Audience(_AUDIENCE, (_GROUND,)),
            Shown(_SHOWN, tuple(sorted(shown))),
            Opened(int(now), _AUDIENCE, _SHOWN, source, None if until is None else int(until)),
        )

    def closed(self, recipient: Principal, source: str, now: Instant) -> None:
        """Record that a view shows nothing any more."""
        self._write(now, Closed(int(now), recipient.key, source))

    def read(self, now: Instant, reads: Sequence[TableRead]) -> None:
        """Record what was read; on the disk on return."""
        for start in range(0, len(reads), _READS_AT_ONCE):
            self._write(now, *reads[start : start + _READS_AT_ONCE])

    def _write(self, now: Instant, *records: LedgerRecord) -> None:
        begin = Begin(FORMAT, self._owner.key, os.urandom(_RUN_BYTES), int(now))
        self._files.write([Disclose(True, records_to_bytes([begin, *records]))])
        self._files.sync()
