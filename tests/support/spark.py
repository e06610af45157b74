"""One Spark session for the suite, or for each of its lanes, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from maia.spark.session import session as sessions
from maia.spark.session.session import PLAN_LENGTH, spark_session
from support.nursery import spark_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hundreds of tests leave plans and generated code behind in one Java process, and an error for want of
# memory in a task ends it, and every test after that.
MEMORY_MIB: Final = 3072
LAST_WORDS: Final = 4_000
# A plan that is changed while it runs is run in several jobs, which cost more than a few rows gain.
SETTINGS: Final = {
    # Hundreds of plans are compiled: with less room Java keeps looking for code and objects to throw away.
    "spark.driver.defaultJavaOptions": "-XX:ReservedCodeCacheSize=240m -Xms1536m -Xmn768m",
    "spark.sql.adaptive.enabled": "false",
    # What a plan is, tests compare; a governed table would have it kept back.
    PLAN_LENGTH: str(1 << 20),
    # The usual one starts several processes for each file of a checkpoint, to set modes and to follow links.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    # A stream that waits asks its source, a process of Python, a hundred times a second by default.
    "spark.sql.streaming.pollingDelay": "100ms",
}


# Compiling a plan to Java takes longer than a few rows do. What executors compute, and what attackers reach,
# is asked of compiled plans; elsewhere Spark evaluates them.
COMPILED: Final = ("attacks", "conformance")
CODE_GENERATION: Final = {
    "spark.sql.codegen.wholeStage": {True: "true", False: "false"},
    "spark.sql.codegen.factoryMode": {True: "FALLBACK", False: "NO_CODEGEN"},
}
JAVA_LOG = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A quiet local session in UTC with ANSI mode on."""
    with spark_session("maia-tests", memory_mib=MEMORY_MIB, settings=SETTINGS) as session:
        pytestconfig.stash[JAVA_LOG] = Path(session.conf.get("spark.local.dir")) / "java.log"
        session.sparkContext.pythonExec = str(spark_python())
        yield session


@pytest.fixture(scope="module")
def sparkling(spark: SparkSession) -> Iterator[SparkSession]:
    """Let commands that a module runs in this process use the suite's session: Java takes long to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "spark_session", lambda *_words, **_options: nullcontext(spark))
        yield spark


@pytest.fixture(autouse=True)
def code_generation(request: pytest.FixtureRequest) -> None:
    """Compile plans, or not, by the folder of the test."""
    if "spark" in request.fixturenames:
        session, is_compiled = request.getfixturevalue("spark"), request.path.parent.name in COMPILED
        for name, values in CODE_GENERATION.items():
            session.conf.set(name, values[is_compiled])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the session, so that `-m "not spark"` leaves out all of it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Quote what Java wrote last where a test fails because Java is gone: its log goes with the session."""
    report = yield
    session = getattr(item, "funcargs", {}).get("spark")
    if report.failed and report.when != "teardown" and session is not None:
        status = session.sparkContext._gateway.proc.poll()
        if status is not None:
            said = item.config.stash[JAVA_LOG].read_text(errors="replace")
            report.sections.append((f"Java has ended with {status}", said[-LAST_WORDS:]))
    return report


def execution_of(frame):
    """Return how Spark would run a query; PySpark shows it to Java alone."""
    return frame._jdf.queryExecution()
