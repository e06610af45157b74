"""How does one of our errors appear to the author of a Spark job?

Sources and sinks of ours run in processes that Spark starts. Of an exception
it keeps the text alone, so the text begins with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maia.errors import MaiaError


class SparkProblem(Exception):
    """How one of our errors looks inside Spark, which keeps nothing of an exception but its text."""

    def __init__(self, problem: MaiaError) -> None:
        """Put the code before the sentence."""
        super().__init__(f"[{problem.code}] {problem.message}")


@contextmanager
def told_to_spark() -> Iterator[None]:
    """Let our errors end in Spark with their codes, and without what led to them."""
    try:
        yield
    except MaiaError as problem:
        raise SparkProblem(problem) from None
