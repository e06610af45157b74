"""What may a participant see of a recorded log, as tables of Arrow, pandas, polars or Spark?

    with maia.open_log("/var/lib/maia/log", as_="dashboard") as log:
        log.types()
        log.table("LabResult", "value > 100").to_pandas()
        log.table("LabResult").to_spark(spark).groupBy("ward").count()
        log.stream("LabResult", spark=spark).writeStream…

The profile says who reads, with which certificates, and from which log unless another is named. The same code
decides, opens and proves for all of them (`governed/plan.py`); Spark is imported for `to_spark` and `stream`
only. Keys, signers, and the watch over the reader's right are looked after
here until the log is closed, and with it its tables.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from maia.client.api.connection import log_warning, signing_key
from maia.client.api.data_frames import brought, to_pandas, to_polars
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkName,
    Owner,
    Principal,
    SignedCertificate,
    SigningKey,
    VerifiedConstitution,
)
from maia.credentials.names import type_id
from maia.errors import BadInput, Refusal, Unavailable
from maia.events import AttributeUid, Instant
from maia.net.process import waited_for
from maia.places import place_of, places_of
from maia.policy import GrantStale, GrantTestedOnce, PolicyRefusal, Request
from maia.policy.endings import EndsSoon, ending
from maia.profile import Profile, find_profile
from maia.profile.profile import wallet_places
from maia.types import VerifiedType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from maia.spark.governed.arrow_table import ArrowTable
    from maia.spark.governed.log_folder import LogFolder
    from maia.spark.governed.plan import Access, GovernedRead, Keys, TableQuery
    from maia.spark.governed.reader import Reader, ReaderIdentity
    from maia.spark.governed.reading_ledger import ReadingLedger, SeenRows
    from maia.spark.governed.right_watch import RightWatch
    from maia.spark.governed.stream_lag import Lag
    from maia.spark.governed.table import Streaming
    from maia.spark.keys.key_server import JobDesk
    from maia.views.to_spark import TransformationKeySource

__all__ = ["LogReader", "RecordedLog", "RecordedTable", "open_log"]

_Result = TypeVar("_Result")
_SPARKS_OWN = frozenset({"pyspark", "py4j"})
_NO_WORD = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class LogReader:
    """Who reads a log, and what it can show."""

    name: str
    key: SigningKey = field(repr=False)
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    versions: Callable[[str], tuple[VerifiedType, ...]]
    """A type by its name, after the versions that it was made from."""
    network: Callable[[], NetworkName]
    """The network of the key server; asked only if a type is sealed."""
    known: Callable[[], Mapping[str, tuple[Owner, str]]] = dict
    """The types that the reader has definitions of, by the words by which `versions` finds them."""
    folders: tuple[Path, ...] = ()
    """Folders in which statements may arrive while tables are read."""
    statements: tuple[Path, ...] = ()
    keys_at: tuple[str, ...] = ()
    """Key servers, beside the addresses in the definition."""
    signers: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    """Certificates of brokers that sealed, beside those that the key server knows."""
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    identity: ReaderIdentity | None = None
    hint: str = "testers were asked at the locations in the certificates"
    """What a person can do if a statement is missing."""


def open_log(
    address: str | Path | Sequence[str | Path] | None = None,
    *,
    as_: str | Path | Profile,
    require_complete: bool = False,
) -> RecordedLog:
    """Open the log of a profile, or the one at an address, under the rights of the profile's participant.

    Several addresses, or one that ends in `/*`, are the logs of several brokers: their tables show each
    publication once. Of what is known to be missing a table warns with a number when it is read; with
    `require_complete` it is refused as long as anything is, and a stream stays where it is.
    """
    who = as_ if isinstance(as_, Profile) else find_profile(str(as_))
    place = who.log() if address is None else address
    return RecordedLog(place, _reader(who), require_complete=require_complete)


def _reader(profile: Profile) -> LogReader:
    from maia.config.input_files import read_certificates

    wallet = wallet_places(profile.settings.wallet)
    return LogReader(
        profile.name,
        signing_key(profile),
        (*profile.certificates(), *read_certificates(wallet)),
        versions=lambda name: profile.lineage(name, at=system_now()),
        network=profile.network,
        known=profile.type_words,
        folders=(*(path for path in profile.settings.credentials if path.is_dir()), *wallet),
        keys_at=profile.settings.keys,
        constitutions=profile.constitutions(),
        identity=reader_identity(
            [] if profile.settings.identity is None else [profile.settings.identity],
            profile.settings.providers,
        ),
    )


def reader_identity(statements: Iterable[Path], providers: Iterable[str]) -> ReaderIdentity | None:
    """Return the identity statements in files, and whose are believed; None if there are none."""
    from maia.config.input_files import read_identity, read_principal
    from maia.credentials.identity import IdentityTrust
    from maia.spark.governed.reader import ReaderIdentity

    own = tuple(map(read_identity, statements))
    if not own:
        return None
    believed = frozenset(map(read_principal, providers))
    return ReaderIdentity(IdentityTrust(own[0].statement.community, believed), own)


class RecordedLog:
    """A log under the rights of one participant. Made by `maia.open_log`.

    Keys are fetched when a table of a sealed type is first asked for, and forgotten with `close`.
    """

    def __init__(
        self,
        place: str | Path | Sequence[str | Path],
        reader: LogReader,
        *,
        require_complete: bool = False,
    ) -> None:
        """Read nothing yet."""
        self._require_complete = require_complete
        brought("pyarrow", extra="arrow")
        self.places, self._reader = places_of(place), reader
        if not self.places:
            raise BadInput("PLACE-ADDRESS", f"there is no log at `{place}`")
        self._stack = ExitStack()
        self._accesses: dict[str, Access] = {}
        self._close = weakref.finalize(self, self._stack.close)
        for one in ending(reader.credentials, system_now()):
            log_warning(EndsSoon(one))

    def close(self) -> None:
        """Forget keys, and stop to watch rights; the tables can be read no more."""
        self._close()

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the log; say that the right has ended where Spark failed for it, and kept the text of it."""
        self.close()
        has_ended = "_desk_and_watch" in self.__dict__ and self._desk_and_watch[1].ended
        if has_ended and type(value).__module__.partition(".")[0] in _SPARKS_OWN:
            raise Refusal(
                "PIPELINE-GRANT-ENDED",
                "the right behind this run was revoked, or has no valid statement any more; nothing is kept",
            ) from value

    def __repr__(self) -> str:
        """Return where the log is, and who reads."""
        return f"<RecordedLog {self._where} as {self._reader.name}{'' if self._close.alive else ', closed'}>"

    @property
    def _where(self) -> str:
        return ", ".join(map(str, self.places))

    @cached_property
    def _folders(self) -> list[LogFolder]:
        from maia.spark.governed.log_folder import LogFolder

        return [LogFolder(str(place)) for place in self.places]

    def types(self) -> tuple[str, ...]:
        """Return the types of which the log holds anything, among those that the reader knows.

        Types that two owners have called the same are `NAME@OWNER`, as `table` takes them.
        """
        known = self._reader.known()
        return tuple(
            word
            for word, named in sorted(known.items())
            if any(log.of_type(type_id(*named)).stretches for log in self._folders)
        )

    def readable(self) -> tuple[str, ...]:
        """Return the types of which the participant sees anything at any time, as `table` takes them.

        They are decided alone: no keys are fetched, and nothing need be recorded.
        """
        found: list[str] = []
        for word in sorted(self._reader.known()):
            with suppress(PolicyRefusal):
                self._tested(self._reader.versions(word))
                found.append(word)
        return tuple(found)

    def ask_again(self) -> None:
        """Hear at once what testers and folders say: a table whose right is gone ends now."""
        from maia.spark.governed.right_watch import read_statements

        self._check_open()
        _, watch = self._desk_and_watch
        watch.follow(read_statements(self._reader.folders))
        watch.ask()
        watch.look()

    def table(  # noqa: PLR0913 - each says which events, and has a name
        self,
        name: str,
        filter: str = "true",  # noqa: A002 - it is called so in requests and in the client
        *,
        columns: Collection[str] | None = None,
        since: datetime | Instant | str | None = None,
        until: datetime | Instant | str | None = None,
        as_of: datetime | Instant | str | int | None = None,
        with_meta: bool = False,
        ledger: str | Path | None = None,
    ) -> RecordedTable:
        """Return what the participant may see of a type; raise the refusal if that is nothing.

        `as_of` shows the log as it was: up to a position (a number), or as it had been recorded at a moment.
        `with_meta` adds the columns that say which row of which frame an event is, and when it was published.
        `ledger` is a folder, or a place such as `s3://bucket/reads`, in which what is read is put on record;
        the owner of a type may demand one.
        """
        from maia.spark.governed.plan import TableQuery

        query = TableQuery(
            filter, "true", columns, _instant(since), _instant(until), with_meta, as_of=_as_of(as_of)
        )
        return self.query(name, query, ledger=ledger)

    def stream(
        self,
        name: str,
        filter: str = "true",  # noqa: A002 - it is called so in requests and in the client
        *,
        spark: SparkSession,
        columns: Collection[str] | None = None,
        with_meta: bool = False,
        ledger: str | Path | None = None,
        terms: Streaming | None = None,
    ) -> DataFrame:
        """Return the same table as a stream of Spark, which goes on with what the log gets later."""
        found = self.table(name, filter, columns=columns, with_meta=with_meta, ledger=ledger)
        return found.to_stream(spark, terms)

    # Any: of Spark's query; the log itself is read without Spark.
    def lag(self, query: Any) -> Lag:
        """Return how far a query over streams of this log is behind it, in events and in seconds.

        Beside it is what the log is known to lack, and whether the query waits for that. Raises
        `UNAVAILABLE-LAG` until the first batch has ended.
        """
        from maia.spark.governed.stream_lag import lag_of

        return lag_of(query, self._folders)

    def register(self, spark: SparkSession, *, ledger: str | Path | None = None) -> dict[str, str]:
        """Register a view for `spark.sql` of each type of which the participant sees something.

        Return the name of each view, which is that of its type with `_` for what SQL has no letter for.
        `DESCRIBE` says of each column what it is in the owner's type, and whether the participant's right
        shows, changes or hides it.
        """
        made: dict[str, str] = {}
        for name in self.types():
            with suppress(PolicyRefusal):
                found, view = self.table(name, ledger=ledger), _NO_WORD.sub("_", name)
                found.described(spark).createOrReplaceTempView(view)
                made[view] = name
        return made

    def query(
        self,
        name: str,
        query: TableQuery,
        *,
        ledger: str | Path | None = None,
        secrets: TransformationKeySource | None = None,
    ) -> RecordedTable:
        """Return the answer to any question about a type, as `table` does to the usual ones."""
        from maia.spark.governed.plan import governed_read

        access = replace(self._access(name), secrets=secrets)
        read = self._hinted(lambda: governed_read(access, query))
        return RecordedTable(self, name, read, None if ledger is None else str(place_of(ledger)))

    # -------------------------------------------------------- keys, and the watch over the right

    @cached_property
    def _desk_and_watch(self) -> tuple[JobDesk, RightWatch]:
        from maia.spark.governed.right_watch import Asking, read_statements, right_watch
        from maia.spark.keys.key_server import job_desk

        who = self._reader
        desk = self._stack.enter_context(job_desk())
        heard = read_statements((*who.folders, *who.statements))
        # The testers that are asked are those in the reader's own certificates, and no others.
        asking = Asking(who.key, (*who.credentials, *who.signers))
        watch = right_watch(desk, heard, folders=list(who.folders), asking=asking)
        return desk, self._stack.enter_context(watch)

    def _access(self, name: str) -> Access:
        self._check_open()
        if name not in self._accesses:
            from maia.spark.governed.plan import Access, Keys

            versions, (desk, watch) = self._reader.versions(name), self._desk_and_watch
            # Before any other process is asked, a reader without any right to the type is refused.
            reader = self._tested(versions)
            sealed = any(version.sealing is not None for version in versions)
            keys = self._fetched(versions) if sealed else Keys(None, desk, {})
            self._accesses[name] = Access(reader, versions, keys, watch)
        return self._accesses[name]

    def _tested(self, versions: tuple[VerifiedType, ...]) -> Reader:
        """Return the reader of a type; raise the refusal if it has no right to it at any time."""
        from maia.spark.governed.reader import Reader, slices_of

        who, (_, watch) = self._reader, self._desk_and_watch
        reader = Reader(
            who.key.principal, who.credentials, constitutions=who.constitutions, identity=who.identity
        )
        request = Request(reader.principal, Action.SUBSCRIBE, versions[-1].name, versions[-1])
        tested = watch.tested(reader, request)
        self._hinted(lambda: slices_of(request, tested))
        return reader

    def _fetched(self, versions: tuple[VerifiedType, ...]) -> Keys:
        from maia.sealing.member.settings import MemberSettings
        from maia.spark.governed.plan import Keys
        from maia.spark.keys.reading_keys import fetch_reading_keys

        who, (desk, watch) = self._reader, self._desk_and_watch
        settings = MemberSettings(
            who.network(), who.credentials, addresses=who.keys_at, constitutions=who.constitutions
        )
        found = waited_for(fetch_reading_keys(who.key, settings, list(versions), standing=watch.monitor))
        subjects = {signed.certificate.subject for signed in who.signers}
        given = {one: who.signers for one in subjects if isinstance(one, Principal)}
        return Keys(found.source, desk, {**found.signers, **given}, found.answers, found.begins)

    def _hinted(self, work: Callable[[], _Result]) -> _Result:
        """Do something that needs a right; give a hint where a statement is missing."""
        try:
            return work()
        except GrantTestedOnce as problem:
            # The tester's own refusal says more than that a statement is missing.
            raise next(iter(self._desk_and_watch[1].unanswered.values()), problem) from problem
        except GrantStale as problem:
            raise Unavailable(
                "UNAVAILABLE-STATEMENTS", f"{problem.message}; {self._reader.hint}"
            ) from problem

    def _check_open(self) -> None:
        if not self._close.alive:
            raise Unavailable(
                "UNAVAILABLE-LOG-CLOSED", f"the log in `{self._where}` was closed: open it again"
            )


class RecordedTable:
    """What a participant sees of one type. Each call reads what the log has by then."""

    def __init__(self, log: RecordedLog, name: str, read: GovernedRead, ledger: str | None) -> None:
        """Keep the log, and with it the keys, for as long as the table is there."""
        self._log, self.name, self._read, self._ledger = log, name, read, ledger

    def __repr__(self) -> str:
        """Return the type, the columns, and where it is from."""
        return f"<RecordedTable {self.name} ({', '.join(self.schema.names)}) of {self._log!r}>"

    @cached_property
    def _table(self) -> ArrowTable:
        from maia.spark.governed.arrow_table import ArrowTable

        return ArrowTable(self._read, log=tuple(map(str, self._log.places)), ledger=self._ledger)

    @property
    def reads(self) -> frozenset[str]:
        """Return the attributes that are read from the log, for what is shown and what decides about it."""
        return self._read.reads

    @property
    def schema(self) -> pa.Schema:
        """Return the names and Arrow types of the columns."""
        return self._table.schema

    @property
    def missing(self) -> int:
        """Return how many publications of the type the log is known to lack now; each may be many events.

        Of several logs, it is what the one lacks that lacks least: no more is missing in all of them.
        """
        from maia.spark.governed.log_folder import missing_of

        kind = self._read.event_type.type_id
        return missing_of(one.of_type(kind) for one in self._log._folders)

    @property
    def holds(self) -> bool:
        """Return whether the right behind the table goes on as it was decided, as far as is known now."""
        keys, grant = self._read.access.keys, self._read.grant
        return keys is not None and grant is not None and keys.desk.is_open(grant)

    @property
    def read(self) -> GovernedRead:
        """Return what was decided about the table."""
        return self._read

    def describe(self) -> dict[str, object]:
        """Return what a reader is to know before it counts: the type, its columns, and what is missing."""
        return {"type": self.name, "columns": self.comments(), "missing": self.missing}

    def _check_complete(self) -> None:
        """Warn of what is missing, or refuse to go on without it."""
        self._log._check_open()
        if missing := self.missing:
            text = (
                f"the log is known to lack {missing} publications of {self.name}; "
                "its broker asks others for them, and what it finds is in a later read"
            )
            if self._log._require_complete:
                raise Unavailable("UNAVAILABLE-LOG-INCOMPLETE", text)
            warnings.warn(text, stacklevel=3)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the events as Arrow batches; one that was begun ends with the right."""
        self._check_complete()
        return self._table.batches()

    def to_arrow(self) -> pa.Table:
        """Return the events as an Arrow table."""
        self._check_complete()
        return self._table.read()

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a pandas table."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return the events as a polars table."""
        return to_polars(self.to_arrow())

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Return the events as a table of Spark, read by its executors when it is used."""
        return self._in_spark(spark, None)

    def described(self, spark: SparkSession) -> DataFrame:
        """Return the table of Spark with a comment on each column: its kind, and what becomes of it."""
        rows, said = self.to_spark(spark), self.comments()
        told = {name: {"comment": said.get(name, "")} for name in rows.columns}
        return rows.select(*(rows[f"`{name}`"].alias(name, metadata=told[name]) for name in told))

    def comments(self) -> dict[str, str]:
        """Return what a reader is told of each attribute: its kind, and whether it is shown as it was."""
        from maia.policy.view import keeps, shows

        windows = [window for one in self._read.slices for window in one.view.windows]

        def becomes(uid: AttributeUid) -> str:
            if not any(shows(window, uid) for window in windows):
                return "hidden: your right does not show it"
            if all(keeps(window, uid) for window in windows if shows(window, uid)):
                return "as it was published"
            return "changed by your right"

        return {one.name: f"{one.kind.value}, {becomes(one.uid)}" for one in self._read.delivered}

    def to_stream(self, spark: SparkSession, terms: Streaming | None = None) -> DataFrame:
        """Return the events as a stream of Spark, which goes on with what the log gets later."""
        from maia.spark.governed.table import Streaming

        terms = terms or Streaming()
        waits = terms.require_complete or self._log._require_complete
        return self._in_spark(spark, replace(terms, require_complete=waits))

    def _in_spark(self, spark: SparkSession, stream: Streaming | None) -> DataFrame:
        from maia.spark.session.java_home import check_spark_version

        self._log._check_open()
        if stream is None or not stream.require_complete:  # a stream that wants all waits for it
            self._check_complete()
        check_spark_version(import_module("pyspark").__version__)
        from maia.spark.governed.table import spark_table

        if self._ledger is not None:
            from maia.spark.governed.reading_ledger import chain_reads

            self._log._stack.callback(chain_reads, self._ledger)
        # Whatever is made of the table needs the keys, for as long as the session is used.
        weakref.finalize(spark, self._log.close)
        return spark_table(
            spark, tuple(map(str, self._log.places)), self._read, stream=stream, ledger=self._ledger
        )


def rows_for_tasks(
    table: RecordedTable, host: str, bind: str
) -> Iterator[tuple[SeenRows, ReadingLedger | None]]:
    """Yield what tasks need that reach this process at an address, and how it is put on record."""
    from maia.spark.governed.plan import summary_of_frames
    from maia.spark.governed.reading_ledger import reading_ledger, seen_rows

    table._log._check_open()
    waits = table._log._require_complete
    if not waits:  # whoever reads looks for it: a query is planned once and read often, a stream waits
        table._check_complete()
    read, keys = table._read, table._read.access.keys
    if keys is not None and read.grant is not None:
        read = replace(read, grant=keys.desk.listen(host, bind, read.grant))
    if read.is_summary:
        raise summary_of_frames()
    for plans in read.parts:
        wanted = read.wanted(tuple(map(str, table._log.places)), plans)
        opener = read.opener(replace(wanted, require_complete=waits), plans)
        ledger = None if table._ledger is None else reading_ledger(read, plans, table._ledger)
        yield seen_rows(read, opener, plans), ledger


def _as_of(asked: datetime | Instant | str | int | None) -> int | Instant | None:
    """Return a position, which is a number, or a moment."""
    if isinstance(asked, str) and asked.isascii() and asked.isdigit():
        return int(asked)
    return asked if type(asked) is int else _instant(cast("datetime | Instant | str | None", asked))


def _instant(moment: datetime | Instant | str | None) -> Instant | None:
    if isinstance(moment, datetime):
        return Instant.from_datetime(moment)
    return Instant.parse(moment) if isinstance(moment, str) else moment
