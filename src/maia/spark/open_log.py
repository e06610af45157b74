"""What may a participant see of a recorded log, as tables of Arrow, pandas or polars, without Spark?

    with maia.open_log(profile="dashboard") as log:
        log.types()
        log.table("LabResult", "value > 100").to_pandas()

The profile says who reads, with which certificates, and from which log unless another is named. The
rows and columns are those of `maia.spark.table`, because the same code decides, opens and proves
(`governed/plan.py`). For what one machine holds; `batches` for more than its memory does.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from maia.client.api.connection import signing_key
from maia.client.api.data_frames import brought, to_pandas, to_polars
from maia.clock import system_now
from maia.credentials.names import type_id
from maia.errors import Unavailable
from maia.events import Instant
from maia.profile import Profile, find_profile
from maia.profile.profile import wallet_places

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from maia.spark.governed.arrow_table import ArrowTable
    from maia.spark.governed.opened_log import LogReader, OpenedLog

__all__ = ["RecordedLog", "RecordedTable", "log_reader", "open_log"]


def open_log(
    place: str | Path | None = None,
    *,
    profile: str | Path | Profile,
) -> RecordedLog:
    """Open the log of a profile, or the one in a folder, under the rights of the profile's participant."""
    who = profile if isinstance(profile, Profile) else find_profile(str(profile))
    return RecordedLog(who, who.log() if place is None else Path(place))


class RecordedLog:
    """A log under the rights of one participant. Made by `maia.open_log`.

    Keys are fetched when a table of a sealed type is first asked for, and forgotten with `close`.
    """

    def __init__(self, profile: Profile, place: Path) -> None:
        """Read nothing yet."""
        brought("pyarrow", extra="arrow")
        self._profile, self.place = profile, place.resolve()
        self._stack = ExitStack()
        self._opened: dict[str, OpenedLog] = {}
        self._close = weakref.finalize(self, self._stack.close)

    def close(self) -> None:
        """Forget keys, and stop to watch rights; the tables can be read no more."""
        self._close()

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the log."""
        self.close()

    def __repr__(self) -> str:
        """Return where the log is, and who reads."""
        return f"<RecordedLog {self.place} as {self._profile.name}{'' if self._close.alive else ', closed'}>"

    def types(self) -> tuple[str, ...]:
        """Return the types of which the log holds anything, among those that the profile knows."""
        from maia.spark.governed.log_folder import LogFolder

        folder = LogFolder(str(self.place))
        names = {one.definition.name for one in self._profile.definitions()}
        held = {one.name for one in names if folder.of_type(type_id(one.owner, one.name)).stretches}
        return tuple(sorted(held))

    def table(
        self,
        name: str,
        filter: str = "true",  # noqa: A002 - it is called so in requests and in the client
        *,
        columns: Collection[str] | None = None,
        since: datetime | Instant | str | None = None,
        until: datetime | Instant | str | None = None,
        with_meta: bool = False,
        ledger: str | Path | None = None,
    ) -> RecordedTable:
        """Return what the participant may see of a type; raise the refusal if that is nothing.

        `with_meta` adds the columns that say which row of which frame an event is, and when it was published.
        `ledger` is a folder in which what is read is put on record; the owner of a type may demand one.
        """
        from maia.spark.governed.arrow_table import ArrowTable
        from maia.spark.governed.plan import governed_read

        log = self._log(name)
        read = log.hinted(
            lambda: governed_read(
                **log.asked(),
                filter=filter,
                columns=columns,
                since=_instant(since),
                until=_instant(until),
                with_meta=with_meta,
            )
        )
        on_record = None if ledger is None else Path(ledger)
        table = ArrowTable(read, log=log.place, watch=log.watch, ledger=on_record)
        return RecordedTable(self, name, table)

    def _log(self, name: str) -> OpenedLog:
        self._check_open()
        if name not in self._opened:
            from maia.spark.governed.opened_log import opened_for

            reader = log_reader(self._profile, name, self.place)
            self._opened[name] = self._stack.enter_context(opened_for(reader))
        return self._opened[name]

    def _check_open(self) -> None:
        if not self._close.alive:
            raise Unavailable(
                "UNAVAILABLE-LOG-CLOSED", f"the log in `{self.place}` was closed: open it again"
            )


class RecordedTable:
    """What a participant sees of one type. Each call reads what the log has by then."""

    def __init__(self, log: RecordedLog, name: str, table: ArrowTable) -> None:
        """Keep the log, and with it the keys, for as long as the table is there."""
        self._log, self.name, self._table = log, name, table

    def __repr__(self) -> str:
        """Return the type, the columns, and where it is from."""
        return f"<RecordedTable {self.name} ({', '.join(self.schema.names)}) of {self._log!r}>"

    @property
    def schema(self) -> pa.Schema:
        """Return the names and Arrow types of the columns."""
        return self._table.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the events as Arrow batches; one that was begun ends with the right."""
        self._log._check_open()
        return self._table.batches()

    def to_arrow(self) -> pa.Table:
        """Return the events as an Arrow table."""
        self._log._check_open()
        return self._table.read()

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a pandas table."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return the events as a polars table."""
        return to_polars(self.to_arrow())


def log_reader(profile: Profile, name: str, place: Path) -> LogReader:
    """Return the participant of a profile as the reader of one type of a log."""
    from maia.config.input_files import read_certificates
    from maia.spark.governed.opened_log import LogReader

    wallet = wallet_places(profile.settings.wallet)
    return LogReader(
        log=place,
        key=signing_key(profile),
        credentials=(*profile.certificates(), *read_certificates(wallet)),
        versions=profile.lineage(name, at=system_now()),
        network=profile.network,
        folders=(*(path for path in profile.settings.credentials if path.is_dir()), *wallet),
        keys_at=profile.settings.keys,
        constitutions=profile.constitutions(),
    )


def _instant(moment: datetime | Instant | str | None) -> Instant | None:
    if isinstance(moment, datetime):
        return Instant.from_datetime(moment)
    return Instant.parse(moment) if isinstance(moment, str) else moment
