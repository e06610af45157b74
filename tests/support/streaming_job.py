"""A small streaming job of its own process: `python -m support.streaming_job FOLDER`, run in `tests`.

It follows the log in FOLDER as a governed stream into FOLDER/out, one batch
after the other, until it is killed, and says on standard output when each is
done. Whoever has a session can go on `to_the_end` from where it was.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from maia.spark.session.session import spark_session
from support.governed import governed, reader, typed

DEADLINE_S = 300
# Compiling a plan takes longer than the few rows of a batch.
EVALUATED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def started(spark: SparkSession, folder: Path, **trigger: object) -> StreamingQuery:
    """Start the stream, or go on from its checkpoint."""
    stream = governed(spark, log=str(folder / "log"), event_type=typed(), reader=reader(), is_stream=True)
    kept = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    return kept.format("parquet").trigger(**trigger).start(str(folder / "out"))


def to_the_end(spark: SparkSession, folder: Path) -> None:
    """Go on until nothing is left."""
    query = started(spark, folder, availableNow=True)
    assert query.awaitTermination(DEADLINE_S)
    assert query.exception() is None


def main(folder: Path) -> None:
    """Run until killed."""
    with spark_session("killed", cores=1, settings=EVALUATED) as spark:
        query = started(spark, folder, processingTime="0 seconds")
        os.write(1, b"running\n")
        done = -1
        while query.isActive:
            for one in query.recentProgress:  # an idle turn may hide the last batch
                if one["batchId"] > done and one["numInputRows"]:
                    done = one["batchId"]
                    os.write(1, f"batch {done}\n".encode())
            time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
