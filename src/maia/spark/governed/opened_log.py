"""How is an event log opened for one reader, with keys, signers and a watch over its right?

Commands and programs ask. Keys of a sealed type, and the certificates of those who
published, are fetched from the type's key manager; keys are gone, and tables end,
when the log is closed. A right that is revoked meanwhile ends the tables.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from maia.api.revalidation import AskingTesters, Revalidator
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkName,
    Principal,
    SignedCertificate,
    SigningKey,
    VerifiedConstitution,
)
from maia.errors import BadInput, Refusal, Unavailable
from maia.net.node_runner import NodeRunner
from maia.net.process import waited_for
from maia.policy import GrantStale, GrantTestedOnce, Request
from maia.policy.answers import Answers
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.member import KeyMember
from maia.sealing.member.past import PastReading
from maia.sealing.member.settings import KeysRefused, MemberSettings
from maia.sessions.challenges import Challenged
from maia.spark.governed.plan import Keys
from maia.spark.governed.reader import Reader, ReaderIdentity, slices_of
from maia.spark.governed.right_watch import Asking, RightWatch, read_statements, right_watch
from maia.spark.keys.content_keys import HeldKeys, KeysBegin, KeySource, PastKeys, SeveralSources
from maia.spark.keys.key_server import job_desk
from maia.types import VerifiedType
from maia.validity import Monitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_Result = TypeVar("_Result")


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


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that is open for one reader: what opens it, and the watch over the reader's right."""

    opened_for: LogReader
    reader: Reader = field(repr=False)
    keys: Keys = field(repr=False)
    watch: RightWatch = field(repr=False)

    @property
    def place(self) -> str:
        """Return where the log is, for every process of this machine."""
        return str(self.opened_for.log.resolve())

    def asked(self) -> _Asked:
        """Return what `governed` and `governed_read` are asked with, whatever is asked besides."""
        *others, event_type = self.opened_for.versions
        return {
            "event_type": event_type,
            "versions": tuple(others),
            "reader": self.reader,
            "keys": self.keys,
            "watch": self.watch,
        }

    def hinted(self, work: Callable[[], _Result]) -> _Result:
        """Do something that needs a right; give a hint where a statement is missing."""
        return _hinted(self.watch, self.opened_for.hint, work)


class _Asked(TypedDict):
    event_type: VerifiedType
    versions: tuple[VerifiedType, ...]
    reader: Reader
    keys: Keys
    watch: RightWatch


@contextmanager
def opened_for(reader: LogReader, host: str = "127.0.0.1") -> Iterator[OpenedLog]:
    """Open a log while the body runs; what reads it asks the desk at `host` for keys."""
    heard = read_statements((*reader.folders, *reader.statements))
    # The testers that are asked are those in the reader's own certificates, and no others.
    asking = Asking(reader.key, (*reader.credentials, *reader.signers))
    with (
        job_desk(host) as desk,
        right_watch(desk, heard, folders=list(reader.folders), asking=asking) as watch,
    ):
        who = Reader(
            reader.key.principal,
            reader.credentials,
            constitutions=reader.constitutions,
            identity=reader.identity,
        )
        _check_right(watch, who, reader.versions[-1], reader.hint)
        keys = Keys(None, desk, {})
        if any(version.sealing is not None for version in reader.versions):
            found = _reading_keys(reader, who, watch)
            signers = {**found.signers, **_signers(reader.signers)}
            keys = Keys(found.source, desk, signers, found.answers, found.begins)
        yield OpenedLog(reader, who, keys, watch)


@contextmanager
def opened_log(reader: LogReader) -> Iterator[Table]:
    """Open a log for Spark while the body runs: `table(spark, …)` takes what `governed` takes besides."""
    from maia.spark.session.session import cluster_of

    cluster = cluster_of()
    # Executors ask the desk, and reach it where they reach the driver.
    host = "127.0.0.1" if cluster is None else cluster.driver_host
    with opened_for(reader, host) as log, _end_of_right(log.watch):
        from maia.spark.governed.table import governed

        # Any: what `governed` takes by name.
        def table(spark: SparkSession, **named: Any) -> DataFrame:
            return log.hinted(lambda: governed(spark, log=log.place, **log.asked(), **named))

        yield table


def _reading_keys(reader: LogReader, who: Reader, watch: RightWatch) -> ReadingKeys:
    settings = MemberSettings(
        reader.network(), who.credentials, addresses=reader.keys_at, constitutions=who.constitutions
    )
    return waited_for(fetch_reading_keys(reader.key, settings, list(reader.versions), standing=watch.monitor))


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
        raise Refusal(
            "PIPELINE-GRANT-ENDED",
            "the right behind this run was revoked, or has no valid statement any more; nothing is kept",
        ) from problem


def _check_right(watch: RightWatch, reader: Reader, event_type: VerifiedType, hint: str) -> None:
    """Refuse, before any other process is asked, a reader without any right to the type."""
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
        raise Unavailable("UNAVAILABLE-STATEMENTS", f"{problem.message}; {hint}") from problem


def _signers(pool: Sequence[SignedCertificate]) -> Mapping[Principal, Sequence[SignedCertificate]]:
    subjects = {signed.certificate.subject for signed in pool}
    return {subject: pool for subject in subjects if isinstance(subject, Principal)}


# How does a pipeline fetch the keys with which it reads a log, and who may have written it?
#
# The type says who its key manager is and where. The reader proves its key in
# the handshake, shows its certificates, and gets what they opened at the time.
# Keys of the present are for members of the type's groups, so the reader joins
# them for a moment: then its leaving, and the end of its right, make new keys as
# they do for every member.


@dataclass(frozen=True, slots=True)
class ReadingKeys:
    """What opens a log for one reader, and the certificates of those whose frames may be in it."""

    source: KeySource = field(repr=False)
    signers: Mapping[Principal, tuple[SignedCertificate, ...]] = field(repr=False)
    answers: Answers = field(default_factory=dict, repr=False)
    """What the answers are about of which there are keys."""
    begins: tuple[KeysBegin, ...] = ()


async def fetch_reading_keys(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    standing: Monitor | None = None,
    timeout_s: float = 60.0,
) -> ReadingKeys:
    """Ask the type's key manager for keys of the past and of this hour, and for who has published.

    `standing` shows the manager that certificates still count which demand it.
    """
    if versions[-1].sealing is None:
        raise BadInput("INPUT-NOT-SEALED", f"`{versions[-1].name.name}` is not sealed, and has no keys")
    ring, past = await _asked(key, settings, versions, standing=standing, timeout_s=timeout_s)
    before = PastKeys(past.epochs, past.terms)
    begins = [KeysBegin(one.since, frozenset(one.keys)) for one in past.epochs]
    if ring is None:
        return ReadingKeys(before, past.writers, past.answers, tuple(begins))
    for epoch in ring.epochs:
        period, groups = ring.period(epoch), ring.groups(epoch)
        assert period is not None  # noqa: S101 - it is one of the ring's
        begins.append(KeysBegin(period[0], frozenset(group.uid for group in groups)))
    answers = {**past.answers, **ring.answers}
    wanted = frozenset({None, *(uid for version in versions for uid in version.kinds), *answers})
    source = SeveralSources((HeldKeys.of(ring, wanted), before))
    return ReadingKeys(source, past.writers, answers, tuple(begins))


async def _asked(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    standing: Monitor | None,
    timeout_s: float,
) -> tuple[KeyRing | None, PastReading]:
    """Return the keys of this hour, None if the reader has no right today, and those of the past."""
    member = KeyMember(key, settings, random=os.urandom, standing=standing)
    type_id, answered, done = versions[-1].type_id, asyncio.Event(), asyncio.Event()
    past, refused = PastReading(type_id), False

    def look() -> None:
        nonlocal refused
        for notice in member.take_notices():
            refused = refused or isinstance(notice, KeysRefused)
            if isinstance(notice, Challenged):
                revalidator.take(notice)
        if refused or member.groups(type_id):
            answered.set()
        if past.is_done:
            done.set()

    runner = NodeRunner(member, key, after_inputs=look)
    revalidator = Revalidator(
        AskingTesters(key),
        lambda asked, answers, problem: runner.perform(member.vouch(asked.id, answers, problem)),
    )
    async with runner.running():
        try:
            runner.perform(member.need(versions, system_now()))
            await _waited(answered, timeout_s)
            ring = None if refused else member.ring(type_id)
            present = None if ring is None else ring.copy()
            runner.perform(member.read_past(past, system_now()))
            await _waited(done, timeout_s)
        finally:
            await revalidator.stop()
        runner.perform(member.leave())
    if past.problem is not None:
        raise past.problem
    return present, past


async def _waited(done: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        raise Unavailable(
            "UNAVAILABLE-HISTORY-KEYS", f"the key manager did not answer in {timeout_s:g} seconds"
        ) from None
