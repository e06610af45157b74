"""How does one of our errors appear to the author of a Spark job, and how does one of Spark's?

Sources and sinks of ours run in processes that Spark starts. Of an exception
it keeps the text alone, so the text begins with the code. Whatever ends a job
reaches a person as one line: what the task said, with a code, and never pages
of frames of Java.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from maia.errors import MaiaError, Refusal, Unavailable

_SAID: Final = re.compile(r"^\S*SparkProblem: \[([A-Z][A-Z0-9-]*)\] (.*)$", re.M)
_REFUSALS: Final = ("POLICY-", "REFUSED-", "PIPELINE-GRANT-", "PIPELINE-READER-")
_CLASS: Final = r"(?:[A-Za-z_$][\w$]*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure)"
_RAISED: Final = re.compile(rf"^\s*(?:Caused by: )?({_CLASS}): (.+)$", re.M)
_LOST: Final = re.compile(r"most recent failure: (?:Lost task [^\n]*?\): )?([^\n]+)")
_PLACE: Final = re.compile(
    r"Mkdirs failed to create (?P<made>\S+)"
    r"|(?P<path>(?:[a-z0-9]+:)?/\S*?)[`'\"]?:? \(?(?P<why>Permission denied|No such file or directory|"
    r"Read-only file system|No space left on device)"
    r"|(?:Permission denied|[Ff]ile does not exist|File|Path does not exist|PATH_NOT_FOUND[^:]*)[:,]? "
    r"(?:user=\S+ )?[`'\"]?(?P<named>(?:[a-z0-9]+:)?/[^\s`'\",]+)[`'\"]?(?P<missing> does not exist)?"
)
_OTHERS_STATE: Final = re.compile(
    r"\[(?:STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE)\b"
)
_FULL: Final = "No space left on device"
_TOO_LARGE: Final = re.compile(r"spark\.driver\.maxResultSize")
_NO_PACKAGE: Final = re.compile(r"ModuleNotFoundError: No module named 'maia'")
_FRAME: Final = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^\s+File \"|^JVM stacktrace", re.M)
_SHOWN: Final = 400
BROUGHT_BYTES_MAX: Final = 256 << 20
"""How large a result of a cluster may be that the driver takes."""


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

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class JobFailed(Unavailable):
    """A Spark job ended with an error; `code` is that error's own, if it was one of ours."""

    code = "PIPELINE-JOB-FAILED"

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


@contextmanager
def told_by_spark() -> Iterator[None]:
    """Raise what ended a job in Spark as one of ours, with what the task itself said."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, SparkProblem) as problem:
        # While Spark runs: the text is with Java.
        text = f"SparkProblem: {problem}" if isinstance(problem, SparkProblem) else str(problem)
        raise job_problem(text).with_traceback(problem.__traceback__) from None


def job_problem(text: str) -> Refusal | Unavailable:
    """Return the error of ours that says what a text of Spark's says."""
    if (said := _SAID.search(text)) is not None:
        is_refusal = said[1].startswith(_REFUSALS)
        return (JobRefused if is_refusal else JobFailed)(said[1], said[2])
    reason = reason_of(text)
    if _NO_PACKAGE.search(text):
        return Unavailable(
            "UNAVAILABLE-SPARK-CONNECT",
            "of a session of Connect, Spark hands the package to tasks, and not to what plans a stream: "
            "install Maia where the server runs, or start Spark in the program itself",
        )
    if _TOO_LARGE.search(text):
        return result_too_large()
    if (place := _PLACE.search(reason)) is not None:
        named = place["made"] or place["path"] or place["named"]
        why = "it cannot be made" if place["made"] else "it does not exist" if place["missing"] else reason
        return Unavailable(
            "PIPELINE-PLACE",
            f"a worker cannot use `{named[:_SHOWN]}`: {place['why'] or why}; name a place that every worker "
            "reaches and that its account may use",
        )
    if _FULL in reason:
        return Unavailable(
            "PIPELINE-PLACE",
            f"a disk is full ({_FULL}): that of the checkpoint or the results, or where Spark keeps what "
            "does not fit its memory; make room and run again: a run with a checkpoint goes on where it was",
        )
    if _OTHERS_STATE.search(text):
        reason = (
            "the checkpoint holds the state of another application, or of another version of it: go on with "
            "its own, or begin with a new one"
        )
    return JobFailed(JobFailed.code, f"the job has failed: {reason}")


def worker_problem(verb: str, place: object, why: str) -> Unavailable:
    """Return what a task says of a place that it cannot use: where it runs, under which account, and why."""
    host, account = socket.gethostname(), str(os.getuid())
    with suppress(KeyError):
        account = pwd.getpwuid(os.getuid()).pw_name
    return Unavailable(
        "PIPELINE-PLACE",
        f"a worker on `{host}`, under the account `{account}`, cannot {verb} `{place}`: {why}; name a place "
        "that every worker reaches and that its account may use",
    )


def result_too_large() -> Unavailable:
    """Return what a person can do about a result that does not fit the driver of a cluster."""
    return Unavailable(
        "PIPELINE-RESULT-SIZE",
        f"the result is larger than the {BROUGHT_BYTES_MAX >> 20} MiB that one machine takes from a cluster: "
        "let workers write it, to an address that they reach (`--out s3://…`, `--out file:///shared/…`)",
    )


def reason_of(text: str) -> str:
    """Return what was raised first, in one line: the innermost cause, or the end of a task's traceback."""
    raised = _RAISED.findall(text)
    if raised:
        name, said = raised[-1]
        found = f"{name.rpartition('.')[2]}: {said}"
    elif (lost := _LOST.search(text)) is not None:
        found = lost[1]
    else:
        found = next((line for line in text.splitlines() if line.strip() and not _FRAME.match(line)), "")
    return " ".join(found.split())[:_SHOWN] or "Spark gave no reason"
