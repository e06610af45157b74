"""Does a `select` in ordinary code cost more than columns that were named when the table was made?

A log of ten attributes, each sealed. Ours is a DataFrame of all ten, of which the query selects three: Spark
leaves the functions of the others out. The peer is the same table made of these three (`columns=`), and then
the same query of all ten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bench_spark import bench_session
from governed_log import record_many
from harness import Benchmark, Case, Race, Ratio, Side, at_most
from maia.spark.governed.plan import TableQuery
from maia.spark.governed.table import governed
from maia.spark.keys.key_server import job_desk

ASKED = ("numberplate", "speed", "lane")


def cases(quick: bool) -> Iterator[Case]:
    """Yield both races."""
    rows = 4_096 if quick else 400_000
    with (
        TemporaryDirectory() as folder,
        bench_session("columns", quick=quick) as spark,
        job_desk() as desk,
    ):
        known = record_many(Path(folder) / "log", rows, 256).known(desk)
        whole, named = governed(spark, **known), governed(spark, **known, query=TableQuery(columns=ASKED))
        assert _answer(whole) == _answer(named)
        yield Race(
            "three of ten sealed attributes by `select`, over `columns=`",
            ours=Side(run=lambda: _answer(whole), operations=rows, calls=1),
            peer=Side(run=lambda: _answer(named), operations=rows, calls=1),
            ratio=Ratio.OURS_OVER_PEER,
            target=at_most(1.1),
        )
        yield Race(
            "three of ten over all ten",
            ours=Side(run=lambda: _answer(whole), operations=rows, calls=1),
            peer=Side(run=lambda: _answer(whole, whole.columns), operations=rows, calls=1),
            ratio=Ratio.OURS_OVER_PEER,
            target=at_most(0.6),
        )


def _answer(table: DataFrame, names: object = ASKED) -> int:
    """Use every value of some columns."""
    chosen = table.select(*names) if isinstance(names, list | tuple) else table
    found = chosen.select(F.sum(F.xxhash64(*chosen.columns) % 1000).alias("found")).first()
    assert found is not None
    return int(found["found"])


BENCH = Benchmark(
    number=47,
    name="columns",
    about="a `select` of three of ten sealed attributes in ordinary code, over columns named beforehand",
    cases=cases,
    stood="all ten were opened whatever a query asked for: twice the time",
    peer_lacks="nothing: it is the same table, asked in another way",
)
