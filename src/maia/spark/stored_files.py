"""How does Spark read Parquet files that lie in an object store, as a table and as a stream?

Spark has no way of its own to object stores, so tasks read there with Arrow. A task is told numbers, and the
list of files travels with the job: what comes into the store meanwhile is in no table, and in no stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from maia.places import Place
from maia.spark.errors import told_to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE: Final = "_file"
ROW: Final = "_row"
_FORMAT: Final = "maia-numbers"


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Files in a store, and the columns that are read of them. It is pickled into the job."""

    files: tuple[Place, ...]
    # Any: pyarrow is not typed.
    schema: Any

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows; beside the columns, the name of the file and the number of the row in it."""
        return self._read(spark.range(0, len(self.files), 1, max(1, len(self.files))))

    def stream(self, spark: SparkSession, files_per_batch: int) -> DataFrame:
        """Return the same rows as a stream, so many files at a time."""
        spark.dataSource.register(Numbers)
        options = {"upto": len(self.files), "each": files_per_batch}
        return self._read(spark.readStream.format(_FORMAT).options(**options).load())

    def _read(self, numbers: DataFrame) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = pa.schema([*self.schema, pa.field(FILE, pa.string()), pa.field(ROW, pa.int64())])
        return numbers.mapInArrow(self, from_arrow_schema(schema))

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Turn numbers of files into their rows."""
        with told_to_spark():
            for number in (one for batch in batches for one in batch.column("id").to_pylist()):
                place = self.files[number]
                with place.open() as file, pq.ParquetFile(file) as opened:
                    yield from self._rows(place.name, opened)

    def _rows(self, name: str, opened: Any) -> Iterator[Any]:
        begun = 0
        for batch in opened.iter_batches(columns=self.schema.names):
            rows = batch.num_rows
            columns = [batch.column(one.name).cast(one.type) for one in self.schema]
            columns += [pa.repeat(name, rows), pa.array(range(begun, begun + rows), pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=[*self.schema.names, FILE, ROW])
            begun += rows


class Numbers(DataSource):
    """The numbers from 0 on, up to one, as a stream with so many in a batch."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return _FORMAT

    def schema(self) -> str:
        """Return the only column."""
        return "id bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads batch after batch."""
        return _NumbersReader(int(self.options["upto"]), int(self.options["each"]))


class _NumbersReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, upto: int, each: int) -> None:
        self._upto, self._each = upto, each

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin with the first."""
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many a batch has."""
        return ReadMaxFiles(self._each)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is an end."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return where the next batch ends."""
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else self._upto
        return {"next": min(start["next"] + most, self._upto)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one for each number."""
        return list(map(InputPartition, range(start["next"], end["next"])))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a number."""
        yield pa.RecordBatch.from_pydict({"id": [partition.value]})
