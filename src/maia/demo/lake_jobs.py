"""What do the offices find in the recorded log, each under its own rights, with Spark?

The Spark part of the demonstration asks. Each office shows its certificates,
gets the keys that they opened at the time, and reads the log as a governed
table. Whose right was revoked reads nothing of the past either. The billing
office makes the bill of it and the statistics office counts traffic.
Everything that Spark made for an office, tables and plans, is kept in a
folder of its own, uncompressed, so that it can be searched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.clock import system_now
from maia.credentials import (
    Action,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    certificate_from_bytes,
    statement_from_bytes,
)
from maia.demo.met_domain import with_certificates, without_detectives_right
from maia.demo.numberplate import (
    NUMBERPLATE_ATTRIBUTES,
    OFFICES,
    TIMESTAMP,
    NumberplateStory,
    SealedCast,
    ask,
    sealed_story,
)
from maia.errors import Refusal
from maia.events import Instant
from maia.log.disk.reader import LogView
from maia.policy import Denial
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.sealing.member.settings import MemberSettings
from maia.spark.governed.opened_log import ReadingKeys, fetch_reading_keys
from maia.spark.governed.reader import Reader
from maia.types import VerifiedType, verify_definition
from maia.validity import Monitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from maia.spark.applications import Application
    from maia.spark.keys.content_keys import KeyDesk


TABLE, RESULT, PLAN = "table", "result", "plan.txt"
"""What lies in an office's folder: what it may see, what it made of that, and how Spark went about both."""

_NOT_A_TRIAL: Final = Comparison(TIMESTAMP, Operator.GE, Instant.parse("2000-01-01T00:00:00Z"))
"""Trial sightings are from 1970."""


@dataclass(frozen=True, slots=True)
class LakeOrder:
    """Where the log lies, where its keys are to be had, and where the results go."""

    log: str
    keys_at: str
    out: str
    plot: str
    detective: tuple[str, ...] = ()
    """The certificates that the Met's policy gave to the detective, in hexadecimal."""
    statement_texts: tuple[str, ...] = ()
    """The Met's statements about them, likewise."""

    def in_story(self, story: NumberplateStory) -> NumberplateStory:
        """Return the story in which the detective has these certificates, and no others."""
        if not self.detective:
            return story
        shown = (certificate_from_bytes(bytes.fromhex(one)) for one in self.detective)
        return with_certificates(without_detectives_right(story), shown)

    def statements(self) -> tuple[SignedStatement, ...]:
        """Return the Met's statements."""
        return tuple(statement_from_bytes(bytes.fromhex(one)) for one in self.statement_texts)


@dataclass(frozen=True, slots=True)
class Lake:
    """The log with all that its readers need."""

    story: NumberplateStory
    event_type: VerifiedType
    log: Path
    segments: tuple[Path, ...]
    wallets: Mapping[str, tuple[SignedCertificate, ...]] = field(repr=False)
    keys: Mapping[str, ReadingKeys] = field(repr=False)
    statements: tuple[SignedStatement, ...] = ()

    def revoked(self) -> frozenset[bytes]:
        """Return the ids of the certificates that were revoked."""
        lists = (one.statement for one in self.statements)
        return frozenset(each for one in lists if isinstance(one, RevocationList) for each in one.revoked)

    def why_not(self, office: str, refusal: Refusal) -> str:
        """Return the code of a refusal: what the kernel says of the present, else the table's own."""
        now = system_now()
        monitor = Monitor.of(self.statements, now)
        decision = ask(self.story, office, Action.SUBSCRIBE, now=now, standing=monitor)
        return decision.code if isinstance(decision, Denial) else refusal.code


@dataclass(frozen=True, slots=True)
class Work:
    """What one office had Spark do."""

    office: str
    columns_read: tuple[str, ...]
    """The attributes whose columns of the log were read from the disk."""
    seconds: float
    refused: str | None = None
    """The code with which it was refused the log."""


# ------------------------------------------------------------ before Spark has started


def opened(order: LakeOrder, story: NumberplateStory, cast: SealedCast, *, now: Instant) -> Lake:
    """Let each office fetch its keys from the key server; Spark is not needed for that."""
    story = order.in_story(sealed_story(story, cast, keys_at=order.keys_at))
    event_type, log = verify_definition(story.definition, at=now), Path(order.log)
    segments = tuple(LogView(log).segments(event_type.type_id))
    wallets = {office: _wallet(story, office) for office in OFFICES}
    keys = {office: _keys(story, office, event_type, wallets[office]) for office in OFFICES}
    return Lake(story, event_type, log, segments, wallets, keys, order.statements())


def _wallet(story: NumberplateStory, office: str) -> tuple[SignedCertificate, ...]:
    """Return the certificates that an office has: those that name it, and those that name their issuers."""
    own = [one for one in story.certificates if one.certificate.subject == story.principal(office)]
    issuers = {one.certificate.issuer for one in own}
    return (*(one for one in story.certificates if one.certificate.subject in issuers), *own)


def _keys(
    story: NumberplateStory, office: str, event_type: VerifiedType, wallet: tuple[SignedCertificate, ...]
) -> ReadingKeys:
    settings = MemberSettings(story.network, wallet)
    asking = fetch_reading_keys(story.keys[office], settings, [event_type])
    return asyncio.run(asking)


# ------------------------------------------------------------ with Spark


def worked(
    spark: SparkSession, lake: Lake, order: LakeOrder, step: Callable[[str], None]
) -> tuple[list[Work], str | None]:
    """Let every office read the log and do its work; return what was done, and why there is no picture."""
    from maia.spark.applications import BILLING, STATISTICS
    from maia.spark.keys.key_server import job_desk

    # Any: each application has terms of its own.
    applications: dict[str, Application[Any]] = {"billing office": BILLING, "statistics office": STATISTICS}
    done = []
    with job_desk() as desk:
        for office in OFFICES:
            step(f"the {office} reads the log")
            reading = _Reading(spark, lake, office, desk, Path(order.out, office))
            done.append(reading.worked(applications.get(office)))
    step("drawing the traffic")
    return done, _drawn(spark, Path(order.out, "statistics office", RESULT), Path(order.plot))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One office in front of the log."""

    spark: SparkSession
    lake: Lake
    office: str
    desk: KeyDesk
    folder: Path

    # Any: each application has terms of its own.
    def worked(self, application: Application[Any] | None) -> Work:
        began = time.perf_counter()
        self.folder.mkdir(parents=True)
        try:
            table = self._governed(ALWAYS)
        except Refusal as problem:
            why = self.lake.why_not(self.office, problem)
            return Work(self.office, (), time.perf_counter() - began, why)
        read = self._kept(table, TABLE)
        if application is not None:
            read |= self._kept(application.of(self._governed(_NOT_A_TRIAL)), RESULT)
        return Work(self.office, tuple(sorted(read)), time.perf_counter() - began)

    def _governed(self, interest: Predicate) -> DataFrame:
        from maia.spark.governed.table import Keys, governed

        lake, found = self.lake, self.lake.keys[self.office]
        return governed(
            self.spark,
            log=str(lake.log),
            segments=lake.segments,
            event_type=lake.event_type,
            reader=Reader(
                lake.story.principal(self.office), lake.wallets[self.office], revoked=lake.revoked()
            ),
            keys=Keys(found.source, self.desk, found.signers),
            filter=interest,
        )

    def _kept(self, rows: DataFrame, name: str) -> set[str]:
        """Write rows and the plan that made them; return the attributes that were read from the log."""
        from maia.spark.applications.application import columns_read

        rows.write.option("compression", "none").parquet(str(self.folder / name))
        with (self.folder / PLAN).open("a", encoding="utf-8") as plan:
            plan.write(rows._jdf.queryExecution().toString())
        found = columns_read(rows)
        return {one.name for one in NUMBERPLATE_ATTRIBUTES if one.uid in found}


def _drawn(spark: SparkSession, counts: Path, plot: Path) -> str | None:
    from maia.spark.applications.plots import PlotsUnavailable, draw

    try:
        plot.write_bytes(draw("statistics", spark.read.parquet(str(counts)), form=plot.suffix.lstrip(".")))
    except PlotsUnavailable as problem:
        return problem.message
    return None
