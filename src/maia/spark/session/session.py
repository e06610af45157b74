"""How is a Spark session started, and what is left when it ends?

Pipelines, the demo and the tests ask. The session is quiet, in UTC and with
ANSI mode on. It is local, listens on loopback only and runs its Python workers
with this interpreter, unless it is given a cluster, to which it brings the
package. It leaves no file and no process behind. What Java writes goes to a
log, whose end is quoted when the start fails.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import BadInput, Unavailable
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


# ------------------------------------------------------------ on a cluster that is there already


_MASTER: Final = re.compile(
    r"spark://[A-Za-z0-9.-]{1,253}:\d{1,5}(,[A-Za-z0-9.-]{1,253}:\d{1,5}){0,8}", re.ASCII
)
_SECRET_MIN: Final = 16
_SECRET_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# The same for every file, so that the same package makes the same zip.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A standalone cluster, and how this driver meets it."""

    master: str
    secret: str = field(repr=False)
    driver_host: str = "127.0.0.1"
    """The address under which executors reach this process."""
    executor_memory_mib: int = 1024
    python: str | None = None
    """The interpreter on the cluster's machines; this process's own if they share it."""

    def __post_init__(self) -> None:
        """Refuse an address that is none, and a secret that could be guessed."""
        if not _MASTER.fullmatch(self.master):
            raise BadInput(
                "INPUT-SPARK-CLUSTER",
                f"`{ascii(self.master)[1:81]}` is not the address of a cluster: spark://HOST:PORT",
            )
        if not _SECRET_MIN <= len(self.secret) <= _SECRET_MAX:
            raise BadInput(
                "INPUT-SPARK-CLUSTER",
                f"the secret of a cluster has {_SECRET_MIN} to {_SECRET_MAX} characters",
            )


def cluster_of(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the cluster that the environment names; None if it names none.

    `MAIA_SPARK_MASTER` is its address and `MAIA_SPARK_SECRET_FILE` the file
    with its secret; `MAIA_SPARK_DRIVER_HOST`, `MAIA_SPARK_PYTHON` and
    `MAIA_SPARK_EXECUTOR_MIB` are optional.
    """
    master = environment.get("MAIA_SPARK_MASTER")
    if not master:
        return None
    named = environment.get("MAIA_SPARK_SECRET_FILE")
    if not named:
        raise BadInput(
            "INPUT-SPARK-CLUSTER",
            "a cluster needs a shared secret: set `MAIA_SPARK_SECRET_FILE` to the file that holds it",
        )
    memory = environment.get("MAIA_SPARK_EXECUTOR_MIB", "1024")
    if not memory.isascii() or not memory.isdigit() or not 512 <= int(memory[:8]) <= 1_048_576:
        raise BadInput("INPUT-SPARK-CLUSTER", "`MAIA_SPARK_EXECUTOR_MIB` is a number from 512 to 1048576")
    return Cluster(
        master,
        _secret(Path(named)),
        driver_host=environment.get("MAIA_SPARK_DRIVER_HOST") or "127.0.0.1",
        executor_memory_mib=int(memory),
        python=environment.get("MAIA_SPARK_PYTHON") or None,
    )


def _secret(file: Path) -> str:
    try:
        if file.stat().st_mode & _OTHERS:
            raise BadInput("INPUT-SPARK-CLUSTER", f"`{file}` can be read by others: run `chmod 600` on it")
        with file.open(encoding="utf-8") as opened:
            return opened.read(_SECRET_MAX + 2).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput("INPUT-SPARK-CLUSTER", f"the secret in `{file}` cannot be read") from problem


def cluster_settings(cluster: Cluster) -> tuple[dict[str, str], dict[str, str]]:
    """Return Spark's settings for a cluster: public and secret ones."""
    seen = {
        "spark.master": cluster.master,
        "spark.driver.host": cluster.driver_host,
        "spark.driver.bindAddress": cluster.driver_host,
        "spark.executor.memory": f"{cluster.executor_memory_mib}m",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # What executors spill and shuffle lies on their disks.
        "spark.io.encryption.enabled": "true",
    }
    return seen, {"spark.authenticate.secret": cluster.secret}


def package_zip(folder: Path) -> Path:
    """Write this package as a zip that executors import, the same bytes for the same package."""
    root = Path(__file__).parents[2]
    made = folder / "maia-package.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = f"maia/{file.relative_to(root).as_posix()}"
                packed.writestr(zipfile.ZipInfo(name, _MOMENT), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return made


_STOP_S: Final = 20
_RECORD_S: Final = 300
_LOG_SHOWN: Final = 2_000

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

    A `long_running` session starts a few seconds later and computes several
    times as fast. `settings` are Spark's own and win over ours. One session
    per process at a time, as Spark has it.

    Java loads its classes from the archive that `maia pipeline prepare` has made, if there is
    one. That command hands in a `new_archive`, which Java writes when the session ends.
    """
    with tempfile.TemporaryDirectory(prefix="maia-spark-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        java_options = _JAVA_OPTIONS if long_running else f"{_JAVA_OPTIONS} {_SHORT_LIVED}"
        java = java or find_java_home()
        check_spark_version(import_module("pyspark").__version__)
        # A Spark of the user's own has another class path.
        is_own = "SPARK_HOME" not in os.environ
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
        variables = _variables(java, scratch, cluster, archive)
        session, gateway = _started(chosen, secret, variables, scratch)
        try:
            if cluster:
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
        "spark.hadoop.fs.permissions.umask-mode": "077",
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
        "spark.sql.ansi.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Timestamps as other writers encode them, not in Spark's own form of twelve bytes.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _started(
    settings: Mapping[str, str], secret: Mapping[str, str], variables: Mapping[str, str], scratch: Path
) -> tuple[SparkSession, Any]:
    # Any: py4j, through which PySpark calls Java, is not typed.
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise Unavailable("UNAVAILABLE-SPARK", "a Spark session is running in this process already")
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    log = scratch / "java.log"
    with _environment(variables):
        try:
            # These become Java's command line, which every user of the machine can read.
            with log.open("wb") as file:
                # PySpark's own types stop short of this function.
                gateway = launch_gateway(conf=conf, popen_kwargs={"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
            conf.setAll(list(secret.items()))
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as problem:
            raise Unavailable("UNAVAILABLE-SPARK", f"Spark did not start: {_end_of(log)}") from problem
        return SparkSession(context), gateway


def _variables(
    java: JavaHome, scratch: Path, cluster: Cluster | None, archive: ClassArchive | None
) -> dict[str, str]:
    if archive is not None:
        places = {"SPARK_HOME": str(archive.home), "SPARK_CONF_DIR": str(archive.settings)}
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
        "SPARK_LOCAL_IP": cluster.driver_host if cluster else "127.0.0.1",
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
    from pyspark import SparkContext

    session.stop()
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
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
