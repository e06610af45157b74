"""Do the tables of the recorded log show each reader what it received live?

Spark works in a process of its own, which starts with the story, behind everything else, and is given the
readers when the network has played. For each it makes the governed table by the reader's profile, and for
some an application over it; and the same application once more over what was
delivered. The demonstration compares the files.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import Instant, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from maia.demo.stage import Stage
    from maia.demo.world import Happening, StoryReader
    from maia.types import VerifiedType


_LOAD_QUICKLY: Final = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""The jars are those of the lock, by their hash; to verify each class again takes Java long."""
_BEHIND_EVERYTHING: Final = 5
"""How much priority Spark gives up for the live network, in the scale of `nice`."""
_TRIES: Final = 3
TABLES, PLAN = "tables", "plan.txt"
_TABLE, _LIVE, _FROM_LOG, _FROM_LIVE = "table", "live.parquet", "from-log", "from-live"


@dataclass(frozen=True, slots=True)
class LogTable:
    """What one reader finds in the log, beside what it received live."""

    reader: str
    rows: int
    columns: tuple[str, ...]
    """The attributes whose columns were read from the disk."""
    is_same: bool
    """Whether the table holds exactly what the kernel shows with the rights of now."""
    is_as_received: bool
    """Whether that is what was delivered, too: not where a right was lost, for the past is then closed."""
    has_lost_a_right: bool
    refused: str | None
    application: str | None
    results: int
    """How many rows its application makes of the log."""
    results_same: bool
    """Whether it makes the same of what was delivered."""

    def broken_claims(self) -> Iterator[str]:
        """Say where log, kernel and network disagree."""
        if not self.is_same:
            yield f"{self.reader} finds {self.rows} rows in the log, against the kernel"
        if self.is_as_received is self.has_lost_a_right:
            yield f"{self.reader} finds {self.rows} rows in the log, and that is not to be expected"
        if self.application and not (self.results and self.results_same):
            yield f"`{self.application}` of {self.reader} differs between the log and the deliveries"


# ------------------------------------------------------------ in the demonstration


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The process in which Spark works."""

    process: subprocess.Popen[str]

    def tables(self, stage: Stage) -> list[LogTable]:
        """Let Spark make the table of each reader, and compare it with what the reader received."""
        import pyarrow.parquet as pq

        for one in stage.world.organisations():
            stage.maia(f"log roll {one}/log")
        out = stage.world.folder / TABLES
        readers = []
        for reader in stage.joined():
            (out / reader.name).mkdir(parents=True)
            if reader.application:
                pq.write_table(_arrow(stage, reader), out / reader.name / _LIVE)
            profile = str(stage.members[reader.profile].profile.path)
            readers.append([reader.name, profile, reader.of, reader.shown_as, reader.application])
        answers = self._asked(
            {"out": str(out), "readers": readers, "has_secrets": bool(stage.story.secrets_of)}
        )
        return [_compared(stage, one, out / one.name, answers[one.name]) for one in stage.joined()]

    # Any: what was written as JSON by our own process is read as it was written.
    def _asked(self, order: Mapping[str, object]) -> dict[str, Any]:
        assert self.process.stdin is not None  # noqa: S101 - asked for below
        assert self.process.stdout is not None  # noqa: S101 - asked for below
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline() or "{}")
        if not found or "failed" in found:
            reason = found.get("failed") or f"it ended with status {self.process.wait()}"
            raise Unavailable("UNAVAILABLE-SPARK-PART", f"Spark has no result: {reason}")
        return dict(found)


@contextmanager
def spark_in_background(folder: Path) -> Iterator[SparkRun]:
    """Start Spark, with its files in `folder`; end it and everything it started when the body ends."""
    options = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {_LOAD_QUICKLY}".strip()
    process = subprocess.Popen(
        [sys.executable, "-m", "maia.demo.spark"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("MAIA_DEMO_SPARK_LOG") else subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "JDK_JAVA_OPTIONS": options},
        # Java is in the same group, so both can be ended together. A session of its own would have half of
        # the processors, whatever its priority: Linux is fair to sessions first.
        process_group=0,
    )
    try:
        yield SparkRun(process)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            process.communicate()


# Any: what was written as JSON by our own process is read as it was written.
def _compared(stage: Stage, reader: StoryReader, folder: Path, answer: Mapping[str, Any]) -> LogTable:
    names = [one.name for one in _shown(stage, reader).attributes]

    def rows(events: list[Happening]) -> Counter[tuple[Value, ...]]:
        return Counter(tuple(event[name] for name in names) for event in events)

    found = rows([one for one in _read(folder / _TABLE) if not stage.story.is_probe(one)])
    received = rows([dict(one) for one in stage.inboxes[reader.name].events])
    from_log, from_live = (sorted(map(repr, _read(folder / name))) for name in (_FROM_LOG, _FROM_LIVE))
    return LogTable(
        reader=reader.name,
        rows=found.total(),
        columns=tuple(answer["columns"]),
        is_same=found == rows(stage.on_record(reader)),
        is_as_received=found == received,
        has_lost_a_right=reader.name in stage.lost,
        refused=answer["refused"],
        application=None if answer["refused"] else reader.application,
        results=len(from_log),
        results_same=from_log == from_live,
    )


def _shown(stage: Stage, reader: StoryReader) -> VerifiedType:
    return stage.members[reader.profile].type(reader.shown_as or reader.of)


# Any: pyarrow is not typed.
def _arrow(stage: Stage, reader: StoryReader) -> Any:
    import pyarrow as pa

    from maia.views import ARROW_TYPES

    events = stage.inboxes[reader.name].events
    return pa.table({
        one.name: pa.array([event[one.name] for event in events], ARROW_TYPES[one.kind])
        for one in _shown(stage, reader).attributes
    })  # fmt: skip


def _read(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as events, moments among them; none if there is no table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not folder.exists():
        return []
    table = pq.read_table(folder)
    columns = []
    for column in table.columns:
        is_moment = pa.types.is_timestamp(column.type)
        values = (column.cast(pa.int64()) if is_moment else column).to_pylist()
        columns.append([Instant(one) if is_moment and one is not None else one for one in values])
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


# ------------------------------------------------------------ in Spark's own process


def main() -> None:
    """Start Spark, take one order from standard input, and write one answer to the output."""
    os.nice(_BEHIND_EVERYTHING)
    gc.disable()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Java prints is not our answer
    try:
        from maia.spark.session.session import PLAN_LENGTH, spark_session

        with spark_session("maia-demo", settings={PLAN_LENGTH: str(1 << 20)}) as spark:
            order = json.loads(sys.stdin.readline())
            answer = _answer(spark, order)
            # Said before Java ends, which takes its time and is nothing to wait for.
            out.write(json.dumps(answer) + "\n")
            out.flush()
    except MaiaError as problem:
        out.write(json.dumps({"failed": f"{problem.message} [{problem.code}]"}) + "\n")
        out.flush()


# Any: what was written as JSON by our own process is read as it was written.
def _answer(spark: SparkSession, order: Mapping[str, Any]) -> Mapping[str, object]:
    """Do what was ordered; again where a list of revocations came late, as on a machine that is busy."""
    for tries_left in reversed(range(_TRIES)):
        try:
            with ExitStack() as logs:
                opened = {one[0]: _opened((spark, logs), order, *one) for one in order["readers"]}
                with ThreadPoolExecutor(len(opened)) as jobs:  # while one is planned, another one works
                    written = jobs.map(lambda write: write(), opened.values())
                    return dict(zip(opened, written, strict=True))
        except Refusal as problem:
            if problem.code != "PIPELINE-GRANT-ENDED" or not tries_left:
                raise
    raise AssertionError("it is tried once at least")


# Any: what was written as JSON by our own process is read as it was written.
def _opened(
    where: tuple[SparkSession, ExitStack], order: Mapping[str, Any], name: str, profile: str, of: str,
    shown_as: str | None, application: str | None,
) -> Callable[[], dict[str, object]]:  # fmt: skip
    """Open a reader's table; return what writes it, and what its application makes of it.

    Nothing is compressed, so that it can be searched.
    """
    from maia.clock import system_now
    from maia.demo.world import FIRST_REAL, SECRETS
    from maia.keystore.lookup_tables import TransformationKeyFile
    from maia.profile import find_profile
    from maia.spark.applications import APPLICATIONS
    from maia.spark.governed.plan import TableQuery
    from maia.spark.open_log import open_log
    from maia.spark.session.private_handles import plan_text

    (spark, logs), folder, who = where, Path(order["out"], name), find_profile(profile)
    becomes = who.lineage(shown_as, at=system_now())[-1] if shown_as else None
    secrets = TransformationKeyFile(str(Path(SECRETS).absolute())) if order["has_secrets"] else None
    try:
        table = logs.enter_context(open_log(as_=who)).query(of, TableQuery(shown_as=becomes), secrets=secrets)
        rows = table.to_spark(spark)
    except Refusal as problem:
        refused: dict[str, object] = {"refused": problem.code, "columns": ()}
        return lambda: refused
    made = {_TABLE: rows}
    if application:
        from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

        live, kinds = spark.read.parquet(str(folder / _LIVE)), dict(rows.dtypes)
        moment = next(one for one in kinds if kinds[one] == "timestamp")
        real = rows.where(F.col(moment) >= F.lit(FIRST_REAL.to_datetime()))
        made |= {
            _FROM_LOG: APPLICATIONS[application].of(real),
            _FROM_LIVE: APPLICATIONS[application].of(live),
        }

    def write() -> dict[str, object]:
        for kept_in, frame in made.items():
            frame.write.mode("overwrite").option("compression", "none").parquet(str(folder / kept_in))
            with (folder / PLAN).open("a", encoding="utf-8") as plan:
                plan.write(plan_text(frame))
        return {"refused": None, "columns": sorted(table.reads)}

    return write


def _end_with(parent: int) -> None:
    """End this process and its Java when the demonstration is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
