"""`maia pipeline disclosures`: who saw which events, by which rule, and what is unusual about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, need, opt
from maia.cli.inputs import command_group, moment
from maia.cli.output import Answer, plain, read_principal, row
from maia.cli.pipeline.source import LogOptions, found_rows, spark_for
from maia.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


app = command_group("Ask ledgers of deliveries, exported by `maia ledger export`, in Spark.")
LEDGER = need("An exported ledger: a Parquet file or a folder of them. May be repeated.", "--ledger")

_KEYS = frozenset({"recipient", "publisher", "broker"})
"""The columns of a ledger that hold keys."""


@app.command()
def who_saw(
    *,
    ledger: list[Path] = LEDGER,
    asked: LogOptions,
    where: str = opt("Which events: a filter, as in subscriptions.", default=""),
) -> Iterator[Answer]:
    """Print who received events that you may read: how many of them, and which attributes.

    Examples:
        maia pipeline disclosures who-saw --ledger disclosures.parquet --log events -d plate.type -k
          chief.key --credentials chief --where 'numberplate == "AE05 XYZ"'
    """
    asked.check_log()
    with _spark(ledger) as (spark, disclosed):
        from maia.spark.disclosures import who_saw as question

        chosen = {"filter": where} if where else {}
        with asked.opened_table(spark, with_meta=True, **chosen) as events:
            yield from found_rows(question(disclosed, events).orderBy("first_at"), _shown)


@app.command()
def what_saw(
    *, principal: str = arg("A key or a .pub file."), ledger: list[Path] = LEDGER
) -> Iterator[Answer]:
    """Print what a principal received: how many events of which type and publisher, with which attributes.

    Examples:
        maia pipeline disclosures what-saw office.pub --ledger disclosures.parquet --json
    """
    key = read_principal(principal).key
    with _spark(ledger) as (_, disclosed):
        from maia.spark.disclosures import what_saw as question

        yield from found_rows(question(disclosed, key).orderBy("first_at"), _shown)


@app.command()
def by_rule(ledger: list[Path] = LEDGER) -> Iterator[Answer]:
    """Print how much was delivered on which certificate.

    Examples:
        maia pipeline disclosures by-rule --ledger disclosures.parquet
    """
    with _spark(ledger) as (_, disclosed):
        from maia.spark.disclosures import by_rule as question

        yield from found_rows(question(disclosed).orderBy("deliveries", ascending=False), _shown)


@app.command()
def anomalies(
    ledger: list[Path] = LEDGER,
    since: datetime | None = opt("Attributes first seen since then (UTC)."),
    times: float = opt("How far above its own average.", default=4.0, min=1.0),
    days: int = opt("For how many days it has been there at least.", default=7, min=1),
    closure: str | None = opt("A closure of today: what was delivered and is no longer permitted by it."),
    history: str | None = opt(
        "A closure of all certificates there were, from `closure build --with-revoked`: what none "
        "of them explains."
    ),
) -> Iterator[Answer]:
    """Print what is unusual: first sights, days with far more than usual, what no right explains.

    Each line says which of these it is.

    Examples:
        maia pipeline disclosures anomalies --ledger disclosures.parquet --since 2026-11-01 --times 5
          --closure today --history everything
    """
    from maia.spark.closure.tables import open_closure

    today, past = (None if one is None else open_closure(one) for one in (closure, history))
    with _spark(ledger) as (spark, disclosed):
        from maia.cli.pipeline.closure import utc
        from maia.spark.disclosures import first_sights, no_longer_permitted, unexplained, unusual_volume

        found = {"unusual volume": unusual_volume(disclosed, times=times, days=days).orderBy("day")}
        if since is not None:
            began = since.replace(tzinfo=UTC)
            found["first sight"] = first_sights(disclosed, since=began).orderBy("first_at")
        if today is not None:
            gone = no_longer_permitted(disclosed, today.rows(spark), at=utc(moment(None)))
            found["no longer permitted"] = gone.orderBy("first_at")
        if past is not None:
            found["unexplained"] = unexplained(disclosed, past.rows(spark)).orderBy("first_at")
        for anomaly, rows in found.items():
            yield from found_rows(rows, partial(_of, anomaly))


@contextmanager
def _spark(ledger: list[Path]) -> Iterator[tuple[SparkSession, DataFrame]]:
    for path in ledger:
        if not path.exists():
            raise BadInput("INPUT-LEDGER-EXPORT", f"`{path}` is not there; `maia ledger export` writes it")

    with spark_for("maia-disclosures") as spark:
        yield spark, spark.read.parquet(*(str(path.resolve()) for path in ledger))


def _of(anomaly: str, found: dict[str, object]) -> Answer:
    return _shown({"anomaly": anomaly, **found})


def _shown(found: dict[str, object]) -> Answer:
    record: dict[str, object] = {name: _as_key(name, one) for name, one in found.items()}
    return row("", "  ".join(f"{name} {one}" for name, one in record.items()), **record)


def _as_key(column: str, value: object) -> object:
    """Return a value as it is shown: a key as it is written everywhere, so that it is known by its name."""
    from maia.credentials import principal_from_bytes

    is_key = column in _KEYS and isinstance(value, bytes | bytearray)
    return str(principal_from_bytes(bytes(value))) if is_key else plain(value)  # type: ignore[call-overload]
