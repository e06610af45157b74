"""Do the governed tables of the recorded log show each reader what it received live?

Spark works in a process of its own, which starts with the scene and is given
the log when the network has played (`spark_process.py`). It knows the scene by its name
and the keys by the seed. For each reader it writes the governed table, and for
some an application over it; and the same application once more over what was
delivered. The demonstration compares the files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.clock import system_now
from maia.credentials import (
    certificate_from_bytes,
    certificate_to_bytes,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.demo.scenes.scene import Cast, Happening, Reader, Scene, Wallet, assemble
from maia.demo.spark_process import SparkRun, Tell, work_for_demonstration
from maia.errors import Refusal
from maia.events import Instant, Value
from maia.types import VerifiedType
from maia.validity import Monitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from maia.demo.processes import Recording
    from maia.demo.scenes.play import Stage


MODULE: Final = "maia.demo.scenes.tables"
_TABLE, _LIVE, _FROM_LOG, _FROM_LIVE = "table", "live.parquet", "from-log", "from-live"
_FIRST_REAL: Final = Instant.parse("2000-01-01T00:00:00Z")
"""Probes are from 1970."""


@dataclass(frozen=True, slots=True)
class LogTable:
    """What one reader finds in the log, beside what it received live."""

    reader: str
    rows: int
    is_same: bool
    """Whether the table holds exactly what the kernel shows with the rights of now, probes included."""
    is_as_received: bool
    """Whether that is what was delivered, too: not where a right was lost, for the past is then closed."""
    refused: str | None
    application: str | None
    results: int
    """How many rows its application makes of the log."""
    results_same: bool
    """Whether it makes the same of what was delivered."""

    def broken_claims(self, *, has_lost_a_right: bool) -> list[str]:
        """Say where log, kernel and network disagree."""
        found = []
        if not self.is_same:
            found.append(f"{self.reader} finds {self.rows} rows in the log, against the kernel")
        if self.is_as_received is has_lost_a_right:
            found.append(f"{self.reader} finds {self.rows} rows in the log, and that is not to be expected")
        if self.application and not (self.results and self.results_same):
            found.append(f"`{self.application}` of {self.reader} differs between the log and the deliveries")
        return found


# ------------------------------------------------------------ in the demonstration


def first_order(scene: Scene, seed: bytes, now: Instant) -> dict[str, object]:
    """Return what Spark's process has to know before the network has played."""
    return {
        "scene": scene.name,
        "has_database": scene.database is not None,
        "seed": seed.hex(),
        "now": int(now),
    }


def give_log(spark: SparkRun, stage: Stage, recording: Recording, out: Path) -> None:
    """Write what was delivered, and order the tables."""
    import pyarrow.parquet as pq

    for reader in stage.scene.readers:
        (out / reader.name).mkdir(parents=True)
        if reader.application is not None:
            shown = _shown_type(stage.world.cast, reader)
            pq.write_table(_arrow(stage.inbox(reader.name).events, shown), out / reader.name / _LIVE)
    wallets = {
        who: {
            "certificates": [certificate_to_bytes(one).hex() for one in wallet.certificates],
            "statements": [statement_to_bytes(one).hex() for one in wallet.statements],
        }
        for who, wallet in stage.wallets.items()
    }
    secrets = stage.world.secrets
    spark.tell(
        {
            "log": str(recording.folder),
            "out": str(out),
            "secrets": None if secrets is None else str(secrets),
            "wallets": wallets,
        }
    )


def compared(stage: Stage, out: Path, refused: Mapping[str, str]) -> list[LogTable]:
    """Read what Spark wrote for each reader, and compare it with what the reader received."""
    return [_compared(stage, reader, out / reader.name, refused) for reader in stage.scene.readers]


def _compared(stage: Stage, reader: Reader, folder: Path, refused: Mapping[str, str]) -> LogTable:
    names = [one.name for one in _shown_type(stage.world.cast, reader).attributes]
    found = Counter(_rows_in(folder / _TABLE, names))
    probes = Counter(
        _row(one.expected[reader.name], names)
        for one in stage.published
        if one.is_probe and reader.name in one.expected
    )
    on_record = Counter(_row(event, names) for event in stage.on_record(reader))
    received = Counter(_row(event, names) for event in stage.inbox(reader.name).events)
    from_log, from_live = (_whole_rows_in(folder / name) for name in (_FROM_LOG, _FROM_LIVE))
    return LogTable(
        reader=reader.name,
        rows=(found - probes).total(),
        is_same=found == on_record,
        is_as_received=found == probes + received,
        refused=refused.get(reader.name),
        application=reader.application,
        results=len(from_log),
        results_same=from_log == from_live,
    )


def _row(event: Happening, names: list[str]) -> tuple[Value, ...]:
    return tuple(event[name] for name in names)


def _rows_in(folder: Path, names: list[str]) -> list[tuple[Value, ...]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not folder.exists():
        return []
    table = pq.read_table(folder)
    columns = []
    for name in names:
        column = table[name]
        is_moment = pa.types.is_timestamp(column.type)
        values = (column.cast(pa.int64()) if is_moment else column).to_pylist()
        columns.append([Instant(one) if is_moment and one is not None else one for one in values])
    return list(zip(*columns, strict=True))


def _whole_rows_in(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return sorted(map(repr, pq.read_table(folder).to_pylist())) if folder.exists() else []


def _arrow(events: list[Happening], shown: VerifiedType) -> Any:
    # Any: pyarrow is not typed.
    import pyarrow as pa

    from maia.views import ARROW_TYPES

    columns = {
        one.name: pa.array([event[one.name] for event in events], ARROW_TYPES[one.kind])
        for one in shown.attributes
    }
    return pa.table(columns)


def _shown_type(cast: Cast, reader: Reader) -> VerifiedType:
    return cast.types[reader.shown_as or reader.type_name]


# ------------------------------------------------------------ in Spark's own process


# Any: what was written as JSON by our own process is read as it was written.
def _work(order: Mapping[str, Any], tell: Tell) -> None:
    from maia.demo.scenes import SCENES
    from maia.spark.session.session import spark_session

    scene = SCENES[order["scene"]]()
    scene = scene if order["has_database"] else scene.without_database()
    cast = assemble(scene, bytes.fromhex(order["seed"]), now=Instant(order["now"]))
    with spark_session("maia-demo") as spark:
        tell(step="Spark has started")
        log = json.loads(sys.stdin.readline())
        readers = [_LogReader(spark, cast, log, reader) for reader in scene.readers]
        with ThreadPoolExecutor(len(readers)) as jobs:  # while one is planned, another one works
            codes = list(jobs.map(_LogReader.work, readers))
        tell(tables={one.name: code for one, code in zip(scene.readers, codes, strict=True) if code})


@dataclass(frozen=True, slots=True)
class _LogReader:
    """One reader in front of the log."""

    spark: SparkSession
    cast: Cast
    # Any: what was written as JSON by our own process is read as it was written.
    log: Mapping[str, Any]
    reader: Reader

    def work(self) -> str | None:
        """Write the table, and what the reader's application makes of it; return the code of a refusal."""
        folder, name = Path(self.log["out"], self.reader.name), self.reader.application
        try:
            table = self._governed()
        except Refusal as problem:
            return problem.code
        table.write.parquet(str(folder / _TABLE))
        if name is not None:
            from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

            from maia.spark.applications import APPLICATIONS

            real = table.where(F.col("time") >= F.lit(_FIRST_REAL.to_datetime()))
            live = self.spark.read.parquet(str(folder / _LIVE))
            for rows, where in ((real, _FROM_LOG), (live, _FROM_LIVE)):
                APPLICATIONS[name].of(rows).write.parquet(str(folder / where))
        return None

    def _governed(self) -> DataFrame:
        from maia.keystore.lookup_tables import TransformationKeyFile
        from maia.log.disk.reader import LogView
        from maia.spark.governed import reader as governed_reader
        from maia.spark.governed.table import governed

        cast, reader, wallet = self.cast, self.reader, self._wallet()
        now = system_now()
        monitor = Monitor.of(wallet.statements, now)
        certificates = (*cast.certificates[reader.name], *wallet.certificates)
        asking = governed_reader.Reader(cast.principal(reader.name), certificates)
        event_type = cast.types[reader.type_name]
        return governed(
            self.spark,
            log=self.log["log"],
            segments=tuple(LogView(Path(self.log["log"])).segments(event_type.type_id)),
            event_type=event_type,
            reader=asking.tested(monitor, now),
            shown_as=None if reader.shown_as is None else cast.types[reader.shown_as],
            transformation_keys=TransformationKeyFile(self.log["secrets"]) if self.log["secrets"] else None,
        )

    def _wallet(self) -> Wallet:
        kept = self.log["wallets"][self.reader.name]
        return Wallet(
            tuple(certificate_from_bytes(bytes.fromhex(one)) for one in kept["certificates"]),
            tuple(statement_from_bytes(bytes.fromhex(one)) for one in kept["statements"]),
        )


if __name__ == "__main__":
    work_for_demonstration(_work)
