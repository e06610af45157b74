"""A JSON payload means the same whether it is read at once or value by value."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import SigningKey, TypeName
from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN, Attribute, AttributeUid, Instant, Kind, Value
from maia.gateway.topic_table import PayloadForm, TopicRow, row_of
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.mqtt_city import whole_second

OWNER = SigningKey.from_seed(b"the owner of every kind of value")
ATTRIBUTES = tuple(Attribute(f"a-{kind.value}", AttributeUid(kind.value), kind) for kind in Kind)
TYPE = verify_definition(
    sign_definition(TypeDefinition(TypeName(OWNER.principal, "all.Kinds", "0"), None, ATTRIBUTES), OWNER),
    at=whole_second(),
)
FAST = row_of(
    mqtt="all", event_type=TYPE, form=PayloadForm.JSON, attribute=None, is_durable=False, is_retained=False
)
NAMES = st.sampled_from([one.name for one in ATTRIBUTES]) | st.just("strange")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["00ff", "0f0", "2026-11-15T12:00:00Z", "yesterday", "\ud800", "\0", "é", -0.0, 1e308, []]
    ),
)


def read(row: TopicRow, payload: bytes) -> dict[str, Value] | str:
    """Return the values that are there, or the sentence of the refusal."""
    try:
        found = row.columns_of({}, [payload], None)
        return {name: one for name, (one,) in sorted(found.items()) if one is not None}
    except BadInput as problem:
        return problem.message


@given(st.dictionaries(NAMES, VALUES, max_size=4).map(json.dumps) | st.text(max_size=12), st.booleans())
@example('{"a-string": "\\u0000"}', True)
@example('{"a-string": "\\ud800"}', True)
@example('{"a-float": -0.0, "a-int": -0}', True)
@example('{"a-float": 1e999}', True)
@example('{"a-timestamp": "2026-11-05T12:00:00-05:00"}', True)
@example('{"a-timestamp": "2026-11-05T12:00:00.000250Z"}', True)
@example('{"a-timestamp": "2026-W47-1T12:00:00.000250Z"}', True)
@example('{"a-timestamp": "20261105T120000.123.000250Z"}', True)
@example('{"a-timestamp": "0001-01-01T00:00:00.00025\u00b2Z"}', True)
def test_both_ways_to_read_a_payload_agree(text: str, escaped: bool) -> None:
    try:
        payload = text.encode() if escaped else json.dumps(json.loads(text), ensure_ascii=False).encode()
    except ValueError:
        payload = text.encode("utf-8", "surrogatepass")
    slow = row_of(
        mqtt="all",
        event_type=TYPE,
        form=PayloadForm.JSON,
        attribute=None,
        is_durable=False,
        is_retained=False,
    )
    object.__setattr__(slow, "json", None)
    one, other = read(FAST, payload), read(slow, payload)
    assert repr(one) == repr(other)


MOMENTS = st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant)


@given(st.lists(st.none() | MOMENTS, min_size=1, max_size=4), st.binary(max_size=4), st.text(max_size=4))
@example([Instant(0), Instant(-1), Instant(1_000_000)], b"", "")
def test_a_payload_is_written_as_json_writes_its_values(
    moments: list[Instant | None], some: bytes, text: str
) -> None:
    rows = len(moments)
    columns = {"a-timestamp": moments, "a-bytes": [some] * rows, "a-string": [None, *[text] * (rows - 1)]}
    for at, (_, payload, _) in enumerate(FAST.messages_of(columns, rows)):
        said = {"a-string": columns["a-string"][at], "a-timestamp": moments[at], "a-bytes": some.hex()}
        texts = {name: str(one) for name, one in said.items() if one is not None}
        assert json.loads(payload) == texts
    assert FAST.messages_of({}, 1) == [("all", b"{}", "application/json")]
