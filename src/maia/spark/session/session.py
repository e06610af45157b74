"""How is a Spark session started, and what is left when it ends?

Pipelines, the demo and the tests ask. The session is quiet, in UTC and with
ANSI mode on. It is local, listens on loopback only and runs its Python workers
with this interpreter, unless it is given a cluster, to which it brings the
package, or was begun by `spark-submit`, whose settings then count. It leaves
no file and no process behind. What Java writes goes to a log, whose end is
quoted when the start fails.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import Unavailable
from maia.spark.errors import reason_of, told_by_spark
from maia.spark.session.cluster import Cluster, check_master, cluster_settings, is_here, package_zip
from maia.spark.session.java_home import (
    ClassArchive,
    JavaHome,
    check_spark_version,
    find_class_archive,
    find_java_home,
    new_class_archive,
    spark_home,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PLAN_LENGTH: Final = "spark.sql.maxPlanStringLength"
UMASK: Final = "spark.hadoop.fs.permissions.umask-mode"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_STOP_S: Final = 20
_RECORD_S: Final = 300
_LOG_SHOWN: Final = 2_000

_ERROR: Final = re.compile(r"^\d\d:\d\d:\d\d ERROR (.*)$", re.M)

_LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

# One thread collects garbage, and no performance counters are kept in a shared folder.
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:-UsePerfData"
# A short session has many classes and little to do with each: compile lightly.
_SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1"


@contextmanager
def spark_session(  # noqa: PLR0913 - every one is named at the call
    name: str = "maia",
    *,
    cores: int = 2,
    memory_mib: int = 1024,
    long_running: bool = False,
    settings: Mapping[str, str] | None = None,
    java: JavaHome | None = None,
    cluster: Cluster | None = None,
    new_archive: ClassArchive | None = None,
) -> Iterator[SparkSession]:
    """Start a session, hand it out, and stop it with everything it made.

    Without a `cluster` it runs in this machine, with so many `cores`; with one,
    it takes at most so many there, and `memory_mib` is the driver's own.

    What ends a job and is not caught in the body leaves it as one of our errors: Spark's own could not be
    read any more when Spark has stopped.

    A `long_running` session starts a few seconds later and computes several
    times as fast. `settings` are Spark's own and win over ours. One session
    per process at a time, as Spark has it.

    Java loads its classes from the archive that `maia pipeline prepare` has made, if there is
    one. That command hands in a `new_archive`, which Java writes when the session ends.
    """
    check_spark_version(import_module("pyspark").__version__)
    if cluster is not None:
        check_master(cluster)
    with tempfile.TemporaryDirectory(prefix="maia-spark-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        if cluster is not None and cluster.kind == "sc":
            with (
                _connected(name, {**_meaning(cores), **(settings or {})}, cluster) as session,
                told_by_spark(),
            ):
                session.addArtifacts(str(package_zip(scratch)), pyfile=True)
                yield session
            return
        java_options = _JAVA_OPTIONS if long_running else f"{_JAVA_OPTIONS} {_SHORT_LIVED}"
        java = java or find_java_home()
        # A Spark of the user's own has another class path, and so have settings of its own for a cluster.
        is_own = "SPARK_HOME" not in os.environ and not (cluster and "SPARK_CONF_DIR" in os.environ)
        archive = new_archive or (find_class_archive(java) if is_own else None)
        there, secret = cluster_settings(cluster) if cluster else ({}, {})
        chosen = {
            **_settings(name, cores=cores, memory_mib=memory_mib, scratch=scratch),
            "spark.driver.extraJavaOptions": " ".join((java_options, *_driver_options(scratch, archive))),
            "spark.executor.extraJavaOptions": java_options,
            "spark.cores.max": str(cores),
            **there,
            **(settings or {}),
        }
        if _SUBMITTED in os.environ:
            session, gateway = _submitted({**_meaning(cores), **(settings or {})})
        else:
            variables = _variables(java, scratch, cluster, archive)
            session, gateway = _started(chosen, secret, variables, scratch)
        try:
            with told_by_spark():
                if not is_here(session):
                    session.sparkContext.addPyFile(str(package_zip(scratch)))
                yield session
        finally:
            _stop(session, gateway, _STOP_S if new_archive is None else _RECORD_S)


def _driver_options(scratch: Path, archive: ClassArchive | None) -> Iterator[str]:
    log_settings = scratch / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS, encoding="utf-8")
    yield f"-Djava.io.tmpdir={scratch}"
    yield f"-Dlog4j2.configurationFile={log_settings}"
    if archive is not None and archive.file.exists():
        yield shlex.quote(f"-XX:SharedArchiveFile={archive.file}")
    elif archive is not None:
        yield "-Xlog:disable"  # Java names every class that it leaves out
        yield shlex.quote(f"-XX:ArchiveClassesAtExit={archive.draft}")


def _settings(name: str, *, cores: int, memory_mib: int, scratch: Path) -> dict[str, str]:
    return {
        "spark.app.name": name,
        # What Spark writes is for its user alone: Hadoop uses this, not the umask of the process.
        UMASK: "077",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": f"{memory_mib}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.log.level": "ERROR",
        # Java and Python of one job find each other within seconds, unless the machine is very busy.
        "spark.python.authenticate.socketTimeout": "120s",
        # Otherwise every column remembers the line that made it, at eight round trips to Java each.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # Otherwise Spark adds up the bytes of all columns behind every row on its way to Python, which takes
        # as long as writing them. A batch still has a limit of rows.
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_meaning(cores),
    }


def _meaning(cores: int) -> dict[str, str]:
    """Return the settings on which results depend, which a server of Connect is told as well."""
    return {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Timestamps as other writers encode them, not in Spark's own form of twelve bytes.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
    }


def _submitted(settings: Mapping[str, str]) -> tuple[SparkSession, Any]:
    """Begin the session of a program that `spark-submit` has started: where both say something, it counts."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark's own types stop short of it
    conf = SparkConf(_jvm=gateway.jvm)
    for setting, value in settings.items():
        conf.setIfMissing(setting, value)
    return SparkSession(SparkContext(conf=conf, gateway=gateway)), gateway


@contextmanager
def _connected(name: str, settings: Mapping[str, str], cluster: Cluster) -> Iterator[SparkSession]:
    """Open a session at a server of Spark Connect, which has a Spark of its own."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    channel = DefaultChannelBuilder(cluster.master)
    channel.set("token", cluster.secret)
    # PySpark's functions look here for the kind of columns that they make.
    with _environment({"SPARK_CONNECT_MODE_ENABLED": "1"}):
        try:
            session: Any = RemoteSession.builder.appName(name).channelBuilder(channel).create()
            for setting, value in settings.items():
                session.conf.set(setting, value)
        except PySparkException as problem:
            raise Unavailable(
                "UNAVAILABLE-SPARK",
                f"the server at `{cluster.master}` does not answer: {reason_of(str(problem))}",
            ) from problem
        try:
            yield session
        finally:
            session.stop()


def _started(
    settings: Mapping[str, str], secret: Mapping[str, str], variables: Mapping[str, str], scratch: Path
) -> tuple[SparkSession, Any]:
    # Any: py4j, through which PySpark calls Java, is not typed.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise Unavailable("UNAVAILABLE-SPARK", "a Spark session is running in this process already")
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    log, begun = scratch / "java.log", ExitStack()
    with _environment(variables):
        try:
            # These become Java's command line, which every user of the machine can read.
            with log.open("wb") as file:
                # PySpark's own types stop short of this function.
                gateway = launch_gateway(conf=conf, popen_kwargs={"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
            begun.callback(_end_java, gateway, _STOP_S)
            conf.setAll(list(secret.items()))
            context = SparkContext(conf=conf, gateway=gateway)
            begun.callback(context.stop)
            return SparkSession(context), gateway
        except PySparkRuntimeError as problem:
            raise Unavailable("UNAVAILABLE-SPARK", f"Spark did not start: {_end_of(log)}") from problem
        except Py4JError as problem:
            begun.close()
            master, said = conf.get("spark.master"), _last_error(log).rstrip(".")
            raise Unavailable(
                "UNAVAILABLE-SPARK",
                f"Spark did not start with the master `{master}`: {said}; a master that is there and does "
                "not answer has another secret, or another version of Spark",
            ) from problem


def _variables(
    java: JavaHome, scratch: Path, cluster: Cluster | None, archive: ClassArchive | None
) -> dict[str, str]:
    if archive is not None:
        places = {"SPARK_HOME": str(archive.home), "SPARK_CONF_DIR": str(archive.settings)}
    elif cluster and "SPARK_CONF_DIR" in os.environ:
        places = {}  # the user's own settings, of queues, images and archives
    else:
        (scratch / "conf").mkdir()
        places = {"SPARK_CONF_DIR": str(scratch / "conf")}
        if not cluster and "SPARK_HOME" not in os.environ:
            places["SPARK_HOME"] = str(spark_home(scratch / "home"))
    return {
        "JAVA_HOME": str(java.path),
        # Workers run this interpreter, and find what this process finds.
        "PYSPARK_PYTHON": (cluster and cluster.python) or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "SPARK_LOCAL_IP": cluster.bind if cluster else "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": f"{_JAVA_OPTIONS} {_SHORT_LIVED}",
        **places,
    }


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process while Java starts, which inherits them; then put them back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop(session: SparkSession, gateway: Any, seconds: int) -> None:
    session.stop()
    _end_java(gateway, seconds)


def _end_java(gateway: Any, seconds: int) -> None:
    from pyspark import SparkContext

    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway.proc is None:
        return  # `spark-submit` started it, and ends it
    # Java ends when its standard input does.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _end_of(log: Path) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "it wrote no log"
    return text[-_LOG_SHOWN:] or "it wrote nothing"


def _last_error(log: Path) -> str:
    """Return what Java logged last, without the frames that may follow it."""
    said = _ERROR.findall(_end_of(log))
    return said[-1] if said else "it gave no reason"


# The archive of Spark's classes.
#
# `maia pipeline prepare` and `make test` call it, once for each environment. A
# session does a little of everything that pipelines do; when it ends, Java
# writes the classes that it has loaded. The file gets its name when it is
# whole, so that two that prepare at once leave one good archive.


# Spark names one of its jars twice. Java 21 then finds the class path changed, and leaves the archive alone.
_VERSION: Final = 17


def prepare_spark() -> tuple[ClassArchive, bool]:
    """Return the archive of this environment, and whether it was made just now."""
    java = find_java_home()
    if (found := find_class_archive(java)) is not None:
        return found, False
    if java.version != _VERSION:
        raise Unavailable(
            "UNAVAILABLE-CLASS-ARCHIVE",
            f"Java {java.version} takes no archive of Spark's classes, only Java {_VERSION} does; "
            "sessions work without",
        )
    archive = new_class_archive(java)
    try:
        with (
            spark_session("maia-prepare", java=java, new_archive=archive) as spark,
            tempfile.TemporaryDirectory(prefix="maia-prepare-") as folder,
        ):
            _a_little_of_everything(spark, Path(folder))
        if not archive.draft.exists():
            raise Unavailable(
                "UNAVAILABLE-CLASS-ARCHIVE",
                f"the Java at `{java.path}` wrote no archive; sessions work without",
            )
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
