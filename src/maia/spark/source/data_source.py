"""How does Spark read from the network and publish to it?

    register_spark(spark)
    sightings = spark.readStream.format("maia").options(**options).load()
    totals.writeStream.format("maia").options(**options).start()
    spark.read.format("maia").option("profile", "billing").option("log", "/var/lib/maia/log").load("Sighting")

The options say who is connecting and through which broker (`spark_options`).
What arrives is what the holder of the key may see, and nothing is published
that it may not publish. A refusal ends the query with its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from maia.errors import BadInput
from maia.spark.errors import told_to_spark
from maia.spark.keys.key_server import DeskPass
from maia.spark.session.cluster import desk_place, is_connect, parallelism
from maia.spark.source.recorded import RecordedReader, RecordedRight
from maia.spark.source.right_desk import Right, RightDesk, checkpoints_of, laid_out
from maia.views.plan import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "MaiaDataSource", "register_spark"]

FORMAT: Final = "maia"
_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"
_DESKS: Final[dict[str, RightDesk]] = {}
"""By the driver, or the session of Connect: a process that starts Spark again has another one."""


def register_spark(spark: SparkSession) -> None:
    """Make the format `maia` known to a session, and let Spark push filters down to it.

    The tasks of its sources and sinks ask this process for the right of their query, so it has to run for as
    long as they do.
    """
    session: Any = spark  # Any: the session of Connect is another class, which has an id
    driver = str(session.session_id if is_connect(spark) else spark.sparkContext.applicationId)
    if driver not in _DESKS:
        host, bind = desk_place(spark)
        cores = partial(parallelism, spark)
        _DESKS[driver] = RightDesk(host, checkpoints_of(spark), bind=bind, cores=cores)
    # A class that no module has: Spark keeps it, with the way to the desk, and only plans queries with it.
    ours = type(MaiaDataSource.__name__, (MaiaDataSource,), {"entrance": _DESKS[driver].entrance})
    try:
        spark.dataSource.register(ours)
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise  # else the session knows it, with the same desk
    spark.conf.set(_PUSH_DOWN, "true")


class MaiaDataSource(DataSource):
    """The format `maia`. Spark makes one for each use, in whatever process it needs one."""

    entrance: ClassVar[DeskPass | None] = None

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options, so that a mistake is reported before anything runs."""
        super().__init__(dict(options))
        with told_to_spark():
            self._right: Right | RecordedRight = laid_out(options, self.entrance)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return a column for each attribute of the reader's version of the type."""
        with told_to_spark():
            return _schema_of(self._right)

    def reader(self, schema: StructType) -> DataSourceReader:
        from maia.spark.source.stream import MaiaReader

        with told_to_spark():
            _check_read_schema(schema, self._right)
            if isinstance(self._right, RecordedRight):
                return RecordedReader(self._right)
            return MaiaReader(self._right)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads batch after batch."""
        from maia.spark.source.stream import MaiaStreamReader

        with told_to_spark():
            _check_read_schema(schema, self._right)
            if isinstance(self._right, RecordedRight):
                from maia.spark.governed.stream_source import LogStreamReader

                return LogStreamReader(*self._right.only())
            return MaiaStreamReader(self._right)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return what publishes a table once."""
        from maia.spark.sink.writer import MaiaWriter

        with told_to_spark():
            return MaiaWriter(self._writing(), schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return what publishes batch after batch."""
        from maia.spark.sink.writer import MaiaStreamWriter

        with told_to_spark():
            return MaiaStreamWriter(self._writing(), schema, overwrite=overwrite)

    def _writing(self) -> Right:
        if isinstance(self._right, RecordedRight):
            raise BadInput("INPUT-SPARK-OPTION", "a log is written by brokers: publish, without option `log`")
        return self._right


def _schema_of(right: Right | RecordedRight) -> StructType:
    if isinstance(right, RecordedRight):
        return from_arrow_schema(right.schema)
    found = right.event_type().attributes
    return StructType([StructField(attribute.name, spark_type(attribute.kind)) for attribute in found])


def _check_read_schema(schema: StructType, right: Right | RecordedRight) -> None:
    if schema.simpleString() != _schema_of(right).simpleString():
        raise BadInput(
            "INPUT-SPARK-OPTION", "the type says which columns there are; read without a schema of your own"
        )
