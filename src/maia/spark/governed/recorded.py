"""Which frames of a log does Spark read, as a table or as a stream?

`governed` asks, and opens them. Frames are read once for all periods of a
table, so a reader whose certificates were renewed goes on from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from maia.events import AttributeUid, Instant
from maia.log.format.names import already_joined
from maia.spark.governed.frame_reader import columns_to_read
from maia.spark.governed.log_folder import BadLogPlace, LogFolder, is_address
from maia.spark.governed.log_stream import BYTES_AT_ONCE, FORMAT, Wanted, register_log_stream

__all__ = ["Recorded", "between"]

_MOMENT = "published_at"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The frames of one type in a log; segments with none from `since` to `until` may be left out."""

    spark: SparkSession
    log: str
    type_id: bytes
    since: Instant
    until: Instant

    def stream(
        self, uids: Sequence[AttributeUid], *, fails_on_loss: bool, batch_bytes: int = BYTES_AT_ONCE
    ) -> DataFrame:
        """Return frames as they are recorded, each once; nothing where nothing was recorded yet."""
        since, until = int(self.since), int(self.until)
        wanted = Wanted(self._place, self.type_id, since, until, fails_on_loss, batch_bytes)
        register_log_stream(self.spark)
        stream = self.spark.readStream.format(FORMAT).schema(_schema(uids))
        return stream.options(**wanted.as_options()).load()

    def table(self, uids: Sequence[AttributeUid], files: tuple[str, ...] | None) -> DataFrame:
        """Return the frames that are in these files, or in all that the log has now."""
        schema = _schema(uids)
        chosen = self._files() if files is None else files
        if chosen is None:
            return self._in_folder(schema)
        # Named by the manifest: nothing there was joined to anything else.
        return self.spark.read.schema(schema).parquet(*chosen) if chosen else self._nothing(schema)

    @property
    def _place(self) -> str:
        """Return where the log is for processes that run elsewhere on this machine, or on others."""
        return self.log if is_address(self.log) else str(Path(self.log).absolute())

    def _files(self) -> tuple[str, ...] | None:
        """Return the files that the log has now; None if only Spark has a way to them."""
        try:
            found = LogFolder(self._place).of_type(self.type_id)
        except BadLogPlace:
            return None
        place = self._place.rstrip("/")
        return tuple(
            f"{place}/{one.path}"
            for one in found.stretches
            if one.published_until >= self.since and one.published_from <= self.until
        )

    def _in_folder(self, schema: t.StructType) -> DataFrame:
        folder = f"{self._place.rstrip('/')}/type={self.type_id.hex()}"
        try:
            table = self.spark.read.schema(schema).option("pathGlobFilter", "*.parquet").parquet(folder)
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            return self._nothing(schema)
        # Segments that were joined to a larger one lie beside it for a while.
        joined = already_joined(table.inputFiles())
        return table.where(~F.col("_metadata.file_name").isin(*joined)) if joined else table

    def _nothing(self, schema: t.StructType) -> DataFrame:
        return self.spark.createDataFrame([], schema)


def between(frames: DataFrame, since: Instant, until: Instant, uids: Collection[AttributeUid]) -> DataFrame:
    """Return frames published in a period, with what is needed of them."""
    at = F.col(_MOMENT)
    chosen = frames.where((at >= _moment(since)) & (at <= _moment(until)))
    return chosen.select(*columns_to_read(uids))


def _schema(uids: Sequence[AttributeUid]) -> t.StructType:
    fields = [t.StructField(name, t.BinaryType()) for name in columns_to_read(uids)]
    return t.StructType([t.StructField(_MOMENT, t.TimestampType()), *fields])


def _moment(moment: Instant) -> Column:
    return F.timestamp_micros(F.lit(int(moment)).cast(t.LongType()))
