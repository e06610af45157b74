"""How is the archive of Spark's classes made?

`maia pipeline prepare` and `make test` call it, once for each environment. A
session does a little of everything that pipelines do; when it ends, Java
writes the classes that it has loaded. The file gets its name when it is
whole, so that two that prepare at once leave one good archive.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.spark.session.class_archive import (
    ClassArchive,
    NoClassArchive,
    find_class_archive,
    new_class_archive,
)
from maia.spark.session.java_home import find_java_home
from maia.spark.session.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Spark names one of its jars twice. Java 21 then finds the class path changed, and leaves the archive alone.
_VERSION: Final = 17


def prepare_spark() -> tuple[ClassArchive, bool]:
    """Return the archive of this environment, and whether it was made just now."""
    java = find_java_home()
    if (found := find_class_archive(java)) is not None:
        return found, False
    if java.version != _VERSION:
        raise NoClassArchive(
            f"Java {java.version} takes no archive of Spark's classes, only Java {_VERSION} does; "
            "sessions work without"
        )
    archive = new_class_archive(java)
    try:
        with (
            spark_session("maia-prepare", java=java, new_archive=archive) as spark,
            tempfile.TemporaryDirectory(prefix="maia-prepare-") as folder,
        ):
            _a_little_of_everything(spark, Path(folder))
        if not archive.draft.exists():
            raise NoClassArchive(f"the Java at `{java.path}` wrote no archive; sessions work without")
        archive.draft.replace(archive.file)
    finally:
        archive.draft.unlink(missing_ok=True)
    return archive, True


def _a_little_of_everything(spark: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    rows = spark.range(1000).select(
        "id",
        (f.col("id") % 7).alias("key"),
        f.col("id").cast("string").alias("name"),
        f.timestamp_seconds("id").alias("at"),
        (f.col("id") / 3).alias("value"),
    )
    rows.write.partitionBy("key").parquet(str(folder / "rows"))
    read = spark.read.parquet(str(folder / "rows"))
    counted = (
        read.where("value > 5 and name like '1%'")
        .groupBy("key")
        .agg(f.count("*"), f.avg("value"), f.max("at"))
    )
    counted.join(read.select("key", "name"), "key").orderBy("key", "name").limit(5).collect()
    ranked = f.row_number().over(Window.partitionBy("key").orderBy(f.desc("at")))
    read.withColumn("rank", ranked).where("rank = 1").dropDuplicates(["name"]).toArrow()
    read.mapInArrow(lambda batches: batches, read.schema).count()
    stream = spark.readStream.schema(read.schema).parquet(str(folder / "rows"))
    watched = stream.withWatermark("at", "1 minute").dropDuplicates(["name"]).select("key", "at")
    query = (
        watched.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "streamed"))
    )
    query.awaitTermination()
