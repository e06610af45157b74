"""Where does a benchmark get its Spark session? A measurement starts one of its own, compiled thoroughly.

A smoke run measures nothing, so its benchmarks share one that compiles lightly,
and ends with the process.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from pyspark.sql import SparkSession

from maia.spark.session.session import spark_session

__all__ = ["bench_session"]


@contextmanager
def bench_session(name: str, *, quick: bool, memory_mib: int = 1024) -> Iterator[SparkSession]:
    """Hand out a session for one benchmark."""
    if quick:
        yield _shared()
        return
    with spark_session(name, memory_mib=memory_mib, long_running=True) as spark:
        yield spark


@cache
def _shared() -> SparkSession:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(spark_session("smoke runs"))
