"""What is signed of a frame in the clear does not depend on which frames are signed or checked with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.sealing.frames.signed import draft_signed, drafts_signed, root_of_signed, roots_of_signed
from maia.wire.messages import Carried, CarriedSigned, Column
from support.sealing import BROKER, NOON, PUBLISHER, STREAM, TYPE_ID

RIGHT = bytes(range(32))
data = st.binary(max_size=3)
any_columns = st.lists(
    st.builds(Column, st.sampled_from(["plate", "speed"]), st.sampled_from([1, 2]), data), max_size=3
)
layouts = st.lists(st.tuples(st.sampled_from(["plate", "speed", "seen"]), st.integers(1, 3)), max_size=3)
of_one_layout = layouts.flatmap(
    lambda names: st.lists(st.tuples(*[st.builds(Column, st.just(u), st.just(k), data) for u, k in names]))
)


@pytest.mark.laws
@given(st.lists(any_columns, min_size=1, max_size=4) | of_one_layout)
@example([[Column("plate", 1, b"1")], [Column("speed", 1, b"1")]])
@example([[Column("plate", 1, b"1")], [Column("plate", 2, b"1")]])
@example([[Column("plate", 1, b"1")], []])
def test_a_frame_has_the_same_hash_among_others_as_alone(some) -> None:
    frames = [
        Carried(TYPE_ID, PUBLISHER.key, STREAM, number, int(NOON), 1, [], list(columns))
        for number, columns in enumerate(some)
    ]
    about = {"right": RIGHT, "at": int(NOON)}
    together = drafts_signed(frames, BROKER.principal, **about)
    assert together == [draft_signed(one, BROKER.principal, **about) for one in frames]
    drafted = [one.frame for one in together if isinstance(one.frame, CarriedSigned)]
    assert roots_of_signed(drafted) == [root_of_signed(one) for one in drafted]
