"""How does an application run over a stream, and where is its answer?

A stream's answer changes while it runs. Each batch writes what it has to say
into a folder of its own, named after the batch, and a batch that is repeated
after a crash overwrites what it wrote before. The answer is what was said last
about each key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.spark.applications.application import Application

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField

__all__ = ["StreamRun", "start_stream"]

_BATCH: Final = "maia_batch"


@dataclass(frozen=True, slots=True)
class StreamRun:
    """An application that runs over a stream, until it has seen all that there is."""

    # Any: each application has terms of its own.
    application: Application[Any]
    query: StreamingQuery
    updates: str
    result: DataFrame

    def answer(self) -> DataFrame:
        """Return what was said last: of each key, all rows of the last batch that spoke of it."""
        with_batch = ", ".join((*map(_declared, self.result.schema.fields), f"{_BATCH} bigint"))
        said = self.result.sparkSession.read.schema(with_batch).parquet(self.updates)
        keys = list(self.application.keys)
        last = said.groupBy(*keys).agg(F.max(_BATCH).alias("last_batch"))
        of_last = said.join(last, keys).where(F.col(_BATCH) == F.col("last_batch"))
        return of_last.select(*self.result.columns)


def _declared(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"


def start_stream(
    application: Application[Any],
    events: DataFrame,
    terms: object,
    *,
    updates: str,
    checkpoint: str,
) -> StreamRun:
    """Start the application over all that a stream has now. `updates` is a folder that is there."""

    # Any: each application has terms of its own.
    def write(said: DataFrame, batch: int) -> None:
        said.write.mode("overwrite").parquet(f"{updates}/{_BATCH}={batch}")

    result = application.of(events, terms)
    query = (
        result.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    return StreamRun(application, query, updates, result)
