"""What does it cost to open ten sealed attributes in Spark, against its own `aes_decrypt`?

Ours is a governed table over a log of frames that are sealed by attribute:
one call of the cipher for each column of a frame, and the frame's proof is
checked as well. The peer is a table with ten encrypted columns, one ciphertext
for each value, decrypted by Spark's built-in function in generated code, with
associated data as ours has. Both end as the same typed columns, and go nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from bench_spark import bench_session
from governed_log import record
from harness import Benchmark, Case, Race, Ratio, Side, at_least
from live_network import ATTRIBUTES
from maia.spark.governed.table import governed
from maia.spark.keys.key_server import job_desk
from maia.types import SealingLevel
from maia.views import spark_type

KEY = bytes(range(32))
NAMES = [attribute.name for attribute in ATTRIBUTES]


def cases(quick: bool) -> Iterator[Case]:
    """Yield one race for each size of frame."""
    rows = 2_000 if quick else 200_000
    with (
        TemporaryDirectory() as folder,
        job_desk() as desk,
        bench_session("bench 19", quick=quick) as spark,
    ):
        for frame_rows in (500,) if quick else (1024, 16_384):
            log = record(
                Path(folder) / f"log-{frame_rows}",
                rows=rows,
                frame_rows=frame_rows,
                level=SealingLevel.ATTRIBUTE,
            )
            ours = governed(spark, **log.known(desk))
            sealed = f"{folder}/values-{frame_rows}"
            encrypted(ours).write.parquet(sealed)
            peer = decrypted(spark.read.parquet(sealed))
            assert digest(ours) == digest(peer)
            yield Race(
                f"frames of {frame_rows} rows, against aes_decrypt",
                ours=Side(run=lambda table=ours: away(table), operations=rows, calls=1),
                peer=Side(run=lambda table=peer: away(table), operations=rows, calls=1),
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(10),
            )


def encrypted(table: DataFrame) -> DataFrame:
    """Return a table with each value encrypted by itself."""
    return table.select(
        *(
            F.aes_encrypt(
                F.col(name).cast("string"),
                F.lit(KEY),
                F.lit("GCM"),
                F.lit("DEFAULT"),
                F.lit(b"").cast("binary"),
                F.lit(name.encode()),
            ).alias(name)
            for name in NAMES
        )
    )


def decrypted(table: DataFrame) -> DataFrame:
    """Return the values of such a table, typed."""
    return table.select(
        *(
            F.aes_decrypt(
                F.col(one.name), F.lit(KEY), F.lit("GCM"), F.lit("DEFAULT"), F.lit(one.name.encode())
            )
            .cast("string")
            .cast(spark_type(one.kind))
            .alias(one.name)
            for one in ATTRIBUTES
        )
    )


def away(table: DataFrame) -> None:
    """Compute every value of a table, and keep none."""
    table.write.format("noop").mode("overwrite").save()


def digest(table: DataFrame) -> tuple[int, int]:
    """Return how many rows there are, and a sum that depends on every value."""
    found = table.select(F.hash(*NAMES).cast("long").alias("h")).agg(F.count("*"), F.sum("h")).collect()[0]
    return found[0], found[1]


BENCH = Benchmark(
    number=19,
    name="open-in-spark",
    about="decrypting 10 attributes in Spark, against built-in aes_decrypt",
    cases=cases,
    stood="303,000 values a second",
    peer_lacks="aes_decrypt proves no signer, and shows its key in every plan",
)
