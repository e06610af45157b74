"""A batch becomes the same frames under the same numbers, however Spark computed it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.spark.sink.writer import (
    FRAMES_PER_BATCH_MAX,
    Ordered,
    digest_of,
    first_number,
    frames_of,
    stream_of,
)
from maia.testing.refusals import raises

SCHEMA = pa.schema(
    [
        ("plate", pa.string()),
        ("speed", pa.int64()),
        ("share", pa.float64()),
        ("is_late", pa.bool_()),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
    ]
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "plate": st.none() | st.text("ab", max_size=2),
            "speed": st.none() | st.integers(-2, 2),
            "share": st.none() | st.sampled_from([0.0, 1.5]),
            "is_late": st.none() | st.booleans(),
            "seen": st.none() | st.integers(0, 2),
            "raw": st.none() | st.binary(max_size=1),
        }
    ),
    max_size=12,
)


@pytest.mark.laws
@given(rows, st.randoms(use_true_random=False), st.integers(0, 12))
@example([{"plate": None}, {"plate": "a"}], __import__("random").Random(1), 1)
def test_the_order_of_rows_depends_on_nothing_but_the_rows(some, chance, cut) -> None:
    def batch(few):
        return pa.RecordBatch.from_pylist(few, SCHEMA)

    again = list(some)
    chance.shuffle(again)
    one, other = (
        list(Ordered(pa.Table.from_batches(few, SCHEMA), SCHEMA.names, ["speed"]).parts())
        for few in ([batch(some)], [batch(again[:cut]), batch(again[cut:])])
    )
    assert one == other
    assert list(frames_of(one)) == list(frames_of(other))
    assert digest_of(one) == digest_of(other)
    less = [part.slice(1) for part in one]
    assert (digest_of(less) == digest_of(one)) == (not some)


@pytest.mark.parametrize("rows_per_batch", [1 << 17, 1 << 16, 10_000])
def test_rows_come_in_their_order_however_many_batches_a_part_lies_in(rows_per_batch: int) -> None:
    numbers = pa.table({"speed": pa.array(range(1 << 17))})
    table = pa.Table.from_batches(numbers.to_batches(max_chunksize=rows_per_batch))
    parts = list(Ordered(table, ["speed"]).parts())
    assert len(parts) > 1
    assert pa.Table.from_batches(parts)["speed"].to_pylist() == numbers["speed"].to_pylist()


@pytest.mark.parametrize("length", range(500, 514, 2))
def test_frames_are_cut_alike_however_their_rows_came(length: int) -> None:
    texts = [f"{number:0{length}d}" for number in range(2048)]
    first, last = pa.table({"plate": texts[:1000]}), pa.table({"plate": texts[1000:]})
    ways = [[first, last], [last, first], [pa.table({"plate": texts})]]
    cuts = [
        [frame.num_rows for frame in frames_of(Ordered(pa.concat_tables(one), ["plate"]).parts())]
        for one in ways
    ]
    assert cuts[0] == cuts[1] == cuts[2]


def test_rows_come_in_the_order_that_was_asked_for() -> None:
    table = pa.table({"plate": ["b", "a", "c"], "speed": [1, 2, 0]})
    (part,) = Ordered(table, ["plate", "speed"], ["speed"]).parts()
    assert part["plate"].to_pylist() == ["c", "b", "a"]


def test_long_rows_make_smaller_frames_and_no_row_is_lost() -> None:
    table = pa.table({"plate": [str(number) * 100_000 for number in range(9)]})
    frames = list(frames_of(table.to_batches()))
    assert len(frames) > 1
    assert [one for frame in frames for one in frame["plate"].to_pylist()] == table["plate"].to_pylist()


def test_batches_have_numbers_of_their_own_that_grow() -> None:
    assert first_number(0) == 0
    assert first_number(8) - first_number(7) == FRAMES_PER_BATCH_MAX
    for wrong in (-1, 1 << 42):
        with raises("INPUT-SPARK-BATCH-SIZE"):
            first_number(wrong)


def test_queries_types_and_partitions_have_streams_of_their_own() -> None:
    streams = {
        stream_of(query, kind, part) for query in ("a", "b") for kind in (b"1", b"2") for part in (0, 1)
    }
    assert len(streams) == 8
    assert stream_of("a", b"1", 0) == stream_of("a", b"1", 0)
    assert {len(one) for one in streams} == {16}
