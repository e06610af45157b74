"""What does a job put on record about the events that it reads?

The records are those of a broker's ledger (`maia.ledger`): who reads, by which certificates, which rows of
which frames, which attributes. The reader of a log is its own recipient, and writes the ledger itself. All
that a table can show is on record before it is handed out, in one pass over the same files that Spark then
reads; what its user makes of the table, less or nothing, is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.broker.subscriptions.local_subscribers import class_key
from maia.events import Attribute, Instant
from maia.ledger.files import LedgerFiles
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Disclosed,
    Ground,
    LedgerRecord,
    Shown,
    records_to_bytes,
    to_ranges,
)
from maia.net.data_folder import own_folder
from maia.policy import Request, gather_evidence
from maia.private_files import make_private_folder
from maia.spark.governed.periods import Slice
from maia.spark.governed.reader import Reader
from maia.wire.effects import Disclose

_RUN_BYTES: Final = 16
_AT_ONCE: Final = 4096
"""Records of one entry."""
_FRAME: Final = ("_publisher", "_stream", "_sequence")


def put_on_record(
    folder: Path,
    parts: Sequence[tuple[Slice, DataFrame]],
    delivered: Sequence[Attribute],
    *,
    request: Request,
    reader: Reader,
    now: Instant,
) -> None:
    """Write everything that tables `with_meta` show, each of one period, to the ledger in a folder."""
    make_private_folder(folder)
    with own_folder(folder), LedgerFiles(folder) as ledger:
        records = _records(parts, delivered, request, reader, now)
        begins = True
        while some := list(islice(records, _AT_ONCE)):
            ledger.write([Disclose(begins, records_to_bytes(some))])
            begins = False


def _records(
    parts: Sequence[tuple[Slice, DataFrame]],
    delivered: Sequence[Attribute],
    request: Request,
    reader: Reader,
    now: Instant,
) -> Iterator[LedgerRecord]:
    principal, event_type = reader.principal, request.event_type
    assert event_type is not None  # noqa: S101 - a table is of a type
    yield Begin(FORMAT, principal.key, os.urandom(_RUN_BYTES), int(now))
    number, shown = 0, dict[tuple[str, ...], int]()
    for one, rows in parts:
        number += 2
        audience = number
        yield Ground(
            number - 1,
            principal.key,
            event_type.type_id,
            event_type.id,
            class_key(one.view, event_type),
            _certificates(request, reader, one.since),
        )
        yield Audience(audience, (number - 1,))
        for frame in _frames(rows, delivered):
            uids = tuple(sorted(frame["shown"]))
            if uids not in shown:
                number += 1
                shown[uids] = number
                yield Shown(number, uids)
            publisher, stream, sequence = (frame[name] for name in _FRAME)
            ranges = to_ranges(sorted(frame["rows"]))
            yield Disclosed(
                int(now), audience, shown[uids], bytes(publisher), bytes(stream), sequence, ranges
            )


# Any: rows of Spark have no type.
def _frames(rows: DataFrame, delivered: Sequence[Attribute]) -> Iterator[Any]:
    """Yield, for each frame, rows that show the same attributes; a partition at a time."""
    shown = F.array_compact(F.array(*(F.when(_column(one).isNotNull(), F.lit(one.uid)) for one in delivered)))
    return (
        rows.select(*_FRAME, "_row", shown.alias("shown"))
        .groupBy(*_FRAME, "shown")
        .agg(F.collect_set("_row").alias("rows"))
        .toLocalIterator()
    )


def _column(attribute: Attribute) -> Column:
    return F.col(f"`{attribute.name}`")


def _certificates(request: Request, reader: Reader, at: Instant) -> tuple[bytes, ...]:
    evidence = gather_evidence(
        request,
        reader.pool,
        at=at,
        bounds=reader.bounds,
        constitutions=reader.constitutions,
        standing=reader.tester,
        chains_max=reader.chains_max,
    )
    return tuple(dict.fromkeys(signed.id for chain in evidence.chains for signed in chain.certificates))
