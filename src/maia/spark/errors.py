"""How does one of our errors appear to the author of a Spark job?

Sources and sinks of ours run in processes that Spark starts. Of an exception
it keeps the text alone, so the text begins with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from maia.errors import MaiaError, Refusal, Unavailable

_SAID: Final = re.compile(r"^\S*SparkProblem: \[([A-Z][A-Z0-9-]*)\] (.*)$", re.M)
_REFUSALS: Final = ("POLICY-", "REFUSED-", "PIPELINE-GRANT-", "PIPELINE-READER-")


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


class JobRefused(Refusal):
    """A right was missing, or ended, while a Spark job ran; `code` is that refusal's own."""

    code = "PIPELINE-JOB-REFUSED"


class JobFailed(Unavailable):
    """A Spark job ended with an error of ours; `code` is that error's own."""

    code = "PIPELINE-JOB-FAILED"


@contextmanager
def told_by_spark() -> Iterator[None]:
    """Raise what Spark tells of our errors, with pages of frames of its own, as one of ours again."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, SparkProblem) as problem:
        text = f"SparkProblem: {problem}" if isinstance(problem, SparkProblem) else str(problem)
        said = _SAID.search(text)
        if said is None:
            raise
        is_refusal = said[1].startswith(_REFUSALS)
        raise (JobRefused if is_refusal else JobFailed)(said[1], said[2]) from None
