"""`maia pipeline run NAME --follow`: an application runs until it is stopped, and goes on where it was."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from maia.cli.command import flag, opt, options
from maia.cli.output import Answer, row, wants_json
from maia.cli.pipeline.source import EventOptions
from maia.errors import BadInput, Unavailable
from maia.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from maia.net.telemetry import Telemetry
    from maia.spark.applications import Application
    from maia.spark.applications.following import Outlet
    from maia.spark.governed.stream_lag import Lag

_LOOK_S: Final = 0.5
_LAG_S: Final = 5.0
_BATCH_ENDS_S: Final = 60.0
_STOP_LOOK_S: Final = 0.05


class TableForm(Enum):
    """What --out of a run that goes on is."""

    DELTA = "delta"
    PARQUET = "parquet"


@options
class FollowOptions:
    """The options about a run that does not end by itself."""

    follow: bool = flag("Run until it is stopped: over new files of --from, a growing --log, or --live.")
    live: str | None = opt(
        "Events: the live network, as the holder of this profile; with --type.", metavar="PROFILE"
    )
    type_name: str | None = opt("With --live: the name of the type.", "--type", metavar="TYPE")
    durable: str | None = opt("With --live: go on where this name was left; its broker records the type.")
    publish: str | None = opt(
        "With --follow: publish results as events, under the right of this profile; with --publish-type.",
        metavar="PROFILE",
    )
    publish_type: str | None = opt("With --publish: the name of the results' type.", metavar="TYPE")
    every: float = opt("With --follow: seconds from one batch to the next.", default=10.0, min=0.1)
    form: TableForm = opt(
        "With --follow and --out: an open table (Delta), which holds of each key what was said last; or a "
        "folder of Parquet files for each batch.",
        "--format",
        default=TableForm.DELTA,
    )
    compact_every: int = opt(
        "With --format delta: batches with results from one compaction to the next; 0 for never.",
        default=50,
        min=0,
        metavar="N",
    )
    metrics: str = opt(
        "With --follow: where /metrics answers, on loopback.", default="off", metavar="ADDRESS"
    )

    def check(self, asked: EventOptions, application: Application[Any], out: str | None) -> None:
        """Refuse, before Spark starts, what does not go together, and events that cannot be used."""
        if not self.follow and (self.live or self.publish):
            raise BadInput("INPUT-PIPELINE-SOURCE", "--live and --publish are for a run with --follow")
        if self.live is None:
            asked.check(application)
        elif asked.source is not None or asked.log is not None:
            raise BadInput(
                "INPUT-PIPELINE-SOURCE", "name one source of events: --from, --log or, with --follow, --live"
            )
        else:
            kinds = {one.name: one.kind for one in _job(self._live()).event_type().attributes}
            application.check_names(kinds)
        if self.follow and asked.source is not None and place_of(asked.source).local is None:
            raise BadInput(
                "INPUT-PIPELINE-SOURCE",
                "a run that goes on takes new files of a folder: new events in an object store are those of "
                "a log (--log s3://…), and --stream without --follow reads the files that are there",
            )
        if self.follow and (out is None) == (self.publish is None):
            raise BadInput(
                "INPUT-PIPELINE-RESULT",
                "a run that goes on has one place for its results: a table (--out), or --publish",
            )
        if self.publish is not None:
            _job(self._published())
        if self.follow and out is not None and self.form is TableForm.DELTA:
            from maia.spark.applications.open_table import check_open_table

            check_open_table(out)

    def _live(self) -> dict[str, str]:
        given = {"profile": self.live or "", "type": self.type_name or ""}
        return given | ({"durable": self.durable} if self.durable else {})

    def _published(self) -> dict[str, str]:
        return {"profile": self.publish or "", "type": self.publish_type or ""}

    @contextmanager
    def events(
        self, asked: EventOptions, spark: SparkSession, application: Application[Any]
    ) -> Iterator[tuple[DataFrame, Callable[[StreamingQuery], Lag] | None]]:
        """Hand out the stream of events, and what says of a log how far a query is behind it."""
        if self.live is not None:
            yield spark.readStream.format("maia").options(**self._live()).load(), None
            return
        with asked.opened(spark, application) as source:
            yield source.stream(), source.lag

    def outlet(self, out: str | None) -> Outlet:
        """Return where results go."""
        from maia.spark.applications.following import Format, Outlet

        if self.publish is None:
            form = Format.PARQUET if self.form is TableForm.PARQUET else Format.DELTA
            return Outlet(table=out, form=form, compact_every=self.compact_every)
        return Outlet(options=self._published(), event_type=_job(self._published()).event_type())


def _job(given: dict[str, str]) -> Any:
    # Any: of a module that loads PySpark.
    from maia.spark.source.options import job_options

    return job_options(given)


def follow(
    spark: SparkSession,
    application: Application[Any],
    terms: object,
    asked: EventOptions,
    how: FollowOptions,
    *,
    out: str | None,
    checkpoint: str,
) -> Answer:
    """Run an application until a signal ends it; raise what ended it otherwise."""
    import asyncio

    from maia.spark.applications.following import start_following
    from maia.spark.session.cluster import is_here
    from maia.spark.source.data_source import register_spark

    if out is not None and "://" not in out and not is_here(spark):
        raise BadInput(
            "INPUT-PIPELINE-RESULT",
            "on a cluster, workers write the table of a run that goes on: name an address that all of them "
            "reach (`--out file:///shared/charges`)",
        )
    if how.live is not None or how.publish is not None:
        register_spark(spark)
    with how.events(asked, spark, application) as (events, lag):
        outlet, kept = how.outlet(None if out is None else _place(out)), _place(checkpoint)
        query = start_following(application, events, terms, outlet, checkpoint=kept, every_s=how.every)
        watched = _Watch(application.name, query, lag)
        try:
            asyncio.run(watched.until_stopped(how.metrics))
        finally:
            watched.await_batch()
            query.stop()
    return watched.answer()


def _place(word: str) -> str:
    """Return a folder as Java finds it, which need not be where we are; an address as it is."""
    return word if "://" in word else str(Path(word).resolve())


class _Watch:
    """What became of the batches of a query so far."""

    def __init__(self, name: str, query: StreamingQuery, lag: Callable[[StreamingQuery], Lag] | None) -> None:
        self._name, self._query, self._began = name, query, monotonic()
        self._lag_of, self._looked, self._waits_for = lag, 0.0, 0
        self._lag: Lag | None = None
        self._last, self._batches, self._events = -1, 0, 0
        self._telemetry: Telemetry | None = None

    async def until_stopped(self, metrics: str) -> None:
        """Report batches as they end, until a signal or the end of the query."""
        import asyncio

        from maia.net.process import until_told_to_stop
        from maia.net.status_endpoint import StatusSource, answering

        if metrics != "off":
            from maia.net.telemetry import Telemetry

            self._telemetry = Telemetry(sys.stderr)
        told = self._telemetry.metrics if self._telemetry is not None else lambda: b""
        source = StatusSource(lambda: self._last >= 0, told, self._status, lambda: "no batch has ended yet")
        async with answering(source, metrics, None) as address:
            if address is not None:
                _say(f"metrics at http://{address}/metrics", metrics=address)
            stopped = asyncio.create_task(until_told_to_stop())
            while not stopped.done():
                await asyncio.wait([stopped], timeout=_LOOK_S)
                if not await asyncio.to_thread(self._look):
                    stopped.cancel()
                    return

    def await_batch(self) -> None:
        """Wait for the batch that is under way, if it ends soon, and report it: one cut short runs again."""
        until = monotonic() + _BATCH_ENDS_S
        while self._query.status["isTriggerActive"] and monotonic() < until:
            sleep(_STOP_LOOK_S)
        self._report_new()

    def _look(self) -> bool:
        """Report what has ended since; return whether the query still runs, and raise what ended it."""
        is_active = self._query.isActive
        self._report_new()
        if is_active and monotonic() - self._looked > _LAG_S:
            self._look_behind()
        if not is_active:
            self._query.awaitTermination()  # raises why
        return is_active

    def _report_new(self) -> None:
        for done in self._query.recentProgress:
            if done.batchId > self._last and done.batchDuration is not None:
                self._last = done.batchId
                self._report(done)

    # Any: Spark's report of a batch.
    def _report(self, done: Any) -> None:
        self._batches += 1
        events = done.numInputRows
        self._events += events
        seconds = done.batchDuration / 1000
        state = sum(one.numRowsTotal for one in done.stateOperators)
        if self._telemetry is not None:
            self._telemetry.count("maia_pipeline_batches_total", 1, {})
            self._telemetry.count("maia_pipeline_events_total", events, {})
            self._telemetry.measure("maia_pipeline_batch_seconds", seconds)
            self._telemetry.measure("maia_pipeline_state_rows", state)
        if events:
            self._look_behind()
            rate = events / max(seconds, 0.001)
            text = f"{self._name}: batch {done.batchId}, {events:,} events in {seconds:.1f} s"
            fields = {"batch": done.batchId, "events": events, "seconds": seconds}
            lag: dict[str, object] = {} if self._lag is None else {"lag": asdict(self._lag)}
            _say(
                f"{text} ({rate:,.0f}/s), {state:,} rows of state{_shown(self._lag)}",
                **fields,
                state=state,
                **lag,
            )

    def _look_behind(self) -> None:
        """Look how far the query is behind its log; say once that it waits for what the log lacks."""
        if self._lag_of is None or self._query.lastProgress is None:
            return
        self._looked = monotonic()
        try:
            self._lag = lag = self._lag_of(self._query)
        except Unavailable:  # such as a store that does not answer: the query finds out whether it comes back
            return
        if self._telemetry is not None:
            self._telemetry.measure("maia_pipeline_lag_events", lag.events)
            self._telemetry.measure("maia_pipeline_lag_seconds", lag.seconds)
            self._telemetry.measure("maia_pipeline_log_missing", lag.missing)
        waits_for = lag.missing if lag.is_held else 0
        if waits_for and waits_for != self._waits_for:
            _say(
                f"{self._name}: waits where it is, {lag.events:,} events behind: the log is known to lack "
                f"{waits_for:,} publications, and its broker asks others for them",
                waits_for=waits_for, lag=asdict(lag),
            )  # fmt: skip
        self._waits_for = waits_for

    def _status(self) -> dict[str, object]:
        about: dict[str, object] = {"application": self._name, "batch": self._last, "events": self._events}
        return about | ({} if self._lag is None else {"lag": asdict(self._lag)})

    def answer(self) -> Answer:
        """Return what this run did."""
        seconds = monotonic() - self._began
        did = f"{self._events:,} events in {self._batches} batches"
        text = f"{self._name}: stopped behind batch {self._last}; {did}"
        fields = {"last_batch": self._last, "batches": self._batches, "events": self._events}
        return row("", text, application=self._name, **fields, seconds=round(seconds, 3))


def _shown(lag: Lag | None) -> str:
    if lag is None:
        return ""
    text = f"; {lag.events:,} events and {lag.seconds:,.0f} s behind the log" if lag.events else ""
    return f"{text}; the log lacks {lag.missing:,} publications" if lag.missing else text


def _say(text: str, **fields: object) -> None:
    """Report progress on standard error: a line for people, or an object for programs."""
    sys.stderr.write((json.dumps(fields) if wants_json() else text) + "\n")
    sys.stderr.flush()
