"""A recorded frame keeps what was attached about its publisher, in the journal, in Parquet and for Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.log.format.records import type_id_of
from maia.log.format.segments import message_of, row_of
from maia.spark.governed.opener import frame_of_row
from maia.wire import decode

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "wire" / "messages.json").read_text())


@pytest.mark.parametrize("name", ["CarriedWithAuthor", "SealedWithAuthor"])
def test_a_frame_with_its_author_comes_back_from_a_row_as_it_travelled(name: str):
    data = bytes.fromhex(next(one["bytes"] for one in VECTORS if one["name"] == name))
    sent = decode(data)
    assert type_id_of(data) == sent.type_id
    row = row_of(data, position=7, recorded_at=9)
    assert message_of(row.header, row.parts) == data
    whole = dict.fromkeys(column.uid for column in sent.columns) | dict(row.parts)
    read = frame_of_row(row.header, whole)
    assert (type(read).__name__, read.author) == (name, sent.author)
