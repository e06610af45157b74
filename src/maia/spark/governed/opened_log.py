"""How is an event log opened for one reader, with keys, signers and a watch over its right?

Commands and programs ask. Keys of a sealed type, and the certificates of those who
published, are fetched from the type's key manager; keys are gone, and tables end,
when the log is closed. A right that is revoked meanwhile ends the tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from maia.credentials import (
    Action,
    NetworkName,
    Principal,
    SignedCertificate,
    SigningKey,
    VerifiedConstitution,
)
from maia.errors import Unavailable
from maia.policy import GrantStale, GrantTestedOnce, Request
from maia.spark.governed.reader import GrantEnded, Reader, ReaderIdentity
from maia.spark.governed.right_watch import Asking, RightWatch, read_statements, right_watch
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.types import VerifiedType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from maia.spark.keys.history_client import ReadingKeys


_Result = TypeVar("_Result")


class StatementsMissing(Unavailable):
    """A certificate demands a validity statement, and no valid one is at hand."""

    code = "UNAVAILABLE-STATEMENTS"


@dataclass(frozen=True, slots=True)
class LogReader:
    """Who reads which type of which log, and what it can show."""

    log: Path
    key: SigningKey = field(repr=False)
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    versions: tuple[VerifiedType, ...]
    """The type, after the versions that it was made from."""
    network: Callable[[], NetworkName]
    """The network of the key server; asked only if the type is sealed."""
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


# Any: what `governed` takes by name.
Table = Callable[..., "DataFrame"]


@contextmanager
def opened_log(reader: LogReader) -> Iterator[Table]:
    """Open a log while the body runs: `table(spark, …)` takes what `governed` takes besides."""
    from maia.spark.session.session import cluster_of

    cluster = cluster_of()
    heard = read_statements((*reader.folders, *reader.statements))
    # The testers that are asked are those in the reader's own certificates, and no others.
    asking = Asking(reader.key, (*reader.credentials, *reader.signers))
    # Executors ask the desk, and reach it where they reach the driver.
    with (
        job_desk("127.0.0.1" if cluster is None else cluster.driver_host) as desk,
        right_watch(desk, heard, folders=list(reader.folders), asking=asking) as watch,
        _end_of_right(watch),
    ):
        yield _table(reader, desk, watch)


def _table(reader: LogReader, desk: JobDesk, watch: RightWatch) -> Table:
    from maia.spark.governed.table import Keys, governed

    event_type = reader.versions[-1]
    who = Reader(
        reader.key.principal, reader.credentials, constitutions=reader.constitutions, identity=reader.identity
    )
    _check_right(watch, who, event_type, reader.hint)
    keys = Keys(None, desk, {})
    if any(version.sealing is not None for version in reader.versions):
        found = _reading_keys(reader, who, watch)
        keys = Keys(found.source, desk, {**found.signers, **_signers(reader.signers)})

    # Any: what `governed` takes by name.
    def table(spark: SparkSession, **named: Any) -> DataFrame:
        return _hinted(
            watch,
            reader.hint,
            lambda: governed(
                spark,
                log=str(reader.log.resolve()),
                event_type=event_type,
                versions=reader.versions[:-1],
                reader=who,
                keys=keys,
                watch=watch,
                **named,
            ),
        )

    return table


def _reading_keys(reader: LogReader, who: Reader, watch: RightWatch) -> ReadingKeys:
    from maia.sealing.member.settings import MemberSettings
    from maia.spark.keys.history_client import fetch_reading_keys

    settings = MemberSettings(
        reader.network(), who.credentials, addresses=reader.keys_at, constitutions=who.constitutions
    )
    return asyncio.run(
        fetch_reading_keys(
            reader.key, settings, list(reader.versions), credentials=who.credentials, standing=watch.standing
        )
    )


@contextmanager
def _end_of_right(watch: RightWatch) -> Iterator[None]:
    """Raise the end of the right where Spark failed for it: of a worker's error Spark keeps the text."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as problem:
        if not watch.ended:
            raise
        raise GrantEnded(
            "the right behind this run was revoked, or has no valid statement any more; nothing is kept"
        ) from problem


def _check_right(watch: RightWatch, reader: Reader, event_type: VerifiedType, hint: str) -> None:
    """Refuse, before any other process is asked, a reader without any right to the type."""
    from maia.spark.governed.periods import slices_of

    request = Request(reader.principal, Action.SUBSCRIBE, event_type.name, event_type)
    tested = watch.tested(reader, request)
    _hinted(watch, hint, lambda: slices_of(request, tested))


def _hinted(watch: RightWatch, hint: str, work: Callable[[], _Result]) -> _Result:
    """Do something that needs a right; give a hint where a statement is missing."""
    try:
        return work()
    except GrantTestedOnce as problem:
        # The tester's own refusal says more than that a statement is missing.
        raise next(iter(watch.unanswered.values()), problem) from problem
    except GrantStale as problem:
        raise StatementsMissing(f"{problem.message}; {hint}") from problem


def _signers(pool: Sequence[SignedCertificate]) -> Mapping[Principal, Sequence[SignedCertificate]]:
    subjects = {signed.certificate.subject for signed in pool}
    return {subject: pool for subject in subjects if isinstance(subject, Principal)}
