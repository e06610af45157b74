"""What each executor shows of summaries: Arrow, PostgreSQL and Spark behind one face."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind, Value
from maia.views import ARROW_TYPES, to_sql_summary
from maia.views.arrow_executor import to_arrow_summary
from maia.views.to_spark import to_spark_summary
from support.executors import VIEW, PostgresExecutor, SparkExecutor, events_batch, fill_table
from support.summary_cases import CLOSED_AT, Rows, SummaryBatch, rows_of


def arrow_summaries(batch: SummaryBatch) -> list[Rows]:
    """Return what Arrow shows of all events in one batch of columns."""
    given, moments = events_batch(batch.plain), pa.array(batch.moments, ARROW_TYPES[Kind.TIMESTAMP])
    views = (to_arrow_summary(view, batch.stored, batch.delivered, batch.keys) for view in batch.views)
    return [rows_from(run(given, moments, CLOSED_AT), batch.delivered) for run in views]


def postgres_summaries(executor: PostgresExecutor, batch: SummaryBatch) -> list[Rows]:
    """Return what PostgreSQL shows of all events in a temporary table."""
    at, connection = AttributeUid("published-at"), executor.connection
    events = tuple({**event, at: moment} for event, moment in zip(batch.events, batch.moments, strict=True))
    filled = replace(batch.plain, stored={**batch.stored, at: Kind.TIMESTAMP}, events=events)
    found: list[Rows] = []
    with connection.transaction(force_rollback=True):
        fill_table(connection, "events", filled)
        for view in batch.views:
            query = to_sql_summary(
                view, "events", batch.stored, batch.delivered, published_at=at, closed_at=CLOSED_AT
            )
            # Moments come back as exact microseconds, as in `PostgresExecutor.answer`.
            columns = ", ".join(
                f'(extract(epoch from "{a.name}") * 1000000)::bigint'
                if a.kind is Kind.TIMESTAMP
                else f'"{a.name}"'
                for a in batch.delivered
            )
            rows = connection.execute(f"SELECT {columns} FROM ({query.text}) AS answer", query.operands)
            named = ({a.name: value for a, value in zip(batch.delivered, row, strict=True)} for row in rows)
            found.append(rows_of((received(row, batch.delivered) for row in named), batch.delivered))
    return found


def spark_summaries(executor: SparkExecutor, batch: SummaryBatch) -> list[Rows]:
    """Return what Spark shows of all events in a data frame, all views in one job."""
    rule = executor.LOCAL_RULE if executor.generated else ""
    executor.spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    given = pa.Table.from_batches([events_batch(batch.plain)])
    given = given.append_column("at", pa.array(batch.moments, ARROW_TYPES[Kind.TIMESTAMP]))
    # In several parts, so that groups are put together from parts in any order.
    events = executor.spark.createDataFrame(given).repartition(3)
    shown = []
    for number, view in enumerate(batch.views):
        one = to_spark_summary(view, batch.stored, batch.delivered, executor.files)
        closed = one.start + (one.summary.every_s + one.summary.late_s) * SECOND <= F.lit(int(CLOSED_AT))
        shown.append(one.of(events, F.col("at"), closed).withColumn(VIEW, F.lit(number)))
    table = reduce(DataFrame.unionAll, shown).toArrow()
    return [
        rows_from(table.filter(pa.compute.equal(table[VIEW], i)), batch.delivered) for i in range(len(shown))
    ]


def rows_from(found: pa.RecordBatch | pa.Table, delivered: tuple[Attribute, ...]) -> Rows:
    """Read rows out of Arrow columns."""
    for attribute in delivered:
        if attribute.kind is Kind.TIMESTAMP:
            position = found.schema.get_field_index(attribute.name)
            found = found.set_column(position, attribute.name, found.column(position).cast(pa.int64()))
    return rows_of((received(row, delivered) for row in found.to_pylist()), delivered)


def received(row: dict[str, Value], delivered: tuple[Attribute, ...]) -> dict[str, Value]:
    """Return a row that came back from an executor with moments of our own in it."""
    moments = {a.name for a in delivered if a.kind is Kind.TIMESTAMP}
    return {
        name: Instant(value) if name in moments and isinstance(value, int) else value
        for name, value in row.items()
    }
