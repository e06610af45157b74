"""`maia pipeline`: make events, run the papers' applications over them in Spark, and show the result."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.cli.command import arg, flag, opt
from maia.cli.inputs import command_group
from maia.cli.output import Answer, row, several, table, wants_json
from maia.cli.pipeline import closure, disclosures, match
from maia.cli.pipeline.follow import FollowOptions, follow
from maia.cli.pipeline.source import CHECKPOINT, CORES, MEMORY_MIB, OUT, EventOptions, spark_for, spark_steps
from maia.cli.progress import counted
from maia.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from maia.spark.applications import Application
    from maia.spark.applications.runs import Finished


_ROWS_SHOWN: Final = 5


app = command_group("Run the papers' applications over events, in Spark.")
app.add_typer(disclosures.app, name="disclosures")
app.add_typer(closure.app, name="closure")
app.command("what-if")(closure.what_if)
app.command("match")(match.match)


NAME = arg("Which; `maia pipeline list` lists them.", metavar="NAME")
SET = opt("Change a term of the application; may be repeated.", "--set", metavar="TERM=VALUE")


@app.command("list")
def list_() -> Answer:
    """List the applications with their terms, and the generators.

    Examples:
        maia pipeline list --json
    """
    from dataclasses import asdict

    from maia.spark.applications import APPLICATIONS
    from maia.spark.generators import GENERATORS

    found = []
    for one in APPLICATIONS.values():
        terms = ", ".join(f"{name}={_term(value)}" for name, value in asdict(one.terms).items())
        text = (one.about, f"reads {', '.join(one.reads)}", f"terms {terms}")
        reads = {name: kind.value for name, kind in one.reads.items()}
        made = row(
            "", [f"  {label:<12} {line}" for label, line in zip((one.name, "", ""), text, strict=True)]
        )
        found.append(Answer(made, row(name=one.name, about=one.about, reads=reads, terms=asdict(one.terms))))
    makers = (
        row("", f"  {one.name:<12} {one.about}", name=one.name, about=one.about)
        for one in GENERATORS.values()
    )
    heads = row("", "applications"), row("", "generators")
    return Answer(heads[0], several("applications", found), heads[1], several("generators", makers))


@app.command()
def prepare() -> Answer:
    """Make Spark start in less than half the time, from now on (once, a minute and 200 MB).

    Examples:
        maia pipeline prepare
    """
    from maia.spark.session.session import prepare_spark

    archive, is_new = prepare_spark()
    said = (
        "Spark's classes are in an archive now"
        if is_new
        else "there is an archive of Spark's classes already"
    )
    return row("", f"{said}: {archive.file}", archive=archive.file, new=is_new)


@app.command()
def generate(
    name: str = NAME,
    out: Path = arg("A new folder for Parquet files.", metavar="FOLDER"),
    rows: int = opt("How many events.", default=1_000_000, min=0),
    seed: int = opt("The same seed gives the same events.", default=2003),
    per_day: int = opt("How many events make a day.", default=500_000, min=1),
) -> Answer:
    """Make realistic events, the same ones for the same seed; without Java.

    Examples:
        maia pipeline generate sightings city --rows 10000000
    """
    from time import perf_counter

    from maia.spark.generators import GENERATORS, Order
    from maia.spark.generators.files import write_generated

    generator = _one_of(name, GENERATORS, "generator")
    began = perf_counter()
    with counted(f"making {name}", rows) as made:
        files = write_generated(out, generator, Order(rows, seed, per_day), made=made)
    seconds = perf_counter() - began
    size = sum(file.stat().st_size for file in files)
    made_text = f"{rows:,} {name} in {len(files)} files of `{out}`, {size / 1e6:,.1f} MB, {seconds:.1f} s"
    fields = {"files": len(files), "bytes": size, "seconds": round(seconds, 3), "folder": out}
    return row("", made_text, rows=rows, **fields)


@app.command()
def run(
    *,
    name: str = NAME,
    asked: EventOptions,
    out: str | None = OUT,
    plot: list[Path] | None = opt("Draw the result: a .png, .svg or .pdf file. May be repeated."),
    changes: list[str] | None = SET,
    is_stream: bool = flag("Run as a stream, a file at a time, instead of as a batch.", "--stream"),
    how: FollowOptions,
    checkpoint: str | None = CHECKPOINT,
    cores: int = CORES,
    memory_mib: int = MEMORY_MIB,
) -> Answer:
    """Run an application over events and print a summary of its result.

    With --follow it runs until it is stopped, and goes on from --checkpoint where it was.

    Examples:
        maia pipeline run billing --from city --out charges --plot charges.png
        maia pipeline run billing --as dashboard -d Sighting
        maia pipeline run tracking --from city --set vehicle='AE05 XYZ' --stream --json
        maia pipeline run statistics --follow --live office.maia --type Sighting --durable traffic
          --publish office.maia --publish-type Traffic --checkpoint traffic-checkpoint
        maia pipeline run billing --from /shared/city --out s3://results/charges
    """
    from maia.spark.applications.runs import check_result, interruptible
    from maia.spark.applications.runs import run as run_application

    application, terms = _application(name, changes)
    _check_plots(plot or [])
    how.check(asked, application, out)
    if how.follow:
        if checkpoint is None:
            raise BadInput(
                "INPUT-PIPELINE-RESULT", "a run that goes on keeps where it is in --checkpoint PLACE"
            )
        with spark_for("maia-pipeline", cores=cores, memory_mib=memory_mib, shared=checkpoint) as spark:
            return follow(spark, application, terms, asked, how, out=out, checkpoint=checkpoint)
    check_result(out)
    with (
        spark_for("maia-pipeline", cores=cores, memory_mib=memory_mib, shared=checkpoint) as spark,
        _result_for(spark, out) as result,
        asked.opened(spark, application) as events,
        spark_steps(spark) as step,
    ):
        step(f"running {name}")
        finished = run_application(
            spark, application, terms, events, result=result, is_stream=is_stream, checkpoint=checkpoint
        )
        step("adding up")
        rows = finished.rows
        record = interruptible(spark, lambda: _record(application, finished, rows))
        for path in plot or []:
            step(f"drawing {path.name}")
            _draw(name, rows, path)
        shown = [] if wants_json() else _first_rows(application, rows)
    drawn = [f"drawn     {path}" for path in plot or []]
    return Answer(row("", shown), _fields(record), row("", drawn, **({"out": out} if out else {})))


@app.command("compact")
def compact_table(
    table: str = arg("An open table: what `--follow --out` has made.", metavar="PLACE"),
    keep_hours: int | None = opt(
        "Delete files that were in no version for so long; a week. A batch must not take longer.",
        min=0,
        metavar="N",
    ),
) -> Answer:
    """Join small files of an open table, and delete those that it needs no more; a run may go on meanwhile.

    Examples:
        maia pipeline compact charges
    """
    from maia.places import place_of
    from maia.spark.applications.open_table import check_open_table, compact

    check_open_table(table)
    done = compact(place_of(table), keep_hours=keep_hours)
    text = f"`{table}`: {done.files:,} files; {done.joined:,} were joined, {done.deleted:,} deleted"
    return row("", text, table=table, files=done.files, joined=done.joined, deleted=done.deleted)


@app.command()
def explain(*, name: str = NAME, asked: EventOptions, changes: list[str] | None = SET) -> Answer:
    """Show Spark's plan: operators and columns, never a value that is compared with.

    Examples:
        maia pipeline explain tracking --from city --set vehicle='AE05 XYZ'
    """
    application, terms = _application(name, changes)
    asked.check(application)
    session = spark_for("maia-pipeline", cores=1, memory_mib=1024)
    with session as spark, asked.opened(spark, application) as events:
        from maia.spark.applications.application import plan_lines

        result = application.of(events.table(), terms)
        lines, read = plan_lines(result), sorted(events.reads(result))
    never = sorted(application.never_reads)
    return Answer(
        row("", lines, plan=lines),
        row("", f"reads       {', '.join(read)}", reads=read),
        row("", f"never reads {', '.join(never) or '(nothing is left out)'}", never_reads=never),
    )


@app.command()
def verify(
    *,
    name: str = NAME,
    asked: EventOptions,
    changes: list[str] | None = SET,
    checkpoint: str | None = CHECKPOINT,
    cores: int = CORES,
    memory_mib: int = MEMORY_MIB,
) -> Answer:
    """Run as a batch and as a stream, compare row by row, and check for columns that must not be read.

    Examples:
        maia pipeline verify billing --from city
    """
    from maia.spark.applications.runs import check_checkpoint
    from maia.spark.applications.runs import run as run_application

    application, terms = _application(name, changes)
    asked.check(application)
    with (
        spark_for("maia-pipeline", cores=cores, memory_mib=memory_mib, shared=checkpoint) as spark,
        _result_for(spark, None) as of_batch,
        _result_for(spark, None) as of_stream,
        asked.opened(spark, application) as events,
        spark_steps(spark) as step,
    ):
        check_checkpoint(spark, checkpoint)
        step(f"running {name} as a batch")
        batch = run_application(spark, application, terms, events, result=of_batch).rows
        step(f"running {name} as a stream")
        stream = run_application(
            spark, application, terms, events, result=of_stream, is_stream=True, checkpoint=checkpoint
        ).rows
        step("comparing")
        record: dict[str, object] = {
            "application": name,
            "rows": batch.count(),
            "only_in_batch": batch.exceptAll(stream).count(),
            "only_in_stream": stream.exceptAll(batch).count(),
            "rows_with_a_key_of_another": _doubled(application, batch),
            "reads_what_it_must_not": sorted(
                events.reads(application.of(events.table(), terms)) & application.never_reads
            ),
        }
    holds = not any(record[check] for check in _CHECKS)
    return Answer(_fields(record | {"holds": holds}), no=not holds)


_CHECKS: Final = ("only_in_batch", "only_in_stream", "rows_with_a_key_of_another", "reads_what_it_must_not")


# ------------------------------------------------------------ what the words mean


def _application(name: str, changes: list[str] | None) -> tuple[Application[Any], object]:
    # Any: each application has terms of its own.
    from maia.spark.applications import APPLICATIONS

    application = _one_of(name, APPLICATIONS, "application")
    words = [change.partition("=") for change in changes or []]
    for term, equals, _ in words:
        if not equals:
            raise BadInput("INPUT-PIPELINE-TERM", f"`{term[:80]}` is not `TERM=VALUE`")
    return application, application.terms_with({term.strip(): value for term, _, value in words})


def _one_of(name: str, known: Mapping[str, Any], what: str) -> Any:
    # Any: applications and generators are looked up alike.
    if name not in known:
        raise BadInput("INPUT-PIPELINE-NAME", f"`{name[:40]}` is no {what}; there are {', '.join(known)}")
    return known[name]


def _check_plots(paths: Sequence[Path]) -> None:
    """Refuse before the work begins what could not be drawn after it."""
    from importlib.util import find_spec

    from maia.spark.applications.plots import FORMS

    for path in paths:
        if path.suffix.lstrip(".") not in FORMS:
            raise BadInput("INPUT-PLOT", f"`{path}` does not end in .{', .'.join(FORMS)}")
        if not path.parent.is_dir():
            raise BadInput(
                "INPUT-PLOT", f"`{path.parent}` is no folder, so no picture can be written into it"
            )
    if paths and find_spec("matplotlib") is None:
        raise Unavailable(
            "UNAVAILABLE-PLOTS",
            "pictures need matplotlib, which comes with the extra `plots`: pip install 'maia-pubsub[plots]'",
        )


@contextmanager
def _result_for(spark: SparkSession, out: str | None) -> Iterator[Path | str | None]:
    """Hand out where a result goes: if nothing was named, a folder of this run; on a cluster, the driver."""
    from maia.spark.session.cluster import is_here

    if out is not None or not is_here(spark):
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="maia-pipeline-") as folder:
        yield Path(folder, "result")


# ------------------------------------------------------------ what is said


def _record(application: Application[Any], finished: Finished, rows: DataFrame) -> dict[str, object]:
    totals = rows.agg(*(column.alias(name) for name, column in application.totals().items())).collect()[0]
    record: dict[str, object] = {"application": application.name, "seconds": round(finished.seconds, 3)}
    if finished.events is not None:
        record |= {"events": finished.events, "events_per_s": round(finished.events / finished.seconds)}
    return record | totals.asDict()


def _fields(record: Mapping[str, object]) -> Answer:
    width = max(map(len, record)) + 2
    return row(
        "", [f"{name.replace('_', ' '):<{width}} {_shown(value)}" for name, value in record.items()], **record
    )


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _term(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _first_rows(application: Application[Any], rows: DataFrame) -> list[str]:
    """Return the first rows as people read them, columns below each other."""
    found = rows.orderBy(*application.keys).limit(_ROWS_SHOWN).collect()
    return [*table(rows.columns, [[_shown(value) for value in row] for row in found]), ""]


def _draw(name: str, rows: DataFrame, path: Path) -> None:
    from maia.private_files import create_private
    from maia.spark.applications.plots import draw

    drawn = draw(name, rows, form=path.suffix.lstrip("."))
    with create_private(path, follow_links=True) as file:
        file.write(drawn)


def _doubled(application: Application[Any], rows: DataFrame) -> int:
    """Return how many rows there are beyond one for each key; a path has many steps to a key."""
    keys = [*application.keys, *(["step"] if "step" in rows.columns else [])]
    return rows.count() - rows.select(*keys).distinct().count()
