"""A notebook at one organisation: live events and a recorded log as tables, sealed and plain, no Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.errors import AnalysisException

import maia
from maia.clock import system_now
from maia.credentials.identity import identity_to_text
from maia.errors import Refusal
from maia.keystore.key_files import load_signing_key
from maia.log.disk.event_log import EventLog
from maia.log.format.manifest import MissingRun
from maia.net.status_endpoint import read_door
from maia.profile.profile import read_profile
from maia.spark.errors import told_by_spark
from maia.spark.open_log import _reader
from maia.spark.source.data_source import register_spark
from maia.testing import in_a_loop, raises, wait_until
from maia.types import type_id
from support.coalition import PROVIDER, TRUST, statement
from support.processes import running_maia

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
VALUES = (142, 7, 101)
NOTEBOOK = Path(__file__).parents[2] / "examples" / "recorded_log.ipynb"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[maia.Organisation]:
    """A hospital with a sealed type and a plain one, each with events in the log."""
    made = maia.Organisation.create(tmp_path_factory.mktemp("home") / "hospital")
    made.define("LabResult", sealed=True, patient="string", ward="string", value="int", taken="timestamp")
    made.define("Notice", text="string", urgent="bool")
    made.add_member("lab", may=["publish:LabResult", "publish:Notice"])
    only = {"only": ["ward", "value", "taken"], "where": "value > 100"}
    made.add_member("office", may="subscribe:LabResult", **only)
    made.add_member("porter", may="subscribe:Notice")
    with ExitStack() as stack:
        for name, words in (("domain", ("domain", "serve")), ("broker", ("broker",))):
            folder = made.folder / f"{name}-output"
            folder.mkdir()
            stack.enter_context(running_maia(*words, "--config", made.folder / f"{name}.toml", cwd=folder))
            wait_until(lambda out=folder / "out.log": "listening" in out.read_text())
        with maia.connect(made.folder / "lab.maia") as lab:
            for value in VALUES:
                lab.publish("LabResult", patient="P-17", ward="3", value=value, taken=NOON)
            lab.publish("Notice", text="hello")
        yield made


def read(hospital: maia.Organisation, who: str, work: Callable[[maia.RecordedLog], bool]) -> None:
    """Read until there is something: a journal becomes a segment within seconds.

    On a machine that is too busy, a list of revocations comes late, and a table asks to be asked for again.
    """

    def is_done() -> bool:
        try:
            with maia.open_log(as_=hospital.folder / f"{who}.maia") as log:
                return work(log)
        except Refusal as problem:
            if problem.code != "PIPELINE-GRANT-ENDED":
                raise
            return False

    wait_until(is_done, within_s=120)


def test_a_log_is_a_table_under_the_readers_rights(hospital: maia.Organisation) -> None:
    read(hospital, "office", has_what_the_office_may_see)
    with maia.open_log(hospital.folder / "log", as_=hospital.folder / "lab.maia") as log:
        assert log.types() == ("LabResult", "Notice")
        with pytest.raises(maia.Refusal):
            log.table("LabResult")  # it may publish, and read nothing
    assert repr(log) == f"<RecordedLog {hospital.folder / 'log'} as lab, closed>"
    with pytest.raises(maia.Unavailable) as closed:
        log.table("LabResult")
    assert closed.value.code == "UNAVAILABLE-LOG-CLOSED"


def has_what_the_office_may_see(log: maia.RecordedLog) -> bool:
    whole = log.table("LabResult").to_arrow()
    if whole.num_rows < 2:
        return False
    row = {"patient": None, "ward": "3", "value": 142, "taken": NOON}
    assert sorted(whole.to_pylist(), key=repr) == [{**row, "value": 101}, row]
    assert log.types() == ("LabResult",)  # it knows no other
    period = {"since": NOON, "until": "2100-01-01T00:00:00Z"}
    table = log.table("LabResult", "value < 140", columns=["value", "taken"], **period)
    frame = table.to_pandas()
    assert (str(frame["value"].dtype), list(frame["value"])) == ("Int64", [101])
    assert table.to_polars()["taken"].to_list() == [NOON]
    assert [batch.num_rows for batch in log.table("LabResult", with_meta=True).batches()]
    assert repr(table) == f"<RecordedTable LabResult (value, taken) of {log!r}>"
    return True


def test_a_log_and_its_tables_say_what_they_are_known_to_miss(
    hospital: maia.Organisation, tmp_path: Path
) -> None:
    """D17: with its number in the table, in a warning, and on request as a refusal."""
    read(hospital, "office", lambda log: log.table("LabResult").to_arrow().num_rows == 2)
    copy, office = tmp_path / "log", hospital.folder / "office.maia"
    shutil.copytree(hospital.folder / "log", copy)
    lacks = MissingRun(type_id(hospital.principal, "LabResult"), b"p" * 32, b"s" * 16, 3, 9)
    with EventLog.open(copy) as own:
        own.note_missing([lacks], system_now())
    with maia.open_log(copy, as_=office) as log:
        table = log.table("LabResult")
        assert table.describe()["missing"] == 7
        with pytest.warns(UserWarning, match="lack 7 publications of LabResult"):
            assert table.to_arrow().num_rows == 2
    with (
        maia.open_log(copy, as_=office, require_complete=True) as log,
        pytest.raises(maia.Unavailable) as refused,
    ):
        log.table("LabResult").to_arrow()
    assert refused.value.code == "UNAVAILABLE-LOG-INCOMPLETE"
    with EventLog.open(copy) as own:  # the broker found them
        own.note_missing([], system_now())
    with maia.open_log(copy, as_=office, require_complete=True) as log:
        assert log.table("LabResult").to_arrow().num_rows == 2


def test_a_log_is_read_as_other_tables_of_spark_are(hospital: maia.Organisation, spark) -> None:
    """T5: by a format and options, in SQL too, as it was at a moment; filters reach the task."""
    read(hospital, "office", lambda log: log.table("LabResult").to_arrow().num_rows == 2)
    register_spark(spark)
    profile, place = str(hospital.folder / "office.maia"), str(hospital.folder / "log")
    asked = spark.read.format("maia").option("profile", profile).option("log", place)
    table = asked.load("LabResult")
    assert sorted(row.value for row in table.collect()) == [101, 142]
    assert [row.value for row in table.where("value < 140").collect()] == [101]
    assert asked.option("columns", "value").load("LabResult").columns == ["value"]
    assert asked.option("asOf", "2020-01-01T00:00:00Z").load("LabResult").count() == 0
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW results USING maia OPTIONS "
        f"(profile '{profile}', log '{place}', type 'LabResult', asOf '1')"
    )
    assert spark.sql("SELECT count(*) FROM results").collect()[0][0] < 3
    for name, word, said in (
        ("durable", "x", "`durable` is of what is read live"),
        ("asof", "never", "INPUT-"),
        ("colums", "value", "did you mean `columns`"),
    ):
        with pytest.raises(AnalysisException, match=said):
            asked.option(name, word).load("LabResult").collect()
    with pytest.raises(AnalysisException, match="give option `log`, too"):
        spark.read.format("maia").option("profile", profile).option("columns", "value").load("LabResult")


def test_the_format_wants_all_or_nothing_where_it_is_told_to(
    hospital: maia.Organisation, spark, tmp_path: Path
) -> None:
    """D17: a table is refused while its log is known to lack something, and a stream waits."""
    read(hospital, "office", lambda log: log.table("LabResult").to_arrow().num_rows == 2)
    copy, office = tmp_path / "log", str(hospital.folder / "office.maia")
    shutil.copytree(hospital.folder / "log", copy)
    lacks = MissingRun(type_id(hospital.principal, "LabResult"), b"p" * 32, b"s" * 16, 3, 9)
    with EventLog.open(copy) as own:
        own.note_missing([lacks], system_now())
    register_spark(spark)
    words = {"profile": office, "log": str(copy), "complete": "true"}
    table = spark.read.format("maia").options(**words).load("LabResult")
    with raises("UNAVAILABLE-LOG-INCOMPLETE", match="lack 7 publications"), told_by_spark():
        table.collect()
    seen: list[int] = []
    stream = spark.readStream.format("maia").options(**words).load("LabResult").writeStream
    query = stream.foreachBatch(lambda batch, _: seen.extend(row.value for row in batch.collect())).start()
    try:
        with maia.open_log(copy, as_=office) as log:
            wait_until(lambda: query.lastProgress is not None)
            lag = log.lag(query)
            assert (lag.missing, lag.is_held, lag.events > 0, seen) == (7, True, True, [])
            with EventLog.open(copy) as own:
                own.note_missing([], system_now())
            wait_until(lambda: sorted(seen) == [101, 142])
    finally:
        query.stop()
    assert table.count() == 2


def test_views_for_sql_say_which_columns_are_hidden_and_why(hospital: maia.Organisation, spark) -> None:
    def is_described(log: maia.RecordedLog) -> bool:
        if log.table("LabResult").to_arrow().num_rows < 2:
            return False
        assert log.register(spark) == {"LabResult": "LabResult"}
        said = {row.col_name: row.comment for row in spark.sql("DESCRIBE LabResult").collect()}
        assert said["patient"] == "string, hidden: your right does not show it"
        assert said["value"] == "int, as it was published"
        assert spark.sql("SELECT max(value) FROM LabResult").first()[0] == 142
        return True

    read(hospital, "office", is_described)


def test_the_notebook_of_the_examples_runs(
    hospital: maia.Organisation, spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cell by cell, in one session of Spark with the other tests."""
    read(hospital, "office", lambda log: log.table("LabResult").to_arrow().num_rows >= 2)
    monkeypatch.setenv("MAIA_PROFILE", str(hospital.folder / "office.maia"))
    monkeypatch.setattr("maia.spark.session.session.spark_session", lambda: nullcontext(spark))
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    known: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], known)  # noqa: S102 - our own notebook
    assert known["views"] == {"LabResult": "LabResult"}


def test_spark_is_not_even_imported_for_it(hospital: maia.Organisation) -> None:
    read(hospital, "porter", lambda log: log.table("Notice").to_arrow().num_rows == 1)
    script = (
        "import sys, maia; sys.modules.update(pyspark=None, py4j=None)\n"
        "log = maia.open_log(as_=sys.argv[1])\n"  # neither closed nor kept
        "print(log.table('Notice').to_arrow().to_pylist())"
    )
    words = [sys.executable, "-c", script, str(hospital.folder / "porter.maia")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[{'text': 'hello', 'urgent': None}]\n"), done.stderr


def test_a_notebook_opens_a_client_and_closes_it(hospital: maia.Organisation) -> None:
    office = maia.connect(hospital.folder / "office.maia").open()
    lab = maia.connect(hospital.folder / "lab.maia").open()
    subscription = office.subscribe("LabResult")
    publisher = lab.advertise("LabResult")
    for value in (150, 160, 170):
        publisher.publish(patient="P-1", ward="4", value=value, taken=NOON)
    publisher.flush()
    assert repr(publisher) == "<Publisher LabResult published=3>"
    (event,) = subscription.some(1, timeout_s=60)
    assert event.published_at.datetime.tzinfo is UTC
    shown = "<LabResult patient=hidden ward='4' value=150 taken=2026-11-15T12:00:00Z published_at="
    assert repr(event).startswith(shown)
    assert subscription.to_arrow(2).column("value").to_pylist() == [160, 170]
    assert repr(subscription) == "<Subscription LabResult waiting=0>"
    nothing = subscription.to_pandas(5, seconds=0.2)
    assert (len(nothing), list(nothing.columns)) == (0, ["patient", "ward", "value", "taken"])
    with pytest.raises(TypeError, match="how many"):
        subscription.to_arrow()
    assert " of hospital, connected to ed25519:" in repr(office)
    door = read_door(hospital.folder / "broker-data")
    with urlopen(f"http://{door.address}/metrics", timeout=60) as page:
        metrics = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines())
    assert float(metrics["maia_rows_delivered_total"]) >= float(metrics["maia_delivery_seconds_count"]) >= 3
    for client in (office, lab):
        client.close()
        client.close()
    assert repr(office).endswith(", closed>")
    with pytest.raises(maia.Unavailable):
        office.subscribe("LabResult")


@in_a_loop
async def test_a_loop_over_what_is_subscribed_to_needs_no_await(hospital: maia.Organisation) -> None:
    async with (
        maia.connect(hospital.folder / "lab.maia") as lab,
        maia.connect(hospital.folder / "porter.maia") as porter,
    ):
        first = await porter.subscribe("Notice")
        await lab.publish("Notice", text="one")
        assert (await anext(first))["text"] == "one"
        await first.unsubscribe()
        kept = await porter.subscribe("Notice", durable="round")
        await kept.unsubscribe()
        for text in ("two", "three", "four"):
            await lab.publish("Notice", text=text)
        # An event at which the loop was left was not done with, so it comes again.
        taken = [[event["text"] async for event in until_left(porter, left)] for left in ("three", "four")]
        assert [taken[0][:2], taken[1][-2:]] == [["two", "three"], ["three", "four"]]


async def until_left(porter: maia.Client, text: str) -> Iterator[maia.ReceivedEvent]:
    loop = aiter(porter.subscribe("Notice", durable="round"))
    async for event in loop:
        yield event
        if event["text"] == text:
            break
    await loop.aclose()


def test_a_log_is_read_with_the_statement_and_the_providers_of_the_profile(tmp_path: Path) -> None:
    """Requirements of publishers, and rules about them, are decided by these, as at a broker."""
    made = maia.Organisation.create(tmp_path / "hospital")
    porter = made.add_member("porter").path
    key = load_signing_key(porter / "porter.key")
    said = statement(key, {"clearance": 3})
    (porter / "own.identity").write_text(identity_to_text(said), encoding="ascii")
    with (porter / "profile.toml").open("a", encoding="utf-8") as file:
        file.write(f'identity = "own.identity"\nproviders = ["{PROVIDER.principal}"]\n')
    identity = _reader(read_profile(porter)).identity
    assert identity is not None
    assert identity.trust == TRUST
    (shown,) = identity.verified(key.principal)
    assert shown.statement.attributes == {"clearance": 3}
