"""How does an application run over a stream, and where is its answer?

A stream's answer changes while it runs. Each batch writes what it has to say
into a folder of its own, named after the batch, and a batch that is repeated
after a crash overwrites what it wrote before. The answer is what was said last
about each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.pipeline.applications.application import Application

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["last_said", "start_stream"]

_BATCH: Final = "maia_batch"


def start_stream(
    application: Application[Any],
    events: DataFrame,
    terms: object,
    *,
    updates: str,
    checkpoint: str,
) -> StreamingQuery:
    """Start the application over all that a stream has now; `last_said` of the updates is its answer."""

    # Any: each application has terms of its own.
    def write(said: DataFrame, batch: int) -> None:
        said.write.mode("overwrite").parquet(f"{updates}/{_BATCH}={batch}")

    return (
        application.of(events, terms)
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def last_said(spark: SparkSession, application: Application[Any], updates: str) -> DataFrame:
    """Return the answer of a stream: of each key, all rows of the last batch that spoke of it."""
    # Any: each application has terms of its own.
    said = spark.read.option("basePath", updates).parquet(f"{updates}/{_BATCH}=*")
    keys = list(application.keys)
    last = said.groupBy(*keys).agg(F.max(_BATCH).alias("last_batch"))
    return (
        said.join(last, keys, "left_semi")
        .join(last, keys)
        .where(F.col(_BATCH) == F.col("last_batch"))
        .drop(_BATCH, "last_batch")
        .select(*(name for name in said.columns if name != _BATCH))
    )
