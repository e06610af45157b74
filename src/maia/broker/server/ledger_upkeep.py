"""What does a broker do with its ledger of deliveries besides writing it?

The disk follows what is written within a second. Closed files become tables for Spark. A domain that the
configuration names as witness is told the head, which it puts on record in its audit: that is how it is
found later that the last entries were taken away. A witness that does not answer is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from maia.config.input_files import read_certificates
from maia.credentials import Action, AuthorisationCertificate, Principal, SigningKey, TopicName
from maia.credentials.authority import covers_request
from maia.errors import MaiaError
from maia.ledger.files import LedgerFiles, LedgerHead
from maia.net.observer import Records
from maia.net.process import beside

SYNC_S: Final = 1.0
ROLL_S: Final = 60.0
WITNESS_S: Final = 300.0
_RIGHT: Final = "/admin/ledgers"


@dataclass(frozen=True, slots=True)
class LedgerWitness:
    """A domain that puts the head of the ledger on record, and how this broker shows its right to that."""

    address: str
    domain: Principal
    key: SigningKey = field(repr=False)
    credentials: Sequence[Path] = ()

    def state(self, head: LedgerHead) -> str | None:
        """State a head; return how it contradicts what was stated before."""
        from maia.api import endpoints
        from maia.api.client import DomainClient
        from maia.api.requests import LedgerHeadBody

        topic = TopicName(self.domain, _RIGHT)
        shown = [
            one
            for one in read_certificates(self.credentials)
            if isinstance(one.certificate, AuthorisationCertificate)
            and covers_request(one.certificate.authority, Action.PUBLISH, topic)
        ]
        body = LedgerHeadBody(head.entries, head.check.hex())
        with DomainClient(self.address, domain=self.domain, key=self.key, credentials=shown) as client:
            return client.ask(endpoints.LEDGER_HEAD, body).problem


@asynccontextmanager
async def ledger_upkeep(
    ledger: LedgerFiles | None, *, tables: Path | None, witness: LedgerWitness | None, records: Records
) -> AsyncIterator[None]:
    """Look after a ledger while the body runs."""
    if ledger is None:
        yield
        return
    # Any: what these return is never asked for.
    work: list[Coroutine[Any, Any, None]] = [_repeated(ledger.sync, SYNC_S)]
    if tables is not None:
        work.append(_repeated(lambda: _roll(ledger, tables, records), ROLL_S, waits=False))
    if witness is not None:
        work.append(_repeated(_Stating(ledger, witness, records).state, WITNESS_S, waits=False))
    async with beside(*work):
        yield


async def _repeated(work: Callable[[], None], seconds: float, *, waits: bool = True) -> None:
    while True:
        if waits:
            await asyncio.sleep(seconds)
        await asyncio.to_thread(work)
        waits = True


def _roll(ledger: LedgerFiles, tables: Path, records: Records) -> None:
    from maia.ledger.parquet import roll_ledger

    try:
        for table in roll_ledger(ledger.closed(), tables):
            records.note("ledger-rolled", {"table": table.name})
    except MaiaError as problem:
        records.note("ledger-not-rolled", problem.as_record())
    except OSError as problem:
        records.note("ledger-not-rolled", {"message": problem.strerror})


@dataclass(slots=True)
class _Stating:
    """What the witness has been told last."""

    ledger: LedgerFiles
    witness: LedgerWitness
    records: Records
    stated: LedgerHead | None = None

    def state(self) -> None:
        """State the head if it is another one than before."""
        head = self.ledger.head
        if head == self.stated:
            return
        try:
            problem = self.witness.state(head)
        except MaiaError as found:
            self.records.note("ledger-not-witnessed", found.as_record())
            return
        self.stated = head
        told = {} if problem is None else {"contradicts": problem}
        self.records.note("ledger-witnessed", {"entries": head.entries, **told})
