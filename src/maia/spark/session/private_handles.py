"""What of PySpark that is not public does Maia use, and why is there no public way?

All of it is here and where Java is started (`session.py`): another version of Spark that has changed its
inside breaks these two files, and `make spark` tries both ends of the versions that are allowed. Nothing of
it is there in a session of Connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "checkpoint_root",
    "executors",
    "explained",
    "files_at",
    "physical_plan",
    "plan_text",
    "remove_folder",
]

# Any: py4j, through which PySpark calls Java, is not typed.


def physical_plan(frame: DataFrame) -> Any:
    """Return the root of the plan: `explain` prints it, and with it the values that are compared."""
    return frame._jdf.queryExecution().sparkPlan()


def plan_text(frame: DataFrame) -> str:
    """Return all plans as Spark writes them: `explain` prints them, and a report wants them in a file."""
    return str(frame._jdf.queryExecution().toString())


def explained(frame: DataFrame) -> str:
    """Return what `explain` prints, of a session of Connect, too."""
    return str(frame._explain_string(mode="formatted"))  # type: ignore[operator, unused-ignore]


def executors(spark: SparkSession) -> int:
    """Return how many workers run something of this job: there is no public question for it."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is in it


def files_at(spark: SparkSession, root: str) -> tuple[Any, Any]:
    """Return the paths and the file system of a place as Spark reaches it, with its own settings for it."""
    session: Any = spark._jsparkSession
    jvm: Any = spark.sparkContext._jvm
    path: Any = jvm.org.apache.hadoop.fs.Path
    return path, path(root).getFileSystem(session.sessionState().newHadoopConf())


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Remove a folder that Spark has made."""
    path, files = files_at(spark, folder)
    files.delete(path(folder), True)


def checkpoint_root(spark: SparkSession, query: str, run: str) -> str | None:
    """Return where a run of a query keeps its checkpoint; None if it has ended."""
    jvm: Any = spark.sparkContext._jvm
    session: Any = spark._jsparkSession
    running = session.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
    return None if running is None or str(running.runId()) != run else str(running.resolvedCheckpointRoot())
