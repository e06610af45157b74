"""What holds for every type that is defined from a sample: it accepts the sample."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.cli.participate.json_events import event_from_line, event_from_words
from maia.events import Attribute, Instant, attribute_uid
from maia.types import TypeDefinition, check_event
from maia.types.foreign_schemas import BadSchema, schema_from_text
from support.types import numberplate

pytestmark = pytest.mark.laws

NOW = Instant.parse("2026-11-15T12:00:00Z")
TEXTS = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0\r\n"), min_size=1, max_size=12
)
MOMENTS = st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat())
WIDE = st.integers(-(2**70), 2**70)
NUMBERS = WIDE | st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.sampled_from(
    (st.integers(), WIDE, NUMBERS, st.booleans(), MOMENTS, TEXTS, MOMENTS | TEXTS, st.none())
)
NAMES = ("a", "b", "c", "d")


def type_of(text: str, **options: object) -> TypeDefinition:
    found = schema_from_text(text, **options).attributes
    return numberplate(
        *(Attribute(one.name, attribute_uid(str(uid)), one.kind) for uid, one in enumerate(found))
    )


@st.composite
def samples(draw) -> list[dict[str, object]]:
    columns = {name: draw(COLUMNS) for name in NAMES}
    optional = {name: st.none() | column for name, column in columns.items()}
    return draw(st.lists(st.fixed_dictionaries({}, optional=optional), min_size=1, max_size=6).filter(any))


@given(samples(), st.sampled_from(["an array", "lines"]))
def test_a_type_defined_from_objects_accepts_each_of_them(sample, form) -> None:
    lines = [json.dumps(row) for row in sample]
    event_type = type_of("\n".join(lines) if form == "lines" else f"[{','.join(lines)}]")
    for line in lines:
        event = event_from_line(line, event_type, now=NOW)
        check_event(event, event_type)
        assert event.keys() == json.loads(line).keys()


ODD_CELLS = st.sampled_from(["", "true", "false", "True", "007", "+1", "1e5", "-0"])
CELLS = ODD_CELLS | TEXTS | MOMENTS | NUMBERS.map(str)


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=6))
def test_a_type_defined_from_rows_accepts_each_of_them(rows) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([NAMES, *rows])
    event_type = type_of(written.getvalue(), file_name="sample.csv")
    for row in rows:
        words = [f"{name}={cell}" for name, cell in zip(NAMES, row, strict=True) if cell]
        check_event(event_from_words(words, event_type, now=NOW), event_type)


KEYWORDS = st.sampled_from(["type", "properties", "fields", "name", "anyOf", "$ref", "$schema", "x"])
LEAVES = (
    st.none() | st.integers() | st.sampled_from(["record", "object", "string", "long", "#/properties/x", "x"])
)
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYWORDS, inner))


@given(st.text(max_size=200) | DOCUMENTS.map(json.dumps))
def test_whatever_a_file_holds_it_is_described_or_refused_with_a_code(text) -> None:
    with suppress(BadSchema):
        schema_from_text(text)
