"""The four executors behind one face, for tests that ask all of them.

Each takes the events in its own shape (dictionaries, an Arrow batch, a
table, a data frame), runs every view through the public function, and reads
the result back as typed values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import Attribute, AttributeUid, Instant, Kind, Value
from maia.keystore.lookup_tables import TransformationKeyFile
from maia.postgres.views import written
from maia.views import POSTGRES_TYPES, arrow_schema, to_arrow, to_python, to_sql
from maia.views.to_spark import to_spark
from maia.views.to_sql import Query, quoted
from support.view_cases import Answer, Batch, translated, typed

VIEW = "view number"


class PythonExecutor:
    """One event after the other through a closure."""

    def answers(self, batch: Batch) -> list[Answer]:
        return [
            {
                row: translated(seen, batch.delivered)
                for row, event in enumerate(batch.events)
                if (seen := run(event)) is not None
            }
            for run in (to_python(view, batch.keys) for view in batch.views)
        ]


class ArrowExecutor:
    """All events in one batch of columns."""

    def answers(self, batch: Batch) -> list[Answer]:
        given = events_batch(batch)
        return [
            answer_from(to_arrow(view, batch.stored, batch.delivered, batch.keys)(given), batch.delivered)
            for view in batch.views
        ]


class PostgresExecutor:
    """All events in a temporary table, one query per view."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def answers(self, batch: Batch) -> list[Answer]:
        with self.connection.transaction(force_rollback=True):
            fill_table(self.connection, "events", batch)
            queries = [to_sql(view, "events", batch.stored, batch.delivered) for view in batch.views]
            # Every other query as an installed view has it, with its operands in the text.
            queries[::2] = [self.inlined(query) for query in queries[::2]]
            return [self.answer(query, batch.delivered) for query in queries]

    def inlined(self, query: Query) -> Query:
        return Query(written(query, self.connection).replace("%", "%%"))

    def answer(self, query: Any, delivered: tuple[Attribute, ...]) -> Answer:
        # Moments come back as exact microseconds: as datetimes in the session's zone, the first
        # and the last of them would fall outside Python's calendar.
        columns = ", ".join(
            f"(extract(epoch from {quoted(a.name)}) * 1000000)::bigint"
            if a.kind is Kind.TIMESTAMP
            else quoted(a.name)
            for a in delivered
        )
        text = f"SELECT {columns} FROM ({query.text}) AS answer"
        rows = self.connection.execute(text, query.operands).fetchall()
        return answer_of(
            (dict(zip((a.name for a in delivered), row, strict=True)) for row in rows), delivered
        )


class SparkExecutor:
    """All events in a data frame, all views in one job.

    Spark evaluates a query over a small local table without generating code;
    `generated` leaves out the rule that does so, to ask the generated code.
    """

    LOCAL_RULE = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"

    def __init__(self, spark: SparkSession, secrets: Path | None = None, *, generated: bool) -> None:
        self.spark, self.generated = spark, generated
        self.files = TransformationKeyFile(
            None if secrets is None else str(secrets),
            None if secrets is None else str(secrets.with_name("lookups.toml")),
        )

    def answers(self, batch: Batch) -> list[Answer]:
        self.spark.conf.set("spark.sql.optimizer.excludedRules", self.LOCAL_RULE if self.generated else "")
        events = self.spark.createDataFrame(pa.Table.from_batches([events_batch(batch)]))
        shown = [
            to_spark(view, batch.stored, batch.delivered, self.files)
            .of(events)
            .withColumn(VIEW, F.lit(number))
            for number, view in enumerate(batch.views)
        ]
        table = reduce(DataFrame.unionAll, shown).toArrow()
        return [
            answer_from(table.filter(pa.compute.equal(table[VIEW], i)), batch.delivered)
            for i in range(len(shown))
        ]


def events_batch(batch: Batch) -> pa.RecordBatch:
    """Return the events by column."""
    schema = arrow_schema(batch.stored)
    columns = [
        pa.array([event.get(AttributeUid(field.name)) for event in batch.events], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fill_table(connection: psycopg.Connection, name: str, batch: Batch) -> None:
    """Make a temporary table of the events."""
    columns = ", ".join(f"{quoted(uid)} {POSTGRES_TYPES[kind]}" for uid, kind in batch.stored.items())
    connection.execute(f"CREATE TEMPORARY TABLE {quoted(name)} ({columns})")
    with connection.cursor().copy(f"COPY {quoted(name)} FROM STDIN") as copy:
        for event in batch.events:
            copy.write_row([_sent(event.get(uid)) for uid in batch.stored])


def answer_from(found: pa.RecordBatch | pa.Table, delivered: tuple[Attribute, ...]) -> Answer:
    """Read an answer out of Arrow columns."""
    for attribute in delivered:
        if attribute.kind is Kind.TIMESTAMP:
            position = found.schema.get_field_index(attribute.name)
            found = found.set_column(position, attribute.name, found.column(position).cast(pa.int64()))
    return answer_of(found.to_pylist(), delivered)


def answer_of(rows: Iterable[Mapping[str, Any]], delivered: tuple[Attribute, ...]) -> Answer:
    """Read an answer out of rows by name; two rows of one number would be an event shown twice."""
    answer: Answer = {}
    for row in rows:
        number = row["row"]
        assert number not in answer, f"row {number} is shown twice"
        answer[number] = {a.name: typed(_received(row[a.name], a.kind)) for a in delivered}
    return answer


def _sent(value: Value) -> object:
    return value.to_datetime() if isinstance(value, Instant) else value


def _received(value: Any, kind: Kind) -> Value:
    return Instant(value) if kind is Kind.TIMESTAMP and value is not None else value
