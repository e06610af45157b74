"""A batch becomes the same frames under the same numbers, however Spark computed it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.spark.sink.writer import FRAMES_PER_BATCH_MAX, first_number, frames_of, in_one_order, stream_of
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
@given(rows, st.randoms(use_true_random=False))
@example([{"plate": None}, {"plate": "a"}], __import__("random").Random(1))
def test_the_order_of_rows_depends_on_nothing_but_the_rows(some, chance) -> None:
    again = list(some)
    chance.shuffle(again)
    one, other = (
        in_one_order(pa.Table.from_pylist(few, SCHEMA), SCHEMA.names, ["speed"]) for few in (some, again)
    )
    assert one.to_pylist() == other.to_pylist()
    assert list(frames_of(one)) == list(frames_of(other))


def test_rows_come_in_the_order_that_was_asked_for() -> None:
    table = pa.table({"plate": ["b", "a", "c"], "speed": [1, 2, 0]})
    assert in_one_order(table, ["plate", "speed"], ["speed"])["plate"].to_pylist() == ["c", "b", "a"]


def test_long_rows_make_smaller_frames_and_no_row_is_lost() -> None:
    table = pa.table({"plate": [str(number) * 100_000 for number in range(9)]})
    frames = list(frames_of(table))
    assert len(frames) > 1
    assert [one for frame in frames for one in frame["plate"].to_pylist()] == table["plate"].to_pylist()


def test_batches_have_numbers_of_their_own_that_grow() -> None:
    assert first_number(0) == 0
    assert first_number(8) - first_number(7) == FRAMES_PER_BATCH_MAX
    for wrong in (-1, 1 << 42):
        with raises("INPUT-SPARK-BATCH-SIZE"):
            first_number(wrong)


def test_queries_and_types_have_streams_of_their_own() -> None:
    streams = {stream_of(query, kind) for query in ("a", "b") for kind in (b"1", b"2")}
    assert len(streams) == 4
    assert stream_of("a", b"1") == stream_of("a", b"1")
    assert {len(one) for one in streams} == {16}
