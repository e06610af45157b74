"""Which events does a command of `maia pipeline` read?

Files without access control, such as generated ones; or a recording broker's
log, under the rights of a reader. Keys of sealed events, and the certificates
of those who published them, are fetched from the type's key manager; keys are
gone when the command ends.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.cli.command import flag, opt, options
from maia.cli.inputs import moment, network_named, read_certificates, read_constitutions
from maia.cli.output import Answer, row, type_places, wants_json
from maia.cli.participate.membership import history_of, verified
from maia.cli.progress import bar
from maia.cli.trust.key import open_key
from maia.errors import BadInput
from maia.places import place_of, places_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from maia.credentials import NetworkName, Principal, SignedCertificate, VerifiedConstitution
    from maia.spark.applications import Application
    from maia.spark.applications.runs import EventSource
    from maia.spark.governed.reader import Reader, ReaderIdentity
    from maia.spark.open_log import RecordedLog
    from maia.spark.session.cluster import Cluster
    from maia.types import VerifiedType


FROM = opt("Events: a folder of Parquet files, or one of them; also at s3://….", "--from", metavar="PLACE")
TYPE_OF = opt("With --log: the type, after those it was made from; or its name.", "--definition", "-d")
KEY_OF = opt("With --log: the reader's signing key.", "--key", "-k")
CREDENTIALS_OF = opt("With --log: the reader's certificates.", "--credentials", "-c")
RECORD_OF = opt(
    "With --log: a ledger of your own, a folder or s3://…, in which all that is read is put on record; "
    "the owner of a type may demand it.",
    "--record", envvar="MAIA_READ_LEDGER",
)  # fmt: skip


@options
class LogOptions:
    """The options about a log, and the rights under which it is read."""

    log: str | None = opt(
        "Events: a recording broker's log, a folder or s3://…, or those of several brokers (s3://…/*), "
        "read under the rights of --key.",
        metavar="PLACE",
    )
    definition: list[Path] | None = TYPE_OF
    key: Path | None = KEY_OF
    credentials: list[Path] | None = CREDENTIALS_OF
    signers: list[Path] | None = opt(
        "With --log of a sealed type: certificates of brokers that sealed it, beside those that the "
        "key server knows."
    )
    network: str | None = opt(
        "With --log of a sealed type: its network, unless a certificate of the reader names it.",
        envvar="MAIA_NETWORK",
    )
    coordinator: str | None = opt("With --network: the network's owner.", envvar="MAIA_COORDINATOR")
    keys_at: list[str] | None = opt(
        "With --log of a sealed type: its key server, beside the addresses in the definition.",
        metavar="HOST:PORT",
    )
    statements: list[Path] | None = opt(
        "With --log: validity statements about certificates, files or folders, beside those in "
        "the wallets that --credentials names."
    )
    record: str | None = RECORD_OF

    def check_log(self) -> None:
        """Refuse to read a log without rights."""

        if self.log is None:
            raise BadInput("INPUT-PIPELINE-SOURCE", "name the event log with --log")
        if not any(one.exists() for one in places_of(self.log)):
            raise BadInput("INPUT-PIPELINE-SOURCE", f"there is no event log at `{self.log}`")
        if not (self.definition and self.key and self.credentials):
            raise BadInput(
                "INPUT-PIPELINE-SOURCE",
                "a log is read under a reader's rights: say `--as PROFILE -d TYPE`, or give "
                "--definition, --key and --credentials",
            )

    def newest_type(self) -> VerifiedType:
        """Return the type of the log that is read."""

        return _versions(self.definition or [], read_constitutions(self.credentials or []))[-1]

    def reader(self, principal: Principal) -> Reader:
        """Return who reads, with certificates that nothing is known against yet."""
        from maia.spark.governed.reader import Reader

        given = self.credentials or []
        mine, quorums = tuple(read_certificates(given)), read_constitutions(given)
        return Reader(principal, mine, constitutions=quorums, identity=self._identity())

    @contextmanager
    # Any: what `Asked` is told by name.
    def opened_table(self, spark: SparkSession, **asked: Any) -> Iterator[DataFrame]:
        """Hand out the log as a governed table; keys that it needed are gone when the body ends."""
        from maia.spark.governed.plan import TableQuery

        with self.opened_log() as log:
            yield log.query("", TableQuery(**asked), ledger=self.record).to_spark(spark)

    def opened_log(self, *, require_complete: bool = False) -> RecordedLog:
        """Open the log; it shows one type, whatever name is asked for."""
        from maia.spark.open_log import LogReader, RecordedLog

        assert self.key is not None  # noqa: S101 - checked above
        assert self.log is not None  # noqa: S101 - checked above
        quorums = read_constitutions(self.credentials or [])
        versions = tuple(_versions(self.definition or [], quorums))
        mine = tuple(read_certificates(self.credentials or []))
        # A login that stays renews the wallet while this runs.
        folders = [path for path in (*(self.credentials or ()), *(self.statements or ())) if path.is_dir()]
        reader = LogReader(
            str(self.key),
            open_key(self.key),
            mine,
            versions=lambda _name: versions,
            network=lambda: self._network(mine),
            folders=tuple(folders),
            statements=tuple(self.statements or ()),
            keys_at=tuple(self.keys_at or ()),
            signers=tuple(read_certificates(self.signers or [])),
            constitutions=quorums,
            identity=self._identity(),
            hint="log in again (`maia login`) and name the wallet with --credentials, or name valid "
            "statements with --statements; testers were asked at the locations in the certificates",
        )
        return RecordedLog(self.log, reader, require_complete=require_complete)

    def _identity(self) -> ReaderIdentity | None:
        return None

    def _network(self, mine: tuple[SignedCertificate, ...]) -> NetworkName:

        if self.network is not None and self.coordinator is not None:
            return network_named(self.coordinator, self.network)
        named = {one for signed in mine if (one := network_of(signed)) is not None}
        if len(named) == 1 and self.network is None and self.coordinator is None:
            return named.pop()
        raise BadInput(
            "INPUT-PIPELINE-SOURCE",
            "the type is sealed and needs its key server, and none or several of your certificates name "
            "its network: give --network and --coordinator",
        )


@options
class EventOptions(LogOptions):
    """The options about the source of events of an application: files, or a log."""

    source: str | None = FROM
    identity: list[Path] | None = opt(
        "With --log: the reader's identity statements, past ones too, for what publishers require."
    )
    provider: list[str] | None = opt("With --identity: a provider that is trusted, a key or .pub file.")
    requires: str = opt(
        "With --log: only events of publishers whose statement meets 'clearance >= 3'.", default="true"
    )
    shown_as: list[Path] | None = opt(
        "With --log: the type that the reader's right converts events into, after versions of it."
    )
    transformation_keys: Path | None = opt(
        "With --log: the file with the secrets of pseudonyms and noise, which every worker has."
    )
    batch_bytes: int | None = opt("With --log and --stream: about what a batch reads.", min=1, metavar="N")
    require_complete: bool = flag(
        "With --log: do not read it while it is known to lack events; with --follow, wait until it has them."
    )

    def check(self, application: Application[Any]) -> None:
        """Refuse, before Spark starts, what cannot be read, and events that an application cannot use."""
        # Any: each application has terms of its own.
        from maia.spark.applications.runs import parquet_columns

        if (self.source is None) == (self.log is None):
            raise BadInput(
                "INPUT-PIPELINE-SOURCE", "name the source of events: either --from PLACE or --log PLACE"
            )
        if self.source is not None and not place_of(self.source).exists():
            raise BadInput(
                "INPUT-PIPELINE-SOURCE",
                f"`{self.source}` is not there; `maia pipeline generate` makes events to begin with",
            )
        if self.log is not None:
            self.check_log()
        if bool(self.identity) != bool(self.provider):
            raise BadInput(
                "INPUT-PIPELINE-SOURCE",
                "give --identity and --provider together: a statement counts by its provider",
            )
        if self.source is not None:
            application.check_names(dict.fromkeys(parquet_columns(self.source)))
        else:
            quorums = read_constitutions(self.credentials or [])
            newest = _versions(self.shown_as or self.definition or [], quorums)[-1]
            application.check_names({one.name: one.kind for one in newest.attributes})

    @contextmanager
    # Any: each application has terms of its own.
    def opened(self, spark: SparkSession, application: Application[Any]) -> Iterator[EventSource]:
        """Hand out the source; keys that it needed are gone when the body ends."""
        from maia.keystore.lookup_tables import TransformationKeyFile
        from maia.spark.applications.runs import EventSource, parquet_source
        from maia.spark.governed.plan import TableQuery

        if self.source is not None:
            yield parquet_source(spark, self.source, columns=application.reads)
            return
        from maia.spark.governed.table import Streaming

        shown_as = None
        if self.shown_as:
            shown_as = _versions(self.shown_as, read_constitutions(self.credentials or []))[-1]
        secrets = None
        if self.transformation_keys is not None:
            secrets = TransformationKeyFile(str(self.transformation_keys.resolve()))
        asked = TableQuery(requires=self.requires, columns=list(application.reads), shown_as=shown_as)
        terms = Streaming() if self.batch_bytes is None else Streaming(batch_bytes=self.batch_bytes)
        with self.opened_log(require_complete=self.require_complete) as log:
            table = log.query("", asked, ledger=self.record, secrets=secrets)
            yield EventSource(
                lambda: table.to_spark(spark),
                lambda: table.to_stream(spark, terms),
                reads=lambda _result: set(table.reads),
                lag=log.lag,
            )

    def _identity(self) -> ReaderIdentity | None:
        from maia.spark.open_log import reader_identity

        return reader_identity(self.identity or (), self.provider or ())


def network_of(signed: SignedCertificate) -> NetworkName | None:
    """Return the network to which a certificate grants connect, if it names exactly one."""
    from maia.credentials import Action, AuthorisationCertificate, NetworkName
    from maia.credentials.authority import NetworkPattern

    one = signed.certificate
    if not isinstance(one, AuthorisationCertificate) or Action.CONNECT not in one.authority.actions:
        return None
    pattern = one.authority.resources
    if not isinstance(pattern, NetworkPattern) or pattern.owner is None or pattern.name.exact is None:
        return None
    return NetworkName(pattern.owner, pattern.name.exact)


def _versions(definitions: list[Path], constitutions: tuple[VerifiedConstitution, ...]) -> list[VerifiedType]:
    """Return every version that was named, each verified after those before it; or all of a name."""
    if len(definitions) == 1 and not definitions[0].exists() and definitions[0].suffix != ".type":
        from maia.profile.profile import types_named

        name = str(definitions[0])
        return list(types_named(name, type_places(), constitutions=constitutions, at=moment(None)))
    history = history_of(definitions[-1], definitions[:-1])
    return [verified(history[: number + 1], constitutions) for number in range(len(history))]


CORES = opt("How many cores Spark may use.", default=2, min=1, max=1024)
MEMORY_MIB = opt("How much memory Spark may use.", "--memory", default=2048, min=512, metavar="MIB")
OUT = opt(
    "Keep the result, as Parquet: in this new folder, or at an address (s3://…, file:///shared/…) to which "
    "the workers of a cluster write it.",
    metavar="PLACE",
)
CHECKPOINT = opt(
    "A folder or address that every worker reads and writes, for what a stream keeps while it runs; with "
    "--follow, the next run goes on from it.",
    metavar="PLACE",
)


@contextmanager
def spark_for(
    name: str, *, cores: int = 2, memory_mib: int = 2048, long_running: bool = True, shared: str | None = None
) -> Iterator[SparkSession]:
    """Start Spark, here or on the cluster that the environment names, while a body runs.

    What Spark makes in a place that is `shared` with workers under other accounts is as open as the place.
    """
    from maia.spark.errors import told_by_spark
    from maia.spark.session import session
    from maia.spark.session.cluster import cluster_of

    where = cluster_of()
    settings: dict[str, str] = {}
    if shared is not None and where is not None and where.kind != "sc":
        from maia.spark.applications.results import umask_of

        settings[session.UMASK] = umask_of(shared)
    running = session.spark_session(
        name,
        cores=cores,
        memory_mib=memory_mib,
        long_running=long_running,
        cluster=where,
        settings=settings,
    )
    with ExitStack() as stack:
        if where is None or where.kind == "local":
            spark = stack.enter_context(running)
        else:
            with _said_late(lambda: f"waiting for `{where.master.partition('/;')[0]}` to take the job"):
                spark = stack.enter_context(running)
            stack.enter_context(_said_late(lambda: _without_executors(spark, where)))
        stack.enter_context(told_by_spark())
        stack.enter_context(_withheld_rows_named())
        yield spark


@contextmanager
def _said_late(look: Callable[[], str]) -> Iterator[None]:
    """Say what a body waits for, if it is still there after ten seconds; nothing if that is empty."""

    def say() -> None:
        if text := look():
            sys.stderr.write((json.dumps({"waiting": text}) if wants_json() else text) + "\n")
            sys.stderr.flush()

    timer = threading.Timer(_LATE_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _without_executors(spark: SparkSession, where: Cluster) -> str:
    """Return that no worker of a cluster runs anything of the job yet; nothing if one does."""
    if where.kind == "sc":
        return ""  # the server has the executors
    from maia.spark.session.private_handles import executors

    if executors(spark):
        return ""
    return (
        f"waiting for a worker of `{where.master}`: none runs an executor of this job yet; each needs a free "
        f"core and {where.executor_memory_mib} MiB of memory (`MAIA_SPARK_EXECUTOR_MIB`)"
    )


@contextmanager
def _withheld_rows_named() -> Iterator[None]:
    """Name rows that a reader's keys do not open in one line, as any other answer to a person."""
    from maia.spark.governed.reader import RowsWithheld

    with warnings.catch_warnings():
        warnings.simplefilter("always", RowsWithheld)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, RowsWithheld):
                sys.stderr.write(f"warning: {message}\n")
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        yield


def found_rows(found: DataFrame, shown: Callable[[dict[str, object]], Answer]) -> Iterator[Answer]:
    """Yield each row; no more than a person reads, and how many there were."""
    all_rows = found.limit(_SHOWN + 1).collect()
    yield from (shown(one.asDict()) for one in all_rows[:_SHOWN])
    more = f", and more than {_SHOWN} in all" if len(all_rows) > _SHOWN else ""
    yield row("", f"{min(len(all_rows), _SHOWN)} found{more}")


# Any: values of all kinds.
def shown_values(value: Any) -> Any:
    """Return what Spark found as people and programs read it: moments in UTC, bytes in hexadecimal digits."""
    if isinstance(value, dict):
        return {name: shown_values(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shown_values(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else value


_LOOK_S: Final = 0.3
_LATE_S: Final = 10.0
_SHOWN: Final = 1000


@contextmanager
def spark_steps(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Show Spark's tasks while they run; call the yielded function when another step begins."""
    with bar() as progress:
        task, ended = progress.add_task("starting", total=None), threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_S):
                done, total = _tasks(spark)
                progress.update(task, completed=done, total=total)

        watcher = threading.Thread(target=look, daemon=True)
        if not progress.disable:
            watcher.start()
        try:
            yield lambda title: progress.update(task, description=title, completed=0, total=None)
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()


def _tasks(spark: SparkSession) -> tuple[int, int | None]:
    """Return how many tasks of the stages at work are done, of how many."""
    from maia.spark.session.cluster import is_connect

    if is_connect(spark):
        return 0, None
    tracker = spark.sparkContext.statusTracker()
    found = [info for at in tracker.getActiveStageIds() if (info := tracker.getStageInfo(at)) is not None]
    total = sum(info.numTasks for info in found)
    return sum(info.numCompletedTasks for info in found), total or None
