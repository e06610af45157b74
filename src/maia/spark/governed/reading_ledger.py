"""What does the reader of a log put on record about the events that it reads?

The records are those of a broker's ledger (`maia.ledger`): who reads, by which certificates, which rows of
which frames, which attributes. The reader of a log is its own recipient, and writes the ledger itself. All
that a table can show is on record before it is handed out; what its user makes of the table, less or
nothing, is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from maia.broker.audiences.local_subscribers import class_key
from maia.events import Instant
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
from maia.net.process import own_folder
from maia.policy import Request, gather_evidence
from maia.private_files import make_private_folder
from maia.spark.governed.reader import Reader, Slice
from maia.wire.effects import Disclose

_RUN_BYTES: Final = 16
_AT_ONCE: Final = 4096
"""Records of one entry."""


class ShownRows(NamedTuple):
    """Rows of one frame that show the same attributes."""

    publisher: bytes
    stream: bytes
    sequence: int
    uids: tuple[str, ...]
    rows: Iterable[int]


def put_on_record(
    folder: Path,
    parts: Sequence[tuple[Slice, Iterable[ShownRows]]],
    *,
    request: Request,
    reader: Reader,
    now: Instant,
) -> None:
    """Write everything that a table shows, period by period, to the ledger in a folder."""
    make_private_folder(folder)
    with own_folder(folder), LedgerFiles(folder) as ledger:
        records = _records(parts, request, reader, now)
        begins = True
        while some := list(islice(records, _AT_ONCE)):
            ledger.write([Disclose(begins, records_to_bytes(some))])
            begins = False


def _records(
    parts: Sequence[tuple[Slice, Iterable[ShownRows]]], request: Request, reader: Reader, now: Instant
) -> Iterator[LedgerRecord]:
    principal, event_type = reader.principal, request.event_type
    assert event_type is not None  # noqa: S101 - a table is of a type
    yield Begin(FORMAT, principal.key, os.urandom(_RUN_BYTES), int(now))
    number, shown = 0, dict[tuple[str, ...], int]()
    for one, frames in parts:
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
        for publisher, stream, sequence, uids, rows in frames:
            if uids not in shown:
                number += 1
                shown[uids] = number
                yield Shown(number, uids)
            ranges = to_ranges(sorted(rows))
            yield Disclosed(int(now), audience, shown[uids], publisher, stream, sequence, ranges)


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
