"""Which events does a command of `maia pipeline` read?

Files without access control, such as generated ones; or a recording broker's
log, under the rights of a reader. Keys of sealed events, and the certificates
of those who published them, are fetched from the type's key manager; keys are
gone when the command ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from maia.cli.inputs import read_certificates, read_owner
from maia.cli.key import open_key
from maia.cli.membership import history_of, verified
from maia.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.progress import Progress

    from maia.credentials import NetworkName, SignedCertificate, SigningKey, VerifiedConstitution
    from maia.spark.applications import Application
    from maia.spark.applications.runs import Source
    from maia.spark.governed.reader import Reader
    from maia.spark.governed.requirements import ReaderIdentity
    from maia.spark.governed.right_watch import Asking, RightWatch
    from maia.spark.keys.history_client import ReadingKeys
    from maia.spark.keys.key_server import JobDesk
    from maia.types import VerifiedType


_Result = TypeVar("_Result")

From: TypeAlias = Annotated[
    Path | None,
    typer.Option("--from", metavar="PATH", help="Events: a folder of Parquet files, or one of them."),
]
Log: TypeAlias = Annotated[
    Path | None, typer.Option(help="Events: a recording broker's log, read under the rights of --key.")
]
TypeOf: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--definition", "-d", help="With --log: the type, after versions it was made from."),
]
KeyOf: TypeAlias = Annotated[
    Path | None, typer.Option("--key", "-k", help="With --log: the reader's signing key.")
]
CredentialsOf: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--credentials", help="With --log: the reader's certificates.")
]
Signers: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--signers",
        help="With --log of a sealed type: certificates of brokers that sealed it, beside those that the "
        "key server knows.",
    ),
]
NetworkOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--network",
        envvar="MAIA_NETWORK",
        help="With --log of a sealed type: its network, unless a certificate of the reader names it.",
    ),
]
OwnerOf: TypeAlias = Annotated[
    str | None,
    typer.Option("--coordinator", envvar="MAIA_COORDINATOR", help="With --network: the network's owner."),
]


KeysAt: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--keys-at",
        metavar="HOST:PORT",
        help="With --log of a sealed type: its key server, beside the addresses in the definition.",
    ),
]


StatementsOf: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--statements",
        help="With --log: validity statements about certificates, files or folders, beside those in "
        "the wallets that --credentials names.",
    ),
]


IdentitiesOf: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--identity",
        help="With --log: the reader's identity statements, past ones too, for what publishers require.",
    ),
]
ProvidersOf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--provider", help="With --identity: a provider that is trusted, a key or .pub file."),
]
RequiresOf: TypeAlias = Annotated[
    str,
    typer.Option(
        "--requires", help="With --log: only events of publishers whose statement meets 'clearance >= 3'."
    ),
]


ShownAs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--as",
        help="With --log: the type that the reader's right converts events into, after versions of it.",
    ),
]
TransformationKeysOf: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--transformation-keys",
        help="With --log: the file with the secrets of pseudonyms and noise, which every worker has.",
    ),
]


BatchBytes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--batch-bytes", min=1, metavar="N", help="With --log and --stream: about what a batch reads."
    ),
]


class StatementsMissing(Unavailable):
    """A certificate demands a validity statement, and no valid one is at hand."""

    code = "UNAVAILABLE-STATEMENTS"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options about the source."""

    path: Path | None
    log: Path | None = None
    definitions: list[Path] | None = None
    key: Path | None = None
    credentials: list[Path] | None = None
    signers: list[Path] | None = None
    network: str | None = None
    coordinator: str | None = None
    keys_at: list[str] | None = None
    statements: list[Path] | None = None
    batch_bytes: int | None = None
    identities: list[Path] | None = None
    providers: list[str] | None = None
    requires: str = "true"
    shown_as: list[Path] | None = None
    transformation_keys: Path | None = None

    def check(self, application: Application[Any]) -> None:
        """Refuse, before Spark starts, what cannot be read, and events that an application cannot use."""
        # Any: each application has terms of its own.
        from maia.spark.applications.runs import BadSource, parquet_columns

        if (self.path is None) == (self.log is None):
            raise BadSource("name the source of events: either --from PATH or --log FOLDER")
        place = self.path or self.log
        if place is not None and not place.exists():
            raise BadSource(f"`{place}` is not there; `maia pipeline generate` makes events to begin with")
        if self.log is not None:
            self.check_log()
        if bool(self.identities) != bool(self.providers):
            raise BadSource("give --identity and --provider together: a statement counts by its provider")
        if self.path is not None:
            application.check_names(dict.fromkeys(parquet_columns(self.path)))
        else:
            from maia.config.constitutions import read_constitutions

            quorums = read_constitutions(self.credentials or [])
            newest = _versions(self.shown_as or self.definitions or [], quorums)[-1]
            application.check_names({one.name: one.kind for one in newest.attributes})

    def check_log(self) -> None:
        """Refuse to read a log without rights."""
        from maia.spark.applications.runs import BadSource

        if self.log is None or not self.log.exists():
            raise BadSource(f"there is no event log at `{self.log}`")
        if not (self.definitions and self.key and self.credentials):
            raise BadSource(
                "a log is read under a reader's rights: give --definition, --key and --credentials"
            )

    @contextmanager
    # Any: each application has terms of its own.
    def opened(self, spark: SparkSession, application: Application[Any]) -> Iterator[Source]:
        """Hand out the source; keys that it needed are gone when the body ends."""
        from maia.spark.applications.runs import parquet_source

        if self.path is not None:
            yield parquet_source(spark, self.path)
            return
        with self._governed_source(spark, list(application.reads), **self._transformed()) as source:
            yield source

    # Any: what `governed` is told by name.
    def _transformed(self) -> dict[str, Any]:
        """Return what `governed` needs where the reader's right transforms events."""
        from maia.config.constitutions import read_constitutions
        from maia.keystore.transformation_keys import TransformationKeyFile

        named: dict[str, Any] = {}
        if self.shown_as:
            named["shown_as"] = _versions(self.shown_as, read_constitutions(self.credentials or []))[-1]
        if self.transformation_keys is not None:
            named["transformation_keys"] = TransformationKeyFile(str(self.transformation_keys.resolve()))
        return named

    @contextmanager
    # Any: what `governed` is told by name.
    def opened_table(
        self, spark: SparkSession, columns: list[str] | None, **named: Any
    ) -> Iterator[DataFrame]:
        """Hand out the log as a governed table; keys that it needed are gone when the body ends."""
        with self._governed_source(spark, columns, **named) as source:
            yield source.table()

    @contextmanager
    # Any: what `governed` is told by name.
    def _governed_source(
        self, spark: SparkSession, columns: list[str] | None, **named: Any
    ) -> Iterator[Source]:
        from maia.spark.governed.right_watch import read_statements, right_watch
        from maia.spark.keys.key_server import job_desk
        from maia.spark.session.session import cluster_of

        cluster = cluster_of()
        # A login that stays renews the wallet while this runs.
        folders = [path for path in (*(self.credentials or ()), *(self.statements or ())) if path.is_dir()]
        heard = read_statements((*folders, *(self.statements or ())))
        asking = self._asking()
        # Executors ask the desk, and reach it where they reach the driver.
        with (
            job_desk("127.0.0.1" if cluster is None else cluster.driver_host) as desk,
            right_watch(desk, heard, folders=folders, asking=asking) as watch,
            _end_of_right(watch),
        ):
            yield self._governed(spark, columns, desk, watch, asking, named)

    def _asking(self) -> Asking:
        """Return the testers that this command asks: those in its own certificates, and no others."""
        from maia.spark.governed.right_watch import Asking

        assert self.key is not None  # noqa: S101 - checked above
        mine = (*read_certificates(self.credentials or []), *read_certificates(self.signers or []))
        return Asking(open_key(self.key), tuple(mine))

    def _governed(
        self,
        spark: SparkSession,
        columns: list[str] | None,
        desk: JobDesk,
        watch: RightWatch,
        asking: Asking,
        # Any: what `governed` is told by name.
        named: Mapping[str, Any],
    ) -> Source:
        from maia.config.constitutions import read_constitutions
        from maia.spark.applications.runs import Source
        from maia.spark.governed.reader import Reader
        from maia.spark.governed.table import Keys, governed

        assert self.log is not None  # noqa: S101 - checked above
        quorums = read_constitutions(self.credentials or [])
        versions = _versions(self.definitions or [], quorums)
        mine = tuple(read_certificates(self.credentials or []))
        reader = Reader(asking.key.principal, mine, constitutions=quorums, identity=self._identity())
        keys = Keys(None, desk, {})
        _check_right(watch, reader, versions[-1])
        if any(version.sealing is not None for version in versions):
            found = self._reading_keys(asking.key, versions, reader, watch)
            keys = Keys(found.source, desk, {**found.signers, **_signers(self.signers or [])})
        table = partial(
            _hinted,
            watch,
            governed,
            spark,
            log=str(self.log.resolve()),
            event_type=versions[-1],
            versions=versions[:-1],
            reader=reader,
            keys=keys,
            requires=self.requires,
            watch=watch,
            columns=columns,
            **named,
        )
        sized = {} if self.batch_bytes is None else {"batch_bytes": self.batch_bytes}
        return Source(table, partial(table, is_stream=True, **sized), names=_names(versions))

    def _identity(self) -> ReaderIdentity | None:
        from maia.config.input_files import read_identity, read_principal
        from maia.credentials.identity import IdentityTrust
        from maia.spark.governed.requirements import ReaderIdentity

        statements = tuple(map(read_identity, self.identities or ()))
        if not statements:
            return None
        providers = frozenset(map(read_principal, self.providers or ()))
        return ReaderIdentity(IdentityTrust(statements[0].statement.community, providers), statements)

    def _reading_keys(
        self,
        key: SigningKey,
        versions: list[VerifiedType],
        reader: Reader,
        watch: RightWatch,
    ) -> ReadingKeys:
        import asyncio

        from maia.sealing.member.settings import MemberSettings
        from maia.spark.keys.history_client import fetch_reading_keys

        mine = reader.credentials
        settings = MemberSettings(
            self._network(mine),
            mine,
            addresses=tuple(self.keys_at or ()),
            constitutions=reader.constitutions,
        )
        return asyncio.run(
            fetch_reading_keys(key, settings, versions, credentials=mine, standing=watch.standing)
        )

    def _network(self, mine: tuple[SignedCertificate, ...]) -> NetworkName:
        from maia.credentials import NetworkName
        from maia.spark.applications.runs import BadSource

        if self.network is not None and self.coordinator is not None:
            return NetworkName(read_owner(self.coordinator), self.network)
        named = {one for signed in mine if (one := network_of(signed)) is not None}
        if len(named) == 1 and self.network is None and self.coordinator is None:
            return named.pop()
        raise BadSource(
            "the type is sealed and needs its key server, and none or several of your certificates name "
            "its network: give --network and --coordinator"
        )


@contextmanager
def _end_of_right(watch: RightWatch) -> Iterator[None]:
    """Raise the end of the right where Spark failed for it: of a worker's error Spark keeps the text."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    from maia.spark.governed.reader import GrantEnded

    try:
        yield
    except (PySparkException, Py4JError) as problem:
        if not watch.ended:
            raise
        raise GrantEnded(
            "the right behind this run was revoked, or has no valid statement any more; nothing is kept"
        ) from problem


def _check_right(watch: RightWatch, reader: Reader, event_type: VerifiedType) -> None:
    """Refuse, before any other process is asked, a reader without any right to the type."""
    from maia.credentials import Action
    from maia.policy import Request
    from maia.spark.governed.periods import slices_of

    request = Request(reader.principal, Action.SUBSCRIBE, event_type.name, event_type)
    _hinted(watch, slices_of, request, watch.tested(reader, request))


def _hinted(watch: RightWatch, work: Callable[..., _Result], /, *words: object, **named: object) -> _Result:
    """Do something that needs a right; give a hint where a statement is missing."""
    from maia.policy import GrantStale, GrantTestedOnce

    try:
        return work(*words, **named)
    except GrantTestedOnce as problem:
        # The tester's own refusal says more than that a statement is missing.
        raise next(iter(watch.unanswered.values()), problem) from problem
    except GrantStale as problem:
        raise StatementsMissing(
            f"{problem.message}; log in again (`maia login`) and name the wallet with --credentials, or name "
            "valid statements with --statements; testers were asked at the locations in the certificates"
        ) from problem


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
    """Return every version that was named, each verified after those before it."""
    history = history_of(definitions[-1], definitions[:-1])
    return [verified(history[: number + 1], constitutions) for number in range(len(history))]


def _names(versions: list[VerifiedType]) -> dict[str, str | None]:
    """Return which attributes are in the columns of a log; the newest version wins."""
    from maia.log.format.rows import HEADER_COLUMNS, SEALED_COLUMN, column_name

    names: dict[str, str | None] = dict.fromkeys((*HEADER_COLUMNS, SEALED_COLUMN))
    return names | {column_name(one.uid): one.name for version in versions for one in version.attributes}


def _signers(files: list[Path]) -> dict[Any, Any]:
    # Any: subjects may be names and quorums; only keys sign frames.
    from maia.credentials import Principal

    pool = tuple(read_certificates(files))
    subjects = {signed.certificate.subject for signed in pool}
    return {subject: pool for subject in subjects if isinstance(subject, Principal)}


# How far is Spark? A bar on standard error for people, nothing for programs.


_LOOK_S: Final = 0.3


def _bar(*, is_quiet: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=is_quiet or not console.is_terminal)


@contextmanager
def counted(what: str, total: int, *, is_quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how much of a known amount is done; call the yielded function with each part."""
    with _bar(is_quiet=is_quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def spark_steps(spark: SparkSession, *, is_quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show Spark's tasks while they run; call the yielded function when another step begins."""
    with _bar(is_quiet=is_quiet) as progress:
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
    tracker = spark.sparkContext.statusTracker()
    found = [info for at in tracker.getActiveStageIds() if (info := tracker.getStageInfo(at)) is not None]
    total = sum(info.numTasks for info in found)
    return sum(info.numCompletedTasks for info in found), total or None


__all__ = [
    "Asked",
    "BatchBytes",
    "CredentialsOf",
    "From",
    "KeyOf",
    "KeysAt",
    "Log",
    "NetworkOf",
    "OwnerOf",
    "Signers",
    "StatementsMissing",
    "StatementsOf",
    "IdentitiesOf",
    "ProvidersOf",
    "RequiresOf",
    "TypeOf",
    "network_of",
    "counted",
    "spark_steps",
]
