"""The stream reader by itself, over a real broker and without Spark: what Spark would ask, in its order."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from maia.clock import system_now
from maia.credentials import (
    Action,
    Authority,
    NetworkPattern,
    SignedCertificate,
    TypePattern,
    Validity,
    parse_name_pattern,
)
from maia.events import Instant
from maia.spark.errors import SparkProblem
from maia.spark.source.inbox import HeldFrame
from maia.spark.source.options import job_options
from maia.spark.source.right_desk import Right
from maia.spark.source.stream import MaiaStreamReader, Range, Rows, ranges_of
from maia.testing import grant, wait_until
from support.spark_city import CAMERA, SparkCity, spark_city

BILLING, STATISTICS = "billing office", "statistics office"
MANY = ReadMaxRows(1000)
Sent = TypeVar("Sent")
BEGIN = {"log": "", "position": ""}


def inbox_of(query):
    """Return what the reader of a query has received."""
    return query.reader._opened(BEGIN)


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCity]:
    with spark_city(tmp_path_factory.mktemp("city")) as running:
        yield running


def sent(thing: Sent) -> Sent:
    """Send something to a task, as Spark does."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


class Query:
    """One run of one query."""

    def __init__(self, city: SparkCity, who: str = BILLING, **more: object) -> None:
        self.reader = MaiaStreamReader(Right(job_options(city.options(who, **more))))

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def news(self, start: dict[str, object], limit: object = MANY) -> dict[str, object]:
        """Ask until something is there."""
        found = start

        def asked() -> bool:
            nonlocal found
            found = self.reader.latestOffset(start, limit)
            return found != start

        wait_until(asked)
        return found

    def plates(self, start: dict[str, object], end: dict[str, object]) -> list[str]:
        parts = [sent(part) for part in self.reader.partitions(start, end)]
        task = sent(self.reader)
        return [
            one for part in parts for batch in task.read(part) for one in batch["numberplate"].to_pylist()
        ]


def subscribed(city: SparkCity, name: str) -> None:
    """Let a durable subscription begin."""
    with Query(city, durable=name) as query:
        assert query.reader.latestOffset(BEGIN, MANY) == BEGIN


def test_what_was_not_committed_comes_again_and_what_was_does_not(city: SparkCity) -> None:
    subscribed(city, "a")
    city.publish("A1", "A2")
    with Query(city, durable="a") as query:
        first = query.news(BEGIN)
        assert query.plates(BEGIN, first) == ["A1", "A2"]
    city.publish("A3")
    with Query(city, durable="a") as query:  # the first batch was planned, and Spark died
        assert query.plates(BEGIN, first) == ["A1", "A2"]
        second = query.news(first)
        query.reader.commit(first)
        assert query.plates(first, second) == ["A3"]
    with Query(city, durable="a") as query:
        assert query.plates(first, second) == ["A3"]
        assert query.reader.latestOffset(second, MANY) == second


def test_a_commit_that_the_broker_did_not_hear_of_doubles_nothing(city: SparkCity) -> None:
    subscribed(city, "b")
    city.publish("B1")
    with Query(city, durable="b") as query:
        first = query.news(BEGIN)
    city.publish("B2")
    with Query(city, durable="b") as query:  # Spark had written down that the first batch was done
        second = query.news(first)
        assert query.plates(first, second) == ["B2"]


def test_a_batch_ends_at_its_limit_and_with_a_whole_frame(city: SparkCity) -> None:
    subscribed(city, "c")
    for rows in (2, 2, 5):
        city.publish(*["C"] * rows)
    with Query(city, durable="c") as query:
        ends, start = [], BEGIN
        wait_until(lambda: len(inbox_of(query).after(0)) == 3)
        for _ in range(3):
            end = query.news(start, ReadMaxRows(3))
            ends.append(len(query.plates(start, end)))
            start = end
        assert ends == [2, 2, 5]
        assert query.reader.latestOffset(BEGIN, ReadAllAvailable()) == start
        assert query.reader.reportLatestOffset() == start


def test_a_full_inbox_takes_no_more_until_a_batch_is_done(city: SparkCity) -> None:
    subscribed(city, "d")
    with Query(city, durable="d", maxRowsPerBatch=2) as query:
        query.reader.latestOffset(BEGIN, MANY)
        for number in range(8):
            city.publish(f"D{number}")
        inbox = inbox_of(query)
        wait_until(lambda: len(inbox.after(0)) == 4)
        assert len(inbox.after("", wait_s=0.5)) == 4
        seen, start = [], BEGIN
        while len(seen) < 8:
            end = query.news(start, query.reader.getDefaultReadLimit())
            seen += query.plates(start, end)
            start = end
        assert seen == [f"D{number}" for number in range(8)]


def test_more_frames_than_a_broker_sends_unacknowledged_go_through(city: SparkCity) -> None:
    subscribed(city, "e")
    with city.client(CAMERA, city.server) as client:
        publisher = client.advertise(city.cast.definition)
        for number in range(600):
            publisher.publish_many([{"numberplate": f"{number}", "location": "Victoria"}])
        publisher.flush()
    with Query(city, durable="e") as query:
        seen, start = [], BEGIN
        while len(seen) < 600:
            end = query.news(start)
            seen += query.plates(start, end)
            start = end
        assert seen == [f"{number}" for number in range(600)]


def test_a_run_that_is_to_end_reads_nothing_that_was_published_after_it_began(city: SparkCity) -> None:
    subscribed(city, "f")
    city.publish("F1")
    with Query(city, durable="f") as query:
        query.reader.prepareForTriggerAvailableNow()
        city.publish("F2")
        first = query.news(BEGIN)
        wait_until(lambda: len(inbox_of(query).after(0)) == 2)
        assert query.plates(BEGIN, first) == ["F1"]
        assert query.reader.latestOffset(first, MANY) == first
    with Query(city, durable="f") as query:
        assert query.plates(first, query.news(first)) == ["F2"]


def test_without_a_durable_name_what_a_process_held_is_gone_with_it(city: SparkCity) -> None:
    with Query(city) as query:
        query.reader.latestOffset(BEGIN, MANY)
        city.publish("G1")
        first = query.news(BEGIN)
        assert query.plates(BEGIN, first) == ["G1"]
    with Query(city) as query:
        assert query.plates(BEGIN, first) == []
        assert query.reader.latestOffset(first, MANY) == first
        city.publish("G2")
        assert query.plates(first, query.news(first)) == ["G2"]


def test_a_reader_that_subscribes_next_under_a_name_takes_it_over(city: SparkCity) -> None:
    subscribed(city, "h")
    with Query(city, durable="h") as query, Query(city, durable="h") as other:
        query.reader.latestOffset(BEGIN, MANY)
        other.reader.latestOffset(BEGIN, MANY)
        with pytest.raises(SparkProblem, match=r"\[REFUSED-DURABLE-TAKEN-OVER\]"):
            query.news(BEGIN)


@pytest.mark.parametrize(
    "offset",
    [{}, {"log": "", "position": 1}, {"log": "", "position": "1"}, {"log": 1, "position": ""}],
)
def test_an_offset_that_is_none_of_ours_is_refused(city: SparkCity, offset: dict[str, object]) -> None:
    with Query(city, durable="i") as query, pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-OFFSET\]"):
        query.reader.latestOffset(offset, MANY)


def test_the_checkpoint_of_another_broker_is_refused(city: SparkCity) -> None:
    with Query(city, durable="i") as query, pytest.raises(SparkProblem, match=r"\[UNAVAILABLE-SPARK-LOG\]"):
        query.reader.latestOffset({"log": "ed25519:00", "position": "00" * 24}, MANY)


def test_a_batch_that_does_not_come_again_is_reported(
    city: SparkCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed(city, "j")
    with Query(city, durable="j") as query:
        inbox = inbox_of(query)
        monkeypatch.setattr(inbox, "_wait_s", 1.0)  # once the subscription stands
        log = inbox.log
        with pytest.raises(SparkProblem, match=r"\[UNAVAILABLE-SPARK-REPLAY\]"):
            query.reader.partitions({"log": log, "position": ""}, {"log": log, "position": "00" * 24})


def test_a_batch_that_another_reader_acknowledged_is_reported_or_left_out_at_will(
    city: SparkCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed(city, "m")
    city.publish("M1")
    with Query(city, durable="m") as query:
        first = query.news(BEGIN)
        query.reader.commit(first)
        wait_until(lambda: query.reader.latestOffset(first, MANY) == first)
    city.publish("M2")
    with Query(city, durable="m") as query:
        monkeypatch.setattr(inbox_of(query), "_wait_s", 1.0)  # once the subscription stands
        with pytest.raises(SparkProblem, match=r"\[UNAVAILABLE-SPARK-REPLAY\]"):
            query.reader.partitions(BEGIN, first)
    with Query(city, durable="m", failOnDataLoss="false") as query:
        monkeypatch.setattr(inbox_of(query), "_wait_s", 1.0)
        assert query.plates(BEGIN, first) == []
        assert query.plates(first, query.news(first)) == ["M2"]


def test_rows_on_their_way_do_not_show(city: SparkCity) -> None:
    """Of a log the driver has none of them; without one it has all, for the one task that reads them."""
    subscribed(city, "k")
    city.publish("SECRET 1")
    with Query(city, durable="k") as query:
        (part,) = query.reader.partitions(BEGIN, query.news(BEGIN))
        assert isinstance(part, Range)
        assert b"SECRET" not in pickle.dumps((part, query.reader))
        assert [frame.batch for frame in inbox_of(query).after("")] == [None]
    with Query(city) as query:
        query.reader.latestOffset(BEGIN, MANY)
        city.publish("SECRET 2")
        (part,) = query.reader.partitions(BEGIN, query.news(BEGIN))
        assert isinstance(part, Rows)
        assert "SECRET" not in repr(part)


def test_several_tasks_read_a_range_each_in_any_order_and_again(city: SparkCity) -> None:
    subscribed(city, "n")
    plates = [f"N{number:04}" for number in range(4000)]
    for at in range(0, 4000, 500):
        city.publish(*plates[at : at + 500])
    with Query(city, durable="n", readers=3) as query:
        end = BEGIN

        def has_all() -> bool:
            nonlocal end
            end = query.reader.latestOffset(BEGIN, ReadMaxRows(10_000))
            return sum(frame.rows for frame in inbox_of(query).after("")) == 4000

        wait_until(has_all)
        parts = query.reader.partitions(BEGIN, end)
        assert [part.value[2] for part in parts] == [1500, 1500, 1000]
        tasks = [sent(query.reader).read(sent(part)) for part in reversed(parts)]  # at once, the last first
        rows = [[one for batch in task for one in batch["numberplate"].to_pylist()] for task in tasks]
        assert [one for some in reversed(rows) for one in some] == plates
        assert query.plates(BEGIN, end) == plates, "a batch that runs again"
        query.reader.commit(end)
        city.publish("N last")
        assert query.plates(end, query.news(end)) == ["N last"]


def test_a_range_without_what_was_planned_fails_its_batch(city: SparkCity) -> None:
    subscribed(city, "o")
    city.publish("O1")
    with Query(city, durable="o") as query:
        (part,) = query.reader.partitions(BEGIN, query.news(BEGIN))
        first, last, _ = part.value
        with pytest.raises(SparkProblem, match=r"\[UNAVAILABLE-SPARK-REPLAY\] 1 events came of 2"):
            list(query.reader.read(Range(first, last, 2)))
        with pytest.raises(SparkProblem, match=r"\[REFUSED-DURABLE-OTHER-LOG\]"):
            list(query.reader.read(Range(first, "00" * 24, 2)))


def test_ranges_are_of_about_as_many_rows_each() -> None:
    frames = [HeldFrame(str(at), 0, 700, None) for at in range(10)]
    assert [part.value for part in ranges_of(frames, "", 4)] == [
        ("", "2", 2100), ("2", "5", 2100), ("5", "8", 2100), ("8", "9", 700),
    ]  # fmt: skip
    assert [part.value for part in ranges_of(frames[:1], "x", 4)] == [("x", "0", 700)]
    assert ranges_of([], "", 4) == []


# ------------------------------------------------------------ rights that end


def short_lived(city: SparkCity, *, seconds: int) -> str:
    """Write certificates that let the statistics office subscribe for some seconds; return their folder."""
    story, ccs = city.cast, city.cast.keys["CCS"]
    name, office = story.type_name, story.keys[STATISTICS].principal
    network = NetworkPattern(story.network.owner, parse_name_pattern(story.network.name))
    pattern = TypePattern(name.owner, parse_name_pattern(name.name), None)
    until_then = Validity(None, Instant(system_now() // 1_000_000 * 1_000_000 + seconds * 1_000_000))

    def granted(authority: Authority, validity: Validity) -> SignedCertificate:
        return grant(ccs, office, authority, validity=validity, comment="for a while")

    others = [one for one in story.certificates if one.certificate.subject != office]
    connect = granted(Authority(network, frozenset({Action.CONNECT})), Validity(None, None))
    subscribe = granted(Authority(pattern, frozenset({Action.SUBSCRIBE})), until_then)
    return str(city.certificates("short", [*others, connect, subscribe]))


def test_a_reader_whose_right_ends_is_stopped_and_does_not_come_back(city: SparkCity) -> None:
    """A44: a running stream ends at the next batch, and its restart from the checkpoint is refused."""
    folder = short_lived(city, seconds=20)
    with Query(city, STATISTICS, durable="l", credentials=folder) as query:
        query.reader.latestOffset(BEGIN, MANY)
        city.publish("L1")
        first = query.news(BEGIN)
        with pytest.raises(SparkProblem, match=r"\[(POLICY|CREDENTIAL)-") as ended:
            query.news(first)
        for ask in (
            lambda: query.reader.latestOffset(BEGIN, MANY),
            lambda: query.reader.partitions(BEGIN, first),
        ):
            with pytest.raises(SparkProblem, match=r"\[(POLICY|CREDENTIAL)-"):
                ask()  # not even what had arrived before
        assert "L1" not in str(ended.value)
    city.publish("L2")
    with Query(city, STATISTICS, durable="l", credentials=folder) as query:
        for ask in (
            lambda: query.reader.partitions(BEGIN, first),
            lambda: query.reader.latestOffset(first, MANY),
        ):
            with pytest.raises(SparkProblem, match=r"\[(POLICY|CREDENTIAL)-"):
                ask()
