"""What goes on record when a principal is let read a table by itself?

A broker records each delivery. What a database role reads through a view, and when, PostgreSQL shows to its
superuser alone: a record that the reader's own transaction writes is gone when that is rolled back. So the
ledger has, before the view is there, that it is opened: for whom, by which certificates, which attributes of
which table, until when; and afterwards that it was closed.
"""

from __future__ import annotations

import os
from typing import Final

from maia.broker.refusals import LedgerRequired
from maia.broker.subscriptions.local_subscribers import class_key
from maia.credentials import Principal
from maia.events import Instant
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
    records_to_bytes,
)
from maia.policy.view import kinds_shown
from maia.postgres.view_definitions import DeclaredTable, ViewDefinition
from maia.wire.effects import Disclose

_RUN_BYTES: Final = 16
_GROUND, _AUDIENCE, _SHOWN = 1, 2, 3


def check_ledger(table: DeclaredTable, ledger: ViewLedger | None) -> None:
    """Refuse to show a table without a ledger whose type demands one."""
    if ledger is None and any(version.definition.ledger for version in table.versions):
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

    def _write(self, now: Instant, *records: LedgerRecord) -> None:
        begin = Begin(FORMAT, self._owner.key, os.urandom(_RUN_BYTES), int(now))
        self._files.write([Disclose(True, records_to_bytes([begin, *records]))])
        self._files.sync()
